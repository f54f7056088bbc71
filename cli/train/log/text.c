/* The events of a training as people read them. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "cli/shared/terminal.h"
#include "cli/train/log/form.h"
#include "cli/train/log/summary.h"

/* A name, and a text that wraps in the next column. */
static void HAUL_PRINTF(3, 4) print_fact(const char *name, int indent, const char *format, ...)
{
    char    text[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    set_style(STYLE_DIM);
    printf("%-*s", indent, name);
    set_style(STYLE_PLAIN);
    print_wrapped(text, indent, indent);
}

enum { START = 8, END = 13 }; /* columns before the facts of the start, and of the end */

static const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

const char *measured_on(bool validation)
{
    return validation ? "validation" : "test";
}

static void append(char *text, size_t size, const char *format, ...) HAUL_PRINTF(3, 4);
static void append(char *text, size_t size, const char *format, ...)
{
    size_t  used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

/* ---- the start ---- */

static void print_model(const report_start *s)
{
    haul_device_properties p = {.model = ""};
    haul_device_describe(s->device, &p);
    print_fact("model", START, "%s on %s (%s)", s->model, haul_device_name(s->device), p.model);
}

/* "cifar10: 50,000 examples to train, 10,000 to test, 10 classes" */
static void print_data(const report_start *s)
{
    char text[512] = "";
    append(text, sizeof text, "%.*s: %s examples to train", (int)strcspn(s->train_name, " "), s->train_name,
           text_count(s->train_count));
    if (s->validation > 0)
        append(text, sizeof text, ", %s to validate", text_count(s->validation_count));
    if (s->test_name)
        append(text, sizeof text, ", %s to test", text_count(s->test_count));
    if (s->classes)
        append(text, sizeof text, ", %d classes", s->classes);
    print_fact("data", START, "%s", text);
    if (s->size.height)
        print_fact("size", START, "%s %lld x %lld%s",
                   s->size.mixed ? "pictures differ in size and are resized to" : "pictures are resized to",
                   (long long)s->size.width, (long long)s->size.height,
                   s->size.mixed ? "; --size N chooses another size" : "");
}

/* "resnet18.pt, without its fc.weight [1000,512], fc.bias [1000]: fc is new, for 3 classes; only fc is trained, ..." */
static void print_init(const report_start *s)
{
    char text[1024] = "";
    if (!s->init)
        return;
    visible_text(text, sizeof text / 2, s->init);
    if (*s->left_out)
        append(text, sizeof text, ", without its %s", s->left_out);
    if (s->head)
        append(text, sizeof text, "; %s is new, with %s output%s", s->head_name, text_count(s->head), plural(s->head));
    if (s->frozen)
        append(text, sizeof text, "; only %s is trained, %s of %s parameters", s->head_name, text_count(s->trained),
               text_count(s->parameters));
    print_fact("init", START, "%s", text);
}

/* "32 is the fastest that fits, with 5,120 examples/s; 128, the largest, has 4,800" */
static void print_choice(const report_start *s)
{
    const haul__batch_choice *c = s->choice;
    const haul__batch_trial  *chosen = haul__batch_find_trial(c, s->batch),
                            *most = haul__batch_find_trial(c, c->largest);
    char text[256] = "";
    append(text, sizeof text, "%s is ", text_count(s->batch));
    if (s->batch == c->largest)
        append(text, sizeof text, s->batch < s->train_count ? "the largest that fits" : "all examples");
    else
        append(text, sizeof text, "the fastest that fits");
    if (chosen && chosen->peak_bytes > c->room_bytes)
        append(text, sizeof text, ", and spills");
    if (chosen)
        append(text, sizeof text, "%s %s examples/s", s->batch == c->largest ? ", as fast as any:" : ", with",
               text_count(whole_number(chosen->per_second)));
    if (s->batch < c->largest)
        append(text, sizeof text, "; %s, the largest, %s", text_count(c->largest),
               most ? "has " : "takes too long to time");
    if (s->batch < c->largest && most)
        append(text, sizeof text, "%s", text_count(whole_number(most->per_second)));
    print_fact("batch", START, "%s", text);
}

static void print_plan(const report_start *s)
{
    char text[1024] = "";
    append(text, sizeof text, "%s epoch%s of %s step%s, batch ", text_count(s->epochs), plural(s->epochs),
           text_count(s->steps), plural(s->steps));
    if (s->accumulate > 1)
        append(text, sizeof text, "%s x ", text_count(s->accumulate));
    append(text, sizeof text, "%s%s", text_count(s->batch), s->pieces ? " in " : "");
    if (s->pieces)
        append(text, sizeof text, "%s piece%s", text_count(s->pieces), plural(s->pieces));
    if (s->ranks > 1)
        append(text, sizeof text, " on %d ranks", s->ranks);
    if (s->ranks > 1 && s->rank_devices)
        append(text, sizeof text, " (%s)", s->rank_devices);
    if (s->stages)
        append(text, sizeof text, ", which are stages (cuts %s)", s->cuts);
    append(text, sizeof text, ", %s, lr %g", s->optimizer, s->lr);
    if (!isnan(s->momentum) && s->momentum > 0)
        append(text, sizeof text, ", momentum %g", s->momentum);
    if (s->weight_decay > 0)
        append(text, sizeof text, ", weight decay %g", s->weight_decay);
    if (strcmp(s->schedule, "constant") != 0)
        append(text, sizeof text, ", schedule %s", s->schedule);
    if (s->augment)
        append(text, sizeof text, ", augment %s", s->augment);
    if (strcmp(s->precision, "f32") != 0)
        append(text, sizeof text, ", %s", s->precision);
    if (s->patience)
        append(text, sizeof text, ", patience %s", text_count(s->patience));
    append(text, sizeof text, ", seed %lld", (long long)s->seed);
    print_fact("train", START, "%s", text);
    if (s->choice->room_bytes)
        print_choice(s);
}

static void print_resumed(const report_start *s)
{
    if (s->resumed && s->done)
        print_fact("resumed", START, "in epoch %lld of %s after %s mini-batch%s; Ctrl+C stops and saves it again",
                   (long long)s->epoch, text_count(s->epochs), text_count(s->done), s->done == 1 ? "" : "es");
    else if (s->resumed)
        print_fact("resumed", START, "at the beginning of epoch %lld of %s; Ctrl+C stops and saves it again",
                   (long long)s->epoch, text_count(s->epochs));
    if (s->resumed && !strcmp(s->data_check, "unknown"))
        print_fact("data", START,
                   "is not compared with that of the training before: an older version of Haul wrote "
                   "the checkpoint and did not keep what the data was");
    if (*s->data_change)
        print_fact("changed", START, "the data: %s%s", s->data_change, s->begins_anew ? ". The epoch begins anew" : "");
    if (s->stored_epochs)
        print_fact("changed", START, "the schedule %s covers %s epochs now, %s before", s->schedule,
                   text_count(s->epochs), text_count(s->stored_epochs));
}

void print_start(const report *r, const report_start *s)
{
    print_model(s);
    print_data(s);
    print_init(s);
    print_plan(s);
    if (*s->chosen)
        print_fact("chosen", START, "%s", s->chosen);
    if (*s->place)
        print_fact("place", START, "%s", s->place);
    if (r->run->path)
        print_fact("run", START,
                   "%s/ keeps log.jsonl, config.json, checkpoint, best.safetensors, weights.safetensors, ledger.json, "
                   "memory.json",
                   r->run->path);
    print_resumed(s);
    if (s->resumed)
        summary_print_memory(s->step, s->device);
    else
        summary_print(s->step, s->device);
    summary_print_parts(s->step);
    putchar('\n');
}

/* ---- on the way ---- */

/* Without the sign that NaN may have. */
static double unsigned_nan(double value)
{
    return isnan(value) ? NAN : value;
}

/* One table of epochs, and of the mini-batches whose loss has a line. What a narrow terminal has no room for leaves it:
 * the time, then the words of the head and the accuracy in training, then the loss in training. */
enum { WIDE = 80, MEDIUM = 66, NARROW = 40, NARROWEST = 36 };

typedef struct epoch_row {
    char label[64], train_loss[32], train_accuracy[32], loss[32], accuracy[32], seconds[32];
    bool best;
} epoch_row;

static int digits_of(int64_t count)
{
    char text[32];
    return snprintf(text, sizeof text, "%lld", (long long)count);
}

/* Labels are "Epoch 1/5" and "batch 200", where there is room for words. */
static bool has_words(void)
{
    return output_room() >= NARROW;
}

static int label_width(const report *r)
{
    const int word = has_words() ? 6 : 0, epoch = word + 2 * digits_of(r->epochs) + 1,
              batch = word + digits_of(r->batches);
    return epoch > batch ? epoch : batch;
}

/* What long labels take has the same effect as a narrower terminal. */
static int row_room(const report *r)
{
    enum { USUAL = 9 };
    const int more = label_width(r) - USUAL;
    return output_room() - (more > 0 ? more : 0);
}

static void epoch_label(const report *r, int64_t epoch, char out[64])
{
    snprintf(out, 64, "%s%*lld/%lld", has_words() ? "Epoch " : "", digits_of(r->epochs), (long long)epoch,
             (long long)r->epochs);
}

/* Below the number of the epoch. */
static void batch_label(const report *r, int64_t batch, char out[64])
{
    snprintf(out, 64, "%s%*lld", has_words() ? "batch " : "", label_width(r) - (has_words() ? 6 : 0), (long long)batch);
}

/* Nothing stands after the last text. */
static void print_row(const report *r, const epoch_row *row)
{
    int  room = row_room(r), loss = room < MEDIUM ? 6 : 10;
    bool words = room >= MEDIUM, measured = *row->loss;
    printf("%-*s", label_width(r), row->label);
    if (room >= NARROWEST)
        printf("  %*s", loss, row->train_loss);
    if (words && measured)
        printf("  %8s", row->train_accuracy);
    if (measured)
        printf("  %*s  %8s", words ? 16 : loss, row->loss, row->accuracy);
    if (room >= WIDE && measured)
        printf("  %9s", row->seconds);
    if (row->best) {
        set_style(STYLE_GOOD);
        printf(words ? "  best" : " *");
        set_style(STYLE_PLAIN);
    }
    putchar('\n');
}

static void print_dim_row(const report *r, const epoch_row *row)
{
    set_style(STYLE_DIM);
    print_row(r, row);
    set_style(STYLE_PLAIN);
}

/* On a line of its own: with it, the row would be wider than most terminals. */
static void print_observation(const report_epoch *e, const char *observation)
{
    char wait[OBSERVATION], text[2 * OBSERVATION];
    observe_wait(e, wait);
    snprintf(text, sizeof text, "%s%s%s", observation, *observation && *wait ? "; " : "", wait);
    if (!*text)
        return;
    set_style(STYLE_DIM);
    printf("  ");
    print_wrapped(text, 2, 2);
    set_style(STYLE_PLAIN);
}

/* Once, above the first row. */
static void print_head(report *r)
{
    bool      words = row_room(r) >= MEDIUM;
    epoch_row row = {.label = ""};
    if (r->head_told)
        return;
    r->head_told = true;
    if (!words)
        print_wrapped("* the best epoch so far", 0, 2);
    snprintf(row.train_loss, sizeof row.train_loss, words ? "train loss" : "train");
    snprintf(row.train_accuracy, sizeof row.train_accuracy, "accuracy");
    snprintf(row.loss, sizeof row.loss, words ? "%s loss" : "%.5s", measured_on(r->validation));
    snprintf(row.accuracy, sizeof row.accuracy, "accuracy");
    snprintf(row.seconds, sizeof row.seconds, "time");
    print_dim_row(r, &row);
}

static void loss_text(double loss, char out[32])
{
    snprintf(out, 32, fabs(loss) < 1e4 ? "%.3f" : "%.3g", unsigned_nan(loss));
}

static void accuracy_text(double accuracy, char out[32])
{
    snprintf(out, 32, isnan(accuracy) ? "-" : "%.1f %%", 100 * accuracy);
}

/* Seconds in each row, with as many digits after the point as in the first one. */
static void seconds_text(report *r, double seconds, char out[32])
{
    if (!(r->first_epoch > 0))
        r->first_epoch = seconds;
    snprintf(out, 32, isnan(seconds) ? "-" : "%.*f s", r->first_epoch < 10 ? 3 : 1, seconds);
}

void print_line(report *r, const report_line *l)
{
    epoch_row row = {.label = ""};
    if (row_room(r) < NARROWEST)
        return;
    print_head(r);
    batch_label(r, l->batch, row.label);
    loss_text(l->loss, row.train_loss);
    print_dim_row(r, &row);
}

void print_epoch(report *r, const report_epoch *e, const char *observation)
{
    epoch_row row = {.best = e->best};
    print_head(r);
    epoch_label(r, e->epoch, row.label);
    loss_text(e->train_loss, row.train_loss);
    accuracy_text(e->train_accuracy, row.train_accuracy);
    loss_text(e->measured_loss, row.loss);
    accuracy_text(e->measured_accuracy, row.accuracy);
    seconds_text(r, e->seconds, row.seconds);
    print_row(r, &row);
    print_observation(e, observation);
}

void print_early_stop(const report_early_stop *s)
{
    char text[256];
    snprintf(
        text, sizeof text,
        "Stopped early after epoch %lld: the %s loss has not been lower than in epoch %lld (%.3f) for %lld epoch%s.",
        (long long)s->epoch, measured_on(s->validation), (long long)s->best_epoch, s->best_loss, (long long)s->patience,
        plural(s->patience));
    print_wrapped(text, 0, 2);
}

void complain_diverged(const report_diverged *d, const run_folder *run)
{
    char before[64] = "", what[48], config[4096];
    snprintf(what, sizeof what, "its %s %s", d->what, strcmp(d->what, "weights") != 0 ? "is" : "are");
    if (isfinite(d->loss_before))
        snprintf(before, sizeof before, "; the loss was %.4g before", d->loss_before);
    if (!run_has_checkpoint(run))
        complain("training diverged: %s not finite since epoch %lld, mini-batch %lld%s; try a learning rate below %g "
                 "(--lr)",
                 what, (long long)d->epoch, (long long)d->batch, before, d->lr);
    else
        complain("training diverged: %s not finite since epoch %lld, mini-batch %lld%s; the last good "
                 "checkpoint is kept in %s; start again with a learning rate below %g: haul train --config %s "
                 "--lr X --run NEW",
                 what, (long long)d->epoch, (long long)d->batch, before, run->path, d->lr,
                 shell_text(config, sizeof config, run->config));
}

void print_stopped(const report *r, int64_t epoch, int64_t batch)
{
    char text[256], quoted[4096];
    putchar('\n');
    snprintf(text, sizeof text, "Stopped in epoch %lld after mini-batch %lld of %lld. %s", (long long)epoch,
             (long long)batch, (long long)r->batches,
             r->run->path ? "Everything is saved." : "Nothing was saved: no --run DIR was given.");
    print_wrapped(text, 0, 2);
    if (r->run->path)
        print_fact("  go on", END, "haul train --run %s --resume", shell_text(quoted, sizeof quoted, r->run->path));
}

/* ---- the end ---- */

static void print_scores(const report *r, const report_done *d)
{
    if (d->tested)
        print_fact("  test", END, "%.1f %% right, loss %.3f, with the weights of epoch %lld", 100 * d->test_accuracy,
                   d->test_loss, (long long)d->best_epoch);
    else if (isfinite(r->last_accuracy))
        print_fact(d->validation ? "  validation" : "  test", END, "%.1f %% right in the last epoch",
                   100 * r->last_accuracy);
    if (d->best_epoch)
        print_fact("  best", END, "epoch %lld, %s loss %.3f", (long long)d->best_epoch, measured_on(d->validation),
                   d->best_loss);
}

static void print_moved(const haul_transfer_stats *moved, const char *device)
{
    if (moved->h2d_count + moved->d2h_count + moved->d2d_count)
        print_fact("  moved", END, "%s to %s in %s copies, %s back in %s", text_bytes(moved->h2d_bytes), device,
                   text_count(moved->h2d_count), text_bytes(moved->d2h_bytes), text_count(moved->d2h_count));
    else
        print_fact("  moved", END, "nothing: data and network are on %s", device);
}

/* How to train a run longer that has all its epochs. */
static void print_longer(const char *run, int64_t epochs)
{
    char quoted[4096];
    print_fact("", END, "haul train --run %s --resume --epochs %lld", shell_text(quoted, sizeof quoted, run),
               (long long)(2 * epochs));
}

static void print_saved(const report *r, const report_done *d)
{
    char quoted[4096];
    if (!r->run->path) {
        print_fact("  saved", END, "nothing: add --run DIR to keep the log and the weights");
        return;
    }
    print_fact("  saved", END, "%s", d->best_epoch ? r->run->best : r->run->weights);
    print_fact("", END, "%s", r->run->log);
    print_fact("  next", END, "haul predict --run %s", shell_text(quoted, sizeof quoted, r->run->path));
    print_fact("", END, "haul report %s", quoted);
    if (d->epochs >= r->epochs) /* else it stopped early */
        print_longer(r->run->path, d->epochs);
}

/* A number of bytes for each rank; of many ranks the first ones. */
static void print_ranks(const char *name, const char *end, const report_done *d, const double *bytes)
{
    enum { SHOWN = 8 };
    char text[400] = "";
    for (int r = 0; r < d->ranks && r < SHOWN; r++)
        append(text, sizeof text, "%s%s on rank %d", r ? ", " : "", text_bytes((int64_t)bytes[r]), r);
    print_fact(name, END, "%s%s%s", text, d->ranks > SHOWN ? ", ..." : "", end);
}

void print_done(const report *r, const report_done *d, const haul_transfer_stats *moved)
{
    const char *device = haul_device_name(d->device);
    chart_print(&r->losses, (double)d->epochs, measured_on(d->validation));
    putchar('\n');
    set_style(STYLE_BOLD);
    printf("Done  ");
    set_style(STYLE_PLAIN);
    printf("%s epoch%s in %s on %s\n", text_count(d->epochs), plural(d->epochs), text_seconds(report_elapsed(r)),
           device);
    print_scores(r, d);
    if (d->step_seconds > 0)
        print_fact("  step", END, "%s median; %s examples/s in the last epoch", text_seconds(d->step_seconds),
                   text_count(whole_number(r->last_speed)));
    if (d->ranks > 1)
        print_fact("  ranks", END, "%d; rank 0 sent %s to the others", d->ranks, text_bytes(d->group_bytes));
    if (d->exchange_seconds > 0)
        print_fact("  exchange", END, "%s of rank 0, %.0f %% of it behind backward passes",
                   text_seconds(d->exchange_seconds), 100 * d->hidden_share);
    if (d->state_bytes)
        print_ranks("  optimizer", "", d, d->state_bytes);
    if (*d->unfollowed)
        print_fact("  followed", END, "%s of %s %s; %s", text_count(d->followed),
                   text_count(d->followed + d->eager_steps), d->in_pieces ? "pieces of rank 0" : "steps",
                   d->unfollowed);
    if (d->ranks > 1 && d->rank_peak_bytes)
        print_ranks("  memory", " at the peak", d, d->rank_peak_bytes);
    else
        print_fact("  memory", END, "%s at the peak on %s", text_bytes(d->peak_bytes), device);
    if (d->spilled_bytes > d->spilled_to_file_bytes)
        print_fact("  spilled", END, "%s to host memory, for lack of room",
                   text_bytes(d->spilled_bytes - d->spilled_to_file_bytes));
    if (d->spilled_to_file_bytes)
        print_fact("  spilled", END, "%s to a file, for lack of host memory; steps waited %s for it",
                   text_bytes(d->spilled_to_file_bytes), text_seconds(d->spill_file_seconds));
    print_moved(moved, d->device == haul_cpu() && moved->h2d_count ? "other devices" : device);
    if (*d->audit)
        print_fact("  audit", END, "%s", d->audit);
    print_saved(r, d);
}

void print_finished(const report_end *end, const char *run)
{
    const char *epochs = text_count(end->epochs);
    char        quoted[4096];
    shell_text(quoted, sizeof quoted, run);
    print_visible(run, 0);
    if (end->patience)
        printf(" is finished: it stopped early, after %s epoch%s.\n", epochs, end->epochs == 1 ? "" : "s");
    else
        printf(" is finished: %s epoch%s trained.\n", epochs, end->epochs == 1 ? " is" : "s are");
    print_fact("  use", END, "haul predict --run %s", quoted);
    print_fact("  look", END, "haul report %s", quoted);
    if (end->patience)
        print_fact("  go on", END, "haul train --run %s --resume --patience %lld", quoted,
                   (long long)(2 * end->patience));
    else
        print_fact("  go on", END, "haul train --run %s --resume --epochs %lld", quoted, (long long)(2 * end->epochs));
}

#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"

void report_init(report *r, bool json, run_folder *run, int64_t batches)
{
    *r = (report){.json = json, .run = run, .last_loss = NAN, .last_accuracy = NAN, .batches = batches};
    progress_init(&r->bar, !json);
}

void report_close(report *r)
{
    progress_clear(&r->bar);
    chart_free(&r->losses);
}

/* The event goes to the log, and to standard output if that is to be JSON. Deletes it. */
static bool tell(report *r, cJSON *event)
{
    char *line = json_line(event);

    progress_clear(&r->bar);
    if (!line) {
        complain("memory is exhausted");
        return false;
    }
    bool told = run_log(r->run, line);
    if (told && r->json)
        fputs(line, stdout);
    cJSON_free(line);
    return told;
}

/* ---- the start ---- */

static void print_run(const char *path)
{
    printf("run     ");
    print_visible(path, 0);
    printf("/ keeps log.jsonl, checkpoint, weights.safetensors\n");
}

static void print_start(const report_start *s, const run_folder *run)
{
    haul_device_properties p = {.model = ""};

    haul_device_describe(s->device, &p);
    printf("model   %s, %s parameters, on %s (%s)\n", s->model, text_count(s->parameters), haul_device_name(s->device),
           p.model);
    printf("data    %s: %s examples; %s: %s", s->train_name, text_count(s->train_count), s->test_name,
           text_count(s->test_count));
    if (s->classes)
        printf("; %d classes", s->classes);
    printf("\ntraining %s epoch%s, batches of %s, %s with lr %g, ", text_count(s->epochs), s->epochs == 1 ? "" : "s",
           text_count(s->batch), s->optimizer, s->lr);
    if (strcmp(s->precision, "f32") != 0)
        printf("in %s, ", s->precision);
    printf("seed %lld\n", (long long)s->seed);
    if (run->path)
        print_run(run->path);
    if (s->resumed)
        printf("resumed in epoch %lld after %lld mini-batches\n", (long long)s->epoch, (long long)s->done);
    if (s->stored_lr > 0 && s->stored_lr != s->lr)
        printf("changed lr to %g, from %g\n", s->lr, s->stored_lr);
}

bool report_started(report *r, const report_start *s)
{
    cJSON *event = json_event("start");

    json_text(event, "device", haul_device_name(s->device));
    json_number(event, "parameters", (double)s->parameters);
    json_text(event, "model", s->model);
    json_text(event, "train_data", s->train_name);
    json_text(event, "test_data", s->test_name);
    json_number(event, "train_examples", (double)s->train_count);
    json_number(event, "test_examples", (double)s->test_count);
    json_number(event, "epochs", (double)s->epochs);
    json_number(event, "batch", (double)s->batch);
    json_text(event, "optimizer", s->optimizer);
    json_text(event, "precision", s->precision);
    json_number(event, "lr", s->lr);
    json_number(event, "seed", (double)s->seed);
    json_bool(event, "resumed", s->resumed);
    if (!tell(r, event))
        return false;
    if (!r->json)
        print_start(s, r->run);
    return output_works();
}

/* ---- on the way ---- */

/* Without the sign that NaN may have. */
static double unsigned_nan(double value)
{
    return isnan(value) ? NAN : value;
}

static double position(const report *r, int64_t epoch, int64_t batch)
{
    return (double)(epoch - 1) + (r->batches > 0 ? (double)batch / (double)r->batches : 0);
}

bool report_batch(report *r, int64_t epoch, int64_t batch, double loss)
{
    cJSON *event = json_event("batch");

    json_number(event, "epoch", (double)epoch);
    json_number(event, "batch", (double)batch);
    json_number(event, "loss", loss);
    if (!tell(r, event))
        return false;
    if (!r->json)
        printf("[Epoch: %lld, Mini-batch: %lld] loss: %.3f\n", (long long)epoch, (long long)batch, unsigned_nan(loss));
    r->last_loss = loss;
    chart_add(&r->losses, position(r, epoch, batch), loss);
    return output_works();
}

bool report_epoch_end(report *r, const report_epoch *e)
{
    cJSON *event = json_event("epoch");

    json_number(event, "epoch", (double)e->epoch);
    json_number(event, "train_loss", e->train_loss);
    json_number(event, "train_accuracy", e->train_accuracy);
    json_number(event, "test_loss", e->test_loss);
    json_number(event, "test_accuracy", e->test_accuracy);
    json_number(event, "images_per_second", e->images_per_second);
    if (!tell(r, event))
        return false;
    if (!r->json)
        printf("Epoch %lld/%lld: train loss %.3f, accuracy %.1f%%; test loss %.3f, accuracy %.1f%%\n",
               (long long)e->epoch, (long long)e->epochs, unsigned_nan(e->train_loss), 100 * e->train_accuracy,
               unsigned_nan(e->test_loss), 100 * e->test_accuracy);
    r->last_accuracy = e->test_accuracy;
    r->last_speed = e->images_per_second;
    if (!r->losses.point_count || r->losses.points[r->losses.point_count - 1].x < (double)e->epoch - 1)
        chart_add(&r->losses, (double)e->epoch - 0.5, e->train_loss); /* no mini-batch line came in this epoch */
    chart_mark(&r->losses, (double)e->epoch, e->test_loss);
    return output_works();
}

bool report_stopped(report *r, int64_t epoch, int64_t batch)
{
    cJSON *event = json_event("stopped");

    json_number(event, "epoch", (double)epoch);
    json_number(event, "batch", (double)batch);
    if (!tell(r, event))
        return false;
    if (r->json)
        return true;
    printf("Stopped in epoch %lld after %lld mini-batches. ", (long long)epoch, (long long)batch);
    if (r->run->path) {
        printf("Saved; go on with: haul train --run ");
        print_visible(r->run->path, 0);
        printf(" --resume\n");
    } else {
        printf("Nothing was saved: no --run DIR was given.\n");
    }
    return output_works();
}

void report_diverged(report *r, int64_t epoch, int64_t batch, double lr)
{
    cJSON *event = json_event("diverged");

    json_number(event, "epoch", (double)epoch);
    json_number(event, "batch", (double)batch);
    tell(r, event);
    if (!run_has_checkpoint(r->run))
        complain("the training has diverged by epoch %lld, mini-batch %lld: its loss is not finite; try a smaller --lr "
                 "than %g",
                 (long long)epoch, (long long)batch, lr);
    else
        complain("the training has diverged by epoch %lld, mini-batch %lld: its loss is not finite; the last good "
                 "checkpoint is kept; go on from it with haul train --run %s --resume --lr X, with X below %g",
                 (long long)epoch, (long long)batch, r->run->path, lr);
}

bool report_nothing_left(const char *run, bool json, int64_t epochs)
{
    if (json) {
        cJSON *event = json_event("finished");
        json_number(event, "epochs", (double)epochs);
        return json_print(event);
    }
    print_visible(run, 0);
    printf(" is finished: %s epoch%s trained. To go on, raise --epochs above %s.\n", text_count(epochs),
           epochs == 1 ? " is" : "s are", text_count(epochs));
    return output_works();
}

/* ---- the end ---- */

static void print_summary(const report *r, const report_done *d, const haul_transfer_stats *moved)
{
    const char *device = haul_device_name(d->device);

    chart_print(&r->losses, (double)d->epochs, "loss (*: mini-batches, o: on test data)");
    printf("\nDone: %s epoch%s on %s in %s\n", text_count(d->epochs), d->epochs == 1 ? "" : "s", device,
           text_seconds(d->seconds));
    if (isfinite(r->last_accuracy))
        printf("  test accuracy  %.1f%%\n", 100 * r->last_accuracy);
    if (d->step_seconds > 0)
        printf("  step           %s (median), %s examples/s in the last epoch\n", text_seconds(d->step_seconds),
               text_count((int64_t)r->last_speed));
    if (moved->h2d_count + moved->d2h_count + moved->d2d_count)
        printf("  transfers      %s to the device (%s), %s back (%s)\n", text_count(moved->h2d_count),
               text_bytes(moved->h2d_bytes), text_count(moved->d2h_count), text_bytes(moved->d2h_bytes));
    else
        printf("  transfers      none: data and network are on %s\n", device);
    printf("  peak memory    %s on %s\n", text_bytes(d->peak_bytes), device);
    if (r->run->path) {
        printf("  saved          ");
        print_visible(r->run->weights, 0);
        putchar('\n');
    } else {
        printf("  not saved      give --run DIR to keep the log and the weights\n");
    }
}

bool report_finished(report *r, const report_done *d)
{
    haul_transfer_stats moved = {0};
    cJSON              *event = json_event("done");

    haul_transfer_stats_get(&moved);
    json_text(event, "device", haul_device_name(d->device));
    json_number(event, "step_ms", 1e3 * d->step_seconds);
    json_number(event, "h2d_bytes", (double)moved.h2d_bytes);
    json_number(event, "d2h_bytes", (double)moved.d2h_bytes);
    json_number(event, "transfers", (double)(moved.h2d_count + moved.d2h_count + moved.d2d_count));
    json_number(event, "peak_bytes", (double)d->peak_bytes);
    json_number(event, "step_peak_bytes", d->step_peak_bytes ? (double)d->step_peak_bytes : NAN);
    json_number(event, "seconds", d->seconds);
    if (!tell(r, event))
        return false;
    if (!r->json)
        print_summary(r, d, &moved);
    return output_works();
}

/* ---- going on ---- */

static double number_in(const cJSON *object, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);

    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

static void restore_line(report *r, const char *line)
{
    cJSON      *event = cJSON_Parse(line);
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(event, "event"));
    double      epoch = number_in(event, "epoch");

    if (kind && !strcmp(kind, "batch") && r->batches > 0)
        chart_add(&r->losses, epoch - 1 + number_in(event, "batch") / (double)r->batches, number_in(event, "loss"));
    if (kind && !strcmp(kind, "epoch")) {
        if (!r->losses.point_count || r->losses.points[r->losses.point_count - 1].x < epoch - 1)
            chart_add(&r->losses, epoch - 0.5, number_in(event, "train_loss"));
        chart_mark(&r->losses, epoch, number_in(event, "test_loss"));
        r->last_accuracy = number_in(event, "test_accuracy");
    }
    cJSON_Delete(event);
}

void report_restore(report *r)
{
    FILE  *log = fopen(r->run->log, "r");
    char  *line = NULL;
    size_t room = 0;

    while (log && getline(&line, &room, log) > 0)
        restore_line(r, line);
    free(line);
    if (log)
        fclose(log);
}

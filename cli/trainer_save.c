/* Saving a training and going on with it. What adds up between two lines is part of the state, so that a training that
 * was stopped tells the same as one that was not. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "classes.h"
#include "cli.h"
#include "json.h"
#include "trainer.h"

/* ---- progress as JSON: numbers are texts, so that all their bits come back ---- */

static void put_integer(cJSON *object, const char *name, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRId64, value);
    json_text(object, name, text);
}

static void put_number(cJSON *object, const char *name, double value)
{
    char text[64];

    snprintf(text, sizeof text, "%a", value);
    json_text(object, name, text);
}

static bool get_text(const cJSON *object, const char *name, const char **out)
{
    *out = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return *out != NULL;
}

static bool get_integer(const cJSON *object, const char *name, int64_t *out)
{
    const char *text;
    char       *end;

    if (!get_text(object, name, &text))
        return false;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && !*end && !errno && *out >= 0;
}

static bool get_number(const cJSON *object, const char *name, double *out)
{
    const char *text;
    char       *end;

    if (!get_text(object, name, &text))
        return false;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out);
}

static cJSON *progress_json(trainer *t)
{
    cJSON *object = cJSON_CreateObject();

    put_integer(object, "log_bytes", t->run.log_bytes);
    put_number(object, "window_loss", haul_item(t->window_loss));
    put_integer(object, "window_batches", t->window_batches);
    put_number(object, "epoch_loss", t->epoch_loss);
    put_integer(object, "epoch_batches", t->epoch_batches);
    put_integer(object, "epoch_hits", haul_item_i64(t->epoch_hits));
    put_integer(object, "epoch_answers", t->epoch_answers);
    put_number(object, "epoch_start", t->epoch_start);
    put_number(object, "lr", t->lr);
    put_number(object, "momentum", t->momentum);
    put_integer(object, "best_epoch", t->best.epoch);
    put_number(object, "best_loss", t->best.loss);
    put_integer(object, "stalled", t->best.stalled);
    put_number(object, "elapsed", report_elapsed(&t->report));
    return object;
}

/* ---- saving ---- */

static bool write_files(trainer *t, const char *const texts[4], bool weights)
{
    haul_text_pair extra[] = {{RUN_OPTIONS_KEY, texts[0]},
                              {RUN_PROGRESS_KEY, texts[1]},
                              {RUN_CLASSES_KEY, texts[2]},
                              {RUN_INPUT_KEY, texts[3]}};

    if (weights && haul_save_weights(t->run.weights, t->net)) {
        complain_error();
        return false;
    }
    if (haul_save_checkpoint(t->run.checkpoint, t->net, t->optimizer, .position = &t->position,
                             .schedules = &t->schedule, .schedule_count = t->schedule != NULL, .extra = extra,
                             .extra_count = 4)) {
        complain_error();
        return false;
    }
    return true;
}

/* The tensors of the network and of the optimizer, for free; NULL on failure. */
static haul_named_tensor *list_state(trainer *t, int *count)
{
    int tensors = haul_module_tensors(t->net, NULL, 0), states = haul_optimizer_state(t->optimizer, NULL, 0);

    if (tensors < 0 || states < 0)
        return NULL;
    *count = tensors + states;
    haul_named_tensor *all = calloc((size_t)*count + 1, sizeof *all);
    if (!all)
        haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    else if (haul_module_tensors(t->net, all, tensors) >= 0 &&
             haul_optimizer_state(t->optimizer, all + tensors, states) >= 0)
        return all;
    free(all);
    return NULL;
}

/* Add 0 to `sum` if all values are finite, NaN otherwise. */
static haul_status add_zeros(haul_tensor *sum, haul_tensor *values)
{
    haul_scope *scope = haul_scope_push();

    if (!scope)
        return haul_error_status();
    haul_set_grad_enabled(false);
    haul_tensor *zero = haul_sum(haul_mul_scalar(haul_detach(values), 0));
    haul_status  status = haul_add_into(sum, sum, haul_cast(haul_to(zero, haul_tensor_device(sum)), HAUL_F32));
    haul_scope_pop(scope);
    return status;
}

/* 0 if the loss, the network and the optimizer's state are finite, else NaN. The loss of a step is known before its
 * update is. */
static haul_status sum_zeros(trainer *t, haul_tensor **sum)
{
    int                count = 0;
    haul_named_tensor *all = list_state(t, &count);
    haul_status        status = HAUL_OK;

    if (!all)
        return haul_error_status();
    *sum = haul_mul_scalar(t->window_loss, 0);
    status = haul_tensor_check(*sum);
    for (int i = 0; i < count && !status; i++)
        status = add_zeros(*sum, all[i].tensor);
    free(all);
    return status;
}

static haul_status check_finite(trainer *t, bool *finite)
{
    haul_tensor *sum = NULL;
    haul_scope  *scope = haul_scope_push();

    if (!scope)
        return haul_error_status();
    haul_status status = sum_zeros(t, &sum);
    if (!status) {
        *finite = haul_item(sum) == 0;
        status = haul_error_status();
    }
    haul_scope_pop(scope);
    return status;
}

/* The largest tensor decides, and the optimizer has none that is larger than a parameter; its state may hold values
 * that a dry run cannot read. */
haul_status trainer_try_saving(trainer *t)
{
    haul_scope *scope = t->run.path ? haul_scope_push() : NULL;
    int         count = scope ? haul_module_tensors(t->net, NULL, 0) : 0;
    haul_status status = haul_error_status();

    if (!scope)
        return status;
    haul_named_tensor *all = count >= 0 ? calloc((size_t)count + 1, sizeof *all) : NULL;
    if (count >= 0 && !all)
        status = haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    if (all)
        haul_module_tensors(t->net, all, count);
    haul_tensor *sum = haul_mul_scalar(t->window_loss, 0);
    for (int i = 0; all && i < count && !status; i++)
        status = add_zeros(sum, all[i].tensor);
    free(all);
    haul_scope_pop(scope);
    return status;
}

static bool save_now(trainer *t, bool weights)
{
    char *texts[] = {json_compact(options_to_json(t->values)), json_compact(progress_json(t)),
                     json_compact(classes_to_json(t->data.train)), json_compact(input_form_to_json(&t->data.input))};
    bool  saved = false;

    if (haul_error_status())
        complain_error();
    else if (!texts[0] || !texts[1] || !texts[2] || !texts[3])
        complain("memory is exhausted");
    else
        saved = write_files(t, (const char *const *)texts, weights);
    for (int i = 0; i < 4; i++)
        cJSON_free(texts[i]);
    return saved;
}

/* What the next reading of the loss would have told, or else the weights. */
static haul_status note_divergence(trainer *t)
{
    double      mean;
    haul_status status = trainer_read_window(t, &mean);

    if (status || t->diverged)
        return status;
    if (!t->position.batch) /* the epoch before has just ended */
        t->position = (haul_training_position){.epoch = t->position.epoch - 1, .batch = t->report.batches};
    trainer_note_divergence(t, "weights", t->position.batch);
    return HAUL_OK;
}

bool trainer_save(trainer *t, bool weights)
{
    bool finite = false;

    if (!t->run.path)
        return true;
    if (check_finite(t, &finite) || (!finite && note_divergence(t))) {
        complain_error();
        return false;
    }
    if (!finite)
        return true;
    /* The checkpoint names how far the log goes. */
    if (haul_label_begin("saving")) {
        complain_error();
        return false;
    }
    bool saved = run_sync(&t->run) && save_now(t, weights);
    haul_label_end();
    t->saved_at = clock_seconds();
    return saved;
}

/* ---- going on ---- */

/* What the checkpoint says beyond the library's part. */
typedef struct progress {
    int64_t log_bytes, hits;
    double  window_loss, elapsed;
} progress;

static bool read_progress(trainer *t, const cJSON *object, progress *p)
{
    return get_integer(object, "log_bytes", &p->log_bytes) && get_number(object, "window_loss", &p->window_loss) &&
           get_integer(object, "window_batches", &t->window_batches) &&
           get_number(object, "epoch_loss", &t->epoch_loss) &&
           get_integer(object, "epoch_batches", &t->epoch_batches) && get_integer(object, "epoch_hits", &p->hits) &&
           get_integer(object, "epoch_answers", &t->epoch_answers) &&
           get_number(object, "epoch_start", &t->epoch_start) && get_number(object, "lr", &t->lr) &&
           get_number(object, "momentum", &t->momentum) && get_integer(object, "best_epoch", &t->best.epoch) &&
           get_number(object, "best_loss", &t->best.loss) && get_integer(object, "stalled", &t->best.stalled) &&
           get_number(object, "elapsed", &p->elapsed);
}

/* A schedule that covers another number of epochs now: the new one, after the steps that were made. */
static haul_status lay_schedule_anew(trainer *t)
{
    haul_status status = haul_optimizer_set(t->optimizer, 0, "lr", t->options->lr);

    if (!status)
        status = trainer_make_schedule(t);
    int64_t steps = (t->position.epoch - 1) * t->report.batches + t->position.batch;
    for (int64_t i = 0; i < steps && !status; i++)
        status = haul_schedule_step(t->schedule);
    return status;
}

static haul_status load_state(trainer *t, const progress *p)
{
    haul_status status = haul_load_checkpoint(t->run.checkpoint, t->net, t->optimizer, .position = &t->position,
                                              .schedules = &t->schedule, .schedule_count = t->schedule != NULL);

    if (!status && trainer_covers_other_epochs(t))
        status = lay_schedule_anew(t);
    if (!status)
        status = haul_fill_into(t->window_loss, p->window_loss);
    if (!status)
        status = haul_fill_into(t->window_finite, (double)t->window_batches);
    return status ? status : haul_fill_into(t->epoch_hits, (double)p->hits);
}

static void complain_incomplete(const trainer *t)
{
    complain("%s lacks a part of where the training stood", t->run.checkpoint);
}

static bool restore(trainer *t, const cJSON *object, progress *p)
{
    if (!read_progress(t, object, p)) {
        complain_incomplete(t);
        return false;
    }
    if (!load_state(t, p))
        return true;
    complain_error();
    return false;
}

/* Data that was exchanged or renamed would teach the network other answers than before. */
static bool check_classes(trainer *t)
{
    cJSON *classes = run_array(&t->run, RUN_CLASSES_KEY);
    bool   same = classes && classes_agree(t->data.train, classes, t->run.path);

    cJSON_Delete(classes);
    return same;
}

/* Is there an event "done" after so many bytes of the log? */
static bool log_says_done(const run_folder *run, int64_t log_bytes)
{
    static const char done[] = "{\"event\":\"done\"";
    FILE             *log = fopen(run->log, "r");
    char             *line = NULL;
    size_t            room = 0;
    bool              found = false;

    if (!log)
        return false;
    if (!fseeko(log, (off_t)log_bytes, SEEK_SET))
        while (!found && getline(&line, &room, log) > 0)
            found = !strncmp(line, done, sizeof done - 1);
    free(line);
    fclose(log);
    return found;
}

/* A run that was killed after its last epoch has its end left to do: the test of its best weights, the ledger and the
 * event "done". */
bool trainer_find_end(const trainer *t, report_end *out)
{
    const train_options *o = t->options;
    int64_t              epoch = run_next_epoch(&t->run), stalled = 0, log_bytes = 0;
    cJSON               *object = epoch > 0 ? run_object(&t->run, RUN_PROGRESS_KEY) : NULL;

    *out = (report_end){.epochs = epoch - 1};
    if (!object)
        return false;
    bool whole = get_integer(object, "stalled", &stalled) && get_integer(object, "log_bytes", &log_bytes) &&
                 get_number(object, "elapsed", &out->elapsed);
    cJSON_Delete(object);
    if (!whole) {
        complain_incomplete(t);
        return false;
    }
    if (epoch <= o->epochs && o->patience > 0 && stalled >= o->patience)
        out->patience = o->patience;
    out->finished = (epoch > o->epochs || out->patience) && log_says_done(&t->run, log_bytes);
    return true;
}

/* Was the run killed after it had written the checkpoint of its best epoch, and before the best weights? */
static bool restore_best(trainer *t)
{
    bool is_best = t->best.epoch && !t->position.batch && t->position.epoch == t->best.epoch + 1;

    return !is_best || trainer_keep_best(t);
}

bool trainer_load(trainer *t)
{
    if (!check_classes(t))
        return false;
    cJSON   *object = run_object(&t->run, RUN_PROGRESS_KEY);
    progress p = {0};
    bool     restored = object && restore(t, object, &p);

    cJSON_Delete(object);
    if (!restored || !run_open(&t->run, p.log_bytes))
        return false;
    report_restore(&t->report, p.elapsed);
    return restore_best(t);
}

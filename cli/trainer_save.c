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

static const char *const saved_options[] = {"model",    "data",         "device",    "epochs",     "batch", "lr",
                                            "momentum", "weight-decay", "optimizer", "precision",  "seed",  "shuffle",
                                            "workers",  "threads",      "log-every", "save-every", NULL};

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
    return object;
}

/* ---- saving ---- */

static bool write_files(trainer *t, const char *const texts[3], bool weights)
{
    haul_text_pair extra[] = {{RUN_OPTIONS_KEY, texts[0]}, {RUN_PROGRESS_KEY, texts[1]}, {RUN_CLASSES_KEY, texts[2]}};

    if (weights && haul_save_weights(t->run.weights, t->net)) {
        complain_error();
        return false;
    }
    if (haul_save_checkpoint(t->run.checkpoint, t->net, t->optimizer, .position = &t->position, .extra = extra,
                             .extra_count = 3)) {
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

/* Are the loss, the network and the optimizer's state finite? The loss of a step is known before its update is. */
static haul_status check_finite(trainer *t, bool *finite)
{
    int                count = 0;
    haul_named_tensor *all = list_state(t, &count);
    haul_scope        *scope = all ? haul_scope_push() : NULL;

    if (!scope) {
        free(all);
        return haul_error_status();
    }
    haul_tensor *sum = haul_mul_scalar(t->window_loss, 0);
    haul_status  status = haul_error_status();
    for (int i = 0; i < count && !status; i++)
        status = add_zeros(sum, all[i].tensor);
    if (!status) {
        *finite = haul_item(sum) == 0;
        status = haul_error_status();
    }
    haul_scope_pop(scope);
    free(all);
    return status;
}

static bool save_now(trainer *t, bool weights)
{
    char *texts[] = {json_compact(options_to_json(t->set, saved_options)), json_compact(progress_json(t)),
                     json_compact(classes_to_json(t->train_data))};
    bool  saved = false;

    if (haul_error_status())
        complain_error();
    else if (!texts[0] || !texts[1] || !texts[2])
        complain("memory is exhausted");
    else
        saved = write_files(t, (const char *const *)texts, weights);
    for (int i = 0; i < 3; i++)
        cJSON_free(texts[i]);
    return saved;
}

bool trainer_save(trainer *t, bool weights)
{
    bool finite = false;

    if (!t->run.path)
        return true;
    if (check_finite(t, &finite)) {
        complain_error();
        return false;
    }
    if (!finite) {
        t->diverged = true;
        return true;
    }
    /* The checkpoint names how far the log goes. */
    bool saved = run_sync(&t->run) && save_now(t, weights);
    t->saved_at = clock_seconds();
    return saved;
}

/* ---- going on ---- */

static bool restore(trainer *t, const cJSON *object, int64_t *log_bytes)
{
    double  window_loss;
    int64_t hits;

    if (!get_integer(object, "log_bytes", log_bytes) || !get_number(object, "window_loss", &window_loss) ||
        !get_integer(object, "window_batches", &t->window_batches) ||
        !get_number(object, "epoch_loss", &t->epoch_loss) || !get_integer(object, "epoch_batches", &t->epoch_batches) ||
        !get_integer(object, "epoch_hits", &hits) || !get_integer(object, "epoch_answers", &t->epoch_answers)) {
        complain("%s lacks a part of where the training stood", t->run.checkpoint);
        return false;
    }
    if (haul_load_checkpoint(t->run.checkpoint, t->net, t->optimizer, .position = &t->position) ||
        haul_optimizer_set(t->optimizer, 0, "lr", t->options->lr) || haul_fill_into(t->window_loss, window_loss) ||
        haul_fill_into(t->epoch_hits, (double)hits)) {
        complain_error();
        return false;
    }
    return true;
}

/* Data that was exchanged or renamed would teach the network other answers than before. */
static bool check_classes(trainer *t)
{
    cJSON *classes = run_array(&t->run, RUN_CLASSES_KEY);
    bool   same = classes && classes_agree(t->train_data, classes, t->run.path);

    cJSON_Delete(classes);
    return same;
}

bool trainer_load(trainer *t)
{
    if (!check_classes(t))
        return false;
    cJSON  *progress = run_object(&t->run, RUN_PROGRESS_KEY);
    int64_t log_bytes = 0;
    bool    restored = progress && restore(t, progress, &log_bytes);

    cJSON_Delete(progress);
    if (!restored || !run_open(&t->run, log_bytes))
        return false;
    report_restore(&t->report);
    return true;
}

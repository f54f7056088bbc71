/* Saving a training and going on with it. What adds up between two lines is part of the state, so that a training that
 * was stopped tells the same as one that was not. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

    if (!get_text(object, name, &text))
        return false;
    *out = strtoll(text, NULL, 10);
    return *out >= 0;
}

static bool get_number(const cJSON *object, const char *name, double *out)
{
    const char *text;

    if (!get_text(object, name, &text))
        return false;
    *out = strtod(text, NULL);
    return true;
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

static bool write_files(trainer *t, const char *options, const char *progress, bool weights)
{
    haul_text_pair extra[] = {{RUN_OPTIONS_KEY, options}, {RUN_PROGRESS_KEY, progress}};

    if (weights && haul_save_weights(t->run.weights, t->net)) {
        complain_error();
        return false;
    }
    if (haul_save_checkpoint(t->run.checkpoint, t->net, t->optimizer, t->position, extra, 2)) {
        complain_error();
        return false;
    }
    return true;
}

bool trainer_save(trainer *t, bool weights)
{
    if (!t->run.path)
        return true;
    if (!run_sync(&t->run)) /* the checkpoint names how far the log goes */
        return false;
    char *options = json_compact(options_to_json(t->set, saved_options));
    char *standing = json_compact(progress_json(t));
    bool  saved = false;
    if (haul_error_status())
        complain_error();
    else if (!options || !standing)
        complain("memory is exhausted");
    else
        saved = write_files(t, options, standing, weights);
    cJSON_free(options);
    cJSON_free(standing);
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
    if (haul_load_checkpoint(t->run.checkpoint, t->net, t->optimizer, &t->position) ||
        haul_optimizer_set_lr(t->optimizer, t->options->lr) || haul_fill_into(t->window_loss, window_loss) ||
        haul_fill_into(t->epoch_hits, (double)hits)) {
        complain_error();
        return false;
    }
    return true;
}

bool trainer_load(trainer *t)
{
    cJSON  *progress = run_metadata(&t->run, RUN_PROGRESS_KEY);
    int64_t log_bytes = 0;
    bool    restored = progress && restore(t, progress, &log_bytes);

    cJSON_Delete(progress);
    if (!restored || !run_open(&t->run, log_bytes))
        return false;
    report_restore(&t->report);
    return true;
}

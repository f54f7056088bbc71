/* Saving a training. Sums between two lines are part of the state, so that a stopped training logs the same as any
 * other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/model/classes.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/train/pieces/ranks.h"
#include "cli/train/standing.h"
#include "cli/train/trainer.h"

/* The right answers of all ranks are those of rank 0 when the run goes on. */
static haul_status sum_hits(const trainer *t, double numbers[2])
{
    numbers[0] = (double)haul_item_i64(t->epoch.hits);
    numbers[1] = (double)t->epoch.answers;
    return haul_error_status() ? haul_error_status() : ranks_sum(t, numbers, 2);
}

static cJSON *standing_json(trainer *t, const double numbers[2])
{
    const standing s = {.log_bytes = t->run.log_bytes,
                        .window_loss = haul_item(t->window.loss),
                        .window_batches = t->window.batches,
                        .epoch_loss = t->epoch.loss,
                        .epoch_batches = t->epoch.batches,
                        .epoch_hits = (int64_t)numbers[0],
                        .epoch_answers = (int64_t)numbers[1],
                        .epoch_start = t->epoch.start,
                        .lr = t->lr,
                        .momentum = t->momentum,
                        .best_epoch = t->stop.best_epoch,
                        .best_loss = t->stop.best,
                        .stalled = t->stop.stalled,
                        .elapsed = report_elapsed(&t->report)};
    return standing_to_json(&s);
}

/* Checkpoints have the random state of the process. */
static void share_random_state(void)
{
    const haul_generator *own = haul_current_generator();
    if (own)
        haul_random_state_set(haul_generator_state_get(own));
}

static bool write_files(trainer *t, const char *const texts[4], bool weights)
{
    haul_text_pair extra[] = {{RUN_OPTIONS_KEY, texts[0]},
                              {RUN_PROGRESS_KEY, texts[1]},
                              {RUN_CLASSES_KEY, texts[2]},
                              {RUN_INPUT_KEY, texts[3]},
                              {RUN_DATA_KEY, t->data_identity}};
    if (weights && haul_save_weights(t->run.weights, t->net)) {
        run_complain(&t->run);
        return false;
    }
    share_random_state();
    if (haul_save_checkpoint(t->run.checkpoint, t->net, t->optimizer, .position = &t->position,
                             .schedules = &t->schedule, .schedule_count = t->schedule != NULL, .extra = extra,
                             .extra_count = sizeof extra / sizeof *extra)) {
        run_complain(&t->run);
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
    *sum = haul_mul_scalar(t->window.loss, 0);
    status = haul_tensor_check(*sum);
    for (int i = 0; i < count && !status; i++)
        if (ranks_have(all[i].tensor))
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
    haul_tensor *sum = haul_mul_scalar(t->window.loss, 0);
    for (int i = 0; all && i < count && !status; i++)
        status = add_zeros(sum, all[i].tensor);
    free(all);
    haul_scope_pop(scope);
    return status;
}

static bool save_now(trainer *t, const double numbers[2], bool weights)
{
    char *texts[] = {json_compact(options_to_json(t->values)), json_compact(standing_json(t, numbers)),
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

/* The next reading of the loss, or else the weights. */
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
    bool   finite = false;
    double numbers[2];
    if (!t->run.path)
        return true;
    trainer_rest(t);
    if (sum_hits(t, numbers) || ranks_gather_state(t) || check_finite(t, &finite) || ranks_all(t, &finite) ||
        (!finite && note_divergence(t))) {
        complain_error();
        return false;
    }
    if (!finite)
        return true;
    t->saved_at = clock_seconds();
    if (t->ranks.silent)
        return true;
    if (!run_check(&t->run))
        return false;
    /* The checkpoint names how far the log goes. */
    if (haul_label_begin("saving")) {
        complain_error();
        return false;
    }
    bool saved = run_sync(&t->run) && save_now(t, numbers, weights) && report_is_kept(&t->report);
    haul_label_end();
    t->saved_at = clock_seconds();
    return saved;
}

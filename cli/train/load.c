/* Going on with a training that was saved: everything in its checkpoint is checked against the data, the options and
 * each other before a file of the run changes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/model/classes.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/train/data_identity.h"
#include "cli/train/pieces/pieces.h"
#include "cli/train/pieces/ranks.h"
#include "cli/train/standing.h"
#include "cli/train/trainer.h"
#include "optim/schedule.h"

standing_limits trainer_limits(const trainer *t)
{
    const int64_t wanted = t->options->epochs, stored = t->resumed.epochs;
    return (standing_limits){
        .epochs = stored > wanted ? stored : wanted, .batches = pieces_batches(t), .group = t->options->accumulate};
}

/* ---- the data ---- */

/* Data that was exchanged or renamed would teach the network other answers than before. */
static bool check_classes(const trainer *t)
{
    cJSON *classes = run_array(&t->run, RUN_CLASSES_KEY);
    bool   same = classes && classes_agree(t->data.train, classes, t->run.path);
    cJSON_Delete(classes);
    return same;
}

/* Checkpoints of older versions do not say which data they are of. */
static bool check_identity(trainer *t, cJSON *now)
{
    cJSON *before = NULL;
    t->resumed.data_check = DATA_UNKNOWN;
    if (!run_has(&t->run, RUN_DATA_KEY))
        return true;
    if (!(before = run_object(&t->run, RUN_DATA_KEY)))
        return false;
    data_identity_compare(before, now, t->resumed.data_change, sizeof t->resumed.data_change);
    t->resumed.data_check = *t->resumed.data_change        ? DATA_CHANGED
                            : data_identity_varied(before) ? DATA_VARIED
                                                           : DATA_SAME;
    cJSON_Delete(before);
    if (!*t->resumed.data_change || t->options->allow_changed_data)
        return true;
    complain("the data of %s has changed since the training was saved: %s; bring the data back, or go on with it as it "
             "is: --allow-changed-data",
             t->run.path, t->resumed.data_change);
    return false;
}

bool trainer_identify_data(trainer *t)
{
    cJSON *now = t->run.path ? data_identity_new(&t->data) : NULL;
    if (!t->run.path)
        return true;
    bool fits = now && (!t->options->resume || (check_classes(t) && check_identity(t, now)));
    if (fits && t->resumed.data_check != DATA_SAME)
        data_identity_set_varied(now);
    if (!fits) {
        cJSON_Delete(now);
        return false;
    }
    if (!(t->data_identity = json_compact(now)))
        complain("memory is exhausted");
    return t->data_identity != NULL;
}

/* ---- the position ---- */

/* With other data the epoch may be shorter, and its groups may end elsewhere. Then it begins anew. */
static void place_in_changed_data(trainer *t, standing *s)
{
    const standing_limits limits = trainer_limits(t);
    if (standing_has_batch(&limits, t->position.batch))
        return;
    t->position.batch = 0;
    s->window_batches = s->epoch_batches = s->epoch_hits = s->epoch_answers = 0;
    s->window_loss = s->epoch_loss = 0;
    t->resumed.begins_epoch_anew = true;
}

/* The steps of an optimizer that skips some are not those of the position. */
static bool check_steps(const trainer *t, const standing_limits *limits)
{
    const int64_t updates = standing_updates(limits, &t->position), steps = haul_optimizer_steps(t->optimizer);
    const int64_t scheduled = t->schedule ? haul_schedule_steps(t->schedule) : updates;
    const bool    skips = t->scaler != NULL;
    if (steps == updates || (skips && steps >= 0 && steps < updates)) {
        if (scheduled == updates)
            return true;
        complain("%s cannot be continued: its schedule has made %" PRId64 " steps; %" PRId64
                 " is expected, those until its "
                 "haul.epoch and haul.batch",
                 t->run.checkpoint, scheduled, updates);
        return false;
    }
    complain("%s cannot be continued: its optimizer has made %" PRId64 " steps; %s%" PRId64
             " is expected, those until its "
             "haul.epoch and haul.batch",
             t->run.checkpoint, steps, skips ? "0 to " : "", updates);
    return false;
}

/* The data that were read, before they are used. */
static bool check_standing(trainer *t, standing *s)
{
    const standing_limits limits = trainer_limits(t);
    if (t->resumed.data_check == DATA_CHANGED ||
        (t->resumed.data_check == DATA_UNKNOWN && t->options->allow_changed_data))
        place_in_changed_data(t, s);
    if (!standing_check_position(&limits, &t->position, t->run.checkpoint) ||
        !standing_check(s, &t->position, t->run.checkpoint))
        return false;
    return t->resumed.data_check != DATA_SAME || check_steps(t, &limits);
}

/* ---- the state ---- */

/* A schedule that covers other steps now: the new one, after the steps that were made. */
static haul_status lay_schedule_anew(trainer *t)
{
    const standing_limits limits = trainer_limits(t);
    haul_status           status = haul_optimizer_set(t->optimizer, 0, "lr", t->options->lr);
    if (!status)
        status = trainer_make_schedule(t);
    if (!status && t->position.epoch <= t->options->epochs)
        status = haul__schedule_move(t->schedule, standing_updates(&limits, &t->position));
    return status;
}

static haul_status fill_sums(trainer *t, const standing *s)
{
    haul_status status = HAUL_OK;
    if (trainer_covers_other_epochs(t) || (t->schedule && t->resumed.data_check == DATA_CHANGED))
        status = lay_schedule_anew(t);
    if (!status)
        status = haul_fill_into(t->window.loss, s->window_loss);
    if (!status)
        status = haul_fill_into(t->window.finite, (double)s->window_batches);
    return status ? status : haul_fill_into(t->epoch.hits, t->ranks.silent ? 0 : (double)s->epoch_hits);
}

static void take_standing(trainer *t, const standing *s)
{
    t->window.batches = s->window_batches;
    t->epoch.loss = s->epoch_loss;
    t->epoch.batches = s->epoch_batches;
    t->epoch.answers = t->ranks.silent ? 0 : s->epoch_answers; /* rank 0 has those of all */
    t->epoch.start = s->epoch_start;
    t->lr = s->lr;
    t->momentum = s->momentum;
    t->stop.best_epoch = s->best_epoch;
    t->stop.best = s->best_loss;
    t->stop.stalled = s->stalled;
}

static bool read_standing(const trainer *t, standing *out)
{
    cJSON *object = run_object(&t->run, RUN_PROGRESS_KEY);
    bool   whole = object && standing_from_json(object, out);
    if (object && !whole)
        complain("%s lacks a part of where the training stood", t->run.checkpoint);
    cJSON_Delete(object);
    return whole;
}

/* A checkpoint has set the random state of the process. Ranks that are threads load the same one. */
static haul_status take_random_state(void)
{
    haul_generator *own = haul_current_generator();
    return own ? haul_generator_state_set(own, haul_random_state_get()) : HAUL_OK;
}

static bool restore(trainer *t, standing *s)
{
    if (haul_load_checkpoint(t->run.checkpoint, t->net, t->optimizer, .position = &t->position,
                             .schedules = &t->schedule, .schedule_count = t->schedule != NULL) ||
        take_random_state() || ranks_compare_position(t)) {
        complain_error();
        return false;
    }
    if (!check_standing(t, s))
        return false;
    take_standing(t, s);
    return !fill_sums(t, s) || !complain_error();
}

/* Writes the best weights of a run that was killed after the checkpoint of its best epoch and before them. */
static bool restore_best(trainer *t)
{
    bool is_best = t->stop.best_epoch && !t->resumed.begins_epoch_anew && !t->position.batch &&
                   t->position.epoch == t->stop.best_epoch + 1;
    return !is_best || trainer_keep_best(t);
}

bool trainer_load(trainer *t)
{
    standing s = {0};
    if (!read_standing(t, &s) || !restore(t, &s) || (!t->ranks.silent && !run_open(&t->run, s.log_bytes)))
        return false;
    report_restore(&t->report, s.elapsed);
    return restore_best(t);
}

/* ---- the end ---- */

/* A run that was killed after its last epoch has its end left to do: the test of its best weights, the ledger and the
 * event "done". */
bool trainer_find_end(const trainer *t, report_end *out)
{
    const train_options  *o = t->options;
    const int64_t         epoch = run_next_epoch(&t->run);
    const standing_limits limits = {
        .epochs = t->resumed.epochs > o->epochs ? t->resumed.epochs : o->epochs, .batches = 0, .group = 1};
    standing s = {0};
    if (!epoch || !standing_check_position(&limits, &(haul_training_position){.epoch = epoch}, t->run.checkpoint) ||
        !read_standing(t, &s))
        return false;
    *out = (report_end){.epochs = epoch - 1, .elapsed = s.elapsed};
    if (epoch <= o->epochs && haul_early_stop_is_due(&(haul_early_stop){.patience = o->patience, .stalled = s.stalled}))
        out->patience = o->patience;
    return (epoch <= o->epochs && !out->patience) || run_log_says_done(&t->run, s.log_bytes, &out->finished);
}

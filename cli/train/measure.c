/* The end of an epoch and of a training: measuring, the best weights, and patience. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/model/network.h"
#include "cli/shared/cli.h"
#include "cli/train/pieces/ranks.h"
#include "cli/train/trainer.h"
#include "memory/derived.h"

/* ---- measuring ---- */

/* With several ranks, each evaluates one batch in `ranks`; those of stages evaluate all together. */
static haul_loader *new_loader(const trainer *t, haul_dataset *data, int ranks)
{
    const train_options *o = t->options;
    return haul_loader_new(data, .batch = o->batch, .workers = (int)o->workers, .device = t->device, .pieces = ranks,
                           .first_piece = ranks > 1 ? haul_group_rank(t->ranks.group) : 0, .piece_count = 1);
}

/* In the precision that was trained in. The memory of the loader and of casted parameters is free again when the
 * training goes on. */
static haul_status evaluate(trainer *t, haul_dataset *data, const char *pass, network_score *out)
{
    trainer_rest(t);
    haul_scope  *scope = haul_scope_push();
    haul_loader *loader = new_loader(t, data, t->ranks.count && !t->options->stages ? t->ranks.count : 1);
    haul_status  status = loader ? HAUL_OK : haul_error_status();
    if (!status) {
        haul_autocast_state before = haul_autocast_begin("all", t->lower);
        pace_pass_begin(t, pass, haul_loader_batches(loader));
        status = ranks_evaluate(t, loader, out);
        pace_pass_end(t);
        haul_autocast_end(before);
    }
    haul_scope_pop(scope);
    haul__derived_give_back(t->device);
    return status;
}

static haul_status measure(trainer *t, network_score *out)
{
    const bool  validates = t->data.validation != NULL;
    haul_status status = haul_label_begin(validates ? "validation" : "test");
    if (status)
        return status;
    status = validates ? evaluate(t, t->data.validation, "validates", out) : evaluate(t, t->data.test, "tests", out);
    haul_label_end();
    return status;
}

haul_status trainer_try_measuring(trainer *t)
{
    haul_dataset *data = t->data.validation ? t->data.validation : t->data.test;
    trainer_rest(t);
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    haul_autocast_state before = haul_autocast_begin("all", t->lower);
    haul_loader        *loader = data ? new_loader(t, data, 1) : NULL;
    haul_status         status = loader ? network_try(t->net, &t->data.spec, loader, t->metrics) : haul_error_status();
    haul_autocast_end(before);
    haul_scope_pop(scope);
    haul__derived_give_back(t->device);
    return status;
}

/* ---- the best weights ---- */

/* Where no file has them, and they will be measured on the test data. */
static bool holds_best(const trainer *t)
{
    return !t->run.path && t->data.validation && t->data.test;
}

haul_status trainer_hold_best(trainer *t)
{
    if (!t->ranks.silent && holds_best(t) && !t->best_weights && !(t->best_weights = haul_best_weights_new(t->net)))
        return haul_error_status();
    return HAUL_OK;
}

static haul_status save_best(trainer *t)
{
    char           epoch[32], loss[64];
    haul_text_pair metadata[] = {{"epoch", epoch}, {t->data.validation ? "validation_loss" : "test_loss", loss}};
    snprintf(epoch, sizeof epoch, "%" PRId64, t->stop.best_epoch);
    snprintf(loss, sizeof loss, "%.9g", t->stop.best);
    return haul_save_weights(t->run.best, t->net, .metadata = metadata, .metadata_count = 2);
}

bool trainer_keep_best(trainer *t)
{
    haul_status status = ranks_gather_network(t);
    if (status)
        complain_error();
    if (status || t->ranks.silent)
        return !status;
    if (!run_check(&t->run))
        return false;
    if (t->run.path)
        status = save_best(t);
    else if (t->best_weights)
        status = haul_best_weights_keep(t->best_weights);
    else
        status = trainer_hold_best(t);
    if (status)
        run_complain(&t->run);
    return !status;
}

bool trainer_test_best(trainer *t, report_done *out)
{
    network_score score = {0};
    if (!t->data.validation || !t->data.test)
        return true;
    haul_status status = ranks_gather_network(t);
    if (!status && !t->ranks.silent)
        status = t->run.path ? haul_load_weights(t->run.best, t->net) : haul_best_weights_restore(t->best_weights);
    if (!status)
        status = ranks_share_network(t);
    if (!status)
        status = evaluate(t, t->data.test, "tests", &score);
    if (status)
        complain_error();
    out->tested = true;
    out->test_loss = score.loss;
    out->test_accuracy = score.accuracy;
    return !status;
}

/* ---- the end of an epoch ---- */

/* What the epoch's mini-batches and its measurement say; what added up begins anew. */
static haul_status describe_epoch(trainer *t, const network_score *measured, report_epoch *e)
{
    const double steps = (double)t->epoch.steps;
    double       mean, numbers[3] = {0};
    if (trainer_read_window(t, &mean))
        return haul_error_status();
    numbers[0] = (double)haul_item_i64(t->epoch.hits);
    numbers[1] = (double)t->epoch.answers;
    numbers[2] = (double)t->epoch.examples;
    if (haul_error_status() || ranks_sum(t, numbers, 3))
        return haul_error_status();
    *e = (report_epoch){.epoch = t->position.epoch,
                        .epochs = t->options->epochs,
                        .train_loss = t->epoch.batches ? t->epoch.loss / (double)t->epoch.batches : NAN,
                        .train_accuracy = numbers[1] > 0 ? numbers[0] / numbers[1] : NAN,
                        .measured_loss = measured->loss,
                        .measured_accuracy = measured->accuracy,
                        .images_per_second = t->epoch.seconds > 0 ? numbers[2] / t->epoch.seconds : 0,
                        .lr = t->lr,
                        .step_seconds = steps > 0 ? t->epoch.seconds / steps : 0,
                        .wait_seconds = steps > 0 && t->waits ? t->epoch.wait / steps : 0,
                        .seconds = report_elapsed(&t->report) - t->epoch.start,
                        .validation = t->data.validation != NULL};
    pace_epoch_end(t, e->train_loss, e->train_accuracy);
    t->epoch.loss = 0;
    t->epoch.batches = t->epoch.answers = 0;
    return haul_error_status() ? haul_error_status() : haul_zero_into(t->epoch.hits);
}

static void update_best(trainer *t, report_epoch *e)
{
    e->best = haul_early_stop_update(&t->stop, e->epoch, e->measured_loss);
    e->best_epoch = t->stop.best_epoch;
    e->best_loss = t->stop.best;
}

/* The checkpoint first: where it is written and the best weights are not, they are those of the checkpoint, and
 * resuming writes them. */
static bool save_epoch(trainer *t, bool best)
{
    t->position = (haul_training_position){.epoch = t->position.epoch + 1};
    if (!trainer_save(t, true))
        return false;
    return t->diverged || !best || trainer_keep_best(t);
}

bool trainer_end_epoch(trainer *t)
{
    network_score measured = {0};
    report_epoch  e;
    if (measure(t, &measured)) {
        complain_error();
        return false;
    }
    if (ranks_stopped(t))
        return true;
    if (describe_epoch(t, &measured, &e)) {
        complain_error();
        return false;
    }
    if (!isfinite(measured.loss))
        trainer_note_divergence(t, e.validation ? "validation loss" : "test loss", t->position.batch);
    update_best(t, &e);
    bool told = report_tell_epoch(&t->report, &e);
    if (t->diverged || (!told && output_works()))
        return told;
    return save_epoch(t, e.best) && told;
}

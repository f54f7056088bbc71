/* The steps of a training: learning, counting, and a line or a checkpoint when they are due. What adds up stays on the
 * device, and is read when a line is due. */
#include <math.h>
#include <string.h>

#include "base/numbers.h"
#include "cli/model/network.h"
#include "cli/shared/cli.h"
#include "cli/train/pieces/pieces.h"
#include "cli/train/pieces/ranks.h"
#include "cli/train/trainer.h"
#include "record/follow/recording.h"

/* ---- groups of mini-batches whose gradients add up ---- */

static haul_status part_of(const trainer *t, const haul_batch *batch, haul_step_part *out)
{
    const haul_accumulation plan = {.examples = haul_dataset_count(t->data.train),
                                    .batch = t->options->batch,
                                    .accumulate = t->options->accumulate};
    return haul_accumulation_part(&plan, batch->index, out);
}

/* ---- the schedule ---- */

/* The setting that is a momentum; NULL: the optimizer has none. */
static const char *momentum_name(const char *optimizer)
{
    if (!strcmp(optimizer, "adagrad") || !strcmp(optimizer, "adadelta"))
        return NULL;
    return strcmp(optimizer, "sgd") != 0 ? "beta1" : "momentum";
}

haul_status trainer_make_schedule(trainer *t)
{
    const train_options  *o = t->options;
    const standing_limits limits = trainer_limits(t);
    schedule_span         span = {.epochs = o->epochs,
                                  .steps = standing_epoch_updates(&limits),
                                  .lr = o->lr,
                                  .fixed_momentum =
                                      !momentum_name(o->optimizer) || (!strcmp(o->optimizer, "sgd") && o->momentum == 0)};
    return schedule_make(&t->plans.schedule, &span, t->optimizer, &t->schedule);
}

/* ---- a step ---- */

/* A mini-batch, or a micro-batch of it. */
typedef struct micro_batch {
    haul_tensor *x, *y, *logits;
    double       share; /* its examples, as a share of those of the first one */
} micro_batch;

/* Micro-batches of as many examples each; the last one may have fewer. */
static int divide(const trainer *t, const haul_batch *batch, micro_batch out[MOST_PIPELINE])
{
    const int64_t size = haul__ceil_div(batch->size, t->options->pipeline);
    int           count = 0;
    if (size >= batch->size) {
        out[0] = (micro_batch){.x = batch->x, .y = batch->y, .share = 1};
        return 1;
    }
    for (int64_t first = 0; first < batch->size; first += size, count++) {
        const int64_t end = smaller(first + size, batch->size);
        out[count] = (micro_batch){.x = haul_slice(batch->x, 0, first, end, 1),
                                   .y = haul_slice(batch->y, 0, first, end, 1),
                                   .share = (double)(end - first) / (double)size};
    }
    return count;
}

/* The loss, with the logits and the targets where it is computed. */
static haul_tensor *loss_of(trainer *t, micro_batch *m)
{
    m->logits = haul_call(t->net, m->x);
    network_bring(t->metrics, &m->logits, &m->y);
    haul_tensor *loss = network_loss(&t->data.spec, m->logits, m->y);
    return m->share < 1 ? haul_mul_scalar(loss, m->share) : loss;
}

/* The mean loss of the mini-batch. Its micro-batches are scaled together: the gradient of a scaling brings its number
 * to the device, and would wait there for each of them. */
static haul_tensor *mean_loss(trainer *t, micro_batch *parts, int count)
{
    haul_tensor *loss = loss_of(t, &parts[0]);
    double       shares = 1;
    for (int i = 1; i < count; i++) {
        loss = haul_add(loss, loss_of(t, &parts[i]));
        shares += parts[i].share;
    }
    return count > 1 ? haul_mul_scalar(loss, 1 / shares) : loss;
}

/* The step function of the recording. The backward pass is that of all micro-batches: it begins when their forward
 * passes are submitted, so no device waits for one micro-batch to return. Nothing here waits for the device. Gradients
 * end with the update, so that a followed step has them in its arena. A step that fails ends the training, so it may
 * leave gradients that are not complete. */
static haul_status learn(void *context)
{
    trainer            *t = context;
    micro_batch         parts[MOST_PIPELINE];
    const int           count = divide(t, t->batch, parts);
    haul_autocast_state before = haul_autocast_begin("all", t->lower);
    haul_tensor        *loss = mean_loss(t, parts, count);
    haul_status         status = haul_autocast_end(before);
    if (!status)
        status = haul_train_step(t->optimizer, loss, .part = &t->part, .scaler = t->scaler);
    if (!status && t->part.last)
        status = haul_optimizer_zero_grad(t->optimizer);
    if (!status)
        status = haul_add_into(t->window.loss, t->window.loss, haul_detach(loss));
    if (!status)
        status = haul_add_into(t->window.finite, t->window.finite, haul_isfinite(t->window.loss));
    for (int i = 0; i < count && !status; i++)
        status = haul_add_into(t->epoch.hits, t->epoch.hits, network_hits(&t->data.spec, parts[i].logits, parts[i].y));
    return status;
}

/* recording: of the pieces, if there are some; NULL: they run as they are, too. */
static haul_status make_step(trainer *t, const haul_batch *batch, haul_recording *recording)
{
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    haul_status status = t->parallel ? pieces_step(t, batch, recording) : learn(t);
    haul_scope_pop(scope);
    return status;
}

haul_status trainer_step(trainer *t, const haul_batch *batch, const haul_step_part *part)
{
    t->batch = batch;
    t->part = *part;
    return make_step(t, batch, NULL);
}

haul_status trainer_follow(trainer *t, const haul_batch *batch, const haul_step_part *part)
{
    t->batch = batch;
    t->part = *part;
    return t->recording && !t->parallel ? haul_recording_run(t->recording) : make_step(t, batch, t->recording);
}

/* The forms of a step that accumulates: its first, middle and last mini-batches, of whole groups and of the one at the
 * end of an epoch, also with a smaller mini-batch. Pieces have fewer: whole, smaller and without examples. */
haul_status trainer_begin_recording(trainer *t)
{
    enum { FORMS = 12 };
    t->recording = haul_recording_new(t->options->pieces ? pieces_learn : learn, t, .variants = FORMS);
    return t->recording ? HAUL_OK : haul_error_status();
}

void trainer_rest(const trainer *t)
{
    if (t->recording)
        haul__recording_give_back(t->recording);
}

/* The most that was allocated on the device since the last reset. */
static int64_t peak_since_reset(const trainer *t)
{
    haul_memory_stats memory = {0};
    haul_memory_stats_get(t->device, &memory);
    return memory.peak_allocated;
}

int64_t trainer_peak_bytes(const trainer *t)
{
    return larger(t->counts.peak_bytes, peak_since_reset(t));
}

/* The first two updates make what all later steps find: gradients, the optimizer's state. */
static haul_status measured_step(trainer *t, const haul_batch *batch, const haul_step_part *part)
{
    enum { FIRST_UPDATES = 2 };
    t->counts.peak_bytes = trainer_peak_bytes(t);
    haul_status status = haul_memory_reset_peak(t->device);
    double      began = clock_seconds();
    if (!status)
        status = trainer_follow(t, batch, part);
    t->counts.mini_batches++;
    if (t->waits)
        samples_add(&t->counts.seconds, clock_since(began));
    if (t->counts.updates >= FIRST_UPDATES)
        t->counts.step_peak_bytes = larger(t->counts.step_peak_bytes, peak_since_reset(t));
    t->counts.updates += part->last;
    return status;
}

/* The learning rate of the update that was made, and that of the next one. */
static haul_status advance_schedule(trainer *t, const haul_step_part *part)
{
    t->lr = haul_optimizer_get(t->optimizer, 0, "lr");
    const char *momentum = momentum_name(t->options->optimizer);
    t->momentum = momentum ? haul_optimizer_get(t->optimizer, 0, momentum) : 0;
    return t->schedule && part->last ? haul_schedule_step(t->schedule) : haul_error_status();
}

/* Until the third update a process records its step and compiles kernels. If others follow, these times do not
 * count. A device may still compute them then: waiting for it would be a wait of its own. */
static void forget_first_steps(trainer *t, const haul_step_part *part)
{
    enum { FIRST_UPDATES = 3 };
    if (t->counts.updates != FIRST_UPDATES || !part->first)
        return;
    t->counts.seconds.count = 0;
    t->window.steps = 0;
    t->window.began = clock_seconds();
}

static haul_status count_step(trainer *t, const haul_batch *batch)
{
    haul_step_part part = {.first = true, .last = true, .weight = 1};
    haul_status    status = t->parallel ? HAUL_OK : part_of(t, batch, &part);
    forget_first_steps(t, &part);
    if (!status)
        status = measured_step(t, batch, &part);
    if (!status)
        status = advance_schedule(t, &part);
    t->window.steps++;
    t->window.batches++;
    if (!t->parallel) {
        t->epoch.answers += network_answers(batch->y);
        t->epoch.examples += batch->size;
    }
    t->epoch.steps++;
    t->position.batch++;
    return status;
}

/* ---- divergence ---- */

void trainer_note_divergence(trainer *t, const char *what, int64_t batch)
{
    if (t->diverged)
        return;
    t->diverged = true;
    t->divergence = (report_diverged){.epoch = t->position.epoch,
                                      .batch = batch,
                                      .what = what,
                                      .loss_before = t->report.last_loss,
                                      .lr = t->options->lr};
}

/* The loss of the window is a sum: once it is not finite, it stays so. */
static haul_status find_divergence(trainer *t)
{
    int64_t finite = haul_item_i64(t->window.finite);
    trainer_note_divergence(t, "loss", t->position.batch - t->window.batches + finite + 1);
    return haul_error_status();
}

/* ---- the lines ---- */

/* Read what the mini-batches since the last line lost. Where a step does not wait for the device, this does: the time
 * since the last reading then says how long its steps took. */
haul_status trainer_read_window(trainer *t, double *mean)
{
    pace_wait(t);
    double  sum = haul_item(t->window.loss);
    int64_t hits = haul_item_i64(t->epoch.hits);

    if (haul_error_status())
        return haul_error_status();
    if (!t->waits && t->window.steps)
        samples_add(&t->counts.seconds, clock_since(t->window.began) / (double)t->window.steps);
    *mean = t->window.batches ? sum / (double)t->window.batches : 0;
    if (!isfinite(sum) && find_divergence(t))
        return haul_error_status();
    t->epoch.loss += sum;
    t->epoch.batches += t->window.batches;
    t->window.batches = t->window.steps = 0;
    t->window.began = clock_seconds();
    pace_read(t, hits);
    haul_status status = haul_zero_into(t->window.loss);
    return status ? status : haul_zero_into(t->window.finite);
}

/* ---- an epoch ---- */

static bool tell_line(trainer *t)
{
    report_line line = {.epoch = t->position.epoch, .batch = t->position.batch};
    if (trainer_read_window(t, &line.loss)) {
        complain_error();
        return false;
    }
    line.lr = t->lr;
    line.momentum = t->momentum;
    line.spilled_bytes = t->options->spill ? trainer_spilled(t).all : -1;
    t->unheard = !report_tell_line(&t->report, &line);
    return true;
}

/* Gradients are not saved, so a training is saved and left between groups only. */
static bool is_between_groups(const trainer *t)
{
    const standing_limits limits = trainer_limits(t);
    return standing_has_batch(&limits, t->position.batch);
}

/* If standard output is closed, the trained weights are kept. */
static bool end_unheard(trainer *t)
{
    if ((t->ranks.count > 1 || !output_works()) && !t->diverged)
        trainer_save(t, true);
    return false;
}

/* A line, a checkpoint, when they are due. */
static bool after_step(trainer *t)
{
    if (t->position.batch % t->options->log_every == 0 && !t->unheard && !tell_line(t))
        return false;
    if (t->diverged)
        return t->ranks.count > 1 || !t->unheard;
    if (!is_between_groups(t))
        return true;
    if (t->ranks.count > 1 ? t->ranks.agreed.unheard : t->unheard)
        return end_unheard(t);
    if (ranks_save_due(t))
        return trainer_save(t, false);
    return true;
}

static const haul_batch *next_batch(trainer *t)
{
    const double      began = clock_seconds();
    const haul_batch *batch = haul_loader_next(t->loader);
    t->epoch.wait += clock_seconds() - began;
    return batch;
}

bool trainer_train_epoch(trainer *t)
{
    double began = clock_seconds();
    t->window.began = began;
    t->epoch.examples = t->epoch.steps = 0;
    t->epoch.wait = 0;
    t->trains = true;
    if (!t->position.batch)
        t->epoch.start = report_elapsed(&t->report);
    pace_epoch(t);
    if (t->position.batch >= t->report.batches)
        return true; /* resumed between the epoch's last step and its test */
    if (pieces_start(t)) {
        complain_error();
        return false;
    }
    while (!t->diverged && !ranks_agree(t) && !(ranks_stopped(t) && is_between_groups(t))) {
        if (t->position.batch < t->report.batches && !run_profile_before(&t->profile))
            return false;
        const haul_batch *batch = next_batch(t);
        if (!batch)
            break;
        if (count_step(t, batch))
            break;
        if (!after_step(t) || !run_profile_after(&t->profile))
            return false;
        pace_step(t);
    }
    bool scaled = t->scaler && !t->diverged;
    if (haul_error_status() || haul_device_sync(t->device) || (scaled && haul_grad_scaler_check(t->scaler))) {
        complain_error();
        return false;
    }
    if (!run_profile_end(&t->profile))
        return false;
    t->epoch.seconds = clock_seconds() - began;
    return true;
}

#include "cli/train/log/pace.h"

#include <math.h>
#include <stdio.h>

#include "cli/shared/cli.h"
#include "cli/train/trainer.h"
#include "device/device.h"

static progress_bar *bar_of(trainer *t)
{
    return &t->report.bar;
}

/* ---- known times ---- */

/* Seconds of a mini-batch in this epoch; NaN before it is known. */
static double batch_seconds(const pace *p)
{
    double seconds = p->known_at - p->epoch_began;
    return p->known > p->epoch_first && seconds > 0.2 ? seconds / (double)(p->known - p->epoch_first) : NAN;
}

static progress_state training_state(const trainer *t)
{
    const pace    *p = &t->pace;
    double         now = clock_seconds(), each = batch_seconds(p);
    int64_t        total = t->report.batches, epochs_left = t->options->epochs - t->position.epoch;
    progress_state s = {.epoch = t->position.epoch,
                        .epochs = t->options->epochs,
                        .done = t->position.batch,
                        .total = total,
                        .loss = p->loss,
                        .accuracy = p->accuracy,
                        .elapsed = now - p->began};
    s.per_second = (double)t->options->batch / each;
    s.left = fmax(0, (double)(total - p->known) * each - (now - p->known_at));
    s.run_left = s.left + (double)epochs_left * (double)total * each + (double)(epochs_left + 1) * p->passes;
    if (isnan(each))
        s.left = s.run_left = NAN;
    return s;
}

static progress_state pass_state(const trainer *t, int64_t done)
{
    const pace    *p = &t->pace;
    double         now = clock_seconds(), spent = now - p->pass_began;
    progress_state s = training_state(t);
    s.pass = p->pass;
    s.done = done;
    s.total = p->pass_batches;
    s.per_second = s.left = NAN;
    if (done > 0 && spent > 0.2) {
        double each = spent / (double)done, rest = (double)(t->options->epochs - t->position.epoch);
        s.per_second = (double)t->options->batch / each;
        s.left = (double)(s.total - done) * each;
        s.run_left = s.left + rest * ((double)t->report.batches * batch_seconds(p) + (double)s.total * each);
    }
    return s;
}

static void draw(trainer *t)
{
    progress_state s = training_state(t);
    progress_draw(bar_of(t), &s);
}

/* ---- for haul top ---- */

static int64_t examples_seen(const trainer *t)
{
    const int64_t all = haul_dataset_count(t->data.train), now = t->position.batch * t->options->batch;
    return (t->position.epoch - 1) * all + (now < all ? now : all);
}

/* From the mini-batches that were begun, where none was read yet. */
static double seconds_left(const trainer *t, const progress_state *s, int64_t steps)
{
    const int64_t here = steps - t->pace.first;
    if (isfinite(s->run_left))
        return s->run_left;
    return here > 0 ? s->elapsed / (double)here * (double)(s->epochs * t->report.batches - steps) : 0;
}

/* 0 stands for unknown. */
static double published(double value)
{
    const double least = 1e-300;
    return isfinite(value) ? fmax(value, least) : 0;
}

static void publish(trainer *t, const progress_state *s)
{
    pace         *p = &t->pace;
    const int64_t steps = (s->epoch - 1) * t->report.batches + t->position.batch;
    if (isfinite(s->loss))
        p->last_loss = s->loss;
    if (isfinite(s->accuracy))
        p->last_accuracy = s->accuracy;
    if (t->ranks.guest)
        return;
    haul_publish_progress(.steps = steps, .examples = examples_seen(t), .epoch = s->epoch, .epochs = s->epochs,
                          .seconds_left = seconds_left(t, s, steps), .loss = published(p->last_loss),
                          .accuracy = published(p->last_accuracy));
}

/* A training that cannot be shown goes on all the same. */
static void begin_publishing(const trainer *t)
{
    char name[96];
    if (t->ranks.guest)
        return;
    snprintf(name, sizeof name, "%s on %s", t->options->model, t->options->data);
    if (haul_publish_begin(.name = t->run.path ? t->options->run : name))
        haul_error_clear();
}

/* ---- a training ---- */

/* The device is busy with something that has no numbers; the next step draws over it. */
static void note(trainer *t, const char *text)
{
    progress_state s = training_state(t);
    s.note = text;
    progress_draw(bar_of(t), &s);
}

/* "compiling kernels for opencl:0: 12 of about 40". The dry run of a step has said which ones it launches; a few more
 * are for other work. */
static void note_kernels(trainer *t, const haul_device *device)
{
    const int64_t done = t->pace.compiled, awaited = haul__kernels_awaited(device);
    char          text[160];
    snprintf(text, sizeof text,
             awaited ? "compiling kernels for %s: %lld of about %lld" : "compiling kernels for %s: %lld",
             haul_device_name(device), (long long)done, (long long)(done + awaited));
    note(t, text);
}

static void on_compiled(const haul_event *event, void *context)
{
    trainer *t = context;
    t->pace.compiled++;
    t->pace.slowed = true;
    if (progress_due(bar_of(t)))
        note_kernels(t, event->device);
}

haul_status pace_begin(trainer *t)
{
    t->pace = (pace){.began = clock_seconds(), .loss = NAN, .accuracy = NAN, .last_loss = NAN, .last_accuracy = NAN};
    t->pace.first = (t->position.epoch - 1) * t->report.batches + t->position.batch;
    begin_publishing(t);
    if (!bar_of(t)->on)
        return HAUL_OK;
    t->pace.subscription = haul_events_subscribe(on_compiled, .kinds = HAUL_EVENT_KERNEL_COMPILED, .context = t);
    return t->pace.subscription ? HAUL_OK : haul_error_status();
}

void pace_end(trainer *t)
{
    if (!t->ranks.guest)
        haul_publish_end();
    haul_events_unsubscribe(t->pace.subscription);
    t->pace.subscription = 0;
}

void pace_epoch(trainer *t)
{
    pace *p = &t->pace;
    p->epoch_began = p->known_at = clock_seconds();
    p->epoch_first = p->known = t->position.batch;
    p->loss = p->accuracy = NAN;
    if (!bar_of(t)->on)
        return;
    if (haul__kernels_awaited(t->device))
        note_kernels(t, t->device);
    else
        draw(t);
}

void pace_epoch_end(trainer *t, double loss, double accuracy)
{
    t->pace.last_loss = loss;
    t->pace.last_accuracy = accuracy;
}

void pace_read(trainer *t, int64_t hits)
{
    pace *p = &t->pace;
    p->known = t->position.batch;
    p->known_at = clock_seconds();
    if (p->slowed) {
        p->epoch_first = p->known;
        p->epoch_began = p->known_at;
        p->slowed = false;
    }
    p->loss = t->epoch.batches ? t->epoch.loss / (double)t->epoch.batches : NAN;
    p->accuracy = t->epoch.answers ? (double)hits / (double)t->epoch.answers : NAN;
}

/* Where a step has finished when it returns, its sums can be read at no cost. An error is found by the next step. */
static void read_sums(trainer *t)
{
    pace   *p = &t->pace;
    int64_t batches = t->epoch.batches + t->window.batches;
    p->known = t->position.batch;
    p->known_at = clock_seconds();
    p->loss = batches ? (t->epoch.loss + haul_item(t->window.loss)) / (double)batches : NAN;
    p->accuracy = t->epoch.answers ? (double)haul_item_i64(t->epoch.hits) / (double)t->epoch.answers : NAN;
}

void pace_step(trainer *t)
{
    progress_state s = training_state(t);
    publish(t, &s);
    if (!progress_due(bar_of(t)))
        return;
    if (t->waits)
        read_sums(t);
    draw(t);
}

void pace_wait(trainer *t)
{
    char text[160];
    if (t->waits || !bar_of(t)->on)
        return;
    snprintf(text, sizeof text, "waiting for %s, %lld/%lld submitted", haul_device_name(t->device),
             (long long)t->position.batch, (long long)t->report.batches);
    note(t, text);
}

/* ---- a pass without training ---- */

void pace_pass_begin(trainer *t, const char *name, int64_t batches)
{
    pace *p = &t->pace;
    p->pass = name;
    p->pass_batches = batches;
    p->pass_began = clock_seconds();
}

bool pace_pass_step(int64_t done, void *context)
{
    trainer       *t = context;
    progress_state s = pass_state(t, done);
    publish(t, &s);
    if (progress_due(bar_of(t)))
        progress_draw(bar_of(t), &s);
    return !interrupted();
}

void pace_pass_end(trainer *t)
{
    t->pace.passes = clock_seconds() - t->pace.pass_began;
}

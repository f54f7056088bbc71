#include "cli/train/batch.h"

#include <math.h>

#include "cli/plan/free_memory.h"
#include "cli/shared/cli.h"
#include "cli/shared/progress.h"
#include "cli/train/trainer.h"

const batch_trial *batch_choice_find(const batch_choice *c, int64_t batch)
{
    for (int i = 0; i < c->count; i++)
        if (c->trials[i].batch == batch)
            return &c->trials[i];
    return NULL;
}

int64_t batch_choice_fastest(const batch_choice *c)
{
    const double same = 0.95;
    double       best = 0;
    int64_t      batch = 0;
    for (int i = 0; i < c->count; i++)
        best = fmax(best, c->trials[i].per_second);
    for (int i = 0; i < c->count; i++)
        if (c->trials[i].per_second >= same * best)
            batch = c->trials[i].batch;
    return batch;
}

/* ---- what fits ---- */

static haul_status try_batch_dry(trainer *t, int64_t batch, const char *recompute, int64_t limit, dry_run *out)
{
    train_options      *o = t->options;
    const train_options kept_options = *o;
    o->batch = batch;
    o->recompute = recompute;
    haul_status status = o->spill ? dry_run_try_spilling(t, limit, out) : dry_run_try_within(t, limit, out);
    *o = kept_options;
    return status;
}

/* What goes to host memory has to fit there. */
static bool host_has_room(int64_t bytes)
{
    const int64_t available = available_memory();
    return !available || bytes <= available / 10 * 9;
}

haul_status batch_find_need(trainer *t, int64_t batch, const char *recompute, int64_t limit, batch_need *need,
                            network_parts *parts)
{
    dry_run     d;
    haul_status status = try_batch_dry(t, batch, recompute, limit, &d);
    if (status) {
        haul_error_clear();
        return status;
    }
    need->bytes = d.peak - d.start + t->expected.start;
    need->fits = need->bytes <= limit || (d.spill.fits && host_has_room(need->bytes - limit));
    if (parts)
        *parts = d.parts;
    dry_run_free(&d);
    return HAUL_OK;
}

static bool fits_in(trainer *t, int64_t batch, int64_t limit, batch_need *need, network_parts *parts)
{
    batch_need now;
    if (batch_find_need(t, batch, t->options->recompute, limit, &now, parts) || !now.fits)
        return false;
    *need = now;
    return true;
}

/* A larger batch may need less, because the library computes in another way; so one a quarter larger is tried, too. */
int64_t batch_largest(trainer *t, int64_t bound, int64_t limit, batch_need *need)
{
    int64_t fits = 0, fails = bound;
    for (;;) {
        while (fails - fits > 1) {
            int64_t middle = fits + (fails - fits) / 2;
            if (fits_in(t, middle, limit, need, NULL))
                fits = middle;
            else
                fails = middle;
        }
        int64_t further = fits + (fits + 3) / 4;
        if (!fits || further >= bound || !fits_in(t, further, limit, need, NULL))
            return fits;
        fits = further;
        fails = bound;
    }
}

/* ---- how fast it is ---- */

/* A training that runs for a moment, on its own network and loader. */
typedef struct timing {
    trainer *trainer;
    int64_t  epoch;
    int64_t  steps;
} timing;

/* The next mini-batch. An epoch follows on the other. */
static const haul_batch *take_batch(timing *w)
{
    haul_loader      *loader = w->trainer->loader;
    const haul_batch *batch = w->epoch ? haul_loader_next(loader) : NULL;
    if (batch || haul_error_status() || haul_loader_start(loader, ++w->epoch))
        return batch;
    return haul_loader_next(loader);
}

/* Some steps, until the device is done, in examples a second. */
static haul_status run_steps(timing *w, int64_t steps, double *per_second)
{
    const int64_t n = w->trainer->options->accumulate;
    const double  began = clock_seconds();
    int64_t       examples = 0;
    for (int64_t i = 0; i < steps && !interrupted(); i++, w->steps++) {
        const haul_batch    *batch = take_batch(w);
        const haul_step_part part = {
            .first = w->steps % n == 0, .last = w->steps % n == n - 1, .weight = 1 / (double)n};
        haul_status status = batch ? trainer_step(w->trainer, batch, &part) : haul_error_status();
        if (status)
            return status;
        examples += batch->size;
    }
    haul_status status = haul_device_sync(w->trainer->device);
    *per_second = (double)examples / fmax(clock_seconds() - began, 1e-9);
    return status;
}

/* The best of some rounds, which other programs disturbed least. The first steps make gradients, state and kernels. */
static haul_status measure(timing *w, double *per_second)
{
    enum { FIRST = 2, MOST_STEPS = 100, ROUNDS = 3 };
    const double round = 0.05, slow = 0.25;
    double       now;
    haul_status  status = run_steps(w, FIRST, &now);
    const double began = clock_seconds();
    if (!status)
        status = run_steps(w, 1, &now);
    const double step = fmax(clock_seconds() - began, 1e-9);
    *per_second = now;
    for (int i = 0; i < ROUNDS && step < slow && !status; i++) {
        const double steps = fmin(ceil(round / step), MOST_STEPS);
        status = run_steps(w, (int64_t)steps, &now);
        *per_second = fmax(*per_second, now);
    }
    return status;
}

static haul_status time_batch(trainer *t, int64_t batch, const network_parts *parts, double *per_second)
{
    const trainer kept = *t;
    const int64_t kept_batch = t->options->batch;
    haul_scope   *scope = haul_scope_push();
    timing        w = {.trainer = t};
    if (!scope)
        return haul_error_status();
    t->options->batch = batch;
    haul_status status = trainer_build(t);
    if (!status)
        status = trainer_apply_parts(t, parts);
    if (!status)
        status = measure(&w, per_second);
    haul_scope_pop(scope);
    *t = kept;
    t->options->batch = kept_batch;
    return status;
}

/* False: it is left out. */
static bool try_batch(trainer *t, batch_choice *c, int64_t batch)
{
    network_parts parts;
    batch_need    need;
    batch_trial   trial = {.batch = batch};
    if (c->count == MOST_BATCH_TRIALS || !fits_in(t, batch, c->room_bytes, &need, &parts))
        return false;
    trial.peak_bytes = need.bytes;
    haul_status status = time_batch(t, batch, &parts, &trial.per_second);
    haul_memory_release_cached(t->device);
    haul_error_clear();
    if (status || interrupted())
        return false;
    c->trials[c->count++] = trial;
    return true;
}

/* The number tried after `batch`; 0: that was the last. */
static int64_t next_batch(int64_t batch, int64_t largest)
{
    if (batch == largest)
        return 0;
    return batch < largest / 2 + largest % 2 ? 2 * batch : largest;
}

static void say_timing(progress_bar *bar, int64_t batch)
{
    char text[64];
    snprintf(text, sizeof text, "Timing batch %s", text_count(batch));
    progress_say(bar, text);
}

void batch_time(trainer *t, batch_choice *c)
{
    enum { FIRST = 8 };
    const double seconds = 10, began = clock_seconds();
    progress_bar bar;
    int64_t      next;
    progress_init(&bar, !t->options->quiet && !t->options->json);
    haul_sync_report(false); /* they are not waits of the training */
    if (t->plans.limit.bytes)
        haul_memory_set_limit(t->device, t->plans.limit.bytes);
    for (int64_t batch = c->largest < 2 * FIRST ? 1 : FIRST; batch; batch = next) {
        const double from = clock_seconds();
        say_timing(&bar, batch);
        bool timed = try_batch(t, c, batch);
        next = next_batch(batch, c->largest);
        /* A step takes as many times as long as it has more examples. */
        const double now = clock_seconds(), expected = (now - from) * (double)next / (double)batch;
        if (interrupted() || (timed && now - began + expected > seconds))
            break;
    }
    progress_clear();
    haul_memory_set_limit(t->device, 0);
    haul_sync_report(t->options->sync_report);
    haul_error_clear();
}

#include "plan/batch.h"

#include <haul/memory.h>
#include <haul/scope.h>
#include <math.h>

#include "core/scope.h"
#include "plan/fit.h"
#include "plan/probe.h"

const haul__batch_trial *haul__batch_find_trial(const haul__batch_choice *c, int64_t batch)
{
    for (int i = 0; i < c->count; i++)
        if (c->trials[i].batch == batch)
            return &c->trials[i];
    return NULL;
}

int64_t haul__batch_fastest(const haul__batch_choice *c)
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

static haul_status fit_batch(const haul__batch_request *r, int64_t batch, haul__fit_result *out)
{
    const haul__fit_request request = {
        .batch = batch, .limit = {.bytes = r->limit}, .recompute = r->recompute, .start = r->start};
    return r->spill ? haul__fit_spilling(r->training, &request, out) : haul__fit(r->training, &request, out);
}

/* What goes to host memory has to fit there. */
static bool host_has_room(int64_t bytes)
{
    const int64_t available = haul__room_of_host();
    return !available || bytes <= available / 10 * 9;
}

haul_status haul__batch_find_need(const haul__batch_request *r, int64_t batch, haul__batch_need *need,
                                  haul__network_parts *parts)
{
    haul__fit_result fit;
    haul_status      status = fit_batch(r, batch, &fit);
    if (status) {
        haul_error_clear();
        return status;
    }
    need->bytes = fit.peak - fit.start + r->start;
    need->fits = need->bytes <= r->limit || (fit.spill.fits && host_has_room(need->bytes - r->limit));
    need->follows = fit.follows;
    if (parts)
        *parts = fit.parts;
    haul__fit_free(&fit);
    return HAUL_OK;
}

static bool fits(const haul__batch_request *r, int64_t batch, haul__batch_need *need, haul__network_parts *parts)
{
    haul__batch_need now;
    if (haul__batch_find_need(r, batch, &now, parts) || !now.fits)
        return false;
    *need = now;
    return true;
}

/* A larger batch may need less, because the library computes in another way; so one a quarter larger is tried, too. */
int64_t haul__batch_largest(const haul__batch_request *r, int64_t bound, haul__batch_need *need)
{
    int64_t most = 0, fails = bound;
    for (;;) {
        while (fails - most > 1) {
            int64_t middle = most + (fails - most) / 2;
            if (fits(r, middle, need, NULL))
                most = middle;
            else
                fails = middle;
        }
        int64_t further = most + (most + 3) / 4;
        if (!most || further >= bound || !fits(r, further, need, NULL))
            return most;
        most = further;
        fails = bound;
    }
}

/* ---- how fast it is ---- */

/* A training that runs for a moment, on its own network and loader. */
typedef struct timing {
    const haul__training    *training;
    const haul__batch_watch *watch;
    haul__training_objects   objects;
    bool                     follows;
    int64_t                  epoch;
    int64_t                  steps;
} timing;

static bool goes_on(const haul__batch_watch *watch)
{
    return watch->go_on(watch->context);
}

/* The next mini-batch. One epoch follows the other. */
static const haul_batch *take_batch(timing *w)
{
    haul_loader      *loader = w->objects.loader;
    const haul_batch *batch = w->epoch ? haul_loader_next(loader) : NULL;
    if (batch || haul_error_status() || haul_loader_start(loader, ++w->epoch))
        return batch;
    return haul_loader_next(loader);
}

/* Some steps, until the device is done, in examples a second. */
static haul_status run_steps(timing *w, int64_t steps, double *per_second)
{
    const haul__training *t = w->training;
    const int64_t         n = t->accumulate;
    const double          began = haul__now_seconds();
    int64_t               examples = 0;
    for (int64_t i = 0; i < steps && goes_on(w->watch); i++, w->steps++) {
        const haul_batch    *batch = take_batch(w);
        const haul_step_part part = {
            .first = w->steps % n == 0, .last = w->steps % n == n - 1, .weight = 1 / (double)n};
        if (!batch)
            return haul_error_status();
        haul_status status = w->follows ? t->follow(t->context, batch, &part) : t->step(t->context, batch, &part);
        if (status)
            return status;
        examples += batch->size;
    }
    haul_status status = haul_device_sync(t->device);
    *per_second = (double)examples / fmax(haul__now_seconds() - began, 1e-9);
    return status;
}

/* The best of some rounds, which other programs disturbed least. The first steps make gradients, state and kernels. */
static haul_status measure(timing *w, double *per_second)
{
    enum { FIRST = 2, MOST_STEPS = 100, ROUNDS = 3 };
    const double round = 0.05, slow = 0.25;
    double       now = 0;
    haul_status  status = run_steps(w, FIRST, &now);
    const double began = haul__now_seconds();
    if (!status)
        status = run_steps(w, 1, &now);
    const double step = fmax(haul__now_seconds() - began, 1e-9);
    *per_second = now;
    for (int i = 0; i < ROUNDS && step < slow && !status; i++) {
        const double steps = fmin(ceil(round / step), MOST_STEPS);
        status = run_steps(w, (int64_t)steps, &now);
        *per_second = fmax(*per_second, now);
    }
    return status;
}

static haul_status time_batch(timing *w, int64_t batch, const haul__network_parts *parts, double *per_second)
{
    const haul__training *t = w->training;
    haul_scope           *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    haul_status status = t->build(t->context, batch, w->follows, &w->objects);
    if (!status)
        status = haul__parts_apply(parts, w->objects.net);
    if (!status)
        status = measure(w, per_second);
    haul_scope_pop(scope);
    return status;
}

/* False: it is left out. */
static bool try_batch(const haul__batch_request *r, const haul__batch_watch *watch, int64_t batch,
                      haul__batch_choice *c)
{
    haul__network_parts parts;
    haul__batch_need    need;
    haul__batch_trial   trial = {.batch = batch};
    timing              w = {.training = r->training, .watch = watch};
    if (c->count == HAUL__MOST_BATCH_TRIALS || !fits(r, batch, &need, &parts))
        return false;
    trial.peak_bytes = need.bytes;
    w.follows = need.follows;
    haul_status status = time_batch(&w, batch, &parts, &trial.per_second);
    haul_memory_release_cached(r->training->device);
    haul_error_clear();
    if (status || !goes_on(watch))
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

void haul__batch_time(const haul__batch_request *r, const haul__batch_watch *watch, haul__batch_choice *c)
{
    enum { FIRST = 8 };
    const double seconds = 10, began = haul__now_seconds();
    int64_t      next;
    for (int64_t batch = c->largest < 2 * FIRST ? 1 : FIRST; batch; batch = next) {
        const double from = haul__now_seconds();
        watch->begins(watch->context, batch);
        bool timed = try_batch(r, watch, batch, c);
        next = next_batch(batch, c->largest);
        /* A step takes as many times as long as it has more examples. */
        const double now = haul__now_seconds(), expected = (now - from) * (double)next / (double)batch;
        if (!goes_on(watch) || (timed && now - began + expected > seconds))
            break;
    }
    haul_error_clear();
}

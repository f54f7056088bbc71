#include "plan/batch.h"

#include <haul/memory.h>
#include <haul/scope.h>
#include <math.h>

#include "base/assert.h"
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

static haul_status find_need(const haul__batch_request *r, int64_t batch, haul__batch_need *need,
                             haul__segments *segments)
{
    haul__fit_result fit;
    haul_status      status = fit_batch(r, batch, &fit);
    if (status) {
        haul_error_clear();
        return status;
    }
    need->bytes = fit.peak - fit.start + r->start;
    need->fits = need->bytes <= r->limit || fit.spill.fits;
    need->follows = fit.follows;
    *segments = fit.segments;
    haul__fit_free(&fit);
    return HAUL_OK;
}

haul_status haul__batch_find_need(const haul__batch_request *r, int64_t batch, haul__batch_need *need)
{
    haul__segments segments;
    return find_need(r, batch, need, &segments);
}

static void find_size(const haul__batch_request *r, haul__batch_sizes *sizes, haul__batch_size *size)
{
    haul__segments segments;
    *size = (haul__batch_size){.batch = size->batch};
    const haul_status status = find_need(r, size->batch, &size->need, &segments);
    sizes->runs++;
    if (status)
        return;
    HAUL__ASSERT(segments.count <= HAUL__MOST_SEGMENTS); /* one bit each */
    sizes->segments = segments;
    for (int i = 0; i < segments.count; i++)
        size->on |= (uint64_t)segments.items[i].on << i;
}

static haul__batch_size *known_size(haul__batch_sizes *sizes, int64_t batch)
{
    for (int i = 0; i < sizes->count; i++)
        if (sizes->items[i].batch == batch)
            return &sizes->items[i];
    return NULL;
}

/* NULL: it was not tried, and neither can be. */
static const haul__batch_size *try_size(const haul__batch_request *r, haul__batch_sizes *sizes, int64_t batch)
{
    haul__batch_size *size = known_size(sizes, batch);
    if (size)
        return size;
    if (sizes->runs == HAUL__MOST_BATCH_RUNS)
        return NULL;
    HAUL__ASSERT(sizes->count <= sizes->runs && sizes->count < HAUL__MOST_BATCH_SIZES);
    size = &sizes->items[sizes->count++];
    size->batch = batch;
    find_size(r, sizes, size);
    return size;
}

/* ---- the largest ---- */

/* The largest batch that is known to fit, and the smallest above it that does not. */
typedef struct search {
    const haul__batch_request *r;
    haul__batch_sizes         *sizes;
    haul__batch_size           fits, fails; /* .batch of `fails` is the bound before one failed */
    int                        same_side;   /* so many tries in a row had the same result; < 0: they failed */
} search;

static void try_next(search *s, int64_t batch)
{
    HAUL__ASSERT(s->fits.batch < batch && batch < s->fails.batch);
    const haul__batch_size *size = try_size(s->r, s->sizes, batch);
    if (size->need.fits) {
        s->fits = *size;
        s->same_side = s->same_side > 0 ? s->same_side + 1 : 1;
    } else {
        s->fails = *size;
        s->same_side = s->same_side < 0 ? s->same_side - 1 : -1;
    }
}

/* Where a line through both needs meets the limit. The need grows in steps, so tries with the same result go further
 * each time. */
static double meet_limit(const search *s)
{
    const double below = (double)s->fits.need.bytes, above = (double)s->fails.need.bytes;
    const double apart = (double)(s->fails.batch - s->fits.batch);
    HAUL__ASSERT(apart > 0);
    const double at = (double)s->fits.batch + apart * ((double)s->r->limit - below) / (above - below);
    if (s->same_side > 1)
        return (double)s->fits.batch + (at - (double)s->fits.batch + 1) * exp2(s->same_side - 1);
    if (s->same_side < -1)
        return (double)s->fails.batch - ((double)s->fails.batch - at + 1) * exp2(-s->same_side - 1);
    return at;
}

static int64_t next_size(const search *s)
{
    HAUL__ASSERT(s->fails.batch - s->fits.batch > 1); /* there is one in between */
    enum { FEW = 16 }; /* sizes of tensors go in steps, so there is no line between few batches */
    const bool   leads = !s->r->spill && !s->r->recompute && s->fits.need.bytes && s->fails.need.bytes;
    const double least = (double)s->fits.batch + 1, most = (double)s->fails.batch - 1;
    const double at = s->fails.batch - s->fits.batch <= FEW ? (least + most) / 2
                      : leads                               ? meet_limit(s)
                                                            : sqrt((double)s->fits.batch * (double)s->fails.batch);
    return (int64_t)fmin(fmax(at, least), most);
}

/* A larger batch may need less, because the library computes in another way; so one a quarter larger is tried, too. The
 * dry runs that are left are for the choice and for batches that are timed. */
int64_t haul__batch_largest(const haul__batch_request *r, int64_t bound, haul__batch_sizes *sizes,
                            haul__batch_need *need)
{
    enum { SEARCHED = 9 };
    search s = {.r = r, .sizes = sizes, .fails = {.batch = bound}};
    if (bound > 1)
        try_next(&s, bound - 1);
    if (bound > 2 && !s.fits.batch)
        try_next(&s, 1);
    s.same_side = 0;
    while (s.fits.batch && s.sizes->runs < SEARCHED) {
        const int64_t further = s.fits.batch + (s.fits.batch + 3) / 4;
        if (s.fails.batch - s.fits.batch > 1) {
            try_next(&s, next_size(&s));
        } else if (further < bound && s.fails.batch < further) {
            s.fails = (haul__batch_size){.batch = bound};
            try_next(&s, further);
            if (s.fails.batch == further)
                break;
        } else {
            break;
        }
    }
    HAUL__ASSERT(!s.fits.batch || (s.fits.need.fits && s.fits.batch < bound));
    *need = s.fits.need;
    return s.fits.batch;
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
    HAUL__ASSERT(n > 0);
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

static haul_status time_batch(timing *w, int64_t batch, const haul__segments *segments, double *per_second)
{
    const haul__training *t = w->training;
    haul_scope           *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    HAUL__ASSERT(batch > 0);
    haul_status status = t->build(t->context, batch, w->follows, &w->objects);
    if (!status)
        status = haul__segments_apply(segments, w->objects.net);
    if (!status)
        status = measure(w, per_second);
    haul_scope_pop(scope);
    return status;
}

/* The batch if it was tried, else the next larger one that was and fits; NULL: none fits. */
static const haul__batch_size *size_for(const haul__batch_request *r, haul__batch_sizes *sizes, int64_t batch)
{
    const haul__batch_size *size = try_size(r, sizes, batch);
    for (int i = 0; i < sizes->count && (!size || size->batch != batch); i++) {
        const haul__batch_size *other = &sizes->items[i];
        if (other->batch > batch && other->need.fits && (!size || other->batch < size->batch))
            size = other;
    }
    HAUL__ASSERT(!size || size->batch >= batch);
    return size && size->need.fits ? size : NULL;
}

static void turn_on(haul__segments *segments, uint64_t on)
{
    for (int i = 0; i < segments->count; i++)
        segments->items[i].on = on >> i & 1;
}

/* False: it is left out. */
static bool try_batch(const haul__batch_request *r, const haul__batch_watch *watch, int64_t batch,
                      haul__batch_choice *c)
{
    haul__batch_trial       trial = {.batch = batch};
    timing                  w = {.training = r->training, .watch = watch};
    const haul__batch_size *size = c->count < HAUL__MOST_BATCH_TRIALS ? size_for(r, &c->sizes, batch) : NULL;
    if (!size)
        return false;
    trial.peak_bytes = size->need.bytes;
    turn_on(&c->sizes.segments, size->on);
    w.follows = size->need.follows;
    haul_status status = time_batch(&w, batch, &c->sizes.segments, &trial.per_second);
    haul_memory_release_cached(r->training->device);
    haul_error_clear();
    if (status || !goes_on(watch))
        return false;
    HAUL__ASSERT(!c->count || c->trials[c->count - 1].batch < batch); /* the smallest first */
    HAUL__ASSERT(c->count < HAUL__MOST_BATCH_TRIALS);
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

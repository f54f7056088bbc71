#include "plan/choose/choose.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "machine/picoseconds.h"
#include "record/work.h"

enum { MOST_PARTS = 64, MOST_SIZES = 12 };

const char *haul__technique_name(int bit)
{
    static const char *const names[] = {
#define X(NAME, bit, text) [bit] = text,
#include "plan/choose/techniques.def"
#undef X
    };
    return bit >= 0 && (size_t)bit < sizeof names / sizeof *names ? names[bit] : NULL;
}

/* ---- one way ---- */

static bool is_update(const haul_program *p, int64_t operation)
{
    return operation >= 0 && !strcmp(p->operations[operation].section, "optimizer step");
}

static int64_t time_of_updates(const haul__choose_request *r, const haul__keep *k)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < k->program.operation_count; i++)
        if (is_update(&k->program, i)) {
            const haul__machine_work w = haul__program_work_of(&k->program, &k->program.operations[i]);
            sum += haul__machine_time(r->machine, r->number, &w);
        }
    return sum;
}

/* Bytes of host memory that only updates use. */
static int64_t state_on_host(const haul_program *p)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < p->store_count; i++) {
        const haul_program_store *s = &p->stores[i];
        sum += s->kind == HAUL_STORE_OUTSIDE && s->device == haul_cpu() && is_update(p, s->first) ? s->bytes : 0;
    }
    return sum;
}

static unsigned techniques_of(const haul__choose_request *r, const haul__chosen *c)
{
    unsigned used = (c->bf16 ? HAUL__ALLOW_BF16 : 0) | (c->offload ? HAUL__ALLOW_OFFLOAD : 0);
    used |= c->accumulate > r->parts ? HAUL__ALLOW_ACCUMULATE : 0;
    used |= haul__segments_count_on(&c->keep.segments) ? HAUL__ALLOW_RECOMPUTE : 0;
    return used | (c->keep.schedule.count || c->by_use ? HAUL__ALLOW_SPILL : 0);
}

typedef struct recording {
    const haul__choose_request *r;
    haul__choose_way            way;
} recording;

static haul_status record(void *context, haul__segments *segments, haul__fit_step *out)
{
    const recording *x = context;
    return x->r->record(x->r->context, &x->way, segments, out);
}

/* Of `way` the batch counts. Only the last mini-batch of a step updates the parameters. */
static haul_status find_way(const haul__choose_request *r, const haul__choose_way *way, int64_t limit,
                            haul__chosen *out)
{
    const int64_t parts = way->parts;
    HAUL__ASSERT(parts > 0 && way->batch > 0 && limit >= 0);
    recording x = {r, *way};
    *out = (haul__chosen){.batch = way->batch * parts, .accumulate = parts, .bf16 = way->bf16, .offload = way->offload};
    haul_status status = haul__keep_find(&(haul__keep_request){.record = record,
                                                               .context = &x,
                                                               .limit = limit,
                                                               .machine = r->machine,
                                                               .number = r->number,
                                                               .recomputes = r->allowed & HAUL__ALLOW_RECOMPUTE,
                                                               .spills = r->allowed & HAUL__ALLOW_SPILL},
                                         &out->keep);
    if (status)
        return status;
    const int64_t saved = (parts - 1) * time_of_updates(r, &out->keep);
    out->hosted = out->keep.moved + (way->offload ? state_on_host(&out->keep.program) : 0);
    out->fits = out->keep.fits && (!r->host_limit || out->hosted <= r->host_limit);
    out->ps = parts * out->keep.ps - saved;
    out->bound = parts * out->keep.bound - saved;
    out->free_ps = parts * out->keep.free_ps - saved;
    out->free_peak = out->keep.free_peak;
    out->least = out->keep.least;
    out->moved = parts * out->keep.moved;
    out->spill_ps = parts * out->keep.spill_ps;
    out->used = techniques_of(r, out);
    return HAUL_OK;
}

void haul__chosen_free(haul__chosen *c)
{
    haul__keep_free(&c->keep);
    *c = (haul__chosen){.fits = false};
}

/* ---- ways of one batch ---- */

static bool is_better(const haul__chosen *a, const haul__chosen *b)
{
    if (a->fits != b->fits)
        return a->fits;
    return a->fits ? a->ps < b->ps : a->keep.peak < b->keep.peak;
}

/* Keeps the better one of two ways of a batch. The bounds hold for both. */
static void keep_better(haul__chosen *now, haul__chosen *best)
{
    if (best->batch) {
        HAUL__ASSERT(now->batch == best->batch);
        now->bound = best->bound = smaller(now->bound, best->bound);
        now->least = best->least = smaller(now->least, best->least);
        now->free_ps = best->free_ps;
        now->free_peak = best->free_peak;
    }
    if (!best->batch || is_better(now, best)) {
        haul__chosen_free(best);
        *best = *now;
    } else {
        haul__chosen_free(now);
    }
}

/* The smallest divisor of the batch that is at least so large; 0: there is none up to MOST_PARTS. */
static int64_t divisor_from(int64_t batch, int64_t least)
{
    for (int64_t d = least; d <= MOST_PARTS && d <= batch; d++)
        if (batch % d == 0)
            return d;
    return 0;
}

/* With the training's mini-batches, and with smaller ones, at most half as large each time, until a step takes no more
 * time than without a limit. */
static haul_status try_parts(const haul__choose_request *r, int64_t batch, bool bf16, bool offload, int64_t limit,
                             haul__chosen *best)
{
    haul_status status = HAUL_OK;
    bool        free = false;
    for (int64_t parts = 1; !status && !free && parts; parts = divisor_from(batch, 2 * parts)) {
        haul__chosen now;
        HAUL__ASSERT(batch % parts == 0);
        const haul__choose_way way = {batch / parts, parts * r->parts, bf16, offload};
        status = find_way(r, &way, limit, &now);
        if (status)
            break;
        free = now.fits && now.keep.ps == now.keep.free_ps;
        keep_better(&now, best);
        if (!(r->allowed & HAUL__ALLOW_ACCUMULATE))
            break;
    }
    return status;
}

/* With the optimizer's state in host memory too, unless a step takes no more time than without a limit. */
static haul_status try_offload(const haul__choose_request *r, int64_t batch, bool bf16, int64_t limit,
                               haul__chosen *best)
{
    const haul_status status = try_parts(r, batch, bf16, false, limit, best);
    const bool        free = best->fits && best->ps <= best->free_ps;
    return status || free || !(r->allowed & HAUL__ALLOW_OFFLOAD) ? status
                                                                 : try_parts(r, batch, bf16, true, limit, best);
}

/* Of a mini-batch of so many examples, which accumulation may divide. */
static haul_status choose_for(const haul__choose_request *r, int64_t batch, int64_t limit, haul__chosen *out)
{
    *out = (haul__chosen){.fits = false};
    haul_status status = try_offload(r, batch, false, limit, out);
    if (!status && r->allowed & HAUL__ALLOW_BF16)
        status = try_offload(r, batch, true, limit, out);
    if (status)
        haul__chosen_free(out);
    return status;
}

/* ---- without a list of moves ---- */

static int64_t time_of_copies(const haul__choose_request *r, const haul__fit_spill *spill)
{
    const int64_t away = haul__machine_copy_time(r->machine, r->number, 0, spill->bytes, true);
    return haul__ps_add(away, haul__machine_copy_time(r->machine, 0, r->number, spill->back_bytes, true));
}

/* The copies take at most as long as if nothing hid them. */
static void use_spilling(const haul__choose_request *r, int64_t limit, const haul__fit_spill *spill, haul__chosen *c)
{
    HAUL__ASSERT(spill->fits && !c->fits);
    haul__segments_turn_all(&c->keep.segments, false);
    haul__free(c->keep.schedule.moves);
    c->keep.schedule = (haul__spill_schedule){.count = 0};
    c->fits = c->by_use = true;
    c->hosted += spill->host_peak - c->keep.moved;
    c->keep.moved = spill->host_peak;
    c->keep.peak = limit;
    c->moved = c->accumulate * spill->bytes;
    c->spill_ps = haul__ps_times(time_of_copies(r, spill), c->accumulate);
    c->ps = haul__ps_add(larger(c->ps, c->free_ps), c->spill_ps);
    c->bound = smaller(c->bound, c->free_ps);
    c->least = smaller(c->least, limit);
    c->used = techniques_of(r, c);
}

/* A training spills between the commands of an operation, too, so it may fit where no list of moves does, and below
 * their bound. The way that comes closest is tried. */
static haul_status try_spilling(const haul__choose_request *r, int64_t limit, haul__chosen *c)
{
    const haul__choose_way way = {c->batch / c->accumulate, c->accumulate, c->bf16, c->offload};
    haul__fit_result       fit;
    if (c->fits || !c->batch || !r->spill || !(r->allowed & HAUL__ALLOW_SPILL))
        return HAUL_OK;
    HAUL__ASSERT(c->accumulate > 0 && c->batch % c->accumulate == 0);
    const haul_status status = r->spill(r->context, &way, limit, &fit);
    if (status == HAUL_UNSUPPORTED) {
        haul_error_clear();
        return HAUL_OK;
    }
    if (status)
        return status;
    const bool has_room = !r->host_limit || c->hosted - c->keep.moved + fit.spill.host_peak <= r->host_limit;
    c->spills = !fit.spill.fits ? HAUL__SPILLS_TOO_LARGE : has_room ? HAUL__SPILLS_IN : HAUL__SPILLS_NO_HOST;
    if (c->spills == HAUL__SPILLS_IN)
        use_spilling(r, limit, &fit.spill, c);
    haul__fit_free(&fit);
    return HAUL_OK;
}

/* Of a mini-batch of so many examples, with a list of moves or without one. */
static haul_status choose_any(const haul__choose_request *r, int64_t batch, int64_t limit, haul__chosen *out)
{
    haul_status status = choose_for(r, batch, limit, out);
    if (status)
        return status;
    status = try_spilling(r, limit, out);
    if (status)
        haul__chosen_free(out);
    return status;
}

typedef haul_status chooser(const haul__choose_request *r, int64_t batch, int64_t limit, haul__chosen *out);

/* ---- the batch ---- */

/* More examples in a second. */
static bool is_faster(const haul__chosen *a, const haul__chosen *b)
{
    if (a->fits != b->fits)
        return a->fits;
    return (double)a->batch * (double)b->ps > (double)b->batch * (double)a->ps;
}

static haul_status try_batch(const haul__choose_request *r, chooser *choose, int64_t batch, haul__chosen *best,
                             bool *fits)
{
    HAUL__ASSERT(0 < batch && batch <= r->most_batch);
    haul__chosen now;
    haul_status  status = choose(r, batch, r->limit, &now);
    if (status)
        return status;
    *fits = now.fits;
    if (!best->batch || is_faster(&now, best)) {
        haul__chosen_free(best);
        *best = now;
    } else {
        haul__chosen_free(&now);
    }
    return HAUL_OK;
}

/* Doubles the batch as long as it fits, and then halves the distance to the first that does not. */
static haul_status find_batch(const haul__choose_request *r, chooser *choose, haul__chosen *out)
{
    int64_t     low = 0, high = r->most_batch + 1;
    haul_status status = HAUL_OK;
    *out = (haul__chosen){.fits = false};
    for (int i = 0; i < MOST_SIZES && !status && high - low > 1 + low / 16; i++) {
        bool          fits = false;
        const int64_t next = high > r->most_batch ? smaller(larger(2 * low, 1), r->most_batch) : low + (high - low) / 2;
        HAUL__ASSERT(low < next && next <= r->most_batch);
        status = try_batch(r, choose, next, out, &fits);
        *(fits ? &low : &high) = next;
        if (fits && next == r->most_batch)
            break;
    }
    if (status)
        haul__chosen_free(out);
    return status;
}

/* A training that spills by itself is slower, so it counts only if no batch has a list of moves. */
static haul_status choose_batch(const haul__choose_request *r, haul__chosen *out)
{
    const haul_status status = find_batch(r, choose_for, out);
    if (status || out->fits)
        return status;
    haul__chosen_free(out);
    return find_batch(r, choose_any, out);
}

/* The largest batch below this one for which something fits. */
static haul_status find_largest(const haul__choose_request *r, haul__chosen *out)
{
    int64_t     low = 0, high = out->batch / r->parts;
    haul_status status = HAUL_OK;
    for (int i = 0; i < MOST_SIZES && !status && high - low > 1; i++) {
        haul__chosen  now;
        const int64_t next = low + (high - low) / 2;
        HAUL__ASSERT(low < next && next < high);
        status = choose_any(r, next, r->limit, &now);
        if (status)
            break;
        *(now.fits ? &low : &high) = next;
        haul__chosen_free(&now);
    }
    out->largest = low;
    return status;
}

/* ---- other limits ---- */

static haul_status try_limit(const haul__choose_request *r, haul__chosen *c, int64_t bytes, bool more,
                             haul__choose_other *out)
{
    haul__chosen  now;
    const int64_t limit = more ? r->limit + bytes : r->limit - bytes;
    *out = (haul__choose_other){.bytes = 0};
    if (bytes <= 0 || limit <= 0)
        return HAUL_OK;
    chooser          *choose = more ? choose_for : choose_any;
    const haul_status status = choose(r, c->batch / r->parts, limit, &now);
    if (status)
        return status;
    *out = (haul__choose_other){.bytes = bytes, .fits = now.fits, .ps = now.ps};
    haul__chosen_free(&now);
    return HAUL_OK;
}

/* An eighth more, and twice as much again until the step is faster or the training cannot use more; and an eighth
 * less. */
static haul_status try_limits(const haul__choose_request *r, haul__chosen *c)
{
    const int64_t eighth = larger(r->limit / 8, 1), room = larger(c->free_peak - r->limit, 0);
    HAUL__ASSERT(c->fits && r->limit > 0);
    int64_t     bytes = smaller(eighth, room);
    haul_status status = try_limit(r, c, bytes, true, &c->more);
    while (!status && bytes < room && c->ps > c->free_ps && (!c->more.fits || c->more.ps >= c->ps)) {
        bytes = smaller(2 * bytes, room);
        status = try_limit(r, c, bytes, true, &c->more);
    }
    const int64_t unused = larger(r->limit - c->free_peak, 0);
    return status ? status : try_limit(r, c, smaller(unused + eighth, r->limit - 1), false, &c->less);
}

haul_status haul__choose(const haul__choose_request *r, haul__chosen *out)
{
    haul_status status = r->batch ? choose_any(r, r->batch, r->limit, out) : choose_batch(r, out);
    if (status)
        return status;
    HAUL__ASSERT(!out->fits || out->by_use || out->keep.peak <= r->limit);
    status = out->fits ? try_limits(r, out) : find_largest(r, out);
    if (status)
        haul__chosen_free(out);
    return status;
}

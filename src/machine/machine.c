#include "machine/machine.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/numbers.h"
#include "machine/picoseconds.h"

int haul__machine_find(const haul__machine *m, const char *device)
{
    for (int i = 0; i < m->device_count; i++)
        if (strcmp(m->devices[i].name, device) == 0)
            return i;
    return -1;
}

const haul__machine_link *haul__machine_link_of(const haul__machine *m, int from, int to)
{
    for (int i = 0; i < m->link_count; i++)
        if (m->links[i].from == from && m->links[i].to == to)
            return &m->links[i];
    return NULL;
}

/* ---- rates ---- */

/* Of work at a rate that depends on it. */
static int64_t time_by(const haul__machine_rate *r, int64_t work)
{
    const haul__machine_point *p = r->points, *last = p + r->count - 1;
    HAUL__ASSERT(0 < r->count && r->count <= HAUL__MACHINE_POINTS);
    if (work >= last->work)
        return haul__ps_at_rate(work, last->rate);
    if (work <= p->work)
        return haul__ps_at_rate(work, p->rate);
    while (work > p[1].work)
        p++;
    const int64_t before = haul__ps_at_rate(p->work, p->rate), after = haul__ps_at_rate(p[1].work, p[1].rate);
    const int64_t done = work - p->work, all = p[1].work - p->work;
    HAUL__ASSERT(p < last && 0 < done && done <= all);
    return after >= before ? before + haul__share(after - before, done, all)
                           : before - haul__share(before - after, done, all);
}

/* ---- operations ---- */

/* The rate for the dtype, or else the one for any; NULL: none. */
static const haul__machine_rate *find_own_rate(const haul__machine_device *d, haul__work_class work_class,
                                               haul_dtype dtype)
{
    const haul__machine_rate *any = NULL;
    HAUL__ASSERT(0 <= d->rate_count && d->rate_count <= HAUL__MACHINE_RATES);
    for (int i = 0; i < d->rate_count; i++) {
        const haul__machine_rate *r = &d->rates[i];
        if (r->work_class == work_class && r->dtype == dtype)
            return r;
        if (r->work_class == work_class && r->dtype == HAUL_DTYPE_NONE)
            any = r;
    }
    return any;
}

int64_t haul__machine_product_rate(const haul__machine_device *d, haul_dtype dtype)
{
    const haul__machine_rate *r = find_own_rate(d, HAUL__WORK_MATMUL, dtype);
    return r && r->dtype == dtype ? r->points[r->count - 1].rate : 0;
}

/* Of the class or, where it has none, of the class that stands for it; NULL: none. */
static const haul__machine_rate *find_rate(const haul__machine_device *d, haul__work_class work_class, haul_dtype dtype)
{
    for (;; work_class = haul__work_class_else(work_class)) {
        const haul__machine_rate *r = find_own_rate(d, work_class, dtype);
        if (r || haul__work_class_else(work_class) == work_class)
            return r;
    }
}

static bool is_conv(const haul__machine_work *work)
{
    return work->work_class == HAUL__WORK_CONV || work->work_class == HAUL__WORK_CONV_BACKWARD;
}

static bool is_deep(const haul__machine_work *work)
{
    return work->weights > work->bytes / 2;
}

/* Convolutions by their channels, those of the input and of the result together: few and many. */
static const double few_channels = 12, many_channels = 64;

/* A convolution does two operations for each pixel of the result and each element of the weight. Without the weight, as
 * many as a convolution of 3 x 3 with as many operations for each byte would have. */
static double channels_of(const haul__machine_work *work)
{
    const double size = (double)haul_dtype_bits(work->dtype) / 8;
    if (work->weights <= 0 || work->flops <= 0 || size <= 0)
        return work->bytes > 0 ? work->flops / (double)work->bytes : 0;
    const double pixels = work->flops * size / (2 * (double)work->weights);
    return (double)(work->bytes - work->weights) / size / pixels;
}

haul__work_class haul__machine_class_of(const haul__machine_work *work)
{
    const bool forward = work->work_class == HAUL__WORK_CONV;
    HAUL__ASSERT(work->work_class <= HAUL__WORK_OTHER);
    if (work->work_class == HAUL__WORK_MATMUL && work->batched)
        return HAUL__WORK_BATCHED_MATMUL;
    if (work->work_class == HAUL__WORK_MOVE && work->scattered)
        return HAUL__WORK_SCATTERED_MOVE;
    if (!is_conv(work))
        return work->work_class;
    if (is_deep(work))
        return forward ? HAUL__WORK_DEEP_CONV : HAUL__WORK_DEEP_CONV_BACKWARD;
    if (channels_of(work) < many_channels)
        return forward ? HAUL__WORK_NARROW_CONV : HAUL__WORK_NARROW_CONV_BACKWARD;
    return work->work_class;
}

bool haul__machine_measures(const haul__machine *m, int device, haul__work_class work_class, haul_dtype dtype)
{
    return find_rate(&m->devices[device], work_class, dtype) != NULL;
}

int64_t haul__whole_flops(double flops)
{
    const double most = 1e18;
    return flops >= most ? (int64_t)most : flops > 0 ? (int64_t)flops : 0;
}

/* In proportion to the work, which is of the same size. */
static int64_t time_learnt(const haul__machine_learnt *l, const haul__machine_work *work)
{
    const bool   by_flops = haul__work_by_flops(work->work_class) && l->flops > 0;
    const double ratio = by_flops       ? work->flops / (double)l->flops
                         : l->bytes > 0 ? (double)work->bytes / (double)l->bytes
                                        : 1;
    return (int64_t)fmin((double)l->ps * ratio, (double)HAUL__MACHINE_MOST_PS);
}

/* Reading and writing the bytes: those of a small operation are in caches, as those of elementwise ones are. */
static int64_t time_of_bytes(const haul__machine_device *d, const haul__machine_work *work)
{
    const haul__machine_rate *r = find_own_rate(d, HAUL__WORK_ELEMENTWISE, work->dtype);
    const int64_t             memory = haul__ps_at_rate(work->bytes, d->bytes_per_second);
    return r ? smaller(memory, time_by(r, work->bytes)) : memory;
}

static int64_t time_of_class(const haul__machine_device *d, haul__work_class work_class, const haul__machine_work *work)
{
    const haul__machine_rate *r = find_rate(d, work_class, work->dtype);
    if (!r)
        return haul__ps_at_rate(work->bytes, d->bytes_per_second);
    if (haul__work_by_flops(r->work_class))
        return larger(time_of_bytes(d, work), time_by(r, haul__whole_flops(work->flops)));
    return time_by(r, work->bytes);
}

/* Between few and many channels the time for each operation falls with their number. */
static int64_t time_of_conv(const haul__machine_device *d, const haul__machine_work *work)
{
    const int64_t own = time_of_class(d, haul__machine_class_of(work), work);
    const int64_t wide = time_of_class(d, work->work_class, work);
    const double  channels = channels_of(work);
    HAUL__ASSERT(own >= 0 && wide >= 0);
    if (is_deep(work))
        return larger(own, wide);
    if (channels <= few_channels || channels >= many_channels)
        return own;
    const double  few = 1 / few_channels, many = 1 / many_channels;
    const int64_t between = wide + (int64_t)((double)(own - wide) * (1 / channels - many) / (few - many));
    return larger(between, smaller(own, wide)); /* long times are rounded */
}

int64_t haul__machine_time(const haul__machine *m, int device, const haul__machine_work *work)
{
    HAUL__ASSERT(0 <= device && device < m->device_count);
    const haul__machine_learnt *learnt = haul__machine_learnt_of(m, device, work);
    if (learnt)
        return time_learnt(learnt, work);
    const haul__machine_device *d = &m->devices[device];
    const int64_t body = is_conv(work) ? time_of_conv(d, work) : time_of_class(d, haul__machine_class_of(work), work);
    HAUL__ASSERT(body >= 0);
    return haul__ps_add(haul__ps_of_waits(d->launch_ns, work->commands), body);
}

/* ---- copies ---- */

static int64_t time_of_link(const haul__machine_link *link, int64_t bytes, bool pinned)
{
    return haul__ps_add(haul__ps_of_waits(link->latency_ns, 1),
                        haul__ps_at_rate(bytes, pinned ? link->pinned : link->pageable));
}

int64_t haul__machine_copy_time(const haul__machine *m, int from, int to, int64_t bytes, bool pinned)
{
    HAUL__ASSERT(0 <= from && from < m->device_count && 0 <= to && to < m->device_count);
    const haul__machine_device *d = &m->devices[from];
    const haul__machine_link   *link = haul__machine_link_of(m, from, to);
    if (from == to)
        return haul__ps_add(
            haul__ps_of_waits(d->launch_ns, 1),
            haul__ps_add(haul__ps_at_rate(bytes, d->bytes_per_second), haul__ps_at_rate(bytes, d->bytes_per_second)));
    if (link)
        return time_of_link(link, bytes, pinned);
    HAUL__ASSERT(from > 0 && to > 0); /* every device has links with the host */
    return haul__ps_add(time_of_link(haul__machine_link_of(m, from, 0), bytes, pinned),
                        time_of_link(haul__machine_link_of(m, 0, to), bytes, pinned));
}

/* ---- ranks that share the CPU ---- */

/* How many cores so many ranks would take, of *all. If the cores are not known, the CPU counts as one. */
static int64_t wanted_of(const haul__machine_device *cpu, int64_t ranks, int64_t *all)
{
    const bool known = cpu->threads > 0 && cpu->cores > 0;
    *all = known ? cpu->cores : 1;
    return known ? ranks * smaller(cpu->threads, cpu->cores) : ranks;
}

int64_t haul__machine_divided(const haul__machine *m, int64_t ps, int64_t ranks)
{
    int64_t       all;
    const int64_t wanted = wanted_of(&m->devices[0], ranks, &all);
    HAUL__ASSERT(ranks >= 1 && all >= 1);
    return wanted > all ? haul__ps_times(ps, wanted) / all : ps;
}

bool haul__machine_is_busy(const haul__machine *m, int64_t ranks)
{
    int64_t all;
    return wanted_of(&m->devices[0], ranks, &all) >= all;
}

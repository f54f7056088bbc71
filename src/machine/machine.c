#include "machine/machine.h"

#include <math.h>
#include <string.h>

#include "base/numbers.h"

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

/* ---- picoseconds ---- */

static const int64_t ps_of_ns = 1000, ps_of_second = INT64_C(1000000000000);

static int64_t add_times(int64_t a, int64_t b)
{
    return a > HAUL__MACHINE_MOST_PS - b ? HAUL__MACHINE_MOST_PS : a + b;
}

/* Of `count` waits. */
static int64_t times_ns(int64_t ns, int64_t count)
{
    if (count <= 0 || ns <= 0)
        return 0;
    return ns > HAUL__MACHINE_MOST_PS / ps_of_ns / count ? HAUL__MACHINE_MOST_PS : ns * ps_of_ns * count;
}

/* whole * part / of, for part <= of <= 1e18, without a product that overflows. */
static int64_t share(int64_t whole, int64_t part, int64_t of)
{
    int64_t quotient = 0, rest = 0;
    for (int bit = 62; bit >= 0; bit--) {
        rest = 2 * rest;
        quotient = 2 * quotient + (rest >= of);
        rest -= rest >= of ? of : 0;
        if (!(whole >> bit & 1))
            continue;
        rest += part;
        quotient += rest >= of;
        rest -= rest >= of ? of : 0;
    }
    return quotient;
}

/* Of work at that rate per second. */
static int64_t time_at(int64_t work, int64_t rate)
{
    if (work <= 0)
        return 0;
    if (work / rate >= HAUL__MACHINE_MOST_PS / ps_of_second)
        return HAUL__MACHINE_MOST_PS;
    return work / rate * ps_of_second + share(ps_of_second, work % rate, rate);
}

/* Of work at a rate that depends on it. */
static int64_t time_by(const haul__machine_rate *r, int64_t work)
{
    const haul__machine_point *p = r->points, *last = p + r->count - 1;
    if (work >= last->work)
        return time_at(work, last->rate);
    if (work <= p->work)
        return time_at(work, p->rate);
    while (work > p[1].work)
        p++;
    const int64_t before = time_at(p->work, p->rate), after = time_at(p[1].work, p[1].rate);
    const int64_t done = work - p->work, all = p[1].work - p->work;
    return after >= before ? before + share(after - before, done, all) : before - share(before - after, done, all);
}

/* ---- operations ---- */

/* The rate for the dtype, or else the one for any; NULL: none. */
static const haul__machine_rate *find_own_rate(const haul__machine_device *d, haul__work_class work_class,
                                               haul_dtype dtype)
{
    const haul__machine_rate *any = NULL;
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

/* Convolutions of few channels do few operations for each byte, and run far slower. */
haul__work_class haul__machine_class_of(const haul__machine_work *work)
{
    const double narrow = 64; /* operations for each byte */
    if (work->flops >= narrow * (double)work->bytes)
        return work->work_class;
    return work->work_class == HAUL__WORK_CONV            ? HAUL__WORK_NARROW_CONV
           : work->work_class == HAUL__WORK_CONV_BACKWARD ? HAUL__WORK_NARROW_CONV_BACKWARD
                                                          : work->work_class;
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

int64_t haul__machine_time(const haul__machine *m, int device, const haul__machine_work *work)
{
    const haul__machine_learnt *learnt = haul__machine_learnt_of(m, device, work);
    if (learnt)
        return time_learnt(learnt, work);
    const haul__machine_device *d = &m->devices[device];
    const haul__machine_rate   *r = find_rate(d, haul__machine_class_of(work), work->dtype);
    const int64_t               memory = time_at(work->bytes, d->bytes_per_second);
    int64_t                     body = memory;
    if (r && haul__work_by_flops(work->work_class))
        body = larger(memory, time_by(r, haul__whole_flops(work->flops)));
    else if (r)
        body = time_by(r, work->bytes);
    return add_times(times_ns(d->launch_ns, work->commands), body);
}

/* ---- copies ---- */

static int64_t time_of_link(const haul__machine_link *link, int64_t bytes, bool pinned)
{
    return add_times(times_ns(link->latency_ns, 1), time_at(bytes, pinned ? link->pinned : link->pageable));
}

int64_t haul__machine_copy_time(const haul__machine *m, int from, int to, int64_t bytes, bool pinned)
{
    const haul__machine_device *d = &m->devices[from];
    const haul__machine_link   *link = haul__machine_link_of(m, from, to);
    if (from == to)
        return add_times(times_ns(d->launch_ns, 1),
                         add_times(time_at(bytes, d->bytes_per_second), time_at(bytes, d->bytes_per_second)));
    if (link)
        return time_of_link(link, bytes, pinned);
    return add_times(time_of_link(haul__machine_link_of(m, from, 0), bytes, pinned),
                     time_of_link(haul__machine_link_of(m, 0, to), bytes, pinned));
}

/* Times of operations that profiles measured. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "machine/machine.h"

/* The length of the number, and its first three digits; below 256. */
static int size_of_number(int64_t n)
{
    const int length = n ? 64 - __builtin_clzll((unsigned long long)n) : 0;
    return 4 * length + (length > 2 ? (int)(n >> (length - 3)) & 3 : (int)n);
}

static int size_of(int64_t flops, int64_t bytes)
{
    return 256 * size_of_number(flops) + size_of_number(bytes);
}

static bool same_kind(const haul__machine_learnt *l, const char *operation, haul_dtype dtype)
{
    return l->dtype == dtype && strcmp(l->operation, operation) == 0;
}

/* True if the work of a is nearer; the newer one wins a tie. */
static bool is_nearer(const haul__machine_learnt *a, const haul__machine_learnt *b, int64_t flops, int64_t bytes)
{
    const int64_t x = llabs(a->flops - flops), y = llabs(b->flops - flops);
    return x != y ? x < y : llabs(a->bytes - bytes) <= llabs(b->bytes - bytes);
}

const haul__machine_learnt *haul__machine_learnt_of(const haul__machine *m, int device, const haul__machine_work *work)
{
    const haul__machine_device *d = &m->devices[device];
    const haul__machine_learnt *best = NULL;
    const int64_t               flops = haul__whole_flops(work->flops);
    const int                   size = size_of(flops, work->bytes);
    HAUL__ASSERT(0 <= device && device < m->device_count);
    HAUL__ASSERT(0 <= d->learnt_count && d->learnt_count <= HAUL__MACHINE_LEARNT);
    for (int i = 0; work->operation && i < d->learnt_count; i++) {
        const haul__machine_learnt *l = &d->learnt[i];
        if (l->size == size && same_kind(l, work->operation, work->dtype) &&
            (!best || is_nearer(l, best, flops, work->bytes)))
            best = l;
    }
    return best;
}

static void forget(haul__machine_device *d, int i)
{
    HAUL__ASSERT(0 <= i && i < d->learnt_count);
    d->learnt_count--;
    memmove(&d->learnt[i], &d->learnt[i + 1], (size_t)(d->learnt_count - i) * sizeof *d->learnt);
}

void haul__machine_learn(haul__machine_device *d, const haul__machine_learnt *learnt)
{
    for (int i = 0; i < d->learnt_count; i++)
        if (d->learnt[i].flops == learnt->flops && d->learnt[i].bytes == learnt->bytes &&
            same_kind(&d->learnt[i], learnt->operation, learnt->dtype)) {
            forget(d, i);
            break;
        }
    if (d->learnt_count == HAUL__MACHINE_LEARNT)
        forget(d, 0);
    HAUL__ASSERT(0 <= d->learnt_count && d->learnt_count < HAUL__MACHINE_LEARNT);
    d->learnt[d->learnt_count] = *learnt;
    d->learnt[d->learnt_count++].size = size_of(learnt->flops, learnt->bytes);
}

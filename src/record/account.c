/* Reads accounts from the log of a dry run. */
#include "record/account.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

static bool is_of(const haul__program_store *s, const haul_device *device, bool pinned)
{
    return pinned ? s->pinned_for == device : !s->pinned_for && s->device == device;
}

haul__account haul__account_read(const haul__dry_run *run, const haul_device *device, bool pinned, size_t from)
{
    const haul__program *p = &run->program;
    haul__account        a = {.peak_at = from};
    int64_t              now = (pinned ? run->pinned : run->bases)[device->slot].start;
    HAUL__ASSERT(from <= p->change_count);
    for (size_t i = 0; i <= p->change_count; i++) {
        if (i == from)
            a.start = a.peak = now;
        if (i > from && now > a.peak) {
            a.peak = now;
            a.peak_at = i;
        }
        if (i == p->change_count)
            break;
        const haul__program_store *s = &p->stores[p->changes[i].store];
        if (is_of(s, device, pinned))
            now += p->changes[i].freed ? -s->block : s->block;
    }
    HAUL__ASSERT(a.start <= a.peak && from <= a.peak_at && a.peak_at <= p->change_count);
    return a;
}

static haul_estimate_origin *find(haul_estimate_origin *origins, int *count, const haul__program_store *s)
{
    const char           *module = s->module.of_gradient ? "" : s->module.path;
    haul_estimate_origin *o = origins;
    for (; o < origins + *count; o++)
        if (!strcmp(o->name, s->origin) && !strcmp(o->module, module) && o->role == haul__role_name(s->role))
            return o;
    *o = (haul_estimate_origin){.role = haul__role_name(s->role)};
    snprintf(o->name, sizeof o->name, "%s", s->origin);
    snprintf(o->module, sizeof o->module, "%s", module);
    ++*count;
    return o;
}

static int by_bytes(const void *a, const void *b)
{
    const haul_estimate_origin *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static bool is_live(const haul__program_store *s, const haul_device *device, size_t moment)
{
    return s->planned && is_of(s, device, false) && s->born <= (int64_t)moment && s->freed > (int64_t)moment;
}

haul_estimate_origin *haul__account_origins(const haul__dry_run *run, const haul_device *device, size_t moment,
                                            int *count)
{
    const haul__program *p = &run->program;
    size_t               most = 1;
    for (size_t i = 0; i < p->store_count; i++)
        most += is_live(&p->stores[i], device, moment);
    haul_estimate_origin *origins = haul__calloc(most, sizeof *origins);
    *count = 0;
    if (!origins) {
        haul__fail_memory("haul_estimate", most * sizeof *origins);
        return NULL;
    }
    for (size_t i = 0; i < p->store_count; i++)
        if (is_live(&p->stores[i], device, moment))
            find(origins, count, &p->stores[i])->bytes += p->stores[i].block;
    HAUL__ASSERT((size_t)*count < most); /* one store has one origin at most */
    qsort(origins, (size_t)*count, sizeof *origins, by_bytes);
    return origins;
}

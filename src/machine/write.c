/* Machines as JSON, and their digests. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fnv.h"
#include "base/text/json_text.h"
#include "machine/machine.h"

static void write_rate(haul__json_text *t, const haul__machine_rate *r)
{
    HAUL__ASSERT(0 < r->count && r->count <= HAUL__MACHINE_POINTS);
    haul__json_begin(t, NULL, '{');
    haul__json_string(t, "class", haul__work_class_name(r->work_class));
    haul__json_string(t, "dtype", r->dtype == HAUL_DTYPE_NONE ? "any" : haul_dtype_name(r->dtype));
    haul__json_begin(t, "points", '[');
    for (int i = 0; i < r->count; i++) {
        haul__json_begin(t, NULL, '[');
        haul__json_integer(t, NULL, r->points[i].work);
        haul__json_integer(t, NULL, r->points[i].rate);
        haul__json_end(t, ']');
    }
    haul__json_end(t, ']');
    haul__json_end(t, '}');
}

static void write_learnt(haul__json_text *t, const haul__machine_learnt *l)
{
    haul__json_begin(t, NULL, '{');
    haul__json_string(t, "operation", l->operation);
    haul__json_string(t, "dtype", l->dtype == HAUL_DTYPE_NONE ? "any" : haul_dtype_name(l->dtype));
    haul__json_integer(t, "flops", l->flops);
    haul__json_integer(t, "bytes", l->bytes);
    haul__json_integer(t, "ps", l->ps);
    haul__json_end(t, '}');
}

static void write_device(haul__json_text *t, const haul__machine_device *d)
{
    HAUL__ASSERT(0 <= d->rate_count && d->rate_count <= HAUL__MACHINE_RATES);
    HAUL__ASSERT(0 <= d->learnt_count && d->learnt_count <= HAUL__MACHINE_LEARNT);
    haul__json_begin(t, NULL, '{');
    haul__json_string(t, "name", d->name);
    haul__json_string(t, "model", d->model);
    haul__json_integer(t, "memory_bytes", d->memory_bytes);
    haul__json_bool(t, "shares_host_memory", d->shares_host_memory);
    haul__json_integer(t, "launch_ns", d->launch_ns);
    haul__json_integer(t, "bytes_per_second", d->bytes_per_second);
    haul__json_begin(t, "rates", '[');
    for (int i = 0; i < d->rate_count; i++)
        write_rate(t, &d->rates[i]);
    haul__json_end(t, ']');
    if (d->learnt_count)
        haul__json_begin(t, "learnt", '[');
    for (int i = 0; i < d->learnt_count; i++)
        write_learnt(t, &d->learnt[i]);
    if (d->learnt_count)
        haul__json_end(t, ']');
    haul__json_end(t, '}');
}

static void write_link(haul__json_text *t, const haul__machine *m, const haul__machine_link *link)
{
    HAUL__ASSERT(0 <= link->from && link->from < m->device_count);
    HAUL__ASSERT(0 <= link->to && link->to < m->device_count);
    haul__json_begin(t, NULL, '{');
    haul__json_string(t, "from", m->devices[link->from].name);
    haul__json_string(t, "to", m->devices[link->to].name);
    haul__json_string(t, "name", link->name);
    haul__json_integer(t, "latency_ns", link->latency_ns);
    haul__json_integer(t, "pinned_bytes_per_second", link->pinned);
    haul__json_integer(t, "pageable_bytes_per_second", link->pageable);
    haul__json_bool(t, "overlap", link->overlap);
    haul__json_end(t, '}');
}

static void write_machine(haul__json_text *t, const void *of)
{
    const haul__machine *m = of;
    HAUL__ASSERT(0 <= m->device_count && m->device_count <= HAUL__MACHINE_DEVICES);
    HAUL__ASSERT(0 <= m->link_count && m->link_count <= HAUL__MACHINE_LINKS);
    haul__json_begin(t, NULL, '{');
    haul__json_integer(t, "haul_machine", 1);
    haul__json_string(t, "name", m->name);
    haul__json_bool(t, "described", m->described);
    haul__json_string(t, "source", m->source);
    haul__json_begin(t, "devices", '[');
    for (int i = 0; i < m->device_count; i++)
        write_device(t, &m->devices[i]);
    haul__json_end(t, ']');
    haul__json_begin(t, "links", '[');
    for (int i = 0; i < m->link_count; i++)
        write_link(t, m, &m->links[i]);
    haul__json_end(t, ']');
    haul__json_end(t, '}');
}

char *haul__machine_write(const haul__machine *m)
{
    size_t length;
    return haul__json_make(write_machine, m, &length);
}

uint64_t haul__machine_digest(const haul__machine *m)
{
    char          *text = haul__machine_write(m);
    const uint64_t digest = text ? haul__fnv(HAUL__FNV, text, strlen(text)) : 0;
    haul__free(text);
    return digest;
}

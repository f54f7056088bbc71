/* haul_estimate: the operations of a dry run and its memory accounts. */
#include <haul/estimate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/guest.h"
#include "record/dry_part.h"

static const char operation[] = "haul_estimate";

/* ---- a part of the run ---- */

typedef struct part {
    size_t              first; /* of the described calls */
    haul_transfer_stats moved;
    bool                touched[2][HAUL__MAX_DEVICES]; /* memory accounts before the part */
    int64_t             peaks[2][HAUL__MAX_DEVICES];
    int64_t             starts[2][HAUL__MAX_DEVICES];
    int64_t             spilled[HAUL__MAX_DEVICES], returned[HAUL__MAX_DEVICES];
    bool                over[HAUL__MAX_DEVICES];
    int64_t            *held[HAUL__MAX_DEVICES]; /* what made up the peaks */
    size_t              held_count[HAUL__MAX_DEVICES];
} part;

static haul__account *accounts_of(haul__dry_run *d, int pinned)
{
    return pinned ? d->pinned : d->accounts;
}

static void end_held(part *p)
{
    for (int i = 0; i < HAUL__MAX_DEVICES; i++)
        haul__free(p->held[i]);
}

/* Remembers what made up the peak so far. The part's own peak begins with what is in use now. */
static haul_status begin_held(haul__dry_run *d, part *p)
{
    for (int i = 0; i < HAUL__MAX_DEVICES; i++) {
        haul__holdings *h = &d->accounts[i].held;
        haul__holdings_settle(h);
        p->held_count[i] = h->count;
        p->held[i] = h->count ? haul__calloc(h->count, sizeof *p->held[i]) : NULL;
        if (h->count && !p->held[i]) {
            end_held(p);
            return haul__fail_memory(operation, h->count * sizeof *p->held[i]);
        }
        for (size_t k = 0; k < h->count; k++) {
            p->held[i][k] = h->items[k].at_peak;
            h->items[k].at_peak = h->items[k].bytes;
        }
    }
    return HAUL_OK;
}

/* The peak was higher before the part. */
static void restore_held(haul__holdings *h, const int64_t *held, size_t count)
{
    h->at_peak = false;
    for (size_t k = 0; k < h->count; k++)
        h->items[k].at_peak = k < count ? held[k] : 0;
}

static void begin_spills(haul__dry_run *d, part *p)
{
    for (int i = 0; i < HAUL__MAX_DEVICES; i++) {
        haul__planned_spill *s = &d->accounts[i].spill;
        p->spilled[i] = s->spilled;
        p->returned[i] = s->returned;
        p->over[i] = s->over;
        s->over = false;
    }
}

static haul_status begin_part(haul__dry_run *d, part *p)
{
    *p = (part){.first = d->program.described_count, .moved = d->moved};
    if (begin_held(d, p))
        return haul_error_status();
    for (int pinned = 0; pinned < 2; pinned++) {
        haul__account *a = accounts_of(d, pinned);
        for (int i = 0; i < HAUL__MAX_DEVICES; i++) {
            p->touched[pinned][i] = a[i].device != NULL;
            p->peaks[pinned][i] = a[i].peak;
            p->starts[pinned][i] = a[i].start;
            a[i].start = a[i].peak = (int64_t)atomic_load(&a[i].allocated);
        }
    }
    begin_spills(d, p);
    return HAUL_OK;
}

/* The enclosing part has seen this part's peak, too. */
static void end_part(haul__dry_run *d, part *p)
{
    for (int pinned = 0; pinned < 2; pinned++) {
        haul__account *a = accounts_of(d, pinned);
        for (int i = 0; i < HAUL__MAX_DEVICES; i++) {
            if (!p->touched[pinned][i])
                continue;
            if (!pinned && p->peaks[0][i] > a[i].peak)
                restore_held(&a[i].held, p->held[i], p->held_count[i]);
            a[i].peak = a[i].peak > p->peaks[pinned][i] ? a[i].peak : p->peaks[pinned][i];
            a[i].start = p->starts[pinned][i];
        }
    }
    for (int i = 0; i < HAUL__MAX_DEVICES; i++)
        d->accounts[i].spill.over = d->accounts[i].spill.over || p->over[i];
    end_held(p);
}

/* ---- the result ---- */

static void subtract(haul_transfer_stats *s, const haul_transfer_stats *before)
{
    s->h2d_bytes -= before->h2d_bytes;
    s->d2h_bytes -= before->d2h_bytes;
    s->d2d_bytes -= before->d2d_bytes;
    s->h2d_count -= before->h2d_count;
    s->d2h_count -= before->d2h_count;
    s->d2d_count -= before->d2d_count;
}

static int by_bytes(const void *a, const void *b)
{
    const haul_estimate_origin *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* What made up the peak of the device. */
static haul_status fill_origins(haul_estimate_device *out, haul__holdings *h)
{
    out->origins = haul__calloc(h->count + 1, sizeof *out->origins);
    if (!out->origins)
        return haul__fail_memory(operation, h->count * sizeof *out->origins);
    haul__holdings_settle(h);
    for (size_t k = 0; k < h->count; k++) {
        const haul__holding *from = &h->items[k];
        if (!from->at_peak)
            continue;
        haul_estimate_origin *to = &out->origins[out->origin_count++];
        snprintf(to->name, sizeof to->name, "%s", from->origin);
        memcpy(to->module, from->module, sizeof to->module);
        to->bytes = from->at_peak;
    }
    qsort(out->origins, (size_t)out->origin_count, sizeof *out->origins, by_bytes);
    return HAUL_OK;
}

/* The operand or result whose dtype and shape an operation shows. */
static const haul_program_value *subject_of(const haul__program *p, const haul__program_call *c)
{
    const haul_program_value *values = p->values + c->value;
    for (int i = 0; i < c->result_count; i++)
        if (values[c->operand_count + i].store >= 0)
            return &values[c->operand_count + i];
    return c->operand_count && values[0].store >= 0 ? values : NULL;
}

static haul_estimate_operation describe(const haul__program *p, const haul__program_call *c)
{
    haul_estimate_operation   o = {.name = c->name, .device = c->device, .flops = c->flops, .bytes = c->bytes};
    const haul_program_value *v = subject_of(p, c);
    if (v) {
        o.dtype = v->dtype;
        o.shape = v->shape;
    }
    memcpy(o.module, c->module, sizeof o.module);
    return o;
}

static void fill_operations(haul_estimate_result *out, const haul__program *p, size_t first)
{
    for (size_t i = first; i < p->described_count; i++) {
        const haul__program_call *c = &p->calls[p->described[i]];
        if (!c->listed)
            continue;
        const haul_estimate_operation o = describe(p, c);
        out->operations[out->operation_count++] = o;
        out->flops += o.flops;
        out->bytes_touched += o.bytes;
    }
}

static haul_status fill(haul_estimate_result *out, haul__dry_run *d, const part *p)
{
    const size_t             most = d->program.described_count - p->first;
    haul_estimate_device    *devices = haul__calloc(HAUL__MAX_DEVICES, sizeof *devices);
    haul_estimate_operation *operations = haul__calloc(most + 1, sizeof *operations);
    if (!devices || !operations) {
        haul__free(devices);
        haul__free(operations);
        return haul__fail_memory(operation, (most + 1) * sizeof *operations);
    }
    *out = (haul_estimate_result){.moved = d->moved, .devices = devices, .operations = operations};
    subtract(&out->moved, &p->moved);
    fill_operations(out, &d->program, p->first);
    haul_status status = HAUL_OK;
    for (int i = 0; i < HAUL__MAX_DEVICES && !status; i++) {
        haul__account *a = &d->accounts[i], *pinned = &d->pinned[i];
        if (!a->device && !pinned->device)
            continue;
        haul_estimate_device *to = &devices[out->device_count++];
        *to = (haul_estimate_device){.device = a->device ? a->device : pinned->device,
                                     .start_bytes = a->start,
                                     .peak_bytes = a->peak,
                                     .pinned_peak_bytes = pinned->peak,
                                     .spilled_bytes = a->spill.spilled - p->spilled[i],
                                     .returned_bytes = a->spill.returned - p->returned[i],
                                     .fits = a->spill.limit > 0 && !a->spill.over};
        status = fill_origins(to, &a->held);
    }
    if (status)
        haul_estimate_free(out);
    return status;
}

/* ---- the function ---- */

static haul_status run(haul__dry_run *d, haul_estimate_function *function, void *context, haul_estimate_result *out)
{
    part p;
    if (begin_part(d, &p))
        return haul_error_status();
    haul_status status = haul__dry_part_call(function, context, operation);
    if (!status)
        status = fill(out, d, &p);
    end_part(d, &p);
    return status;
}

haul_status haul_estimate(haul_estimate_function *function, void *context, haul_estimate_result *out)
{
    haul__dry_part d;
    if (!function || !out)
        return function ? haul__fail_null(operation, "out") : haul__fail_no_function(operation, "function");
    *out = (haul_estimate_result){.flops = 0};
    if (haul__dry_part_begin(&d, operation))
        return haul_error_status();
    const haul_status status = run(d.run, function, context, out);
    haul__dry_part_end(&d);
    return status;
}

void haul_estimate_free(haul_estimate_result *result)
{
    if (!result)
        return;
    for (int i = 0; i < result->device_count; i++)
        haul__free(result->devices[i].origins);
    haul__free(result->devices);
    haul__free(result->operations);
    *result = (haul_estimate_result){.flops = 0};
}

/* haul_estimate: a dry run as a list of operations, with its memory accounts. */
#include "engine/estimate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/guest.h"
#include "core/scope.h"
#include "engine/node.h"
#include "events/call.h"
#include "memory/dry_run/dry_run.h"

/* The outermost estimate of a thread; nested ones become parts of its list. */
typedef struct estimate {
    haul__dry_run            run; /* first, because a run is an object */
    haul_estimate_operation *operations;
    size_t                   count, capacity;
} estimate;

static void destroy(void *object)
{
    estimate *e = object;
    haul__dry_run_free(&e->run);
    haul__free(e->operations);
    haul__free(e);
}

static const haul__class estimate_class = {.name = "estimate", .destroy = destroy};

/* ---- operations ---- */

static const haul_tensor *subject_of(const haul__call *c)
{
    for (int i = 0; i < c->result_count; i++)
        if (c->results[i])
            return c->results[i];
    return c->count && !haul__is_none(c->operands[0]) ? c->operands[0] : NULL;
}

haul_status haul__estimate_call(const haul__call *c)
{
    uint32_t *word = &haul__thread()->words[HAUL__DRY_RUN];
    estimate *e = (estimate *)haul__dry_run_now();
    if (!e || (*word & HAUL__DRY_WITHIN))
        return HAUL_OK;
    if (!haul__grow(&e->operations, &e->capacity, e->count + 1, sizeof *e->operations))
        return haul__fail_memory(c->operation->name, sizeof *e->operations);
    char                     path[sizeof e->operations->module];
    const haul_tensor       *t = subject_of(c);
    haul__cost               cost = c->operation->compute ? haul__cost_of(c) : (haul__cost){0, 0};
    haul_estimate_operation *o = &e->operations[e->count++];
    *o = (haul_estimate_operation){
        .name = c->operation->name, .device = c->device, .flops = cost.flops, .bytes = cost.bytes};
    if (t) {
        o->dtype = t->dtype;
        o->shape = t->shape;
    }
    const char *module = haul__call_path(path, sizeof path);
    memcpy(o->module, module, strlen(module) + 1);
    *word |= HAUL__DRY_WITHIN; /* the call's scope restores it */
    return HAUL_OK;
}

/* ---- a part of the run ---- */

typedef struct part {
    size_t              first; /* operation */
    haul_transfer_stats moved;
    bool                touched[2][HAUL__MAX_DEVICES]; /* memory accounts before the part */
    int64_t             peaks[2][HAUL__MAX_DEVICES];
    int64_t             starts[2][HAUL__MAX_DEVICES];
    int64_t             spilled[HAUL__MAX_DEVICES], returned[HAUL__MAX_DEVICES];
    bool                over[HAUL__MAX_DEVICES];
    int64_t            *held[HAUL__MAX_DEVICES]; /* what made up the peaks */
    size_t              held_count[HAUL__MAX_DEVICES];
} part;

static haul__account *accounts_of(estimate *e, int pinned)
{
    return pinned ? e->run.pinned : e->run.accounts;
}

static void end_held(part *p)
{
    for (int i = 0; i < HAUL__MAX_DEVICES; i++)
        haul__free(p->held[i]);
}

/* Remembers what made up the peak so far. The part's own peak begins with what is in use now. */
static haul_status begin_held(estimate *e, part *p)
{
    for (int i = 0; i < HAUL__MAX_DEVICES; i++) {
        haul__holdings *h = &e->run.accounts[i].held;
        haul__holdings_settle(h);
        p->held_count[i] = h->count;
        p->held[i] = h->count ? haul__calloc(h->count, sizeof *p->held[i]) : NULL;
        if (h->count && !p->held[i]) {
            end_held(p);
            return haul__fail_memory("haul_estimate", h->count * sizeof *p->held[i]);
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

static void begin_spills(estimate *e, part *p)
{
    for (int i = 0; i < HAUL__MAX_DEVICES; i++) {
        haul__planned_spill *s = &e->run.accounts[i].spill;
        p->spilled[i] = s->spilled;
        p->returned[i] = s->returned;
        p->over[i] = s->over;
        s->over = false;
    }
}

static haul_status begin_part(estimate *e, part *p)
{
    *p = (part){.first = e->count, .moved = e->run.moved};
    if (begin_held(e, p))
        return haul_error_status();
    for (int pinned = 0; pinned < 2; pinned++) {
        haul__account *a = accounts_of(e, pinned);
        for (int i = 0; i < HAUL__MAX_DEVICES; i++) {
            p->touched[pinned][i] = a[i].device != NULL;
            p->peaks[pinned][i] = a[i].peak;
            p->starts[pinned][i] = a[i].start;
            a[i].start = a[i].peak = (int64_t)atomic_load(&a[i].allocated);
        }
    }
    begin_spills(e, p);
    return HAUL_OK;
}

/* The enclosing part has seen this part's peak, too. */
static void end_part(estimate *e, part *p)
{
    for (int pinned = 0; pinned < 2; pinned++) {
        haul__account *a = accounts_of(e, pinned);
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
        e->run.accounts[i].spill.over = e->run.accounts[i].spill.over || p->over[i];
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
        return haul__fail_memory("haul_estimate", h->count * sizeof *out->origins);
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

static haul_status fill(haul_estimate_result *out, estimate *e, const part *p)
{
    size_t                   count = e->count - p->first;
    haul_estimate_device    *devices = haul__calloc(HAUL__MAX_DEVICES, sizeof *devices);
    haul_estimate_operation *operations = haul__calloc(count + 1, sizeof *operations);
    if (!devices || !operations) {
        haul__free(devices);
        haul__free(operations);
        return haul__fail_memory("haul_estimate", (count + 1) * sizeof *operations);
    }
    *out = (haul_estimate_result){
        .moved = e->run.moved, .devices = devices, .operation_count = (int64_t)count, .operations = operations};
    subtract(&out->moved, &p->moved);
    for (size_t i = 0; i < count; i++) {
        operations[i] = e->operations[p->first + i];
        out->flops += operations[i].flops;
        out->bytes_touched += operations[i].bytes;
    }
    haul_status status = HAUL_OK;
    for (int i = 0; i < HAUL__MAX_DEVICES && !status; i++) {
        haul__account *a = &e->run.accounts[i], *pinned = &e->run.pinned[i];
        if (!a->device && !pinned->device)
            continue;
        haul_estimate_device *d = &devices[out->device_count++];
        *d = (haul_estimate_device){.device = a->device ? a->device : pinned->device,
                                    .start_bytes = a->start,
                                    .peak_bytes = a->peak,
                                    .pinned_peak_bytes = pinned->peak,
                                    .spilled_bytes = a->spill.spilled - p->spilled[i],
                                    .returned_bytes = a->spill.returned - p->returned[i],
                                    .fits = a->spill.limit > 0 && !a->spill.over};
        status = fill_origins(d, &a->held);
    }
    if (status)
        haul_estimate_free(out);
    return status;
}

/* ---- the function ---- */

/* The run in progress, or a new one; the caller gets a reference. */
static estimate *begin(bool *is_new)
{
    estimate *e = haul__is_dry() ? (estimate *)haul__dry_run_now() : NULL;
    *is_new = !e;
    if (e) {
        haul__object_keep(e);
        return e;
    }
    e = haul__calloc(1, sizeof *e);
    if (!e) {
        haul__fail_memory("haul_estimate", sizeof *e);
        return NULL;
    }
    haul__object_init(&e->run.object, &estimate_class);
    e->run.newest_node = haul__node_newest();
    if (haul__dry_run_begin(&e->run, "haul_estimate")) {
        haul__object_release(e);
        return NULL;
    }
    return e;
}

static haul_status run(estimate *e, haul_estimate_function *function, void *context, haul_estimate_result *out)
{
    part p;
    if (begin_part(e, &p))
        return haul_error_status();
    haul__guest before = haul__guest_begin();
    haul_status status = haul__guest_end(&before, function(context), "haul_estimate");
    if (!status)
        status = fill(out, e, &p);
    end_part(e, &p);
    return status;
}

haul_status haul_estimate(haul_estimate_function *function, void *context, haul_estimate_result *out)
{
    bool is_new;
    if (!function || !out)
        return function ? haul__fail_null("haul_estimate", "out") : haul__fail_no_function("haul_estimate", "function");
    *out = (haul_estimate_result){.flops = 0};
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    estimate   *e = begin(&is_new);
    haul_status status = e ? run(e, function, context, out) : haul_error_status();
    if (e && is_new)
        haul__dry_run_restore(&e->run);
    haul_scope_pop(scope);
    haul__object_release(e);
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

/* Dry runs of a step: for its program, and for what it takes where a placement is in force. */
#include <haul/device.h>
#include <haul/placement.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "machine/picoseconds.h"
#include "nn/distribute.h"
#include "nn/tensors.h"
#include "plan/graph/timeline.h"
#include "plan/place/plan.h"
#include "record/account.h"
#include "record/dry_function.h"
#include "record/program.h"
#include "record/work.h"
#include "transfer/staging.h"

static haul_device *to_host(const char *name, const void *context)
{
    (void)name;
    (void)context;
    return haul_cpu();
}

/* The program's stores that the tensors have. */
static haul_status mark_held(const haul_program *program, const int64_t *stores, int count, bool **held,
                             const char *operation)
{
    *held = haul__calloc((size_t)program->store_count + 1, sizeof **held);
    if (!*held)
        return haul__fail_memory(operation, (size_t)program->store_count);
    for (int i = 0; i < count; i++) {
        HAUL__ASSERT(stores[i] < program->store_count);
        if (stores[i] >= 0)
            (*held)[stores[i]] = true;
    }
    return HAUL_OK;
}

typedef struct recording {
    haul_estimate_function *step;
    void                   *context;
    const char             *operation;
    haul_tensor           **tensors; /* of the network */
    int64_t                *stores;
    int                     count;
} recording;

/* The first call makes what later ones find: gradients, the optimizer's state. */
static haul_status record_second(const recording *r, haul_program *out, bool **held)
{
    haul_status status = haul__dry_function_call(r->step, r->context, r->operation);
    if (!status)
        status = haul__program_record_finding(r->step, r->context, r->tensors, r->count, r->stores, out);
    if (status)
        return status;
    status = mark_held(out, r->stores, r->count, held, r->operation);
    if (status)
        haul_program_free(out);
    return status;
}

static haul_status record_with_net(recording *r, haul_module *net, haul_program *out, bool **held)
{
    haul_named_tensor *all = net ? haul__module_tensor_list(net, &r->count) : NULL;
    haul_status        status = net && !all ? haul_error_status() : HAUL_OK;
    r->tensors = haul__calloc((size_t)r->count + 1, sizeof *r->tensors);
    r->stores = haul__calloc((size_t)r->count + 1, sizeof *r->stores);
    if (!status && (!r->tensors || !r->stores))
        status = haul__fail_memory(r->operation, (size_t)r->count * sizeof *r->tensors);
    for (int i = 0; i < r->count && !status; i++)
        r->tensors[i] = all[i].tensor;
    if (!status && net)
        status = haul__module_distribute(net, to_host, NULL, r->operation);
    if (!status)
        status = record_second(r, out, held);
    haul__free(all);
    haul__free(r->tensors);
    haul__free(r->stores);
    return status;
}

haul_status haul__plan_record(haul_estimate_function *step, void *context, haul_module *net, haul_program *out,
                              bool **held, const char *operation)
{
    haul__dry_function d;
    recording          r = {.step = step, .context = context, .operation = operation};
    *out = (haul_program){.operation_count = 0};
    *held = NULL;
    if (haul__dry_function_begin(&d, operation))
        return haul_error_status();
    haul_status status = haul_set_placement_policy(HAUL_PLACE_STRICT);
    if (!status)
        status = record_with_net(&r, net, out, held);
    haul__dry_function_end(&d);
    return status;
}

/* ---- what a recorded step takes ---- */

/* The times of a step in which nothing waits without need: each device computes and copies in the order of the
 * program. */
typedef struct pricing {
    const haul_plan    *plan;
    const haul_program *program;
    const haul_device  *device[HAUL__PLACE_DEVICES];
    haul__timeline      of[HAUL__PLACE_DEVICES];
    int64_t            *ready; /* when the memory of each store is */
    int64_t            *made;  /* the number of its device's operation that wrote it last; 0: none did */
    haul__plan_figures  figures;
} pricing;

static int index_of(const pricing *p, const haul_device *device)
{
    int i = haul__plan_device_count(p->plan) - 1;
    while (i > 0 && p->device[i] != device)
        i--;
    return i;
}

/* The device of a store. */
static int home_of(const pricing *p, int64_t store)
{
    return index_of(p, p->program->stores[store].device);
}

/* The operand that an operation brings over a link; NULL: none. */
static const haul_program_value *crossing(const pricing *p, const haul_program_operation *o)
{
    for (int i = 0; i < o->operand_count; i++) {
        const haul_program_value *v = &p->program->values[o->value + i];
        if (v->store >= 0 && p->program->stores[v->store].device != o->device)
            return v;
    }
    return NULL;
}

/* When a copy from a device can read the store. */
static int64_t readable(pricing *p, int64_t store)
{
    return p->made[store] ? haul__timeline_after(&p->of[home_of(p, store)], p->made[store]) : p->ready[store];
}

/* When the operands and results are there; `leaves`: for a copy from a device. */
static int64_t ready_for(pricing *p, const haul_program_operation *o, bool leaves)
{
    int64_t ps = 0;
    for (int i = 0; i < o->operand_count + o->result_count; i++) {
        const int64_t store = p->program->values[o->value + i].store;
        if (store >= 0)
            ps = larger(ps, leaves && i < o->operand_count ? readable(p, store) : p->ready[store]);
    }
    return ps;
}

static void write_results(pricing *p, const haul_program_operation *o, int64_t ready, int64_t number)
{
    for (int i = 0; i < o->operand_count + o->result_count; i++) {
        const haul_program_value *v = &p->program->values[o->value + i];
        if (v->store < 0 || !v->written)
            continue;
        p->ready[v->store] = ready;
        p->made[v->store] = number;
    }
}

static void compute(pricing *p, const haul_program_operation *o, int on)
{
    const haul__plan_request *r = &p->plan->request;
    const haul__machine_work  w = haul__program_work_of(p->program, o);
    haul__timeline           *t = &p->of[on];
    const int64_t             idle = larger(p->of[0].compute, t->compute), start = larger(idle, ready_for(p, o, false));
    t->compute = start + haul__machine_time(r->machine, r->devices[on], &w);
    t->number += on > 0;
    HAUL__ASSERT(start >= idle);
    p->figures.waits += start - idle;
    write_results(p, o, t->compute, on ? t->number : 0);
}

static bool is_pinned(const pricing *p, int64_t store)
{
    return store >= 0 && p->program->stores[store].pinned;
}

/* Between two devices without a link: down to the host and up again, in parts that follow each other closely. */
static int64_t copy_across(pricing *p, const haul_program_value *x, int from, int on, int64_t begin)
{
    const haul__plan_request *r = &p->plan->request;
    const int64_t             bytes = haul__program_bytes_of(x), parts = haul__staged_chunks((size_t)bytes);
    const int64_t             down = haul__machine_copy_time(r->machine, r->devices[from], 0, bytes, false);
    const int64_t             up = haul__machine_copy_time(r->machine, 0, r->devices[on], bytes, false);
    const int64_t             there = larger(begin, p->of[from].down) + down;
    HAUL__ASSERT(from > 0 && on > 0 && from != on && parts > 0);
    p->of[from].down = there;
    p->of[on].up = larger(larger(there - down + down / parts, p->of[on].up) + up, there + up / parts);
    p->figures.copied_bytes += bytes; /* once more: over both links */
    p->figures.copies++;
    return p->of[on].up;
}

static void copy(pricing *p, const haul_program_operation *o, const haul_program_value *x, int on)
{
    const haul__plan_request *r = &p->plan->request;
    const haul_program_value *y = &p->program->values[o->value + o->operand_count];
    const int                 from = home_of(p, x->store);
    const int64_t             bytes = haul__program_bytes_of(x);
    int64_t                  *lane = on ? &p->of[on].up : &p->of[from].down;
    const int64_t             start = larger(p->of[0].compute, ready_for(p, o, from > 0));
    HAUL__ASSERT(o->result_count > 0 && from != on);
    p->figures.copied_bytes += bytes;
    p->figures.copies++;
    if (from && on && !haul__machine_link_of(r->machine, r->devices[from], r->devices[on])) {
        write_results(p, o, copy_across(p, x, from, on, start), 0);
        return;
    }
    const bool    pinned = (from && on) || is_pinned(p, on ? x->store : y->store);
    const int64_t ps = haul__machine_copy_time(r->machine, r->devices[from], r->devices[on], bytes, pinned);
    *lane = larger(start, *lane) + ps;
    if (on && !pinned) /* the host waits for a place in the ring of pinned blocks */
        p->of[0].compute =
            larger(p->of[0].compute, *lane - haul__share(ps, haul__staged_in_flight((size_t)bytes), larger(1, bytes)));
    write_results(p, o, *lane, 0);
}

/* An operation begins when the host has come to it, its device or link is free, and its operands are there. */
static void add_operation(pricing *p, const haul_program_operation *o)
{
    const haul_program_value *v = crossing(p, o);
    const int                 on = index_of(p, o->device);
    if (o->command_count && v)
        copy(p, o, v, on);
    else if (o->command_count)
        compute(p, o, on);
}

static haul_status price(const haul_plan *plan, const haul_program *program, haul__plan_figures *out)
{
    pricing p = {.plan = plan, .program = program, .figures = {.sum = out->sum}};
    p.ready = haul__calloc(2 * ((size_t)program->store_count + 1), sizeof *p.ready);
    if (!p.ready)
        return haul__fail_memory("haul_plan_new", (size_t)program->store_count * sizeof *p.ready);
    p.made = p.ready + program->store_count + 1;
    for (int d = 0; d < haul__plan_device_count(plan); d++)
        p.device[d] = haul_device_get(plan->request.names[d]);
    for (int64_t i = 0; i < program->operation_count; i++)
        add_operation(&p, &program->operations[i]);
    haul__free(p.ready);
    for (int d = 0; d < haul__plan_device_count(plan); d++)
        p.figures.ps = larger(p.figures.ps, larger(p.of[d].compute, larger(p.of[d].up, p.of[d].down)));
    HAUL__ASSERT(p.figures.ps >= 0 && p.figures.waits >= 0);
    *out = p.figures;
    return HAUL_OK;
}

/* ---- trying a way ---- */

typedef struct trial {
    haul_plan              *plan;
    haul__plan_way         *way;
    haul_estimate_function *step;
    void                   *context;
    haul_module            *net;
} trial;

static haul_status take_figures(const trial *t, const haul__dry_run *run)
{
    haul_program program;
    const size_t from = run->program.change_count;
    haul_status  status = haul__program_record(t->step, t->context, false, &program);
    if (status)
        return status;
    status = price(t->plan, &program, &t->way->figures);
    for (int d = 0; d < haul__plan_device_count(t->plan); d++) {
        const haul_device *device = haul_device_get(t->plan->request.names[d]);
        t->way->figures.peak[d] = haul__account_read(run, device, false, from).peak;
    }
    HAUL__ASSERT(from <= run->program.change_count);
    haul_program_free(&program);
    return status;
}

static haul_status rehearse(const trial *t)
{
    static const char  operation[] = "haul_plan_new";
    haul__dry_function d;
    if (haul__dry_function_begin(&d, operation))
        return haul_error_status();
    haul_status status = haul__plan_follow(t->plan, t->way->placement, t->net, operation);
    if (!status)
        status = haul__dry_function_call(t->step, t->context, operation);
    d.run->keeps = true; /* the next step has other data, whose copies live as long as it does */
    if (!status)
        status = take_figures(t, d.run);
    haul__dry_function_end(&d);
    return status;
}

/* Tries the cheapest placement too, if the best one is another, and takes the better one. */
static haul_status compare_with_cheapest(const trial *t)
{
    haul__plan_way cheapest = *t->way;
    trial          other = *t;
    cheapest.placement = t->plan->cheapest;
    HAUL__ASSERT(t->plan->cheapest->device && t->way->device < 0);
    other.way = &cheapest;
    const haul_status status = rehearse(&other);
    if (status || haul__plan_is_better(t->plan, t->way, &cheapest))
        return status;
    haul__plan_take_cheapest(t->plan);
    t->way->figures = cheapest.figures;
    return HAUL_OK;
}

haul_status haul__plan_rehearse(haul_plan *p, haul_estimate_function *step, void *context, haul_module *net)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < haul__plan_way_count(p) && !status; i++) {
        const trial t = {p, &p->ways[i], step, context, net};
        status = rehearse(&t);
        if (!status && t.way->device < 0 && p->cheapest->device)
            status = compare_with_cheapest(&t);
    }
    if (!status)
        haul__plan_sort(p);
    return status;
}

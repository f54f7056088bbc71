/* Dry runs of a step: for its program, and for what it takes where a placement is in force. */
#include <haul/device.h>
#include <haul/placement.h>

#include "base/alloc.h"
#include "base/numbers.h"
#include "core/error.h"
#include "nn/distribute.h"
#include "nn/tensors.h"
#include "plan/place/plan.h"
#include "record/account.h"
#include "record/dry_function.h"
#include "record/program.h"
#include "record/work.h"

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
    for (int i = 0; i < count; i++)
        if (stores[i] >= 0)
            (*held)[stores[i]] = true;
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

/* The times of a step in which nothing waits without need: the host computes, the device computes, and copies cross the
 * link in both directions, each in the order of the program. */
typedef enum lane { HOST, DEVICE, UP, DOWN, LANES } lane;

/* Copies from the device wait for a point in its work that covers what they read. A point is made when a copy needs
 * one and none covers it, and then covers everything that the device has been given until then. The newest are kept. */
typedef struct point {
    int64_t number; /* of the device's last operation before it */
    int64_t ps;
} point;

typedef struct pricing {
    const haul_plan    *plan;
    const haul_program *program;
    const haul_device  *device; /* the second one */
    int64_t             now[LANES];
    int64_t            *ready;  /* when the memory of each store is */
    int64_t            *made;   /* the number of the device's operation that wrote it last; 0: none did */
    int64_t             number; /* of operations on the device */
    point               points[HAUL__MAX_POINTS];
    int                 next_point;
    haul__plan_figures  figures;
} pricing;

/* The operand that an operation brings over the link; NULL: none. */
static const haul_program_value *crossing(const pricing *p, const haul_program_operation *o)
{
    for (int i = 0; i < o->operand_count; i++) {
        const haul_program_value *v = &p->program->values[o->value + i];
        if (v->store >= 0 && p->program->stores[v->store].device != o->device)
            return v;
    }
    return NULL;
}

/* The host's end of a copy is pinned or pageable memory. */
static int64_t time_of_copy(pricing *p, const haul_program_operation *o, const haul_program_value *x, lane on)
{
    const haul_program_value *y = &p->program->values[o->value + o->operand_count];
    const int64_t             host = on == UP ? x->store : y->store, bytes = haul__program_bytes_of(x);
    const int                 device = p->plan->request.device;
    p->figures.copied_bytes += bytes;
    p->figures.copies++;
    return haul__machine_copy_time(p->plan->request.machine, on == UP ? 0 : device, on == UP ? device : 0, bytes,
                                   host >= 0 && p->program->stores[host].pinned);
}

static int64_t time_of(pricing *p, const haul_program_operation *o, lane *on)
{
    const haul_program_value *v = crossing(p, o);
    *on = o->device == p->device ? (v ? UP : DEVICE) : v ? DOWN : HOST;
    if (v)
        return time_of_copy(p, o, v, *on);
    const haul__machine_work w = haul__program_work_of(p->program, o);
    return haul__machine_time(p->plan->request.machine, *on == DEVICE ? p->plan->request.device : 0, &w);
}

/* The earliest point after that operation of the device. */
static int64_t point_after(pricing *p, int64_t number)
{
    const point *best = NULL;
    for (int i = 0; i < HAUL__MAX_POINTS; i++)
        if (p->points[i].number >= number && (!best || p->points[i].number < best->number))
            best = &p->points[i];
    if (best)
        return best->ps;
    p->points[p->next_point] = (point){p->number, p->now[DEVICE]};
    p->next_point = (p->next_point + 1) % HAUL__MAX_POINTS;
    return p->now[DEVICE];
}

/* When an operation on that lane can use the store. */
static int64_t ready_for(pricing *p, lane on, int64_t store)
{
    return on == DOWN && p->made[store] ? point_after(p, p->made[store]) : p->ready[store];
}

/* An operation begins when the host has come to it, its lane is free, and its operands are there. */
static void add_operation(pricing *p, const haul_program_operation *o)
{
    lane on;
    if (!o->command_count)
        return;
    const int64_t ps = time_of(p, o, &on);
    const int64_t free = larger(p->now[HOST], p->now[on]);
    int64_t       start = free;
    for (int i = 0; i < o->operand_count + o->result_count; i++) {
        const int64_t store = p->program->values[o->value + i].store;
        start = store >= 0 ? larger(start, ready_for(p, on, store)) : start;
    }
    p->now[on] = start + ps;
    p->figures.waits += on == HOST || on == DEVICE ? start - free : 0;
    p->number += on == DEVICE;
    for (int i = 0; i < o->operand_count + o->result_count; i++) {
        const haul_program_value *v = &p->program->values[o->value + i];
        if (v->store < 0 || !v->written)
            continue;
        p->ready[v->store] = p->now[on];
        p->made[v->store] = on == DEVICE ? p->number : 0;
    }
}

static haul_status price(const haul_plan *plan, const haul_program *program, haul__plan_figures *out)
{
    pricing p = {.plan = plan, .program = program, .device = haul_device_get(plan->request.names[1])};
    p.ready = haul__calloc(2 * ((size_t)program->store_count + 1), sizeof *p.ready);
    if (!p.ready)
        return haul__fail_memory("haul_plan_new", (size_t)program->store_count * sizeof *p.ready);
    p.made = p.ready + program->store_count + 1;
    for (int64_t i = 0; i < program->operation_count; i++)
        add_operation(&p, &program->operations[i]);
    haul__free(p.ready);
    for (int i = 0; i < LANES; i++)
        p.figures.ps = larger(p.figures.ps, p.now[i]);
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
    for (int d = 0; d < HAUL__PLACE_DEVICES; d++) {
        const haul_device *device = haul_device_get(t->plan->request.names[d]);
        t->way->figures.peak[d] = haul__account_read(run, device, false, from).peak;
    }
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

haul_status haul__plan_rehearse(haul_plan *p, haul_estimate_function *step, void *context, haul_module *net)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < HAUL__PLAN_CANDIDATES && !status; i++)
        status = rehearse(&(trial){p, &p->ways[i], step, context, net});
    if (!status)
        haul__plan_sort(p);
    return status;
}

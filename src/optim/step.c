/* An optimizer's step has two passes: the first checks and allocates for every parameter, the second writes. So a step
 * that fails, because of memory or of a wrong gradient, changes nothing. */
#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/small_blocks.h"
#include "core/tensor.h"
#include "engine/copy.h"
#include "engine/placement/placement.h"
#include "events/events.h"
#include "memory/dry_run/dry_run.h"
#include "memory/mark.h"
#include "memory/spill/spill.h"
#include "optim/divided.h"
#include "optim/offload.h"
#include "optim/optimizer.h"

/* ---- operations ---- */

haul_status haul__infer_step(haul__call *c)
{
    const haul__operand *specs = c->operation->operands;
    const int            each = c->operation->repeat;
    HAUL__ASSERT(each > 0 && c->count % each == 0);
    for (int first = 0; first < c->count; first += each) {
        const haul_tensor *p = c->operands[first];
        for (int k = 1; k < each; k++) {
            const haul_tensor *t = c->operands[first + k];
            if (!haul__is_none(t) && !specs[k].accepts &&
                (!haul__shape_equal(&t->shape, &p->shape) || !haul__tensor_same_layout(t, p)))
                return haul__refuse_shape(c, first + k, "it must have the parameter's shape and layout");
        }
    }
    return HAUL_OK;
}

haul__cost haul__step_cost(const haul__call *c)
{
    double elements = 0;
    for (int i = 0; i < c->count; i += c->operation->repeat)
        elements += (double)c->operands[i]->count;
    return (haul__cost){.flops = c->operation->flops * elements, .bytes = haul__call_bytes(c)};
}

haul_status haul__step_each(haul__call *c,
                            haul_status (*one)(const haul__call *c, haul_tensor *const *operands, void *params),
                            void *params)
{
    const int   each = c->operation->repeat;
    haul_status status = HAUL_OK;
    HAUL__ASSERT(each > 0 && c->count % each == 0 && c->count <= 64);
    for (int i = 0; i < c->count && !status; i += each) {
        status = one(c, c->operands + i, params);
        if (!status)
            c->wrote |= c->writes & (((uint64_t)1 << each) - 1) << i;
    }
    return status;
}

/* ---- the first pass ---- */

/* What the first pass prepared for a parameter. */
typedef struct prepared {
    haul_tensor *grad;                     /* in the parameter's layout; NULL: the parameter does not change */
    haul_tensor *states[HAUL__MAX_STATES]; /* new or moved states; NULL: the entry's own */
    haul_tensor *found, *made;             /* if the step may be skipped: on the parameter's device; else NULL */
    int64_t      steps;                    /* those before this one */
    bool         first;                    /* its state begins with this step */
} prepared;

static haul_status check_grad(const haul__optimizer_entry *e, const haul_tensor *g)
{
    static const char  operation[] = "haul_optimizer_step";
    const haul_tensor *p = e->parameter;
    char               have[160], want[160];
    HAUL__ASSERT(haul_dtype_is_float(p->dtype) && e->name);
    if (!haul__shape_equal(&g->shape, &p->shape) || g->dtype != p->dtype)
        return haul__fail(HAUL_SHAPE, operation, "gradient", "the gradient of '%s' is %s, the parameter %s", e->name,
                          haul__tensor_text(g, have, sizeof have), haul__tensor_text(p, want, sizeof want));
    if (g->storage->device != p->storage->device)
        return haul__fail(HAUL_PLACEMENT, operation, "gradient",
                          "the gradient of '%s' is on %s, the parameter on %s; move the module with haul_module_to",
                          e->name, haul_device_name(g->storage->device), haul_device_name(p->storage->device));
    if (!haul__tensor_is_gap_free(p))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "parameter",
                          "the parameter '%s' is a view with gaps between its elements; use haul_clone(...) instead",
                          e->name);
    return HAUL_OK;
}

static const double *values_of(const haul_optimizer *o, const haul__optimizer_entry *e)
{
    HAUL__ASSERT(e->group >= 0 && e->group < o->group_count);
    return o->groups[e->group].values;
}

/* State follows its parameter: device, layout and dtype, even after the module was moved or cast, or its memory format
 * changed. In host memory it follows the layout and the dtype. */
static haul_status prepare_states(const haul_optimizer *o, const haul__optimizer_entry *e, prepared *out)
{
    unsigned used = o->kind->states(values_of(o, e));
    for (int i = 0; i < o->kind->state_count; i++) {
        haul_tensor *s = e->states[i];
        if (!(used & 1u << i) || (s && haul__state_is_home(o, e, s)))
            continue;
        out->states[i] = haul__state_home(o, e, s);
        if (haul__failed(out->states[i]))
            return haul_error_status();
        haul__set_role(out->states[i], HAUL__ROLE_STATE);
        HAUL__ASSERT(haul__state_is_home(o, e, out->states[i]));
    }
    return HAUL_OK;
}

/* Once a device step count exists, unguarded steps use it, too, with found = 0. */
static haul_status prepare_guard(const haul__optimizer_entry *e, haul_tensor *found, prepared *out)
{
    haul_device *device = e->parameter->storage->device;
    HAUL__ASSERT(!found || (found->dtype == HAUL_F32 && found->count == 1));
    HAUL__ASSERT(!e->made || (e->made->dtype == HAUL_I64 && e->made->count == 2));
    if (!found && !e->made)
        return HAUL_OK;
    if (haul_set_device(device)) /* the scope restores the setting */
        return haul_error_status();
    out->made = e->made ? haul_to(e->made, device) : haul_full(HAUL_I64, HAUL_SHAPE(2), (double)e->steps);
    out->found = found ? haul_to(found, device) : haul_zeros(HAUL_F32, HAUL_SCALAR_SHAPE);
    return haul__failed(out->made) ? haul_error_status() : haul__status_of(out->found);
}

static haul_status prepare_kernel(const haul_optimizer *o, const haul__optimizer_entry *e, bool guarded)
{
    haul_device *device = e->parameter->storage->device;
    if (!haul__device_computes(device))
        return HAUL_OK;
    for (int i = 0, kernel; (kernel = o->kind->kernel(o->kind, values_of(o, e), guarded, i)) >= 0; i++)
        if (!haul__kernel_for(device, kernel, e->parameter->dtype))
            return haul_error_status();
    return HAUL_OK;
}

static haul_status prepare(haul_optimizer *o, haul__optimizer_entry *e, haul_tensor *found, prepared *out)
{
    haul_tensor *g = e->parameter->grad;
    if (!g)
        return HAUL_OK;
    HAUL__ASSERT(!out->grad && !out->made && e->steps >= 0);
    out->steps = e->steps;
    out->first = o->kind->state_count && !e->states[0];
    haul_status status = check_grad(e, g);
    if (!status)
        status = prepare_states(o, e, out);
    if (!status)
        status = prepare_guard(e, found, out);
    if (!status)
        status = prepare_kernel(o, e, out->made != NULL);
    if (status)
        return status;
    out->grad = haul__tensor_same_layout(g, e->parameter) ? g : haul__to_order_of(g, e->parameter);
    HAUL__ASSERT(haul__failed(out->grad) || haul__tensor_same_layout(out->grad, e->parameter));
    return haul__status_of(out->grad);
}

/* A dry run does not change the state of an optimizer that existed before. State that the step leaves alone needs no
 * note. */
static haul_status keep_in_dry_run(haul_optimizer *o, haul__optimizer_entry *e, const prepared *found)
{
    static const char operation[] = "haul_optimizer_step";
    if (!found->grad || haul__dry_run_made(e->parameter->storage))
        return HAUL_OK;
    HAUL__ASSERT(haul__is_trial());
    haul_status status = haul__dry_run_keep_integer(o, &e->steps, operation);
    if (!status && found->made && found->made != e->made)
        status = haul__dry_run_keep_tensor(o, &e->made, operation);
    for (int i = 0; i < o->kind->state_count && !status; i++)
        if (found->states[i])
            status = haul__dry_run_keep_tensor(o, &e->states[i], operation);
    return status;
}

static haul_status keep_all_in_dry_run(haul_optimizer *o, const prepared *found)
{
    const bool  is_own = haul__dry_run_made(o->entries[0].parameter->storage);
    haul_status status = is_own ? HAUL_OK : haul__dry_run_keep_integer(o, &o->steps, "haul_optimizer_step");
    for (int i = 0; i < o->count && !status; i++)
        status = keep_in_dry_run(o, &o->entries[i], &found[i]);
    return status;
}

/* ---- the second pass ---- */

static void adopt(haul_tensor **place, haul_tensor *t)
{
    if (!t || t == *place)
        return;
    haul__object_keep(t);
    haul__object_release(*place);
    *place = t;
}

/* The entry takes over the prepared work, and counts the step. */
static void take(const haul_optimizer *o, haul__optimizer_entry *e, const prepared *found)
{
    HAUL__ASSERT(found->grad && e->steps >= found->steps);
    for (int i = 0; i < o->kind->state_count; i++)
        adopt(&e->states[i], found->states[i]);
    adopt(&e->made, found->made);
    e->steps = found->steps + 1;
}

static bool is_alike(const haul_optimizer *o, int first, int other, const prepared *found)
{
    const haul__optimizer_entry *x = &o->entries[first], *y = &o->entries[other];
    const haul_tensor           *a = x->parameter, *b = y->parameter;
    return found[other].grad && a->storage->device == b->storage->device && a->dtype == b->dtype &&
           found[first].steps == found[other].steps && found[first].first == found[other].first &&
           x->group == y->group && !found[first].found == !found[other].found;
}

/* A step of the optimizer. */
typedef struct stepping {
    haul_optimizer *o;
    prepared       *found;
    haul__offload   offload; /* without buffers if nothing is in host memory */
    int             next;    /* the entry that is updated next, */
    int64_t         at;      /* from this element on */
} stepping;

/* Updates that one operation makes. */
typedef struct batch {
    int                 count, part; /* part: of the buffers */
    haul__update        updates[HAUL__MAX_UPDATES];
    haul__offload_piece pieces[HAUL__MAX_UPDATES]; /* of state in host memory; else their `count` is 0 */
} batch;

static haul_tensor *state_of(const stepping *x, int entry, int k)
{
    haul_tensor *fresh = x->found[entry].states[k];
    return fresh ? fresh : x->o->entries[entry].states[k];
}

/* The update of an entry as a whole. */
static void describe(const stepping *x, int entry, haul__update *u)
{
    const prepared *found = &x->found[entry];
    u->entry = &x->o->entries[entry];
    u->parameter = u->entry->parameter;
    HAUL__ASSERT(found->grad && found->grad->count == u->entry->parameter->count);
    u->grad = found->grad;
    u->first = found->first;
    u->guard = (haul__guard){.found = found->found, .made = found->made, .from = (int)(found->steps & 1)};
    for (int k = 0; k < x->o->kind->state_count; k++)
        u->states[k] = state_of(x, entry, k);
}

/* Turns the update of the next entry into that of its next piece, whose state has a place in the buffer. */
static haul_status bring_piece(stepping *x, batch *b, int64_t count, int64_t place)
{
    haul__update        *u = &b->updates[b->count];
    haul__offload_piece *piece = &b->pieces[b->count];
    haul_tensor         *home[HAUL__MAX_STATES];
    memcpy(home, u->states, sizeof home);
    HAUL__ASSERT(count > 0 && x->at + count <= x->o->entries[x->next].parameter->count);
    *piece = (haul__offload_piece){.first = x->at, .count = count, .at = place};
    return haul__offload_bring(x->o, &x->offload, b->part, home, piece, u);
}

/* The elements of the next piece, if the state of the next entry is in host memory; else 0. Sets *fits to false if its
 * states do not fit next to `used` elements of the buffer. */
static int64_t count_piece(const stepping *x, int64_t used, bool *fits)
{
    const haul__optimizer_entry *e = &x->o->entries[x->next];
    const int64_t                room = x->offload.count ? haul__offload_room(&x->offload, e) : 0;
    if (!room)
        return 0;
    const int64_t count = haul__offload_count(x->o, e, x->at);
    *fits = used + haul__offload_need(x->o, e, count) <= room;
    return count;
}

static void advance(stepping *x, int64_t count)
{
    x->at += count;
    if (!count || x->at == x->o->entries[x->next].parameter->count) {
        HAUL__ASSERT(x->at <= x->o->entries[x->next].parameter->count);
        x->next++;
        x->at = 0;
    }
}

/* The updates that come next. What they need of state in host memory comes to the device. */
static haul_status prepare_batch(stepping *x, int part, batch *b)
{
    haul_optimizer *o = x->o;
    haul_status     status = HAUL_OK;
    int64_t         used = 0;
    b->count = 0;
    b->part = part;
    while (x->next < o->count && !x->found[x->next].grad)
        x->next++;
    for (const int first = x->next; x->next < o->count && b->count < HAUL__MAX_UPDATES && !status; b->count++) {
        bool          fits = true;
        const int64_t count = count_piece(x, used, &fits);
        if (b->count && (!fits || !is_alike(o, first, x->next, x->found)))
            break;
        describe(x, x->next, &b->updates[b->count]);
        HAUL__ASSERT(b->count || fits);
        b->pieces[b->count].count = count;
        if (count)
            status = bring_piece(x, b, count, used);
        used += count ? haul__offload_need(o, &o->entries[x->next], count) : 0;
        advance(x, count);
    }
    HAUL__ASSERT(status || b->count || x->next == o->count);
    return status;
}

/* Changes the entries, and copies states back to host memory. */
static haul_status update(const stepping *x, const batch *b)
{
    haul_optimizer *o = x->o;
    for (int i = 0; i < b->count; i++)
        take(o, b->updates[i].entry, &x->found[b->updates[i].entry - o->entries]);
    HAUL__ASSERT(b->count > 0);
    haul_status status = o->kind->update(o->kind, values_of(o, b->updates->entry), b->updates, b->count);
    for (int i = 0; i < b->count && !status && x->offload.count; i++)
        if (b->pieces[i].count)
            status = haul__offload_leave(&b->pieces[i], &b->updates[i]);
    return status;
}

/* Brings back what the next updates use, while the device computes the one that was just submitted. */
static void return_ahead(const haul_optimizer *o, int first)
{
    bool works = true;
    for (int i = first; i < o->count && i < first + HAUL__MAX_UPDATES && works; i++) {
        HAUL__ASSERT(first >= 0 && first < o->count);
        const haul__optimizer_entry *e = &o->entries[i];
        const haul_tensor           *g = e->parameter->grad;
        works = !g || (haul__spill_return_ahead(e->parameter->storage, 0) && haul__spill_return_ahead(g->storage, 0));
        for (int k = 0; k < o->kind->state_count && works && g; k++)
            works = !e->states[k] || haul__spill_return_ahead(e->states[k]->storage, 0);
    }
}

/* The second pass. States come to the device one batch ahead of the updates. */
static haul_status change_all(stepping *x)
{
    batch       turns[2];
    int         part = 0;
    haul_status status = prepare_batch(x, part, &turns[part]);
    for (; !status && turns[part].count; part = !part) {
        status = prepare_batch(x, !part, &turns[!part]);
        if (!status)
            status = update(x, &turns[part]);
        if (haul__may_spill() && turns[!part].count)
            return_ahead(x->o, (int)(turns[!part].updates->entry - x->o->entries));
    }
    HAUL__ASSERT(status || x->next == x->o->count);
    return status;
}

static haul_status step(haul_optimizer *o, haul_tensor *may_skip)
{
    haul_status  status = HAUL_OK;
    const size_t bytes = (size_t)o->count * sizeof(prepared);
    stepping     x;
    x.o = o;
    x.found = haul__small_alloc(bytes);
    x.offload.count = x.next = 0;
    x.at = 0;
    HAUL__ASSERT(o->count > 0 && o->group_count > 0);
    if (!x.found)
        return haul__fail_memory("haul_optimizer_step", bytes);
    memset(x.found, 0, bytes);
    for (int i = 0; i < o->count && !status; i++)
        status = prepare(o, &o->entries[i], may_skip, &x.found[i]);
    if (!status && o->offloads)
        status = haul__offload_begin(o, &x.offload);
    if (!status && haul__is_trial())
        status = keep_all_in_dry_run(o, x.found);
    if (!status)
        o->steps++;
    if (!status)
        status = change_all(&x);
    haul__small_free(x.found, bytes);
    return status;
}

haul_status haul__optimizer_guarded_step(haul_optimizer *optimizer, haul_tensor *found)
{
    static const char operation[] = "haul_optimizer_step", text[] = "optimizer step";
    if (found && optimizer->kind->by_operations)
        return haul__fail(HAUL_UNSUPPORTED, operation, "optimizer",
                          "this optimizer (%s) makes its steps with operations, and the device cannot skip them; train "
                          "in bf16, which needs no gradient scaler",
                          optimizer->kind->name);
    if (optimizer->kind->joint)
        return haul__fail(HAUL_UNSUPPORTED, operation, "optimizer",
                          "this optimizer (%s) computes the loss several times in a step; call "
                          "haul_optimizer_step_closure with a function that computes it",
                          optimizer->kind->name);
    HAUL__ASSERT(!found || (found->dtype == HAUL_F32 && found->count == 1));
    haul_scope *scope = haul__divided_refuse(optimizer, operation) ? NULL : haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    haul_set_grad_enabled(false);
    haul__place_as_given();
    int           section;
    const int64_t began = haul__work_begin(operation, text, 0);
    haul_status   status = haul__dry_run_begin_call(NULL, text, &section);
    status = status ? status : step(optimizer, found);
    haul__dry_run_end_call(section);
    haul__work_end(operation, text, 0, began);
    haul_scope_pop(scope);
    return status;
}

haul_status haul_optimizer_step(haul_optimizer *optimizer)
{
    if (haul__check_optimizer(optimizer, "haul_optimizer_step"))
        return haul_error_status();
    return haul__optimizer_guarded_step(optimizer, NULL);
}

haul_status haul_optimizer_zero_grad(haul_optimizer *optimizer)
{
    if (haul__check_optimizer(optimizer, "haul_optimizer_zero_grad"))
        return haul_error_status();
    for (int i = 0; i < optimizer->count; i++) {
        haul_status status = haul_set_grad(optimizer->entries[i].parameter, HAUL_NONE);
        if (status)
            return status;
    }
    return HAUL_OK;
}

/* ---- counts ---- */

int64_t haul_optimizer_steps(const haul_optimizer *optimizer)
{
    if (haul__check_optimizer(optimizer, "haul_optimizer_steps"))
        return -1;
    if (!optimizer->skipped)
        return optimizer->steps;
    int64_t skipped;
    return haul_read(optimizer->skipped, &skipped, sizeof skipped) ? -1 : optimizer->steps - skipped;
}

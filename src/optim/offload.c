#include "optim/offload.h"

#include <haul/ops.h>
#include <haul/transfer.h>

#include "base/assert.h"
#include "base/numbers.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "engine/copy.h"

/* The most elements of a piece, and of small states that share a buffer. Each begins at a multiple of ALIGNMENT. */
enum { PIECE = 1 << 18, ALIGNMENT = 64 };

/* ---- where state is ---- */

static haul_device *device_of(const haul__optimizer_entry *e)
{
    return e->parameter->storage->device;
}

/* In pinned memory, because it moves in each step. */
static haul_tensor *to_host(const haul__optimizer_entry *e, haul_tensor *s)
{
    haul_tensor *there = haul_to(s, haul_cpu(), .dtype = e->parameter->dtype);
    haul_tensor *ordered = haul__failed(there) ? NULL : haul__to_order_of(there, e->parameter);
    return haul__failed(ordered) ? NULL : haul_pin(ordered, device_of(e));
}

static haul_tensor *zeros_on_host(const haul__optimizer_entry *e)
{
    if (haul_set_device(haul_cpu())) /* the scope of the step restores the setting */
        return NULL;
    haul_tensor *zeros = haul_zeros(e->parameter->dtype, e->parameter->shape);
    return haul__failed(zeros) ? NULL : to_host(e, zeros);
}

haul_tensor *haul__state_home(const haul_optimizer *o, const haul__optimizer_entry *e, haul_tensor *s)
{
    haul_tensor *p = e->parameter;
    HAUL__ASSERT(!s || s->count == p->count);
    if (haul__is_offloaded(o, e))
        return s ? to_host(e, s) : zeros_on_host(e);
    s = s ? haul_to(s, device_of(e), .dtype = p->dtype) : haul_zeros_like(p);
    return haul__failed(s) ? NULL : haul__to_order_of(s, p);
}

/* ---- buffers ---- */

static bool is_used(const haul_optimizer *o, const haul__optimizer_entry *e, int state)
{
    return o->kind->states(o->groups[e->group].values) >> state & 1;
}

int64_t haul__offload_need(const haul_optimizer *o, const haul__optimizer_entry *e, int64_t count)
{
    int64_t elements = 0;
    for (int k = 0; k < o->kind->state_count; k++)
        elements += is_used(o, e, k) ? round_up(count, ALIGNMENT) : 0;
    HAUL__ASSERT(count <= 0 || elements % ALIGNMENT == 0);
    return elements;
}

int64_t haul__offload_count(const haul_optimizer *o, const haul__optimizer_entry *e, int64_t first)
{
    return haul__is_offloaded(o, e) ? smaller(PIECE, e->parameter->count - first) : 0;
}

static const haul__offload_buffers *find(const haul__offload *x, const haul__optimizer_entry *e)
{
    for (int i = 0; i < x->count; i++)
        if (x->items[i].device == device_of(e) && x->items[i].dtype == e->parameter->dtype)
            return &x->items[i];
    return NULL;
}

int64_t haul__offload_room(const haul__offload *x, const haul__optimizer_entry *e)
{
    const haul__offload_buffers *b = find(x, e);
    return b ? b->room : 0;
}

static haul_status allocate(const haul_optimizer *o, const haul__optimizer_entry *first, haul__offload_buffers *out)
{
    int64_t largest = 0, all = 0;
    *out = (haul__offload_buffers){.device = device_of(first), .dtype = first->parameter->dtype};
    for (int i = 0; i < o->count; i++) {
        const haul__optimizer_entry *e = &o->entries[i];
        if (!e->parameter->grad || device_of(e) != out->device || e->parameter->dtype != out->dtype)
            continue;
        largest = larger(largest, haul__offload_need(o, e, smaller(PIECE, e->parameter->count)));
        all += haul__offload_need(o, e, e->parameter->count);
    }
    HAUL__ASSERT(largest > 0);
    out->room = larger(largest, smaller(all, PIECE));
    if (haul_set_device(out->device))
        return haul_error_status();
    HAUL__ASSERT(out->room >= largest);
    for (int i = 0; i < 2; i++) {
        out->parts[i] = haul_empty(out->dtype, HAUL_SHAPE(out->room));
        if (haul__failed(out->parts[i]))
            return haul_error_status();
    }
    HAUL__ASSERT(out->parts[0]->storage != out->parts[1]->storage);
    return HAUL_OK;
}

haul_status haul__offload_begin(const haul_optimizer *o, haul__offload *out)
{
    haul_status status = HAUL_OK;
    HAUL__ASSERT(o->offloads);
    out->count = 0;
    for (int i = 0; i < o->count && !status; i++) {
        const haul__optimizer_entry *e = &o->entries[i];
        if (!e->parameter->grad || !haul__is_offloaded(o, e) || !haul__offload_need(o, e, 1) || find(out, e))
            continue;
        if (out->count == HAUL__MOST_OFFLOAD_BUFFERS)
            return haul__fail(HAUL_UNSUPPORTED, "haul_optimizer_step", "optimizer",
                              "state in host memory is for parameters of at most %d devices and dtypes",
                              HAUL__MOST_OFFLOAD_BUFFERS);
        status = allocate(o, e, &out->items[out->count++]);
    }
    HAUL__ASSERT(status || out->count <= HAUL__MOST_OFFLOAD_BUFFERS);
    return status;
}

/* ---- a step ---- */

/* Elements of a tensor without gaps, in the order of its memory. */
static haul_tensor *elements_of(haul_tensor *t, const haul__offload_piece *piece)
{
    HAUL__ASSERT(piece->first >= 0 && piece->count > 0 && piece->first + piece->count <= t->count);
    int          axes[HAUL_MAX_DIMS];
    haul_tensor *ordered = t;
    if (!t->contiguous) {
        for (int d = 0; d < t->shape.ndim; d++)
            axes[d] = d;
        haul__shape_sort_axes(axes, t->shape.ndim, t->strides);
        ordered = haul_permute(t, axes, t->shape.ndim);
    }
    haul_tensor *flat = haul__failed(ordered) ? NULL : haul_view(ordered, HAUL_SHAPE(t->count));
    return haul__failed(flat) ? NULL : haul_slice(flat, 0, piece->first, piece->first + piece->count, 1);
}

static haul_status bring_state(haul_tensor *state, haul_tensor *home, bool zero)
{
    if (haul__failed(state) || haul__failed(home))
        return haul_error_status();
    return zero ? haul_zero_into(state) : haul_copy_into(state, home);
}

haul_status haul__offload_bring(const haul_optimizer *o, const haul__offload *x, int part, haul_tensor *const *home,
                                haul__offload_piece *piece, haul__update *u)
{
    const haul__optimizer_entry *e = u->entry;
    haul_status                  status = HAUL_OK;
    HAUL__ASSERT(part == 0 || part == 1);
    int64_t at = piece->at;
    HAUL__ASSERT(find(x, e) && piece->at % ALIGNMENT == 0);
    for (int k = 0; k < o->kind->state_count && !status; k++) {
        if (!is_used(o, e, k))
            continue;
        HAUL__ASSERT(at + piece->count <= find(x, e)->room);
        piece->home[k] = elements_of(home[k], piece);
        u->states[k] = haul_slice(find(x, e)->parts[part], 0, at, at + piece->count, 1);
        status = bring_state(u->states[k], piece->home[k], u->first);
        at += round_up(piece->count, ALIGNMENT);
    }
    u->parameter = elements_of(u->parameter, piece);
    u->grad = elements_of(u->grad, piece);
    return status || haul__failed(u->parameter) || haul__failed(u->grad) ? haul_error_status() : HAUL_OK;
}

haul_status haul__offload_leave(const haul__offload_piece *piece, const haul__update *u)
{
    HAUL__ASSERT(piece->count > 0);
    haul_status status = HAUL_OK;
    for (int k = 0; k < HAUL__MAX_STATES && !status; k++)
        if (piece->home[k])
            status = haul_copy_into(piece->home[k], u->states[k]);
    return status;
}

/* ---- the setting ---- */

haul_status haul_optimizer_set_offload(haul_optimizer *optimizer, bool on)
{
    if (haul__check_optimizer(optimizer, "haul_optimizer_set_offload"))
        return haul_error_status();
    if (on && optimizer->kind->by_operations)
        return haul__fail(HAUL_UNSUPPORTED, "haul_optimizer_set_offload", "optimizer",
                          "this optimizer (%s) makes its steps with operations, which need the whole state at a time",
                          optimizer->kind->name);
    optimizer->offloads = on;
    return HAUL_OK;
}

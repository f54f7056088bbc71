/* Operations that move, copy and convert. The elements keep their values, so the gradient of each is the incoming one,
 * which the backward pass brings to the dtype and device of the operand; haul_detach stops it. */
#include <string.h>

#include "base/assert.h"
#include "base/half.h"
#include "engine/copy.h"
#include "engine/cross.h"
#include "engine/driver.h"
#include "engine/node.h"
#include "engine/operation.h"
#include "engine/placement/placing.h"
#include "memory/allocator.h"
#include "memory/derived.h"

/* ---- what the operations share ---- */

/* Copies the elements of x to y, on any devices. */
static haul_status bring(const haul__call *c, haul_tensor *y, haul_tensor *x, bool fresh, const haul__copy_note *note)
{
    if (x->storage->device == y->storage->device)
        return haul__copy_elements(y, x, c->operation->name);
    return haul__cross(c, y, x, fresh, note);
}

typedef struct move_attributes {
    haul_device *device; /* the target device */
    haul_dtype   dtype;  /* HAUL_DTYPE_NONE: the operand's dtype */
    bool         keeps;  /* the result is kept with the operand's storage */
    bool         kept;   /* and existed before */
    bool         placed; /* HAUL_PLACE_AUTO asked for it */
    bool         reserved[1];
    const char  *name; /* the tensor's, for events of copies; NULL: none is known. Only `compute` reads it */
} move_attributes;

/* A fresh tensor on `device` with the operand's order of dimensions. */
static haul_status describe_copy(haul__call *c, haul_device *device, haul_dtype dtype)
{
    haul_tensor *x = c->operands[0];
    if (haul__device_check(device, c->operation->name, "device"))
        return haul_error_status();
    c->device = device;
    c->partner = device == x->storage->device ? NULL : x->storage->device;
    return haul__describe_like(c, 0, dtype, &x->shape, x);
}

/* The operand itself. */
static haul_status describe_same(haul__call *c)
{
    const haul_tensor *x = c->operands[0];
    return haul__describe_view(c, 0, &x->shape, x->strides, x->offset);
}

static haul_status compute(haul__call *c)
{
    return bring(c, c->results[0], c->operands[0], true, &(haul__copy_note){.tensor = NULL});
}

static haul_status compute_move(haul__call *c)
{
    const move_attributes *a = haul__attributes(c);
    return bring(c, c->results[0], c->operands[0], true, &(haul__copy_note){a->name, a->placed});
}

static void pass_on(haul__gradient *g)
{
    g->operands[0] = g->results[0];
}

/* The gradient crosses where HAUL_PLACE_AUTO had the operand cross. With a plan, it crosses where it is used. */
static void pass_back(haul__gradient *g)
{
    const move_attributes *a = g->attributes;
    haul_device           *home = g->node->edges[0].device;
    const bool             crosses = a->placed && home != a->device && !haul__is_planned();
    g->operands[0] = crosses ? haul__to_placed(g->results[0], home) : g->results[0];
}

/* ---- to, cast ---- */

static haul_status describe_moved(haul__call *c, haul_device *device, haul_dtype dtype)
{
    const haul_tensor *x = c->operands[0];
    bool               same = x->storage->device == device && x->dtype == dtype;
    return same ? describe_same(c) : describe_copy(c, device, dtype);
}

/* The form of a copy on another device. */
static haul__form form_on(const haul_tensor *x, const haul_device *device)
{
    haul__form form = {.maker = device, .dtype = x->dtype};
    haul__shape_strides_like(&x->shape, x->strides, form.layout);
    return form;
}

static haul_status infer_to(haul__call *c)
{
    move_attributes *a = haul__attributes(c);
    haul_tensor     *x = c->operands[0];
    if (!a->dtype)
        a->dtype = x->dtype;
    haul_status status = describe_moved(c, a->device, a->dtype);
    if (status || !a->keeps || c->view_of >= 0)
        return status;
    HAUL__ASSERT(!c->results[0]->storage);
    const haul__form form = form_on(x, a->device);
    c->results[0]->storage = haul__derived_find(x, &form);
    a->kept = c->results[0]->storage != NULL;
    return HAUL_OK;
}

static haul_status compute_to(haul__call *c)
{
    const move_attributes *a = haul__attributes(c);
    HAUL__ASSERT(!a->kept || a->keeps);
    haul_status status = a->kept ? HAUL_OK : compute_move(c);
    if (!status && a->keeps && !a->kept) {
        const haul__form form = form_on(c->operands[0], a->device);
        if (haul__is_dry())
            return haul__derived_keep_in_run(c->operands[0], &form, c->results[0]->storage);
        haul__derived_keep(c->operands[0], &form, c->results[0]->storage);
    }
    return status;
}

static haul__cost cost_of_to(const haul__call *c)
{
    return (haul__cost){.bytes = ((const move_attributes *)haul__attributes_of(c))->kept ? 0 : haul__call_bytes(c)};
}

HAUL__OPERATION(to) = {
    .name = "haul_to",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .any_device = true,
    .attributes_size = HAUL__ATTRIBUTES(move_attributes),
    .infer = infer_to,
    .compute = compute_to,
    .gradient = pass_back,
    .cost = cost_of_to,
};

bool haul__is_move(const haul__operation *operation)
{
    return operation == &haul__operation_to;
}

bool haul__move_is_kept(const void *attributes)
{
    return ((const move_attributes *)attributes)->keeps;
}

haul_tensor *haul_to_with(haul_tensor *x, const haul_to_options *options)
{
    if (!options)
        return haul__no_options(&haul__operation_to);
    return HAUL__APPLY(to, (&(move_attributes){.device = options->device, .dtype = options->dtype}), x);
}

haul_tensor *haul__to_named(haul_tensor *x, haul_device *device, const char *name)
{
    return HAUL__APPLY(to, (&(move_attributes){.device = device, .name = name}), x);
}

haul_tensor *haul__to_placed(haul_tensor *x, haul_device *device)
{
    return HAUL__APPLY(to, (&(move_attributes){.device = device, .placed = true}), x);
}

haul_tensor *haul__to_kept(haul_tensor *x, haul_device *device, const char *name)
{
    return HAUL__APPLY(to, (&(move_attributes){.device = device, .keeps = true, .placed = true, .name = name}), x);
}

bool haul__keeps_move(const haul_tensor *x, const haul_device *device)
{
    const haul__form form = form_on(x, device);
    haul__storage   *kept = haul__derived_find(x, &form);
    haul__object_release(kept);
    return kept != NULL;
}

typedef struct cast_attributes {
    haul_dtype dtype;
    bool       keeps; /* the result is kept with the operand's storage */
    bool       kept;  /* and existed before */
    bool       reserved[2];
} cast_attributes;

static haul__form form_of(const haul_tensor *y)
{
    haul__form form = {.dtype = y->dtype};
    for (int i = 0; i < y->shape.ndim; i++)
        form.layout[i] = y->strides[i];
    return form;
}

static haul_status infer_cast(haul__call *c)
{
    cast_attributes *a = haul__attributes(c);
    haul_status      status = describe_moved(c, c->device, a->dtype);
    if (status || !a->keeps || c->view_of >= 0)
        return status;
    HAUL__ASSERT(!c->results[0]->storage);
    haul__form form = form_of(c->results[0]);
    c->results[0]->storage = haul__derived_find(c->operands[0], &form);
    a->kept = c->results[0]->storage != NULL;
    if (a->kept || haul__check_dtype(a->dtype, c->device, c->operation->name))
        return a->kept ? HAUL_OK : haul_error_status();
    size_t bytes = (size_t)c->results[0]->count * haul__dtype_size(a->dtype);
    c->results[0]->storage = haul__storage_alloc_apart(c->device, bytes, c->operation->name);
    return c->results[0]->storage ? HAUL_OK : haul_error_status();
}

static haul_status compute_cast(haul__call *c)
{
    const cast_attributes *a = haul__attributes(c);
    HAUL__ASSERT(!a->kept || a->keeps);
    if (a->kept)
        return HAUL_OK;
    haul_status status = compute(c);
    if (!status && a->keeps) {
        haul__form form = form_of(c->results[0]);
        haul__derived_keep(c->operands[0], &form, c->results[0]->storage);
    }
    return status;
}

static haul__cost cost_of_cast(const haul__call *c)
{
    return (haul__cost){.bytes = ((const cast_attributes *)haul__attributes_of(c))->kept ? 0 : haul__call_bytes(c)};
}

HAUL__OPERATION(cast) = {
    .name = "haul_cast",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(cast_attributes),
    .infer = infer_cast,
    .compute = compute_cast,
    .gradient = pass_on,
    .cost = cost_of_cast,
};

bool haul__casts_plainly(const haul__call *c)
{
    const cast_attributes *a = haul__attributes_of(c);
    return c->operation == &haul__operation_cast && c->view_of < 0 && !a->keeps &&
           c->operands[0]->dtype != c->results[0]->dtype;
}

haul_tensor *haul_cast(haul_tensor *x, haul_dtype dtype)
{
    return HAUL__APPLY(cast, &(cast_attributes){.dtype = dtype}, x);
}

haul_tensor *haul__cast_kept(haul_tensor *x, haul_dtype dtype)
{
    return HAUL__APPLY(cast, (&(cast_attributes){.dtype = dtype, .keeps = true}), x);
}

haul_tensor *haul__widened(haul_tensor *x)
{
    const bool narrow = !haul__failed(x) && !haul__is_none(x) && haul__is_half(x->dtype);
    return narrow ? haul_cast(x, HAUL_F32) : x;
}

/* ---- detach ---- */

HAUL__OPERATION(detach) = {
    .name = "haul_detach",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .not_recorded = true,
    .infer = describe_same,
};

haul_tensor *haul_detach(haul_tensor *x)
{
    return HAUL__APPLY(detach, NULL, x);
}

/* ---- identity, clone, pin ---- */

static haul_status infer_identity(haul__call *c)
{
    return describe_copy(c, ((const move_attributes *)haul__attributes(c))->device, c->operands[0]->dtype);
}

HAUL__OPERATION(identity) = {
    .name = "haul_identity",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .any_device = true,
    .attributes_size = HAUL__ATTRIBUTES(move_attributes),
    .infer = infer_identity,
    .compute = compute_move,
    .gradient = pass_on,
};

haul_tensor *haul_identity(haul_tensor *x, haul_device *device)
{
    return haul__identity_named(x, device, NULL);
}

haul_tensor *haul__identity_named(haul_tensor *x, haul_device *device, const char *name)
{
    return HAUL__APPLY(identity, (&(move_attributes){.device = device, .name = name}), x);
}

static haul_status infer_clone(haul__call *c)
{
    return describe_copy(c, c->device, c->operands[0]->dtype);
}

HAUL__OPERATION(clone) = {
    .name = "haul_clone",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .infer = infer_clone,
    .compute = compute,
    .gradient = pass_on,
};

haul_tensor *haul_clone(haul_tensor *x)
{
    return HAUL__APPLY(clone, NULL, x);
}

static haul_status infer_pin(haul__call *c)
{
    haul_tensor *x = c->operands[0];
    haul_device *device = ((const move_attributes *)haul__attributes(c))->device;
    if (haul__device_check(device, c->operation->name, "device"))
        return haul_error_status();
    if (!haul__device_is_host(c->device))
        return haul__fail(HAUL_DEVICE, c->operation->name, "x",
                          "x is on %s; expected a tensor on cpu: haul_to(x, haul_cpu()) brings it to pinned memory",
                          c->device->name);
    if (haul__storage_pinned(x->storage) || !haul__device_pins(device))
        return describe_same(c);
    c->partner = device;
    return haul__describe_like(c, 0, x->dtype, &x->shape, x);
}

HAUL__OPERATION(pin) = {
    .name = "haul_pin",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(move_attributes),
    .infer = infer_pin,
    .compute = compute,
    .gradient = pass_on,
};

haul_tensor *haul_pin(haul_tensor *x, haul_device *device)
{
    return HAUL__APPLY(pin, &(move_attributes){.device = device}, x);
}

/* Wrapped memory may have been pinned by another library. */
static bool is_foreign_pinned(const haul__storage *storage)
{
    if (!haul__device_is_host(storage->device) || storage->block || storage->planned || storage->bytes == 0)
        return false;
    for (int slot = 0; slot < HAUL__MAX_DEVICES; slot++) {
        haul_device *device = haul__device_in_use(slot);
        if (device && haul__device_host_is_pinned(device, storage->buffer.host, storage->bytes))
            return true;
    }
    return false;
}

bool haul_tensor_is_pinned(const haul_tensor *t)
{
    return haul__check_tensor("haul_tensor_is_pinned", "t", t) == HAUL_OK &&
           (haul__storage_pinned(t->storage) || is_foreign_pinned(t->storage));
}

/* ---- copy_into ---- */

typedef struct copy_attributes {
    const char *name; /* as in move_attributes */
} copy_attributes;

static haul_status infer_copy_into(haul__call *c)
{
    char               have[80], want[80];
    haul_shape         shape;
    const haul_tensor *out = c->operands[0], *x = c->operands[1];
    if (haul__shape_broadcast(&out->shape, &x->shape, c->operation->name, &shape))
        return haul_error_status();
    if (haul__shape_equal(&out->shape, &shape))
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, c->operation->name, "out", "out has shape %s, the result has %s",
                      haul__shape_text(&out->shape, have, sizeof have), haul__shape_text(&shape, want, sizeof want));
}

static haul_status compute_copy_into(haul__call *c)
{
    const copy_attributes *a = haul__attributes(c);
    haul_tensor           *out = c->operands[0], *x = c->operands[1];
    if (x->storage == out->storage) { /* they may overlap */
        haul_tensor *apart = haul__dense_temporary(c, c->device, c->device, x->dtype, x);
        if (!apart || haul__copy_elements(apart, x, c->operation->name))
            return haul_error_status();
        x = apart;
    }
    return bring(c, out, x, false, &(haul__copy_note){.tensor = a->name});
}

HAUL__OPERATION(copy_into) = {
    .name = "haul_copy_into",
    .operands = {{"out", .written = true, .layout = HAUL__ANY_STRIDES}, {"x", .layout = HAUL__ANY_STRIDES}},
    .dtypes = HAUL__EVERY,
    .any_device = true,
    .attributes_size = HAUL__ATTRIBUTES(copy_attributes),
    .infer = infer_copy_into,
    .compute = compute_copy_into,
};

haul_status haul_copy_into(haul_tensor *out, haul_tensor *x)
{
    return haul__copy_into_named(out, x, NULL);
}

haul_status haul__copy_into_named(haul_tensor *out, haul_tensor *x, const char *name)
{
    return HAUL__APPLY_STATUS(copy_into, &(copy_attributes){name}, out, x);
}

/* ---- memory formats ---- */

typedef struct format_attributes {
    haul_memory_format format;
} format_attributes;

/* The operand itself if it has these strides, else a copy that does. */
static haul_status describe_with_strides(haul__call *c, const int64_t *strides)
{
    const haul_tensor *x = c->operands[0];
    if (x->count == 0 || haul__shape_same_strides(&x->shape, x->strides, strides))
        return describe_same(c);
    return haul__describe_strided(c, 0, x->dtype, &x->shape, strides);
}

static haul_status infer_contiguous(haul__call *c)
{
    int64_t strides[HAUL_MAX_DIMS];
    haul__shape_strides(&c->operands[0]->shape, strides);
    return describe_with_strides(c, strides);
}

HAUL__OPERATION(contiguous) = {
    .name = "haul_contiguous",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .infer = infer_contiguous,
    .compute = compute,
    .gradient = pass_on,
};

haul_tensor *haul_contiguous(haul_tensor *x)
{
    return HAUL__APPLY(contiguous, NULL, x);
}

static haul_status infer_format(haul__call *c)
{
    int64_t            strides[HAUL_MAX_DIMS];
    haul_memory_format format = ((const format_attributes *)haul__attributes(c))->format;
    if (format == HAUL_CONTIGUOUS)
        return infer_contiguous(c);
    if (format != HAUL_CHANNELS_LAST)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "format",
                          "%d is not a memory format; use HAUL_CONTIGUOUS or HAUL_CHANNELS_LAST", (int)format);
    if (c->operands[0]->shape.ndim != 4)
        return haul__refuse_shape(c, 0, "only a tensor [N, C, H, W] can be channels-last");
    haul__shape_strides_channels_last(&c->operands[0]->shape, strides);
    return describe_with_strides(c, strides);
}

HAUL__OPERATION(to_memory_format) = {
    .name = "haul_to_memory_format",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(format_attributes),
    .infer = infer_format,
    .compute = compute,
    .gradient = pass_on,
};

haul_tensor *haul_to_memory_format(haul_tensor *x, haul_memory_format format)
{
    return HAUL__APPLY(to_memory_format, &(format_attributes){format}, x);
}

/* ---- the order of dimensions of another tensor ---- */

typedef struct order_attributes {
    int64_t strides[HAUL_MAX_DIMS];
    bool    fresh; /* always a copy */
    bool    reserved[7];
} order_attributes;

static haul_status infer_order(haul__call *c)
{
    const haul_tensor      *x = c->operands[0];
    const order_attributes *a = haul__attributes(c);
    return a->fresh ? haul__describe_strided(c, 0, x->dtype, &x->shape, a->strides)
                    : describe_with_strides(c, a->strides);
}

HAUL__OPERATION(to_order) = {
    .name = "haul_to_order",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(order_attributes),
    .infer = infer_order,
    .compute = compute,
    .gradient = pass_on,
};

static haul_tensor *to_order(haul_tensor *x, const haul_tensor *like, bool fresh)
{
    order_attributes a = {.fresh = fresh};
    haul__shape_strides_like(&like->shape, like->strides, a.strides);
    return HAUL__APPLY(to_order, &a, x);
}

haul_tensor *haul__copy_to_strides(haul_tensor *x, const int64_t *strides)
{
    order_attributes a = {.fresh = true};
    memcpy(a.strides, strides, sizeof a.strides);
    return HAUL__APPLY(to_order, &a, x);
}

haul_tensor *haul__to_order_of(haul_tensor *x, const haul_tensor *like)
{
    return to_order(x, like, false);
}

haul_tensor *haul__copy_to_order_of(haul_tensor *x, const haul_tensor *like)
{
    return to_order(x, like, true);
}

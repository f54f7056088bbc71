/* The driver's short paths: an elementwise operation on row-major operands of one shape and one floating dtype, on a
 * synchronous device, without autocast or a subscriber. No operand has to be moved, cast, copied or described, and
 * there are no temporaries, so only a few steps separate the call from its kernel. Views need no kernel, and skip the
 * same steps on any device. Other calls take the long path, which gives the same results. */
#include <string.h>

#include "base/assert.h"
#include "base/counter.h"
#include "core/scope.h"
#include "device/launch_now.h"
#include "engine/autocast.h"
#include "engine/driver.h"
#include "engine/layout/layout.h"
#include "engine/node.h"
#include "memory/allocator.h"

/* Calls between these steps would cost as much as the steps. */
#define INLINED static inline __attribute__((always_inline))
/* gcc would take most of a function of so many conditions for unlikely, and copy shapes by slow instructions. */
#define HOT __attribute__((hot))

/* For tensors with elements. */
static inline bool same_shape(const haul_tensor *a, const haul_tensor *b)
{
    if (a == b)
        return true;
    if (a->count != b->count || a->shape.ndim != b->shape.ndim)
        return false;
    for (int d = 1; d < a->shape.ndim; d++) /* the count decides about dimension 0 */
        if (a->shape.dims[d] != b->shape.dims[d])
            return false;
    return true;
}

/* Of more elements the cost of a call does not matter, and layouts say how results are stored. */
enum { MOST_ELEMENTS = 1 << 20 };

/* No autocast, dry run, anomaly detection, subscriber or placement at the current device: each of them has a word that
 * is then 0. */
static inline bool is_quiet(void)
{
    const haul__context *context = &haul__tls;
    return !(atomic_load_explicit(&context->watch, memory_order_relaxed) | context->state.words[HAUL__AUTOCAST] |
             context->state.words[HAUL__DRY_RUN] | context->state.words[HAUL__ANOMALY] |
             (context->state.words[HAUL__PLACEMENT] & HAUL_PLACE_CURRENT));
}
_Static_assert(HAUL_PLACE_CURRENT == 2 && HAUL_PLACE_MOVE == 1, "the policies are apart in their bits");

/* Looks if a kernel that knows only row-major operands of one floating dtype can compute the call. Returns the kernel,
 * or NULL, and sets whether a gradient flows through an operand. */
INLINED const haul__kernel *short_kernel(const haul__operation *operation, haul_tensor *const *operands, int count,
                                         bool *tracked)
{
    const haul_tensor *a = operands[0];
    if (!is_quiet() || !haul__is_tensor(a) || !a->contiguous || !(HAUL__FLOATS >> a->dtype & 1))
        return NULL;
    if (a->count == 0 || a->count > MOST_ELEMENTS)
        return NULL;
    const haul_device  *device = a->storage->device;
    const haul__kernel *kernel = haul__kernel_known(device, operation->kernel, a->dtype);
    if (!kernel || !haul__launches_now(device, kernel))
        return NULL;
    bool tracks = haul__tracks(a);
    for (int i = 1; i < count; i++) {
        const haul_tensor *b = operands[i];
        if (!haul__is_tensor(b) || b->storage->device != device || b->dtype != a->dtype || !b->contiguous ||
            !same_shape(a, b))
            return NULL;
        tracks = tracks || haul__tracks(b);
    }
    *tracked = tracks && !haul__thread()->no_grad;
    return kernel;
}

/* A stream used one of the storages. */
__attribute__((noinline)) static haul_status submit(const haul__operation *operation, const haul__kernel *kernel,
                                                    const pointwise_params *p, const haul_tensor *y,
                                                    haul_tensor *const *operands, int count)
{
    haul__storage *storages[3] = {y->storage, operands[0]->storage, operands[count - 1]->storage};
    return haul__launch_command(&(haul__command){.operation = operation->name,
                                                 .device = y->storage->device,
                                                 .write_count = 1,
                                                 .buffer_count = 1 + count,
                                                 .params = p,
                                                 .params_size = sizeof *p,
                                                 .kernel = kernel,
                                                 .items = p->items,
                                                 .grain = HAUL__POINTWISE_GRAIN},
                                operation->kernel, storages);
}

/* Count elements in a row: of the result, then of the operands. */
INLINED haul_status launch(const haul__operation *operation, const haul__kernel *kernel, const double *numbers,
                           haul_tensor *y, haul_tensor *const *operands, int count)
{
    HAUL__ASSERT(1 <= count && count <= 2 && haul__tensor_is_sound(y) && haul__tensor_is_sound(operands[count - 1]));
    void            *hosts[3] = {y->storage->buffer.host};
    bool             used = haul__storage_is_used(y->storage);
    pointwise_params p; /* the fields that a one-dimensional loop reads */
    p.items = p.dims[0] = y->count;
    p.ndim = 1;
    p.pack = 1;
    p.nontemporal = 0;
    p.strides[0].of[0] = 1;
    p.offsets[0] = y->offset;
    for (int i = 0; i < count; i++) {
        const haul__storage *storage = operands[i]->storage;
        p.strides[1 + i].of[0] = 1;
        p.offsets[1 + i] = operands[i]->offset;
        hosts[1 + i] = storage->buffer.host;
        used = used || haul__storage_is_used(storage);
    }
    if (numbers) {
        p.scalars[0] = haul__scalar_bits(operands[0]->dtype, numbers[0]);
        p.scalars[1] = haul__scalar_bits(operands[0]->dtype, numbers[1]);
    }
    if (__builtin_expect(used, 0))
        return submit(operation, kernel, &p, y, operands, count);
    haul__function_run(kernel->function, hosts, &p, p.items, HAUL__POINTWISE_GRAIN);
    return HAUL_OK;
}

INLINED haul_tensor *result_like(const haul__operation *operation, const haul_tensor *a)
{
    haul_tensor *y = haul__tensor_new();
    if (!y)
        return NULL;
    y->dtype = operation->to_bool ? HAUL_BOOL : a->dtype;
    y->shape = a->shape;
    memcpy(y->strides, a->strides, sizeof y->strides);
    y->offset = 0;
    y->count = a->count;
    y->contiguous = true;
    y->storage =
        haul__storage_alloc(a->storage->device, (size_t)y->count * haul__dtype_size(y->dtype), operation->name);
    if (y->storage)
        return y;
    haul__object_release(y);
    return NULL;
}

/* Makes the result differentiable. The call has its operands and its result. */
static haul_status record(haul__call *c)
{
    haul_status status = haul__find_gradients(c);
    return status || !c->records ? status : haul__node_record(c);
}

/* A call of one result. */
static void begin(haul__call *c, const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                  int count, haul_tensor *y)
{
    haul__call_begin(c, operation, attributes, count, 1);
    for (int i = 0; i < count; i++)
        c->own_operands[i] = operands[i];
    c->results[0] = y;
}

__attribute__((noinline)) static haul_status record_pointwise(const haul__operation *operation, const void *attributes,
                                                              haul_tensor *const *operands, int count, haul_tensor *y)
{
    haul__call c;
    begin(&c, operation, attributes, operands, count, y);
    return record(&c);
}

HOT haul_tensor *haul__apply_short(const haul__operation *operation, const void *attributes,
                                   haul_tensor *const *operands, int count)
{
    bool                tracked;
    const haul__kernel *kernel = short_kernel(operation, operands, count, &tracked);
    if (!kernel)
        return haul__apply_long(operation, attributes, operands, count);
    HAUL__ASSERT(!attributes || operation->attributes_size == 2 * sizeof(double));
    haul_tensor *y = result_like(operation, operands[0]);
    if (y && (launch(operation, kernel, attributes, y, operands, count) ||
              (tracked && record_pointwise(operation, attributes, operands, count, y)))) {
        haul__object_release(y);
        y = NULL;
    }
    if (y)
        y = haul__own_tensor(y, operation->name);
    return y ? y : haul__failed_tensor();
}

/* The target has the form of the result, and operands that share its memory are read where they are written. */
static inline bool is_target(const haul__operation *operation, const haul_tensor *out, haul_tensor *const *operands,
                             int count)
{
    const haul_tensor *a = operands[0];
    if (!haul__is_tensor(out) || out->storage->device != a->storage->device || !out->contiguous ||
        out->dtype != (operation->to_bool ? HAUL_BOOL : a->dtype) || !same_shape(out, a) || haul__tracks(out))
        return false;
    for (int i = 0; i < count; i++)
        if (operands[i]->storage == out->storage &&
            (operands[i]->offset != out->offset || operands[i]->dtype != out->dtype))
            return false;
    return true;
}

HOT haul_status haul__apply_short_into(haul_tensor *out, const haul__operation *operation, const void *attributes,
                                       haul_tensor *const *operands, int count)
{
    bool                tracked;
    const haul__kernel *kernel = short_kernel(operation, operands, count, &tracked);
    if (!kernel || tracked || !is_target(operation, out, operands, count))
        return haul__apply_long_into(&out, operation, attributes, operands, count);
    haul_status status = launch(operation, kernel, attributes, out, operands, count);
    if (!status)
        haul__add_long(&out->storage->version, 1);
    return status;
}

/* ---- views ---- */

static haul_status describe_view(haul__call *c, haul_tensor *x)
{
    haul_status status = c->operation->infer(c);
    if (status || c->view_of < 0)
        return status;
    haul__object_keep(x->storage);
    c->results[0]->storage = x->storage;
    HAUL__ASSERT(haul__tensor_is_sound(c->results[0]));
    return haul__tracks(x) && !haul__thread()->no_grad ? record(c) : HAUL_OK;
}

HOT haul_tensor *haul__apply_view(const haul__operation *operation, const void *attributes,
                                  haul_tensor *const *operands, int count)
{
    haul__call   c;
    haul_tensor *x = operands[0];
    if (!is_quiet() || !haul__is_tensor(x))
        return haul__apply_long(operation, attributes, operands, count);
    haul_tensor *y = haul__tensor_new();
    if (!y)
        return haul__failed_tensor();
    HAUL__ASSERT(count == 1);
    begin(&c, operation, attributes, operands, 1, y);
    c.device = x->storage->device;
    haul_status status = describe_view(&c, x);
    if (!status && c.view_of == 0)
        return haul__result(haul__own_tensor(y, operation->name));
    haul__object_release(y);
    return status ? haul__failed_tensor() : haul__apply_long(operation, attributes, operands, count);
}

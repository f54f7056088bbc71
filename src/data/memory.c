/* Examples that lie in memory already, as tensors on the CPU. */
#include <haul/ops.h>
#include <string.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "device/device.h"

#define NEW "haul_dataset_from_tensors"

typedef struct arrays {
    haul_tensor *x, *y;            /* contiguous; references of ours */
    size_t       x_bytes, y_bytes; /* of an example */
} arrays;

static haul_status copy_example(haul_tensor *t, int64_t index, void *out, size_t bytes)
{
    if (!bytes)
        return HAUL_OK;
    haul_status status = haul__host_before(t->storage, false, "haul_loader_next");
    if (status == HAUL_OK)
        memcpy(out,
               (const char *)t->storage->buffer.host + (size_t)t->offset * haul__dtype_size(t->dtype) +
                   (size_t)index * bytes,
               bytes);
    return status;
}

static haul_status read_example(void *context, int64_t index, void *input, void *target)
{
    arrays     *a = context;
    haul_status status = copy_example(a->x, index, input, a->x_bytes);
    return status == HAUL_OK ? copy_example(a->y, index, target, a->y_bytes) : status;
}

static void close_arrays(void *context)
{
    arrays *a = context;
    haul__object_release(a->x);
    haul__object_release(a->y);
    haul__free(a);
}

static haul_status check_tensor(const haul_tensor *t, const char *name)
{
    char text[160];
    if (haul__check_tensor(NEW, name, t))
        return haul_error_status();
    if (haul_tensor_device(t) != haul_cpu())
        return haul__fail(HAUL_DEVICE, NEW, name,
                          "%s is %s; examples are read on the CPU: move it with haul_to(%s, "
                          "haul_cpu())",
                          name, haul__tensor_text(t, text, sizeof text), name);
    if (t->shape.ndim < 1)
        return haul__fail(HAUL_SHAPE, NEW, name, "%s is 0-d; its first dimension counts the examples", name);
    return HAUL_OK;
}

static haul_status check_pair(const haul_tensor *x, const haul_tensor *y)
{
    haul_status status;
    if ((status = check_tensor(x, "x")) != HAUL_OK || (status = check_tensor(y, "y")) != HAUL_OK)
        return status;
    if (x->shape.dims[0] != y->shape.dims[0])
        return haul__fail(HAUL_SHAPE, NEW, "y", "x has %lld examples, y has %lld", (long long)x->shape.dims[0],
                          (long long)y->shape.dims[0]);
    if (x->dtype != HAUL_U8 && x->dtype != HAUL_F32)
        return haul__fail(HAUL_DTYPE, NEW, "x", "x is %s; it must be u8 or f32: convert with haul_cast",
                          haul_dtype_name(x->dtype));
    if (y->dtype != HAUL_I64 && y->dtype != HAUL_F32)
        return haul__fail(HAUL_DTYPE, NEW, "y",
                          "y is %s; it must be i64 (class indices) or f32: convert with haul_cast",
                          haul_dtype_name(y->dtype));
    return HAUL_OK;
}

/* Class indices tell how many classes there are: one more than the highest. */
static haul_status count_classes(const arrays *a, int *classes)
{
    int64_t highest = -1, label = 0;
    for (int64_t i = 0; i < a->y->count; i++) {
        haul_status status = copy_example(a->y, i, &label, sizeof label);
        if (status != HAUL_OK)
            return status;
        if (label < 0 || label >= INT32_MAX)
            return haul__fail(HAUL_INVALID_ARGUMENT, NEW, "y", "label %lld of example %lld is not a class index",
                              (long long)label, (long long)i);
        highest = label > highest ? label : highest;
    }
    *classes = (int)(highest + 1);
    return HAUL_OK;
}

static haul_shape without_first(const haul_shape *shape)
{
    haul_shape rest = {.ndim = shape->ndim - 1};
    memcpy(rest.dims, shape->dims + 1, (size_t)rest.ndim * sizeof *rest.dims);
    return rest;
}

static haul_status hold(arrays *a, haul_tensor *x, haul_tensor *y)
{
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    haul_tensor *dense_x = haul_contiguous(x), *dense_y = haul_contiguous(y);
    if (!haul__failed(dense_x) && !haul__failed(dense_y)) {
        a->x = haul__tensor_alias(dense_x);
        a->y = haul__tensor_alias(dense_y);
    }
    haul_scope_pop(scope);
    return haul__failed(a->x) ? haul_error_status() : haul__status_of(a->y);
}

haul_dataset *haul_dataset_from_tensors(haul_tensor *x, haul_tensor *y)
{
    if (check_pair(x, y))
        return NULL;
    arrays *a = haul__calloc(1, sizeof *a);
    if (!a) {
        haul__fail_memory(NEW, sizeof *a);
        return NULL;
    }
    haul_dataset_source source = {
        .spec = {.input = without_first(&x->shape),
                 .input_dtype = x->dtype,
                 .target = without_first(&y->shape),
                 .target_dtype = y->dtype},
        .count = x->shape.dims[0],
        .name = "tensors",
        .read = read_example,
        .close = close_arrays,
        .context = a,
    };
    haul_status status = hold(a, x, y);
    if (status == HAUL_OK && y->dtype == HAUL_I64 && y->shape.ndim == 1)
        status = count_classes(a, &source.spec.classes);
    if (status != HAUL_OK) {
        close_arrays(a);
        return NULL;
    }
    int64_t examples = source.count ? source.count : 1;
    a->x_bytes = (size_t)(x->count / examples) * haul__dtype_size(x->dtype);
    a->y_bytes = (size_t)(y->count / examples) * haul__dtype_size(y->dtype);
    return haul__dataset_make(&source, NULL, false, NEW);
}

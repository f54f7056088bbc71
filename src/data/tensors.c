/* Examples that are in memory already, as tensors on the CPU. */
#include <haul/ops.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "device/device.h"

#define NAMED "haul_dataset_from_named"
#define PAIR  "haul_dataset_from_tensors"

typedef struct arrays {
    int          count;
    haul_tensor *tensors[HAUL_MAX_FIELDS]; /* contiguous; holds references */
    size_t       bytes[HAUL_MAX_FIELDS];   /* of an example */
} arrays;

static haul_status copy_example(haul_tensor *t, int64_t index, void *out, size_t bytes)
{
    if (!bytes)
        return HAUL_OK;
    HAUL__ASSERT(t->contiguous && index >= 0);
    haul_status status = haul__host_before(t->storage, false, "haul_loader_next");
    if (status == HAUL_OK)
        memcpy(out,
               (const char *)t->storage->buffer.host + (size_t)t->offset * haul__dtype_size(t->dtype) +
                   (size_t)index * bytes,
               bytes);
    return status;
}

static haul_status read_example(void *context, haul_example *e)
{
    const arrays *a = context;
    HAUL__ASSERT(e->count == a->count);
    haul_status status = HAUL_OK;
    for (int i = 0; i < a->count && status == HAUL_OK; i++)
        status = copy_example(a->tensors[i], e->index, e->fields[i].data, a->bytes[i]);
    return status;
}

static void close_arrays(void *context)
{
    arrays *a = context;
    for (int i = 0; i < a->count; i++)
        haul__object_release(a->tensors[i]);
    haul__free(a);
}

static haul_status check_tensor(const haul_tensor *t, const char *name, const char *operation)
{
    char text[160];
    if (haul__check_tensor(operation, name, t))
        return haul_error_status();
    if (haul_tensor_device(t) != haul_cpu())
        return haul__fail(HAUL_DEVICE, operation, name,
                          "%s is %s; examples are read on the CPU: move it with haul_to(%s, "
                          "haul_cpu())",
                          name, haul__tensor_text(t, text, sizeof text), name);
    if (t->shape.ndim < 1)
        return haul__fail(HAUL_SHAPE, operation, name, "%s is 0-d; its first dimension counts the examples", name);
    return HAUL_OK;
}

static haul_status check_all(const haul_named_tensor *list, int count, const char *operation)
{
    for (int i = 0; i < count; i++) {
        const char *name = list[i].name ? list[i].name : "tensors";
        haul_status status = check_tensor(list[i].tensor, name, operation);
        if (status)
            return status;
        if (list[i].tensor->shape.dims[0] != list[0].tensor->shape.dims[0])
            return haul__fail(HAUL_SHAPE, operation, name,
                              "%s has %lld examples, %s has %lld; the first dimension counts them", list[0].name,
                              (long long)list[0].tensor->shape.dims[0], name, (long long)list[i].tensor->shape.dims[0]);
    }
    return HAUL_OK;
}

static haul_shape without_first(const haul_shape *shape)
{
    haul_shape rest = {.ndim = shape->ndim - 1};
    memcpy(rest.dims, shape->dims + 1, (size_t)rest.ndim * sizeof *rest.dims);
    return rest;
}

static haul_status hold(arrays *a, const haul_named_tensor *list, int count)
{
    haul_scope *scope = haul__scope_push(NULL);
    haul_status status = scope ? HAUL_OK : haul_error_status();
    for (int i = 0; i < count && status == HAUL_OK; i++) {
        haul_tensor *dense = haul_contiguous(list[i].tensor);
        a->tensors[i] = haul__failed(dense) ? NULL : haul__tensor_alias(dense);
        status = haul__status_of(a->tensors[i]);
        if (status == HAUL_OK)
            a->count = i + 1;
    }
    haul_scope_pop(scope);
    return status;
}

/* The number of classes follows from the class indices: one more than the highest. */
static haul_status count_classes(const arrays *a, int *classes)
{
    int64_t highest = -1, label = 0;
    for (int64_t i = 0; i < a->tensors[1]->count; i++) {
        haul_status status = copy_example(a->tensors[1], i, &label, sizeof label);
        if (status)
            return status;
        if (label < 0 || label >= INT32_MAX)
            return haul__fail(HAUL_INVALID_ARGUMENT, PAIR, "y", "label %lld of example %lld is not a class index",
                              (long long)label, (long long)i);
        highest = label > highest ? label : highest;
    }
    *classes = (int)(highest + 1);
    return HAUL_OK;
}

static haul_dataset *make(const haul_named_tensor *list, int count, bool labelled, const char *operation)
{
    if (check_all(list, count, operation))
        return NULL;
    arrays *a = haul__calloc(1, sizeof *a);
    if (!a) {
        haul__fail_memory(operation, sizeof *a);
        return NULL;
    }
    haul_dataset_source source = {.count = list[0].tensor->shape.dims[0],
                                  .name = "tensors",
                                  .read = read_example,
                                  .close = close_arrays,
                                  .context = a};
    haul_status         status = hold(a, list, count);
    HAUL__ASSERT(status || a->count == count);
    for (int i = 0; i < a->count; i++) {
        const haul_tensor *t = a->tensors[i];
        source.fields[i] = (haul_field){
            .name = list[i].name ? list[i].name : "", .dtype = t->dtype, .shape = without_first(&t->shape)};
        a->bytes[i] = (size_t)(t->count / (source.count ? source.count : 1)) * haul__dtype_size(t->dtype);
    }
    if (status == HAUL_OK && labelled)
        status = count_classes(a, &source.fields[1].classes);
    if (status == HAUL_OK)
        return haul__dataset_make(&source, HAUL__READ_EACH, operation);
    close_arrays(a);
    return NULL;
}

haul_dataset *haul_dataset_from_named(const haul_named_tensor *tensors, int count)
{
    if (tensors && count >= 1 && count <= HAUL_MAX_FIELDS)
        return make(tensors, count, false, NAMED);
    if (tensors)
        haul__fail(HAUL_INVALID_ARGUMENT, NAMED, "count", "%d tensors; from 1 to %d are possible", count,
                   HAUL_MAX_FIELDS);
    else
        haul__fail_null(NAMED, "tensors");
    return NULL;
}

haul_dataset *haul_dataset_from_tensors(haul_tensor *x, haul_tensor *y)
{
    if (haul__check_tensor(PAIR, "x", x) || haul__check_tensor(PAIR, "y", y))
        return NULL;
    const haul_named_tensor pair[] = {{.name = "x", .tensor = x}, {.name = "y", .tensor = y}};
    return make(pair, 2, y->dtype == HAUL_I64 && y->shape.ndim == 1, PAIR);
}

/* Datasets: a table of one function, with names and sizes checked once. */
#include "data/dataset.h"

#include <pthread.h>
#include <string.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/pool.h"
#include "core/shape.h"
#include "core/tensor.h"

#define READ_AHEAD_BYTES ((int64_t)512 << 20)
#define MAX_CLASSES      1000000

static void close_source(const haul_dataset_source *source)
{
    if (source->close)
        source->close(source->context);
}

static void destroy(void *object)
{
    haul_dataset *d = object;
    close_source(&d->source);
    for (int i = 0; d->class_names && i < d->source.spec.classes; i++)
        haul__free(d->class_names[i]);
    haul__free(d->class_names);
    haul__free(d->name);
    haul__free(d->inputs);
    haul__free(d->targets);
    haul__object_free(&d->object, sizeof *d);
}

const haul__class haul__dataset_class = {.name = "dataset", .destroy = destroy};

/* ---- reading all of it ---- */

/* The calling thread has no error recorded. A source that fails without a word gets one. */
static haul_status read_source(const haul_dataset *d, int64_t index, void *input, void *target)
{
    haul_status status = d->source.read(d->source.context, index, input, target);
    if (status != HAUL_OK && haul_error_status() == HAUL_OK)
        haul__fail(status, "haul_loader_next", "dataset", "example %lld of %s could not be read", (long long)index,
                   d->name);
    return status;
}

typedef struct ahead {
    haul_dataset      *dataset;
    pthread_mutex_t    lock;
    int64_t            failed; /* the first example that could not be read; -1 */
    haul__error_record error;
} ahead;

/* Errors belong to threads: those of pool threads are carried to the caller. */
static void read_range(void *context, int64_t first, int64_t last)
{
    ahead             *a = context;
    haul_dataset      *d = a->dataset;
    haul__error_record before;
    haul__error_save(&before);
    for (int64_t i = first; i < last; i++) {
        haul_error_clear();
        if (read_source(d, i, d->inputs + (size_t)i * d->input_bytes, d->targets + (size_t)i * d->target_bytes) ==
            HAUL_OK)
            continue;
        pthread_mutex_lock(&a->lock);
        if (a->failed < 0 || i < a->failed) {
            a->failed = i;
            haul__error_save(&a->error);
        }
        pthread_mutex_unlock(&a->lock);
        break;
    }
    haul__error_restore(&before);
}

static haul_status read_all(haul_dataset *d, const char *operation)
{
    ahead   a = {.dataset = d, .failed = -1};
    int64_t inputs, targets, all;
    if (!haul__mul_size(d->source.count, (int64_t)d->input_bytes, &inputs) ||
        !haul__mul_size(d->source.count, (int64_t)d->target_bytes, &targets) ||
        !haul__add_size(inputs, targets, &all) || all > READ_AHEAD_BYTES)
        return HAUL_OK;
    uint8_t *x = haul__malloc((size_t)inputs), *y = haul__malloc((size_t)targets);
    if (!x || !y || pthread_mutex_init(&a.lock, NULL) != 0) {
        haul__free(x);
        haul__free(y);
        return haul__fail_memory(operation, (size_t)all);
    }
    d->inputs = x;
    d->targets = y;
    haul__parallel_for(d->source.count, 64, read_range, &a);
    pthread_mutex_destroy(&a.lock);
    if (a.failed < 0)
        return HAUL_OK;
    haul__error_restore(&a.error);
    return a.error.status;
}

/* ---- making ---- */

static haul_status example_bytes(const haul_shape *shape, haul_dtype dtype, const char *operation, int64_t *count,
                                 size_t *bytes)
{
    haul_status status = haul__shape_count(shape, operation, count);
    if (status != HAUL_OK)
        return status;
    if (shape->ndim >= HAUL_MAX_DIMS)
        return haul__fail(HAUL_SHAPE, operation, "spec", "an example has at most %d dimensions: a batch adds one",
                          HAUL_MAX_DIMS - 1);
    *bytes = (size_t)*count * haul__dtype_size(dtype);
    return HAUL_OK;
}

static haul_status check_source(const haul_dataset_source *source, const char *operation)
{
    const haul_example_spec *spec = &source->spec;
    if (!source->read)
        return haul__fail_null(operation, "read");
    if (source->count < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "count", "%lld examples", (long long)source->count);
    if (spec->input_dtype != HAUL_U8 && spec->input_dtype != HAUL_F32)
        return haul__fail(HAUL_DTYPE, operation, "spec", "inputs are u8 or f32, not %s",
                          haul_dtype_name(spec->input_dtype));
    if (spec->target_dtype != HAUL_I64 && spec->target_dtype != HAUL_F32)
        return haul__fail(HAUL_DTYPE, operation, "spec", "targets are i64 or f32, not %s",
                          haul_dtype_name(spec->target_dtype));
    if (spec->classes < 0 || spec->classes > MAX_CLASSES)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "spec", "%d classes; from 0 to %d are possible",
                          spec->classes, MAX_CLASSES);
    return HAUL_OK;
}

static haul_status copy_names(haul_dataset *d, const char *const *class_names, const char *operation)
{
    int classes = d->source.spec.classes;
    d->name = haul__strdup(d->source.name ? d->source.name : "dataset");
    d->class_names = haul__calloc((size_t)classes + 1, sizeof *d->class_names);
    if (!d->name || !d->class_names)
        return haul__fail_memory(operation, (size_t)classes * sizeof *d->class_names);
    for (int i = 0; i < classes; i++)
        if (!(d->class_names[i] = class_names ? haul__strdup(class_names[i]) : haul__format("%d", i)))
            return haul__fail_memory(operation, 16);
    d->source.name = d->name;
    return HAUL_OK;
}

haul_dataset *haul__dataset_make(const haul_dataset_source *source, const char *const *class_names, bool read_ahead,
                                 const char *operation)
{
    int64_t       target_count;
    haul_dataset *d = NULL;
    if (check_source(source, operation) == HAUL_OK && !(d = haul__object_new_zeroed(sizeof *d, &haul__dataset_class)))
        haul__fail_memory(operation, sizeof *d);
    if (!d) {
        close_source(source);
        return NULL;
    }
    d->source = *source;
    const haul_example_spec *spec = &d->source.spec;
    if (copy_names(d, class_names, operation) == HAUL_OK &&
        example_bytes(&spec->input, spec->input_dtype, operation, &d->input_count, &d->input_bytes) == HAUL_OK &&
        example_bytes(&spec->target, spec->target_dtype, operation, &target_count, &d->target_bytes) == HAUL_OK &&
        (!read_ahead || read_all(d, operation) == HAUL_OK))
        return haul__own(d, operation);
    haul__object_release(d);
    return NULL;
}

haul_dataset *haul_dataset_new(const haul_dataset_source *source)
{
    if (source)
        return haul__dataset_make(source, NULL, false, "haul_dataset_new");
    haul__fail_null("haul_dataset_new", "source");
    return NULL;
}

/* ---- using ---- */

haul_status haul__dataset_read(const haul_dataset *d, int64_t index, void *input, void *target)
{
    if (!d->inputs)
        return read_source(d, index, input, target);
    memcpy(input, d->inputs + (size_t)index * d->input_bytes, d->input_bytes);
    memcpy(target, d->targets + (size_t)index * d->target_bytes, d->target_bytes);
    return HAUL_OK;
}

int64_t haul_dataset_count(const haul_dataset *dataset)
{
    return haul__check_dataset(dataset, "haul_dataset_count") ? -1 : dataset->source.count;
}

haul_status haul_dataset_spec(const haul_dataset *dataset, haul_example_spec *out)
{
    if (haul__check_dataset(dataset, "haul_dataset_spec"))
        return haul_error_status();
    if (!out)
        return haul__fail_null("haul_dataset_spec", "out");
    *out = dataset->source.spec;
    return HAUL_OK;
}

const char *haul_dataset_class_name(const haul_dataset *dataset, int index)
{
    if (haul__check_dataset(dataset, "haul_dataset_class_name")) {
        return NULL;
    }
    return index >= 0 && index < dataset->source.spec.classes ? dataset->class_names[index] : NULL;
}

const char *haul_dataset_name(const haul_dataset *dataset)
{
    return haul__check_dataset(dataset, "haul_dataset_name") ? NULL : dataset->name;
}

/* Rows of mapped arrays as examples, and npy files as datasets. */
#include "data/arrays.h"

#include <haul/files.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/object.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "host_access/view.h"

#define NPY "haul_npy_dataset"

/* ---- examples ---- */

/* The shard that contains example `index`. */
static const haul__shard *find_shard(const haul__arrays *a, int64_t index)
{
    HAUL__ASSERT(a->count > 0 && index >= 0);
    size_t low = 0, high = a->count - 1;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        if (a->shards[middle].first <= index)
            low = middle;
        else
            high = middle - 1;
    }
    while (index >= a->shards[low].first + a->shards[low].rows)
        low++; /* an empty shard begins where the next one does */
    HAUL__ASSERT(low < a->count && a->shards[low].first <= index);
    return &a->shards[low];
}

static void read_array(const haul__array *array, const haul_field *field, int64_t row, size_t bytes, uint8_t *out)
{
    HAUL__ASSERT(array->data && row >= 0 && bytes % haul__dtype_size(field->dtype) == 0);
    memcpy(out, array->data + (size_t)row * bytes, bytes);
    if (array->big_endian) {
        haul__npy head = {.dtype = field->dtype, .bytes = bytes, .big_endian = true};
        head.count = (int64_t)(bytes / haul__dtype_size(field->dtype));
        haul__npy_decode(&head, out, out);
    }
}

static haul_status read_row(void *context, haul_example *e)
{
    const haul__arrays *a = context;
    const haul__shard  *shard = find_shard(a, e->index);
    HAUL__ASSERT(e->count == a->field_count && e->index - shard->first < shard->rows);
    for (int f = 0; f < a->field_count; f++)
        if (a->bytes[f])
            read_array(&shard->arrays[f], &a->fields[f], e->index - shard->first, a->bytes[f], e->fields[f].data);
    return HAUL_OK;
}

/* ---- building ---- */

haul__arrays *haul__arrays_new(const char *name, const char *operation)
{
    haul__arrays *a = haul__calloc(1, sizeof *a);
    if (a && (a->name = haul__strdup(name)))
        return a;
    haul__free(a);
    haul__fail_memory(operation, sizeof *a);
    return NULL;
}

void haul__arrays_free(haul__arrays *a)
{
    for (size_t s = 0; s < a->count; s++) {
        for (int f = 0; f < a->field_count; f++)
            haul__object_release(a->shards[s].arrays[f].mapping);
        haul__free(a->shards[s].arrays);
    }
    for (int f = 0; f < a->field_count; f++)
        haul__free((char *)a->fields[f].name);
    haul__free(a->shards);
    haul__free(a->name);
    haul__free(a);
}

static haul_shape without_first(const haul_shape *shape)
{
    HAUL__ASSERT(0 < shape->ndim && shape->ndim <= HAUL_MAX_DIMS);
    haul_shape rest = {.ndim = shape->ndim - 1};
    memcpy(rest.dims, shape->dims + 1, (size_t)rest.ndim * sizeof *rest.dims);
    return rest;
}

haul_status haul__arrays_add_field(haul__arrays *a, const char *name, size_t length, haul_dtype dtype,
                                   const haul_shape *shape, const char *operation)
{
    int64_t count;
    HAUL__ASSERT(!a->count); /* no shard: it would have no array for the field */
    if (a->field_count == HAUL_MAX_FIELDS)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "fields", "%s has more than %d fields", a->name,
                          HAUL_MAX_FIELDS);
    if (shape->ndim < 1)
        return haul__fail(HAUL_SHAPE, operation, "fields", "%.*s in %s is 0-d; the first dimension counts the examples",
                          (int)length, name, a->name);
    haul_field  field = {.dtype = dtype, .shape = without_first(shape)};
    haul_status status = haul__shape_count(&field.shape, operation, &count);
    if (status)
        return status;
    if (!(field.name = haul__format("%.*s", (int)length, name)))
        return haul__fail_memory(operation, length);
    a->bytes[a->field_count] = (size_t)count * haul__dtype_size(dtype);
    a->fields[a->field_count++] = field;
    return HAUL_OK;
}

haul_status haul__arrays_check_field(const haul__arrays *a, int f, haul_dtype dtype, const haul_shape *shape,
                                     const char *path, const char *operation)
{
    HAUL__ASSERT(0 <= f && f < a->field_count);
    char       text[2][80];
    haul_shape rest = {0};
    if (shape->ndim >= 1) {
        rest = without_first(shape);
        if (haul__field_fits(&a->fields[f], dtype, &rest))
            return HAUL_OK;
    }
    return haul__fail(HAUL_FORMAT, operation, "path",
                      "%s of an example is %s%s in %s, and %s%s in the files before it; all files must agree",
                      a->fields[f].name, haul_dtype_name(dtype), haul__shape_text(&rest, text[0], 80), path,
                      haul_dtype_name(a->fields[f].dtype), haul__shape_text(&a->fields[f].shape, text[1], 80));
}

haul__shard *haul__arrays_add_shard(haul__arrays *a, int64_t rows, const char *operation)
{
    HAUL__ASSERT(rows >= 0);
    int64_t first = a->count ? a->shards[a->count - 1].first + a->shards[a->count - 1].rows : 0, end;
    if (!haul__add_size(first, rows, &end)) {
        haul__fail(HAUL_FORMAT, operation, "path", "%s has more examples than can be counted", a->name);
        return NULL;
    }
    haul__array *arrays = haul__calloc((size_t)a->field_count + 1, sizeof *arrays);
    if (!arrays || !haul__grow(&a->shards, &a->capacity, a->count + 1, sizeof *a->shards)) {
        haul__free(arrays);
        haul__fail_memory(operation, sizeof *a->shards);
        return NULL;
    }
    HAUL__ASSERT(a->count < a->capacity);
    a->shards[a->count] = (haul__shard){.first = first, .rows = rows, .arrays = arrays};
    return &a->shards[a->count++];
}

static void close_arrays(void *context)
{
    haul__arrays_free(context);
}

haul_dataset *haul__arrays_dataset(haul__arrays *a, const char *operation)
{
    const haul__shard  *last = a->count ? &a->shards[a->count - 1] : NULL;
    haul_dataset_source source = {
        .count = last ? last->first + last->rows : 0,
        .name = a->name,
        .read = read_row,
        .close = close_arrays,
        .context = a,
    };
    memcpy(source.fields, a->fields, sizeof source.fields);
    return haul__dataset_make(&source, HAUL__READ_EACH, operation);
}

/* ---- npy files ---- */

haul_status haul__array_open_npy(haul__array *array, const char *path, haul__npy *head, const char *operation)
{
    haul__file  file;
    uint8_t     start[HAUL__NPY_HEAD_LIMIT];
    haul_status status = haul__file_open(&file, path, operation);
    *head = (haul__npy){0};
    if (status)
        return status;
    size_t size = file.size < sizeof start ? (size_t)file.size : sizeof start;
    if ((status = haul__file_read(&file, 0, start, size)) == HAUL_OK)
        status = haul__npy_parse(start, size, file.size, path, head) ? haul__fail_within(operation) : HAUL_OK;
    if (status == HAUL_OK && head->fortran && head->shape.ndim > 1)
        status = haul__fail(HAUL_UNSUPPORTED, operation, "path",
                            "%s is in Fortran order, where the elements of an example are not contiguous; save "
                            "numpy.ascontiguousarray(...) instead",
                            path);
    if (status == HAUL_OK && head->bytes) {
        array->mapping = haul__file_map_readonly(&file);
        status = array->mapping ? HAUL_OK : haul_error_status();
    }
    if (status == HAUL_OK && head->bytes)
        array->data = haul__mapping_at(array->mapping, head->offset);
    array->big_endian = head->big_endian;
    haul__file_close(&file);
    return status;
}

static haul_status add_file(haul__arrays *a, haul__array *arrays, const haul_text_pair *file, int64_t *rows)
{
    haul__npy head;
    int       f = a->field_count;
    if (!file->key || !file->value)
        return haul__fail_null(NPY, file->key ? "path" : "name");
    HAUL__ASSERT(f < HAUL_MAX_FIELDS && !arrays[f].mapping);
    haul_status status = haul__array_open_npy(&arrays[f], file->value, &head, NPY);
    if (status == HAUL_OK)
        status = haul__arrays_add_field(a, file->key, strlen(file->key), head.dtype, &head.shape, NPY);
    if (status == HAUL_OK && f && head.shape.dims[0] != *rows)
        status = haul__fail(HAUL_SHAPE, NPY, "path", "%s has %lld examples, and the files before it have %lld",
                            file->value, (long long)head.shape.dims[0], (long long)*rows);
    if (a->field_count == f) { /* not freed with the fields */
        haul__object_release(arrays[f].mapping);
        arrays[f].mapping = NULL;
    } else if (status == HAUL_OK) {
        *rows = head.shape.dims[0];
    }
    return status;
}

haul_dataset *haul_npy_dataset_list(const haul_text_pair *files, int count)
{
    haul__array arrays[HAUL_MAX_FIELDS] = {{0}};
    int64_t     rows = 0;
    if (!files || count < 1 || count > HAUL_MAX_FIELDS) {
        haul__fail(HAUL_INVALID_ARGUMENT, NPY, "files", "%d files; from 1 to %d are possible", files ? count : 0,
                   HAUL_MAX_FIELDS);
        return NULL;
    }
    haul__arrays *a = haul__arrays_new("npy files", NPY);
    haul_status   status = a ? HAUL_OK : haul_error_status();
    for (int i = 0; i < count && status == HAUL_OK; i++)
        status = add_file(a, arrays, &files[i], &rows);
    haul__shard *shard = status == HAUL_OK ? haul__arrays_add_shard(a, rows, NPY) : NULL;
    if (shard) {
        HAUL__ASSERT(a->field_count == count);
        memcpy(shard->arrays, arrays, (size_t)a->field_count * sizeof *arrays);
        return haul__arrays_dataset(a, NPY);
    }
    for (int f = 0; a && f < a->field_count; f++)
        haul__object_release(arrays[f].mapping);
    if (a)
        haul__arrays_free(a);
    return NULL;
}

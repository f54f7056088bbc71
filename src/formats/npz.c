/* NumPy's npz files: zip archives with an npy file for each array, whose name is the array's and ".npy". */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/ascii.h"
#include "base/text/quoted.h"
#include "base/text/utf8.h"
#include "core/error.h"
#include "core/tensor.h"
#include "formats/file_type.h"
#include "formats/npy.h"
#include "formats/tensor_file.h"
#include "formats/zip.h"
#include "host_access/view.h"

#define OPEN   HAUL__OPEN_TENSORS
#define SAVE   "haul_save_npz"
#define ENDING ".npy"

/* ---- reading ---- */

/* Makes the recorded error the reason why this array cannot be loaded. */
static haul_status keep_fault(haul__safetensors_entry *e)
{
    haul__error_record why;
    haul__error_save(&why);
    if (why.status == HAUL_OUT_OF_MEMORY || why.status == HAUL_IO || why.status == HAUL_UNSUPPORTED)
        return why.status;
    HAUL__ASSERT(why.status != HAUL_OK && !e->fault);
    haul_error_clear();
    const char *text = strstr(why.message, ": ");
    e->dtype = HAUL_DTYPE_NONE;
    e->bits = 0;
    e->fault = haul__strdup(text ? text + 2 : why.message);
    e->dtype_name = haul__strdup("?");
    return e->fault && e->dtype_name ? HAUL_OK : haul__fail_memory(OPEN, sizeof why.message);
}

/* The strides of an array whose first index is fastest. */
static haul_status make_strides(haul__safetensors_entry *e)
{
    int64_t stride = 1;
    HAUL__ASSERT(!e->strides);
    if (!(e->strides = haul__calloc(HAUL_MAX_DIMS, sizeof *e->strides)))
        return haul__fail_memory(OPEN, HAUL_MAX_DIMS * sizeof *e->strides);
    for (int d = 0; d < e->shape.ndim; d++) {
        e->strides[d] = stride;
        stride *= e->shape.dims[d];
    }
    return HAUL_OK;
}

static haul_status take_head(const haul__npy *head, haul__safetensors_entry *e)
{
    e->dtype = head->dtype;
    e->bits = haul_dtype_bits(head->dtype);
    e->shape = head->shape;
    e->begin = head->offset;
    e->end = head->offset + head->bytes;
    e->big_endian = head->big_endian;
    e->checked = true;
    HAUL__ASSERT(e->end <= e->member->size);
    if (!(e->dtype_name = haul__strdup(haul__safetensors_dtype_name(head->dtype))))
        return haul__fail_memory(OPEN, 8);
    return head->fortran && head->count && head->shape.ndim > 1 ? make_strides(e) : HAUL_OK;
}

static haul_status read_array(const haul__file *file, const haul__zip_member *member, uint8_t *start,
                              haul__safetensors_entry *e)
{
    const size_t length = strlen(member->name) - strlen(ENDING);
    HAUL__ASSERT(haul__ends_with(member->name, ENDING));
    const size_t size = member->size < HAUL__NPY_HEAD_LIMIT ? (size_t)member->size : HAUL__NPY_HEAD_LIMIT;
    haul__npy    head;
    e->member = member;
    e->end = member->size;
    if (!(e->name = haul__format("%.*s", (int)length, member->name)))
        return haul__fail_memory(OPEN, length);
    if (haul__zip_read(file, member, 0, start, size) || haul__npy_parse(start, size, member->size, "it", &head))
        return keep_fault(e);
    return take_head(&head, e);
}

static haul_status read_arrays(haul_safetensors *f, uint8_t *start)
{
    haul__safetensors_header *h = &f->header;
    haul_status               status = HAUL_OK;
    h->format = "npz";
    if (!(h->entries = haul__calloc(f->zip.count + 1, sizeof *h->entries)))
        return haul__fail_memory(OPEN, f->zip.count * sizeof *h->entries);
    for (size_t i = 0; i < f->zip.count && status == HAUL_OK; i++)
        if (haul__ends_with(f->zip.members[i].name, ENDING))
            status = read_array(&f->parts->file, &f->zip.members[i], start, &h->entries[h->count++]);
    HAUL__ASSERT((size_t)h->count <= f->zip.count);
    return status == HAUL_OK ? haul__safetensors_sort(h, f->parts->path) : status;
}

haul_status haul__npz_open(haul_safetensors *f)
{
    uint8_t *start = haul__malloc(HAUL__NPY_HEAD_LIMIT);
    if (!start)
        return haul__fail_memory(OPEN, HAUL__NPY_HEAD_LIMIT);
    const haul_status status = read_arrays(f, start);
    haul__free(start);
    return status;
}

/* ---- writing ---- */

static int compare(const void *a, const void *b)
{
    return strcmp((*(const haul_named_tensor *const *)a)->name, (*(const haul_named_tensor *const *)b)->name);
}

static haul_status check_tensor(const haul_named_tensor *named)
{
    char quoted[HAUL__QUOTED_SIZE], head[HAUL__NPY_OWN_HEAD];
    if (!named->name)
        return haul__fail_null(SAVE, "name");
    if (haul__check_optional(SAVE, "tensors", named->tensor))
        return haul_error_status();
    const char *name = haul__quoted(named->name, quoted);
    if (haul__is_none(named->tensor))
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "tensors", "%s is not a valid tensor", name);
    if (strlen(named->name) > 60000 || !haul__is_utf8((const uint8_t *)named->name, strlen(named->name)))
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "tensors",
                          "a tensor cannot be named %s: names are UTF-8, of at most 60,000 bytes", name);
    if (!haul__npy_head(named->tensor, head, sizeof head))
        return haul__fail(HAUL_DTYPE, SAVE, "tensors",
                          "%s is %s, which npz files cannot hold; write haul_cast(t, HAUL_F32), or a safetensors file",
                          name, haul_dtype_name(named->tensor->dtype));
    return HAUL_OK;
}

static haul_status check_tensors(const haul_named_tensor *tensors, int count)
{
    char                      quoted[HAUL__QUOTED_SIZE];
    haul_status               status = HAUL_OK;
    const haul_named_tensor **order = haul__calloc((size_t)count + 1, sizeof *order);
    if (!order)
        return haul__fail_memory(SAVE, (size_t)count * sizeof *order);
    for (int i = 0; i < count && status == HAUL_OK; i++) {
        status = check_tensor(&tensors[i]);
        order[i] = &tensors[i];
    }
    if (status == HAUL_OK)
        qsort(order, (size_t)count, sizeof *order, compare);
    for (int i = 1; i < count && status == HAUL_OK; i++)
        if (strcmp(order[i - 1]->name, order[i]->name) == 0)
            status = haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "tensors", "two tensors are named %s",
                                haul__quoted(order[i]->name, quoted));
    haul__free(order);
    return status;
}

static haul_status put_tensor(haul__zip_writer *zip, const haul_named_tensor *named, bool compress)
{
    char            head[HAUL__NPY_OWN_HEAD];
    const size_t    size = haul__npy_head(named->tensor, head, sizeof head);
    char           *name = haul__format("%s" ENDING, named->name);
    haul__host_view view;
    HAUL__ASSERT(size > 0 && size <= sizeof head); /* its dtype was checked */
    if (!name)
        return haul__fail_memory(SAVE, strlen(named->name));
    haul_status status = haul__host_view_begin(&view, named->tensor, named->name, SAVE);
    if (status == HAUL_OK) {
        status = haul__zip_put(zip, name, compress, head, size, view.data, view.bytes);
        haul__host_view_end(&view);
    }
    haul__free(name);
    return status;
}

haul_status haul_save_npz(const char *path, const haul_named_tensor *tensors, int count, bool compress)
{
    if (!path || (!tensors && count))
        return haul__fail_null(SAVE, !path ? "path" : "tensors");
    if (count < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "count", "count is %d; 0 or more is expected", count);
    haul_status status = check_tensors(tensors, count);
    if (status)
        return status;
    haul__zip_writer zip = {.file = haul__writer_open(path, SAVE), .operation = SAVE, .limit = HAUL__ZIP_LIMIT};
    if (!zip.file)
        return haul_error_status();
    for (int i = 0; i < count && status == HAUL_OK; i++)
        status = put_tensor(&zip, &tensors[i], compress);
    HAUL__ASSERT(status || zip.count == (uint64_t)count);
    if (status == HAUL_OK)
        status = haul__zip_end(&zip);
    haul__free(zip.directory);
    if (status == HAUL_OK)
        return haul__writer_commit(zip.file);
    haul__writer_abandon(zip.file);
    return status;
}

/* Writes safetensors files: the tensors in order of falling element size, so that each is aligned, after a header
 * padded with spaces to a multiple of eight bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/quoted.h"
#include "base/text/utf8.h"
#include "core/error.h"
#include "core/tensor.h"
#include "files/file.h"
#include "formats/safetensors.h"
#include "host_access/view.h"

#define SAVE "haul_save_safetensors"

/* ---- the header's text ---- */

typedef struct text {
    char  *bytes;
    size_t size, capacity;
    bool   failed; /* memory is exhausted; later additions are ignored */
} text;

static void append(text *t, const char *bytes, size_t size)
{
    if (t->failed || !haul__grow(&t->bytes, &t->capacity, t->size + size, 1)) {
        t->failed = true;
        return;
    }
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
    HAUL__ASSERT(t->size <= t->capacity);
}

static void append_text(text *t, const char *bytes)
{
    append(t, bytes, strlen(bytes));
}

static void append_number(text *t, uint64_t number)
{
    char digits[24];
    append(t, digits, (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)number));
}

/* A JSON string. */
static void append_quoted(text *t, const char *string)
{
    append(t, "\"", 1);
    for (; *string; string++) {
        char escaped[8];
        if (*string == '"' || *string == '\\')
            append(t, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\%c", *string));
        else if ((unsigned char)*string < ' ')
            append(t, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)*string));
        else
            append(t, string, 1);
    }
    append(t, "\"", 1);
}

static void append_metadata(text *t, const haul_text_pair *metadata, int count)
{
    append_quoted(t, HAUL__SAFETENSORS_METADATA);
    append(t, ":{", 2);
    for (int i = 0; i < count; i++) {
        if (i)
            append(t, ",", 1);
        append_quoted(t, metadata[i].key);
        append(t, ":", 1);
        append_quoted(t, metadata[i].value);
    }
    append(t, "}", 1);
}

static void append_tensor(text *t, const haul_named_tensor *named, uint64_t begin)
{
    haul_shape shape = haul_tensor_shape(named->tensor);
    append_quoted(t, named->name);
    HAUL__ASSERT(haul__safetensors_dtype_name(haul_tensor_dtype(named->tensor)));
    append_text(t, ":{\"dtype\":");
    append_quoted(t, haul__safetensors_dtype_name(haul_tensor_dtype(named->tensor)));
    append_text(t, ",\"shape\":[");
    for (int d = 0; d < shape.ndim; d++) {
        if (d)
            append(t, ",", 1);
        append_number(t, (uint64_t)shape.dims[d]);
    }
    append_text(t, "],\"data_offsets\":[");
    append_number(t, begin);
    append(t, ",", 1);
    append_number(t, begin + haul_tensor_bytes(named->tensor));
    append_text(t, "]}");
}

static haul_status write_header(text *t, const haul_named_tensor *const *order, int count,
                                const haul_text_pair *metadata, int metadata_count)
{
    uint64_t offset = 0;
    append(t, "\0\0\0\0\0\0\0\0{", 9); /* room for the length */
    if (metadata_count)
        append_metadata(t, metadata, metadata_count);
    for (int i = 0; i < count; i++) {
        if (i || metadata_count)
            append(t, ",", 1);
        HAUL__ASSERT(offset % haul__dtype_size(order[i]->tensor->dtype) == 0); /* larger elements are before it */
        append_tensor(t, order[i], offset);
        offset += haul_tensor_bytes(order[i]->tensor);
    }
    append(t, "}", 1);
    while (!t->failed && t->size % 8)
        append(t, " ", 1);
    if (t->failed)
        return haul__fail_memory(SAVE, t->capacity);
    if (t->size - 8 > HAUL__SAFETENSORS_HEADER_LIMIT)
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "tensors",
                          "names and metadata need more than the 100 MB that "
                          "the format allows");
    HAUL__ASSERT(t->size % 8 == 0);
    for (int i = 0; i < 8; i++)
        t->bytes[i] = (char)((uint64_t)(t->size - 8) >> (8 * i) & 255);
    return HAUL_OK;
}

/* ---- checks ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const haul_named_tensor *const *)a)->name, (*(const haul_named_tensor *const *)b)->name);
}

/* Large elements first; among equals the given order (pointers into one array). */
static int compare_sizes(const void *a, const void *b)
{
    const haul_named_tensor *x = *(const haul_named_tensor *const *)a, *y = *(const haul_named_tensor *const *)b;
    size_t                   p = haul__dtype_size(x->tensor->dtype), q = haul__dtype_size(y->tensor->dtype);
    return p != q ? (p < q) - (p > q) : (x > y) - (x < y);
}

static haul_status check_tensor(const haul_named_tensor *named)
{
    char quoted[HAUL__QUOTED_SIZE];
    if (!named->name)
        return haul__fail_null(SAVE, "name");
    if (haul__check_optional(SAVE, "tensors", named->tensor))
        return haul_error_status();
    if (haul__is_none(named->tensor))
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "tensors", "%s is not a valid tensor",
                          haul__quoted(named->name, quoted));
    if (strcmp(named->name, HAUL__SAFETENSORS_METADATA) == 0 ||
        !haul__is_utf8((const uint8_t *)named->name, strlen(named->name)))
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "tensors",
                          "a tensor cannot be named %s: names are UTF-8, and " HAUL__SAFETENSORS_METADATA " is taken",
                          haul__quoted(named->name, quoted));
    if (!haul__safetensors_dtype_name(haul_tensor_dtype(named->tensor)))
        return haul__fail(HAUL_DTYPE, SAVE, "tensors", "the format has no name for the dtype of %s",
                          haul__quoted(named->name, quoted));
    return HAUL_OK;
}

static haul_status check_metadata(const haul_text_pair *metadata, int count)
{
    char quoted[HAUL__QUOTED_SIZE];
    for (int i = 0; i < count; i++) {
        if (!metadata[i].key || !metadata[i].value)
            return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "metadata", "metadata[%d] has no %s", i,
                              metadata[i].key ? "value" : "key");
        if (!haul__is_utf8((const uint8_t *)metadata[i].key, strlen(metadata[i].key)) ||
            !haul__is_utf8((const uint8_t *)metadata[i].value, strlen(metadata[i].value)))
            return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "metadata", "%s is not UTF-8",
                              haul__quoted(metadata[i].key, quoted));
        for (int k = 0; k < i; k++)
            if (strcmp(metadata[k].key, metadata[i].key) == 0)
                return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "metadata", "%s is given twice",
                                  haul__quoted(metadata[i].key, quoted));
    }
    return HAUL_OK;
}

/* `order` becomes the order in which tensors are written. */
static haul_status arrange(const haul_named_tensor *tensors, int count, const haul_named_tensor **order)
{
    char quoted[HAUL__QUOTED_SIZE];
    for (int i = 0; i < count; i++) {
        haul_status status = check_tensor(&tensors[i]);
        if (status)
            return status;
        order[i] = &tensors[i];
    }
    qsort(order, (size_t)count, sizeof *order, compare_names);
    for (int i = 1; i < count; i++)
        if (strcmp(order[i - 1]->name, order[i]->name) == 0)
            return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "tensors", "two tensors are named %s",
                              haul__quoted(order[i]->name, quoted));
    qsort(order, (size_t)count, sizeof *order, compare_sizes);
    return HAUL_OK;
}

/* ---- the file ---- */

static haul_status put_tensor(haul__writer *writer, const haul_named_tensor *t)
{
    haul__host_view view;
    haul_status     status = haul__host_view_begin(&view, t->tensor, t->name, SAVE);
    if (status)
        return status;
    HAUL__ASSERT(view.bytes == haul_tensor_bytes(t->tensor)); /* as its range in the header */
    status = haul__writer_put(writer, view.data, view.bytes);
    haul__host_view_end(&view);
    return status;
}

static haul_status put_file(const char *path, const text *header, const haul_named_tensor *const *order, int count)
{
    haul__writer *writer = haul__writer_open(path, SAVE);
    if (!writer)
        return haul_error_status();
    haul_status status = haul__writer_put(writer, header->bytes, header->size);
    for (int i = 0; i < count && status == HAUL_OK; i++)
        status = put_tensor(writer, order[i]);
    if (status == HAUL_OK)
        return haul__writer_commit(writer);
    haul__writer_abandon(writer);
    return status;
}

haul_status haul_save_safetensors(const char *path, const haul_named_tensor *tensors, int count,
                                  const haul_text_pair *metadata, int metadata_count)
{
    if (!path || (!tensors && count) || (!metadata && metadata_count))
        return haul__fail_null(SAVE, !path ? "path" : !tensors && count ? "tensors" : "metadata");
    if (count < 0 || metadata_count < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, count < 0 ? "count" : "metadata_count",
                          "%s is %d; 0 or more is expected", count < 0 ? "count" : "metadata_count",
                          count < 0 ? count : metadata_count);
    text                      header = {0};
    const haul_named_tensor **order = haul__calloc((size_t)count + 1, sizeof *order);
    haul_status               status;
    if (!order)
        return haul__fail_memory(SAVE, (size_t)count * sizeof *order);
    if ((status = arrange(tensors, count, order)) == HAUL_OK &&
        (status = check_metadata(metadata, metadata_count)) == HAUL_OK &&
        (status = write_header(&header, order, count, metadata, metadata_count)) == HAUL_OK)
        status = put_file(path, &header, order, count);
    haul__free(header.bytes);
    haul__free(order);
    return status;
}

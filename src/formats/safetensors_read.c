/* Open files of tensors: a tensor is read on request, or used in place if the file is mapped. */
#include <haul/transfer.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/bools.h"
#include "base/text/ascii.h"
#include "base/text/quoted.h"
#include "core/error.h"
#include "core/object.h"
#include "core/tensor.h"
#include "device/device.h"
#include "files/file.h"
#include "formats/deflate.h"
#include "formats/file_type.h"
#include "formats/safetensors.h"
#include "formats/tensor_file.h"
#include "host_access/view.h"

#define OPEN HAUL__OPEN_TENSORS
#define LOAD "haul_safetensors_load"

static void destroy(void *object)
{
    haul_safetensors *file = object;
    haul__safetensors_free(&file->header);
    haul__zip_free(&file->zip);
    for (int i = 0; i < file->part_count; i++) {
        haul__object_release(file->parts[i].mapping);
        haul__file_close(&file->parts[i].file);
        haul__free(file->parts[i].path);
    }
    haul__free(file->parts);
    haul__object_free(&file->object, sizeof *file);
}

static const haul__class class = {.name = "safetensors file", .destroy = destroy};

static haul_status check_file(const haul_safetensors *file, const char *operation)
{
    return haul__check_object(file, &class, operation, "file");
}

static haul_status read_header(const haul__file *file, haul__safetensors_header *out, uint64_t *data)
{
    uint8_t     first[8], *json = NULL;
    size_t      length;
    haul_status status;
    if (file->size < 8)
        return haul__fail(HAUL_FORMAT, OPEN, "path",
                          "%s is not a valid safetensors file: it is shorter than eight bytes", file->path);
    if ((status = haul__file_read(file, 0, first, 8)) ||
        (status = haul__safetensors_length(first, file->size, file->path, &length)))
        return status;
    HAUL__ASSERT(length <= file->size - 8);
    if (!(json = haul__malloc(length)))
        return haul__fail_memory(OPEN, length);
    *data = 8 + (uint64_t)length;
    if ((status = haul__file_read(file, 8, json, length)) == HAUL_OK)
        status = haul__safetensors_parse(json, length, file->size - *data, file->path, out);
    haul__free(json);
    return status;
}

/* Names the type of a file whose header is not one, if the type is known. */
static haul_status name_type(const haul__file *file)
{
    uint8_t            head[HAUL__FILE_HEAD];
    const size_t       size = file->size < sizeof head ? (size_t)file->size : sizeof head;
    haul__error_record before;
    haul__error_save(&before);
    const haul__file_type *type =
        haul__file_read(file, 0, head, size) == HAUL_OK ? haul__file_type_of(head, size) : NULL;
    haul__error_restore(&before);
    if (type != &haul__file_safetensors && type != &haul__file_npz && type != &haul__file_torch &&
        type != &haul__file_gguf)
        haul__refuse_file_type(type, OPEN, file->path, "a safetensors file");
    return haul_error_status();
}

haul_status haul__safetensors_read_header(const haul__file *file, haul__safetensors_header *out, uint64_t *data)
{
    const haul_status status = read_header(file, out, data);
    return status == HAUL_FORMAT ? name_type(file) : status;
}

/* NumPy writes an archive without members if there are no arrays. */
haul_status haul__archive_open(haul_safetensors *f)
{
    const haul__file *file = &f->parts->file;
    haul_status       status = haul__zip_open(&f->zip, file);
    bool              is_npz = !f->zip.count;
    for (size_t i = 0; i < f->zip.count && status == HAUL_OK; i++)
        is_npz = is_npz || haul__ends_with(f->zip.members[i].name, ".npy");
    if (status == HAUL_OK && haul__torch_pickle(&f->zip))
        return haul__torch_open(f);
    if (status == HAUL_OK && is_npz)
        return haul__npz_open(f);
    if (status == HAUL_OK)
        status = haul__fail(HAUL_FORMAT, OPEN, "path", "%s is a zip archive without arrays or weights", file->path);
    return status == HAUL_FORMAT ? name_type(file) : status;
}

/* The reader of a format whose files begin with these bytes. */
static const struct {
    const char *magic;
    size_t      length;
    haul_status (*open)(haul_safetensors *file);
} formats[] = {{"PK\3\4", 4, haul__archive_open}, {"PK\5\6", 4, haul__archive_open}, {"GGUF", 4, haul__gguf_open}};

static haul_status read_any_header(haul_safetensors *f)
{
    haul__tensor_part *part = f->parts;
    uint8_t            head[HAUL__FILE_HEAD] = {0};
    const size_t       size = part->file.size < sizeof head ? (size_t)part->file.size : sizeof head;
    const haul_status  status = haul__file_read(&part->file, 0, head, size);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (memcmp(head, formats[i].magic, formats[i].length) == 0)
            return formats[i].open(f);
    if (haul__file_type_of(head, size) == &haul__file_index ||
        (head[0] == '{' && haul__ends_with(part->path, ".index.json")))
        return haul__index_open(f);
    return haul__safetensors_read_header(&part->file, &f->header, &part->data);
}

static haul_status open_file(haul_safetensors *f, const haul_open_safetensors_options *options)
{
    if (!(f->parts = haul__calloc(1, sizeof *f->parts)))
        return haul__fail_memory(OPEN, sizeof *f->parts);
    f->part_count = 1;
    f->parts->file.fd = -1;
    if (!(f->parts->path = haul__strdup(options->path)))
        return haul__fail_memory(OPEN, strlen(options->path));
    haul_status status = haul__file_open(&f->parts->file, f->parts->path, OPEN);
    if (status == HAUL_OK)
        status = read_any_header(f);
    for (int i = 0; i < f->part_count && status == HAUL_OK && options->map; i++)
        if (f->parts[i].file.size && !(f->parts[i].mapping = haul__file_map(&f->parts[i].file)))
            status = haul_error_status();
    return status;
}

haul_safetensors *haul_open_safetensors_with(const haul_open_safetensors_options *options)
{
    if (!options || !options->path) {
        haul__fail_null(OPEN, options ? "path" : "options");
        return NULL;
    }
    haul_safetensors *f = haul__object_new_zeroed(sizeof *f, &class);
    if (!f) {
        haul__fail_memory(OPEN, sizeof *f);
        return NULL;
    }
    if (open_file(f, options) == HAUL_OK)
        return haul__own(f, OPEN);
    haul__object_release(f);
    return NULL;
}

const haul__safetensors_header *haul__safetensors_header_of(const haul_safetensors *file)
{
    return &file->header;
}

int haul_safetensors_count(const haul_safetensors *file)
{
    return check_file(file, "haul_safetensors_count") ? -1 : file->header.count;
}

/* The size of a tensor in the file; the elements of one with strides may have gaps. */
static uint64_t bytes_of(const haul__safetensors_entry *e)
{
    uint64_t bytes = (uint64_t)e->bits / 8;
    HAUL__ASSERT(e->begin <= e->end);
    if (!e->strides || e->bits % 8 || e->fault)
        return e->end - e->begin;
    for (int d = 0; d < e->shape.ndim; d++)
        bytes *= (uint64_t)e->shape.dims[d]; /* checked when the file was opened */
    return bytes;
}

haul_status haul_safetensors_entry(const haul_safetensors *file, int index, haul_file_tensor *out)
{
    if (check_file(file, "haul_safetensors_entry"))
        return haul_error_status();
    if (!out)
        return haul__fail_null("haul_safetensors_entry", "out");
    if (index < 0 || index >= file->header.count)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_safetensors_entry", "index",
                          "tensor %d does not exist; the file has %d", index, file->header.count);
    const haul__safetensors_entry *e = &file->header.entries[index];
    *out = (haul_file_tensor){.name = e->name,
                              .dtype = e->dtype,
                              .dtype_name = e->dtype_name,
                              .shape = e->shape,
                              .bytes = bytes_of(e),
                              .fault = e->fault};
    return HAUL_OK;
}

/* ---- loading ---- */

/* Where the file has its elements. */
static uint64_t place_of(const haul_safetensors *file, const haul__safetensors_entry *e)
{
    return (e->member ? e->member->data : file->parts[e->part].data) + e->begin;
}

/* True if a tensor on the current device may use the mapping. Truth values must be normalised first. */
static bool fits_in_place(const haul_safetensors *file, const haul__safetensors_entry *e)
{
    const haul__mapping *mapping = file->parts[e->part].mapping;
    if (!mapping || e->begin == e->end || e->dtype == HAUL_BOOL || haul__device_current(LOAD) != haul_cpu())
        return false;
    if (e->strides || e->big_endian || (e->member && e->member->deflated))
        return false;
    return (uintptr_t)haul__mapping_at(mapping, place_of(file, e)) % haul__dtype_size(e->dtype) == 0;
}

/* A tensor in the mapping, to which it holds a reference. */
static haul_tensor *load_in_place(haul_safetensors *file, const haul__safetensors_entry *e)
{
    haul__tensor_part *part = &file->parts[e->part];
    if (haul__file_check_size(&part->file)) {
        haul__fail_within(LOAD);
        return NULL;
    }
    HAUL__ASSERT(!e->strides && !e->big_endian && e->dtype != HAUL_BOOL); /* the bytes are the elements */
    haul__object_keep(part->mapping);
    return haul_wrap_host(e->dtype, e->shape, haul__mapping_at(part->mapping, place_of(file, e)), haul__object_release,
                          part->mapping);
}

static void swap_bytes(uint8_t *data, size_t bytes, size_t width)
{
    HAUL__ASSERT(width > 0 && bytes % width == 0);
    for (size_t i = 0; i < bytes; i += width, data += width)
        for (size_t a = 0, b = width - 1; a < b; a++, b--) {
            const uint8_t byte = data[a];
            data[a] = data[b];
            data[b] = byte;
        }
}

/* Walks through out, which is row-major, and follows in `in`. */
static void gather(const haul__safetensors_entry *e, const uint8_t *in, uint8_t *out, size_t bytes, size_t width)
{
    int64_t index[HAUL_MAX_DIMS] = {0}, from = 0;
    for (size_t i = 0; i < bytes; i += width) {
        HAUL__ASSERT(from >= 0 && ((size_t)from + 1) * width <= (size_t)(e->end - e->begin));
        memcpy(out + i, in + (size_t)from * width, width);
        for (int d = e->shape.ndim - 1; d >= 0; d--) {
            from += e->strides[d];
            if (++index[d] < e->shape.dims[d])
                break;
            from -= e->strides[d] * index[d];
            index[d] = 0;
        }
    }
}

void haul__entry_decode(const haul__safetensors_entry *e, uint8_t *in, uint8_t *out)
{
    const size_t width = haul__dtype_size(e->dtype), bytes = (size_t)bytes_of(e);
    HAUL__ASSERT(e->dtype != HAUL_DTYPE_NONE && !e->fault && (in != out || !e->strides));
    if (e->big_endian)
        swap_bytes(in, (size_t)(e->end - e->begin), width);
    if (e->strides)
        gather(e, in, out, bytes, width);
    if (e->dtype == HAUL_BOOL)
        haul__normalise_bools(out, bytes);
}

/* Adds bytes of a member to its checksum. */
static haul_status add_bytes(const haul__file *file, const haul__zip_member *m, uint64_t at, uint64_t size,
                             uint32_t *crc)
{
    enum { PIECE = 1 << 16 };
    uint8_t    *bytes = haul__malloc(size < PIECE ? (size_t)size : PIECE);
    haul_status status = bytes ? HAUL_OK : haul__fail_memory(LOAD, PIECE);
    for (uint64_t piece; size && status == HAUL_OK; at += piece, size -= piece) {
        piece = size < PIECE ? size : PIECE;
        status = haul__zip_read(file, m, at, bytes, (size_t)piece);
        if (status == HAUL_OK)
            *crc = haul__crc32(*crc, bytes, (size_t)piece);
    }
    haul__free(bytes);
    return status;
}

/* Compares the checksum of a member with its bytes, of which the elements are the most. */
static haul_status check_member(const haul__file *file, const haul__safetensors_entry *e, const void *elements)
{
    const haul__zip_member *m = e->member;
    char                    quoted[HAUL__QUOTED_SIZE];
    uint32_t                crc = 0;
    HAUL__ASSERT(e->begin <= e->end && e->end <= m->size);
    haul_status status = add_bytes(file, m, 0, e->begin, &crc);
    crc = haul__crc32(crc, elements, (size_t)(e->end - e->begin));
    if (status == HAUL_OK)
        status = add_bytes(file, m, e->end, m->size - e->end, &crc);
    if (status == HAUL_OK && crc != m->crc)
        status = haul__fail(HAUL_FORMAT, LOAD, "path", "%s is damaged: the checksum of %s is wrong", file->path,
                            haul__quoted(e->name, quoted));
    return status;
}

/* The part of the file that has the elements. */
static haul_status read_span(const haul_safetensors *file, const haul__safetensors_entry *e, void *out)
{
    const haul__file *f = &file->parts[e->part].file;
    const size_t      bytes = (size_t)(e->end - e->begin);
    HAUL__ASSERT(e->part < file->part_count);
    if (!e->member)
        return haul__file_read(f, place_of(file, e), out, bytes);
    const haul_status status = haul__zip_read(f, e->member, e->begin, out, bytes);
    return status == HAUL_OK && e->checked ? check_member(f, e, out) : status;
}

static haul_status read_elements(const haul_safetensors *file, const haul__safetensors_entry *e, uint8_t *out)
{
    const size_t bytes = (size_t)(e->end - e->begin);
    uint8_t     *in = e->strides ? haul__malloc(bytes) : out;
    HAUL__ASSERT(e->strides || bytes == bytes_of(e));
    if (!in)
        return haul__fail_memory(LOAD, bytes);
    const haul_status status = read_span(file, e, in);
    if (status == HAUL_OK)
        haul__entry_decode(e, in, out);
    if (in != out)
        haul__free(in);
    return status;
}

static haul_tensor *load_copy(haul_safetensors *file, const haul__safetensors_entry *e)
{
    haul__loading loading;
    if (haul__loading_begin(&loading, e->dtype, &e->shape, LOAD))
        return NULL;
    return haul__loading_end(&loading, read_elements(file, e, loading.memory));
}

static haul_status check_loadable(const haul_safetensors *file, const haul__safetensors_entry *e)
{
    char        quoted[HAUL__QUOTED_SIZE];
    const char *path = file->parts->path;
    if (e->fault)
        return haul__fail(e->dtype == HAUL_DTYPE_NONE ? HAUL_DTYPE : HAUL_SHAPE, LOAD, "name",
                          "%s holds %s, which cannot be read: %s", path, haul__quoted(e->name, quoted), e->fault);
    if (e->dtype == HAUL_DTYPE_NONE)
        return haul__fail(
            HAUL_DTYPE, LOAD, "name",
            "%s holds %s with the dtype %s, which cannot be read; write it with another one, such as F32 or I64", path,
            haul__quoted(e->name, quoted), e->dtype_name);
    return HAUL_OK;
}

haul_tensor *haul_safetensors_load(haul_safetensors *file, const char *name)
{
    char quoted[HAUL__QUOTED_SIZE];
    if (check_file(file, LOAD))
        return haul__failed_tensor();
    if (!name) {
        haul__fail_null(LOAD, "name");
        return haul__failed_tensor();
    }
    const haul__safetensors_entry *e = haul__safetensors_find(&file->header, name);
    if (!e) {
        haul__fail(HAUL_INVALID_ARGUMENT, LOAD, "name", "%s has no tensor %s", file->parts->path,
                   haul__quoted(name, quoted));
        return haul__failed_tensor();
    }
    if (check_loadable(file, e))
        return haul__failed_tensor();
    HAUL__ASSERT(!e->fault && e->dtype != HAUL_DTYPE_NONE);
    return haul__result_within(fits_in_place(file, e) ? load_in_place(file, e) : load_copy(file, e), LOAD);
}

bool haul__safetensors_in_place(const haul_safetensors *file, const haul_tensor *t)
{
    const void *context = t->storage->deleter_context;
    for (int i = 0; i < file->part_count; i++)
        if (file->parts[i].mapping && context == file->parts[i].mapping)
            return true;
    return false;
}

int haul_safetensors_metadata_count(const haul_safetensors *file)
{
    return check_file(file, "haul_safetensors_metadata_count") ? -1 : file->header.metadata_count;
}

haul_status haul_safetensors_metadata_entry(const haul_safetensors *file, int index, haul_text_pair *out)
{
    if (check_file(file, "haul_safetensors_metadata_entry"))
        return haul_error_status();
    if (!out)
        return haul__fail_null("haul_safetensors_metadata_entry", "out");
    if (index < 0 || index >= file->header.metadata_count)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_safetensors_metadata_entry", "index",
                          "text %d does not exist; the file has %d", index, file->header.metadata_count);
    *out = file->header.metadata[index];
    return HAUL_OK;
}

const char *haul_safetensors_metadata(const haul_safetensors *file, const char *key)
{
    if (check_file(file, "haul_safetensors_metadata"))
        return "";
    if (!key) {
        haul__fail_null("haul_safetensors_metadata", "key");
        return "";
    }
    const char *value = haul__safetensors_find_text(&file->header, key);
    return value ? value : "";
}

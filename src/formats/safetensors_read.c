/* Open safetensors files: a tensor is read on request, or used in place if the file is mapped. */
#include <haul/transfer.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bools.h"
#include "base/text/quoted.h"
#include "core/error.h"
#include "core/object.h"
#include "core/tensor.h"
#include "device/device.h"
#include "files/file.h"
#include "formats/file_type.h"
#include "formats/safetensors.h"
#include "host_access/view.h"

#define OPEN "haul_open_safetensors"
#define LOAD "haul_safetensors_load"

struct haul_safetensors {
    haul__object             object;
    haul__file               file;
    haul__mapping           *mapping; /* NULL: tensors are read */
    char                    *path;
    uint64_t                 data; /* where the data begins */
    haul__safetensors_header header;
};

static void destroy(void *object)
{
    haul_safetensors *file = object;
    haul__safetensors_free(&file->header);
    haul__object_release(file->mapping);
    haul__file_close(&file->file);
    haul__free(file->path);
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
    if (type != &haul__file_safetensors)
        haul__refuse_file_type(type, OPEN, file->path, "a safetensors file");
    return haul_error_status();
}

haul_status haul__safetensors_read_header(const haul__file *file, haul__safetensors_header *out, uint64_t *data)
{
    const haul_status status = read_header(file, out, data);
    return status == HAUL_FORMAT ? name_type(file) : status;
}

static haul_status open_file(haul_safetensors *f, const haul_open_safetensors_options *options)
{
    if (!(f->path = haul__strdup(options->path)))
        return haul__fail_memory(OPEN, strlen(options->path));
    haul_status status = haul__file_open(&f->file, f->path, OPEN);
    if (status == HAUL_OK)
        status = haul__safetensors_read_header(&f->file, &f->header, &f->data);
    if (status == HAUL_OK && options->map && !(f->mapping = haul__file_map(&f->file)))
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
    f->file.fd = -1;
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

haul_status haul_safetensors_entry(const haul_safetensors *file, int index, haul_file_tensor *out)
{
    if (check_file(file, "haul_safetensors_entry"))
        return haul_error_status();
    if (!out)
        return haul__fail_null("haul_safetensors_entry", "out");
    if (index < 0 || index >= file->header.count)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_safetensors_entry", "index",
                          "there is no tensor %d; there are %d", index, file->header.count);
    const haul__safetensors_entry *e = &file->header.entries[index];
    *out = (haul_file_tensor){
        .name = e->name, .dtype = e->dtype, .dtype_name = e->dtype_name, .shape = e->shape, .bytes = e->end - e->begin};
    return HAUL_OK;
}

/* True if a tensor on the current device may use the mapping. Truth values must be normalised first. */
static bool fits_in_place(const haul_safetensors *file, const haul__safetensors_entry *e)
{
    if (!file->mapping || e->begin == e->end || e->dtype == HAUL_BOOL || haul__device_current(LOAD) != haul_cpu())
        return false;
    return (uintptr_t)haul__mapping_at(file->mapping, file->data + e->begin) % haul__dtype_size(e->dtype) == 0;
}

/* A tensor in the mapping, to which it holds a reference. */
static haul_tensor *load_in_place(haul_safetensors *file, const haul__safetensors_entry *e)
{
    if (haul__file_check_size(&file->file)) {
        haul__fail_within(LOAD);
        return NULL;
    }
    haul__object_keep(file->mapping);
    return haul_wrap_host(e->dtype, e->shape, haul__mapping_at(file->mapping, file->data + e->begin),
                          haul__object_release, file->mapping);
}

static haul_tensor *load_copy(haul_safetensors *file, const haul__safetensors_entry *e)
{
    haul__loading loading;
    if (haul__loading_begin(&loading, e->dtype, &e->shape, LOAD))
        return NULL;
    haul_status status = haul__file_read(&file->file, file->data + e->begin, loading.memory, loading.bytes);
    if (status == HAUL_OK && e->dtype == HAUL_BOOL)
        haul__normalise_bools(loading.memory, loading.bytes);
    return haul__loading_end(&loading, status);
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
        haul__fail(HAUL_INVALID_ARGUMENT, LOAD, "name", "%s has no tensor %s", file->path, haul__quoted(name, quoted));
        return haul__failed_tensor();
    }
    if (e->dtype == HAUL_DTYPE_NONE) {
        haul__fail(HAUL_DTYPE, LOAD, "name",
                   "%s holds %s with the dtype %s, which cannot be read; write it with another one, such as F32 or I64",
                   file->path, haul__quoted(name, quoted), e->dtype_name);
        return haul__failed_tensor();
    }
    return haul__result_within(fits_in_place(file, e) ? load_in_place(file, e) : load_copy(file, e), LOAD);
}

bool haul__safetensors_in_place(const haul_safetensors *file, const haul_tensor *t)
{
    return file->mapping && t->storage->deleter_context == file->mapping;
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
                          "there is no text %d; there are %d", index, file->header.metadata_count);
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

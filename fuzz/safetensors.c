/* Fuzzing the safetensors reader: any bytes as a file. Its header is parsed, and every tensor is loaded, read and
 * mapped. */
#include <fcntl.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"
#include "core/tensor.h"
#include "formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a sound header promises. */
static void check(const haul__safetensors_header *header, uint64_t data_size)
{
    uint64_t sum = 0;
    for (int i = 0; i < header->count; i++) {
        const haul__safetensors_entry *e = &header->entries[i];
        if (e->begin > e->end || e->end > data_size || haul__safetensors_find(header, e->name) != e)
            abort();
        if (!e->dtype_name[0] || (e->dtype != HAUL_DTYPE_NONE && e->bits != haul_dtype_bits(e->dtype)))
            abort();
        sum += e->end - e->begin;
    }
    if (sum != data_size)
        abort();
}

static bool parse(const uint8_t *data, size_t size)
{
    haul__safetensors_header header;
    size_t                   length;
    if (size < 8 || haul__safetensors_length(data, size, "fuzz.safetensors", &length))
        return false;
    uint64_t data_size = size - 8 - length;
    if (haul__safetensors_parse(data + 8, length, data_size, "fuzz.safetensors", &header))
        return false;
    check(&header, data_size);
    haul__safetensors_free(&header);
    return true;
}

/* Loaded from the file opened both ways: the same bytes, or for a dtype that is not known the same error. */
static void load(haul_safetensors *read, haul_safetensors *mapped, const haul_file_tensor *entry)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *a = haul_safetensors_load(read, entry->name);
    haul_status  status = haul_error_status();
    haul_error_clear();
    haul_tensor *b = haul_safetensors_load(mapped, entry->name);
    if (haul_error_status() != status || status != (entry->dtype == HAUL_DTYPE_NONE ? HAUL_DTYPE
                                                    : entry->fault                  ? HAUL_SHAPE
                                                                                    : HAUL_OK))
        abort();
    haul_error_clear();
    if (status == HAUL_OK) {
        size_t bytes = haul_tensor_bytes(a);
        void  *x = malloc(bytes + 1), *y = malloc(bytes + 1);
        if (!x || !y || bytes != entry->bytes || haul_read(a, x, bytes) || haul_read(b, y, bytes) ||
            memcmp(x, y, bytes))
            abort();
        free(x);
        free(y);
    }
    haul_scope_pop(scope);
}

/* The bytes as a file without a name in any folder. */
static void open_and_load(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    haul_scope       *scope = haul_scope_push();
    haul_safetensors *read = haul_open_safetensors(path), *mapped = haul_open_safetensors(path, .map = true);
    if (!read || !mapped)
        abort();
    for (int i = 0; i < haul_safetensors_count(read); i++) {
        haul_file_tensor entry;
        if (haul_safetensors_entry(mapped, i, &entry))
            abort();
        load(read, mapped, &entry);
    }
    haul_scope_pop(scope);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    haul_error_clear();
    if (!parse(data, size))
        return 0;
    int fd = memfd_create("fuzz.safetensors", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    open_and_load(fd);
    close(fd);
    return 0;
}

#include "tensor_file.h"

#include <haul/haul.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "changes.h"
#include "formats/deflate.h"

/* ---- loading ---- */

/* A mapped member is not compared with its checksum. */
static void load(haul_safetensors *read, haul_safetensors *mapped, const haul_file_tensor *entry)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *a = haul_safetensors_load(read, entry->name), *b = haul_safetensors_load(mapped, entry->name);
    if (haul_tensor_is_valid(a) && (entry->fault || entry->dtype == HAUL_DTYPE_NONE))
        abort();
    if (haul_tensor_is_valid(a)) {
        const size_t bytes = haul_tensor_bytes(a);
        void        *x = malloc(bytes + 1), *y = malloc(bytes + 1);
        if (!haul_tensor_is_valid(b) || !x || !y || bytes != entry->bytes || haul_tensor_bytes(b) != bytes ||
            haul_read(a, x, bytes) || haul_read(b, y, bytes) || memcmp(x, y, bytes))
            abort();
        free(x);
        free(y);
    }
    haul_error_clear();
    haul_scope_pop(scope);
}

void load_tensors(const uint8_t *data, size_t size)
{
    char              path[PATH_SIZE];
    const int         fd = open_bytes(data, size, path);
    haul_scope       *scope = haul_scope_push();
    haul_safetensors *read = haul_open_safetensors(path);
    haul_safetensors *mapped = read ? haul_open_safetensors(path, .map = true) : NULL;
    if (read && !mapped)
        abort();
    for (int i = 0; read && i < haul_safetensors_count(read); i++) {
        haul_file_tensor entry;
        if (haul_safetensors_entry(mapped, i, &entry))
            abort();
        if (entry.bytes < 1 << 20)
            load(read, mapped, &entry);
    }
    haul_error_clear();
    haul_scope_pop(scope);
    close(fd);
}

/* ---- archives ---- */

static void put(archive *a, const void *data, size_t size)
{
    if (!(a->bytes = realloc(a->bytes, a->size + size + 1)))
        abort();
    if (size)
        memcpy(a->bytes + a->size, data, size);
    a->size += size;
}

static void put_number(archive *a, int bytes, uint64_t value)
{
    for (int i = 0; i < bytes; i++)
        put(a, &(uint8_t){(uint8_t)(value >> 8 * i)}, 1);
}

/* What the header of a stored member and its record in the directory have in common. */
static void put_sizes(archive *a, int m)
{
    put_number(a, 4, 0); /* flags, stored */
    put_number(a, 4, 0); /* time */
    put_number(a, 4, a->members[m].crc);
    put_number(a, 4, a->members[m].size);
    put_number(a, 4, a->members[m].size);
    put_number(a, 2, strlen(a->members[m].name));
    put_number(a, 2, 0); /* extra fields */
}

void put_member(archive *a, const char *name, const void *data, size_t size)
{
    const int m = a->count++;
    if (a->count > (int)(sizeof a->members / sizeof *a->members))
        abort();
    a->members[m].name = name;
    a->members[m].offset = a->size;
    a->members[m].size = size;
    a->members[m].crc = haul__crc32(0, data, size);
    put(a, "PK\3\4\24", 6);
    put_sizes(a, m);
    put(a, name, strlen(name));
    put(a, data, size);
}

void end_archive(archive *a)
{
    const size_t directory = a->size;
    for (int m = 0; m < a->count; m++) {
        put(a, "PK\1\2\24\0\24", 8);
        put_sizes(a, m);
        put_number(a, 2, 0); /* comment */
        put_number(a, 8, 0); /* disk, attributes */
        put_number(a, 4, a->members[m].offset);
        put(a, a->members[m].name, strlen(a->members[m].name));
    }
    const size_t size = a->size - directory;
    put(a, "PK\5\6\0\0\0", 8);
    put_number(a, 2, (uint64_t)a->count);
    put_number(a, 2, (uint64_t)a->count);
    put_number(a, 4, size);
    put_number(a, 4, directory);
    put_number(a, 2, 0);
}

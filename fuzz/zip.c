/* Fuzzing the reader of zip archives: any bytes as an archive, whose members are read whole and in two parts. */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "formats/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Members are within the file and do not overlap; each is found by its name. */
static void check(const haul__zip *zip, size_t i, size_t size)
{
    const haul__zip_member *m = &zip->members[i];
    if (m->data > size || m->packed > size - m->data || haul__zip_find(zip, m->name) != m ||
        (i && m[-1].data + m[-1].packed > m->offset) ||
        (i && strcmp(zip->by_name[i - 1]->name, zip->by_name[i]->name) >= 0))
        abort();
}

static void read_member(const haul__file *file, const haul__zip_member *m)
{
    const size_t size = (size_t)m->size, half = size / 2;
    uint8_t     *whole = malloc(size + 1), *parts = malloc(size + 1);
    if (!whole || !parts)
        abort();
    if (haul__zip_read(file, m, 0, whole, size) == HAUL_OK) {
        if (haul__zip_read(file, m, half, parts + half, size - half) || haul__zip_read(file, m, 0, parts, half) ||
            memcmp(whole, parts, size))
            abort();
    } else if (!m->deflated) {
        abort();
    }
    free(whole);
    free(parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    haul__file file;
    haul__zip  zip;
    haul_error_clear();
    haul__file_open_memory(&file, data, size, "fuzz.zip", "fuzz");
    if (haul__zip_open(&zip, &file))
        return 0;
    for (size_t i = 0; i < zip.count; i++) {
        check(&zip, i, size);
        if (zip.members[i].size < 1 << 20)
            read_member(&file, &zip.members[i]);
    }
    haul__zip_free(&zip);
    return 0;
}

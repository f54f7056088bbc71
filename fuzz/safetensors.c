/* Fuzzing the safetensors reader: any bytes as a file. */
#include <stdlib.h>

#include "core/error.h"
#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a sound header promises. */
static void check(const haul__safetensors_header *header, uint64_t data_size)
{
    uint64_t sum = 0;
    for (int i = 0; i < header->count; i++) {
        const haul__safetensors_entry *e = &header->entries[i];
        if (e->begin > e->end || e->end > data_size || haul__safetensors_find(header, e->name) != e)
            abort();
        sum += e->end - e->begin;
    }
    if (sum != data_size)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    haul__safetensors_header header;
    size_t                   length;
    haul_error_clear();
    if (size < 8 || haul__safetensors_length(data, size, "fuzz.safetensors", &length) != HAUL_OK)
        return 0;
    uint64_t data_size = size - 8 - length;
    if (haul__safetensors_parse(data + 8, length, data_size, "fuzz.safetensors", &header) == HAUL_OK) {
        check(&header, data_size);
        haul__safetensors_free(&header);
    }
    return 0;
}

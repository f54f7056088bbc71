/* Fuzzing the npy reader: any bytes as a file. */
#include <stdlib.h>

#include "base/alloc.h"
#include "core/error.h"
#include "formats/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    haul__npy head;
    haul_error_clear();
    if (haul__npy_parse(data, size, size, "fuzz.npy", &head))
        return 0;
    if (head.offset > size || head.bytes > size - head.offset)
        abort();
    uint8_t *in = haul__malloc(head.bytes), *out = haul__malloc(head.bytes);
    if (in && out) {
        for (size_t i = 0; i < head.bytes; i++)
            in[i] = data[head.offset + i];
        haul__npy_decode(&head, in, out);
    }
    haul__free(in);
    haul__free(out);
    return 0;
}

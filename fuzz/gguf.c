/* Fuzzing the reader of GGUF files: any bytes after the mark and the version. */
#include <stdlib.h>
#include <string.h>

#include "support/tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char head[8] = "GGUF\3";
    uint8_t          *file = malloc(sizeof head + size);
    if (!file)
        abort();
    memcpy(file, head, sizeof head);
    memcpy(file + sizeof head, data, size);
    load_tensors(file, sizeof head + size);
    free(file);
    return 0;
}

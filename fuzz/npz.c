/* Fuzzing the reader of npz files: any bytes as an array of a sound archive. */
#include <stdlib.h>

#include "support/tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    archive file = {0};
    put_member(&file, "a.npy", data, size);
    put_member(&file, "half.npy", data, size / 2);
    end_archive(&file);
    load_tensors(file.bytes, file.size);
    free(file.bytes);
    return 0;
}

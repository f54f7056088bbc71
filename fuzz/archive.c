/* Fuzzing the readers of zip archives, npz, GGUF and PyTorch's files: any bytes as a file. */
#include "support/tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    load_tensors(data, size);
    return 0;
}

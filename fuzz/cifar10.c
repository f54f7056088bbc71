/* Fuzzing the check of CIFAR-10 files: any bytes as a file. */
#include <stdlib.h>

#include "core/error.h"
#include "data/cifar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    haul_error_clear();
    if (haul__cifar_check(&haul__cifar10_set, data, size, "fuzz.bin"))
        return 0;
    for (size_t i = 0; i < size; i += 3073)
        if (i + 3073 > size || data[i] > 9)
            abort();
    return 0;
}

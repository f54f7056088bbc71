/* Fuzzing the reader of PyTorch's files: any bytes as the pickle of a sound archive with two storages. */
#include <stdlib.h>

#include "core/error.h"
#include "formats/pickle.h"
#include "support/tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_known(const char *name, size_t size)
{
    return size && name;
}

/* Memory is in proportion to the pickle. */
static void parse(const uint8_t *data, size_t size)
{
    haul__pickle pickle;
    if (haul__pickle_parse(&pickle, data, size, is_known, "fuzz.pt", "fuzz"))
        return;
    if (pickle.value_capacity * sizeof *pickle.values + pickle.link_capacity * sizeof *pickle.links > 64 * (size + 64))
        abort();
    haul__pickle_free(&pickle);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t storage[24] = {1, 2, 3, 4, 5, 6, 7};
    archive              file = {0};
    parse(data, size);
    put_member(&file, "a/data.pkl", data, size);
    put_member(&file, "a/byteorder", "little", 6);
    put_member(&file, "a/data/0", storage, sizeof storage);
    put_member(&file, "a/data/1", storage, 8);
    end_archive(&file);
    load_tensors(file.bytes, file.size);
    free(file.bytes);
    return 0;
}

/* Batches of 64 normalised pictures from 10,000 in memory, shuffled, ready on the CPU. */
#include "support/bench.h"

enum { PICTURES = 10000, BATCH = 64 };

static haul_loader *loader;
static int64_t      epoch;

static haul_dataset *data(void)
{
    haul_tensor *x = haul_randint(HAUL_U8, HAUL_SHAPE(PICTURES, 3, 32, 32), 0, 256);
    return haul_dataset_from_tensors(x, haul_zeros(HAUL_I64, HAUL_SHAPE(PICTURES)));
}

static bool open_plain(const bench_case *c)
{
    haul_dataset *normalised = haul_dataset_map(data(), haul_normalise("x"));
    loader = haul_loader_new(normalised, .batch = BATCH, .shuffle = true, .workers = (int)c->size);
    return !haul_error_status();
}

static bool open_changing(const bench_case *c)
{
    haul_dataset *changing =
        haul_dataset_map(data(), haul_random_crop("x", 4), haul_random_flip("x"), haul_normalise("x"));
    loader = haul_loader_new(changing, .batch = BATCH, .shuffle = true, .workers = (int)c->size);
    return !haul_error_status();
}

static bool run_loader(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++) {
        if (haul_loader_start(loader, ++epoch))
            return false;
        while (haul_loader_next(loader)) {}
    }
    return !haul_error_status();
}

#define LOADER(label, count, how, who)                                                                                 \
    {                                                                                                                  \
        .name = label, .unit = "k images/s", .amount = PICTURES * 1e-3, .peers = who, .open = open_##how,              \
        .run = run_loader, .size = count                                                                               \
    }

static const bench_case cases[] = {
    LOADER("loader, no workers", 0, plain, "torch:loader 0 0"),
    LOADER("loader, 2 workers", 2, plain, "torch:loader 2 0"),
    LOADER("loader, crop, flip", 0, changing, "torch:loader 0 1"),
    LOADER("loader, crop, flip, 2 w.", 2, changing, "torch:loader 2 1"),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}

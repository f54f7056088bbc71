/* Batches of 64 normalised pictures from 10,000 in memory, shuffled, ready on the CPU. */
#include "support/bench.h"

enum { PICTURES = 10000, BATCH = 64 };

static haul_loader *loader;
static int64_t      epoch;

static bool open_loader(const bench_case *c)
{
    haul_tensor *x = haul_randint(HAUL_U8, HAUL_SHAPE(PICTURES, 3, 32, 32), 0, 256);
    haul_tensor *y = haul_zeros(HAUL_I64, HAUL_SHAPE(PICTURES));

    loader = haul_loader_new(haul_dataset_from_tensors(x, y), .batch = BATCH, .shuffle = true, .workers = (int)c->size);
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

#define LOADER(label, count, who)                                                                                      \
    {                                                                                                                  \
        .name = label, .unit = "k images/s", .amount = PICTURES * 1e-3, .peers = who, .open = open_loader,             \
        .run = run_loader, .size = count                                                                               \
    }

static const bench_case cases[] = {
    LOADER("loader, no workers", 0, "torch:loader 0"),
    LOADER("loader, 2 workers", 2, "torch:loader 2,torch:loader 0"),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}

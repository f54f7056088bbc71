/* Moving tensors between the CPU and another device, against memcpy between two places on the heap that are in use
 * already. */
#include <stdlib.h>
#include <string.h>

#include "support/bench.h"

static haul_device *there;
static haul_tensor *here_tensor, *there_tensor;
static char        *from, *to;

static bool open_transfer(const bench_case *c)
{
    there = haul_device_get("opencl:0");
    here_tensor = haul_full(HAUL_F32, HAUL_SHAPE(c->size / 4), 1);
    there_tensor = haul_to(here_tensor, there);
    return !haul_error_status() && !haul_device_sync(there);
}

static bool run_there(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++) {
        haul_drop(haul_to(here_tensor, there));
        if (haul_device_sync(there))
            return false;
    }
    return !haul_error_status();
}

static bool run_back(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++) {
        haul_drop(haul_to(there_tensor, haul_cpu()));
        if (haul_device_sync(there))
            return false;
    }
    return !haul_error_status();
}

/* ---- other layouts and dtypes; the amount is the larger of what is read and what is written ---- */

typedef struct change {
    haul_dtype from, to;
    bool       half_rows; /* every other row of 1024 elements, so that memory is read in pieces of whole cache lines */
    bool       back;      /* from opencl:0 to the CPU */
} change;

static haul_tensor *source;

static bool open_changed(const bench_case *c)
{
    const change *how = c->context;
    const int64_t rows = c->size / 4096;
    there = haul_device_get("opencl:0");
    source = haul_full(how->from, HAUL_SHAPE(rows * (how->half_rows ? 2 : 1), 1024), 1);
    source = how->back ? haul_to(source, there) : source;
    source = how->half_rows ? haul_slice(source, 0, 0, 2 * rows, 2) : source;
    return !haul_error_status() && !haul_device_sync(there);
}

static bool run_changed(const bench_case *c, int64_t times)
{
    const change *how = c->context;
    for (int64_t i = 0; i < times; i++) {
        haul_drop(haul_to(source, how->back ? haul_cpu() : there, .dtype = how->to));
        if (haul_device_sync(there))
            return false;
    }
    return !haul_error_status();
}

static bool open_memcpy(const bench_case *c)
{
    from = malloc((size_t)c->size);
    to = malloc((size_t)c->size);
    if (!from || !to)
        return bench_out("no memory");
    memset(from, 1, (size_t)c->size);
    memset(to, 2, (size_t)c->size);
    return true;
}

static bool run_memcpy(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++) {
        memcpy(to, from, (size_t)c->size);
        __asm__ volatile("" ::: "memory"); /* each of them */
    }
    return true;
}

static void close_memcpy(void)
{
    free(from);
    free(to);
    from = to = NULL;
}

#define MOVE(label, how, mib, who)                                                                                     \
    {                                                                                                                  \
        .name = label, .unit = "GB/s", .amount = (mib)*1048576e-9, .peers = who, .open = open_transfer, .run = how,    \
        .size = (int64_t)(mib) << 20                                                                                   \
    }
#define SIZES(mib)                                                                                                     \
    MOVE("cpu to opencl:0, " #mib " MiB", run_there, mib, "memcpy " #mib " MiB"),                                      \
        MOVE("opencl:0 to cpu, " #mib " MiB", run_back, mib, "memcpy " #mib " MiB"),                                   \
    {                                                                                                                  \
        .name = "memcpy " #mib " MiB", .unit = "GB/s", .amount = (mib)*1048576e-9, .peers = "", .open = open_memcpy,   \
        .run = run_memcpy, .close = close_memcpy, .size = (int64_t)(mib) << 20                                         \
    }

#define CHANGED(label, mib, ...)                                                                                       \
    {                                                                                                                  \
        .name = label ", " #mib " MiB", .unit = "GB/s", .amount = (mib)*1048576e-9, .peers = "memcpy " #mib " MiB",    \
        .open = open_changed, .run = run_changed, .size = (int64_t)(mib) << 20, .context = &(const change)             \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

#define CHANGES(mib)                                                                                                   \
    CHANGED("rows up", mib, .from = HAUL_F32, .to = HAUL_F32, .half_rows = true),                                      \
        CHANGED("rows down", mib, .from = HAUL_F32, .to = HAUL_F32, .half_rows = true, .back = true),                  \
        CHANGED("i32 to f32 up", mib, .from = HAUL_I32, .to = HAUL_F32),                                               \
        CHANGED("i32 to f32 down", mib, .from = HAUL_I32, .to = HAUL_F32, .back = true),                               \
        CHANGED("f32 to f16 up", mib, .from = HAUL_F32, .to = HAUL_F16),                                               \
        CHANGED("f32 to f16 down", mib, .from = HAUL_F32, .to = HAUL_F16, .back = true),                               \
        CHANGED("f16 to f32 up", mib, .from = HAUL_F16, .to = HAUL_F32),                                               \
        CHANGED("f16 to f32 down", mib, .from = HAUL_F16, .to = HAUL_F32, .back = true)

static const bench_case cases[] = {
    SIZES(1), SIZES(4), SIZES(16), SIZES(256), CHANGES(16), SIZES(64), CHANGES(64),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}

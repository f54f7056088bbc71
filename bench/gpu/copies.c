/* Moving tensors between the host and a GPU: from pinned memory against what the driver itself reaches, from ordinary
 * memory against PyTorch. */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "support/raw.h"

static haul_device *gpu;
static haul_tensor *here, *there;

/* ---- pinned ---- */

static void  *pinned, *pinned_handle;
static size_t pinned_bytes;

static bool open_pinned(const bench_case *c)
{
    gpu = haul_current_device();
    here = there = NULL;
    pinned_bytes = (size_t)c->size;
    if (!gpu->backend->host_alloc)
        return bench_out("the device has no pinned host memory");
    if (gpu->backend->host_alloc(gpu, pinned_bytes, &pinned, &pinned_handle))
        return false;
    memset(pinned, 1, pinned_bytes);
    here = haul_wrap_host(HAUL_F32, HAUL_SHAPE(c->size / 4), pinned, NULL, NULL);
    there = haul_full(HAUL_F32, HAUL_SHAPE(c->size / 4), 1);
    return !haul_error_status() && !haul_device_sync(gpu);
}

static void close_pinned(void)
{
    haul_drop(here);
    if (pinned)
        gpu->backend->host_free(gpu, pinned, pinned_handle);
    pinned = NULL;
}

static bool run_pinned_up(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        if (haul_copy_into(there, here) || haul_device_sync(gpu))
            return false;
    return true;
}

static bool run_pinned_down(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        if (haul_copy_into(here, there) || haul_device_sync(gpu))
            return false;
    return true;
}

/* ---- ordinary memory ---- */

static float *ordinary;

static bool open_pageable(const bench_case *c)
{
    size_t bytes = (size_t)c->size;
    gpu = haul_current_device();
    here = NULL;
    there = haul_full(HAUL_F32, HAUL_SHAPE(c->size / 4), 1);
    ordinary = malloc(bytes);
    if (!ordinary)
        return bench_out("no memory");
    memset(ordinary, 1, bytes);
    here = haul_wrap_host(HAUL_F32, HAUL_SHAPE(c->size / 4), ordinary, NULL, NULL);
    return !haul_error_status() && !haul_device_sync(gpu);
}

static void close_pageable(void)
{
    haul_drop(here);
    free(ordinary);
    ordinary = NULL;
}

static bool run_pageable_up(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++) {
        haul_drop(haul_to(here, gpu));
        if (haul_device_sync(gpu))
            return false;
    }
    return !haul_error_status();
}

static bool run_pageable_down(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        if (haul_read(there, ordinary, (size_t)c->size))
            return false;
    return true;
}

/* Into memory that Haul chooses. */
static bool run_home(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++) {
        haul_drop(haul_to(there, haul_cpu()));
        if (haul_device_sync(gpu))
            return false;
    }
    return !haul_error_status();
}

#define MOVE(label, opened, how, closed, mib, who)                                                                     \
    {                                                                                                                  \
        .name = label " " #mib " MiB", .unit = "GB/s", .amount = (mib)*1048576e-9, .peers = who, .open = opened,       \
        .run = how, .close = closed, .size = (int64_t)(mib) << 20                                                      \
    }
#define PINNED(mib)                                                                                                    \
    MOVE("pinned up", open_pinned, run_pinned_up, close_pinned, mib, "raw up " #mib " MiB,torch:pinned_up " #mib),     \
        MOVE("pinned down", open_pinned, run_pinned_down, close_pinned, mib,                                           \
             "raw down " #mib " MiB,torch:pinned_down " #mib),                                                         \
        RAW_UP(mib), RAW_DOWN(mib)
#define PAGEABLE_UP(mib)                                                                                               \
    MOVE("pageable up", open_pageable, run_pageable_up, close_pageable, mib, "torch:pageable_up " #mib)
#define PAGEABLE_DOWN(mib)                                                                                             \
    MOVE("pageable down", open_pageable, run_pageable_down, close_pageable, mib, "torch:pageable_down " #mib)
#define HOME(mib) MOVE("to the CPU", open_pageable, run_home, close_pageable, mib, "torch:home " #mib)

static const bench_case cases[] = {
    PINNED(256),         PAGEABLE_UP(64),  PAGEABLE_UP(256), PAGEABLE_UP(1024), PAGEABLE_DOWN(64),
    PAGEABLE_DOWN(1024), HOME(64),         HOME(1024),       PAGEABLE_UP(1),    PAGEABLE_UP(4),
    PAGEABLE_UP(16),     PAGEABLE_DOWN(1), HOME(1),          PINNED(16),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}

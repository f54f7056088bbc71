/* Fuzzing the reader of machines: any bytes as a file. A machine that is read must be written and read as the same one,
 * and predict times within bounds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "machine/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_times(const haul__machine *m)
{
    static const haul__machine_work works[] = {
        {"haul_matmul", HAUL__WORK_MATMUL, HAUL_F32, .flops = 1e9, .bytes = 1000, .commands = 1},
        {"haul_conv2d", HAUL__WORK_CONV, HAUL_F16, .flops = INFINITY, .bytes = INT64_MAX, .commands = INT64_MAX},
        {"haul_max_pool2d", HAUL__WORK_POOL, HAUL_F32, .flops = -1, .bytes = 1, .commands = 2}};
    for (int d = 0; d < m->device_count; d++) {
        for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
            const int64_t time = haul__machine_time(m, d, &works[i]);
            must(time >= 0 && time <= HAUL__MACHINE_MOST_PS);
        }
        for (int to = 0; to < m->device_count; to++) {
            const int64_t time = haul__machine_copy_time(m, d, to, INT64_MAX, true);
            must(time >= 0 && time <= HAUL__MACHINE_MOST_PS);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    haul__machine *m = NULL, *again = NULL;
    if (haul__machine_read("fuzz", "fuzz", (const char *)data, size, &m)) {
        must(!m && haul_error_status() != HAUL_OK);
        return 0;
    }
    char *text = haul__machine_write(m);
    must(text && !haul__machine_read("fuzz", "fuzz", text, strlen(text), &again));
    must(memcmp(m, again, sizeof *m) == 0);
    check_times(m);
    haul__free(text);
    haul__free(again);
    haul__free(m);
    return 0;
}

#include "transfer/move_price.h"

#include "device/speeds.h"
#include "memory/allocator.h"

/* Copies to the CPU go to pinned memory. */
static bool is_pinned(const haul_tensor *t, const haul_device *to)
{
    return to == haul_cpu() || haul__storage_pinned(t->storage);
}

int64_t haul__move_ps(const haul_tensor *t, const haul_device *to)
{
    const haul_device *from = t->storage->device;
    return from == to ? 0 : haul__speeds_copy_time(from, to, (int64_t)haul_tensor_bytes(t), is_pinned(t, to));
}

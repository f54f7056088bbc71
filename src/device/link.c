#include "device/link.h"

#include "base/assert.h"

/* Old copies count half as much after so many bytes. Threads may lose each other's last copy, which changes little. */
enum { REMEMBERED = 1 << 30 };

void haul__link_end(haul_device *device, size_t bytes, int64_t start)
{
    if (!start)
        return;
    HAUL__ASSERT(bytes > 0 && bytes <= INT64_MAX / 2); /* the sum of a remembered half and one copy fits */
    const long long ns = haul__now_ns() - start;
    const long long all = atomic_fetch_add(&device->link_bytes, (long long)bytes) + (long long)bytes;
    const long long all_ns = atomic_fetch_add(&device->link_ns, ns) + ns;
    if (all > REMEMBERED) {
        atomic_store(&device->link_bytes, all / 2);
        atomic_store(&device->link_ns, all_ns / 2);
    }
}

int64_t haul__link_ns(const haul_device *device, int64_t bytes)
{
    const long long all = atomic_load(&device->link_bytes), ns = atomic_load(&device->link_ns);
    return all > 0 && ns > 0 ? (int64_t)((double)bytes * (double)ns / (double)all) : -1;
}

/* The speeds that programs may ask for. */
#include <haul/speed.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "plan/here.h"

/* The machine of the CPU and the device. NULL: the error is recorded. */
static haul__machine *machine_of(const char *operation, haul_device *device)
{
    haul__machine *m = NULL;
    haul__machine_here(operation, &device, 1, HAUL__HERE_CACHED, &m);
    return m;
}

haul_status haul_device_speed(haul_device *device, haul_dtype dtype, haul_device_speeds *out)
{
    static const char operation[] = "haul_device_speed";
    if (!out)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "out", "out is NULL; pass the address of a struct");
    if (dtype <= HAUL_DTYPE_NONE || dtype >= HAUL_DTYPE_END)
        return haul__fail(HAUL_DTYPE, operation, "dtype", "%d is no dtype; pass one, for example HAUL_F32", (int)dtype);
    haul__machine *m = machine_of(operation, device);
    if (!m)
        return haul_error_status();
    HAUL__ASSERT(m->device_count > 0 && m->device_count <= 2); /* the host, and another device */
    const haul__machine_device *d = &m->devices[m->device_count - 1];
    *out = (haul_device_speeds){(double)haul__machine_product_rate(d, dtype), (double)d->bytes_per_second,
                                1e-9 * (double)d->launch_ns};
    haul__free(m);
    return HAUL_OK;
}

haul_status haul_link_speed(haul_device *from, haul_device *to, haul_link_speeds *out)
{
    static const char operation[] = "haul_link_speed";
    const bool        up = from == haul_cpu();
    if (!out)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "out", "out is NULL; pass the address of a struct");
    if (up == (to == haul_cpu()))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "to",
                          "a link is between the CPU and another device, but these are %s and %s; name one of each",
                          haul_device_name(from), haul_device_name(to));
    haul__machine *m = machine_of(operation, up ? to : from);
    if (!m)
        return haul_error_status();
    const haul__machine_link *link = haul__machine_link_of(m, up ? 0 : 1, up ? 1 : 0);
    HAUL__ASSERT(link && m->device_count == 2);
    *out = (haul_link_speeds){1e-9 * (double)link->latency_ns, (double)link->pinned, (double)link->pageable,
                              link->overlap};
    haul__free(m);
    return HAUL_OK;
}

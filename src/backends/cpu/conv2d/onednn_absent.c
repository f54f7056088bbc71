/* For builds without the headers of a known version of oneDNN. */
#include "haul_config.h"

#include "backends/cpu/cpu.h"

#if !defined(HAUL_HAVE_ONEDNN) || HAUL_ONEDNN_MAJOR != 2
const char *haul__cpu_onednn_refuses(haul_device *device, const void *problem)
{
    (void)device;
    (void)problem;
    return "this build has no oneDNN";
}

haul_status haul__cpu_onednn(haul__stream *s, const void *problem)
{
    (void)s;
    (void)problem;
    return HAUL_UNSUPPORTED;
}
#endif

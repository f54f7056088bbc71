/* A build without oneDNN's headers of the version we know: everything is done by our own code. */
#include "haul_config.h"

#include "backends/cpu/onednn.h"

#if !defined(HAUL_HAVE_ONEDNN) || HAUL_ONEDNN_MAJOR != 2
haul_status haul__cpu_onednn_conv2d(haul__onednn_kind kind, const haul__conv2d *call)
{
    (void)kind;
    (void)call;
    return HAUL_UNSUPPORTED;
}
#endif

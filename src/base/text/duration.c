#include "base/text/duration.h"

#include "base/text/plain.h"

const char *haul__duration_text(int64_t ps, char out[HAUL__DURATION])
{
    const double us = (double)ps * 1e-6;
    if (us < 1e3)
        haul__snprintf(out, HAUL__DURATION, "%.1f us", us);
    else if (us < 1e6)
        haul__snprintf(out, HAUL__DURATION, "%.2f ms", us * 1e-3);
    else
        haul__snprintf(out, HAUL__DURATION, "%.1f s", us * 1e-6);
    return out;
}

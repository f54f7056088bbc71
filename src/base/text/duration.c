#include "base/text/duration.h"

#include "base/text/plain.h"

const char *haul__duration_text(int64_t ps, char out[HAUL__DURATION])
{
    return haul__duration_text_like(ps, ps, out);
}

const char *haul__duration_text_like(int64_t ps, int64_t like, char out[HAUL__DURATION])
{
    const double us = (double)ps * 1e-6;
    if (like < INT64_C(1000000000))
        haul__snprintf(out, HAUL__DURATION, "%.1f us", us);
    else if (like < INT64_C(1000000000000))
        haul__snprintf(out, HAUL__DURATION, "%.*f ms", us < 1e3 ? 3 : 2, us * 1e-3);
    else
        haul__snprintf(out, HAUL__DURATION, "%.*f s", us < 1e6 ? 3 : 1, us * 1e-6);
    return out;
}

/* The transfer statistics: copies by the link they crossed, as counted by the stream. */
#include <haul/transfer.h>

#include "core/error.h"
#include "events/events.h"

haul_status haul_transfer_stats_get(haul_transfer_stats *out)
{
    if (!out)
        return haul__fail_null("haul_transfer_stats_get", "out");
    const haul__event_count up = haul__event_count_of(HAUL_EVENT_COPY_TO_DEVICE);
    const haul__event_count down = haul__event_count_of(HAUL_EVENT_COPY_TO_HOST);
    const haul__event_count between = haul__event_count_of(HAUL_EVENT_COPY_BETWEEN);
    *out = (haul_transfer_stats){.h2d_bytes = up.bytes,
                                 .d2h_bytes = down.bytes,
                                 .d2d_bytes = between.bytes,
                                 .h2d_count = up.events,
                                 .d2h_count = down.events,
                                 .d2d_count = between.events};
    return HAUL_OK;
}

void haul_transfer_stats_reset(void)
{
    haul__event_count_reset_copies();
}

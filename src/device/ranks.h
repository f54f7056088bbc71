/* Exchanges of data between devices of several ranks, as commands: backends/ranks.h. */
#ifndef HAUL_DEVICE_RANKS_H
#define HAUL_DEVICE_RANKS_H

#include "backends/ranks.h"
#include "device/device.h"

/* The library that moves data between devices of this kind; NULL: there is none. It may still be missing. */
const haul__rank_library *haul__device_ranks(const haul_device *device);

/* An exchange. The written buffers come first. */
typedef struct haul__rank_exchange {
    const char               *operation;
    haul_device              *device;
    void                     *connection;
    const haul__region       *buffers;
    int                       write_count, buffer_count;
    const haul__rank_message *messages;
    int                       count;
} haul__rank_exchange;

/* Submits an exchange to the device's download stream: after what its buffers wait for, and before what waits for
 * them. */
haul_status haul__ranks_exchange(const haul__rank_exchange *exchange);

#endif

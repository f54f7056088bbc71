/* haul_memory_record: a subscriber that notes the module, the label and the time of each allocation. Meanwhile the
 * memory layer keeps the blocks at the last failure. */
#include <haul/memory.h>
#include <pthread.h>

#include "core/error.h"
#include "events/events.h"
#include "memory/report/block_origin.h"
#include "memory/report/failure.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards both */

static void take(const haul_event *e, void *context)
{
    (void)context;
    haul__block_origin_record(e);
}

static haul__subscriber subscriber = {.of = {.take = take, .kinds = HAUL_EVENT_MEMORY_ALLOCATED, .everywhere = true}};

static haul_status begin(const char *operation)
{
    const haul_status status = haul__failure_begin(operation);
    if (status || haul__attach(&subscriber))
        return status;
    haul__failure_end();
    return haul__fail(HAUL_OUT_OF_MEMORY, operation, NULL,
                      "the system cannot register another thread key or fork handler");
}

haul_status haul_memory_record(bool on)
{
    haul_status status = HAUL_OK;
    pthread_mutex_lock(&lock);
    haul__detach(&subscriber);
    if (on)
        status = begin("haul_memory_record");
    else
        haul__failure_end();
    pthread_mutex_unlock(&lock);
    return status;
}

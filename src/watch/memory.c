/* haul_memory_record: a subscriber that notes the module, the label and the time of each allocation. */
#include <haul/memory.h>
#include <pthread.h>

#include "core/error.h"
#include "events/events.h"
#include "memory/record.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards attaching */

static void take(const haul_event *e, void *context)
{
    (void)context;
    haul__record_allocation(e);
}

static haul__subscriber subscriber = {.of = {.take = take, .kinds = HAUL_EVENT_MEMORY_ALLOCATED, .everywhere = true}};

haul_status haul_memory_record(bool on)
{
    pthread_mutex_lock(&lock);
    haul__detach(&subscriber);
    const bool done = !on || haul__attach(&subscriber);
    pthread_mutex_unlock(&lock);
    return done ? HAUL_OK
                : haul__fail(HAUL_OUT_OF_MEMORY, "haul_memory_record", NULL,
                             "the system cannot register another thread key or fork handler");
}

/* How an event of the calling thread reaches its subscribers. */
#ifndef HAUL_EVENTS_SUBSCRIBERS_H
#define HAUL_EVENTS_SUBSCRIBERS_H

#include "events/events.h"

/* Calls the thread's own subscribers and then the process-wide ones that want the event, which is complete but for its
 * frames. Events of the thread are muted meanwhile. */
void haul__subscribers_call(haul_event *event);

/* True while a subscriber runs on this thread. haul__event_muted says the same, and also notices a subscriber that was
 * left by longjmp or an exception. */
bool haul__subscriber_runs(void);

#endif

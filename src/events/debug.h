/* What the environment variable HAUL_DEBUG makes the library report to standard error. */
#ifndef HAUL_EVENTS_DEBUG_H
#define HAUL_EVENTS_DEBUG_H

#include "events/events.h"

/* Attach the subscribers that HAUL_DEBUG names. An unknown word is reported to standard error, too. */
void haul__debug_begin(bool (*attach)(haul__subscriber *subscriber));

#endif

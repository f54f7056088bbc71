/* What the environment variable HAUL_DEBUG makes the library write to standard error. */
#ifndef HAUL_EVENTS_DEBUG_H
#define HAUL_EVENTS_DEBUG_H

#include "events/events.h"

/* Attaches the subscribers that HAUL_DEBUG names. An unknown word is reported to standard error as well. */
void haul__debug_begin(bool (*attach)(haul__subscriber *subscriber));

#endif

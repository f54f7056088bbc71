/* Functions of custom operations in a followed step: they run again, and their calls are compared. */
#ifndef HAUL_RECORD_FOLLOW_FUNCTION_H
#define HAUL_RECORD_FOLLOW_FUNCTION_H

#include "record/follow/follow.h"

/* Runs the function that composes a call with these attributes. `e` is its entry, and f->at is the one after it. */
haul_status haul__follow_compose(haul__following *f, const haul__entry *e, const void *attributes);

/* Runs the gradient function whose entry is the next one. */
haul_status haul__follow_gradient(haul__following *f);

#endif

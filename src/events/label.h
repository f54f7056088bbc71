/* The user's labels of the calling thread. */
#ifndef HAUL_EVENTS_LABEL_H
#define HAUL_EVENTS_LABEL_H

const char *haul__label(void); /* the innermost; "" outside of labels */

#endif

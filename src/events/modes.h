/* The modes of modules that are called in a function which runs twice (autograd/recompute.h): noted in the first run,
 * and the same again in the second. */
#ifndef HAUL_EVENTS_MODES_H
#define HAUL_EVENTS_MODES_H

#include <stdbool.h>
#include <stddef.h>

/* In the order of the calls. All zero is empty. */
typedef struct haul__modes {
    unsigned char *items;
    size_t         count, capacity;
    bool           lost; /* there was no memory for one */
} haul__modes;

/* A run under way, on the C stack. */
typedef struct haul__modes_run haul__modes_run;
struct haul__modes_run {
    haul__modes     *modes;
    bool             again; /* they are read, not noted */
    size_t           next;
    haul__modes_run *outer;
};

void haul__modes_begin(haul__modes_run *run, haul__modes *modes, bool again);
void haul__modes_end(const haul__modes_run *run);

/* Returns `training`, the mode of a module that is called; in a function that runs again, that of its first run. */
bool haul__modes_next(bool training);

#endif

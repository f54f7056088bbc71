#include "events/modes.h"

#include "base/alloc.h"
#include "core/thread.h"

extern _Thread_local haul__modes_run *haul__modes_innermost HAUL__TLS_MODEL;
_Thread_local haul__modes_run                              *haul__modes_innermost;

void haul__modes_begin(haul__modes_run *run, haul__modes *modes, bool again)
{
    *run = (haul__modes_run){.modes = modes, .again = again, .outer = haul__modes_innermost};
    haul__modes_innermost = run;
}

void haul__modes_end(const haul__modes_run *run)
{
    haul__modes_innermost = run->outer;
}

static void note(haul__modes *m, bool training)
{
    if (haul__grow(&m->items, &m->capacity, m->count + 1, sizeof *m->items))
        m->items[m->count++] = training;
    else
        m->lost = true;
}

bool haul__modes_next(bool training)
{
    haul__modes_run *again = haul__modes_innermost;
    while (again && !again->again)
        again = again->outer;
    if (again && again->next < again->modes->count)
        training = again->modes->items[again->next++];
    for (haul__modes_run *run = haul__modes_innermost; run != again; run = run->outer)
        note(run->modes, training);
    return training;
}

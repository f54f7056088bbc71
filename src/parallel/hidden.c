#include "parallel/hidden.h"

#include "base/assert.h"

void haul__exchange_time_add(haul__exchange_time *t, int64_t begin, int64_t end, int64_t pass_over)
{
    HAUL__ASSERT(begin <= end);
    const int64_t from = begin > t->until ? begin : t->until, covered = end < pass_over ? end : pass_over;
    if (end <= from)
        return;
    t->all += end - from;
    if (covered > from)
        t->hidden += covered - from;
    t->until = end;
    HAUL__ASSERT(t->hidden <= t->all);
}

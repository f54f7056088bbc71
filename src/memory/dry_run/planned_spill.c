#include "memory/dry_run/planned_spill.h"

#include <stddef.h>

void haul__planned_spill_begin(haul__planned_spill *s, int64_t limit, int64_t present)
{
    *s = (haul__planned_spill){.limit = limit, .present = present, .clock = 1};
    s->all.next = s->all.prev = &s->all;
}

/* The one used longest ago with a block of at least `least` bytes, but none that is in use now. */
static haul__movable *find_oldest(haul__planned_spill *s, int64_t least)
{
    haul__movable *found = NULL;
    for (haul__movable *m = s->all.next; m != &s->all; m = m->next)
        if (!m->away && m->block >= least && m->last < s->clock && (!found || m->last < found->last))
            found = m;
    return found;
}

/* As make_room of memory/spill.c. */
static void make_room(haul__planned_spill *s, int64_t wanted)
{
    for (int64_t moved = 0; moved < wanted;) {
        haul__movable *m = find_oldest(s, (wanted - moved) / 16);
        m = m ? m : find_oldest(s, 0);
        if (!m)
            return;
        m->away = true;
        moved += m->block;
        s->present -= m->block;
        s->spilled += m->bytes;
    }
}

static void enter(haul__planned_spill *s, haul__movable *m)
{
    m->last = s->clock;
    m->away = false;
    if (s->present + m->block > s->limit)
        make_room(s, m->block);
    s->present += m->block;
    s->over = s->over || s->present > s->limit;
}

void haul__planned_spill_add(haul__planned_spill *s, haul__movable *m)
{
    if (!s->limit)
        return;
    s->clock++;
    enter(s, m);
    m->next = &s->all;
    m->prev = s->all.prev;
    m->prev->next = m->next->prev = m;
}

void haul__planned_spill_next(haul__planned_spill *s)
{
    s->clock++;
}

void haul__planned_spill_use(haul__planned_spill *s, haul__movable *m)
{
    if (!m->next)
        return;
    m->last = s->clock;
    if (!m->away)
        return;
    enter(s, m);
    s->returned += m->bytes;
}

void haul__planned_spill_drop(haul__planned_spill *s, haul__movable *m)
{
    if (!m->next)
        return;
    m->next->prev = m->prev;
    m->prev->next = m->next;
    s->present -= m->away ? 0 : m->block;
}

/* Which bars of the timeline, and which rows of a ledger, findings are about. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "device/device.h"
#include "observe/audit/audit.h"
#include "observe/profile/search.h"

/* ---- bars ---- */

static int by_key(const void *a, const void *b)
{
    const haul__finding_mark *x = a, *y = b;
    if (x->copy != y->copy)
        return (int)x->copy - (int)y->copy;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->finding - y->finding;
}

static bool add_mark(haul__findings *f, bool copy, uint64_t key, int finding)
{
    if (!haul__grow(&f->marks, &f->mark_room, f->mark_count + 1, sizeof *f->marks))
        return false;
    f->marks[f->mark_count++] = (haul__finding_mark){copy, key, finding};
    return true;
}

/* The operation that made a copy, which ends after it: its index, or that of the copy. */
static size_t operation_of(const haul_profile *p, size_t copy)
{
    HAUL__ASSERT(copy < p->count);
    enum { FAR = 64 };
    const haul__profile_event *c = &p->events[copy];
    for (size_t i = copy + 1; i < p->count && i < copy + FAR; i++) {
        const haul__profile_event *m = &p->events[i];
        if (m->kind == HAUL_EVENT_OPERATION_END && m->thread == c->thread && m->operation == c->operation &&
            m->begin <= c->begin)
            return i;
    }
    return copy;
}

static bool mark(const haul_profile *p, haul__findings *f, size_t event, int finding)
{
    HAUL__ASSERT(event < p->count && 0 <= finding && finding < f->count);
    const haul__profile_event *m = &p->events[event];
    if (!(m->kind & HAUL_EVENT_COPY))
        return add_mark(f, false, event, finding);
    return add_mark(f, true, m->copy, finding) && add_mark(f, false, operation_of(p, event), finding);
}

/* Of the first `count` marks. */
static size_t first_mark(const haul__findings *f, size_t count, const haul__finding_mark *from)
{
    return haul__first_from(f->marks, count, sizeof *f->marks, from, by_key);
}

static bool same_bar(const haul__finding_mark *a, const haul__finding_mark *b)
{
    return a->copy == b->copy && a->key == b->key;
}

static void sort(haul__findings *f)
{
    if (f->mark_count)
        qsort(f->marks, f->mark_count, sizeof *f->marks, by_key);
}

/* What the CPU computed with data that had left a device belongs to the finding of the copy with which they left. The
 * marks of copies are in order. */
static bool mark_islands(const haul_profile *p, haul__findings *f)
{
    const size_t known = f->mark_count;
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (m->kind != HAUL_EVENT_OPERATION_END || !m->computed_with)
            continue;
        HAUL__ASSERT(m->computed_with <= i); /* an event before it */
        const haul__finding_mark left = {true, p->events[m->computed_with - 1].copy, 0};
        for (size_t k = first_mark(f, known, &left); k < known && same_bar(&f->marks[k], &left); k++)
            if (f->items[f->marks[k].finding].kind == HAUL_FINDING_CPU_ISLAND &&
                !add_mark(f, false, i, f->marks[k].finding))
                return false;
    }
    return true;
}

bool haul__find_marks(const haul_profile *p, haul__findings *f)
{
    for (int i = 0; i < f->count; i++)
        for (size_t k = 0; k < f->about[i].count; k++)
            if (!mark(p, f, f->about[i].events[k], i))
                return false;
    sort(f);
    const bool fine = mark_islands(p, f);
    sort(f);
    return fine;
}

void haul__write_marks(haul__json_text *t, const haul_profile *p, const haul__profile_event *m)
{
    HAUL__ASSERT(p->findings && p->events <= m && m < p->events + p->count);
    const haul__findings    *f = p->findings;
    const bool               command = m->kind == HAUL_EVENT_COMMAND_DONE;
    const haul__finding_mark from = {command, command ? m->copy : (uint64_t)(m - p->events), 0};
    int                      last = -1;
    if (command && !m->copy)
        return;
    for (size_t i = first_mark(f, f->mark_count, &from); i < f->mark_count && same_bar(&f->marks[i], &from); i++) {
        if (f->marks[i].finding == last)
            continue;
        HAUL__ASSERT(last < f->marks[i].finding && f->marks[i].finding < f->count); /* in order */
        if (last < 0)
            haul__json_begin(t, "findings", '[');
        last = f->marks[i].finding;
        haul__json_integer(t, NULL, last);
    }
    if (last >= 0)
        haul__json_end(t, ']');
}

/* ---- rows ---- */

static bool is_copy(const haul__profile_event *m)
{
    return (m->kind & HAUL_EVENT_COPY) != 0;
}

/* A wait for bytes is one for a copy to the host, whose tensor it does not know. */
static bool is_known(const haul__profile_event *m)
{
    return is_copy(m) || (m->kind == HAUL_EVENT_WAITED && m->bytes > 0);
}

static bool same_row(const haul__profile_event *a, const haul__profile_event *b)
{
    return a->kind == b->kind && a->device == b->device && a->other == b->other && a->operation == b->operation &&
           a->module == b->module && a->label == b->label && (!is_copy(a) || a->name == b->name);
}

static void write_row(haul__json_text *t, const haul_profile *p, const haul__profile_event *m)
{
    haul__json_begin(t, NULL, '{');
    haul__json_string(t, "from", haul_device_name(is_copy(m) ? m->other : m->device));
    haul__json_string(t, "to", haul_device_name(is_copy(m) ? m->device : haul_cpu()));
    haul__json_string(t, "operation", haul__profile_text(p, m->operation));
    haul__json_string(t, "module", haul__profile_text(p, m->module));
    haul__json_string(t, "label", haul__profile_text(p, m->label));
    if (is_copy(m))
        haul__json_string(t, "tensor", haul__profile_text(p, m->name));
    haul__json_end(t, '}');
}

void haul__write_copies(haul__json_text *t, const haul_profile *p, const haul__about *about)
{
    HAUL__ASSERT(about->count <= about->room);
    enum { MOST_ROWS = 16 };
    const haul__profile_event *rows[MOST_ROWS];
    int                        count = 0;
    haul__json_begin(t, "copies", '[');
    for (size_t i = 0; i < about->count && count < MOST_ROWS; i++) {
        HAUL__ASSERT(about->events[i] < p->count);
        const haul__profile_event *m = &p->events[about->events[i]];
        int                        known = 0;
        while (known < count && !same_row(rows[known], m))
            known++;
        if (!is_known(m) || known < count)
            continue;
        rows[count++] = m;
        write_row(t, p, m);
    }
    haul__json_end(t, ']');
}

#include "observe/audit/costs.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "device/device.h"
#include "observe/profile/search.h"

/* ---- pieces ---- */

static bool add_piece(haul__pieces *all, uint64_t copy, const haul__profile_event *m)
{
    HAUL__ASSERT(copy);
    if (!haul__grow(&all->items, &all->room, all->count + 1, sizeof *all->items))
        return false;
    all->items[all->count++] = (haul__piece){copy, {m->begin, m->end}};
    return true;
}

static int by_copy(const void *a, const void *b)
{
    const haul__piece *x = a, *y = b;
    return (x->copy > y->copy) - (x->copy < y->copy);
}

static size_t first_of(const haul__pieces *all, uint64_t copy)
{
    return haul__first_from(all->items, all->count, sizeof *all->items, &(haul__piece){.copy = copy}, by_copy);
}

/* ---- what devices did ---- */

static bool is_computing(const haul_profile *p, const haul__profile_event *m)
{
    return m->kind == HAUL_EVENT_COMMAND_DONE && !m->copy && !haul__device_is_synchronous(m->device) &&
           !strcmp(haul__profile_text(p, m->detail), "compute");
}

static bool note_computing(haul__costs *c, const haul__profile_event *m)
{
    if (!haul__grow(&c->backlog, &c->backlog_room, c->backlog_count + 1, sizeof *c->backlog))
        return false;
    c->backlog[c->backlog_count++] = (haul__backlog){m->submitted, m->end};
    return haul__intervals_add(&c->computing, m->begin, m->end);
}

static int by_submission(const void *a, const void *b)
{
    const haul__backlog *x = a, *y = b;
    return (x->submitted > y->submitted) - (x->submitted < y->submitted);
}

static void sort_backlog(haul__costs *c)
{
    if (c->backlog_count)
        qsort(c->backlog, c->backlog_count, sizeof *c->backlog, by_submission);
    for (size_t i = 1; i < c->backlog_count; i++)
        if (c->backlog[i].end < c->backlog[i - 1].end)
            c->backlog[i].end = c->backlog[i - 1].end;
}

/* When devices had computed all commands submitted before a time. */
static int64_t computed_by(const haul__costs *c, int64_t time)
{
    const size_t later = haul__first_from(c->backlog, c->backlog_count, sizeof *c->backlog,
                                          &(haul__backlog){.submitted = time}, by_submission);
    HAUL__ASSERT(later <= c->backlog_count);
    return later ? c->backlog[later - 1].end : 0;
}

/* ---- opening ---- */

/* When the thread was in the call of a copy, as far as it is known. */
static haul__interval call_of(const haul__profile_event *copy)
{
    const bool known = copy->submitted >= 0 && copy->submitted < copy->begin;
    return (haul__interval){known ? copy->submitted : copy->begin, copy->end};
}

/* Calls of modules enclose code of the program. */
static bool is_library(const haul_profile *p, const haul__profile_event *m)
{
    return m->thread == p->thread && m->kind != HAUL_EVENT_CALL_END &&
           (haul__is_span(m) || (m->kind & HAUL_EVENT_COPY) != 0);
}

static bool note(haul__costs *c, const haul__profile_event *m)
{
    bool fine = true;
    if (m->kind == HAUL_EVENT_COMMAND_DONE && m->copy)
        fine = add_piece(&c->commands, m->copy, m);
    else if (is_computing(c->profile, m))
        fine = note_computing(c, m);
    else if (m->kind == HAUL_EVENT_OPERATION_END && m->computed_with)
        fine = add_piece(&c->operations, m->computed_with, m);
    const haul__interval call = m->kind & HAUL_EVENT_COPY ? call_of(m) : (haul__interval){m->begin, m->end};
    if (fine && is_library(c->profile, m))
        fine = haul__intervals_add(&c->calls, call.begin, call.end);
    return fine;
}

bool haul__costs_open(const haul_profile *p, haul__costs *out)
{
    HAUL__ASSERT(p->ended);
    *out = (haul__costs){.profile = p};
    for (size_t i = 0; i < p->count; i++)
        if (!note(out, &p->events[i]))
            return false;
    if (out->commands.count)
        qsort(out->commands.items, out->commands.count, sizeof *out->commands.items, by_copy);
    if (out->operations.count)
        qsort(out->operations.items, out->operations.count, sizeof *out->operations.items, by_copy);
    sort_backlog(out);
    haul__intervals_join(&out->computing);
    haul__intervals_join(&out->calls);
    return true;
}

void haul__costs_close(haul__costs *c)
{
    haul__free(c->commands.items);
    haul__free(c->operations.items);
    haul__free(c->computing.items);
    haul__free(c->calls.items);
    haul__free(c->backlog);
}

/* ---- costs ---- */

/* The time after `from` in which no device computes. */
static bool add_cost(const haul__costs *c, haul__interval when, int64_t from, haul__intervals *to)
{
    return haul__intervals_add_rest(to, when.begin > from ? when.begin : from, when.end, &c->computing);
}

bool haul__cost_of_copy(const haul__costs *c, const haul__profile_event *copy, bool link, haul__intervals *to)
{
    HAUL__ASSERT(copy->kind & HAUL_EVENT_COPY);
    const haul__pieces *all = &c->commands;
    const int64_t       from = computed_by(c, call_of(copy).begin);
    bool                fine = true;
    if (copy->thread == c->profile->thread)
        fine = add_cost(c, call_of(copy), from, to);
    for (size_t i = first_of(all, copy->copy); link && fine && i < all->count && all->items[i].copy == copy->copy; i++)
        fine = add_cost(c, all->items[i].when, from, to);
    return fine;
}

bool haul__cost_of_return(const haul__costs *c, const haul__profile_event *gone, const haul__profile_event *back,
                          haul__intervals *to)
{
    HAUL__ASSERT(gone < back && gone == &c->profile->events[back->flow.back_from - 1]);
    const haul__pieces *all = &c->operations;
    const uint64_t      number = back->flow.back_from;
    const int64_t       from = computed_by(c, call_of(gone).begin);
    haul__intervals     own = {.items = NULL};
    bool                fine = haul__cost_of_copy(c, gone, true, to) && haul__cost_of_copy(c, back, true, to);
    for (size_t i = first_of(all, number); fine && i < all->count && all->items[i].copy == number; i++)
        if (all->items[i].when.end <= back->end)
            fine = add_cost(c, all->items[i].when, from, to);
    if (fine && back->flow.changed)
        fine = haul__intervals_add_rest(&own, gone->end, call_of(back).begin, &c->calls);
    for (size_t i = 0; fine && i < own.count; i++)
        fine = add_cost(c, own.items[i], from, to);
    haul__free(own.items);
    return fine;
}

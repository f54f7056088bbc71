/* A subscriber to events that remembers what it heard. For a test program's one source file. */
#ifndef HAUL_TESTS_RECORD_H
#define HAUL_TESTS_RECORD_H

#include <haul/nn.h>
#include <stdio.h>

#include "events/events.h"
#include "support/moves.h"

enum { KEPT = 256, SHOWN = 16 };

typedef struct kept {
    haul_event   e;
    char         operation[48], origin[48], label[32], text[48], stream[16];
    char         problem[96], refused[640];
    char         kernel[64];
    haul_tensor *x[SHOWN], *y[SHOWN]; /* of a module's call, or of an operation */
    int          x_count, y_count;
} kept;

typedef struct record {
    kept events[KEPT];
    int  count;
} record;

static inline void keep(const haul_event *e, void *context)
{
    record *r = context;
    kept   *k = &r->events[r->count++ % KEPT];
    k->e = *e;
    snprintf(k->operation, sizeof k->operation, "%s", e->operation);
    snprintf(k->origin, sizeof k->origin, "%s", e->origin);
    snprintf(k->label, sizeof k->label, "%s", e->label);
    snprintf(k->text, sizeof k->text, "%s", e->text);
    snprintf(k->problem, sizeof k->problem, "%s", e->problem);
    snprintf(k->refused, sizeof k->refused, "%s", e->refused);
    k->x_count = e->x ? e->x->count : 0;
    k->y_count = e->y ? e->y->count : 0;
    for (int i = 0; i < k->x_count; i++)
        k->x[i] = e->x->tensors[i];
    for (int i = 0; i < k->y_count; i++)
        k->y[i] = e->y->tensors[i];
    snprintf(k->stream, sizeof k->stream, "%s", e->stream);
    snprintf(k->kernel, sizeof k->kernel, "%s", e->kernel);
}

/* The next event of one of the kinds from *at on; fails where there is none. */
static inline const kept *next(const record *r, int *at, uint32_t kinds)
{
    while (*at < r->count && !(r->events[*at].e.kind & kinds))
        ++*at;
    if (*at >= r->count || r->count > KEPT)
        fail_msg("%d events were heard, no other of kinds 0x%x among them", r->count, (unsigned)kinds);
    return &r->events[(*at)++];
}

static inline int count_of(const record *r, uint32_t kinds)
{
    int count = 0;
    for (int i = 0; i < r->count; i++)
        count += (r->events[i].e.kind & kinds) != 0;
    return count;
}

static inline int64_t listen_to(record *r, uint32_t kinds)
{
    *r = (record){.count = 0};
    int64_t id = haul_events_subscribe(keep, .kinds = kinds, .context = r);
    assert_true(id > 0);
    return id;
}

static inline void stop(int64_t id)
{
    assert_int_equal(haul_events_unsubscribe(id), HAUL_OK);
}

#define EVENT_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif

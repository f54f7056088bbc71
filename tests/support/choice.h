/* The report on the last choice of an implementation. */
#ifndef HAUL_TESTS_SUPPORT_CHOICE_H
#define HAUL_TESTS_SUPPORT_CHOICE_H

#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct choice {
    char    by[16], refused[320];
    int64_t id;
} choice;

static inline void take_choice(const haul_event *e, void *context)
{
    choice *c = context;
    snprintf(c->by, sizeof c->by, "%s", e->text);
    snprintf(c->refused, sizeof c->refused, "%s", e->refused);
}

static inline void listen_for_choices(choice *c)
{
    *c = (choice){.by = ""};
    c->id = haul_events_subscribe(take_choice, .kinds = HAUL_EVENT_IMPLEMENTATION, .context = c);
    assert_true(c->id > 0);
}

/* It was made by this implementation, which was refused scratch memory and computed nevertheless. */
static inline void assert_computed_with_less(const choice *c, const char *by)
{
    char begin[24];
    snprintf(begin, sizeof begin, "%s: ", by);
    assert_string_equal(c->by, by);
    if (strncmp(c->refused, begin, strlen(begin)) != 0 ||
        !strstr(c->refused, " KiB of scratch memory were refused, so it computed with less"))
        fail_msg("refused: %s", c->refused);
}

#endif

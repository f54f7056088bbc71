/* Texts as numbers: each different text is stored once. Number 0 is "". */
#ifndef HAUL_OBSERVE_PROFILE_TEXTS_H
#define HAUL_OBSERVE_PROFILE_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HAUL__TEXT_HINTS = 256 };

typedef struct haul__texts {
    char    **items;
    size_t    count, room;
    uint32_t *table; /* numbers by hash; 0 is a free slot */
    size_t    slots;
    /* by the address of the text: most texts are constants, and are found again there */
    struct {
        const char *at;
        uint32_t    number;
    } hints[HAUL__TEXT_HINTS];
} haul__texts;

bool haul__texts_open(haul__texts *t); /* false without memory */
void haul__texts_close(haul__texts *t);

/* The number of a text; 0 for NULL, and without memory for a new one. */
uint32_t haul__texts_number(haul__texts *t, const char *text);

static inline const char *haul__texts_at(const haul__texts *t, uint32_t number)
{
    return t->items[number];
}

#endif

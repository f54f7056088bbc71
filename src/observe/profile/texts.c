#include "observe/profile/texts.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fnv.h"

enum { FIRST_SLOTS = 1024 }; /* a power of two, as all numbers of slots */

/* The slot of the text in the table, or a free one for it. */
static size_t slot_of(const haul__texts *t, const char *text)
{
    HAUL__ASSERT(!(t->slots & (t->slots - 1)) && t->count <= t->slots);
    size_t at = haul__fnv(HAUL__FNV, text, strlen(text)) & (t->slots - 1);
    while (t->table[at] && strcmp(t->items[t->table[at]], text) != 0)
        at = (at + 1) & (t->slots - 1);
    return at;
}

bool haul__texts_open(haul__texts *t)
{
    *t = (haul__texts){.slots = FIRST_SLOTS};
    t->table = haul__calloc(FIRST_SLOTS, sizeof *t->table);
    if (!t->table || !haul__grow(&t->items, &t->room, 1, sizeof *t->items))
        return false;
    t->items[0] = haul__strdup("");
    t->count = t->items[0] != NULL;
    return t->items[0] != NULL;
}

void haul__texts_close(haul__texts *t)
{
    for (size_t i = 0; i < t->count; i++)
        haul__free(t->items[i]);
    haul__free(t->items);
    haul__free(t->table);
    *t = (haul__texts){.items = NULL};
}

/* Keeps half of the slots free. */
static bool widen(haul__texts *t)
{
    if (2 * t->count < t->slots)
        return true;
    uint32_t *table = haul__calloc(2 * t->slots, sizeof *table);
    if (!table)
        return false;
    haul__free(t->table);
    t->table = table;
    t->slots *= 2;
    for (uint32_t i = 1; i < t->count; i++)
        t->table[slot_of(t, t->items[i])] = i;
    return true;
}

static uint32_t add(haul__texts *t, size_t slot, const char *text)
{
    HAUL__ASSERT(!t->table[slot] && t->count > 0);
    char *copy = haul__strdup(text);
    if (!copy || t->count >= UINT32_MAX || !haul__grow(&t->items, &t->room, t->count + 1, sizeof *t->items)) {
        haul__free(copy);
        return 0;
    }
    t->items[t->count] = copy;
    t->table[slot] = (uint32_t)t->count;
    return (uint32_t)t->count++;
}

uint32_t haul__texts_number(haul__texts *t, const char *text)
{
    if (!text || !*text)
        return 0;
    const size_t   hint = (uintptr_t)text / 8 % HAUL__TEXT_HINTS;
    const uint32_t known = t->hints[hint].at == text ? t->hints[hint].number : 0;
    HAUL__ASSERT(!known || known < t->count);
    if (known && strcmp(t->items[known], text) == 0)
        return known;
    if (!widen(t))
        return 0;
    const size_t   slot = slot_of(t, text);
    const uint32_t number = t->table[slot] ? t->table[slot] : add(t, slot, text);
    HAUL__ASSERT(number < t->count);
    t->hints[hint].at = text;
    t->hints[hint].number = number;
    return number;
}

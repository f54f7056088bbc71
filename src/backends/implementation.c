/* The names of implementations, and those that the user leaves out. */
#include "backends/implementation.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/list.h"
#include "base/text/word_list.h"
#include "core/error.h"

_Static_assert(HAUL__IMPLEMENTATIONS <= 30, "a set of implementations is a word with a bit to spare");

static const char *const names[] = {
#define X(name) #name,
#include "backends/implementations.def"
#undef X
};

atomic_uint haul__without = HAUL__WITHOUT_UNKNOWN;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char           wrong[40]; /* the first name that cannot be left out; "" if there is none */

const char *haul__implementation_name(haul__implementation_id id)
{
    HAUL__ASSERT((size_t)id < sizeof names / sizeof *names);
    return names[id];
}

static int find(const char *word, size_t length)
{
    for (int i = 0; i < HAUL__IMPLEMENTATIONS; i++)
        if (strlen(names[i]) == length && strncmp(names[i], word, length) == 0)
            return i;
    return -1;
}

static void read_list(void)
{
    const char *at = getenv("HAUL_WITHOUT");
    uint32_t    ids = 0;
    for (size_t length; (length = haul__word_list_next(&at)); at += length) {
        int id = find(at, length);
        if (id >= 0 && id != HAUL__BY_kernel)
            ids |= 1u << id;
        else if (!*wrong)
            snprintf(wrong, sizeof wrong, "%.*s", (int)(length < 39 ? length : 39), at);
    }
    atomic_store_explicit(&haul__without, *wrong ? ids | HAUL__WITHOUT_UNKNOWN : ids, memory_order_relaxed);
}

/* "onednn, direct, tiles": those that can be left out. */
static const char *all_names(char *out, size_t size)
{
    *out = '\0';
    for (int i = 0; i < HAUL__BY_kernel; i++)
        haul__list_add(out, size, "%s", names[i]);
    return out;
}

static haul_status refuse_wrong(void)
{
    char known[160];
    if (strcmp(wrong, names[HAUL__BY_kernel]) == 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, NULL, wrong,
                          "HAUL_WITHOUT names \"%s\", which cannot be left out, because only it computes every "
                          "problem; these can: %s",
                          wrong, all_names(known, sizeof known));
    return haul__fail(HAUL_INVALID_ARGUMENT, NULL, wrong,
                      "HAUL_WITHOUT names \"%s\", which is not an implementation; these can be left out: %s", wrong,
                      all_names(known, sizeof known));
}

haul_status haul__without_read(uint32_t *ids)
{
    pthread_once(&once, read_list);
    *ids = atomic_load_explicit(&haul__without, memory_order_relaxed) & ~(uint32_t)HAUL__WITHOUT_UNKNOWN;
    return *wrong ? refuse_wrong() : HAUL_OK;
}

bool haul__implementation_left_out(haul__implementation_id id)
{
    HAUL__ASSERT((size_t)id < sizeof names / sizeof *names);
    pthread_once(&once, read_list);
    return atomic_load_explicit(&haul__without, memory_order_relaxed) >> id & 1;
}

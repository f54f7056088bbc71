/* HAUL_DEBUG: a list of words, most of which name subscribers that write to standard error.
 *
 * "dispatch" reports each new choice of an implementation: operation, device, problem, the implementation that runs,
 * and the preferred ones that refused. A choice is new if the same line was not written before.
 *
 * These subscribers are here, and not with the others in src/observe, because no function of the program refers to
 * them: they must be in every program that is linked to the static library. */
#include "events/debug.h"

#include <haul/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"
#include "base/text/word_list.h"

/* ---- dispatch ---- */

enum { LINE = 1024, PLACES = 4096 /* a power of two */, MOST = PLACES / 4 * 3 };

/* Hashes of the lines so far; 0 is a free slot. Only one thread at a time calls process-wide subscribers. */
static uint64_t seen[PLACES];
static int      seen_count;

/* Never 0. */
static uint64_t hash_of(const char *text)
{
    const uint64_t hash = haul__fnv(HAUL__FNV, text, strlen(text));
    return hash ? hash : 1;
}

static bool is_new(uint64_t hash)
{
    size_t at = hash % PLACES;
    for (; seen[at]; at = (at + 1) % PLACES)
        if (seen[at] == hash)
            return false;
    seen[at] = hash;
    seen_count++;
    return true;
}

static void report_choice(const haul_event *e, void *context)
{
    char line[LINE];
    (void)context;
    if (seen_count == MOST)
        return;
    snprintf(line, sizeof line, "%s on %s, %s: %s%s%s%s", e->operation, haul_device_name(e->device), e->problem,
             e->text, *e->refused ? " (" : "", e->refused, *e->refused ? ")" : "");
    if (!is_new(hash_of(line)))
        return;
    fprintf(stderr, "%s\n", line);
    if (seen_count == MOST)
        fprintf(stderr, "HAUL_DEBUG: %d choices were reported; later ones are not\n", MOST);
}

/* ---- the list ---- */

static struct {
    const char      *word;
    haul__subscriber subscriber;
} words[] = {
    {.word = "lifetimes"}, /* core/lifetime.c reads it */
    {"dispatch", {.of = {.take = report_choice, .kinds = HAUL_EVENT_IMPLEMENTATION, .everywhere = true}}},
};

enum { WORDS = sizeof words / sizeof words[0] };

static void switch_on(const char *word, size_t length, bool (*attach)(haul__subscriber *))
{
    for (int i = 0; i < WORDS; i++) {
        if (strlen(words[i].word) != length || strncmp(words[i].word, word, length) != 0)
            continue;
        if (words[i].subscriber.of.take)
            attach(&words[i].subscriber);
        return;
    }
    fprintf(stderr, "HAUL_DEBUG: \"%.*s\" is not known; these are: ", (int)(length < 80 ? length : 80), word);
    for (int i = 0; i < WORDS; i++)
        fprintf(stderr, "%s%s", words[i].word, i + 1 < WORDS ? ", " : "\n");
}

void haul__debug_begin(bool (*attach)(haul__subscriber *subscriber))
{
    const char *at = getenv("HAUL_DEBUG");
    for (size_t length; (length = haul__word_list_next(&at)); at += length)
        switch_on(at, length, attach);
}

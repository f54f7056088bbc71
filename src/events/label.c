/* The user's labels. The thread keeps them with or without subscribers, so that a later subscriber finds them. */
#include "events/label.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "events/events.h"

enum { DEEPEST = 32 };

/* Allocated separately, because thread-local memory is scarce in programs that load the library late. */
typedef struct label {
    struct label *outer;
    const char   *text;
    int64_t       began; /* 0: there was no subscriber when it began */
} label;

static _Thread_local label *innermost;
static _Thread_local int    depth;

const char *haul__label(void)
{
    return innermost ? innermost->text : "";
}

haul_status haul_label_begin(const char *text)
{
    if (!text)
        return haul__fail_null("haul_label_begin", "text");
    if (depth == DEEPEST)
        return haul__fail(HAUL_STATE, "haul_label_begin", NULL,
                          "%d labels are open, which is the limit; end one with haul_label_end", DEEPEST);
    label *new = haul__malloc(sizeof *new);
    if (!new)
        return haul__fail_memory("haul_label_begin", sizeof *new);
    *new = (label){innermost, text, 0};
    if (haul__watched(HAUL_EVENT_LABEL))
        new->began = haul__emit_begin(&(haul_event){.kind = HAUL_EVENT_LABEL_BEGIN, .text = text});
    innermost = new;
    depth++;
    HAUL__ASSERT(depth <= DEEPEST && (depth == 1) == (new->outer == NULL));
    return HAUL_OK;
}

haul_status haul_label_end(void)
{
    label *ended = innermost;
    if (!ended)
        return haul__fail(HAUL_STATE, "haul_label_end", NULL,
                          "no label is open on this thread; expected one haul_label_begin for each haul_label_end");
    HAUL__ASSERT(depth > 0 && depth <= DEEPEST);
    innermost = ended->outer;
    depth--;
    HAUL__ASSERT((depth == 0) == (innermost == NULL));
    haul__emit_end(&(haul_event){.kind = HAUL_EVENT_LABEL_END, .text = ended->text}, ended->began);
    haul__free(ended);
    return HAUL_OK;
}

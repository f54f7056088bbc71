/* The user's labels: kept by the thread whether anybody listens or not, so that a subscriber that comes later finds
 * them. */
#include "events/label.h"

#include "core/error.h"
#include "events/events.h"

enum { DEEPEST = 32 };

static _Thread_local struct {
    int depth;
    struct {
        const char *text;
        int64_t     began; /* 0: nobody heard it begin */
    } open[DEEPEST];
} labels;

const char *haul__label(void)
{
    return labels.depth ? labels.open[labels.depth - 1].text : "";
}

haul_status haul_label_begin(const char *text)
{
    int64_t began = 0;
    if (!text)
        return haul__fail_null("haul_label_begin", "text");
    if (labels.depth == DEEPEST)
        return haul__fail(HAUL_STATE, "haul_label_begin", NULL,
                          "%d labels are open already, as many as may be; end one with haul_label_end", DEEPEST);
    if (haul__watched(HAUL_EVENT_LABEL))
        began = haul__emit_begin(&(haul_event){.kind = HAUL_EVENT_LABEL_BEGIN, .text = text});
    labels.open[labels.depth].text = text;
    labels.open[labels.depth++].began = began;
    return HAUL_OK;
}

haul_status haul_label_end(void)
{
    if (labels.depth == 0)
        return haul__fail(HAUL_STATE, "haul_label_end", NULL,
                          "no label is open on this thread; expected one haul_label_begin for each haul_label_end");
    const char *text = labels.open[--labels.depth].text;
    haul__emit_end(&(haul_event){.kind = HAUL_EVENT_LABEL_END, .text = text}, labels.open[labels.depth].began);
    return HAUL_OK;
}

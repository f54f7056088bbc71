/* What more or less memory would change, as a sentence. */
#include "base/text/duration.h"
#include "base/text/plain.h"
#include "memory/report/origins.h"
#include "plan/choose/choose.h"

typedef struct sentence {
    char  *out;
    size_t size, used;
} sentence;

static void put(sentence *s, const char *text)
{
    if (s->used < s->size)
        s->used += (size_t)haul__snprintf(s->out + s->used, s->size - s->used, "%s", text);
}

static void put_other(sentence *s, const haul__choose_other *o, int64_t ps, bool more)
{
    char          text[48], time[HAUL__DURATION];
    const int64_t change = more ? ps - o->ps : o->ps - ps;
    put(s, haul__size_text(o->bytes, text, sizeof text));
    put(s, more ? " more would " : " less would ");
    if (!o->fits) {
        put(s, "not fit");
        return;
    }
    put(s, more ? "save " : "cost ");
    put(s, change > 0 ? haul__duration_text(change, time) : "nothing");
}

const char *haul__chosen_sentence(const haul__chosen *c, char *out, size_t size)
{
    sentence s = {out, size, 0};
    if (size)
        *out = '\0';
    if (!c->fits)
        return out;
    if (c->more.bytes)
        put_other(&s, &c->more, c->ps, true);
    else
        put(&s, "more memory would save nothing");
    if (c->less.bytes) {
        put(&s, "; ");
        put_other(&s, &c->less, c->ps, false);
    }
    return out;
}

/* What more or less memory would change, as a sentence. */
#include "base/text/duration.h"
#include "base/text/plain.h"
#include "plan/choose/choose.h"

static int put_bytes(char *out, size_t size, int64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double                   value = (double)bytes;
    int                      unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    return haul__snprintf(out, size, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

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
    const int64_t saves = more ? ps - o->ps : o->ps - ps;
    put_bytes(text, sizeof text, o->bytes);
    put(s, text);
    put(s, more ? " more would " : " less ");
    if (!o->fits) {
        put(s, more ? "not fit" : "would not fit");
        return;
    }
    put(s, saves <= 0 ? more ? "save nothing" : "would cost nothing" : more ? "save " : "would cost ");
    put(s, saves > 0 ? haul__duration_text(saves, time) : "");
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

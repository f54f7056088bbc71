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

static void put_time(sentence *s, const char *verb, int64_t bytes, int64_t ps)
{
    char text[48], time[HAUL__DURATION];
    put(s, haul__size_text(bytes, text, sizeof text));
    put(s, verb);
    put(s, haul__duration_text(ps, time));
}

static void put_more(sentence *s, const haul__chosen *c)
{
    const haul__choose_other *o = &c->more;
    char                      text[48];
    if (o->bytes && o->fits && o->ps < c->ps) {
        put_time(s, " more would save ", o->bytes, c->ps - o->ps);
        return;
    }
    if (o->bytes && c->ps > c->free_ps) {
        put(s, haul__size_text(o->bytes, text, sizeof text));
        put(s, " more");
    } else {
        put(s, "more memory");
    }
    put(s, " would not make the step faster");
}

static void put_less(sentence *s, const haul__chosen *c)
{
    const haul__choose_other *o = &c->less;
    char                      text[48];
    if (o->fits && o->ps > c->ps) {
        put_time(s, " less would cost ", o->bytes, o->ps - c->ps);
        return;
    }
    if (!o->fits)
        put(s, "with ");
    put(s, haul__size_text(o->bytes, text, sizeof text));
    put(s, o->fits ? " less would not make it slower" : " less it would not fit");
}

const char *haul__chosen_sentence(const haul__chosen *c, char *out, size_t size)
{
    sentence s = {out, size, 0};
    if (size)
        *out = '\0';
    if (!c->fits)
        return out;
    put_more(&s, c);
    if (c->less.bytes) {
        put(&s, "; ");
        put_less(&s, c);
    }
    return out;
}

#include "base/text/json_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "base/text/utf8.h"

static void put(haul__json_text *t, const char *bytes, size_t length)
{
    if (t->used < t->size) {
        size_t room = t->size - t->used;
        memcpy(t->out + t->used, bytes, length < room ? length : room);
    }
    t->used += length;
}

static void put_quoted(haul__json_text *t, const char *text)
{
    static const char unknown[] = "\xef\xbf\xbd"; /* U+FFFD */
    const size_t      all = strlen(text);
    char              escape[8];
    put(t, "\"", 1);
    for (size_t i = 0, length; i < all; i += length) {
        const unsigned char c = (unsigned char)text[i];
        length = haul__utf8_length((const uint8_t *)text + i, all - i);
        if (!length) {
            put(t, unknown, sizeof unknown - 1);
            length = 1;
        } else if (c == '"' || c == '\\') {
            put(t, escape, (size_t)snprintf(escape, sizeof escape, "\\%c", c));
        } else if (c < ' ') {
            put(t, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", c));
        } else {
            put(t, text + i, length);
        }
        HAUL__ASSERT(length <= all - i);
    }
    put(t, "\"", 1);
}

static void begin_value(haul__json_text *t, const char *name)
{
    if (t->follows)
        put(t, ",", 1);
    t->follows = true;
    if (name) {
        put_quoted(t, name);
        put(t, ":", 1);
    }
}

void haul__json_begin(haul__json_text *t, const char *name, char bracket)
{
    begin_value(t, name);
    put(t, &bracket, 1);
    t->follows = false;
}

void haul__json_end(haul__json_text *t, char bracket)
{
    put(t, &bracket, 1);
    t->follows = true;
}

void haul__json_integer(haul__json_text *t, const char *name, int64_t value)
{
    char digits[24];
    begin_value(t, name);
    put(t, digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)value));
}

void haul__json_number(haul__json_text *t, const char *name, double value)
{
    char digits[32];
    begin_value(t, name);
    if (isfinite(value))
        put(t, digits, (size_t)haul__snprintf(digits, sizeof digits, "%.9g", value));
    else
        put(t, "null", 4);
}

void haul__json_bool(haul__json_text *t, const char *name, bool value)
{
    begin_value(t, name);
    put(t, value ? "true" : "false", value ? 4 : 5);
}

void haul__json_string(haul__json_text *t, const char *name, const char *value)
{
    begin_value(t, name);
    put_quoted(t, value);
}

int64_t haul__json_finish(haul__json_text *t)
{
    HAUL__ASSERT(t->out || !t->size);
    if (t->size)
        t->out[t->used < t->size ? t->used : t->size - 1] = 0;
    return (int64_t)t->used;
}

char *haul__json_make(void (*write)(haul__json_text *t, const void *of), const void *of, size_t *length)
{
    haul__json_text t = {.out = NULL};
    write(&t, of);
    *length = (size_t)haul__json_finish(&t);
    char *text = haul__malloc(*length + 1);
    if (!text)
        return NULL;
    t = (haul__json_text){.out = text, .size = *length + 1};
    write(&t, of);
    const int64_t again = haul__json_finish(&t);
    HAUL__ASSERT((size_t)again == *length);
    return text;
}

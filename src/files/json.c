/* A recursive descent parser of JSON. */
#include "files/json.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

typedef struct reader {
    const uint8_t *at, *end;
    const char    *operation;
    haul_status    status; /* of memory */
} reader;

static haul__json *read_value(reader *r, int depth);

static void skip_blanks(reader *r)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
        r->at++;
}

/* True if `byte` is next, after blanks. Reads it. */
static bool take(reader *r, uint8_t byte)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != byte)
        return false;
    r->at++;
    return true;
}

/* ---- strings ---- */

/* Four hexadecimal digits; -1 if they are not there. */
static long read_hex(reader *r)
{
    static const char digits[] = "0123456789abcdef";
    long              value = 0;
    if (r->end - r->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int         byte = *r->at >= 'A' && *r->at <= 'F' ? *r->at + 'a' - 'A' : *r->at;
        const char *digit = byte ? strchr(digits, byte) : NULL;
        if (!digit)
            return -1;
        value = value * 16 + (digit - digits);
        r->at++;
    }
    HAUL__ASSERT(0 <= value && value <= 0xffff);
    return value;
}

/* What follows \u; a pair of surrogates is one character. A zero would end the string: it is none. */
static long read_character(reader *r)
{
    long high = read_hex(r);
    if (high <= 0 || (high >= 0xdc00 && high < 0xe000))
        return -1;
    if (high < 0xd800 || high >= 0xe000)
        return high;
    if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
        return -1;
    r->at += 2;
    long low = read_hex(r);
    return low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00) : -1;
}

static char *put_utf8(char *out, long character)
{
    static const struct {
        long below;
        int  head, more; /* the first byte's mark, and how many bytes follow */
    } forms[] = {{0x80, 0, 0}, {0x800, 0xc0, 1}, {0x10000, 0xe0, 2}, {0x110000, 0xf0, 3}};
    HAUL__ASSERT(0 < character && character < 0x110000);
    int form = 0;
    while (character >= forms[form].below)
        form++;
    *out++ = (char)(forms[form].head | (int)(character >> (6 * forms[form].more)));
    for (int i = forms[form].more - 1; i >= 0; i--)
        *out++ = (char)(0x80 | ((int)(character >> (6 * i)) & 0x3f));
    return out;
}

/* After a backslash; NULL if the escape is unknown. */
static char *read_escape(reader *r, char *out)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end || !*r->at)
        return NULL;
    uint8_t     byte = *r->at++;
    const char *found = strchr(names, byte);
    if (found) {
        *out++ = values[found - names];
        return out;
    }
    long character = byte == 'u' ? read_character(r) : -1;
    return character < 0 ? NULL : put_utf8(out, character);
}

/* The string behind its first quote; NULL if it is none, or memory is exhausted. No escape is shorter than its value.
 */
static char *read_string(reader *r)
{
    size_t size = 0, left = (size_t)(r->end - r->at);
    while (size < left && r->at[size] != '"')
        size += r->at[size] == '\\' ? 2 : 1;
    if (size >= left)
        return NULL;
    const uint8_t *close = r->at + size;
    char          *string = haul__malloc(size + 1), *out = string;
    if (!string)
        r->status = haul__fail_memory(r->operation, size + 1);
    while (out && r->at < close) {
        uint8_t byte = *r->at++;
        if (byte == '\\')
            out = read_escape(r, out);
        else if (byte < ' ')
            out = NULL;
        else
            *out++ = (char)byte;
    }
    if (!out) {
        haul__free(string);
        return NULL;
    }
    HAUL__ASSERT(r->at == close && (size_t)(out - string) <= size); /* no escape is shorter than its value */
    *out = '\0';
    r->at++;
    return string;
}

/* ---- values ---- */

/* Keeps the text from `first` to the reader's place as the value's string. */
static bool keep_text(reader *r, const uint8_t *first, haul__json *value)
{
    const size_t size = (size_t)(r->at - first);
    value->string = haul__malloc(size + 1);
    if (!value->string) {
        r->status = haul__fail_memory(r->operation, size + 1);
        return false;
    }
    HAUL__ASSERT(first <= r->at && r->at <= r->end);
    memcpy(value->string, first, size);
    value->string[size] = '\0';
    return true;
}

/* Goes past digits; returns how many there are. */
static size_t skip_digits(reader *r)
{
    const uint8_t *first = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return (size_t)(r->at - first);
}

static bool skip_byte(reader *r, const char *bytes)
{
    if (r->at == r->end || !*r->at || !strchr(bytes, *r->at))
        return false;
    r->at++;
    return true;
}

static uint64_t value_of_digits(const uint8_t *at, const uint8_t *end)
{
    uint64_t value = 0;
    for (; at < end; at++) {
        uint64_t digit = (uint64_t)*at - '0';
        value = value > (UINT64_MAX - digit) / 10 ? UINT64_MAX : value * 10 + digit;
    }
    return value;
}

static bool read_number(reader *r, haul__json *value)
{
    const uint8_t *first = r->at;
    const bool     negative = skip_byte(r, "-");
    const uint8_t *digits = r->at;
    const size_t   count = skip_digits(r);
    if (!count || (*digits == '0' && count > 1))
        return false;
    const uint8_t *whole = r->at;
    if (skip_byte(r, ".") && !skip_digits(r))
        return false;
    if (skip_byte(r, "eE")) {
        skip_byte(r, "+-");
        if (!skip_digits(r))
            return false;
    }
    HAUL__ASSERT(digits < whole && whole <= r->at && r->at <= r->end);
    value->kind = negative || r->at > whole ? HAUL__JSON_DECIMAL : HAUL__JSON_NUMBER;
    value->number = value->kind == HAUL__JSON_NUMBER ? value_of_digits(digits, whole) : 0;
    return value->kind == HAUL__JSON_NUMBER || keep_text(r, first, value);
}

static bool read_literal(reader *r, haul__json *value)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t size = strlen(words[i]);
        if ((size_t)(r->end - r->at) < size || memcmp(r->at, words[i], size) != 0)
            continue;
        r->at += size;
        return keep_text(r, r->at - size, value);
    }
    return false;
}

/* One child, and its name in an object. */
static haul__json *read_child(reader *r, bool named, int depth)
{
    char *name = NULL;
    if (named) {
        name = take(r, '"') ? read_string(r) : NULL;
        if (!name)
            return NULL;
    }
    haul__json *child = !named || take(r, ':') ? read_value(r, depth) : NULL;
    if (child)
        child->name = name;
    else
        haul__free(name);
    return child;
}

static bool read_children(reader *r, haul__json *parent, int depth)
{
    bool         named = parent->kind == HAUL__JSON_OBJECT;
    uint8_t      close = named ? '}' : ']';
    haul__json **end = &parent->child;
    HAUL__ASSERT(!parent->child && !parent->count);
    if (take(r, close))
        return true;
    do {
        haul__json *child = depth ? read_child(r, named, depth - 1) : NULL;
        if (!child)
            return false;
        *end = child;
        end = &child->next;
        parent->count++;
    } while (take(r, ','));
    return take(r, close);
}

static bool read_into(reader *r, haul__json *value, int depth)
{
    if (take(r, '{')) {
        value->kind = HAUL__JSON_OBJECT;
        return read_children(r, value, depth);
    }
    if (take(r, '[')) {
        value->kind = HAUL__JSON_ARRAY;
        return read_children(r, value, depth);
    }
    if (take(r, '"')) {
        value->kind = HAUL__JSON_STRING;
        value->string = read_string(r);
        return value->string;
    }
    return read_literal(r, value) || (!r->status && read_number(r, value));
}

static haul__json *read_value(reader *r, int depth)
{
    haul__json *value = haul__calloc(1, sizeof *value);
    if (!value) {
        r->status = haul__fail_memory(r->operation, sizeof *value);
        return NULL;
    }
    if (read_into(r, value, depth))
        return value;
    haul__json_free(value);
    return NULL;
}

haul_status haul__json_read(const char *operation, const uint8_t *text, size_t size, int depth, haul__json **out,
                            size_t *used)
{
    reader r = {.at = text, .end = text + size, .operation = operation};
    *out = read_value(&r, depth);
    *used = (size_t)(r.at - text);
    return r.status;
}

haul_status haul__json_read_all(const char *operation, const uint8_t *text, size_t size, int depth, haul__json **out,
                                size_t *used)
{
    const haul_status status = haul__json_read(operation, text, size, depth, out, used);
    reader            rest = {.at = text + *used, .end = text + size};
    skip_blanks(&rest);
    *used = (size_t)(rest.at - text);
    if (rest.at < rest.end) {
        haul__json_free(*out);
        *out = NULL;
    }
    return status;
}

void haul__json_free(haul__json *value)
{
    while (value) {
        haul__json *next = value->next;
        haul__json_free(value->child);
        haul__free(value->name);
        haul__free(value->string);
        haul__free(value);
        value = next;
    }
}

const haul__json *haul__json_member(const haul__json *value, const char *name)
{
    const haul__json *m = value->kind == HAUL__JSON_OBJECT ? value->child : NULL;
    while (m && strcmp(m->name, name) != 0)
        m = m->next;
    return m;
}

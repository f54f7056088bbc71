#include "cli/report/draw/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"

void html_free(html *h)
{
    free(h->text);
    *h = (html){0};
}

static bool grow(html *h, size_t count)
{
    enum { FIRST = 1 << 14 };
    size_t room = h->room ? h->room : FIRST;
    if (h->failed || count < h->room - h->length)
        return !h->failed;
    while (room - h->length <= count && room <= SIZE_MAX / 2)
        room *= 2;
    char *grown = room - h->length > count ? realloc(h->text, room) : NULL;
    h->failed = !grown;
    if (!grown)
        return false;
    h->text = grown;
    h->room = room;
    return true;
}

static void add_bytes(html *h, const char *bytes, size_t count)
{
    if (!grow(h, count))
        return;
    memcpy(h->text + h->length, bytes, count);
    h->length += count;
    h->text[h->length] = 0;
}

void html_put(html *h, const char *markup)
{
    add_bytes(h, markup, strlen(markup));
}

/* ---- escaping ---- */

static const char *entity(char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

/* Control characters and those that change the direction of what follows are shown by their number. Lines stay. */
static void add_part(html *h, const char *text, const char *end)
{
    while (text < end) {
        uint32_t     code;
        char         number[16];
        const char  *named = entity(*text);
        const size_t length = character_at(text, &code);
        const bool   obeyed = *text != '\n' && *text != '\t' && obeyed_length(text, &code);

        if (named) {
            html_put(h, named);
        } else if (code == UINT32_MAX) {
            html_put(h, "\xef\xbf\xbd"); /* U+FFFD stands for bytes that are not UTF-8 */
        } else if (obeyed) {
            snprintf(number, sizeof number, "U+%04X", (unsigned)code & 0xffff);
            html_put(h, number);
        } else {
            add_bytes(h, text, length);
        }
        text += length;
    }
}

static void add_escaped(html *h, const char *text)
{
    add_part(h, text, text + strlen(text));
}

void html_name(html *h, const char *name)
{
    html_put(h, "<bdi>");
    for (const char *end; (end = strchr(name, '_')); name = end + 1) {
        add_part(h, name, end + 1);
        if (end[1])
            html_put(h, "<wbr>");
    }
    add_escaped(h, name);
    html_put(h, "</bdi>");
}

/* ---- values ---- */

static void add_real(html *h, char kind, int digits, double value)
{
    char text[400];
    if (!isfinite(value))
        snprintf(text, sizeof text, "-");
    else if (kind == 'f' && fabs(value) < 1e300)
        snprintf(text, sizeof text, "%.*f", digits, value);
    else
        snprintf(text, sizeof text, "%.*g", digits, value);
    html_put(h, text);
}

static void add_integer(html *h, long long value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", value);
    html_put(h, text);
}

/* The format continues behind the returned text. `at` is a percent sign. */
static const char *add_value(html *h, const char *at, va_list *values)
{
    int         digits = 6;
    const char *kind = at + 1;
    if (*kind == '.' && kind[1] == '*') {
        digits = va_arg(*values, int);
        kind += 2;
    } else if (*kind == '.') {
        char *end;
        digits = (int)strtol(kind + 1, &end, 10);
        kind = end;
    }
    if (*kind == 's')
        add_escaped(h, va_arg(*values, const char *));
    else if (*kind == 'd')
        add_integer(h, va_arg(*values, int));
    else if (*kind == 'l') /* lld */
        add_integer(h, va_arg(*values, long long)), kind += 2;
    else if (*kind == '%')
        html_put(h, "%");
    else
        add_real(h, *kind, digits, va_arg(*values, double));
    return kind + 1;
}

void html_add(html *h, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    while (*format) {
        size_t plain = strcspn(format, "%");
        add_bytes(h, format, plain);
        format += plain;
        if (*format)
            format = add_value(h, format, &values);
    }
    va_end(values);
}

/* ---- pictures ---- */

void html_png(html *h, const unsigned char *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    html_put(h, " src=\"data:image/png;base64,");
    for (size_t i = 0; i < count; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16 | (i + 1 < count ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (i + 2 < count ? (uint32_t)bytes[i + 2] : 0);
        char four[] = {digits[three >> 18], digits[three >> 12 & 63], i + 1 < count ? digits[three >> 6 & 63] : '=',
                       i + 2 < count ? digits[three & 63] : '='};
        add_bytes(h, four, sizeof four);
    }
    html_put(h, "\"");
}

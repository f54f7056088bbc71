/* Checks of text from files. */
#include <string.h>

#include "io/safetensors.h"

/* The length of the UTF-8 sequence at `p`, where `left` bytes of the text remain; 0 if it is invalid (RFC 3629: no
 * overlong forms, no surrogates, nothing above U+10FFFF). */
static size_t sequence(const uint8_t *p, size_t left)
{
    static const struct {
        uint8_t first, last, low, high, length; /* of the first byte; bounds of the second; total length */
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    if (*p < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (*p < forms[i].first || *p > forms[i].last)
            continue;
        if (left < forms[i].length || p[1] < forms[i].low || p[1] > forms[i].high)
            return 0;
        for (size_t k = 2; k < forms[i].length; k++)
            if (p[k] < 0x80 || p[k] > 0xbf)
                return 0;
        return forms[i].length;
    }
    return 0;
}

bool haul__is_utf8(const uint8_t *text, size_t size)
{
    for (size_t i = 0, n; i < size; i += n)
        if (!(n = sequence(text + i, size - i)))
            return false;
    return true;
}

char *haul__quoted(const char *name, char buffer[HAUL__QUOTED_SIZE])
{
    size_t length = strlen(name), kept = 0, n;
    buffer[0] = '\'';
    for (size_t i = 0; i < length; i += n) {
        if (!(n = sequence((const uint8_t *)name + i, length - i)))
            n = 1;
        if (kept + n > HAUL__QUOTED_SIZE - 6) { /* room for ...' and the end */
            memcpy(buffer + 1 + kept, "...", 3);
            kept += 3;
            break;
        }
        memcpy(buffer + 1 + kept, name + i, n);
        if (n == 1 && (name[i] < ' ' || name[i] == 0x7f))
            buffer[1 + kept] = '?';
        kept += n;
    }
    buffer[1 + kept] = '\'';
    buffer[2 + kept] = 0;
    return buffer;
}

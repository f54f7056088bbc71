#include "base/text/utf8.h"

#include <string.h>

#include "base/assert.h"

size_t haul__utf8_length(const uint8_t *p, size_t left)
{
    static const struct {
        uint8_t first, last, low, high, length; /* of the first byte; bounds of the second; total length */
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    HAUL__ASSERT(left > 0);
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

uint32_t haul__utf8_code(const uint8_t *p, size_t length)
{
    uint32_t code = length == 1 ? p[0] : p[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++)
        code = code << 6 | (p[i] & 0x3fu);
    HAUL__ASSERT(0 < length && length <= 4 && code <= 0x10ffff);
    return code;
}

bool haul__is_utf8(const uint8_t *text, size_t size)
{
    for (size_t i = 0, n; i < size; i += n)
        if (!(n = haul__utf8_length(text + i, size - i)))
            return false;
    return true;
}

void haul__utf8_copy(char *out, size_t size, const char *text)
{
    size_t length = strlen(text);
    if (length >= size) {
        length = size - 1;
        for (int i = 0; i < 3 && length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80; i++)
            length--;
    }
    HAUL__ASSERT(length < size);
    memcpy(out, text, length);
    out[length] = 0;
}

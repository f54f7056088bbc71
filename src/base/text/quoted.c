#include "base/text/quoted.h"

#include <string.h>

#include "base/assert.h"
#include "base/text/utf8.h"

char *haul__quoted(const char *name, char buffer[HAUL__QUOTED_SIZE])
{
    size_t length = strlen(name), kept = 0, n;
    buffer[0] = '\'';
    for (size_t i = 0; i < length; i += n) {
        if (!(n = haul__utf8_length((const uint8_t *)name + i, length - i)))
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
    HAUL__ASSERT(2 + kept < HAUL__QUOTED_SIZE);
    buffer[1 + kept] = '\'';
    buffer[2 + kept] = 0;
    return buffer;
}

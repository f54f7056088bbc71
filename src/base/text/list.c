#include "base/text/list.h"

#include <string.h>

#include "base/assert.h"
#include "base/text/plain.h"

char *haul__list_add(char *list, size_t size, const char *format, ...)
{
    const size_t used = strlen(list), comma = used ? strlen(", ") : 0;
    va_list      arguments;
    HAUL__ASSERT(used < size);
    if (used + comma >= size)
        return list;
    memcpy(list + used, ", ", comma);
    va_start(arguments, format);
    haul__vsnprintf(list + used + comma, size - used - comma, format, arguments);
    va_end(arguments);
    return list;
}

const char *haul__list_separator(int i, int count, const char *last)
{
    return !i ? "" : i + 1 < count ? ", " : last;
}

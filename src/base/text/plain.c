/* Text that does not depend on the program's locale. A program that speaks its user's language sets one, whose numbers
 * may have a comma. Threads may write at the same time, so the library never sets the process's locale: it switches the
 * calling thread to a "C" locale of its own, which costs a few nanoseconds. */
#include "base/text/plain.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t       plain; /* 0 if there is no memory for it: then the program's locale stays */
static pthread_once_t plain_once = PTHREAD_ONCE_INIT;

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static locale_t get_plain(void)
{
    pthread_once(&plain_once, make_plain);
    return plain;
}

int haul__vsnprintf(char *out, size_t size, const char *format, va_list arguments)
{
    const locale_t before = get_plain() ? uselocale(plain) : (locale_t)0;
    const int      length = vsnprintf(out, size, format, arguments);
    if (before)
        uselocale(before);
    return length;
}

int haul__snprintf(char *out, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = haul__vsnprintf(out, size, format, arguments);
    va_end(arguments);
    return length;
}

double haul__strtod(const char *text, char **end)
{
    return get_plain() ? strtod_l(text, end, plain) : strtod(text, end);
}

const char *haul__strerror(int error)
{
    return get_plain() ? strerror_l(error, plain) : strerror(error);
}

/* Text that does not depend on the program's locale: numbers have a point, and messages of the system are in English.
 * The library writes floating-point numbers, and formats that a caller passes, with these functions only, and reads
 * numbers with haul__strtod only (tests/tree/plain_text.py). */
#ifndef HAUL_BASE_TEXT_PLAIN_H
#define HAUL_BASE_TEXT_PLAIN_H

#include <haul/base.h>
#include <stdarg.h>
#include <stddef.h>

/* snprintf and vsnprintf. */
int haul__snprintf(char *out, size_t size, const char *format, ...) HAUL_PRINTF(3, 4);
int haul__vsnprintf(char *out, size_t size, const char *format, va_list arguments);

/* strtod. */
double haul__strtod(const char *text, char **end);

/* What an error number of the system means. The text is valid until the thread's next call. */
const char *haul__strerror(int error);

#endif

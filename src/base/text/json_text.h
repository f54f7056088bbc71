/* Writing JSON into a caller's buffer, as snprintf writes: what does not fit is counted. */
#ifndef HAUL_BASE_TEXT_JSON_TEXT_H
#define HAUL_BASE_TEXT_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct haul__json_text {
    char  *out; /* may be NULL if size is 0 */
    size_t size, used;
    bool   follows; /* a comma is due before the next value */
} haul__json_text;

/* A member of an object; `name` NULL: an element of an array, or the whole text. */
void haul__json_begin(haul__json_text *t, const char *name, char bracket); /* '{' or '[' */
void haul__json_end(haul__json_text *t, char bracket);                     /* '}' or ']' */
void haul__json_integer(haul__json_text *t, const char *name, int64_t value);
void haul__json_number(haul__json_text *t, const char *name, double value); /* null for NaN and infinity */
void haul__json_bool(haul__json_text *t, const char *name, bool value);
/* The text is quoted. Bytes that are not UTF-8 become U+FFFD. */
void haul__json_string(haul__json_text *t, const char *name, const char *value);

/* Ends the text with 0 and returns its whole length. */
int64_t haul__json_finish(haul__json_text *t);

/* The text that `write` writes, which the caller must haul__free. `write` is called twice, because the first call gives
 * the length. NULL if memory is exhausted; *length is set then, too. */
char *haul__json_make(void (*write)(haul__json_text *t, const void *of), const void *of, size_t *length);

#endif

/* A reader of JSON (RFC 8259) for headers of files: the library itself needs no other one, so a static program needs
 * nothing else. Whole numbers are read; other numbers are kept as text. */
#ifndef HAUL_FILES_JSON_H
#define HAUL_FILES_JSON_H

#include <haul/error.h>
#include <stddef.h>
#include <stdint.h>

typedef enum haul__json_kind {
    HAUL__JSON_LITERAL, /* true, false, null: a text */
    HAUL__JSON_NUMBER,  /* whole, of digits */
    HAUL__JSON_DECIMAL, /* another number, as a text: negative, or with a fraction or an exponent */
    HAUL__JSON_STRING,
    HAUL__JSON_ARRAY,
    HAUL__JSON_OBJECT
} haul__json_kind;

typedef struct haul__json haul__json;
struct haul__json {
    haul__json_kind kind;
    char           *name;   /* of an object's member; else NULL */
    char           *string; /* UTF-8; of a string, a literal and a decimal */
    uint64_t        number; /* UINT64_MAX if it is that or more */
    size_t          count;  /* of an array's or object's children */
    haul__json     *child, *next;
};

/* Reads the value at the beginning of `text`, nested up to `depth` deep, and sets *used to its length. Sets *out to
 * NULL if the text is not JSON, which does not count as a failure. Fails if memory is exhausted, in the name of
 * `operation`. */
haul_status haul__json_read(const char *operation, const uint8_t *text, size_t size, int depth, haul__json **out,
                            size_t *used);
/* The same for a text of one value and blanks: sets *out to NULL if anything else follows, and *used to where JSON
 * ends. */
haul_status haul__json_read_all(const char *operation, const uint8_t *text, size_t size, int depth, haul__json **out,
                                size_t *used);
void        haul__json_free(haul__json *value); /* may be NULL */

/* The first member of that name; NULL: there is none, or the value is not an object. */
const haul__json *haul__json_member(const haul__json *value, const char *name);

#endif

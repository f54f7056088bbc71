/* Reads the part of Python's pickle format that files of weights use, and executes nothing: numbers, texts, containers,
 * and descriptions of calls, which the caller may interpret. */
#ifndef HAUL_FORMATS_PICKLE_H
#define HAUL_FORMATS_PICKLE_H

#include <haul/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum haul__pickle_kind {
    HAUL__PICKLE_NONE,
    HAUL__PICKLE_NUMBER, /* an integer or a truth value */
    HAUL__PICKLE_OTHER,  /* a value that weights do not need: a real number, bytes */
    HAUL__PICKLE_TEXT,   /* `size` bytes from `at` on, UTF-8 without zeros */
    HAUL__PICKLE_TUPLE,  /* `count` items */
    HAUL__PICKLE_LIST,
    HAUL__PICKLE_DICT,   /* `count` items: keys and values in turn */
    HAUL__PICKLE_GLOBAL, /* a name of a module: `size` bytes from `at` on, "module\nname" */
    HAUL__PICKLE_CALL,   /* the call of a global: two items, the global and a tuple of arguments */
    HAUL__PICKLE_STORAGE /* a persistent id: one item */
} haul__pickle_kind;

typedef struct haul__pickle_value {
    uint32_t kind;
    union {
        struct {
            uint32_t first, last, count; /* the first and last of the items in `links`, and their number */
        };
        struct {
            uint32_t at, size; /* of a text */
        };
        struct {
            uint32_t low, high; /* of a number: the halves of its 64 bits */
        };
    };
} haul__pickle_value;

typedef struct haul__pickle_link {
    uint32_t value, next;
} haul__pickle_link;

typedef struct haul__pickle {
    const uint8_t      *bytes; /* the text, which the caller owns */
    haul__pickle_value *values;
    haul__pickle_link  *links;
    size_t              value_count, value_capacity, link_count, link_capacity;
    uint32_t            root;
} haul__pickle;

/* Parses a pickle of at most HAUL__PICKLE_LIMIT bytes. A global that `is_known` does not know is refused by its name.
 * After a failure there is nothing to free. */
#define HAUL__PICKLE_LIMIT ((size_t)1 << 28)
haul_status haul__pickle_parse(haul__pickle *pickle, const uint8_t *bytes, size_t size,
                               bool (*is_known)(const char *name, size_t size), const char *path,
                               const char *operation);
void        haul__pickle_free(haul__pickle *pickle);

/* True for a text or global that is `text`. */
bool haul__pickle_is(const haul__pickle *pickle, uint32_t value, const char *text);
/* The value of a number; -1 of any other value. */
int64_t haul__pickle_number(const haul__pickle *pickle, uint32_t value);
/* The item of that index, which exists. This takes time for all items before it. */
uint32_t haul__pickle_item(const haul__pickle *pickle, uint32_t value, uint32_t index);

#endif

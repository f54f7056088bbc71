/* Letters of names and file endings: those of ASCII, whatever the program's locale. */
#ifndef HAUL_BASE_TEXT_ASCII_H
#define HAUL_BASE_TEXT_ASCII_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool haul__is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool haul__is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline char haul__lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* True if the first `length` characters are the same but for capitals. Texts end with 0. */
static inline bool haul__same_letters(const char *a, const char *b, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (haul__lower(a[i]) != haul__lower(b[i]))
            return false;
        if (!a[i])
            return true;
    }
    return true;
}

/* True if the text ends so; capitals count. */
static inline bool haul__ends_with(const char *text, const char *ending)
{
    const size_t size = strlen(text), length = strlen(ending);
    return size >= length && strcmp(text + size - length, ending) == 0;
}

#endif

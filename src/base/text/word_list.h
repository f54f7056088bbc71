/* Lists of words separated by commas or blanks, as in environment variables. */
#ifndef HAUL_BASE_TEXT_WORD_LIST_H
#define HAUL_BASE_TEXT_WORD_LIST_H

#include <stdbool.h>
#include <string.h>

/* The length of the first word from *at on; *at moves to its beginning. 0 at the end of the list, and for NULL. */
static inline size_t haul__word_list_next(const char **at)
{
    if (!*at)
        return 0;
    *at += strspn(*at, ", ");
    return strcspn(*at, ", ");
}

/* True if the list contains this word. */
static inline bool haul__word_list_has(const char *list, const char *word)
{
    for (size_t length; (length = haul__word_list_next(&list)); list += length)
        if (length == strlen(word) && strncmp(list, word, length) == 0)
            return true;
    return false;
}

#endif

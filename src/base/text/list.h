/* Lists in messages: "conv1, conv2 and fc". */
#ifndef HAUL_BASE_TEXT_LIST_H
#define HAUL_BASE_TEXT_LIST_H

#include <haul/base.h>
#include <stddef.h>

/* Adds an item to a list whose items are separated by ", ". The list is "" before the first. What does not fit is cut
 * off. Returns the list. */
char *haul__list_add(char *list, size_t size, const char *format, ...) HAUL_PRINTF(3, 4);

/* What stands before item i of a list of `count`: nothing before the first, `last` before the last, for example " and
 * ", and ", " before the others. */
const char *haul__list_separator(int i, int count, const char *last);

#endif

/* Lines of source, from debug information. */
#ifndef HAUL_OBSERVE_PROFILE_SOURCE_LINE_H
#define HAUL_OBSERVE_PROFILE_SOURCE_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* Reads the debug information of the process by elfutils' libdw, which is loaded when it is first needed. NULL where it
 * is missing. */
typedef struct haul__lines haul__lines;
haul__lines               *haul__lines_open(void);
void                       haul__lines_close(haul__lines *lines); /* NULL is ignored */

/* The source file and line of an address; NULL if there is no debug information for it. The text is valid until the
 * lines are closed. */
const char *haul__lines_at(haul__lines *lines, const void *address, int *line);

/* Writes "train.c:42" for the program's function that called the library for the operation; false if it is unknown. */
bool haul__lines_caller(haul__lines *lines, void *const *frames, int count, const char *operation, char *out,
                        size_t size);

/* Writes the same, or without debug information what haul__describe_call_site says. Places that were found before cost
 * little. Returns `out`. */
const char *haul__source_place(void *const *frames, int count, const char *operation, char *out, size_t size);

#endif

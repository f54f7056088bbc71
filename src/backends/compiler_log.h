/* Reads the logs of run-time compilers. */
#ifndef HAUL_BACKENDS_COMPILER_LOG_H
#define HAUL_BACKENDS_COMPILER_LOG_H

#include <stddef.h>

/* The line of a compiler's log for an error message: the first one with an error, else the first that is not blank. */
void haul__compiler_line(const char *log, char *out, size_t size);

#endif

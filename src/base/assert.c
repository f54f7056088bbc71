#include "base/assert.h"

#ifndef NDEBUG
#include <stdio.h>
#include <stdlib.h>

_Noreturn void haul__assert_failed(const char *fact, const char *file, int line)
{
    fprintf(stderr, "%s:%d: this fact about the library's own state does not hold: %s\n", file, line, fact);
    abort();
}
#endif

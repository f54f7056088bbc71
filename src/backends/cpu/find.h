/* Functions of libraries that are opened at run time. */
#ifndef HAUL_BACKENDS_CPU_FIND_H
#define HAUL_BACKENDS_CPU_FIND_H

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* Looks in the library and in those that it is linked with. `function` is the address of a function pointer, which
 * becomes NULL if the function is not there. */
static inline bool haul__cpu_find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address); /* data to function pointer, as POSIX allows */
    return address != NULL;
}

#endif

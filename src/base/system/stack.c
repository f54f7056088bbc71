#include "base/system/stack.h"

#include <pthread.h>

#include "haul_config.h"

_Thread_local uintptr_t haul__stack_end;

#ifdef HAUL_SMALL
/* glibc's function would bring 100 KB into a static program. */
static void *lowest_address(void)
{
    return NULL;
}
#else
/* Takes tens of microseconds on the first thread of the process, once. */
static void *lowest_address(void)
{
    pthread_attr_t attributes;
    void          *end = NULL;
    size_t         size;
    if (!pthread_getattr_np(pthread_self(), &attributes)) {
        if (pthread_attr_getstack(&attributes, &end, &size))
            end = NULL;
        pthread_attr_destroy(&attributes);
    }
    return end;
}
#endif

uintptr_t haul__stack_find(void)
{
    const void *end = lowest_address();
    return haul__stack_end = end ? (uintptr_t)end : UINTPTR_MAX; /* all addresses are below: unknown */
}

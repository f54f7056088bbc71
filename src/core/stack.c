#include "core/stack.h"

#include <pthread.h>

_Thread_local uintptr_t haul__stack_end;

/* Takes tens of microseconds on the first thread of the process, once. */
uintptr_t haul__stack_find(void)
{
    pthread_attr_t attributes;
    void          *end = NULL;
    size_t         size;
    if (!pthread_getattr_np(pthread_self(), &attributes)) {
        if (pthread_attr_getstack(&attributes, &end, &size))
            end = NULL;
        pthread_attr_destroy(&attributes);
    }
    return haul__stack_end = end ? (uintptr_t)end : UINTPTR_MAX; /* all addresses are below: unknown */
}

#include "events/call.h"

#include <string.h>

#include "core/thread.h"

extern _Thread_local const haul__call_frame *haul__call_innermost HAUL__TLS_MODEL;
_Thread_local const haul__call_frame                             *haul__call_innermost;

const haul__call_frame *haul__call_now(void)
{
    return haul__call_innermost;
}

void haul__call_set(const haul__call_frame *frame)
{
    haul__call_innermost = frame;
}

const char *haul__call_path(char *buffer, size_t size)
{
    char *at = buffer + size - 1;
    *at = 0;
    for (const haul__call_frame *f = haul__call_innermost; f && f->name; f = f->outer) {
        size_t length = strlen(f->name), dot = *at ? 1 : 0;
        if (length + dot > (size_t)(at - buffer))
            break;
        if (dot)
            *--at = '.';
        at -= length;
        memcpy(at, f->name, length);
    }
    return at;
}

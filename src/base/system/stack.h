/* The room on the calling thread's stack. */
#ifndef HAUL_BASE_SYSTEM_STACK_H
#define HAUL_BASE_SYSTEM_STACK_H

#include <stddef.h>
#include <stdint.h>

/* The lowest address of the stack. 0: not known yet. */
extern _Thread_local uintptr_t haul__stack_end;

uintptr_t haul__stack_find(void);

/* Bytes below the caller's frame. A large number if the system does not know, or if the caller runs on a stack of its
 * own, as coroutines do. */
static inline size_t haul__stack_left(void)
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    const uintptr_t end = haul__stack_end ? haul__stack_end : haul__stack_find();
    return here > end ? here - end : SIZE_MAX;
}

#endif

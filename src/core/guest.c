#include "core/guest.h"

#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"

haul_status haul__fail_no_function(const char *operation, const char *argument)
{
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s is NULL; pass a function", argument);
}

/* The caller's part of the stack ends where this function's frame begins, and the program's function runs below. */
__attribute__((noinline)) haul__guest haul__guest_begin(void)
{
    const haul__guest before = haul__tls.guest;
    haul__tls.guest = (haul__guest){.floor = haul_scope_depth(), .frame = __builtin_frame_address(0)};
    return before;
}

haul_status haul__guest_end(const haul__guest *before, haul_status status, const char *operation)
{
    const bool trespassed = haul__tls.guest.trespassed;
    HAUL__ASSERT(before->floor <= haul_scope_depth()); /* the caller's scopes are open */
    haul__tls.guest = *before;
    if (status || __builtin_expect(!trespassed, 1))
        return status;
    return haul__fail(HAUL_STATE, operation, "function",
                      "the function closed a scope that it did not open; it must close its own scopes only");
}

void haul__guest_free(void (*function)(void *context), void *context)
{
    haul__error_record error;
    if (!function)
        return;
    haul__error_save(&error);
    const haul__guest before = haul__guest_begin();
    function(context);
    haul__tls.guest = before;
    if (error.status || haul_error_status())
        haul__error_restore(&error);
}

/* A function that was left by longjmp or by an exception of C++ runs no more: the stack is shorter than it was when the
 * function was called. */
__attribute__((noinline)) haul_status haul__guest_may_close(int depth, const char *operation)
{
    haul__guest *guest = &haul__tls.guest;
    if (depth > guest->floor)
        return HAUL_OK;
    if ((const char *)__builtin_frame_address(0) > (const char *)guest->frame) {
        *guest = (haul__guest){.floor = 0};
        return HAUL_OK;
    }
    guest->trespassed = true;
    return haul__fail(HAUL_STATE, operation, "scope",
                      "the scope was open before Haul called the function that runs now; a function that Haul calls "
                      "must close its own scopes only");
}

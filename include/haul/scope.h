/* Scopes own objects.
 *
 * Every tensor, module, optimizer, loss scaler, generator, dataset, loader and opened safetensors file belongs to the
 * scope that was innermost on the calling thread when it was made, and lives until that scope is popped. Objects hold
 * what they need (a view its memory, a result the graph behind it, an optimizer its module), so popping never leaves
 * anything dangling inside the library. A function that is given an object that does not exist any more fails with
 * HAUL_STATE and names the object. The library detects this only until the object's memory is reused. With
 * HAUL_DEBUG=lifetimes in the environment it is never reused, and the message says where the object was made and where
 * it ended (docs/guide.md).
 *
 * Popping also restores these settings of the thread to what they were when the scope was pushed, and nothing else:
 *   - the current device (haul_set_device)
 *   - the placement policy (haul_set_placement_policy)
 *   - whether graphs are recorded (haul_set_grad_enabled)
 *   - the precision of matrix products (haul_set_matmul_precision)
 *   - autocast (haul_autocast_begin)
 *   - the generator of random numbers (haul_set_generator)
 *   - what memory is counted and limited for scopes (haul_scope_set_memory_limit)
 *   - the number of threads of operations (haul_set_scope_threads) */
#ifndef HAUL_SCOPE_H
#define HAUL_SCOPE_H

#include <haul/base.h>
#include <haul/error.h>

HAUL_BEGIN

/* Open a scope on this thread. NULL only when memory is exhausted. `name` is for messages about objects that ended with
 * the scope; it must stay valid until the scope is popped, and may be NULL. */
HAUL_API haul_scope *haul_scope_push(void);
HAUL_API haul_scope *haul_scope_push_named(const char *name);

/* Close `scope` and all scopes opened after it. NULL is ignored; a scope of another thread is refused. */
HAUL_API haul_status haul_scope_pop(haul_scope *scope);

/* Close `scope`, but hand `result`, any object, to the enclosing scope, so that a function can return it. Returns
 * `result`; a result that an older scope owns stays there. On failure `scope` is closed, too, and NULL is returned. If
 * `result` is NULL, the error is kept. If there is no enclosing scope or `result` does not exist any more, the error is
 * HAUL_STATE. */
HAUL_API void *haul_scope_return(haul_scope *scope, void *result);

/* Number of scopes open on this thread. */
HAUL_API int haul_scope_depth(void);

/* Give an object up before its scope ends. It must be owned by a scope of this thread; NULL is ignored. */
HAUL_API haul_status haul_drop(void *object);

/* Hold an object beyond its scope: each haul_keep is undone by one haul_release, on any thread. haul_keep returns its
 * argument, or NULL if that is not an existing object. NULL and HAUL_NONE are ignored. Releasing an object more often
 * than it was kept is refused with HAUL_STATE, even if something else holds it. */
HAUL_API void *haul_keep(void *object);
HAUL_API void  haul_release(void *object);

/* Take an object over from the scope of this thread that owns it: it lives until the caller calls haul_release, which
 * any thread may do. This is haul_keep and haul_drop in one, for bindings to other languages. Returns its argument, or
 * NULL with HAUL_STATE if no scope of this thread owns it. */
HAUL_API void *haul_take(void *object);

HAUL_END

#ifdef __cplusplus
/* The same with the type of the argument. */
template <typename T> T *haul_scope_return(haul_scope *scope, T *result)
{
    return static_cast<T *>(haul_scope_return(scope, static_cast<void *>(result)));
}
template <typename T> T *haul_keep(T *object)
{
    return static_cast<T *>(haul_keep(static_cast<void *>(object)));
}
template <typename T> T *haul_take(T *object)
{
    return static_cast<T *>(haul_take(static_cast<void *>(object)));
}
#endif

#endif

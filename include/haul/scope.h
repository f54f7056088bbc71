/* Scopes: who owns objects, and when they end.
 *
 * Every tensor, module, optimizer, schedule, average, loss scaler, generator, dataset, transform, loader and opened
 * safetensors file belongs to the scope that was innermost on the calling thread when the object was made. It ends when
 * that scope is popped.
 *
 *     haul_scope  *scope = haul_scope_push();
 *     haul_tensor *y = haul_relu(haul_matmul(a, b));
 *     haul_print(y);
 *     haul_scope_pop(scope);
 *
 * Here the product and y end with haul_scope_pop. Objects hold what they need: a view its memory, a result the graph
 * behind it, an optimizer its module. So popping a scope never leaves a dangling pointer inside the library.
 *
 * A function that is given an object that has ended fails with HAUL_STATE and names the object. The library can detect
 * this only until the object's memory is reused. With `HAUL_DEBUG=lifetimes` in the environment it never reuses it, and
 * the message says where the object was made and where it ended (docs/guide.md).
 *
 * Popping a scope also restores these settings of the thread to their values at the push, and no others:
 *
 * - the current device (haul_set_device)
 * - the placement policy (haul_set_placement_policy)
 * - whether graphs are recorded (haul_set_grad_enabled)
 * - the precision of matrix products (haul_set_matmul_precision)
 * - autocast (haul_autocast_begin)
 * - the generator of random numbers (haul_set_generator)
 * - which memory is counted and limited for scopes (haul_scope_set_memory_limit)
 * - the number of threads of operations (haul_set_scope_threads)
 *
 * Haul calls functions of the program: forward functions and hooks, functions to differentiate or to run again, those
 * of datasets, transforms and custom operations, subscribers to events, functions that free memory. These rules hold
 * for all of them:
 *
 * - The function may open scopes, and must close only those. Closing another one is refused with HAUL_STATE, and the
 *   call of Haul that called the function fails then, too.
 * - The function must return. It must not be left by longjmp, an exception of C++ or pthread_exit: catch exceptions
 *   inside, and return an error that haul_error_set has recorded. If it is left all the same, what the call had made is
 *   lost, and the thread should use Haul no more. Other threads are not affected. */
#ifndef HAUL_SCOPE_H
#define HAUL_SCOPE_H

#include <haul/base.h>
#include <haul/error.h>

HAUL_BEGIN

/* Open a scope on the calling thread. Returns NULL only if memory is exhausted.
 *
 * - name: appears in messages about objects that ended with the scope; must stay valid until the scope is popped; may
 *   be NULL */
HAUL_API haul_scope *haul_scope_push(void);
HAUL_API haul_scope *haul_scope_push_named(const char *name);

/* Close `scope` and all scopes that were opened after it. Their objects end. NULL is ignored. Fails with HAUL_STATE if
 * the scope is not open on the calling thread, or if the calling function may not close it (see above). Returns
 * HAUL_BUDGET if one of the scopes exceeded its budget (budget.h); they are closed then, too. */
HAUL_API haul_status haul_scope_pop(haul_scope *scope);

/* Close `scope`, but move `result`, any object, to the enclosing scope, so that a function can return it:
 *
 *     haul_tensor *norm(haul_tensor *x)
 *     {
 *         haul_scope *scope = haul_scope_push();
 *         return haul_scope_return(scope, haul_sqrt(haul_sum(haul_square(x))));
 *     }
 *
 * Returns `result`. A result that an older scope owns stays there. If `result` is NULL, the scope is closed and the
 * thread's error is kept.
 *
 * Returns NULL on failure; `scope` is closed then, too, unless the calling function may not close it. Fails with
 * HAUL_STATE then, and if there is no enclosing scope or `result` has ended. */
HAUL_API void *haul_scope_return(haul_scope *scope, void *result);

/* The number of scopes that are open on the calling thread. */
HAUL_API int haul_scope_depth(void);

/* Give up an object before its scope ends. A scope of the calling thread must own the object. NULL is ignored. */
HAUL_API haul_status haul_drop(void *object);

/* Hold an object beyond its scope. Each haul_keep needs one haul_release, which any thread may call. haul_keep returns
 * its argument, or NULL if that is not an existing object. NULL and HAUL_NONE are ignored.
 *
 * Releasing an object more often than it was kept records HAUL_STATE and does nothing else, even if something else
 * holds the object. */
HAUL_API void *haul_keep(void *object);
HAUL_API void  haul_release(void *object);

/* Take over an object from the scope of the calling thread that owns it: the caller must call haul_release, on any
 * thread. It is haul_keep and haul_drop in one call, for bindings to other languages. Returns its argument, or NULL
 * with HAUL_STATE if no scope of the calling thread owns it. */
HAUL_API void *haul_take(void *object);

HAUL_END

#ifdef __cplusplus
/* In C++ these return the type of their argument. */
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

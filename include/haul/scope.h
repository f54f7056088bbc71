/* Scopes own objects.
 *
 * Every tensor, module, optimizer, loss scaler, dataset, loader and opened safetensors file belongs to the scope that
 * was innermost on the calling thread when it was made, and lives until that scope is popped. Objects hold what they
 * need (a view its memory, a result the graph behind it, an optimizer its module), so popping never leaves anything
 * dangling inside the library. Popping also restores the thread's current device, placement policy, grad mode,
 * precision of matrix products and autocast, and nothing else. */
#ifndef HAUL_SCOPE_H
#define HAUL_SCOPE_H

#include <haul/base.h>
#include <haul/error.h>

HAUL_BEGIN

/* Open a scope on this thread. NULL only when memory is exhausted. */
HAUL_API haul_scope *haul_scope_push(void);

/* Close `scope` and all scopes opened after it. NULL is ignored; a scope of another thread is refused. */
HAUL_API haul_status haul_scope_pop(haul_scope *scope);

/* Close `scope`, but hand `result` to the scope outside, so that a function can return it. Returns `result`; a result
 * that an older scope owns stays there. NULL (with the error kept) when result is NULL, and NULL with HAUL_STATE when
 * there is no scope outside; the scope is closed then, too. */
HAUL_API haul_tensor *haul_scope_return(haul_scope *scope, haul_tensor *result);

/* Number of scopes open on this thread. */
HAUL_API int haul_scope_depth(void);

/* Give an object up before its scope ends. It must be owned by a scope of this thread; NULL is ignored. */
HAUL_API haul_status haul_drop(void *object);

/* Hold an object beyond its scope: each haul_keep is undone by one haul_release, on any thread. haul_keep returns its
 * argument. NULL and HAUL_NONE are ignored; releasing what only its scope holds is refused with HAUL_STATE. */
HAUL_API void *haul_keep(void *object);
HAUL_API void  haul_release(void *object);

HAUL_END

#endif

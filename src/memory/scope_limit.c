/* Budgets: chains of counters, one for each scope and device. */
#include "memory/scope_limit.h"

#include <haul/memory.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/small_blocks.h"
#include "memory/report/origins.h"

struct haul__scope_limit {
    haul__object       object;
    haul__scope_limit *outer; /* the limit of the scope for another device, or that of an enclosing scope; holds a
                               * reference */
    const haul_scope *scope;  /* may be gone once the scope limit is no longer the thread's */
    haul_device      *device;
    bool              dry;         /* made in a dry run */
    int64_t           limit, peak; /* for the scope's thread only; a limit of 0 means no limit */
    atomic_llong      allocated;
};

static void destroy(void *object)
{
    haul__scope_limit *b = object;
    HAUL__ASSERT(atomic_load(&b->allocated) == 0); /* each block that it counts has a reference */
    haul__object_release(b->outer);
    haul__small_free(b, sizeof *b);
}

static const haul__class scope_limit_class = {.name = "memory limit", .destroy = destroy};

/* ---- counting ---- */

static inline bool counts(const haul__scope_limit *b, const haul_device *device, bool dry)
{
    return b->device == device && b->dry == dry;
}

static inline int64_t allocated_of(const haul__scope_limit *b)
{
    return (int64_t)atomic_load_explicit(&b->allocated, memory_order_relaxed);
}

haul__scope_limit *haul__scope_limit_over(haul__scope_limit *innermost, const haul_device *device, int64_t bytes,
                                          bool dry)
{
    for (haul__scope_limit *b = innermost; b; b = b->outer)
        if (counts(b, device, dry) && b->limit && allocated_of(b) > b->limit - bytes)
            return b;
    return NULL;
}

haul__scope_limit *haul__scope_limit_charge(haul__scope_limit *innermost, const haul_device *device, int64_t bytes,
                                            bool dry)
{
    haul__scope_limit *over = haul__scope_limit_over(innermost, device, bytes, dry);
    if (over)
        return over;
    for (haul__scope_limit *b = innermost; b; b = b->outer) {
        if (!counts(b, device, dry))
            continue;
        int64_t now = (int64_t)atomic_fetch_add_explicit(&b->allocated, bytes, memory_order_relaxed) + bytes;
        HAUL__ASSERT(bytes > 0 && now >= bytes);
        b->peak = now > b->peak ? now : b->peak;
    }
    haul__object_keep(innermost);
    return NULL;
}

void haul__scope_limit_discharge(haul__scope_limit *innermost, const haul_device *device, int64_t bytes, bool dry)
{
    for (haul__scope_limit *b = innermost; b; b = b->outer)
        if (counts(b, device, dry)) {
            const long long before = atomic_fetch_sub_explicit(&b->allocated, bytes, memory_order_relaxed);
            HAUL__ASSERT(before >= bytes); /* each charge is taken back once */
            (void)before;
        }
    haul__object_release(innermost);
}

bool haul__scope_limit_within(const haul__scope_limit *innermost, const haul__scope_limit *scope_limit)
{
    while (innermost && innermost != scope_limit)
        innermost = innermost->outer;
    return innermost != NULL;
}

haul__scope_limit_figures haul__scope_limit_figures_of(const haul__scope_limit *scope_limit)
{
    const char *name = scope_limit->scope->name;
    return (haul__scope_limit_figures){name ? name : "", allocated_of(scope_limit), scope_limit->limit};
}

haul_status haul__scope_limit_fail(const haul__scope_limit *scope_limit, size_t bytes, const char *origin,
                                   const char *who)
{
    char        asked[32], used[32], limit[32];
    const char *name = scope_limit->scope->name;
    return haul__fail(HAUL_OUT_OF_MEMORY, origin, NULL,
                      "out of memory in %s%.60s%s: requested %s on %s, %s of the scope's limit of %s in use%s; ask for "
                      "less, free tensors, or raise the limit with haul_scope_set_memory_limit",
                      name ? "scope \"" : "a scope without a name", name ? name : "", name ? "\"" : "",
                      haul__size_text((int64_t)bytes, asked, sizeof asked), scope_limit->device->name,
                      haul__size_text(allocated_of(scope_limit), used, sizeof used),
                      haul__size_text(scope_limit->limit, limit, sizeof limit), who);
}

/* ---- public functions ---- */

static haul__scope_limit *find(const haul_scope *scope, const haul_device *device)
{
    haul__scope_limit *b = haul__scope_limit_now();
    while (b && (b->scope != scope || b->device != device))
        b = b->outer;
    return b;
}

static haul_status check(const haul_scope *scope, const haul_device *device, const char *operation)
{
    haul_status status = haul__scope_check(scope, operation);
    return status ? status : haul__device_check(device, operation, "device");
}

static haul_status add(haul_scope *scope, haul_device *device, int64_t bytes, const char *operation)
{
    haul__scope_limit *b = haul__small_alloc(sizeof *b);
    if (!b)
        return haul__fail_memory(operation, sizeof *b);
    haul__object_init(&b->object, &scope_limit_class);
    b->outer = haul__scope_limit_now();
    b->scope = scope;
    b->device = device;
    b->dry = haul__is_dry();
    b->limit = bytes;
    b->peak = 0;
    atomic_init(&b->allocated, 0);
    haul__object_keep(b->outer);
    HAUL__ASSERT(!b->outer || b->outer->scope != scope || b->outer->device != device); /* one limit for each device */
    haul_status status = haul__thread_hold(HAUL__SCOPE_LIMIT, b) ? HAUL_OK : haul__fail_memory(operation, sizeof *b);
    haul__object_release(b);
    return status;
}

haul_status haul_scope_set_memory_limit(haul_scope *scope, haul_device *device, int64_t bytes)
{
    static const char  operation[] = "haul_scope_set_memory_limit";
    haul_status        status = check(scope, device, operation);
    haul__scope_limit *b = status ? NULL : find(scope, device);
    if (status)
        return status;
    if (bytes < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "bytes",
                          "bytes is %lld; expected a size, or 0 for no limit", (long long)bytes);
    if (b && (b->dry || !haul__is_dry())) /* a dry run does not change earlier limits of the scope */
        b->limit = bytes;
    if (b)
        return HAUL_OK;
    if (scope != haul__tls.innermost)
        return haul__fail(
            HAUL_STATE, operation, "scope",
            "a scope inside this one is open, whose memory is not counted yet; set the first limit before "
            "other scopes are pushed");
    return add(scope, device, bytes, operation);
}

haul_status haul_scope_memory_stats_get(const haul_scope *scope, const haul_device *device,
                                        haul_scope_memory_stats *out)
{
    static const char        operation[] = "haul_scope_memory_stats_get";
    haul_status              status = check(scope, device, operation);
    const haul__scope_limit *b = status ? NULL : find(scope, device);
    if (status)
        return status;
    if (!out)
        return haul__fail_null(operation, "out");
    if (!b)
        return haul__fail(
            HAUL_STATE, operation, "scope",
            "nothing is counted for this scope on %s; call haul_scope_set_memory_limit first, with 0 bytes "
            "for no limit",
            device->name);
    *out = (haul_scope_memory_stats){.allocated = allocated_of(b), .peak_allocated = b->peak, .limit = b->limit};
    return HAUL_OK;
}

/* The last reports are in static memory: nothing can be allocated where memory is exhausted, and memory of each thread
 * is scarce in programs that load the library late. */
#include "memory/report/report.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/system/fork.h"
#include "base/text/json_text.h"
#include "base/text/plain.h"
#include "base/text/utf8.h"
#include "device/link.h"
#include "events/call.h"
#include "memory/allocator_state.h"
#include "memory/report/block_origin.h"
#include "memory/report/origins.h"
#include "memory/spill/spill.h"

enum { KEPT = 16 };

static struct {
    atomic_bool        lock;
    uint64_t           last;
    uint64_t           numbers[KEPT];
    haul_memory_report reports[KEPT];
} kept;

static void take_lock(void)
{
    haul__spin_lock(&kept.lock);
}

static void give_lock(void)
{
    haul__spin_unlock(&kept.lock);
}

HAUL__AT_FORK(HAUL__FORK_REPORTS, .take = take_lock, .give = give_lock);

_Static_assert((int)HAUL__ROLES <= (int)HAUL_MEMORY_REPORT_ROLES, "a report has room for all roles");

static uint64_t keep(const haul_memory_report *report)
{
    take_lock();
    const uint64_t number = ++kept.last;
    kept.numbers[number % KEPT] = number;
    kept.reports[number % KEPT] = *report;
    give_lock();
    return number;
}

/* ---- making a report ---- */

/* True if the ring has an entry. The caller holds the lock. */
static bool is_recorded(const haul__block *live)
{
    for (const haul__block *block = live->next; block != live; block = block->next)
        if (haul__block_origin_of(block))
            return true;
    return false;
}

static int64_t at_least_0(int64_t bytes)
{
    return bytes > 0 ? bytes : 0;
}

static void fill_scope(haul_memory_report *r, const haul__scope_limit *over)
{
    const haul__scope_limit_figures figures = haul__scope_limit_figures_of(over);
    haul__utf8_copy(r->scope, sizeof r->scope, figures.scope);
    r->scope_allocated = figures.allocated;
    r->limit = figures.limit;
    r->room = at_least_0(figures.limit - figures.allocated);
}

/* What would have to move for the block, of what can; as haul_memory_report.spill_bytes. The caller has no lock. */
static int64_t spill_bytes(struct haul__allocator *a, const haul_memory_report *r)
{
    if (r->of_scope || a->pinned || atomic_load(&a->spills) || !haul__device_is_apart(a->device))
        return 0;
    if (r->room < 0)
        return -1;
    const int64_t wanted = at_least_0(r->block - r->room);
    return wanted <= haul__spillable(a) ? wanted : 0;
}

static void fill_spill(struct haul__allocator *a, haul_memory_report *r)
{
    r->spill_bytes = spill_bytes(a, r);
    const int64_t ns = r->spill_bytes > 0 ? haul__link_ns(a->device, r->spill_bytes) : -1;
    r->spill_nanoseconds = ns < 0 ? -1 : 2 * ns;
}

void haul__report_failure(struct haul__allocator *a, const haul__scope_limit *over, size_t bytes, const char *origin)
{
    char               path[sizeof((haul_memory_report *)0)->module];
    haul_memory_report r = {.device = a->device,
                            .of_scope = over != NULL,
                            .requested = bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX,
                            .free = haul__device_free_bytes(a->device)};
    const int          bin = haul__bin_for(a->device, a->pinned, bytes);
    r.block = bin < 0 ? r.requested : (int64_t)haul__bin_bytes(bin);
    haul__utf8_copy(r.operation, sizeof r.operation, origin);
    haul__utf8_copy(r.module, sizeof r.module, haul__call_path(path, sizeof path));
    haul__spin_lock(&a->lock);
    r.allocated = a->stats.allocated;
    r.reserved = a->stats.reserved;
    r.spilled = a->stats.spilled;
    r.pinned = a->stats.pinned;
    r.overhead = haul__limited_overhead(a);
    r.limit = a->stats.limit;
    r.by_module = is_recorded(&a->live);
    const int count = haul__sum_origins(&a->live, over, r.by_module ? haul__origin_module : haul__origin_operation,
                                        r.origins, HAUL_MEMORY_REPORT_ORIGINS);
    r.role_count = haul__sum_origins(&a->live, over, haul__origin_role, r.roles, HAUL_MEMORY_REPORT_ROLES);
    haul__spin_unlock(&a->lock);
    r.origin_count = count < HAUL_MEMORY_REPORT_ORIGINS ? count : HAUL_MEMORY_REPORT_ORIGINS;
    r.room = r.limit ? at_least_0(r.limit - r.reserved - r.overhead) : r.free;
    if (over)
        fill_scope(&r, over);
    fill_spill(a, &r);
    haul__error_set_report(keep(&r));
}

/* ---- reading it ---- */

haul_status haul__report_lacks(const char *operation, const char *what)
{
    haul__error_record before;
    haul__error_save(&before);
    if (before.status && !before.settled)
        return HAUL_STATE; /* the error stays, because the program is about to report it */
    return haul__fail(HAUL_STATE, operation, NULL, "%s", what);
}

haul_status haul_memory_report_get(haul_memory_report *out)
{
    static const char operation[] = "haul_memory_report_get";
    const uint64_t    number = haul__error_report();
    if (!out)
        return haul__fail_null(operation, "out");
    take_lock();
    const bool found = number && kept.numbers[number % KEPT] == number;
    if (found)
        *out = kept.reports[number % KEPT];
    give_lock();
    return found ? HAUL_OK
                 : haul__report_lacks(operation, "no allocation has failed on this thread since its error was cleared");
}

/* ---- as text ---- */

static int64_t refuse(const char *operation, const haul_memory_report *report, const char *out, size_t size)
{
    if (!report)
        haul__fail_null(operation, "report");
    else if (!out && size)
        haul__fail_null(operation, "out");
    else if (report->origin_count < 0 || report->origin_count > HAUL_MEMORY_REPORT_ORIGINS)
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "report",
                   "the report has %d origins; expected 0 to %d: pass what haul_memory_report_get filled",
                   report->origin_count, (int)HAUL_MEMORY_REPORT_ORIGINS);
    else if (report->role_count < 0 || report->role_count > HAUL_MEMORY_REPORT_ROLES)
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "report",
                   "the report has %d roles; expected 0 to %d: pass what haul_memory_report_get filled",
                   report->role_count, (int)HAUL_MEMORY_REPORT_ROLES);
    else
        return 0;
    return -1;
}

/* snprintf onto the end of a text that may be cut. */
HAUL_PRINTF(4, 5)
static void append(char *out, size_t size, int64_t *used, const char *format, ...)
{
    va_list      list;
    const size_t at = (size_t)*used < size ? (size_t)*used : size;
    va_start(list, format);
    const int length = haul__vsnprintf(at < size ? out + at : NULL, size - at, format, list);
    va_end(list);
    *used += length > 0 ? length : 0;
}

static void append_size(char *out, size_t size, int64_t *used, const char *what, int64_t bytes)
{
    char text[32];
    append(out, size, used, "  %-10s %s\n", what, bytes < 0 ? "unknown" : haul__size_text(bytes, text, sizeof text));
}

/* "  spilling   would move 1.5 MiB to host memory and back for this allocation alone: about 0.4 ms, an estimate" */
static void append_spill(char *out, size_t size, int64_t *used, const haul_memory_report *r)
{
    char text[32];
    if (r->spill_bytes <= 0)
        return;
    append(out, size, used, "  %-10s would move %s to host memory and back for this allocation alone", "spilling",
           haul__size_text(r->spill_bytes, text, sizeof text));
    if (r->spill_nanoseconds >= 0)
        append(out, size, used, ": about %.3g ms, an estimate", (double)r->spill_nanoseconds / 1e6);
    append(out, size, used, "\n");
}

static void append_origin(char *out, size_t size, int64_t *used, const haul_memory_origin *o)
{
    char text[32];
    append(out, size, used, "  %-10s %s, %lld block%s\n", haul__size_text(o->bytes, text, sizeof text), o->name,
           (long long)o->blocks, o->blocks == 1 ? "" : "s");
}

int64_t haul_memory_report_text(const haul_memory_report *r, char *out, size_t size)
{
    static const char operation[] = "haul_memory_report_text";
    int64_t           used = 0;
    char              text[32];
    if (refuse(operation, r, out, size))
        return -1;
    append(out, size, &used, "out of memory on %s: %s requested %s", haul_device_name(r->device), r->operation,
           haul__size_text(r->requested, text, sizeof text));
    if (*r->module)
        append(out, size, &used, " in module '%s'", r->module);
    if (r->of_scope)
        append(out, size, &used, " in %s%s%s", *r->scope ? "scope \"" : "a scope without a name", r->scope,
               *r->scope ? "\"" : "");
    append(out, size, &used, "\n");
    append_size(out, size, &used, "room", r->room);
    if (r->limit)
        append_size(out, size, &used, "limit", r->limit);
    if (r->of_scope)
        append_size(out, size, &used, "in scope", r->scope_allocated);
    append_size(out, size, &used, "allocated", r->allocated);
    append_size(out, size, &used, "reserved", r->reserved);
    if (r->spilled)
        append_size(out, size, &used, "spilled", r->spilled);
    if (r->pinned)
        append_size(out, size, &used, "pinned", r->pinned);
    if (r->overhead)
        append_size(out, size, &used, "overhead", r->overhead);
    append_size(out, size, &used, "free", r->free);
    append_spill(out, size, &used, r);
    append(out, size, &used, "%s\n", r->by_module ? "memory by module:" : "memory by operation:");
    for (int i = 0; i < r->origin_count; i++)
        append_origin(out, size, &used, &r->origins[i]);
    append(out, size, &used, "memory by role:\n");
    for (int i = 0; i < r->role_count; i++)
        append_origin(out, size, &used, &r->roles[i]);
    return used;
}

int64_t haul_memory_report_json(const haul_memory_report *r, char *out, size_t size)
{
    haul__json_text t = {.out = out, .size = size};
    if (refuse("haul_memory_report_json", r, out, size))
        return -1;
    haul__json_begin(&t, NULL, '{');
    haul__json_string(&t, "device", haul_device_name(r->device));
    haul__json_string(&t, "operation", r->operation);
    haul__json_string(&t, "module", r->module);
    haul__json_bool(&t, "of_scope", r->of_scope);
    haul__json_string(&t, "scope", r->scope);
    haul__json_integer(&t, "requested", r->requested);
    haul__json_integer(&t, "block", r->block);
    haul__json_integer(&t, "allocated", r->allocated);
    haul__json_integer(&t, "reserved", r->reserved);
    haul__json_integer(&t, "spilled", r->spilled);
    haul__json_integer(&t, "pinned", r->pinned);
    haul__json_integer(&t, "overhead", r->overhead);
    haul__json_integer(&t, "scope_allocated", r->scope_allocated);
    haul__json_integer(&t, "limit", r->limit);
    haul__json_integer(&t, "free", r->free);
    haul__json_integer(&t, "room", r->room);
    haul__json_integer(&t, "spill_bytes", r->spill_bytes);
    haul__json_integer(&t, "spill_nanoseconds", r->spill_nanoseconds);
    haul__json_bool(&t, "by_module", r->by_module);
    haul__json_origins(&t, "origins", r->origins, r->origin_count);
    haul__json_origins(&t, "roles", r->roles, r->role_count);
    haul__json_end(&t, '}');
    return haul__json_finish(&t);
}

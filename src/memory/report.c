/* The last reports are in static memory: nothing can be allocated where memory is exhausted, and memory of each thread
 * is scarce in programs that load the library late. */
#include "memory/report.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/fork.h"
#include "core/json_text.h"
#include "core/utf8.h"
#include "events/call.h"
#include "memory/allocator_state.h"
#include "memory/origins.h"
#include "memory/record.h"

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

/* Has anything in the ring been recorded? The caller holds the lock. */
static bool is_recorded(const haul__block *live)
{
    for (const haul__block *block = live->next; block != live; block = block->next)
        if (haul__record_of(block))
            return true;
    return false;
}

static int64_t at_least_0(int64_t bytes)
{
    return bytes > 0 ? bytes : 0;
}

static void fill_scope(haul_memory_report *r, const haul__budget *over)
{
    const haul__budget_figures figures = haul__budget_figures_of(over);
    haul__utf8_copy(r->scope, sizeof r->scope, figures.scope);
    r->scope_allocated = figures.allocated;
    r->limit = figures.limit;
    r->room = at_least_0(figures.limit - figures.allocated);
}

void haul__report_failure(struct haul__allocator *a, const haul__budget *over, size_t bytes, const char *origin)
{
    char               path[sizeof((haul_memory_report *)0)->module];
    haul_memory_report r = {.device = a->device,
                            .of_scope = over != NULL,
                            .requested = bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX,
                            .free = haul__device_free_bytes(a->device)};
    const int          bin = haul__bin_of(bytes, a->pinned);
    r.block = bin < 0 ? r.requested : (int64_t)haul__bin_bytes(bin);
    haul__utf8_copy(r.operation, sizeof r.operation, origin);
    haul__utf8_copy(r.module, sizeof r.module, haul__call_path(path, sizeof path));
    haul__spin_lock(&a->lock);
    r.allocated = a->stats.allocated;
    r.reserved = a->stats.reserved;
    r.limit = a->stats.limit;
    r.by_module = is_recorded(&a->live);
    const int count = haul__sum_origins(&a->live, over, r.by_module ? haul__origin_module : haul__origin_operation,
                                        r.origins, HAUL_MEMORY_REPORT_ORIGINS);
    haul__spin_unlock(&a->lock);
    r.origin_count = count < HAUL_MEMORY_REPORT_ORIGINS ? count : HAUL_MEMORY_REPORT_ORIGINS;
    r.room = r.limit ? at_least_0(r.limit - r.reserved) : r.free;
    if (over)
        fill_scope(&r, over);
    haul__error_set_report(keep(&r));
}

/* ---- reading it ---- */

haul_status haul_memory_report_get(haul_memory_report *out)
{
    static const char  operation[] = "haul_memory_report_get";
    const uint64_t     number = haul__error_report();
    haul__error_record before;
    if (!out)
        return haul__fail_null(operation, "out");
    take_lock();
    const bool found = number && kept.numbers[number % KEPT] == number;
    if (found)
        *out = kept.reports[number % KEPT];
    give_lock();
    if (found)
        return HAUL_OK;
    haul__error_save(&before);
    if (before.status != HAUL_OK && !before.settled)
        return HAUL_STATE; /* the error stays, because the program is about to report it */
    return haul__fail(HAUL_STATE, operation, NULL,
                      "no allocation has failed on this thread since its error was cleared");
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
    const int length = vsnprintf(at < size ? out + at : NULL, size - at, format, list);
    va_end(list);
    *used += length > 0 ? length : 0;
}

static void append_size(char *out, size_t size, int64_t *used, const char *what, int64_t bytes)
{
    char text[32];
    append(out, size, used, "  %-10s %s\n", what, bytes < 0 ? "unknown" : haul__size_text(bytes, text, sizeof text));
}

int64_t haul_memory_report_text(const haul_memory_report *r, char *out, size_t size)
{
    static const char operation[] = "haul_memory_report_text";
    int64_t           used = 0;
    char              text[32];
    if (refuse(operation, r, out, size))
        return -1;
    append(out, size, &used, "out of memory on %s: %s asked for %s", haul_device_name(r->device), r->operation,
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
    append_size(out, size, &used, "free", r->free);
    append(out, size, &used, "%s\n", r->by_module ? "memory by module:" : "memory by operation:");
    for (int i = 0; i < r->origin_count; i++)
        append(out, size, &used, "  %-10s %s, %lld block%s\n", haul__size_text(r->origins[i].bytes, text, sizeof text),
               r->origins[i].name, (long long)r->origins[i].blocks, r->origins[i].blocks == 1 ? "" : "s");
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
    haul__json_integer(&t, "scope_allocated", r->scope_allocated);
    haul__json_integer(&t, "limit", r->limit);
    haul__json_integer(&t, "free", r->free);
    haul__json_integer(&t, "room", r->room);
    haul__json_bool(&t, "by_module", r->by_module);
    haul__json_origins(&t, "origins", r->origins, r->origin_count);
    haul__json_end(&t, '}');
    return haul__json_finish(&t);
}

/* Sums of live memory by the operation that allocated it, or by the module under way then. */
#include "memory/report/origins.h"

#include <stdio.h>
#include <string.h>

#include "base/text/plain.h"
#include "base/text/utf8.h"
#include "memory/report/block_origin.h"
#include "program/role.h"

const char *haul__origin_operation(const haul__block *block)
{
    return block->origin;
}

const char *haul__origin_module(const haul__block *block)
{
    const haul__block_origin *origin = haul__block_origin_of(block);
    return !origin ? "(not recorded)" : *origin->module ? origin->module : "(no module)";
}

const char *haul__origin_role(const haul__block *block)
{
    return haul__role_name(haul__storage_role(&block->own));
}

const char *haul__size_text(int64_t bytes, char *out, size_t size)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double                   value = (double)bytes;
    int                      unit = 0;
    for (; value >= 1024 && unit < 6; unit++)
        value /= 1024;
    haul__snprintf(out, size, unit ? "%.1f %s" : "%.0f %s", value, bytes == 1 ? "byte" : units[unit]);
    return out;
}

/* "parameters 1.5 MiB, gradients 3.0 KiB", of the first `shown` rows. Returns the length. */
static size_t list_origins(const haul_memory_origin *rows, int shown, char *out, size_t size)
{
    char   one[32];
    size_t at = 0;
    for (int i = 0; i < shown && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s %s", i ? ", " : "", rows[i].name,
                               haul__size_text(rows[i].bytes, one, sizeof one));
    return at < size ? at : size - 1;
}

const char *haul__holders_text(const haul__holders *h, char *out, size_t size)
{
    size_t at = 0;
    out[0] = 0;
    if (!h->count)
        return out;
    at += (size_t)snprintf(out, size, " (by ");
    at += list_origins(h->rows, h->count < HAUL__HOLDERS ? h->count : HAUL__HOLDERS, out + at, size - at);
    at += (size_t)snprintf(out + at, size - at, h->count > HAUL__HOLDERS ? ", ..." : "");
    if (h->role_count > 1 && at < size) {
        at += (size_t)snprintf(out + at, size - at, "; ");
        at += at < size ? list_origins(h->roles, h->role_count, out + at, size - at) : 0;
    }
    if (at < size)
        snprintf(out + at, size - at, ")");
    return out;
}

void haul__holders_find(const haul__block *live, const haul__scope_limit *only, haul__holders *out)
{
    out->count = haul__sum_origins(live, only, haul__origin_operation, out->rows, HAUL__HOLDERS);
    out->role_count = haul__sum_origins(live, only, haul__origin_role, out->roles, HAUL__ROLES);
}

/* Blocks whose elements are in host memory have no device memory. */
static bool is_counted(const haul__block *b, const haul__scope_limit *only)
{
    return !haul__block_is_away(b) && (!only || haul__scope_limit_within(b->scope_limit, only));
}

/* The next block from `b` on that counts; `live` itself at the end of the ring. */
static const haul__block *counted_from(const haul__block *b, const haul__block *live, const haul__scope_limit *only)
{
    while (b != live && !is_counted(b, only))
        b = b->next;
    return b;
}

/* At worst the time grows with the square of the number of blocks, which is fast enough for a report. */
int haul__sum_origins(const haul__block *live, const haul__scope_limit *only, haul__origin_of *of,
                      haul_memory_origin *out, int capacity)
{
    const haul__block *first = counted_from(live->next, live, only);
    int                found = 0;
    for (const haul__block *block = first; block != live; block = counted_from(block->next, live, only)) {
        haul_memory_origin row = {.bytes = 0};
        const char        *name = of(block);
        bool               seen = false;
        for (const haul__block *b = first; b != block && !seen; b = counted_from(b->next, live, only))
            seen = strcmp(of(b), name) == 0;
        if (seen)
            continue;
        haul__utf8_copy(row.name, sizeof row.name, name);
        for (const haul__block *b = block; b != live; b = counted_from(b->next, live, only)) {
            if (strcmp(of(b), name) == 0) {
                row.bytes += (int64_t)b->bytes;
                row.blocks++;
            }
        }
        found++;
        int at = found <= capacity ? found - 1 : capacity;
        if (at == capacity && capacity > 0 && out[capacity - 1].bytes < row.bytes)
            at = capacity - 1; /* replaces the smallest row */
        for (; at < capacity && at > 0 && out[at - 1].bytes < row.bytes; at--)
            out[at] = out[at - 1];
        if (at < capacity)
            out[at] = row;
    }
    return found;
}

void haul__json_origins(haul__json_text *t, const char *name, const haul_memory_origin *rows, int count)
{
    haul__json_begin(t, name, '[');
    for (int i = 0; i < count; i++) {
        haul__json_begin(t, NULL, '{');
        haul__json_string(t, "name", rows[i].name);
        haul__json_integer(t, "bytes", rows[i].bytes);
        haul__json_integer(t, "blocks", rows[i].blocks);
        haul__json_end(t, '}');
    }
    haul__json_end(t, ']');
}

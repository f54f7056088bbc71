/* The table of all operations, and the public description made from their descriptors. */
#include "catalog/catalog.h"

#include <stdlib.h>
#include <string.h>

#include "engine/custom/custom.h"
#include "engine/implementation.h"

_Static_assert((int)HAUL__MAX_OPERANDS <= (int)HAUL_OPERATION_MAX_OPERANDS, "a description has room for all operands");
_Static_assert((int)HAUL__IMPLEMENTATIONS <= (int)HAUL_OPERATION_MAX_IMPLEMENTATIONS, "a list has room for all names");
_Static_assert((int)HAUL__MAX_RESULTS <= (int)HAUL_OPERATION_MAX_RESULTS, "a description has room for all results");

#define X(id, into) extern HAUL__OPERATION(id);
#include "operations.h"
#undef X

const haul__catalog_entry haul__catalog[] = {
#define X(id, into) {&haul__operation_##id, into},
#include "operations.h"
#undef X
};
const int haul__catalog_count = sizeof haul__catalog / sizeof *haul__catalog;

/* The dtypes of an operand that follows the operation's rule; if none does, those of the first operand. */
static uint32_t accepted(const haul__operation *operation)
{
    uint32_t dtypes = operation->dtypes ? operation->dtypes : HAUL__ALL;
    bool     follows = !operation->operands[0].name;
    for (int i = 0; i < HAUL__MAX_OPERANDS && operation->operands[i].name; i++)
        follows = follows || !operation->operands[i].accepts;
    if (!follows)
        return operation->operands[0].accepts;
    if (operation->rule == HAUL__FLOATED && (dtypes & HAUL__ONLY(HAUL_F32)))
        dtypes |= HAUL__INTEGERS | HAUL__UNSIGNED | HAUL__ONLY(HAUL_BOOL);
    return dtypes;
}

static void list_operands(const haul__operation *operation, haul_operation_info *out)
{
    for (int i = 0; i < HAUL__MAX_OPERANDS && operation->operands[i].name; i++) {
        const haul__operand *o = &operation->operands[i];
        out->operands[out->operand_count++] =
            (haul_operation_operand){.name = o->name, .optional = o->optional, .written = o->written};
    }
}

static void list_results(const haul__operation *operation, haul_operation_info *out)
{
    for (int i = 0; i < HAUL__MAX_RESULTS && operation->results[i].name; i++)
        if (!operation->results[i].hidden)
            out->results[out->result_count++] = operation->results[i].name;
}

static void list_dtypes(const haul__operation *operation, haul_operation_info *out)
{
    uint32_t dtypes = accepted(operation);
    for (int d = HAUL_DTYPE_NONE + 1; d < HAUL_DTYPE_END; d++)
        if (dtypes & HAUL__ONLY(d))
            out->dtypes[out->dtype_count++] = (haul_dtype)d;
}

/* ---- including the program's operations, which come after the library's ---- */

int haul_operation_count(void)
{
    int count = haul__catalog_count;
    for (haul__custom *custom = haul__custom_first(); custom; custom = haul__custom_next(custom))
        count++;
    return count;
}

/* Returns false, with the error recorded, if no operation has the index. */
static bool entry_at(const char *function, int index, haul__catalog_entry *out)
{
    int at = haul__catalog_count;
    if (index >= 0 && index < haul__catalog_count) {
        *out = haul__catalog[index];
        return true;
    }
    for (haul__custom *custom = haul__custom_first(); custom; custom = haul__custom_next(custom), at++)
        if (at == index) {
            *out = (haul__catalog_entry){&custom->operation, custom->result_count == 1};
            return true;
        }
    haul__fail(HAUL_INVALID_ARGUMENT, function, "index", "unknown operation %d; they are numbered from 0 to %d", index,
               at - 1);
    return false;
}

haul_status haul_operation_describe(int index, haul_operation_info *out)
{
    if (!out)
        return haul__fail_null("haul_operation_describe", "out");
    haul__catalog_entry entry;
    if (!entry_at("haul_operation_describe", index, &entry))
        return haul_error_status();
    const haul__operation *operation = entry.operation;
    haul_operation_info info = {.name = operation->name, .variadic = operation->repeat > 0, .has_into = entry.has_into};
    list_operands(operation, &info);
    list_results(operation, &info);
    list_dtypes(operation, &info);
    /* A composite operation without a gradient of its own is differentiated through its parts. */
    info.differentiable = info.operand_count && info.result_count && !operation->not_recorded &&
                          (operation->gradient || operation->compose);
    *out = info;
    return HAUL_OK;
}

int haul_operation_implementations(int index, haul_device *device, const char **names, int capacity)
{
    static const char   function[] = "haul_operation_implementations";
    uint32_t            without;
    haul__catalog_entry entry;
    if (!entry_at(function, index, &entry) || haul__device_check(device, function, "device") ||
        haul__implementations_without(&without))
        return -1;
    return haul__list_implementations(entry.operation, device, names, names ? capacity : 0);
}

static int by_name(const void *name, const void *entry)
{
    return strcmp(name, ((const haul__catalog_entry *)entry)->operation->name);
}

int haul_operation_find(const char *name)
{
    const haul__catalog_entry *found =
        name ? bsearch(name, haul__catalog, (size_t)haul__catalog_count, sizeof *haul__catalog, by_name) : NULL;
    if (found || !name)
        return found ? (int)(found - haul__catalog) : -1;
    int at = haul__catalog_count;
    for (haul__custom *custom = haul__custom_first(); custom; custom = haul__custom_next(custom), at++)
        if (strcmp(custom->operation.name, name) == 0)
            return at;
    return -1;
}

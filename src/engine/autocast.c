/* Autocast: the thread's setting, the rule of each operation, and the casts of parameters.
 *
 * The cast of a parameter is kept with the parameter's storage until its elements change (memory/derived.h). While a
 * graph is recorded the cast is one node of it, so that the gradients of all its uses are added in the lower dtype and
 * then cast once. A per-thread table holds these nodes until the outermost autocast ends; a storage cannot hold them,
 * because they hold the storage. The copies made by these casts are freed at the same time, since a training step
 * changes its parameters. */
#include "engine/autocast.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/half.h"
#include "core/map.h"
#include "core/small_blocks.h"
#include "engine/copy.h"
#include "memory/derived.h"
#include "memory/dry_run/dry_run.h"

/* ---- the thread's setting ---- */

enum { SLOT_BITS = 2, SLOT_MASK = 3 };

static const haul_dtype dtypes[] = {HAUL_DTYPE_NONE, HAUL_F16, HAUL_BF16};

static uint32_t in_slot(int slot, uint32_t code)
{
    return code << (SLOT_BITS * slot);
}

static haul_dtype dtype_on(const haul_device *device)
{
    uint32_t bits = haul__thread()->words[HAUL__AUTOCAST];
    if (!bits || (bits & HAUL__AUTOCAST_PAUSED))
        return HAUL_DTYPE_NONE;
    const uint32_t code = bits >> (SLOT_BITS * device->backend_slot) & SLOT_MASK;
    HAUL__ASSERT(code < sizeof dtypes / sizeof *dtypes);
    return dtypes[code];
}

static uint32_t code_of(haul_dtype dtype)
{
    uint32_t code = 0;
    while (code < SLOT_MASK && dtypes[code] != dtype)
        code++;
    return code;
}

/* The bits of the named backends. */
static haul_status slots_named(const char *devices, uint32_t *mask)
{
    int count = haul__backend_count();
    *mask = 0;
    for (int slot = 0; slot < count; slot++)
        if (!strcmp(devices, "all") || !strcmp(devices, haul__backend_name(slot)))
            *mask |= in_slot(slot, SLOT_MASK);
    if (*mask)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, "haul_autocast_begin", "devices",
                      "'%.40s' is not a kind of device; expected \"all\", \"cpu\", \"cuda\", \"opencl\" or \"meta\", "
                      "without a number",
                      devices);
}

haul_autocast_state haul_autocast_begin(const char *devices, haul_dtype dtype)
{
    haul_autocast_state before = {haul__thread()->words[HAUL__AUTOCAST]};
    uint32_t            mask, each = 0;
    if (!devices) {
        haul__fail_null("haul_autocast_begin", "devices");
        return before;
    }
    if (code_of(dtype) == SLOT_MASK) {
        haul__fail(HAUL_DTYPE, "haul_autocast_begin", "dtype",
                   "autocast to %s is not possible; use HAUL_F16 or HAUL_BF16, or HAUL_DTYPE_NONE to switch it off",
                   haul_dtype_name(dtype));
        return before;
    }
    if (slots_named(devices, &mask))
        return before;
    HAUL__ASSERT(!(mask & (HAUL__AUTOCAST_BEGUN | HAUL__AUTOCAST_PAUSED))); /* all backends have slots below these */
    for (int slot = 0; slot < haul__backend_count(); slot++)
        each |= in_slot(slot, code_of(dtype));
    haul__thread()->words[HAUL__AUTOCAST] = (before.bits & ~mask) | (each & mask) | HAUL__AUTOCAST_BEGUN;
    return before;
}

haul_status haul_autocast_end(haul_autocast_state before)
{
    uint32_t known = HAUL__AUTOCAST_BEGUN | HAUL__AUTOCAST_PAUSED;
    for (int slot = 0; slot < haul__backend_count(); slot++) {
        known |= in_slot(slot, SLOT_MASK);
        if ((before.bits >> (SLOT_BITS * slot) & SLOT_MASK) == SLOT_MASK)
            known = 0;
    }
    if ((before.bits & ~known) || (before.bits && !(before.bits & HAUL__AUTOCAST_BEGUN)))
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_autocast_end", "before",
                          "the state is not one that haul_autocast_begin returned; pass its result unchanged");
    haul__thread()->words[HAUL__AUTOCAST] = before.bits;
    haul__thread_settle();
    return HAUL_OK;
}

haul_dtype haul_autocast_dtype(const haul_device *device)
{
    if (haul__device_check(device, "haul_autocast_dtype", "device"))
        return HAUL_DTYPE_NONE;
    return dtype_on(device);
}

/* ---- casts of parameters, as nodes of the graph ---- */

typedef struct kept_cast {
    haul_tensor   *leaf;    /* holds a reference */
    haul__storage *storage; /* the leaf's storage when it was cast; holds a reference */
    uint64_t       version; /* the storage's version when the leaf was cast */
    haul_tensor   *cast;    /* holds a reference */
} kept_cast;

typedef struct cast_table {
    haul__object object;
    haul__map    casts; /* keyed by leaf */
} cast_table;

static void free_cast(kept_cast *k)
{
    if (!k)
        return;
    HAUL__ASSERT(k->cast->storage != k->storage && k->cast->dtype != HAUL_F32);
    haul__derived_drop(k->storage, k->cast->storage);
    haul__object_release(k->leaf);
    haul__object_release(k->storage);
    haul__object_release(k->cast);
    haul__small_free(k, sizeof *k);
}

static void destroy_table(void *object)
{
    cast_table *table = object;
    for (size_t i = 0; i < table->casts.capacity; i++)
        free_cast(table->casts.entries[i].value);
    haul__map_free(&table->casts);
    haul__free(table);
}

static const haul__class table_class = {.name = "autocast's casts", .destroy = destroy_table};

/* The thread's table; NULL if there is none and none can be made. */
static cast_table *table_get(bool make)
{
    cast_table *table = haul__thread_kept(HAUL__AUTOCAST);
    if (table || !make)
        return table;
    table = haul__calloc(1, sizeof *table);
    if (!table)
        return NULL;
    haul__object_init(&table->object, &table_class);
    if (haul__thread_keep(HAUL__AUTOCAST, table))
        return table;
    haul__object_release(table);
    return NULL;
}

static uint64_t version_of(const haul__storage *storage)
{
    return atomic_load_explicit(&storage->version, memory_order_relaxed);
}

/* The kept cast of a leaf, if it is still valid. */
static haul_tensor *cast_kept(haul_tensor *leaf, haul_dtype dtype)
{
    const cast_table      *table = table_get(false);
    const haul__map_entry *e = table ? haul__map_find(&table->casts, leaf) : NULL;
    const kept_cast       *k = e ? e->value : NULL;
    HAUL__ASSERT(!k || k->leaf == leaf);
    bool right = k && k->storage == leaf->storage && k->version == version_of(leaf->storage) &&
                 k->cast->dtype == dtype && haul__tensor_same_layout(k->cast, leaf) &&
                 (k->cast->storage->planned ? haul__dry_run_planned(k->cast->storage) : !haul__is_recorded());
    return right ? k->cast : NULL;
}

/* Keep the cast if there is memory for the entry. */
static void keep_cast(haul_tensor *leaf, haul_tensor *cast)
{
    bool             is_new;
    cast_table      *table = table_get(true);
    haul__map_entry *e = table ? haul__map_insert(&table->casts, leaf, &is_new) : NULL;
    kept_cast       *k = e ? haul__small_alloc(sizeof *k) : NULL, *old = e ? e->value : NULL;
    if (!k)
        return;
    HAUL__ASSERT(is_new ? !old : !old || old->leaf == leaf);
    HAUL__ASSERT(leaf->requires_grad && cast->dtype != leaf->dtype && haul__shape_equal(&cast->shape, &leaf->shape));
    *k = (kept_cast){leaf, leaf->storage, version_of(leaf->storage), cast};
    haul__object_keep(k->leaf);
    haul__object_keep(k->storage);
    haul__object_keep(k->cast);
    e->value = k;
    free_cast(old);
}

/* ---- casting ---- */

static bool is_parameter(const haul_tensor *t)
{
    return t->requires_grad && !t->node && t->dtype == HAUL_F32;
}

static haul_tensor *lowered(haul_tensor *t, haul_dtype dtype)
{
    if (!is_parameter(t))
        return haul_cast(t, dtype);
    if (haul__thread()->no_grad)
        return haul__cast_kept(t, dtype);
    haul_tensor *kept = cast_kept(t, dtype);
    if (kept)
        return kept;
    haul_tensor *cast = haul__cast_kept(t, dtype);
    if (!haul__failed(cast))
        keep_cast(t, cast);
    return cast;
}

haul_status haul__autocast_operands(haul__call *c)
{
    HAUL__ASSERT(c->device && !c->into);
    haul_dtype dtype = dtype_on(c->device);
    if (!dtype || c->operation->autocast != HAUL__LOWER)
        return HAUL_OK;
    for (int i = 0; i < c->count; i++)
        if (!haul__is_none(c->operands[i]) && c->operands[i]->dtype == HAUL_F64)
            return HAUL_OK;
    for (int i = 0; i < c->count; i++) {
        haul_tensor *t = c->operands[i];
        if (haul__is_none(t) || !haul_dtype_is_float(t->dtype) || t->dtype == dtype)
            continue;
        c->operands[i] = lowered(t, dtype);
        if (haul__failed(c->operands[i]))
            return haul_error_status();
    }
    return HAUL_OK;
}

haul_dtype haul__autocast_wide(const haul_device *device, haul_dtype dtype)
{
    return haul__is_half(dtype) && dtype_on(device) ? HAUL_F32 : dtype;
}

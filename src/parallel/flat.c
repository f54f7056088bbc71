#include "parallel/flat.h"

#include <float.h>
#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/transfer.h>
#include <string.h>

#include "autograd/pass.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/fnv.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "core/trial.h"
#include "engine/autocast.h"
#include "engine/placement/placement.h"
#include "group/group.h"
#include "memory/dry_run/dry_run.h"
#include "memory/spill/elsewhere.h"
#include "nn/tensors.h"

enum { LOSS_AND_WEIGHT = 2 };

/* Large enough that a bucket's own costs, some round trips, do not count, and small enough that much of the exchange
 * runs while the pass goes on. */
int64_t haul__flat_bucket_bytes = 4 << 20;

/* ---- items ---- */

typedef enum kind { PARAMETER, FLOAT_BUFFER, INTEGER_BUFFER, NOTHING } kind;

static kind kind_of(const haul_named_tensor *t)
{
    if (!t->is_buffer)
        return haul_requires_grad(t->tensor) ? PARAMETER : NOTHING;
    if (haul_dtype_is_float(t->tensor->dtype))
        return FLOAT_BUFFER;
    return haul_dtype_is_integer(t->tensor->dtype) ? INTEGER_BUFFER : NOTHING;
}

static bool is_listed(const haul_named_tensor *list, int count, const haul_tensor *t)
{
    for (int i = 0; i < count; i++)
        if (list[i].tensor == t)
            return true;
    return false;
}

static haul_status add_items(haul__flat *flat, const haul_named_tensor *list, int count, kind wanted, int *added,
                             const char *operation)
{
    haul__flat_item *next = flat->items + flat->parameters + flat->floats + flat->integers;
    for (int i = 0; i < count; i++) {
        if (kind_of(&list[i]) != wanted || is_listed(list, i, list[i].tensor))
            continue;
        *next = (haul__flat_item){.tensor = list[i].tensor, .name = list[i].name, .at = flat->total};
        haul__object_keep(next->tensor);
        next++;
        (*added)++;
        if (list[i].tensor->dtype == HAUL_F64)
            flat->dtype = HAUL_F64;
        if (__builtin_add_overflow(flat->total, list[i].tensor->count, &flat->total))
            return haul__fail(HAUL_SHAPE, operation, "module", "the module has more elements than can be counted");
    }
    return HAUL_OK;
}

static haul_status fill(haul__flat *flat, const haul_named_tensor *list, int count, const char *operation)
{
    haul_status   status = add_items(flat, list, count, PARAMETER, &flat->parameters, operation);
    const int64_t gradients = flat->total;
    if (!status)
        status = add_items(flat, list, count, FLOAT_BUFFER, &flat->floats, operation);
    if (!status)
        status = add_items(flat, list, count, INTEGER_BUFFER, &flat->integers, operation);
    if (!status && __builtin_add_overflow(flat->total, LOSS_AND_WEIGHT, &flat->total))
        status = haul__fail(HAUL_SHAPE, operation, "module", "the module has more elements than can be counted");
    if (!status && !flat->parameters)
        status = haul__fail(HAUL_INVALID_ARGUMENT, operation, "module",
                            "no parameter of the module requires a gradient; make some with haul_set_requires_grad");
    for (int i = flat->parameters; i < flat->parameters + flat->floats + flat->integers; i++)
        flat->items[i].at -= gradients;
    flat->rest = flat->total - gradients;
    HAUL__ASSERT(status || flat->rest >= LOSS_AND_WEIGHT);
    return status;
}

/* ---- buckets ---- */

/* The bucket for the next parameter. */
static haul__flat_bucket *open_bucket(haul__flat *flat, int at)
{
    const int64_t most = haul__flat_bucket_bytes / (int64_t)haul__dtype_size(flat->dtype);
    if (!flat->bucket_count || flat->buckets[flat->bucket_count - 1].count >= most)
        flat->buckets[flat->bucket_count++] = (haul__flat_bucket){.first = at};
    HAUL__ASSERT(flat->bucket_count <= flat->parameters && flat->buckets[flat->bucket_count - 1].first <= at);
    return &flat->buckets[flat->bucket_count - 1];
}

/* Puts what goes to one rank together. */
static void sort_by_owner(haul__flat *flat, const haul__flat_bucket *b)
{
    int *order = flat->order;
    for (int k = b->first + 1; k < b->end && flat->owners; k++) {
        const int item = order[k];
        int       to = k;
        for (; to > b->first && flat->owners[order[to - 1]] > flat->owners[item]; to--)
            order[to] = order[to - 1];
        order[to] = item;
    }
}

static void place_items(const haul__flat *flat, int bucket)
{
    const haul__flat_bucket *b = &flat->buckets[bucket];
    int64_t                  at = 0;
    for (int k = b->first; k < b->end; k++) {
        haul__flat_item *item = &flat->items[flat->order[k]];
        item->bucket = bucket;
        item->at = at;
        at += item->tensor->count;
    }
    HAUL__ASSERT(at == b->count); /* they have all of the bucket */
}

void haul__flat_arrange(haul__flat *flat, const int *order)
{
    flat->bucket_count = 0;
    for (int k = 0; k < flat->parameters; k++) {
        haul__flat_bucket *b = open_bucket(flat, k);
        b->count += flat->items[order[k]].tensor->count;
        b->end = k + 1;
        flat->order[k] = order[k];
    }
    for (int i = 0; i < flat->bucket_count; i++) {
        sort_by_owner(flat, &flat->buckets[i]);
        place_items(flat, i);
    }
    HAUL__ASSERT(!flat->bucket_count || flat->buckets[flat->bucket_count - 1].end == flat->parameters);
}

void haul__flat_divide(haul__flat *flat, const int *owners, int rank)
{
    flat->owners = owners;
    flat->rank = rank;
    haul__flat_arrange(flat, flat->order);
}

int64_t haul__flat_bound(const haul__flat *flat, int bucket, int rank)
{
    const haul__flat_bucket *b = &flat->buckets[bucket];
    int64_t                  at = 0;
    for (int k = b->first; k < b->end && flat->owners[flat->order[k]] < rank; k++)
        at += flat->items[flat->order[k]].tensor->count;
    HAUL__ASSERT(at <= b->count);
    return at;
}

/* The order in which most networks finish their gradients. */
static haul_status arrange_backward(haul__flat *flat, const char *operation)
{
    const size_t count = (size_t)flat->parameters;
    bool         is_new;
    flat->order = haul__calloc(count, sizeof *flat->order);
    flat->buckets = haul__calloc(count, sizeof *flat->buckets);
    bool ok = flat->order && flat->buckets;
    for (int i = 0; ok && i < flat->parameters; i++) {
        haul__map_entry *e = haul__map_insert(&flat->places, flat->items[i].tensor, &is_new);
        flat->order[i] = flat->parameters - 1 - i;
        ok = e != NULL;
        if (e)
            e->value = &flat->items[i];
    }
    if (ok)
        haul__flat_arrange(flat, flat->order);
    return ok ? HAUL_OK : haul__fail_memory(operation, count * sizeof *flat->buckets);
}

haul__flat_item *haul__flat_find(const haul__flat *flat, const haul_tensor *parameter)
{
    const haul__map_entry *e = haul__map_find(&flat->places, parameter);
    return e ? e->value : NULL;
}

/* Moves those that are kept to the front. Returns how many they are. */
static int select_tensors(haul_named_tensor *list, int count, haul__flat_keeps *keeps, const void *context)
{
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (!keeps || keeps(list[i].name, context))
            list[kept++] = list[i];
    return kept;
}

haul_scope *haul__flat_scope(void)
{
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return NULL;
    haul_set_grad_enabled(false);
    haul__place_as_given();
    if (haul__autocast_begun())
        haul__thread()->words[HAUL__AUTOCAST] |= HAUL__AUTOCAST_PAUSED;
    return scope;
}

haul_status haul__flat_init_some(haul__flat *flat, haul_module *module, haul__flat_keeps *keeps, const void *context,
                                 const char *operation)
{
    int                count = 0;
    haul_named_tensor *list = haul__module_tensor_list(module, &count);
    *flat = (haul__flat){.dtype = HAUL_F32};
    if (!list)
        return haul__fail_within(operation);
    count = select_tensors(list, count, keeps, context);
    flat->items = haul__calloc((size_t)count + 1, sizeof *flat->items);
    haul_status status = flat->items ? fill(flat, list, count, operation)
                                     : haul__fail_memory(operation, (size_t)count * sizeof *flat->items);
    HAUL__ASSERT(status || flat->parameters > 0);
    if (!status)
        status = arrange_backward(flat, operation);
    if (!status)
        flat->device = flat->items[0].tensor->storage->device;
    haul__free(list);
    return status;
}

haul_status haul__flat_init(haul__flat *flat, haul_module *module, const char *operation)
{
    return haul__flat_init_some(flat, module, NULL, NULL, operation);
}

static int buffers_of(const haul__flat *flat)
{
    return flat->floats + flat->integers;
}

void haul__flat_free(haul__flat *flat)
{
    for (int i = 0; flat->items && i < flat->parameters + buffers_of(flat); i++) {
        haul__object_release(flat->items[i].tensor);
        haul__object_release(flat->items[i].original);
    }
    haul__free(flat->items);
    haul__free(flat->buckets);
    haul__free(flat->order);
    haul__map_free(&flat->places);
    *flat = (haul__flat){.items = NULL};
}

static bool has_parameter(const haul__flat *flat, const haul_tensor *t)
{
    for (int i = 0; i < flat->parameters; i++)
        if (flat->items[i].tensor == t)
            return true;
    return false;
}

haul_status haul__flat_check(const haul__flat *flat, haul_module *module, const char *operation)
{
    int                count = 0;
    haul_named_tensor *list = haul__module_tensor_list(module, &count);
    haul_status        status = list ? HAUL_OK : haul__fail_within(operation);
    for (int i = 0; i < count && !status; i++)
        if (!list[i].is_buffer && haul_requires_grad(list[i].tensor) != has_parameter(flat, list[i].tensor))
            status = haul__fail(HAUL_STATE, operation, "parallel",
                                "'%s' %s a gradient now, and did %s when haul_parallel_new was called; call it again "
                                "after each change",
                                list[i].name, haul_requires_grad(list[i].tensor) ? "requires" : "does not require",
                                haul_requires_grad(list[i].tensor) ? "not" : "then");
    haul__free(list);
    return status;
}

/* ---- the same on all ranks ---- */

uint32_t haul__flat_hash(const haul__flat *flat)
{
    uint64_t hash = HAUL__FNV;
    for (int i = 0; i < flat->parameters + buffers_of(flat); i++) {
        const haul_tensor *t = flat->items[i].tensor;
        hash = haul__fnv(hash, flat->items[i].name, strlen(flat->items[i].name));
        hash = haul__fnv(hash, t->shape.dims, (size_t)t->shape.ndim * sizeof *t->shape.dims);
        hash = haul__fnv(hash, &t->dtype, sizeof t->dtype);
    }
    return (uint32_t)(hash ^ (hash >> 32));
}

static haul_status share_one(haul_tensor *t, haul_group *group, const haul__group_call *call)
{
    if (haul__failed(t))
        return haul_error_status();
    const size_t bytes = (size_t)t->count * haul__dtype_size(t->dtype);
    void        *values = haul__malloc(bytes + 1);
    if (!values)
        return haul__fail_memory(call->name, bytes);
    /* What another rank has (.shard = 3) does not come for this. */
    const bool  gets = haul_group_rank(group) != 0 && !haul__is_given_up(t->storage);
    haul_status status = haul_group_rank(group) == 0 ? haul_read(t, values, bytes) : HAUL_OK;
    if (!status)
        status = haul__work_wait(haul__group_broadcast_begin(group, call, values, (int64_t)bytes, 0));
    if (!status && gets)
        status = haul_write(t, values, bytes);
    haul__free(values);
    return status;
}

haul_status haul__flat_share(haul_module *module, haul_group *group, const char *operation)
{
    int                count = 0;
    haul_named_tensor *list = haul__is_dry() ? NULL : haul__module_tensor_list(module, &count);
    haul_status        status = list || haul__is_dry() ? HAUL_OK : haul__fail_within(operation);
    for (int i = 0; i < count && !status; i++) {
        const haul_tensor *t = list[i].tensor;
        char               what[160], shape[64];
        haul__snprintf(what, sizeof what, "%.80s %s%s", list[i].name, haul_dtype_name(t->dtype),
                       haul__shape_text(&t->shape, shape, sizeof shape));
        status = share_one(haul_detach(list[i].tensor), group, &(haul__group_call){.name = operation, .what = what});
    }
    haul__free(list);
    return status;
}

/* ---- buffers and gradients ---- */

static uint64_t version_of(const haul_tensor *t)
{
    return atomic_load(&t->storage->version);
}

static haul_status keep_one(haul__flat_item *item)
{
    item->version = version_of(item->tensor);
    if (item->original)
        return haul_copy_into(item->original, item->tensor);
    haul_tensor *copy = haul_clone(item->tensor);
    if (haul__failed(copy))
        return haul_error_status();
    haul__object_keep(copy);
    item->original = copy;
    return HAUL_OK;
}

haul_status haul__flat_keep_buffers(haul__flat *flat)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < buffers_of(flat) && !status; i++)
        status = keep_one(&flat->items[flat->parameters + i]);
    return status;
}

haul_status haul__flat_restore_buffers(const haul__flat *flat)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < buffers_of(flat) && !status; i++) {
        const haul__flat_item *item = &flat->items[flat->parameters + i];
        status = haul_copy_into(item->tensor, item->original);
    }
    return status;
}

haul_status haul__flat_restore_changed(haul__flat *flat)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < buffers_of(flat) && !status; i++) {
        haul__flat_item *item = &flat->items[flat->parameters + i];
        if (item->version == version_of(item->tensor))
            continue;
        status = haul_copy_into(item->tensor, item->original);
        item->version = version_of(item->tensor);
    }
    return status;
}

haul_status haul__flat_remove_gradients(const haul__flat *flat)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < flat->parameters && !status; i++)
        status = haul_set_grad(flat->items[i].tensor, HAUL_NONE);
    return status;
}

/* ---- numbers ---- */

static haul_tensor *part(haul_tensor *all, int64_t at, int64_t count)
{
    return haul_slice(all, 0, at, at + count, 1);
}

/* The numbers of an item, in its shape. */
static haul_tensor *part_of(haul_tensor *all, const haul__flat_item *item)
{
    return haul_view(part(all, item->at, item->tensor->count), item->tensor->shape);
}

/* A gradient may have other strides than the tensor that takes its numbers. */
static haul_status gather_gradient(haul_tensor *all, const haul__flat_item *item)
{
    haul_tensor *to = part_of(all, item), *gradient = item->tensor->grad;
    if (haul__failed(to))
        return haul_error_status();
    return gradient ? haul_copy_into(to, gradient) : haul_zero_into(to);
}

static haul_status gather_change(haul_tensor *all, const haul__flat_item *item, bool first)
{
    haul_tensor *to = part_of(all, item);
    if (haul__failed(to))
        return haul_error_status();
    return first ? haul_copy_into(to, haul_sub(item->tensor, item->original)) : haul_zero_into(to);
}

static haul_status gather_loss(const haul__flat *flat, haul_tensor *all, haul_tensor *loss, double weight)
{
    haul_tensor *to = part(all, flat->rest - LOSS_AND_WEIGHT, 1);
    haul_status  status = haul__is_none(loss) ? haul_zero_into(to) : haul_copy_into(to, haul_detach(loss));
    HAUL__ASSERT(flat->rest >= LOSS_AND_WEIGHT);
    return status ? status : haul_fill_into(part(all, flat->rest - 1, 1), weight);
}

static haul_tensor *room(const haul__flat *flat, int64_t count)
{
    haul_device *before = haul_current_device();
    haul_set_device(flat->device);
    haul_tensor *all = haul_empty(flat->dtype, HAUL_SHAPE(count));
    haul_set_device(before);
    return all;
}

/* The gradient of a bucket's only parameter, if its memory can be that of the bucket; else NULL. */
static haul_tensor *gradient_as_bucket(const haul__flat *flat, const haul__flat_bucket *b)
{
    const haul__flat_item *item = &flat->items[flat->order[b->first]];
    haul_tensor           *gradient = item->tensor->grad;
    if (b->end - b->first > 1 || !gradient || haul__is_trial() || gradient->dtype != flat->dtype ||
        gradient->storage->device != flat->device || !haul__gradient_is_own(gradient) ||
        !haul_tensor_is_contiguous(gradient) || gradient->offset)
        return NULL;
    haul_tensor *all = haul_view(haul_detach(gradient), HAUL_SHAPE(gradient->count));
    return haul__failed(all) || haul_set_grad(item->tensor, HAUL_NONE) ? NULL : all;
}

haul_tensor *haul__flat_gather(const haul__flat *flat, int bucket)
{
    const haul__flat_bucket *b = &flat->buckets[bucket];
    HAUL__ASSERT(b->first < b->end && b->end <= flat->parameters);
    haul_tensor *all = gradient_as_bucket(flat, b);
    if (all)
        return all;
    all = room(flat, b->count);
    haul_status status = haul__status_of(all);
    for (int k = b->first; k < b->end && !status; k++) {
        const haul__flat_item *item = &flat->items[flat->order[k]];
        status = gather_gradient(all, item);
        if (!status)
            status = haul_set_grad(item->tensor, HAUL_NONE);
    }
    return status ? NULL : all;
}

haul_tensor *haul__flat_gather_rest(const haul__flat *flat, haul_tensor *loss, double weight, bool first)
{
    haul_tensor *all = room(flat, flat->rest);
    haul_status  status = haul__status_of(all);
    int          i = flat->parameters;
    for (const int end = flat->parameters + flat->floats; i < end && !status; i++)
        status = haul_copy_into(part_of(all, &flat->items[i]), flat->items[i].tensor);
    for (const int end = i + flat->integers; i < end && !status; i++)
        status = gather_change(all, &flat->items[i], first);
    if (!status)
        status = gather_loss(flat, all, loss, weight);
    return status ? NULL : all;
}

haul_status haul__flat_drop_changes(const haul__flat *flat, haul_tensor *rest)
{
    const int64_t end = flat->rest - LOSS_AND_WEIGHT;
    if (!flat->integers)
        return HAUL_OK;
    const int64_t first = flat->items[flat->parameters + flat->floats].at;
    return haul_zero_into(part(rest, first, end - first));
}

/* A step whose weights are all 0 has gradients of zeros. */
static haul_tensor *divisor(const haul__flat *flat, haul_tensor *rest)
{
    return haul_clamp(part(rest, flat->rest - 1, 1), FLT_MIN, DBL_MAX);
}

static haul_status scatter_gradient(const haul__flat *flat, haul_tensor *sum, haul__flat_item item)
{
    if (flat->owners)
        item.at -= haul__flat_bound(flat, item.bucket, flat->rank);
    HAUL__ASSERT(item.at >= 0);
    haul_tensor *gradient = haul_to(part_of(sum, &item), item.tensor->storage->device, .dtype = item.tensor->dtype);
    return haul__failed(gradient) ? haul_error_status() : haul_set_grad(item.tensor, gradient);
}

static bool is_own(const haul__flat *flat, int item)
{
    return !flat->owners || flat->owners[item] == flat->rank;
}

static haul_status scatter_change(haul_tensor *sum, const haul__flat_item *item)
{
    haul_tensor *change = haul_to(part_of(sum, item), item->tensor->storage->device, .dtype = item->tensor->dtype);
    return haul_copy_into(item->tensor, haul_add(item->original, change));
}

haul_status haul__flat_scatter(const haul__flat *flat, haul_tensor *const *sums, int pieces)
{
    haul_tensor *rest = sums[flat->bucket_count], *weight = divisor(flat, rest);
    haul_status  status = haul__status_of(weight);
    int          i = 0;
    HAUL__ASSERT(pieces > 0);
    for (int b = 0; b < flat->bucket_count && !status; b++)
        if (!haul__is_none(sums[b]))
            status = haul_div_into(sums[b], sums[b], weight);
    for (const int end = flat->parameters; i < end && !status; i++)
        if (is_own(flat, i))
            status = scatter_gradient(flat, sums[flat->items[i].bucket], flat->items[i]);
    for (const int end = flat->parameters + flat->floats; i < end && !status; i++)
        status = haul_copy_into(flat->items[i].tensor, haul_mul_scalar(part_of(rest, &flat->items[i]), 1.0 / pieces));
    for (const int end = i + flat->integers; i < end && !status; i++)
        status = scatter_change(rest, &flat->items[i]);
    return status;
}

haul_tensor *haul__flat_loss(const haul__flat *flat, haul_tensor *rest)
{
    haul_tensor *mean = haul_div(part(rest, flat->rest - LOSS_AND_WEIGHT, 1), divisor(flat, rest));
    return haul_reshape(mean, HAUL_SCALAR_SHAPE);
}

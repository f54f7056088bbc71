#include "parallel/buckets.h"

#include <haul/ops.h>
#include <haul/transfer.h>
#include <inttypes.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/clock.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "core/object.h"
#include "core/tensor.h"
#include "parallel/hidden.h"

#define BACKWARD "haul_parallel_backward"

/* With owners: the most bytes of buckets whose exchange is under way when another one begins. */
enum { UNDER_WAY = 8 << 20 };

haul_status haul__buckets_init(haul__buckets *b, haul__flat *flat, haul_group *group, const haul__tree *tree)
{
    const size_t count = (size_t)flat->parameters;
    *b = (haul__buckets){.flat = flat, .group = group, .tree = *tree};
    b->list = haul__calloc(count + 1, sizeof *b->list);
    b->seen = haul__calloc(count, sizeof *b->seen);
    b->was_seen = haul__calloc(count, sizeof *b->was_seen);
    if (b->list && b->seen && b->was_seen)
        return HAUL_OK;
    return haul__fail_memory("haul_parallel_new", (count + 1) * sizeof *b->list);
}

void haul__buckets_free(haul__buckets *b)
{
    if (b->list)
        haul__buckets_clear(b);
    haul__free(b->list);
    haul__free(b->seen);
    haul__free(b->was_seen);
    *b = (haul__buckets){.flat = NULL};
}

static void drop_deferred(haul__bucket *bucket)
{
    haul__object_release(bucket->deferred);
    bucket->deferred = NULL;
}

void haul__buckets_begin(haul__buckets *b, int64_t step, int piece, bool last, bool defers)
{
    const int count = b->flat->bucket_count;
    for (int i = 0; i <= count; i++) {
        b->list[i].left = i < count ? b->flat->buckets[i].end - b->flat->buckets[i].first : 0;
        b->list[i].gathered = false;
        drop_deferred(&b->list[i]);
    }
    HAUL__ASSERT(piece >= 0 && count <= b->flat->parameters);
    b->step = step;
    b->piece = piece;
    b->last = last;
    b->defers = defers;
    b->begun = b->settled = 0;
}

/* ---- exchanges ---- */

/* The loss and the buffers go to all ranks. */
static bool is_divided(const haul__buckets *b, int i)
{
    return b->flat->owners && b->tree.ranks > 1 && i < b->flat->bucket_count;
}

static haul__work *begin_parts(const haul__buckets *b, int i, const haul__group_call *call, haul_tensor *const *sums)
{
    int64_t *bounds = haul__calloc((size_t)b->tree.ranks + 1, sizeof *bounds);
    if (!bounds) {
        haul__fail_memory(BACKWARD, ((size_t)b->tree.ranks + 1) * sizeof *bounds);
        return NULL;
    }
    for (int r = 0; r <= b->tree.ranks; r++)
        bounds[r] = haul__flat_bound(b->flat, i, r);
    HAUL__ASSERT(bounds[0] == 0 && bounds[b->tree.ranks] == b->flat->buckets[i].count);
    haul__work *w = haul__group_sum_parts_begin(b->group, call, &b->tree, sums, bounds);
    haul__free(bounds);
    return w;
}

static haul_status begin_exchange(haul__buckets *b, int i)
{
    haul__bucket          *bucket = &b->list[i];
    haul_tensor           *sums[HAUL__PIECE_SUMS];
    char                   what[80];
    const haul__group_call call = {.name = BACKWARD, .what = what};
    if (i == b->flat->bucket_count)
        haul__snprintf(what, sizeof what, "loss and buffers of step %" PRId64, b->step);
    else
        haul__snprintf(what, sizeof what, "bucket %d of step %" PRId64, i, b->step);
    HAUL__ASSERT(!bucket->exchange && 0 < bucket->sums.count && bucket->sums.count <= HAUL__PIECE_SUMS);
    for (int k = 0; k < bucket->sums.count; k++)
        sums[k] = bucket->sums.nodes[k].sum;
    bucket->exchange = is_divided(b, i) ? begin_parts(b, i, &call, sums)
                                        : haul__group_sum_tensors_begin(b->group, &call, &b->tree, sums);
    return bucket->exchange ? HAUL_OK : haul_error_status();
}

static haul_status wait_for(haul__bucket *bucket)
{
    haul__work *exchange = bucket->exchange;
    bucket->exchange = NULL;
    return haul__work_wait_timed(exchange, &bucket->begin_ns, &bucket->end_ns);
}

/* Keeps a copy of this rank's part of a sum, and frees the rest. */
static haul_status take_part(haul__buckets *b, int i)
{
    haul__bucket *bucket = &b->list[i];
    const int64_t from = haul__flat_bound(b->flat, i, b->flat->rank),
                  to = haul__flat_bound(b->flat, i, b->flat->rank + 1);
    HAUL__ASSERT(0 <= from && from <= to && to <= b->flat->buckets[i].count && !bucket->part);
    haul_scope *scope = haul__flat_scope();
    if (!scope)
        return haul_error_status();
    haul_tensor *part = from < to ? haul_clone(haul_slice(bucket->sums.nodes[0].sum, 0, from, to, 1)) : NULL;
    const bool   ok = from == to || !haul__failed(part);
    if (ok)
        haul__object_keep(part);
    bucket->part = ok ? part : NULL;
    haul_scope_pop(scope);
    haul__piece_sums_clear(&bucket->sums);
    return ok ? HAUL_OK : haul_error_status();
}

/* Of the buckets whose exchange is under way. */
static int64_t bytes_under_way(const haul__buckets *b)
{
    int64_t count = 0;
    for (int i = b->settled; i < b->begun && is_divided(b, i); i++)
        count += b->flat->buckets[i].count;
    return count * (int64_t)haul__dtype_size(b->flat->dtype);
}

/* Ends exchanges, in their order: those that are over, and the first ones until at most so many bytes are under way. */
static haul_status settle(haul__buckets *b, int64_t most)
{
    haul_status status = HAUL_OK;
    HAUL__ASSERT(0 <= b->settled && b->settled <= b->begun && b->begun <= b->flat->bucket_count + 1);
    while (!status && b->settled < b->begun && is_divided(b, b->settled) &&
           (bytes_under_way(b) > most || haul__work_is_done(b->list[b->settled].exchange))) {
        status = wait_for(&b->list[b->settled]);
        if (!status)
            status = take_part(b, b->settled++);
    }
    return status;
}

/* Begins those whose turn has come. */
static haul_status begin_exchanges(haul__buckets *b)
{
    haul_status status = HAUL_OK;
    while (!status && b->last && b->tree.ranks > 1 && b->begun <= b->flat->bucket_count && b->list[b->begun].gathered) {
        status = settle(b, UNDER_WAY);
        if (!status)
            status = begin_exchange(b, b->begun++);
    }
    return status;
}

/* ---- gradients ---- */

/* Takes over a reference to the numbers. */
static haul_status add_to_sums(haul__buckets *b, int i, haul_tensor *numbers)
{
    const haul_status status = haul__piece_sums_add(&b->list[i].sums, numbers, b->piece, 1);
    b->list[i].gathered = true;
    return status ? status : begin_exchanges(b);
}

static haul_status add(haul__buckets *b, int i, haul_tensor *numbers)
{
    const haul_status status = haul__status_of(numbers);
    if (status)
        return status;
    haul__object_keep(numbers);
    if (!b->defers)
        return add_to_sums(b, i, numbers);
    b->list[i].deferred = numbers;
    b->list[i].gathered = true;
    return HAUL_OK;
}

haul_status haul__buckets_add_deferred(haul__buckets *b)
{
    haul_tensor *rest = b->list[b->flat->bucket_count].deferred;
    haul_status  status = rest && b->piece ? haul__flat_drop_changes(b->flat, rest) : HAUL_OK;
    for (int i = 0; i <= b->flat->bucket_count; i++)
        b->list[i].gathered = !b->list[i].deferred;
    for (int i = 0; i <= b->flat->bucket_count && !status; i++) {
        haul_tensor *numbers = b->list[i].deferred;
        b->list[i].deferred = NULL;
        status = numbers ? add_to_sums(b, i, numbers) : HAUL_OK;
    }
    return status;
}

static haul_status gather(haul__buckets *b, int i)
{
    haul_scope *scope = haul__flat_scope();
    if (!scope)
        return haul_error_status();
    const haul_status status = add(b, i, haul__flat_gather(b->flat, i));
    haul_scope_pop(scope);
    return status;
}

static void note_order(haul__buckets *b, int parameter)
{
    if (!b->seen || b->was_seen[parameter])
        return;
    b->was_seen[parameter] = true;
    HAUL__ASSERT(b->seen_count < b->flat->parameters);
    b->seen[b->seen_count++] = parameter;
}

haul_status haul__buckets_take(haul_tensor *leaf, void *context)
{
    haul__buckets         *b = context;
    const haul__flat_item *item = haul__flat_find(b->flat, leaf);
    if (!item)
        return HAUL_OK;
    haul__bucket *bucket = &b->list[item->bucket];
    note_order(b, (int)(item - b->flat->items));
    if (bucket->gathered)
        return haul__fail(HAUL_GRAPH, BACKWARD, NULL,
                          "the gradient of '%.80s' changed after it was complete; a function that runs again must use "
                          "the same parameters both times",
                          item->name);
    HAUL__ASSERT(bucket->left > 0);
    bucket->left--;
    return bucket->left ? HAUL_OK : gather(b, item->bucket);
}

static haul_status gather_missing(haul__buckets *b)
{
    b->pass_over_ns = haul__now_ns();
    haul_status status = HAUL_OK;
    for (int i = 0; i < b->flat->bucket_count && !status; i++)
        if (!b->list[i].gathered)
            status = gather(b, i);
    return status;
}

haul_status haul__buckets_finish(haul__buckets *b, haul_tensor *loss, double weight)
{
    const haul_status status = gather_missing(b);
    /* A recording has the same calls for all pieces. */
    HAUL__ASSERT(status || !b->list[b->flat->bucket_count].gathered);
    const bool changes = b->piece == 0 || b->defers;
    return status ? status : add(b, b->flat->bucket_count, haul__flat_gather_rest(b->flat, loss, weight, changes));
}

haul_status haul__buckets_finish_with(haul__buckets *b, haul_tensor *rest)
{
    const haul_status status = gather_missing(b);
    return status ? status : add(b, b->flat->bucket_count, rest);
}

/* ---- the end ---- */

static void count_time(const haul__buckets *b)
{
    haul__exchange_time time = {.all = 0};
    for (int i = 0; i <= b->flat->bucket_count; i++)
        haul__exchange_time_add(&time, b->list[i].begin_ns, b->list[i].end_ns, b->pass_over_ns);
    haul__group_exchanged(b->group, time.all, time.hidden);
}

haul_status haul__buckets_wait(haul__buckets *b, haul_tensor **sums)
{
    haul_status status = settle(b, 0);
    for (int i = 0; i <= b->flat->bucket_count && !status; i++) {
        haul__bucket *bucket = &b->list[i];
        const bool    divided = is_divided(b, i);
        HAUL__ASSERT(b->tree.ranks == 1 || divided || bucket->exchange);
        if (b->tree.ranks > 1 && !divided)
            status = wait_for(bucket);
        sums[i] = divided ? haul__optional(bucket->part) : bucket->sums.nodes[0].sum;
    }
    if (!status && b->tree.ranks > 1)
        count_time(b);
    return status;
}

void haul__buckets_clear(haul__buckets *b)
{
    haul__error_record record;
    haul__error_save(&record);
    for (int i = 0; i <= b->flat->bucket_count; i++) {
        if (b->list[i].exchange)
            haul__work_wait(b->list[i].exchange);
        b->list[i].exchange = NULL;
        haul__piece_sums_clear(&b->list[i].sums);
        drop_deferred(&b->list[i]);
        haul__object_release(b->list[i].part);
        b->list[i].part = NULL;
    }
    haul__error_restore(&record);
}

/* ---- their order ---- */

static haul_status share_order(haul__buckets *b)
{
    const haul__group_call call = {.name = BACKWARD, .what = "the order of gradients"};
    const int              count = b->flat->parameters;
    /* Parameters that no piece used come last, from the last to the first. */
    for (int i = count - 1; i >= 0; i--)
        note_order(b, i);
    HAUL__ASSERT(b->seen_count == count);
    return haul__work_wait(haul__group_broadcast_begin(b->group, &call, b->seen, count * (int64_t)sizeof *b->seen, 0));
}

haul_status haul__buckets_learn(haul__buckets *b)
{
    if (!b->seen || b->tree.ranks == 1)
        return HAUL_OK;
    const haul_status status = share_order(b);
    if (status)
        return status;
    haul__flat_arrange(b->flat, b->seen);
    haul__free(b->seen);
    b->seen = NULL;
    return HAUL_OK;
}

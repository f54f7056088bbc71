/* What each kind of collective moves, in calls of the kind's table. Calls are cut where a message or the messages of a
 * rank would have too many bytes for the library, which counts them in an int. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/text/plain.h"
#include "core/shape.h"
#include "group/work.h"

int64_t haul__group_message_bytes = HAUL__GROUP_MESSAGE;
int64_t haul__group_call_bytes = HAUL__GROUP_CALL;

static int64_t total(const int64_t *bytes, int count)
{
    int64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += bytes[i];
    return sum;
}

/* Portions in the order of ranks, without gaps, in two arrays. */
static haul__portions portions_of(const int64_t *bytes, int size, int *counts, int *at)
{
    int from = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = (int)bytes[r];
        at[r] = from;
        from += counts[r];
    }
    return (haul__portions){.bytes = counts, .at = at};
}

/* Fails unless the numbers of bytes are at least 0 and their sum is a number. */
static haul_status check_bytes(const char *name, const int64_t *bytes, int size)
{
    int64_t sum = 0;
    for (int r = 0; r < size; r++)
        if (bytes[r] < 0 || __builtin_add_overflow(sum, bytes[r], &sum))
            return haul__fail(HAUL_INVALID_ARGUMENT, name, NULL, "rank %d has %lld bytes", r, (long long)bytes[r]);
    return HAUL_OK;
}

/* ---- all-gather ---- */

/* Too much for one call: rank after rank broadcasts its portion, in messages. `root` and `at` say which is next. */
static haul_status gather_in_messages(haul__work *w)
{
    while (w->root < w->group->size && w->at == w->in_bytes[w->root]) {
        w->root++;
        w->at = 0;
    }
    if (w->root == w->group->size)
        return haul__work_over(w);
    HAUL__ASSERT(0 <= w->at && w->at < w->in_bytes[w->root]);
    const int64_t bytes = smaller(w->in_bytes[w->root] - w->at, haul__group_message_bytes);
    char         *message = w->in + total(w->in_bytes, w->root) + w->at;
    w->at += bytes;
    return w->group->engine->kind->broadcast(w->group->engine, message, (int)bytes, w->root, &w->requests[0]);
}

static haul_status gather_next(haul__work *w)
{
    const haul_group *g = w->group;
    const int64_t     all = total(w->in_bytes, g->size);
    HAUL__ASSERT(w->phase >= 1 && all >= 0);
    if (w->phase == 1)
        haul__work_sends(w, w->in_bytes[g->rank] * (g->size - 1));
    if (all > haul__group_call_bytes) {
        w->phase = 2;
        return gather_in_messages(w);
    }
    if (w->phase++ == 2 || all == 0)
        return haul__work_over(w);
    return g->engine->kind->all_gather(g->engine, w->in, portions_of(w->in_bytes, g->size, w->counts[0], w->counts[1]),
                                       &w->requests[0]);
}

haul__work *haul__group_gather_begin(haul_group *group, const haul__group_call *call, void *all, const int64_t *bytes)
{
    if (haul__group_check(group, call->name) || check_bytes(call->name, bytes, group->size))
        return NULL;
    haul__work *w = haul__work_new(group, call);
    if (!w)
        return NULL;
    w->in = all;
    memcpy(w->in_bytes, bytes, (size_t)group->size * sizeof *bytes);
    w->next = gather_next;
    return haul__work_start(w);
}

/* ---- all-to-all ---- */

/* Too much for one call: in round k each rank sends to the k-th one after it, in messages. `root` is the round. */
static haul_status exchange_in_messages(haul__work *w)
{
    haul__engine *e = w->group->engine;
    HAUL__ASSERT(w->root > 0 && w->at >= 0);
    while (w->root < e->size) {
        const int     to = (e->rank + w->root) % e->size, from = (e->rank + e->size - w->root) % e->size;
        const int64_t sends = smaller(w->out_bytes[to] - smaller(w->at, w->out_bytes[to]), haul__group_message_bytes);
        const int64_t gets = smaller(w->in_bytes[from] - smaller(w->at, w->in_bytes[from]), haul__group_message_bytes);
        if (sends == 0 && gets == 0) {
            w->root++;
            w->at = 0;
            continue;
        }
        const char *out = w->out + total(w->out_bytes, to) + w->at;
        char       *in = w->in + total(w->in_bytes, from) + w->at;
        w->at += haul__group_message_bytes;
        if (gets && e->kind->receive(e, in, (int)gets, from, HAUL__GROUP_DATA, &w->requests[0]))
            return haul_error_status();
        return sends ? e->kind->send(e, out, (int)sends, to, HAUL__GROUP_DATA, &w->requests[1]) : HAUL_OK;
    }
    return haul__work_over(w);
}

static haul_status exchange_next(haul__work *w)
{
    haul__engine *e = w->group->engine;
    const int     size = e->size;
    HAUL__ASSERT(w->phase >= 1);
    if (w->phase == 1) {
        if (w->in_bytes[e->rank])
            memcpy(w->in + total(w->in_bytes, e->rank), w->out + total(w->out_bytes, e->rank),
                   (size_t)w->in_bytes[e->rank]);
        haul__work_sends(w, total(w->out_bytes, size) - w->out_bytes[e->rank]);
        w->root = 1;
    }
    /* One rank's sizes do not show whether another one has too much, so the caller's `bytes` decides for all. */
    if (w->bytes > haul__group_call_bytes) {
        w->phase = 2;
        return exchange_in_messages(w);
    }
    if (w->phase++ == 2)
        return haul__work_over(w);
    haul__portions sent = portions_of(w->out_bytes, size, w->counts[0], w->counts[1]);
    haul__portions got = portions_of(w->in_bytes, size, w->counts[2], w->counts[3]);
    w->counts[0][e->rank] = w->counts[2][e->rank] = 0;
    return e->kind->all_to_all(e, w->out, sent, w->in, got, &w->requests[0]);
}

haul__work *haul__group_exchange_begin(haul_group *group, const haul__group_call *call, const void *out,
                                       const int64_t *out_bytes, void *in, const int64_t *in_bytes, int64_t most)
{
    if (haul__group_check(group, call->name) || check_bytes(call->name, out_bytes, group->size) ||
        check_bytes(call->name, in_bytes, group->size))
        return NULL;
    if (out_bytes[group->rank] != in_bytes[group->rank]) {
        haul__fail(HAUL_INVALID_ARGUMENT, call->name, NULL, "a rank's portion for itself has two sizes");
        return NULL;
    }
    haul__work *w = haul__work_new(group, call);
    if (!w)
        return NULL;
    w->out = (char *)out;
    w->in = in;
    w->bytes = most;
    memcpy(w->out_bytes, out_bytes, (size_t)group->size * sizeof *out_bytes);
    memcpy(w->in_bytes, in_bytes, (size_t)group->size * sizeof *in_bytes);
    w->next = exchange_next;
    return haul__work_start(w);
}

/* ---- broadcast ---- */

static haul_status broadcast_next(haul__work *w)
{
    haul__engine *e = w->group->engine;
    if (w->at == w->bytes)
        return haul__work_over(w);
    if (w->at == 0 && e->rank == w->root)
        haul__work_sends(w, w->bytes * (e->size - 1));
    const int64_t bytes = smaller(w->bytes - w->at, haul__group_message_bytes);
    char         *message = w->in + w->at;
    w->at += bytes;
    return e->kind->broadcast(e, message, (int)bytes, w->root, &w->requests[0]);
}

haul__work *haul__group_broadcast_begin(haul_group *group, const haul__group_call *call, void *data, int64_t bytes,
                                        int root)
{
    if (haul__group_check(group, call->name) || haul__group_check_rank(group, root, call->name, "root") ||
        check_bytes(call->name, &bytes, 1))
        return NULL;
    haul__work *w = haul__work_new(group, call);
    if (!w)
        return NULL;
    w->in = data;
    w->bytes = w->equal = bytes;
    w->root = root;
    w->next = broadcast_next;
    return haul__work_start(w);
}

/* ---- the library's own sum ---- */

static haul_status library_sum_next(haul__work *w)
{
    haul__engine *e = w->group->engine;
    if (w->phase++ == 2)
        return haul__work_over(w);
    haul__work_sends(w, 2 * w->bytes / e->size * (e->size - 1));
    return e->kind->all_reduce(e, (float *)(void *)w->in, (int)(w->bytes / (int64_t)sizeof(float)), &w->requests[0]);
}

haul__work *haul__group_library_sum_begin(haul_group *group, const haul__group_call *call, float *data, int64_t count)
{
    if (haul__group_check(group, call->name))
        return NULL;
    if (count < 0 || count > HAUL__GROUP_MESSAGE / (int64_t)sizeof *data || !group->engine->kind->all_reduce) {
        haul__fail(HAUL_UNSUPPORTED, call->name, NULL, "this group has no sum of %lld numbers by its library",
                   (long long)count);
        return NULL;
    }
    haul__work *w = haul__work_new(group, call);
    if (!w)
        return NULL;
    w->in = (char *)data;
    w->bytes = w->equal = count * (int64_t)sizeof *data;
    w->next = library_sum_next;
    return haul__work_start(w);
}

/* ---- splits ---- */

static haul_status split_next(haul__work *w)
{
    haul__engine *e = w->group->engine;
    if (w->phase++ == 2)
        return haul__work_over(w);
    return e->kind->open(e, w->color, w->key, w->made, &w->requests[0]);
}

haul__work *haul__work_split(haul_group *group, int color, int key, haul__engine **made)
{
    haul__work *w = haul__work_new(group, &(haul__group_call){.name = "haul_group_split"});
    if (!w)
        return NULL;
    w->color = color;
    w->key = key;
    w->made = made;
    w->next = split_next;
    return haul__work_start(w);
}

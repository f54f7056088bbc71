/* Sums over the pieces of all ranks, in the order of the tree.
 *
 * The elements are cut into chunks, and a chunk into a segment for each rank. Each rank sends its nodes' segments to
 * their owners, node after node; each owner adds up its segment of all nodes, in the order of the tree; and all gather
 * the segments. So a rank sends about 2 (R - 1) / R of the elements where it has one node, as a ring would.
 *
 * Of a sum that stays in parts, the segments are what a chunk has of each rank's part, and are not gathered. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/system/clock.h"
#include "core/shape.h"
#include "device/device.h"
#include "group/work.h"
#include "memory/allocator.h"
#include "transfer/copy.h"

/* ---- in host memory ---- */

/* The parts of the ranks may be one after the other, so a chunk may be the segment of one rank. It is small, because
 * that rank has room for the chunk of each node. */
enum { PARTS_CHUNK = 4 << 20 };

/* Where the segment of a rank begins in the present chunk. */
int64_t haul__sum_segment(const haul__work *w, int rank)
{
    if (!w->sum.bounds)
        return w->sum.chunk * rank / w->group->size;
    HAUL__ASSERT(rank <= w->group->size && w->sum.at <= w->sum.count);
    const int64_t begin = w->sum.bounds[rank] - w->sum.at;
    return begin < 0 ? 0 : begin < w->sum.chunk ? begin : w->sum.chunk;
}

int haul__sum_nodes(const haul__work *w, int rank)
{
    haul__tree_node nodes[HAUL__TREE_NODES];
    return haul__tree_nodes(&w->sum.tree, rank, nodes);
}

static void **pointers(const haul__work *w)
{
    return w->sum.room;
}

/* The sums of this rank's nodes, as the caller passed them. */
static char *own_sum(const haul__work *w, int node)
{
    return ((char **)w->sum.room)[w->sum.all + node];
}

static int segment_bytes(const haul__work *w, int rank)
{
    return (int)((haul__sum_segment(w, rank + 1) - haul__sum_segment(w, rank)) * (int64_t)w->sum.size);
}

/* Sends the node `w->sum.node` of each rank that has so many, and receives the others'. */
static haul_status send_node(haul__work *w)
{
    haul__engine *e = w->group->engine;
    const int     node = w->sum.node++, mine = segment_bytes(w, e->rank), own = w->sum.own;
    int64_t       sent = 0;
    int           before = 0; /* nodes of the ranks so far */
    for (int r = 0; r < e->size; r++) {
        HAUL__ASSERT(node < w->sum.most && own <= w->sum.most);
        const int  count = haul__sum_nodes(w, r);
        const bool sends = node < own && r != e->rank, gets = node < count && r != e->rank;
        w->counts[0][r] = sends ? segment_bytes(w, r) : 0;
        w->counts[1][r] = (int)(haul__sum_segment(w, r) * (int64_t)w->sum.size);
        w->counts[2][r] = gets ? mine : 0;
        w->counts[3][r] = gets ? (before + node) * mine : 0;
        before += count;
        sent += w->counts[0][r];
    }
    HAUL__ASSERT(before == w->sum.all);
    haul__work_sends(w, sent);
    /* A rank without that node sends nothing, from a pointer that is never the one for what it receives. */
    const char *out = node < own ? own_sum(w, node) + w->sum.at * (int64_t)w->sum.size : (const char *)w->counts[0];
    return e->kind->all_to_all(e, out, (haul__portions){w->counts[0], w->counts[1]}, w->sum.memory,
                               (haul__portions){w->counts[2], w->counts[3]}, &w->requests[0]);
}

/* Adds up this rank's segment; the result goes to sums[0]. */
static void add_segment(haul__work *w)
{
    const int     rank = w->group->rank;
    const size_t  mine = (size_t)segment_bytes(w, rank);
    const int64_t at = (w->sum.at + haul__sum_segment(w, rank)) * (int64_t)w->sum.size;
    int           all = 0;
    for (int r = 0; r < w->group->size; r++)
        for (int node = 0, count = haul__sum_nodes(w, r); node < count; node++, all++)
            pointers(w)[all] = r == rank ? own_sum(w, node) + at : (char *)w->sum.memory + (size_t)all * mine;
    HAUL__ASSERT(all == w->sum.all && mine % w->sum.size == 0);
    void *sum = haul__tree_sum(&w->sum.tree, w->sum.dtype, pointers(w), (int64_t)(mine / w->sum.size));
    if (sum != own_sum(w, 0) + at && mine)
        memcpy(own_sum(w, 0) + at, sum, mine);
}

static haul_status gather_segments(haul__work *w)
{
    haul__engine *e = w->group->engine;
    for (int r = 0; r < e->size; r++) {
        w->counts[0][r] = segment_bytes(w, r);
        w->counts[1][r] = (int)(haul__sum_segment(w, r) * (int64_t)w->sum.size);
    }
    HAUL__ASSERT(haul__sum_segment(w, e->size) == w->sum.chunk); /* the segments are all of the chunk */
    haul__work_sends(w, (int64_t)w->counts[0][e->rank] * (e->size - 1));
    return e->kind->all_gather(e, own_sum(w, 0) + w->sum.at * (int64_t)w->sum.size,
                               (haul__portions){w->counts[0], w->counts[1]}, &w->requests[0]);
}

static haul_status sum_next(haul__work *w)
{
    haul__sum *s = &w->sum;
    if (s->count == 0 || (w->group->size == 1 && s->own == 1))
        return haul__work_over(w);
    if (w->phase == 2) { /* the chunk is done */
        s->at += s->chunk;
        s->node = 0;
        w->phase = 1;
    }
    if (s->at == s->count)
        return haul__work_over(w);
    HAUL__ASSERT(0 <= s->at && s->at < s->count && s->chunk > 0);
    if (s->chunk > s->count - s->at)
        s->chunk = s->count - s->at;
    HAUL__ASSERT(0 <= s->node && s->node <= s->most);
    if (s->node < s->most)
        return send_node(w);
    add_segment(w);
    w->phase = 2;
    return s->bounds ? HAUL_OK : gather_segments(w);
}

/* The most elements of a segment of this rank. */
static int64_t widest_segment(const haul__work *w)
{
    const haul__sum *s = &w->sum;
    const int        rank = w->group->rank;
    return s->bounds ? smaller(s->chunk, s->bounds[rank + 1] - s->bounds[rank]) : s->chunk / w->group->size + 1;
}

/* A chunk is one message, and what a rank receives of it has room. */
void haul__sum_measure(haul__work *w)
{
    haul__sum *s = &w->sum;
    for (int r = 0; r < w->group->size; r++) {
        const int nodes = haul__sum_nodes(w, r);
        s->all += nodes;
        s->most = nodes > s->most ? nodes : s->most;
    }
    s->own = haul__sum_nodes(w, w->group->rank);
    HAUL__ASSERT(0 < s->own && s->own <= s->most && s->most <= s->all);
    const int64_t message = s->bounds ? smaller(haul__group_message_bytes, PARTS_CHUNK) : haul__group_message_bytes;
    const int64_t room = haul__group_call_bytes / (int64_t)s->size / s->all;
    s->chunk = smaller(message / (int64_t)s->size, s->bounds ? room : room * w->group->size - w->group->size);
    s->chunk = smaller(s->chunk, s->count);
    s->chunk = s->chunk < 1 ? 1 : s->chunk;
}

size_t haul__sum_room(const haul__work *w)
{
    return (size_t)widest_segment(w) * w->sum.size * (size_t)w->sum.all;
}

/* Memory for the segments of all ranks' nodes, and for the pointers. */
static haul_status make_room(haul__work *w, void *const *sums)
{
    haul__sum *s = &w->sum;
    haul__sum_measure(w);
    const size_t bytes = haul__sum_room(w);
    s->memory = haul__malloc(bytes + 1);
    s->room = haul__calloc((size_t)(s->all + s->own), sizeof *s->room);
    if (!s->memory || !s->room)
        return haul__fail_memory(w->name, bytes);
    for (int i = 0; i < s->own; i++)
        s->room[s->all + i] = sums[i];
    return HAUL_OK;
}

static haul_status check_tree(const haul_group *g, const char *name, const haul__tree *tree)
{
    if (tree->ranks != g->size)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, NULL, "the tree has %d ranks, the group %d", tree->ranks,
                          g->size);
    if (tree->pieces < tree->ranks)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "pieces",
                          "%d pieces are too few for %d ranks: each rank needs at least one", tree->pieces,
                          tree->ranks);
    return HAUL_OK;
}

/* A work that has not begun. */
static haul__work *new_sum(haul_group *group, const haul__group_call *call, const haul__tree *tree, haul_dtype dtype,
                           int64_t count)
{
    if (haul__group_check(group, call->name) || check_tree(group, call->name, tree))
        return NULL;
    if (dtype != HAUL_F32 && dtype != HAUL_F64 && dtype != HAUL_I32 && dtype != HAUL_I64) {
        haul__fail(HAUL_DTYPE, call->name, NULL, "sums over ranks are of f32, f64, i32 or i64, not of %s",
                   haul_dtype_name(dtype));
        return NULL;
    }
    haul__work *w = haul__work_new(group, call);
    if (!w)
        return NULL;
    w->sum = (haul__sum){.tree = *tree, .dtype = dtype, .size = haul__dtype_size(dtype), .count = count};
    w->equal = count * (int64_t)w->sum.size;
    w->next = sum_next;
    return w;
}

static haul__work *begin_sum(haul__work *w, void *const *sums)
{
    if (!make_room(w, sums))
        return haul__work_start(w);
    haul__work_drop(w);
    return NULL;
}

haul__work *haul__group_sum_begin(haul_group *group, const haul__group_call *call, const haul__tree *tree,
                                  haul_dtype dtype, void *const *sums, int64_t count)
{
    haul__work *w = new_sum(group, call, tree, dtype, count);
    return w ? begin_sum(w, sums) : NULL;
}

/* ---- of tensors ---- */

static size_t offset_of(const haul_tensor *t)
{
    return (size_t)t->offset * haul__dtype_size(t->dtype);
}

/* Host memory with the elements of a tensor: its own, or a copy, which the work keeps. NULL on failure. */
static void *host_elements(haul__work *w, haul_tensor *t, int i)
{
    const size_t bytes = haul_tensor_bytes(t);
    if (haul__device_is_host(t->storage->device))
        return haul__host_before(t->storage, i == 0, w->name) ? NULL : (char *)t->storage->buffer.host + offset_of(t);
    haul__storage *host = haul__host_alloc_for(t->storage->device, bytes, w->name);
    if (!host)
        return NULL;
    HAUL__ASSERT(w->staged.count <= w->sum.own);
    w->staged.storages[w->staged.count++] = host;
    const haul__copy down = {
        .operation = w->name, .to = {host, 0}, .from = {t->storage, offset_of(t)}, .bytes = bytes, .fresh = true};
    if (haul__transfer(&down) || haul__host_before(host, true, w->name))
        return NULL;
    return host->buffer.host;
}

haul_status haul__staged_finish(haul__work *w)
{
    haul_tensor *t = w->staged.result;
    if (haul__is_dry())
        return HAUL_OK;
    if (w->staged.direct || haul__device_is_host(t->storage->device)) {
        haul__add_long(&t->storage->version, 1);
        return HAUL_OK;
    }
    const int64_t *bounds = w->sum.bounds;
    const size_t   size = haul__dtype_size(t->dtype), from = bounds ? (size_t)bounds[w->group->rank] * size : 0;
    HAUL__ASSERT(!bounds || bounds[w->group->rank] <= bounds[w->group->rank + 1]);
    const size_t     bytes = bounds ? (size_t)bounds[w->group->rank + 1] * size - from : haul_tensor_bytes(t);
    const haul__copy up = {.operation = w->name,
                           .to = {t->storage, offset_of(t) + from},
                           .from = {w->staged.storages[0], from},
                           .bytes = bytes};
    if (bytes && haul__transfer(&up))
        return haul_error_status();
    haul__add_long(&t->storage->version, 1);
    return HAUL_OK;
}

/* Begins the sum of a new work, or frees it. */
static haul__work *begin_tensors(haul__work *w, haul_tensor *const *sums)
{
    void *hosts[HAUL__TREE_NODES];
    w->sum.own = haul__sum_nodes(w, w->group->rank);
    HAUL__ASSERT(0 < w->sum.own && w->sum.own <= HAUL__TREE_NODES);
    w->staged.storages = haul__calloc((size_t)w->sum.own + 1, sizeof *w->staged.storages); /* and room */
    if (!w->staged.storages) {
        haul__fail_memory(w->name, (size_t)w->sum.own * sizeof *w->staged.storages);
        haul__work_drop(w);
        return NULL;
    }
    haul__object_keep(sums[0]);
    w->staged.result = sums[0];
    if (haul__direct_moves(w->group, sums[0])) {
        if (!haul__direct_sum_prepare(w, sums))
            return haul__work_start(w);
        haul__work_drop(w);
        return NULL;
    }
    for (int i = 0; i < w->sum.own; i++) {
        hosts[i] = haul__is_dry() || sums[i]->count == 0 ? w : host_elements(w, sums[i], i);
        if (!hosts[i]) {
            haul__work_drop(w);
            return NULL;
        }
    }
    return begin_sum(w, hosts);
}

haul__work *haul__group_sum_tensors_begin(haul_group *group, const haul__group_call *call, const haul__tree *tree,
                                          haul_tensor *const *sums)
{
    haul__work *w = new_sum(group, call, tree, sums[0]->dtype, sums[0]->count);
    return w ? begin_tensors(w, sums) : NULL;
}

haul__work *haul__group_sum_parts_begin(haul_group *group, const haul__group_call *call, const haul__tree *tree,
                                        haul_tensor *const *sums, const int64_t *bounds)
{
    haul__work  *w = new_sum(group, call, tree, sums[0]->dtype, sums[0]->count);
    const size_t count = (size_t)haul_group_size(group) + 1;
    if (!w)
        return NULL;
    w->sum.bounds = haul__calloc(count, sizeof *bounds);
    if (!w->sum.bounds) {
        haul__fail_memory(call->name, count * sizeof *bounds);
        haul__work_drop(w);
        return NULL;
    }
    for (size_t r = 0; r < count; r++)
        w->sum.bounds[r] = bounds[r];
    HAUL__ASSERT(bounds[0] == 0 && bounds[count - 1] == sums[0]->count);
    return begin_tensors(w, sums);
}

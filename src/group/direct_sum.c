/* Sums whose data goes from device to device. The steps are those of sum.c, and the additions are made by a kernel in
 * the order of the same tree, so the bits are the same.
 *
 * When the heads have shown that all ranks make the sum, everything is submitted at once. The device keeps the order,
 * and the work is over when the device is done. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/shape.h"
#include "group/work.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "memory/allocator.h"

/* pointwise_params, as the build tool generates it */
#include "kernels/pointwise.k.h"

/* ---- places ---- */

static haul__region region_of(const haul__work *w, int own)
{
    return (haul__region){w->staged.storages[own], w->direct.offsets[own]};
}

static size_t bytes_of(const haul__work *w, int rank)
{
    return (size_t)(haul__sum_segment(w, rank + 1) - haul__sum_segment(w, rank)) * w->sum.size;
}

/* The segment of a rank in one of this rank's nodes. */
static haul__region own_segment(const haul__work *w, int own, int rank)
{
    haul__region at = region_of(w, own);
    at.offset += (size_t)(w->sum.at + haul__sum_segment(w, rank)) * w->sum.size;
    return at;
}

/* This rank's segment of a node of any rank. */
static haul__region node_segment(const haul__work *w, int node)
{
    const int rank = w->group->rank;
    int       first = 0;
    for (int r = 0; r < rank; r++)
        first += haul__sum_nodes(w, r);
    if (node >= first && node < first + w->sum.own)
        return own_segment(w, node - first, rank);
    return (haul__region){w->direct.room, (size_t)node * bytes_of(w, rank)};
}

/* ---- exchanges ---- */

static void add_message(haul__work *w, int rank, bool sends, haul__region at, size_t bytes)
{
    if (bytes)
        w->direct.messages[w->direct.count++] =
            (haul__rank_message){.rank = rank, .sends = sends, .at = at, .bytes = bytes};
    if (bytes && sends)
        haul__work_sends(w, (int64_t)bytes);
}

static haul_status submit(haul__work *w, const haul__region *buffers, int writes, int count)
{
    const haul__direct       *d = &w->group->direct;
    const haul__rank_exchange exchange = {.operation = w->name,
                                          .device = d->device,
                                          .connection = d->connection,
                                          .buffers = buffers,
                                          .write_count = writes,
                                          .buffer_count = count,
                                          .messages = w->direct.messages,
                                          .count = w->direct.count};
    HAUL__ASSERT(writes <= count && d->connection);
    return w->direct.count ? haul__ranks_exchange(&exchange) : HAUL_OK;
}

/* Each rank's nodes go to the owners of their segments. */
static haul_status send_nodes(haul__work *w)
{
    haul__region buffers[1 + HAUL__TREE_NODES] = {{w->direct.room, 0}};
    int          node = 0;
    w->direct.count = 0;
    for (int r = 0; r < w->group->size; r++) {
        const int nodes = haul__sum_nodes(w, r);
        for (int i = 0; i < w->sum.own && r != w->group->rank; i++)
            add_message(w, r, true, own_segment(w, i, r), bytes_of(w, r));
        for (int i = 0; i < nodes && r != w->group->rank; i++)
            add_message(w, r, false, node_segment(w, node + i), bytes_of(w, w->group->rank));
        node += nodes;
    }
    HAUL__ASSERT(node == w->sum.all && w->sum.own <= HAUL__TREE_NODES);
    for (int i = 0; i < w->sum.own; i++)
        buffers[1 + i] = region_of(w, i);
    return submit(w, buffers, 1, 1 + w->sum.own);
}

/* The owners' sums go to all ranks. */
static haul_status gather_segments(haul__work *w)
{
    const haul__region sum = region_of(w, 0);
    w->direct.count = 0;
    for (int r = 0; r < w->group->size; r++) {
        if (r == w->group->rank)
            continue;
        add_message(w, r, true, own_segment(w, 0, w->group->rank), bytes_of(w, w->group->rank));
        add_message(w, r, false, own_segment(w, 0, r), bytes_of(w, r));
    }
    HAUL__ASSERT(w->direct.count <= 2 * (w->group->size - 1));
    return submit(w, &sum, 1, 1);
}

/* ---- additions ---- */

/* A row without gaps. */
static haul_status launch_add(const haul__work *w, haul__region a, haul__region b, int64_t count)
{
    const haul__region buffers[3] = {{a.storage, 0}, {a.storage, 0}, {b.storage, 0}};
    const I64 at[3] = {(I64)(a.offset / w->sum.size), (I64)(a.offset / w->sum.size), (I64)(b.offset / w->sum.size)};
    pointwise_params p;
    HAUL__ASSERT(count > 0 && a.offset % w->sum.size == 0 && b.offset % w->sum.size == 0);
    memset(&p, 0, sizeof p);
    p.items = p.count = p.dims[0] = count;
    p.ndim = p.pack = 1;
    for (int i = 0; i < 3; i++) {
        p.strides[i].of[0] = 1;
        p.offsets[i] = at[i];
    }
    return haul__submit(&(haul__command){.kind = HAUL__COMMAND_LAUNCH,
                                         .stream = HAUL__STREAM_DOWNLOAD,
                                         .operation = w->name,
                                         .device = w->group->direct.device,
                                         .buffers = buffers,
                                         .write_count = 1,
                                         .buffer_count = 3,
                                         .params = &p,
                                         .params_size = sizeof p,
                                         .kernel = w->direct.add,
                                         .items = count});
}

static void add_nodes(void *context, int a, int b)
{
    haul__work   *w = context;
    const int64_t count = (int64_t)(bytes_of(w, w->group->rank) / w->sum.size);
    if (!w->direct.status)
        w->direct.status = launch_add(w, node_segment(w, a), node_segment(w, b), count);
}

/* This rank's segment of the sum, in its first node. */
static haul_status add_segment(haul__work *w)
{
    const haul__region to = own_segment(w, 0, w->group->rank);
    const size_t       bytes = bytes_of(w, w->group->rank);
    if (!bytes)
        return HAUL_OK;
    HAUL__ASSERT(bytes % w->sum.size == 0);
    const haul__region from = node_segment(w, haul__tree_fold(&w->sum.tree, add_nodes, w));
    if (w->direct.status || (from.storage == to.storage && from.offset == to.offset))
        return w->direct.status;
    return haul__submit(&(haul__command){.kind = HAUL__COMMAND_COPY,
                                         .stream = HAUL__STREAM_DOWNLOAD,
                                         .operation = w->name,
                                         .device = w->group->direct.device,
                                         .buffers = (const haul__region[]){to, from},
                                         .write_count = 1,
                                         .buffer_count = 2,
                                         .bytes = bytes});
}

/* ---- the work ---- */

static haul_status submit_chunk(haul__work *w)
{
    haul_status status = send_nodes(w);
    if (!status)
        status = add_segment(w);
    return status || w->sum.bounds ? status : gather_segments(w);
}

/* The exchange cannot be completed: what the device still waits for is given up. */
static haul_status explain(haul__work *w)
{
    char               own[128];
    haul__error_record error;
    haul__error_save(&error);
    haul__group_describe_rank(w->group, w->group->rank, own, sizeof own);
    haul__direct_close(w->group);
    return haul__fail(error.status, w->name, NULL, "%s has failed in collective %llu%s%.100s: %.300s", own,
                      (unsigned long long)w->number, w->what[0] ? ", " : "", w->what, error.message);
}

static haul_status next(haul__work *w)
{
    haul__sum *s = &w->sum;
    if (w->phase == 2)
        return haul__work_over(w);
    if (!w->group->direct.connection)
        return haul__fail(HAUL_STATE, w->name, NULL, "an exchange of the group has failed before");
    HAUL__ASSERT(s->at <= s->count && s->chunk > 0);
    for (w->phase = 2; s->at < s->count; s->at += s->chunk) {
        s->chunk = s->chunk < s->count - s->at ? s->chunk : s->count - s->at;
        if (submit_chunk(w))
            return explain(w);
    }
    return HAUL_OK;
}

static haul_status ask(haul__work *w, bool *open)
{
    const haul__direct *d = &w->group->direct;
    if (w->phase != 2 || w->over)
        return HAUL_OK;
    if (d->library->check(d->device, d->connection))
        return explain(w);
    for (int i = 0; i < w->staged.count && !*open; i++)
        *open = !haul__uses_reached(w->staged.storages[i]->uses);
    return HAUL_OK;
}

/* Where the tensors' elements are, and room for messages. */
static haul_status keep_tensors(haul__work *w, haul_tensor *const *sums)
{
    const size_t most = (size_t)w->group->size * (size_t)(w->sum.own + 2) + (size_t)w->sum.all;
    HAUL__ASSERT(!w->staged.count && w->sum.own > 0);
    w->direct.messages = haul__calloc(most, sizeof *w->direct.messages);
    if (!w->direct.messages)
        return haul__fail_memory(w->name, most * sizeof *w->direct.messages);
    for (int i = 0; i < w->sum.own; i++) {
        haul__object_keep(sums[i]->storage);
        w->staged.storages[w->staged.count++] = sums[i]->storage;
        w->direct.offsets[i] = (size_t)sums[i]->offset * w->sum.size;
    }
    return HAUL_OK;
}

haul_status haul__direct_sum_prepare(haul__work *w, haul_tensor *const *sums)
{
    haul_device *device = w->group->direct.device;
    w->staged.direct = true;
    w->next = next;
    w->ask = ask;
    haul__sum_measure(w);
    if (keep_tensors(w, sums))
        return haul_error_status();
    w->direct.room = haul__storage_alloc(device, haul__sum_room(w) + 1, w->name);
    if (!w->direct.room)
        return haul_error_status();
    HAUL__ASSERT(w->staged.count == w->sum.own);
    w->staged.storages[w->staged.count++] = w->direct.room;
    if (haul__is_dry())
        return HAUL_OK;
    w->direct.add = haul__kernel_get(device, HAUL__K_add, w->sum.dtype);
    return w->direct.add ? HAUL_OK : haul_error_status();
}

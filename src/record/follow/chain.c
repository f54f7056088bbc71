#include "record/follow/chain.h"

#include <stdio.h>
#include <string.h>

#include "backends/function.h"
#include "backends/implementation.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "engine/collect.h"
#include "memory/dry_run/dry_run.h"
#include "ops/reduce/reduce.h"
#include "record/follow/chain_code.h"
#include "record/follow/device_chain.h"
#include "record/fuse.h"

/* TILE_BYTES: of one result of a tile; a few of them fit the first cache. GAP: keeps results of a tile at different
 * places in the cache's sets. MOST_TILES: a thread takes so many at once, for which it copies the parameters. */
enum { TILE_BYTES = 8 << 10, GAP = 1088, MOST_TILES = 8, NAME = 200 };

static const char operation[] = "haul_recording_run";

/* ---- description ---- */

static bool is_within(const haul__variant *v, const haul_tensor *t)
{
    for (size_t i = 0; i < v->inside_count; i++)
        for (int h = v->insides[i].within ? v->insides[i].first_handle : -1; h >= 0; h = v->handles[h].next)
            if (&v->handles[h].tensor == t)
                return true;
    return false;
}

static bool is_listed(const haul__chain *x, const haul__variant *v, const haul_tensor *t)
{
    for (int i = 0; i < x->buffer_count; i++)
        if (v->tensors[x->buffers[i]] == t)
            return true;
    return false;
}

/* Results first, then operands. */
static void list_buffers(const haul__variant *v, haul__chain *x)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < x->count; i++) {
            const haul__replayed *r = &v->calls[x->first + (size_t)i];
            const size_t          first = r->tensors + (size_t)(pass ? 0 : r->count);
            for (size_t k = first; k < first + (size_t)(pass ? r->count : r->result_count); k++)
                if (!haul__is_none(v->tensors[k]) && !is_within(v, v->tensors[k]) && !is_listed(x, v, v->tensors[k]))
                    x->buffers[x->buffer_count++] = k;
        }
        x->write_count = pass ? x->write_count : x->buffer_count;
        HAUL__ASSERT(x->write_count <= x->buffer_count);
    }
}

static haul_status name_chain(const haul__variant *v, haul__chain *x)
{
    char text[NAME] = "";
    int  shown = 0;
    for (; shown < x->count; shown++) {
        const char *name = v->calls[x->first + (size_t)shown].operation->name;
        if (strlen(text) + strlen(name) + sizeof " + ..." > sizeof text)
            break;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", shown ? " + " : "", name);
    }
    if (shown < x->count)
        snprintf(text + strlen(text), sizeof text - strlen(text), " + ...");
    x->name = haul__malloc(strlen(text) + 1);
    if (!x->name)
        return haul__fail_memory(operation, strlen(text) + 1);
    memcpy(x->name, text, strlen(text) + 1);
    return HAUL_OK;
}

haul_status haul__chain_make(haul__variant *v, size_t first, int count, haul__chain *out)
{
    size_t     tensors = 1;
    const bool ends = haul__reduce_has_tiles(v->calls[first + (size_t)count - 1].operation);
    HAUL__ASSERT(1 < count && count <= HAUL__MAX_CHAIN && first + (size_t)count <= v->call_count);
    *out = (haul__chain){.first = first, .count = count, .part_count = count - ends, .end_slot = -1};
    for (int i = 0; i < count; i++)
        tensors += (size_t)(v->calls[first + (size_t)i].count + v->calls[first + (size_t)i].result_count);
    out->buffers = haul__calloc(tensors, sizeof *out->buffers);
    if (!out->buffers)
        return haul__fail_memory(operation, tensors * sizeof *out->buffers);
    list_buffers(v, out);
    return name_chain(v, out);
}

void haul__chain_free(haul__chain *chain)
{
    haul__chain_end_free(chain->end);
    haul__device_chain_free(chain->on_device);
    haul__chain_codes_free(chain);
    haul__free(chain->parts);
    haul__free(chain->buffers);
    haul__free(chain->name);
}

/* ---- slots ---- */

bool haul__chain_is_read_from(const haul__chain *x, int from, const haul_tensor *t)
{
    for (int i = from; i < x->part_count; i++)
        for (int k = 1; k < x->parts[i].launch.count; k++)
            if (x->parts[i].launch.tensors[k]->storage == t->storage)
                return true;
    return x->end && x->end->x->storage == t->storage;
}

/* What holds each slot; NULL: nothing that is read later. Elements of a slot have one size: code runs several parts
 * over some elements before the parts run over the others, which must not be in the same bytes. */
typedef struct slots {
    const haul_tensor *held[HAUL__MAX_CHAIN];
    size_t             sizes[HAUL__MAX_CHAIN];
    int                count;
} slots;

static int slot_of(const slots *s, const haul_tensor *t)
{
    for (int i = 0; i < s->count; i++)
        if (s->held[i] && s->held[i]->storage == t->storage)
            return i;
    return -1;
}

/* A slot for the result: the one in which it is already, a free one, that of an operand that is read for the last time
 * and has elements of the same size, or another one. */
static int take_slot(const haul__chain *x, slots *s, int part, bool elementwise)
{
    const haul__collected *l = &x->parts[part].launch;
    const int              own = slot_of(s, l->tensors[0]);
    const size_t           size = haul__dtype_size(l->tensors[0]->dtype);
    if (own >= 0)
        return own;
    for (int k = 1; k < l->count && elementwise; k++) {
        const int at = slot_of(s, l->tensors[k]);
        if (at >= 0 && l->tensors[k]->dtype == l->tensors[0]->dtype &&
            !haul__chain_is_read_from(x, part + 1, l->tensors[k]))
            return at;
    }
    for (int i = 0; i < s->count; i++)
        if (!s->held[i] && s->sizes[i] == size)
            return i;
    HAUL__ASSERT(s->count < HAUL__MAX_CHAIN);
    s->sizes[s->count] = size;
    return s->count++;
}

/* A result that is read within the tile does not go past the caches. */
static void place_part(const haul__variant *v, haul__chain *x, slots *s, int part)
{
    haul__part      *p = &x->parts[part];
    haul__collected *l = &p->launch;
    for (int k = 1; k < l->count; k++)
        p->slots[k] = slot_of(s, l->tensors[k]);
    p->slots[0] = -1;
    if (is_within(v, l->tensors[0]))
        p->slots[0] = take_slot(x, s, part, v->calls[x->first + (size_t)part].operation->elementwise);
    for (int i = 0; i < s->count; i++)
        if (s->held[i] && !haul__chain_is_read_from(x, part + 1, s->held[i]))
            s->held[i] = NULL;
    HAUL__ASSERT(p->slots[0] < s->count);
    if (p->slots[0] >= 0)
        s->held[p->slots[0]] = haul__chain_is_read_from(x, part + 1, l->tensors[0]) ? l->tensors[0] : NULL;
    l->params.nontemporal =
        l->params.nontemporal && p->slots[0] < 0 && !haul__chain_is_read_from(x, part + 1, l->tensors[0]);
}

static size_t largest_element(const haul__chain *x)
{
    size_t size = 1;
    for (int i = 0; i < x->part_count; i++)
        for (int k = 0; k < x->parts[i].launch.count; k++) {
            const size_t own = haul__dtype_size(x->parts[i].launch.tensors[k]->dtype);
            size = own > size ? own : size;
        }
    return size;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* The elements of a tile. With an end it has whole rows. */
static int64_t tile_of(const haul__chain *x, size_t size)
{
    const int64_t most = TILE_BYTES / (int64_t)size, each = x->end ? x->end->each : 1;
    HAUL__ASSERT(each > 0 && most > 0);
    return most < each ? each : most / each * each;
}

/* A thread takes as many elements as it would of the longest of the launches, but fewer where there are many that read
 * and write tiles. */
static void plan_tiles(const haul__variant *v, haul__chain *x)
{
    slots        s = {.count = 0};
    int64_t      grain = 0;
    const size_t size = largest_element(x);
    for (int i = 0; i < x->part_count; i++) {
        place_part(v, x, &s, i);
        grain = x->parts[i].launch.grain > grain ? x->parts[i].launch.grain : grain;
        HAUL__ASSERT(x->parts[i].launch.params.items == x->parts[0].launch.params.items);
    }
    x->end_slot = x->end ? slot_of(&s, x->end->x) : -1;
    x->slots = s.count;
    x->tile = tile_of(x, size);
    x->slot_bytes = aligned((size_t)x->tile * size) + GAP;
    x->items = x->parts[0].launch.params.items;
    x->tiles = (x->items + x->tile - 1) / x->tile;
    HAUL__ASSERT((x->tiles - 1) * x->tile < x->items && x->items <= x->tiles * x->tile);
    haul__chain_codes_make(x);
    grain = x->is_at_once ? grain : grain / x->count;
    grain = (grain + x->tile - 1) / x->tile;
    x->grain = grain < MOST_TILES || x->is_at_once ? grain : MOST_TILES;
}

static haul_status learn_end(haul__variant *v, haul__chain *x, haul__call *c)
{
    haul__chain_end *end = haul__calloc(1, sizeof *end);
    if (!end)
        return haul__fail_memory(operation, sizeof *end);
    const haul_status status = haul__chain_end_learn(end, c);
    if (status) {
        haul__chain_end_free(end);
        return status;
    }
    haul__chain_end_free(x->end);
    x->end = end;
    if (haul__chain_is_known(x))
        plan_tiles(v, x);
    return HAUL_OK;
}

haul_status haul__chain_learn(haul__variant *v, haul__chain *x, int at, haul__call *c)
{
    HAUL__ASSERT(0 <= at && at < x->count && x->part_count <= x->count);
    if (at == x->part_count)
        return learn_end(v, x, c);
    if (!x->parts)
        x->parts = haul__calloc((size_t)x->part_count, sizeof *x->parts);
    if (!x->parts)
        return haul__fail_memory(operation, (size_t)x->part_count * sizeof *x->parts);
    haul__part    *p = &x->parts[at];
    const uint32_t before = haul__collect_begin(&p->launch);
    haul_status    status = c->operation->compute(c);
    haul__collect_end(before);
    if (!status && (!p->launch.count || !p->launch.function))
        status = haul__fail(HAUL_STATE, c->operation->name, NULL,
                            "it launches nothing, although it did when the step was recorded; set HAUL_WITHOUT=fusion");
    p->learnt = !status;
    if (haul__chain_is_known(x))
        plan_tiles(v, x);
    return status;
}

bool haul__chain_is_known(const haul__chain *x)
{
    for (int i = 0; i < x->part_count; i++)
        if (!x->parts || !x->parts[i].learnt)
            return false;
    return x->end || x->part_count == x->count;
}

/* ---- tiles ---- */

/* What a thread has of a part: parameters with its own places in tiles, and where its buffers are. */
typedef struct placed {
    haul_kernel_function *function;
    int                   count, moving; /* tensors; those in tiles */
    int                   in_tile[HAUL__MAX_BUFFERS];
    void                 *hosts[HAUL__MAX_BUFFERS];
    pointwise_params      params;
} placed;

/* A run of the chain. */
typedef struct run {
    const haul__chain *chain;
    atomic_bool        failed; /* there was no memory for a tile */
} run;

static size_t scratch_bytes(const haul__chain *x)
{
    return aligned((size_t)x->part_count * sizeof(placed)) + (size_t)x->slots * x->slot_bytes;
}

static void place_tensors(const haul__chain *x, placed *all, char *tiles)
{
    for (int i = 0; i < x->part_count; i++) {
        const haul__part *p = &x->parts[i];
        placed           *to = &all[i];
        to->function = p->launch.function;
        to->count = p->launch.count;
        to->moving = 0;
        to->params = p->launch.params;
        for (int k = 0; k < p->launch.count; k++) {
            HAUL__ASSERT(p->slots[k] < x->slots);
            if (p->slots[k] >= 0)
                to->in_tile[to->moving++] = k;
            to->hosts[k] = p->slots[k] >= 0 ? tiles + (size_t)p->slots[k] * x->slot_bytes
                                            : p->launch.tensors[k]->storage->buffer.host;
        }
    }
}

static void run_kernels(const placed *all, int first, int count, int64_t from, int64_t to)
{
    for (int i = first; i < first + count && from < to; i++)
        all[i].function(all[i].hosts, &all[i].params, from, to);
}

/* Runs the code over the elements, except the last few, and returns the first of these. */
static int64_t run_code(const haul__chain_code *code, const placed *all, int64_t from, int64_t to)
{
    void *addresses[HAUL__ASM_MEMORY];
    for (int k = 0; k < code->assembled.memory_count; k++) {
        const haul__draft_place *at = &code->places[k];
        const placed            *part = &all[at->part];
        addresses[k] = (char *)part->hosts[at->tensor] + part->params.offsets[at->tensor] * code->bytes[k];
    }
    return haul__chain_code_run(code, addresses, from, to);
}

/* Element i of a tensor in a tile that begins at element `first` is i - first elements behind the tile's beginning. */
static void run_tile(const haul__chain *chain, placed *all, int64_t first, int64_t last)
{
    int code = 0;
    HAUL__ASSERT(0 <= first && first < last && last <= chain->items);
    for (int i = 0; i < chain->part_count; i++)
        for (int k = 0; k < all[i].moving; k++)
            all[i].params.offsets[all[i].in_tile[k]] = -first;
    for (int i = 0, count = 1; i < chain->part_count; i += count) {
        const bool has_code = code < chain->code_count && chain->codes[code].first == i;
        count = has_code ? chain->codes[code].count : 1;
        run_kernels(all, i, count, has_code ? run_code(&chain->codes[code], all, first, last) : first, last);
        code += has_code;
    }
    HAUL__ASSERT(code == chain->code_count); /* each code began at a part */
}

static void run_range(void *const *buffers, const void *params, int64_t first_tile, int64_t last_tile)
{
    run               *x = buffers[0];
    const haul__chain *chain = params;
    placed            *all = haul__scratch(scratch_bytes(chain));
    HAUL__ASSERT(0 <= first_tile && first_tile < last_tile && last_tile <= chain->tiles);
    if (!all) {
        atomic_store(&x->failed, true);
        return;
    }
    char *tiles = (char *)all + aligned((size_t)chain->part_count * sizeof *all);
    place_tensors(chain, all, tiles);
    const int64_t last = last_tile < chain->tiles ? last_tile * chain->tile : chain->items;
    int64_t       at = first_tile * chain->tile;
    at = chain->is_at_once ? run_code(&chain->codes[0], all, at, last) : at;
    for (; at < last; at += chain->tile) {
        const int64_t end = last - at < chain->tile ? last : at + chain->tile;
        run_tile(chain, all, at, end);
        if (chain->end)
            haul__chain_end_run_tile(
                chain->end, chain->end_slot < 0 ? NULL : tiles + (size_t)chain->end_slot * chain->slot_bytes, at, end);
    }
}

static haul_status run_command(haul__stream *stream, const haul__command *command)
{
    const haul__chain *x = command->params;
    run                r = {.chain = x};
    (void)stream;
    haul__function_run(run_range, (void *[]){&r}, x, x->tiles, x->grain);
    if (atomic_load(&r.failed))
        return haul__fail_memory(command->operation, scratch_bytes(x));
    if (x->end)
        haul__chain_end_finish(x->end);
    return HAUL_OK;
}

static const haul__implementation fusion = {.id = HAUL__BY_fusion};

haul_status haul__chain_run(const haul__variant *v, const haul__chain *x)
{
    haul__region *buffers = haul__work_alloc((size_t)(x->buffer_count + 1) * sizeof *buffers);
    HAUL__ASSERT(haul__chain_is_known(x) || haul__is_dry());
    if (!buffers)
        return haul__fail_memory(operation, (size_t)x->buffer_count * sizeof *buffers);
    for (int i = 0; i < x->buffer_count; i++)
        buffers[i] = (haul__region){v->tensors[x->buffers[i]]->storage, 0};
    const haul__command command = {.kind = HAUL__COMMAND_LIBRARY,
                                   .operation = x->name,
                                   .device = v->calls[x->first].device,
                                   .buffers = buffers,
                                   .write_count = x->write_count,
                                   .buffer_count = x->buffer_count,
                                   .params = x,
                                   .params_size = sizeof *x,
                                   .run = run_command,
                                   .by = &fusion};
    const haul_status   status = haul__submit(&command);
    haul__work_free(buffers);
    for (int i = 0; i < x->write_count && !status; i++)
        haul__storage_changed(v->tensors[x->buffers[i]]->storage);
    return status;
}

/* Launches: blocks one after the other, and the warps of each in turn, until they wait. */
#include "lanes.h"
#include "shadow.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void ptx_fault(ptx_warp *w, const ptx_op *op, unsigned lane, CUresult code, const char *format, ...)
{
    const ptx_block *b = w->block;
    char             text[200];
    va_list          arguments;
    if (b->fault)
        return;
    w->block->fault = code;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "standin: %s: %.*s: block %u, thread %u: %s\n", b->launch->kernel->name,
            (int)strcspn(op->text, ";\n"), op->text, b->at.x, w->number * PTX_LANES + lane, text);
}

/* ---- lanes that act together ---- */

void ptx_nothing(ptx_warp *w, const ptx_op *op, uint32_t mask)
{
    (void)w, (void)op, (void)mask;
}

/* PTX ISA, shfl.sync: c has the last lane of a segment, and above it the bits that are the same in a segment. */
void ptx_shuffle(ptx_warp *w, const ptx_op *op, uint32_t mask)
{
    enum { UP, DOWN, BUTTERFLY, INDEX };
    const u64 *a = w->slot[op->in[0]], *b = w->slot[op->in[1]], *c = w->slot[op->in[2]];
    u64        before[PTX_LANES];
    memcpy(before, a, sizeof before);
    LANES(
        mask, const int own = (int)lane; const int by = (int)(b[lane] & 31); const int clamp = (int)(c[lane] & 31);
        const int segment = (int)(c[lane] >> 8 & 31); const int last = (own & segment) | (clamp & ~segment);
        const int first = own & segment; const int from = op->mode == UP          ? own - by
                                                          : op->mode == DOWN      ? own + by
                                                          : op->mode == BUTTERFLY ? own ^ by
                                                                                  : first | (by & ~segment);
        const bool inside = op->mode == UP ? from >= last : from <= last; const int source = inside ? from : own;
        if (!(mask >> source & 1)) {
            ptx_fault(w, op, lane, CUDA_ERROR_LAUNCH_FAILED, "takes the value of lane %d, which is not in the mask",
                      source);
            return;
        } w->slot[op->out[0]][lane] = (u32)before[source];
        w->slot[op->out[1]][lane] = inside);
}

/* The lanes that the instruction is for, which must be there and the same for all that are at it. */
static uint32_t members(ptx_warp *w, const ptx_op *op, uint32_t group)
{
    const u64     *masks = w->slot[op->in[PTX_MAX_INPUTS - 1]];
    const unsigned one = (unsigned)__builtin_ctz(group), threads = w->block->threads - w->number * PTX_LANES;
    uint32_t       there = threads < PTX_LANES ? (1u << threads) - 1 : 0xFFFFFFFFu, mask = (uint32_t)masks[one] & there;
    LANES(
        group, if (((uint32_t)masks[lane] & there) != mask || !(mask >> lane & 1)) {
            ptx_fault(w, op, lane, CUDA_ERROR_LAUNCH_FAILED, "is for the lanes %#x, but at a lane for %#x", mask,
                      (unsigned)masks[lane] & there);
            return 0;
        });
    if (mask & ~w->live)
        ptx_fault(w, op, one, CUDA_ERROR_LAUNCH_FAILED, "is for the lanes %#x, of which %#x have returned", mask,
                  mask & ~w->live);
    return w->block->fault ? 0 : mask;
}

/* Runs the op if all its lanes are there; true if they have gone on. */
static bool meet(ptx_warp *w, const ptx_op *op, uint32_t group, int place)
{
    const uint32_t mask = members(w, op, group);
    uint32_t       there = group;
    if (!mask)
        return false;
    for (unsigned lane = 0; lane < PTX_LANES; lane++)
        if (w->waiting >> lane & 1 && w->place[lane] == place)
            there |= 1u << lane;
    LANES(group, w->place[lane] = place);
    w->waiting |= group;
    if ((there & mask) != mask)
        return false;
    w->waiting &= ~mask;
    op->run(w, op, mask);
    w->epoch++;
    LANES(mask, w->place[lane] = place + 1);
    return true;
}

/* ---- a warp ---- */

/* The lanes that can go on at the lowest place; *next is the place of the next ones. 0: none can. */
static uint32_t lowest(const ptx_warp *w, int *place, int *next)
{
    const uint32_t ready = w->live & ~w->at_barrier & ~w->waiting;
    uint32_t       group = 0;
    *place = *next = INT_MAX;
    LANES(
        ready, const int at = w->place[lane]; if (at < *place) {
            *next = *place;
            *place = at;
            group = 0;
        } else if (at > *place && at < *next) *next = at;
        if (at == *place) group |= 1u << lane);
    return group;
}

static uint32_t guarded(const ptx_warp *w, const ptx_op *op, uint32_t group)
{
    uint32_t mask = 0;
    if (op->guard < 0)
        return group;
    LANES(group, if ((w->slot[op->guard][lane] & 1) != op->guard_negated) mask |= 1u << lane);
    return mask;
}

static void set_places(ptx_warp *w, uint32_t mask, int place)
{
    LANES(mask, w->place[lane] = place);
}

/* Takes the group through the code until it parts, waits or reaches other lanes. */
static void run_group(ptx_warp *w, uint32_t group, int place, int next)
{
    const ptx_module *m = w->block->module;
    for (;;) {
        const ptx_op  *op = &m->ops[place];
        const uint32_t mask = guarded(w, op, group);
        switch ((ptx_kind)op->kind) {
        case PTX_PLAIN:
            if (mask)
                op->run(w, op, mask);
            place++;
            break;
        case PTX_BRANCH:
            if (mask && mask != group) {
                set_places(w, mask, op->target);
                set_places(w, group & ~mask, place + 1);
                return;
            }
            place = mask ? op->target : place + 1;
            break;
        case PTX_CALL:
            op->run(w, op, mask);
            LANES(mask, w->slot[m->functions[op->target].returns][lane] = (u64)place + 1);
            set_places(w, mask, m->functions[op->target].code);
            set_places(w, group & ~mask, place + 1);
            return;
        case PTX_RETURN:
            set_places(w, group & ~mask, place + 1);
            LANES(mask, w->place[lane] = (int)w->slot[op->in[0]][lane]);
            return;
        case PTX_EXIT:
            set_places(w, group & ~mask, place + 1);
            w->live &= ~mask;
            return;
        case PTX_BARRIER:
            set_places(w, group, place + 1);
            w->at_barrier |= mask;
            return;
        case PTX_TOGETHER:
            set_places(w, group & ~mask, place + 1);
            if (mask)
                (void)meet(w, op, mask, place);
            return;
        }
        if (place >= next || w->block->fault) {
            set_places(w, group, place);
            return;
        }
    }
}

/* ---- a block ---- */

static void begin_warp(ptx_block *b, unsigned number)
{
    const struct standin_dim size = b->launch->block, grid = b->launch->grid;
    const unsigned           values[] = {size.x, size.y, size.z, b->at.x, b->at.y, b->at.z, grid.x, grid.y, grid.z};
    ptx_warp                *w = &b->warp[number];
    const unsigned           first = number * PTX_LANES, threads = b->threads - first;
    const ptx_entry         *e = &b->module->entries[b->launch->kernel - b->module->kernels];
    w->live = threads < PTX_LANES ? (1u << threads) - 1 : 0xFFFFFFFFu;
    w->at_barrier = w->waiting = 0;
    w->epoch = 0;
    set_places(w, 0xFFFFFFFFu, e->code);
    for (unsigned lane = 0; lane < PTX_LANES; lane++) {
        const unsigned t = first + lane;
        w->slot[PTX_TID][lane] = t % size.x;
        w->slot[PTX_TID + 1][lane] = t / size.x % size.y;
        w->slot[PTX_TID + 2][lane] = t / (size.x * size.y);
        w->slot[PTX_LANE][lane] = lane;
        for (int i = 0; i < 9; i++)
            w->slot[PTX_NTID + i][lane] = values[i];
    }
}

static void run_warp(ptx_warp *w)
{
    int      place, next;
    uint32_t group;
    while (!w->block->fault && (group = lowest(w, &place, &next)) != 0)
        run_group(w, group, place, next);
}

static CUresult report_parting(const ptx_block *b)
{
    int barrier = 0, waiting = 0, live = 0;
    for (unsigned i = 0; i < b->warps; i++) {
        barrier += __builtin_popcount(b->warp[i].at_barrier);
        waiting += __builtin_popcount(b->warp[i].waiting);
        live += __builtin_popcount(b->warp[i].live);
    }
    fprintf(stderr,
            "standin: %s: threads part ways in block %u: %d are at a barrier, %d wait for lanes, %d have returned\n",
            b->launch->kernel->name, b->at.x, barrier, waiting, (int)b->threads - live);
    return CUDA_ERROR_LAUNCH_FAILED;
}

/* All threads of the block are at the barrier: they go on, in a new phase. */
static bool pass_barrier(ptx_block *b)
{
    unsigned there = 0;
    for (unsigned i = 0; i < b->warps; i++)
        there += (unsigned)__builtin_popcount(b->warp[i].at_barrier);
    if (there != b->threads)
        return false;
    for (unsigned i = 0; i < b->warps; i++)
        b->warp[i].at_barrier = b->warp[i].epoch = 0;
    b->phase++;
    return true;
}

static CUresult run_block(ptx_block *b)
{
    unsigned rounds = 0;
    uint32_t live;
    b->first_phase = ++b->phase;
    for (unsigned i = 0; i < b->warps; i++)
        begin_warp(b, i);
    do { /* forwards and backwards in turn, so that no order between warps can be relied upon */
        rounds++;
        for (unsigned i = 0; i < b->warps; i++)
            run_warp(&b->warp[rounds % 2 ? i : b->warps - 1 - i]);
        if (b->fault)
            return b->fault;
        live = 0;
        for (unsigned i = 0; i < b->warps; i++)
            live |= b->warp[i].live;
    } while (live && pass_barrier(b));
    return live ? report_parting(b) : CUDA_SUCCESS;
}

/* ---- a launch ---- */

/* Memory of the launches, which come one at a time; it is kept, and grows. */
static struct {
    char  *bytes;
    size_t size;
} arena;

static uint32_t phases; /* of all launches */

static char *take(char **at, size_t bytes)
{
    char *taken = *at;
    *at += (bytes + 63) / 64 * 64;
    return taken;
}

static size_t padded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* What a register or memory of a thread holds before it is written is nothing in particular. */
static bool lay_out(ptx_block *b)
{
    const ptx_module *m = b->module;
    const size_t      file = (size_t)m->slots * sizeof *b->warp[0].slot, local = PTX_LANES * (size_t)m->local_bytes,
                 calls = PTX_LANES * (size_t)m->call_bytes, shadow = m->shared_bytes * sizeof(ptx_shadow);
    const size_t size = b->warps * (padded(file) + padded(local) + padded(calls)) + padded(m->shared_bytes) +
                        padded(shadow) + padded(b->parameter_bytes) + 64;
    char *at;
    if (size > arena.size) {
        free(arena.bytes);
        arena.bytes = malloc(size);
        arena.size = arena.bytes ? size : 0;
    }
    if (!arena.bytes)
        return false;
    memset(arena.bytes, 0xCD, size);
    at = arena.bytes + (64 - (uintptr_t)arena.bytes % 64) % 64;
    for (unsigned i = 0; i < b->warps; i++) {
        ptx_warp *w = &b->warp[i];
        w->block = b;
        w->number = i;
        w->slot = (u64(*)[PTX_LANES])(void *)take(&at, file);
        w->local = take(&at, local);
        w->calls = take(&at, calls);
        for (int k = 0; k < m->constant_count; k++)
            for (unsigned lane = 0; lane < PTX_LANES; lane++)
                w->slot[m->constants[2 * k]][lane] = m->constants[2 * k + 1];
    }
    b->shared = take(&at, m->shared_bytes);
    b->shared_shadow = memset(take(&at, shadow), 0, shadow);
    b->parameters = take(&at, b->parameter_bytes);
    return true;
}

CUresult ptx_launch(const standin_launch *launch, CUcontext context)
{
    static ptx_block         b; /* one launch runs at a time */
    const ptx_entry         *e = &launch->ptx->entries[launch->kernel - launch->ptx->kernels];
    const struct standin_dim grid = launch->grid;
    CUresult                 code = CUDA_SUCCESS;
    b = (ptx_block){.module = launch->ptx, .launch = launch, .context = context, .parameter_bytes = e->bytes};
    b.threads = launch->block.x * launch->block.y * launch->block.z;
    b.warps = (b.threads + PTX_LANES - 1) / PTX_LANES;
    b.launch_phase = b.phase = ++phases;
    if (!lay_out(&b))
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    for (int i = 0; i < e->count; i++)
        memcpy(b.parameters + e->offset[i], launch->arguments[i], e->size[i]);
    for (unsigned z = 0; z < grid.z && !code; z++)
        for (unsigned y = 0; y < grid.y && !code; y++)
            for (unsigned x = 0; x < grid.x && !code; x++) {
                b.at = (struct standin_dim){x, y, z};
                code = run_block(&b);
            }
    phases = b.phase;
    return code;
}

/* Loads, stores and what else concerns addresses. */
#include "lanes.h"
#include "shadow.h"

/* The memory of parameters, variables and the lane's own is found by a window. */
static char *within(ptx_warp *w, const ptx_op *op, unsigned lane, char *memory, size_t size, u64 at, unsigned bytes)
{
    if (at <= size && bytes <= size - at)
        return memory + at;
    ptx_fault(w, op, lane, CUDA_ERROR_ILLEGAL_ADDRESS, "%u bytes at %#llx of %zu", bytes, (unsigned long long)at, size);
    return NULL;
}

static char *in_shared(ptx_warp *w, const ptx_op *op, unsigned lane, u64 at, unsigned bytes, ptx_access kind)
{
    ptx_block  *b = w->block;
    ptx_shadow *shadow;
    char       *place = within(w, op, lane, b->shared, b->module->shared_bytes, at, bytes);
    if (!place)
        return NULL;
    shadow = b->shared_shadow + at;
    for (unsigned i = 0; i < bytes && kind != PTX_STORE; i++)
        if (!ptx_was_written(w, shadow + i)) {
            ptx_fault(w, op, lane, CUDA_ERROR_LAUNCH_FAILED, "reads shared memory that no thread has written, at %#llx",
                      (unsigned long long)at);
            return NULL;
        }
    return ptx_note(w, op, lane, shadow, bytes, kind, b->first_phase) ? place : NULL;
}

/* Memory of a device: the launch's own, or one to which it has access. */
static char *in_device(ptx_warp *w, const ptx_op *op, unsigned lane, u64 at, unsigned bytes, ptx_access kind)
{
    ptx_block                *b = w->block;
    const standin_allocation *a = b->last;
    char                     *place = STANDIN_UNTAG(at);
    ptx_shadow               *shadow;
    if ((at & STANDIN_TAG_MASK) != STANDIN_TAG || !a || place < a->at || place + bytes > a->at + a->size)
        a = standin_find(at, bytes);
    if (!a || (a->context != b->context && !(b->context->peers & 1u << a->context->device))) {
        ptx_fault(w, op, lane, CUDA_ERROR_ILLEGAL_ADDRESS, "%u bytes at %#llx, %s", bytes, (unsigned long long)at,
                  a ? "memory of a device to which access is not enabled" : "which are in no allocation");
        return NULL;
    }
    b->last = a;
    shadow = standin_shadow(a, sizeof *shadow);
    if (!shadow) {
        ptx_fault(w, op, lane, CUDA_ERROR_OUT_OF_MEMORY, "there is no memory for the shadow of an allocation");
        return NULL;
    }
    return ptx_note(w, op, lane, shadow + (place - a->at), bytes, kind, b->launch_phase) ? place : NULL;
}

/* Where the bytes are, or NULL after a fault. */
static char *place_of(ptx_warp *w, const ptx_op *op, unsigned lane, u64 at, unsigned bytes, ptx_access kind)
{
    const ptx_module *m = w->block->module;
    const u64         window = at & PTX_WINDOW_MASK, offset = at & ~PTX_WINDOW_MASK;
    if (at % bytes) {
        ptx_fault(w, op, lane, CUDA_ERROR_MISALIGNED_ADDRESS, "%u bytes at %#llx", bytes, (unsigned long long)at);
        return NULL;
    }
    if (op->space == PTX_SHARED || (op->space == PTX_GENERIC && window == PTX_SHARED_WINDOW))
        return in_shared(w, op, lane, op->space == PTX_SHARED ? at : offset, bytes, kind);
    if (op->space == PTX_LOCAL || (op->space == PTX_GENERIC && window == PTX_LOCAL_WINDOW))
        return within(w, op, lane, w->local + lane * m->local_bytes, m->local_bytes,
                      op->space == PTX_LOCAL ? at : offset, bytes);
    if (window == PTX_CALL_WINDOW)
        return within(w, op, lane, w->calls + lane * m->call_bytes, m->call_bytes, offset, bytes);
    if (window == PTX_PARAM_WINDOW)
        return within(w, op, lane, w->block->parameters, w->block->parameter_bytes, offset, bytes);
    if (window == PTX_GLOBAL_WINDOW)
        return within(w, op, lane, m->globals, m->global_bytes, offset, bytes);
    return in_device(w, op, lane, at, bytes, kind);
}

/* ---- instructions ---- */

static u64 loaded(const ptx_op *op, const char *from)
{
    switch (op->size + (op->is_signed ? 100 : 0)) {
    case 1: return *(const u8 *)from;
    case 2: return *(const u16 *)from;
    case 4: return *(const u32 *)from;
    case 101: return (u64)(s64) * (const s8 *)from;
    case 102: return (u64)(s64) * (const s16 *)from;
    case 104: return (u64)(s64) * (const s32 *)from;
    default: return *(const u64 *)from;
    }
}

static void stored(const ptx_op *op, char *to, u64 value)
{
    switch (op->size) {
    case 1: *(u8 *)to = (u8)value; break;
    case 2: *(u16 *)to = (u16)value; break;
    case 4: *(u32 *)to = (u32)value; break;
    default: *(u64 *)to = value;
    }
}

void ptx_load(ptx_warp *w, const ptx_op *op, uint32_t mask)
{
    const u64     *at = w->slot[op->in[0]];
    const unsigned bytes = (unsigned)op->size * op->count;
    LANES(mask, const char *from = place_of(w, op, lane, at[lane] + (u64)op->offset, bytes, PTX_LOAD);
          if (!from) return;
          for (int i = 0; i < op->count; i++) w->slot[op->out[i]][lane] = loaded(op, from + i * op->size));
}

void ptx_store(ptx_warp *w, const ptx_op *op, uint32_t mask)
{
    const u64     *at = w->slot[op->in[0]];
    const unsigned bytes = (unsigned)op->size * op->count;
    LANES(mask, char *to = place_of(w, op, lane, at[lane] + (u64)op->offset, bytes, PTX_STORE); if (!to) return;
          for (int i = 0; i < op->count; i++) stored(op, to + i * op->size, w->slot[op->in[1 + i]][lane]));
}

void ptx_swap(ptx_warp *w, const ptx_op *op, uint32_t mask)
{
    const u64 *at = w->slot[op->in[0]], *expected = w->slot[op->in[1]], *desired = w->slot[op->in[2]];
    LANES(mask, char *to = place_of(w, op, lane, at[lane] + (u64)op->offset, op->size, PTX_ATOMIC); if (!to) return;
          const u64 was = loaded(op, to), wanted = loaded(op, (const char *)&expected[lane]),
          value = desired[lane]; /* the result may be in one of their registers */
          w->slot[op->out[0]][lane] = was; if (was == wanted) stored(op, to, value));
}

void ptx_move(ptx_warp *w, const ptx_op *op, uint32_t mask)
{
    const u64 *a = w->slot[op->in[0]];
    u64       *d = w->slot[op->out[0]];
    LANES(mask, d[lane] = a[lane] + (u64)op->offset);
}

static u64 low(u64 value, unsigned bits)
{
    return bits < 64 ? value & (((u64)1 << bits) - 1) : value;
}

void ptx_pack(ptx_warp *w, const ptx_op *op, uint32_t mask)
{
    LANES(mask, u64 value = 0;
          for (unsigned i = 0; i < op->count; i++) value |= low(w->slot[op->in[i]][lane], op->size) << i * op->size;
          w->slot[op->out[0]][lane] = value);
}

void ptx_unpack(ptx_warp *w, const ptx_op *op, uint32_t mask)
{
    LANES(mask, const u64 value = w->slot[op->in[0]][lane];
          for (unsigned i = 0; i < op->count; i++) w->slot[op->out[i]][lane] = low(value >> i * op->size, op->size));
}

/* ---- calls ---- */

void ptx_pass_arguments(ptx_warp *w, const ptx_op *op, uint32_t mask)
{
    const ptx_module   *m = w->block->module;
    const ptx_function *f = &m->functions[op->target];
    LANES(mask, char *calls = w->calls + lane * m->call_bytes; for (int i = 0; i < f->argument_count; i++)
              memcpy(calls + f->argument[i], calls + op->in[i], (size_t)f->argument_size[i]));
}

void ptx_take_result(ptx_warp *w, const ptx_op *op, uint32_t mask)
{
    const ptx_module   *m = w->block->module;
    const ptx_function *f = &m->functions[op->target];
    LANES(mask, char *calls = w->calls + lane * m->call_bytes;
          memcpy(calls + op->in[0], calls + f->result, (size_t)f->result_size));
}

#include "shadow.h"

/* Whether what the mark is of comes before what the lane does now. Accesses before the phase `since` always do. */
static bool is_before(const ptx_warp *w, unsigned thread, ptx_mark mark, uint32_t since)
{
    const ptx_block *b = w->block;
    if (mark.phase < since)
        return true;
    if (mark.who == PTX_SEVERAL_BLOCKS || mark.phase < b->first_phase)
        return false;
    if (mark.phase < b->phase || mark.who == thread)
        return true;
    if (mark.who == PTX_SEVERAL_WARPS)
        return false;
    if (mark.who >= PTX_SEVERAL_LANES)
        return mark.who == PTX_SEVERAL_LANES + w->number && mark.epoch < (uint16_t)w->epoch;
    return mark.who / PTX_LANES == w->number && mark.epoch < (uint16_t)w->epoch;
}

/* Who has read a byte, now that the lane has too. */
static uint16_t joined(const ptx_warp *w, unsigned thread, ptx_mark before, uint32_t since)
{
    const ptx_block *b = w->block;
    if (before.phase < since)
        return (uint16_t)thread;
    if (before.who == PTX_SEVERAL_BLOCKS || before.phase < b->first_phase)
        return PTX_SEVERAL_BLOCKS;
    if (before.phase < b->phase || before.who == thread)
        return (uint16_t)thread;
    if (before.who == PTX_SEVERAL_WARPS)
        return PTX_SEVERAL_WARPS;
    if ((before.who >= PTX_SEVERAL_LANES ? before.who - PTX_SEVERAL_LANES : before.who / PTX_LANES) == (int)w->number)
        return (uint16_t)(PTX_SEVERAL_LANES + w->number);
    return PTX_SEVERAL_WARPS;
}

static bool refuse(ptx_warp *w, const ptx_op *op, unsigned lane, const char *what, ptx_mark other)
{
    const ptx_block *b = w->block;
    if (other.who == PTX_SEVERAL_BLOCKS || other.phase < b->first_phase)
        ptx_fault(w, op, lane, CUDA_ERROR_LAUNCH_FAILED, "race: %s in another block", what);
    else if (other.who < PTX_SEVERAL_LANES)
        ptx_fault(w, op, lane, CUDA_ERROR_LAUNCH_FAILED, "race: %s in thread %u", what, other.who);
    else
        ptx_fault(w, op, lane, CUDA_ERROR_LAUNCH_FAILED, "race: %s in other threads", what);
    return false;
}

bool ptx_note(ptx_warp *w, const ptx_op *op, unsigned lane, ptx_shadow *s, unsigned bytes, ptx_access kind,
              uint32_t since)
{
    const unsigned thread = w->number * PTX_LANES + lane;
    const ptx_mark now = {w->block->phase, (uint16_t)thread, (uint16_t)w->epoch};
    if (kind == PTX_ATOMIC)
        return true;
    for (unsigned i = 0; i < bytes; i++, s++) {
        if (!is_before(w, thread, s->written, since))
            return refuse(w, op, lane, kind == PTX_LOAD ? "reads what is written" : "writes what is written",
                          s->written);
        if (kind == PTX_STORE) {
            if (!is_before(w, thread, s->read, since))
                return refuse(w, op, lane, "writes what is read", s->read);
            s->written = now;
        } else {
            s->read = (ptx_mark){now.phase, joined(w, thread, s->read, since), now.epoch};
        }
    }
    return true;
}

bool ptx_was_written(const ptx_warp *w, const ptx_shadow *s)
{
    return s->written.phase >= w->block->first_phase;
}

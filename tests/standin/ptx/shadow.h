/* Races, found by a shadow of each byte of memory: its last writer and its readers.
 *
 * Time is counted in phases: a phase begins with each block that runs, and with each barrier of a block. What a thread
 * did comes before what another does if that was in an earlier launch, or in an earlier phase of the same block; within
 * a phase, if both are lanes of one warp that have waited for each other since (shfl.sync, bar.warp.sync). Blocks of
 * one launch have no order. Two accesses without an order, one of which writes, are a race. Atomic ones are left out.
 */
#ifndef HAUL_TESTS_STANDIN_PTX_SHADOW_H
#define HAUL_TESTS_STANDIN_PTX_SHADOW_H

#include "ptx.h"

/* 0: none. Lanes of one warp are one reader, as are several warps, and several blocks. */
enum { PTX_SEVERAL_LANES = 0x400, PTX_SEVERAL_WARPS = 0xFFFF, PTX_SEVERAL_BLOCKS = 0xFFFE };

typedef struct ptx_mark {
    uint32_t phase; /* 0: never */
    uint16_t who;   /* a thread of its block, or PTX_SEVERAL_LANES + a warp, or several of them */
    uint16_t epoch; /* of its warp in the phase */
} ptx_mark;

typedef struct ptx_shadow {
    ptx_mark written, read;
} ptx_shadow;

/* Notes an access of `bytes` bytes, whose shadows these are; false, after a fault, if it is a race with an access since
 * that phase: the launch's first one, or the block's for its own memory. */
bool ptx_note(ptx_warp *warp, const ptx_op *op, unsigned lane, ptx_shadow *shadow, unsigned bytes, ptx_access kind,
              uint32_t since);
/* Whether a thread of the block that runs has written it. */
bool ptx_was_written(const ptx_warp *warp, const ptx_shadow *shadow);

#endif

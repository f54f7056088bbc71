/* A pass of a Winograd convolution while it runs: what winograd.c, which computes it, shares with winograd_bound.c,
 * which finds the tiles whose errors would be too large, and winograd_plain.c, which computes these tiles as plain
 * sums. */
#ifndef HAUL_BACKENDS_CPU_CONV2D_WINOGRAD_WORK_H
#define HAUL_BACKENDS_CPU_CONV2D_WINOGRAD_WORK_H

#include <stdatomic.h>

#include "backends/cpu/conv2d/winograd.h"
#include "backends/cpu/gemm/panels.h"
#include "backends/cpu/gemm/tiles.h"
#include "backends/implementation.h"
#include "base/numbers.h"

/* Pictures [n, channels, h, w] as one end of a convolution. */
typedef struct haul__winograd_side {
    float  *data;
    int64_t channels, h, w, top, left;
} haul__winograd_side;

/* Rows of tiles are numbered through all pictures. */
typedef struct haul__winograd_work {
    const haul__conv2d           *c;
    const haul__winograd_kernels *kernels;
    const haul__cpu_panels       *panels;
    haul__winograd_side           in, out;
    int64_t                       columns, picture_rows, rows; /* tiles in a row; rows of tiles in a picture, in all */
    int64_t                       lanes, width;                /* of vectors, of panels */
    int64_t                       out_step, in_step;           /* of weights [out, in, 9] */
    const float                  *weight, *bias;

    /* The plan: rows of tiles in a task, or at a time; sizes and distances in elements. */
    bool    by_channels;
    int64_t each;
    int64_t in_tile, in_point;             /* of the transformed input */
    int64_t out_tile, out_point;           /* of the gradient of the result; for convolutions, of the products */
    int64_t weight_point, weight_tile;     /* of a panel of weights; of the gradient of the weights */
    int64_t in_magnitudes, out_magnitudes; /* of the magnitudes of some channels of a picture */
    int64_t workspace, shared, slot, plain_slot;
    int64_t tasks; /* that need a slot of their own at the same time, at most */

    /* Shared by all tasks. A mark for each tile: not 0 if plain sums compute it. */
    float            *memory, *magnitudes;
    int64_t          *marks;
    float            *slots;
    int64_t           room; /* elements at `slots` */
    haul__cpu_scratch scratch;
    atomic_uint       weights; /* their known properties: bits */
} haul__winograd_work;

/* The part of the rows of tiles [row, end) that is in the picture of the first. All members are set at once, since a
 * copy of members that were just written waits for the stores of the transforms before. */
static inline haul__winograd_planes haul__winograd_planes_of(const haul__winograd_work *w, const haul__winograd_side *s,
                                                             int64_t row, int64_t end, int64_t channel,
                                                             float *workspace, float *magnitudes, bool most)
{
    int64_t picture = row / w->picture_rows, first = row - picture * w->picture_rows;
    return (haul__winograd_planes){
        .data = s->data + (picture * s->channels + channel) * s->h * s->w,
        .channels = s->channels - channel,
        .h = s->h,
        .w = s->w,
        .top = s->top,
        .left = s->left,
        .row = first,
        .rows = smaller(w->picture_rows - first, end - row),
        .columns = w->columns,
        .workspace = workspace,
        .magnitudes = magnitudes,
        .most = most,
    };
}

/* The planes of the next channels of the same rows. */
static inline void haul__winograd_next_channels(haul__winograd_planes *p, int64_t lanes)
{
    int64_t channels = smaller(lanes, p->channels);
    p->data += channels * p->h * p->w;
    p->channels -= channels;
    p->adds = true;
}

/* Cuts the memory for slots into those of the next phase, which takes `elements` elements for a task. */
static inline void haul__winograd_cut(haul__winograd_work *w, int64_t elements)
{
    haul__cpu_scratch_lend(&w->scratch, w->slots, (size_t)elements * sizeof(float), (size_t)(w->room / elements));
}

/* ---- winograd_bound.c ---- */

/* Notes what the sums of magnitudes [9, lanes] of the weights of `outs` channels of the result say about their errors.
 */
void haul__winograd_judge_weights(haul__winograd_work *w, const float *sums, int64_t outs);
/* Marks tiles of a convolution: the rows of tiles that these planes and magnitudes are of, the first of which is `row`.
 * All weights must be known. */
void haul__winograd_judge_tiles(const haul__winograd_work *w, const haul__winograd_planes *p, int64_t row);
/* The same for the gradient of the weights. */
void haul__winograd_judge_gradient(const haul__winograd_work *w, const haul__winograd_planes *in,
                                   const haul__winograd_planes *out, int64_t row);
/* Merges the magnitudes of `blocks` blocks of channels, `apart` elements apart, with those of the first. The rows of
 * tiles read `height` rows of pixels. */
void haul__winograd_merge(const haul__winograd_work *w, const haul__winograd_planes *p, int64_t height, int64_t blocks,
                          int64_t apart);

/* ---- winograd_plain.c ---- */

/* Elements of a slot that it needs, and how many slots are enough where a few tiles are marked. */
int64_t haul__winograd_plain_slot(const haul__winograd_work *w);
int64_t haul__winograd_plain_tasks(const haul__winograd_work *w);
/* Computes the marked tiles again, or adds them to the gradient of the weights, which is without them. */
void haul__winograd_plain(haul__winograd_work *w);

#endif

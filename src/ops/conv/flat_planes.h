/* Where the portable 2-d convolution finds its elements: planes of an image with padding, and the taps that meet them.
 */
#ifndef HAUL_OPS_CONV_FLAT_PLANES_H
#define HAUL_OPS_CONV_FLAT_PLANES_H

#include "backends/implementation.h"

/* How elements of images get into a workspace, as conv2d_pad_params says, and `slack` zeros behind them. */
typedef struct haul__flat_planes {
    int64_t channels, h, w, rows, columns, phases[2], mul[2], div[2], shift[2], slack;
} haul__flat_planes;

/* Taps of one axis, from one after another back to the first if `step` is negative, and the results that they make. */
typedef struct haul__flat_axis {
    int64_t first, count, step; /* taps */
    int64_t start, length;      /* the first position in the planes; results */
} haul__flat_axis;

/* Elements of the planes of one image, without the slack. */
int64_t haul__flat_elements(const haul__flat_planes *p);

/* x's planes for outputs of c->out_h x c->out_w. */
haul__flat_planes haul__flat_planes_of_x(const haul__conv2d *c, int64_t slack);

/* dx is the convolution of dy with the flipped weight. With a stride, every stride-th row of dx meets every stride-th
 * row of taps: each phase of dx is a convolution by itself. With many phases or dilation, dy's elements are a stride
 * apart instead, with zeros between them. */
bool              haul__flat_has_phases(const haul__conv2d *c);
haul__flat_planes haul__flat_planes_of_dy(const haul__conv2d *c, int64_t slack);

/* A phase of an axis of dx: 0 is down, 1 across. Position i of it meets tap `first` and those before it, in elements of
 * dy from i - `*before` on. */
haul__flat_axis haul__flat_phase(const haul__conv2d *c, int axis, int64_t phase, int64_t *before);

#endif

/* Where the portable 2-d convolution finds its elements. */
#include "ops/conv/flat_planes.h"

#include "base/assert.h"
#include "base/numbers.h"

/* The most launches for one pass over a chunk. */
#define MOST_PHASES 16

int64_t haul__flat_elements(const haul__flat_planes *p)
{
    return p->channels * p->phases[0] * p->phases[1] * p->rows * p->columns;
}

/* How many zeros behind `length` of `positions` elements can be those before the next ones. */
static int64_t shared(int64_t positions, int64_t before, int64_t length)
{
    int64_t behind = positions - before - length;
    return before < 0 || behind < 0 ? 0 : before < behind ? before : behind;
}

/* Lets zeros behind rows and planes of one phase be those before the next ones. At least `rows` rows of `columns` are
 * left: a tile stores a result where there is a position. */
static void share_zeros(haul__flat_planes *p, int64_t rows, int64_t columns)
{
    if (p->phases[0] * p->phases[1] * p->mul[0] * p->mul[1] != 1)
        return;
    int64_t down = smaller(shared(p->rows, p->shift[0], (p->h - 1) * p->div[0] + 1), p->rows - rows);
    int64_t across = smaller(shared(p->columns, p->shift[1], (p->w - 1) * p->div[1] + 1), p->columns - columns);
    HAUL__ASSERT(0 <= down && 0 <= across && down <= p->rows && across <= p->columns);
    p->rows -= down;
    p->columns -= across;
    p->slack += down * p->columns + across;
}

haul__flat_planes haul__flat_planes_of_x(const haul__conv2d *c, int64_t slack)
{
    haul__flat_planes p = {
        .channels = c->c_in,
        .h = c->h,
        .w = c->w,
        .rows = c->out_h + (c->kh - 1) * c->dilation[0] / c->stride[0],
        .columns = c->out_w + (c->kw - 1) * c->dilation[1] / c->stride[1],
        .phases = {c->stride[0], c->stride[1]},
        .mul = {c->stride[0], c->stride[1]},
        .div = {1, 1},
        .shift = {c->padding[0], c->padding[1]},
        .slack = slack,
    };
    HAUL__ASSERT(p.rows > 0 && p.columns > 0);
    HAUL__ASSERT(c->out_h > 0 && c->out_w > 0);
    share_zeros(&p, c->out_h, c->out_w);
    return p;
}

/* ---- dy ---- */

bool haul__flat_has_phases(const haul__conv2d *c)
{
    return c->dilation[0] == 1 && c->dilation[1] == 1 && c->stride[0] * c->stride[1] <= MOST_PHASES;
}

haul__flat_axis haul__flat_phase(const haul__conv2d *c, int axis, int64_t phase, int64_t *before)
{
    int64_t stride = c->stride[axis], padding = c->padding[axis];
    int64_t kernel = axis ? c->kw : c->kh, length = axis ? c->w : c->h;
    int64_t least = (phase + padding) % stride;
    int64_t count = least < kernel ? haul__ceil_div(kernel - least, stride) : 0;
    HAUL__ASSERT(0 <= phase && phase < stride && (!count || least + (count - 1) * stride < kernel));
    *before = count - 1 - (phase + padding - least) / stride;
    return (haul__flat_axis){.first = least + (count - 1) * stride,
                             .count = count,
                             .step = -stride,
                             .length = phase < length ? haul__ceil_div(length - phase, stride) : 0};
}

/* How many positions all phases of an axis need, and how many of them are before dy's first element. */
static int64_t positions_of(const haul__conv2d *c, int axis, int64_t *before)
{
    int64_t positions = 1, stride = c->stride[axis], mine;
    HAUL__ASSERT(stride > 0);
    *before = INT64_MIN;
    for (int64_t i = 0; i < stride; i++)
        if (haul__flat_phase(c, axis, i, &mine).count && *before < mine)
            *before = mine;
    if (*before == INT64_MIN)
        *before = 0;
    for (int64_t i = 0; i < stride; i++) {
        haul__flat_axis a = haul__flat_phase(c, axis, i, &mine);
        int64_t         end = a.count ? *before - mine + a.length + a.count - 1 : a.length;
        if (positions < end)
            positions = end;
    }
    HAUL__ASSERT(positions > 0);
    return positions;
}

haul__flat_planes haul__flat_planes_of_dy(const haul__conv2d *c, int64_t slack)
{
    haul__flat_planes p = {
        .channels = c->c_out, .h = c->out_h, .w = c->out_w, .phases = {1, 1}, .mul = {1, 1}, .slack = slack};
    if (haul__flat_has_phases(c)) {
        p.div[0] = p.div[1] = 1;
        p.rows = positions_of(c, 0, &p.shift[0]);
        p.columns = positions_of(c, 1, &p.shift[1]);
    } else {
        const int64_t reach[] = {(c->kh - 1) * c->dilation[0], (c->kw - 1) * c->dilation[1]};
        p.rows = c->h + reach[0];
        p.columns = c->w + reach[1];
        for (int i = 0; i < 2; i++) {
            p.div[i] = c->stride[i];
            p.shift[i] = reach[i] - c->padding[i];
        }
    }
    HAUL__ASSERT(p.rows > 0 && p.columns > 0);
    share_zeros(&p, 0, 0); /* with more padding than the taps reach, dy begins before its plane, which shares nothing */
    return p;
}

/* Finds the planes that convolutions read. */
#include "backends/cpu/conv2d/planes.h"
#include "base/assert.h"
#include "base/numbers.h"

#include "core/shape.h"

haul__planes haul__planes_of_x(const haul__conv2d *c)
{
    int64_t down = (c->kh - 1) * c->dilation[0], right = (c->kw - 1) * c->dilation[1];
    return (haul__planes){
        .h = c->h,
        .w = c->w,
        .step = {c->stride[0], c->stride[1]},
        .phases = {smaller(c->stride[0], down + 1), smaller(c->stride[1], right + 1)},
        .shift = {c->padding[0], c->padding[1]},
        .columns = c->out_w + right / c->stride[1],
    };
}

bool haul__planes_measure(haul__planes *p)
{
    int64_t phases;
    if (!haul__mul_size(p->rows, p->columns, &p->phase) || !haul__mul_size(p->phases[0], p->phases[1], &phases) ||
        !haul__mul_size(p->phase, phases, &p->channel))
        return false;
    p->count = larger(smaller(p->w, p->columns * p->step[1] - p->shift[1]), 0);
    HAUL__ASSERT(p->step[1] <= HAUL__MOST_STEP);
    for (int64_t i = 0; i < p->step[1]; i++) {
        int64_t phase = (p->shift[1] + i) % p->step[1];
        p->plane_of[i] = phase < p->phases[1] ? phase * p->phase : -1;
        p->column_of[i] = smaller((p->shift[1] + i) / p->step[1], p->columns);
        p->rest_of[i] = p->columns - p->column_of[i] - haul__ceil_div(p->count - i, p->step[1]);
    }
    return true;
}

int64_t haul__planes_offset(const haul__planes *p, int64_t down, int64_t right)
{
    HAUL__ASSERT(down % p->step[0] < p->phases[0] && right % p->step[1] < p->phases[1]);
    int64_t phase = down % p->step[0] * p->phases[1] + right % p->step[1];
    return phase * p->phase + down / p->step[0] * p->columns + right / p->step[1];
}

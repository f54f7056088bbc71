/* Launches the kernels of pooling over windows of the last two axes (pool2d_max.c, pool2d_max_gradient.c,
 * pool2d_avg.c, pool2d_plain.c). */
#include "base/assert.h"
#include "kernels/kernels.h"
#include "ops/pool/pool2d.h"

/* Elements that make a share worthwhile. */
#define GRAIN 8192

pool2d_params haul__pool2d_params(const haul__pool2d_attributes *a)
{
    HAUL__ASSERT(a->adaptive || (a->size[0] > 0 && a->size[1] > 0));
    HAUL__ASSERT(a->out[0] > 0 && a->out[1] > 0);
    return (pool2d_params){.h = a->in[0],
                           .w = a->in[1],
                           .out_h = a->out[0],
                           .out_w = a->out[1],
                           .channels = a->channels,
                           .size_h = a->size[0],
                           .size_w = a->size[1],
                           .stride_h = a->stride[0],
                           .stride_w = a->stride[1],
                           .padding_h = a->padding[0],
                           .padding_w = a->padding[1],
                           .exclude_padding = a->exclude_padding || a->adaptive,
                           .adaptive = a->adaptive};
}

/* For the gradient of the maximum: windows without gaps that hold the given ones, as places say which elements count.
 * They are not those of halving, in which the last row or column is in no window. */
static void cover(const haul__pool2d_attributes *a, pool2d_params *p)
{
    p->size_h = (a->size[0] - 1) * a->dilation[0] + 1;
    p->size_w = (a->size[1] - 1) * a->dilation[1] + 1;
    p->size_h += p->size_h == 2 && p->size_w == 2;
}

/* Row-major, a work item is a row of the result; channels-last, an element. */
static haul_status launch(const haul__call *c, int kernel, const haul__pool2d_attributes *a, haul_tensor *const *outs,
                          int out_count, haul_tensor *const *ins, int in_count, pool2d_params *p)
{
    int64_t row = a->channels_last ? 1 : outs[0]->shape.dims[3];
    int64_t window = p->size_h * p->size_w, work = window > GRAIN / row ? GRAIN : row * window; /* no overflow */
    HAUL__ASSERT(row > 0 && window > 0 && outs[0]->count % row == 0 &&
                 (out_count == 1 || outs[1]->count == outs[0]->count));
    p->items = outs[0]->count / row;
    return haul__launch_kernel(c, a->channels_last ? haul__kernel_infos[kernel].columns : kernel, outs[0]->dtype,
                               .outs = outs, .out_count = out_count, .ins = ins, .in_count = in_count, HAUL__PARAMS(*p),
                               .grain = work >= GRAIN ? 1 : GRAIN / work);
}

haul_status haul__pool2d_max(haul__call *c)
{
    const haul__pool2d_attributes *a = haul__attributes(c);
    haul_tensor                   *y = c->results[0], *index = c->results[1];
    pool2d_params                  p = haul__pool2d_params(a);
    if (a->plain)
        return haul__pool2d_plain_max(c);
    p.x_offset = c->operands[0]->offset;
    return index ? launch(c, c->operation->kernel, a, (haul_tensor *[]){y, index}, 2, c->operands, 1, &p)
                 : launch(c, HAUL__K_max_pool2d_values, a, &y, 1, c->operands, 1, &p);
}

haul_status haul__pool2d_avg(haul__call *c)
{
    const haul__pool2d_attributes *a = haul__attributes(c);
    pool2d_params                  p = haul__pool2d_params(a);
    if (a->plain)
        return haul__pool2d_plain_avg(c);
    p.x_offset = c->operands[0]->offset;
    return launch(c, c->operation->kernel, a, c->results, 1, c->operands, 1, &p);
}

haul_status haul__pool2d_backward(haul__call *c)
{
    const haul__pool2d_attributes *a = haul__attributes(c);
    haul_tensor                   *g = haul__as_format(c, c->operands[0], a->channels_last);
    pool2d_params                  p = haul__pool2d_params(a);
    if (!g)
        return haul_error_status();
    if (a->plain && c->count == 1)
        return haul__pool2d_plain_spread(c, g);
    if (a->plain)
        cover(a, &p);
    HAUL__ASSERT(g->shape.dims[2] == a->out[0] && g->shape.dims[3] == a->out[1]);
    p.y_offset = g->offset;
    if (c->count == 1)
        return launch(c, c->operation->kernel, a, c->results, 1, &g, 1, &p);
    HAUL__ASSERT(c->operands[1]->count == g->count);
    p.index_offset = c->operands[1]->offset;
    return launch(c, c->operation->kernel, a, c->results, 1, (haul_tensor *[]){g, c->operands[1]}, 2, &p);
}

haul_status haul__pool2d_pick(haul__call *c)
{
    const haul__pool2d_attributes *a = haul__attributes(c);
    haul_tensor                   *y = c->results[0], *index = c->operands[1];
    haul_tensor                   *x = haul__as_format(c, c->operands[0], a->channels_last);
    pool2d_params                  p = haul__pool2d_params(a);
    if (!x)
        return haul_error_status();
    HAUL__ASSERT(index->count == y->count);
    HAUL__ASSERT(y->shape.dims[2] == a->out[0] && x->shape.dims[2] == a->in[0]);
    p.items = y->count;
    p.channels = a->channels_last ? p.channels : 1;
    p.x_offset = x->offset;
    p.index_offset = index->offset;
    return haul__launch_kernel(c, c->operation->kernel, y->dtype, HAUL__OUT(y), HAUL__IN(x, index), HAUL__PARAMS(p),
                               .grain = GRAIN);
}

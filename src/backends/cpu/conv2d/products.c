/* The implementation "products": convolutions whose 1x1 weights neither skip nor pad pixels. An image is a matrix
 * [channels, pixels], so that each pass is a product of matrices, which gemm.c computes in place.
 *
 * The weight's gradient is the sum of a product for each image, added in order. */
#include "backends/cpu/conv2d/refusals.h"
#include "backends/cpu/cpu.h"
#include "base/assert.h"
#include "core/error.h"

/* With fewer pixels, large weights are read too often. */
#define FEWEST_PIXELS 100

/* Some images of a problem. */
typedef struct images {
    const haul__conv2d *c;
    int64_t             first, count, pixels;
} images;

/* The channels of a group on both sides, and its first elements. */
typedef struct sides {
    int64_t in, out;
    int64_t weight, x, y;
} sides;

static sides sides_of(const images *of, int64_t group)
{
    const haul__conv2d *c = of->c;
    sides               s = {.in = c->c_in / c->groups, .out = c->c_out / c->groups};
    HAUL__ASSERT(group < c->groups && of->first + of->count <= c->n);
    s.weight = c->weight_offset + group * s.out * s.in;
    s.x = c->x_offset + (of->first * c->c_in + group * s.in) * of->pixels;
    s.y = c->y_offset + (of->first * c->c_out + group * s.out) * of->pixels;
    return s;
}

/* y = weight x + bias for every image. */
static haul__gemm forward_of(const images *of, int64_t group)
{
    const haul__conv2d *c = of->c;
    const sides         s = sides_of(of, group);
    return (haul__gemm){
        .dtype = c->dtype,
        .batch = of->count,
        .m = s.out,
        .n = of->pixels,
        .k = s.in,
        .a = c->weight,
        .a_offset = s.weight,
        .a_row = s.in,
        .a_col = 1,
        .b = c->x,
        .b_offset = s.x,
        .b_row = of->pixels,
        .b_col = 1,
        .b_batch = c->c_in * of->pixels,
        .c = c->y,
        .c_offset = s.y,
        .c_row = of->pixels,
        .c_batch = c->c_out * of->pixels,
        .bias = c->bias,
        .bias_offset = c->bias_offset + group * s.out,
        .bias_of_rows = c->has_bias,
    };
}

/* dx = weight' dy + bias for every image. */
static haul__gemm data_of(const images *of, int64_t group)
{
    const haul__conv2d *c = of->c;
    const sides         s = sides_of(of, group);
    return (haul__gemm){
        .dtype = c->dtype,
        .batch = of->count,
        .m = s.in,
        .n = of->pixels,
        .k = s.out,
        .a = c->weight,
        .a_offset = s.weight,
        .a_row = 1,
        .a_col = s.in,
        .b = c->y,
        .b_offset = s.y,
        .b_row = of->pixels,
        .b_col = 1,
        .b_batch = c->c_out * of->pixels,
        .c = c->x,
        .c_offset = s.x,
        .c_row = of->pixels,
        .c_batch = c->c_in * of->pixels,
        .bias = c->bias,
        .bias_offset = c->bias_offset + group * s.in,
        .bias_of_rows = c->has_bias,
    };
}

/* dw = dy x' of one image, added to that of the images before it. */
static haul__gemm weight_of(const images *of, int64_t group)
{
    const haul__conv2d *c = of->c;
    const sides         s = sides_of(of, group);
    return (haul__gemm){
        .dtype = c->dtype,
        .batch = 1,
        .m = s.out,
        .n = s.in,
        .k = of->pixels,
        .a = c->y,
        .a_offset = s.y,
        .a_row = of->pixels,
        .a_col = 1,
        .b = c->x,
        .b_offset = s.x,
        .b_row = 1,
        .b_col = of->pixels,
        .c = c->weight,
        .c_offset = s.weight,
        .c_row = s.in,
        .accumulate = of->first > 0,
    };
}

const char *haul__cpu_conv2d_products_refuse(haul_device *device, const void *problem)
{
    const haul__conv2d *c = problem;
    (void)device;
    if (!c)
        return NULL;
    if (c->kh != 1 || c->kw != 1 || c->stride[0] != 1 || c->stride[1] != 1 || c->padding[0] || c->padding[1])
        return "it takes 1x1 weights without stride or padding only";
    if (c->h * c->w < FEWEST_PIXELS)
        return "with fewer than 100 pixels its products read the weights too often";
    return haul__cpu_conv2d_tiles_refuse(c);
}

haul_status haul__cpu_conv2d_products(haul__stream *s, const void *problem)
{
    static haul__gemm (*const product_of[])(const images *of, int64_t group) = {
        [HAUL__CONV2D_FORWARD] = forward_of,
        [HAUL__CONV2D_DATA] = data_of,
        [HAUL__CONV2D_WEIGHT] = weight_of,
    };
    const haul__conv2d *c = problem;
    images              of = {.c = c, .count = c->pass == HAUL__CONV2D_WEIGHT ? 1 : c->n, .pixels = c->h * c->w};
    haul_status         status = HAUL_OK;
    HAUL__ASSERT(c->out_h == c->h && c->out_w == c->w); /* each pixel has one result */
    for (; of.first < c->n; of.first += of.count)
        for (int64_t group = 0; group < c->groups && !status; group++) {
            haul__gemm product = product_of[c->pass](&of, group);
            status = haul__cpu_gemm(s, &product);
        }
    return status;
}

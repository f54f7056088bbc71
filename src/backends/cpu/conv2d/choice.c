/* Which of two of the CPU's convolutions takes less time, by measurements. */
#include "backends/cpu/conv2d/plane_copies.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/panels.h"

/* Channels of y from which copying to panels takes less time than what pixels.c loses. */
#define MANY_CHANNELS 96

/* Measured against oneDNN with a stride of 2: the fewest channels of x and y; the fewest pixels of y with 1x1 weights;
 * and elements of an image of x, and of weights, above which oneDNN is slower in finding dx. */
#define FEWEST_IN     64
#define FEWEST_OUT    128
#define FEWEST_PIXELS 100
#define LARGE_IMAGE   (1 << 17)
#define LARGE_WEIGHT  (1 << 20)

/* True if vectors, or halves or quarters of them, cut rows of so many pixels without a rest. */
static bool cuts_evenly(int64_t pixels)
{
    int64_t lanes = haul__cpu_panels_for(HAUL_F32)->lanes, move = 4;
    while (move < pixels && move < lanes)
        move *= 2;
    return pixels % move == 0;
}

bool haul__cpu_conv2d_onednn_is_slower(haul_device *device, const void *problem)
{
    const haul__conv2d *c = problem;
    int64_t             taps = c->kh * c->kw, pixels = c->out_h * c->out_w;
    (void)device;
    if (!haul__cpu_planes_for_f32() || c->stride[0] != 2 || c->stride[1] != 2 || c->groups > 1 || c->c_in < FEWEST_IN ||
        c->c_out < FEWEST_OUT || (taps == 1 && pixels < FEWEST_PIXELS))
        return false;
    if (c->pass == HAUL__CONV2D_FORWARD)
        return cuts_evenly(c->out_w);
    if (c->pass == HAUL__CONV2D_WEIGHT)
        return true;
    bool whole = c->out_w % haul__cpu_panels_for(HAUL_F32)->lanes == 0;
    return c->c_in * c->h * c->w > LARGE_IMAGE || (taps > 1 && whole) ||
           (c->c_in * c->c_out * taps > LARGE_WEIGHT && cuts_evenly(c->out_w));
}

bool haul__cpu_conv2d_panels_are_slower(haul_device *device, const void *problem)
{
    const haul__conv2d *c = problem;
    (void)device;
    return c->pass == HAUL__CONV2D_FORWARD && c->c_out / c->groups < MANY_CHANNELS;
}

/* Channels: normalisation over groups of channels, and channels that become pixels.
 *
 * The channels of [N, C, ...] are axis 1. */
#ifndef HAUL_CHANNELS_H
#define HAUL_CHANNELS_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

typedef struct HAUL__DESIGNATED haul_group_norm_options {
    int64_t groups; /* the number of groups, which divides C; positional */
    HAUL__GUARD(weight)
    haul_tensor *weight; /* [C]; default ones */
    haul_tensor *bias;   /* [C]; default zeros */
    double       eps;    /* added to the variance; default 1e-5; HAUL_ZERO for zero; must not be negative */
} haul_group_norm_options;

/* Group normalisation (Wu, He 2018): (x - mean) / sqrt(var + eps) weight + bias, with the mean and biased variance of
 * each group of C / groups channels of each example: haul_group_norm(x, 4). Operands are promoted; integers and bool
 * become f32 first.
 *
 * - x: [N, C, ...] */
#define haul_group_norm(x, ...) haul_group_norm_with(x, HAUL__OPTIONS(haul_group_norm_options, .groups = __VA_ARGS__))
HAUL_API haul_tensor *haul_group_norm_with(haul_tensor *x, const haul_group_norm_options *o);

typedef struct HAUL__DESIGNATED haul_instance_norm_options {
    haul_tensor *x; /* [N, C, L ...], at least three dimensions; positional */
    HAUL__GUARD(weight)
    haul_tensor *weight; /* [C]; default ones */
    haul_tensor *bias;   /* [C]; default zeros */
    double       eps;    /* added to the variance; default 1e-5; HAUL_ZERO for zero; must not be negative */
} haul_instance_norm_options;

/* Instance normalisation (Ulyanov et al. 2016), group normalisation in which each channel is a group. There are no
 * running statistics, as in PyTorch by default. */
#define haul_instance_norm(...) haul_instance_norm_with(HAUL__OPTIONS(haul_instance_norm_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_instance_norm_with(const haul_instance_norm_options *o);

/* Pixels from channels (Shi et al. 2016): x [..., C r^2, H, W] becomes [..., C, H r, W r], and haul_pixel_unshuffle is
 * the inverse, [..., C, H r, W r] to [..., C r^2, H, W]. Each pixel becomes a square of r rows and columns, whose
 * elements are r^2 channels in a row.
 *
 * - factor: r, at least 1 */
HAUL_API haul_tensor *haul_pixel_shuffle(haul_tensor *x, int64_t factor);
HAUL_API haul_tensor *haul_pixel_unshuffle(haul_tensor *x, int64_t factor);

HAUL_END

#endif

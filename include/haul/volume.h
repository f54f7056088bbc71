/* Volumes: convolution and pooling in three dimensions, and pooling of sequences to a given length.
 *
 * x is [N, C, D, H, W], a batch of N volumes with C channels and D layers of H rows and W columns; in the 1-d forms it
 * is [N, C, L]. Triples of sizes are {depth, vertical, horizontal}. The operations are those of pictures (haul/conv.h),
 * applied to the layers of a volume, so they use the same libraries. */
#ifndef HAUL_VOLUME_H
#define HAUL_VOLUME_H

#include <haul/base.h>
#include <haul/conv.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

typedef struct HAUL__DESIGNATED haul_conv3d_options {
    haul_tensor *weight; /* [C_out, C_in / groups, KD, KH, KW]; positional */
    HAUL__GUARD(bias)
    haul_tensor *bias; /* [C_out]; default zeros */
    /* stride: step of the window; default {1, 1, 1}. padding: zeros added on each side; default none; {1, HAUL_ZERO,
     * HAUL_ZERO} pads the depth only. dilation: distance of the window's elements; default {1, 1, 1} */
    int64_t stride[3], padding[3], dilation[3];
    int64_t groups; /* channels are split into so many groups, which do not mix; divides C_in and C_out; default 1 */
    bool    relu;   /* return max(result, 0), fused where supported */
    bool    same;   /* pad so that the result has the size of x; without .padding and .stride */
} haul_conv3d_options;

/* haul_conv2d in three dimensions: haul_conv3d(x, weight, .bias = b, .padding = {1, 1, 1}). It is one 2-d convolution
 * whose channels are the layers under the window, so x is copied KD times. With .same an odd number of zeros has one
 * more at the end, as in PyTorch.
 *
 * - x: [N, C_in, D, H, W] */
#define haul_conv3d(x, ...) haul_conv3d_with(x, HAUL__OPTIONS(haul_conv3d_options, .weight = __VA_ARGS__))
HAUL_API haul_tensor *haul_conv3d_with(haul_tensor *x, const haul_conv3d_options *options);

typedef struct HAUL__DESIGNATED haul_conv_transpose3d_options {
    haul_tensor *weight; /* [C_in, C_out / groups, KD, KH, KW]; positional */
    HAUL__GUARD(bias)
    haul_tensor *bias; /* [C_out]; default zeros */
    /* stride: spreads the elements of x; default {1, 1, 1}. padding: elements removed on each side; default none.
     * output_padding: elements added at the end; less than the stride; default none. dilation: distance of the window's
     * elements; default {1, 1, 1}. groups: groups of channels that do not mix; default 1 */
    int64_t stride[3], padding[3], output_padding[3], dilation[3], groups;
} haul_conv_transpose3d_options;

/* haul_conv_transpose2d in three dimensions, the gradient of haul_conv3d with respect to its input, with a bias.
 *
 * - x: [N, C_in, D, H, W] */
#define haul_conv_transpose3d(x, ...)                                                                                  \
    haul_conv_transpose3d_with(x, HAUL__OPTIONS(haul_conv_transpose3d_options, .weight = __VA_ARGS__))
HAUL_API haul_tensor *haul_conv_transpose3d_with(haul_tensor *x, const haul_conv_transpose3d_options *options);

typedef struct HAUL__DESIGNATED haul_pool3d_options {
    int64_t size; /* edge of a cubic window, or its depth if the others are given; positional */
    HAUL__GUARD(size_h)
    int64_t size_h, size_w; /* size_h, size_w: height and width of a window that is not cubic; default the depth */
    /* stride: step of the window; default the window's size. padding: elements added on each side, at most half the
     * window; default none */
    int64_t stride[3], padding[3];
    int64_t dilation[3];     /* haul_max_pool3d only: distance between the elements of a window; default 1 */
    int64_t divisor;         /* haul_avg_pool3d only: divide by it; default the window's number of elements */
    bool    exclude_padding; /* haul_avg_pool3d only: divide by the number of elements inside x */
    bool    ceil_mode;       /* the last window may extend past x and its padding */
} haul_pool3d_options;

/* haul_max_pool2d and haul_avg_pool2d in three dimensions: haul_max_pool3d(x, 2).
 *
 * - x: [N, C, D, H, W] of a floating dtype */
#define haul_max_pool3d(x, ...) haul_max_pool3d_with(x, HAUL__OPTIONS(haul_pool3d_options, .size = __VA_ARGS__))
#define haul_avg_pool3d(x, ...) haul_avg_pool3d_with(x, HAUL__OPTIONS(haul_pool3d_options, .size = __VA_ARGS__))
HAUL_API haul_tensor *haul_max_pool3d_with(haul_tensor *x, const haul_pool3d_options *options);
HAUL_API haul_tensor *haul_avg_pool3d_with(haul_tensor *x, const haul_pool3d_options *options);

/* haul_max_pool2d_indices and haul_max_unpool2d in three dimensions: an index is (layer x H + row) x W + column, and
 * the result of haul_max_unpool3d is [N, C, depth, height, width]. */
#define haul_max_pool3d_indices(x, y, indices, ...)                                                                    \
    haul_max_pool3d_indices_with(x, y, indices, HAUL__OPTIONS(haul_pool3d_options, .size = __VA_ARGS__))
HAUL_API haul_status  haul_max_pool3d_indices_with(haul_tensor *x, haul_tensor **y, haul_tensor **indices,
                                                   const haul_pool3d_options *options);
HAUL_API haul_tensor *haul_max_unpool3d(haul_tensor *x, haul_tensor *indices, int64_t depth, int64_t height,
                                        int64_t width);

/* haul_adaptive_max_pool2d and haul_adaptive_avg_pool2d in one dimension, to [N, C, length].
 *
 * - x: [N, C, L] of a floating dtype */
HAUL_API haul_tensor *haul_adaptive_max_pool1d(haul_tensor *x, int64_t length);
HAUL_API haul_tensor *haul_adaptive_avg_pool1d(haul_tensor *x, int64_t length);

/* haul_adaptive_max_pool2d and haul_adaptive_avg_pool2d in three dimensions, to [N, C, depth, height, width].
 *
 * - x: [N, C, D, H, W] of a floating dtype */
HAUL_API haul_tensor *haul_adaptive_max_pool3d(haul_tensor *x, int64_t depth, int64_t height, int64_t width);
HAUL_API haul_tensor *haul_adaptive_avg_pool3d(haul_tensor *x, int64_t depth, int64_t height, int64_t width);

HAUL_END

#endif

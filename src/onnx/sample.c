/* Pictures sampled, cut out and put together. */
#include <haul/conv.h>
#include <haul/image.h>
#include <string.h>

#include "core/error.h"
#include "core/tensor.h"
#include "onnx/families.h"
#include "onnx/window.h"

#define X(i) haul__onnx_x(c, i)

/* The modes are called bilinear and bicubic before 20. */
haul_tensor *haul__onnx_grid_sample(haul__onnx_call *c)
{
    const char *mode = haul__onnx_string(c, "mode", "linear"), *edge = haul__onnx_string(c, "padding_mode", "zeros");
    const bool  linear = !strcmp(mode, "linear") || !strcmp(mode, "bilinear");
    const bool  cubic = !strcmp(mode, "cubic") || !strcmp(mode, "bicubic");
    const bool  border = !strcmp(edge, "border"), mirrored = !strcmp(edge, "reflection");
    haul_interpolation how = linear ? HAUL_BILINEAR : cubic ? HAUL_BICUBIC : HAUL_NEAREST;
    if (haul__onnx_shape(c, 0).ndim != 4 && haul__onnx_shape(c, 0).ndim != 5)
        return haul__onnx_refuse(c, "this number of dimensions");
    if ((how == HAUL_NEAREST && strcmp(mode, "nearest") != 0) || (!border && !mirrored && strcmp(edge, "zeros") != 0))
        return haul__onnx_refuse(c, "this mode or padding_mode");
    return haul_grid_sample(X(0), X(1), how,
                            .padding = border     ? HAUL_GRID_BORDER
                                       : mirrored ? HAUL_GRID_REFLECTION
                                                  : HAUL_GRID_ZEROS,
                            .align_corners = haul__onnx_int(c, "align_corners", 0) != 0);
}

haul_tensor *haul__onnx_affine_grid(haul__onnx_call *c)
{
    const haul__numbers *size = haul__onnx_numbers(c, 1);
    const haul_shape     theta = haul__onnx_shape(c, 0);
    const bool           corners = haul__onnx_int(c, "align_corners", 0) != 0;
    int64_t              sizes[3];
    if (!size)
        return NULL;
    const int count = (int)size->count - 2;
    if ((count != 2 && count != 3) || theta.ndim != 3 || theta.dims[1] != count || theta.dims[2] != count + 1)
        return haul__onnx_wrong(c, "theta or the size has a wrong shape");
    for (int d = 0; d < count; d++) {
        sizes[d] = size->items[d + 2].i;
        if (sizes[d] < 1 || sizes[d] > 1 << 20)
            return haul__onnx_wrong(c, "a size is out of range");
    }
    return count == 2 ? haul_affine_grid(X(0), sizes[0], sizes[1], corners)
                      : haul_affine_grid3d(X(0), sizes[0], sizes[1], sizes[2], corners);
}

/* A longer axis is cut, and a shorter one filled with zeros, around its middle; an odd element is at the end. */
haul_tensor *haul__onnx_center_crop_pad(haul__onnx_call *c)
{
    const haul__numbers *sizes = haul__onnx_numbers(c, 1);
    const haul_shape     x = haul__onnx_shape(c, 0);
    int64_t              before[HAUL_MAX_DIMS] = {0}, after[HAUL_MAX_DIMS] = {0};
    haul__onnx_list      axes;
    int                  axis;
    if (!sizes || haul__onnx_ints(c, "axes", &axes))
        return NULL;
    if (sizes->count != (axes.given ? axes.count : x.ndim))
        return haul__onnx_wrong(c, "there is another number of sizes than of axes");
    for (int i = 0; i < (int)sizes->count; i++) {
        if (haul__onnx_axis(c, axes.given ? axes.items[i] : i, x.ndim, &axis))
            return NULL;
        const int64_t size = sizes->items[i].i, wide = size > x.dims[axis] ? size - x.dims[axis] : x.dims[axis] - size;
        if (size < 1 || size > INT32_MAX)
            return haul__onnx_wrong(c, "a size is out of range");
        before[axis] = size > x.dims[axis] ? wide / 2 : -(wide / 2);
        after[axis] = size > x.dims[axis] ? wide - wide / 2 : -(wide - wide / 2);
    }
    return haul__onnx_pads(X(0), x.ndim, before, after, HAUL_PAD_CONSTANT, 0);
}

/* Columns become windows of a picture that has its padding, which is then cut off. */
haul_tensor *haul__onnx_col2im(haul__onnx_call *c)
{
    const haul__numbers *image = haul__onnx_numbers(c, 1), *block = image ? haul__onnx_numbers(c, 2) : NULL;
    int64_t              stride[2], dilation[2], pads[4], whole[2];
    if (!block)
        return NULL;
    if (image->count != 2 || block->count != 2)
        return haul__onnx_refuse(c, "this number of dimensions");
    if (haul__onnx_window_list(c, "strides", 2, 1, stride) || haul__onnx_window_list(c, "dilations", 2, 1, dilation) ||
        haul__onnx_window_list(c, "pads", 4, 0, pads))
        return NULL;
    for (int d = 0; d < 2; d++) {
        if (image->items[d].i < 1 || image->items[d].i > INT32_MAX || block->items[d].i < 1 || !stride[d] ||
            !dilation[d])
            return haul__onnx_wrong(c, "a size, stride or dilation is out of range");
        whole[d] = image->items[d].i + pads[d] + pads[d + 2];
    }
    haul_tensor *y = haul_fold(X(0), whole[0], whole[1], block->items[0].i, .size_w = block->items[1].i,
                               .stride = {stride[0], stride[1]}, .dilation = {dilation[0], dilation[1]});
    for (int d = 0; d < 2; d++)
        y = haul_slice(y, d + 2, pads[d], whole[d] - pads[d + 2], 1);
    return y;
}

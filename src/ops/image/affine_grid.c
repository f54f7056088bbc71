/* haul_affine_grid, of other operations. */
#include "ops/image/image.h"

typedef struct affine_grid_attributes {
    int64_t rows, columns;
    int     align_corners, reserved;
} affine_grid_attributes;

/* The positions of n elements along an axis, from -1 to 1, as a tensor of the given shape. */
static haul_tensor *positions(haul_dtype dtype, int64_t n, bool align_corners, haul_shape shape)
{
    const double end = n < 2 ? 0 : align_corners ? 1 : (double)(n - 1) / (double)n;
    return haul_reshape(haul_linspace(dtype, -end, end, n), shape);
}

static haul_status compose(haul__call *c)
{
    const affine_grid_attributes *a = haul__attributes(c);
    haul_tensor                  *theta = c->operands[0], *columns[3];
    const haul_shape             *shape = &theta->shape;
    const haul_dtype              dtype = theta->dtype, wide = dtype == HAUL_F64 ? HAUL_F64 : HAUL_F32;
    int64_t                       elements;
    if (shape->ndim != 3 || shape->dims[1] != 2 || shape->dims[2] != 3)
        return haul__refuse_shape(c, 0, "[N, 2, 3] is expected");
    if (a->rows < 1 || a->columns < 1 || !haul__mul_size(a->rows, a->columns, &elements) ||
        elements > HAUL__IMAGE_LONGEST)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "rows",
                          "%lld rows and %lld columns are given; from 1 to 2^30 positions are expected",
                          (long long)a->rows, (long long)a->columns);
    if (haul_set_device(c->device)) /* the call's scope restores the device */
        return haul_error_status();
    theta = haul_cast(theta, wide);
    for (int i = 0; i < 3; i++)
        columns[i] = haul_reshape(haul_slice(theta, 2, i, i + 1, 1), HAUL_SHAPE(shape->dims[0], 1, 1, 2));
    haul_tensor *x = positions(wide, a->columns, a->align_corners, HAUL_SHAPE(a->columns, 1));
    haul_tensor *y = positions(wide, a->rows, a->align_corners, HAUL_SHAPE(a->rows, 1, 1));
    c->results[0] = haul_cast(haul_add(haul_add(haul_mul(columns[0], x), haul_mul(columns[1], y)), columns[2]), dtype);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(affine_grid) = {
    .name = "haul_affine_grid",
    .operands = {{"theta", .layout = HAUL__ANY_STRIDES}},
    .results = {{"grid"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(affine_grid_attributes),
    .compose = compose,
};

haul_tensor *haul_affine_grid(haul_tensor *theta, int64_t rows, int64_t columns, bool align_corners)
{
    const affine_grid_attributes a = {.rows = rows, .columns = columns, .align_corners = align_corners};
    return HAUL__APPLY(affine_grid, &a, theta);
}

/* haul_affine_grid and haul_affine_grid3d, of other operations. */
#include "base/assert.h"
#include "ops/image/image.h"

typedef struct affine_grid_attributes {
    int64_t size[3]; /* layers, rows and columns */
    int     align_corners, volume;
} affine_grid_attributes;

/* The positions of n elements along an axis, from -1 to 1, as a tensor of the given shape. */
static haul_tensor *positions(haul_dtype dtype, int64_t n, bool align_corners, haul_shape shape)
{
    const double end = n < 2 ? 0 : align_corners ? 1 : (double)(n - 1) / (double)n;
    return haul_reshape(haul_linspace(dtype, -end, end, n), shape);
}

static haul_status check(const haul__call *c, const affine_grid_attributes *a)
{
    const haul_shape *theta = &c->operands[0]->shape;
    const int64_t    *n = a->size;
    const bool        volume = a->volume;
    int64_t           elements = 1;
    if (theta->ndim != 3 || theta->dims[1] != 2 + volume || theta->dims[2] != 3 + volume)
        return haul__refuse_shape(c, 0, volume ? "[N, 3, 4] is expected" : "[N, 2, 3] is expected");
    for (int i = !volume; i < 3; i++)
        if (n[i] < 1 || !haul__mul_size(n[i], elements, &elements) || elements > HAUL__IMAGE_LONGEST)
            return volume
                       ? haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "layers",
                                    "%lld layers, %lld rows and %lld columns are given; from 1 to 2^30 positions are "
                                    "expected",
                                    (long long)n[0], (long long)n[1], (long long)n[2])
                       : haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "rows",
                                    "%lld rows and %lld columns are given; from 1 to 2^30 positions are expected",
                                    (long long)n[1], (long long)n[2]);
    HAUL__ASSERT(elements == (volume ? n[0] : 1) * n[1] * n[2]);
    return HAUL_OK;
}

/* Column i of theta times the position along axis i, for x, y and z, and the last column. */
static haul_status compose(haul__call *c)
{
    const affine_grid_attributes *a = haul__attributes(c);
    haul_tensor                  *theta = c->operands[0], *grid = NULL;
    const haul_dtype              dtype = theta->dtype, wide = dtype == HAUL_F64 ? HAUL_F64 : HAUL_F32;
    const int                     axes = a->volume ? 3 : 2;
    if (check(c, a) || haul_set_device(c->device)) /* the call's scope restores the device */
        return haul_error_status();
    haul_shape of_theta = {.ndim = axes + 2, .dims = {theta->shape.dims[0], 1, 1, 1, 1}};
    of_theta.dims[axes + 1] = axes;
    HAUL__ASSERT(of_theta.ndim <= HAUL_MAX_DIMS && theta->count == of_theta.dims[0] * axes * (axes + 1));
    theta = haul_cast(theta, wide);
    for (int i = 0; i <= axes; i++) {
        haul_tensor *column = haul_reshape(haul_slice(theta, 2, i, i + 1, 1), of_theta);
        haul_shape   line = {.ndim = axes + 1, .dims = {1, 1, 1, 1}};
        if (i == axes) {
            grid = haul_add(grid, column);
            break;
        }
        line.dims[axes - 1 - i] = a->size[2 - i];
        haul_tensor *part = haul_mul(column, positions(wide, a->size[2 - i], a->align_corners, line));
        grid = i ? haul_add(grid, part) : part;
    }
    HAUL__ASSERT(haul__failed(grid) || grid->shape.dims[grid->shape.ndim - 1] == axes);
    c->results[0] = haul_cast(grid, dtype);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

#define GRID                                                                                                           \
    .operands = {{"theta", .layout = HAUL__ANY_STRIDES}}, .results = {{"grid"}}, .dtypes = HAUL__FLOATS,               \
    .attributes_size = HAUL__ATTRIBUTES(affine_grid_attributes), .compose = compose

HAUL__OPERATION(affine_grid) = {.name = "haul_affine_grid", GRID};
HAUL__OPERATION(affine_grid3d) = {.name = "haul_affine_grid3d", GRID};

haul_tensor *haul_affine_grid(haul_tensor *theta, int64_t rows, int64_t columns, bool align_corners)
{
    const affine_grid_attributes a = {.size = {1, rows, columns}, .align_corners = align_corners};
    return HAUL__APPLY(affine_grid, &a, theta);
}

haul_tensor *haul_affine_grid3d(haul_tensor *theta, int64_t layers, int64_t rows, int64_t columns, bool align_corners)
{
    const affine_grid_attributes a = {.size = {layers, rows, columns}, .align_corners = align_corners, .volume = true};
    return HAUL__APPLY(affine_grid3d, &a, theta);
}

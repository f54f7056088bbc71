/* haul_windows: the elements that a window along an axis shows at each of its places. */
#include "base/assert.h"
#include "engine/operation.h"

typedef struct windows_attributes {
    int     axis, reserved;
    int64_t size, step;
} windows_attributes;

/* The index of each element of each window: [windows, size]. */
static haul_tensor *elements_of(const windows_attributes *a, int64_t windows)
{
    haul_tensor *starts = haul_mul_scalar(haul_arange_i64(0, windows, 1), (double)a->step);
    return haul_add(haul_unsqueeze(starts, 1), haul_arange_i64(0, a->size, 1));
}

static haul_status windows(haul__call *c)
{
    windows_attributes *a = haul__attributes(c);
    haul_tensor        *x = c->operands[0];
    int                 axes[HAUL_MAX_DIMS] = {0};
    if (haul__call_proper_axis(c, 0, &a->axis))
        return haul_error_status();
    const int     ndim = x->shape.ndim;
    const int64_t length = x->shape.dims[a->axis];
    if (ndim == HAUL_MAX_DIMS)
        return haul__refuse_shape(c, 0, "one dimension fewer is expected: the result has one more");
    if (a->size < 1 || a->size > length || a->step < 1 || a->step > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, a->step < 1 ? "step" : "size",
                          "size is %lld and step is %lld, but axis %d of x has %lld elements; 1 to that many, and a "
                          "step from 1 to 2^31 - 1, are expected",
                          (long long)a->size, (long long)a->step, a->axis, (long long)length);
    const int64_t count = (length - a->size) / a->step + 1;
    HAUL__ASSERT(count > 0 && (count - 1) * a->step + a->size <= length);
    haul_shape shape = {.ndim = ndim + 1};
    if (haul_set_device(c->device)) /* until the call ends */
        return haul_error_status();
    haul_tensor *y = haul_index_select(x, a->axis, haul_reshape(elements_of(a, count), HAUL_SHAPE(-1)));
    HAUL__ASSERT(haul__failed(y) || y->shape.dims[a->axis] == count * a->size);
    for (int d = 0; d <= ndim; d++) {
        shape.dims[d] = d < a->axis        ? x->shape.dims[d]
                        : d == a->axis     ? count
                        : d == a->axis + 1 ? a->size
                                           : x->shape.dims[d - 1];
        axes[d] = d <= a->axis ? d : d == ndim ? a->axis + 1 : d + 1;
    }
    c->results[0] = haul_permute(haul_reshape(y, shape), axes, ndim + 1);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(windows) = {
    .name = "haul_windows",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(windows_attributes),
    .compose = windows,
};

haul_tensor *haul_windows(haul_tensor *x, int axis, int64_t size, int64_t step)
{
    return HAUL__APPLY(windows, (&(windows_attributes){.axis = axis, .size = size, .step = step}), x);
}

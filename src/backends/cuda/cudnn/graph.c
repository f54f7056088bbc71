/* A convolution as cuDNN's graph of operations.
 *
 * Everything in cuDNN is a descriptor: it is created, given attributes, finalized (which checks it), and used by
 * others. A descriptor keeps what it was given, so the parts are destroyed as soon as the whole is made. */
#include <string.h>

#include "backends/cuda/cudnn/cudnn.h"
#include "base/assert.h"
#include "core/tensor.h"

/* ---- descriptors ---- */

cudnnBackendDescriptor_t haul__cudnn_make(cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;
    return haul__cudnn.CreateDescriptor(type, &d) == CUDNN_STATUS_SUCCESS ? d : NULL;
}

bool haul__cudnn_set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     int64_t count, const void *values)
{
    return d && haul__cudnn.SetAttribute(d, name, type, count, values) == CUDNN_STATUS_SUCCESS;
}

bool haul__cudnn_set_descriptor(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                cudnnBackendDescriptor_t value)
{
    return value && haul__cudnn_set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

cudnnBackendDescriptor_t haul__cudnn_finish(cudnnBackendDescriptor_t d, bool good)
{
    if (d && good && haul__cudnn.Finalize(d) == CUDNN_STATUS_SUCCESS)
        return d;
    haul__cudnn_drop(d);
    return NULL;
}

void haul__cudnn_drop(cudnnBackendDescriptor_t d)
{
    if (d)
        haul__cudnn.DestroyDescriptor(d);
}

static bool set_int(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, int64_t value)
{
    return haul__cudnn_set(d, name, CUDNN_TYPE_INT64, 1, &value);
}

/* An enum of the library. */
static bool set_enum(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     int value)
{
    return haul__cudnn_set(d, name, type, 1, &value);
}

/* ---- dtypes ---- */

static bool stored_type(haul_dtype dtype, int *out)
{
    static const struct {
        haul_dtype dtype;
        int        type;
    } types[] = {{HAUL_F32, CUDNN_DATA_FLOAT},
                 {HAUL_F64, CUDNN_DATA_DOUBLE},
                 {HAUL_F16, CUDNN_DATA_HALF},
                 {HAUL_BF16, CUDNN_DATA_BFLOAT16}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == dtype) {
            *out = types[i].type;
            return true;
        }
    return false;
}

/* The type of sums, and of the values between fused operations. */
static int computed_type(const haul__cudnn_problem *p)
{
    return p->dtype == HAUL_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

/* ---- tensors ---- */

/* The numbers of tensors that are not in memory. */
enum { CONVOLVED = HAUL__CUDNN_BIAS + 1, BIASED };

/* [a, b, c, d] is NCHW, or [out, in, rows, columns] for a weight; the strides give its layout. `virtual`: between
 * operations. */
static cudnnBackendDescriptor_t tensor(const haul__cudnn_problem *p, int64_t number, const int64_t dims[4],
                                       bool is_virtual)
{
    cudnnBackendDescriptor_t d = haul__cudnn_make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t                  rows[4] = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
    int64_t                  last[4] = {dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]};
    int                      type = 0;
    bool                     good = stored_type((haul_dtype)p->dtype, &type);
    HAUL__ASSERT(HAUL__CUDNN_X <= number && number <= BIASED && is_virtual == (number > HAUL__CUDNN_BIAS));
    if (is_virtual)
        type = computed_type(p);
    good = good && set_enum(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type) &&
           haul__cudnn_set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims) &&
           haul__cudnn_set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, p->channels_last ? last : rows) &&
           set_int(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, number) &&
           set_int(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, HAUL__CUDNN_ALIGNMENT);
    if (is_virtual)
        good = good && haul__cudnn_set(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    return haul__cudnn_finish(d, good);
}

static cudnnBackendDescriptor_t x_tensor(const haul__cudnn_problem *p)
{
    return tensor(p, HAUL__CUDNN_X, (int64_t[]){p->n, p->c_in, p->h, p->w}, false);
}

static cudnnBackendDescriptor_t weight_tensor(const haul__cudnn_problem *p)
{
    return tensor(p, HAUL__CUDNN_WEIGHT, (int64_t[]){p->c_out, p->c_in / p->groups, p->kh, p->kw}, false);
}

static cudnnBackendDescriptor_t result_tensor(const haul__cudnn_problem *p, int64_t number)
{
    return tensor(p, number, (int64_t[]){p->n, p->c_out, p->out_h, p->out_w}, number > HAUL__CUDNN_BIAS);
}

/* ---- operations ---- */

/* cuDNN infers the groups from the channel counts of x and of the weight. */
static cudnnBackendDescriptor_t convolution(const haul__cudnn_problem *p)
{
    cudnnBackendDescriptor_t d = haul__cudnn_make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    return haul__cudnn_finish(
        d, set_enum(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, computed_type(p)) &&
               set_enum(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION) &&
               set_int(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2) &&
               haul__cudnn_set(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, p->stride) &&
               haul__cudnn_set(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, p->padding) &&
               haul__cudnn_set(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, p->padding) &&
               haul__cudnn_set(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, p->dilation));
}

/* The names of one pass's operation. */
typedef struct pass_names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t  alpha, beta, convolution, x, weight, y;
} pass_names;

static const pass_names passes[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
};

/* Scale factors are floats, except for doubles. */
static bool set_factor(cudnnBackendDescriptor_t d, const haul__cudnn_problem *p, cudnnBackendAttributeName_t name,
                       double value)
{
    float single = (float)value;
    return p->dtype == HAUL_F64 ? haul__cudnn_set(d, name, CUDNN_TYPE_DOUBLE, 1, &value)
                                : haul__cudnn_set(d, name, CUDNN_TYPE_FLOAT, 1, &single);
}

static cudnnBackendDescriptor_t convolve(const haul__cudnn_problem *p, cudnnBackendDescriptor_t y)
{
    HAUL__ASSERT(0 <= p->pass && p->pass < (int64_t)(sizeof passes / sizeof *passes));
    const pass_names        *names = &passes[p->pass];
    cudnnBackendDescriptor_t d = haul__cudnn_make(names->type), how = convolution(p);
    cudnnBackendDescriptor_t x = x_tensor(p), weight = weight_tensor(p);
    d = haul__cudnn_finish(
        d, set_factor(d, p, names->alpha, 1) && set_factor(d, p, names->beta, 0) &&
               haul__cudnn_set_descriptor(d, names->convolution, how) && haul__cudnn_set_descriptor(d, names->x, x) &&
               haul__cudnn_set_descriptor(d, names->weight, weight) && haul__cudnn_set_descriptor(d, names->y, y));
    haul__cudnn_drop(how);
    haul__cudnn_drop(x);
    haul__cudnn_drop(weight);
    return d;
}

/* to = from + other, or relu(from) if there is no other. The relu of NaN is NaN, as everywhere in Haul. */
static cudnnBackendDescriptor_t pointwise(const haul__cudnn_problem *p, int mode, cudnnBackendDescriptor_t from,
                                          cudnnBackendDescriptor_t other, cudnnBackendDescriptor_t to)
{
    cudnnBackendDescriptor_t how = haul__cudnn_make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnnBackendDescriptor_t d = haul__cudnn_make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    bool                     good = true;
    HAUL__ASSERT((mode == CUDNN_POINTWISE_RELU_FWD) == !other);
    if (mode == CUDNN_POINTWISE_RELU_FWD)
        good = set_enum(how, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, CUDNN_PROPAGATE_NAN);
    how = haul__cudnn_finish(how,
                             good && set_enum(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode) &&
                                 set_enum(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, computed_type(p)));
    d = haul__cudnn_finish(d,
                           haul__cudnn_set_descriptor(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how) &&
                               haul__cudnn_set_descriptor(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from) &&
                               (!other || haul__cudnn_set_descriptor(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, other)) &&
                               haul__cudnn_set_descriptor(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to));
    haul__cudnn_drop(how);
    return d;
}

/* ---- graphs ---- */

static cudnnBackendDescriptor_t graph_of(const haul__cudnn_target *target, const cudnnBackendDescriptor_t *operations,
                                         int count)
{
    cudnnBackendDescriptor_t d = haul__cudnn_make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    bool                     good = true;
    HAUL__ASSERT(0 < count && count <= 3);
    for (int i = 0; i < count; i++)
        good = good && operations[i];
    good = good && haul__cudnn_set(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, operations);
    if (target->handle)
        good = good && haul__cudnn_set(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle);
    return haul__cudnn_finish(d, good);
}

cudnnBackendDescriptor_t haul__cudnn_graph(const haul__cudnn_target *target, const haul__cudnn_problem *p)
{
    cudnnBackendDescriptor_t convolved = NULL, biased = NULL, bias = NULL, d;
    cudnnBackendDescriptor_t y = result_tensor(p, HAUL__CUDNN_Y), from, to, operations[3] = {NULL};
    int                      count = 0;
    HAUL__ASSERT(p->pass == HAUL__CONV2D_FORWARD || (!p->bias && !p->relu));
    if (p->bias || p->relu)
        convolved = result_tensor(p, CONVOLVED);
    if (p->bias && p->relu)
        biased = result_tensor(p, BIASED);
    if (p->bias)
        bias = tensor(p, HAUL__CUDNN_BIAS, (int64_t[]){1, p->c_out, 1, 1}, false);
    from = p->bias || p->relu ? convolved : y;
    operations[count++] = convolve(p, from);
    if (p->bias) {
        to = p->relu ? biased : y;
        operations[count++] = bias ? pointwise(p, CUDNN_POINTWISE_ADD, from, bias, to) : NULL;
        from = to;
    }
    if (p->relu)
        operations[count++] = pointwise(p, CUDNN_POINTWISE_RELU_FWD, from, NULL, y);
    HAUL__ASSERT(count == 1 + (p->bias != 0) + (p->relu != 0));
    d = graph_of(target, operations, count);
    for (int i = 0; i < count; i++)
        haul__cudnn_drop(operations[i]);
    haul__cudnn_drop(y);
    haul__cudnn_drop(convolved);
    haul__cudnn_drop(biased);
    haul__cudnn_drop(bias);
    return d;
}

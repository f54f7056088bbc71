/* The stand-in for cuDNN: convolutions and their gradients, with bias and relu, by the definition. */
#include "cudnn.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "number.h"

static atomic_long runs[ENGINES];

long standin_engine_runs(int engine)
{
    return engine >= 0 && engine < ENGINES ? atomic_load(&runs[engine]) : -1;
}

void standin_reset_runs(void)
{
    for (int i = 0; i < ENGINES; i++)
        atomic_store(&runs[i], 0);
}

size_t dnn_size(int type)
{
    switch (type) {
    case CUDNN_DATA_FLOAT: return 4;
    case CUDNN_DATA_DOUBLE: return 8;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16: return 2;
    default: return 0;
    }
}

/* --- graphs ------------------------------------------------------------------------------------------------------- */

bool dnn_read_tensor(const dnn_descriptor *d, dnn_tensor *out)
{
    const dnn_attribute *is_virtual = dnn_find(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL);

    if (!d || d->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR || !d->finalized)
        return false;
    *out = (dnn_tensor){.number = dnn_int(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0),
                        .alignment = dnn_int(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0),
                        .type = dnn_enum(d, CUDNN_ATTR_TENSOR_DATA_TYPE),
                        .is_virtual = is_virtual && *(const bool *)is_virtual->values};
    for (int i = 0; i < 4; i++) {
        out->dims[i] = dnn_int(d, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
        out->strides[i] = dnn_int(d, CUDNN_ATTR_TENSOR_STRIDES, i);
    }
    return true;
}

static bool take_convolution(const dnn_descriptor *d, dnn_job *out)
{
    static const struct {
        int type, how, x, weight, y;
    } passes[] = {
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
    };
    const dnn_descriptor *how;

    for (out->pass = 0; out->pass < 3 && passes[out->pass].type != d->type;)
        out->pass++;
    if (out->pass == 3)
        return false;
    how = dnn_child(d, passes[out->pass].how, 0);
    for (int i = 0; i < 2; i++) {
        out->stride[i] = dnn_int(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i);
        out->padding[i] = dnn_int(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i);
        out->dilation[i] = dnn_int(how, CUDNN_ATTR_CONVOLUTION_DILATIONS, i);
    }
    out->doubles = dnn_enum(how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_DOUBLE;
    return dnn_read_tensor(dnn_child(d, passes[out->pass].x, 0), &out->x) &&
           dnn_read_tensor(dnn_child(d, passes[out->pass].weight, 0), &out->weight) &&
           dnn_read_tensor(dnn_child(d, passes[out->pass].y, 0), &out->y);
}

/* One pointwise operation on what came before, which becomes the result. */
static bool take_pointwise(const dnn_descriptor *d, dnn_job *out)
{
    const dnn_descriptor *how = dnn_child(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    int                   mode = dnn_enum(how, CUDNN_ATTR_POINTWISE_MODE);
    dnn_tensor            from;

    if (d->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR || out->pass != 0 || out->has_relu ||
        !dnn_read_tensor(dnn_child(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 0), &from) ||
        from.number != out->y.number || !from.is_virtual ||
        !dnn_read_tensor(dnn_child(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 0), &out->y))
        return false;
    if (mode == CUDNN_POINTWISE_RELU_FWD) {
        out->has_relu = true;
        out->nan_stays = dnn_enum(how, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION) == CUDNN_PROPAGATE_NAN;
        return true;
    }
    if (mode != CUDNN_POINTWISE_ADD || out->has_bias)
        return false;
    out->has_bias = true;
    return dnn_read_tensor(dnn_child(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 0), &out->bias);
}

bool dnn_take_apart(const dnn_descriptor *graph, dnn_job *out)
{
    const dnn_attribute *operations = dnn_find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);

    memset(out, 0, sizeof *out);
    if (!operations || !take_convolution(dnn_child(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, 0), out))
        return false;
    for (int64_t i = 1; i < operations->count; i++)
        if (!take_pointwise(dnn_child(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i), out))
            return false;
    return !out->x.is_virtual && !out->weight.is_virtual && !out->y.is_virtual;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static char *element(const dnn_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    int64_t at = a * t->strides[0] + b * t->strides[1] + c * t->strides[2] + d * t->strides[3];

    return t->at + at * (int64_t)dnn_size(t->type);
}

static double load(const dnn_tensor *t, const char *at)
{
    float    f;
    double   d;
    uint16_t h;

    if (t->type == CUDNN_DATA_DOUBLE) {
        memcpy(&d, at, sizeof d);
        return d;
    }
    if (t->type == CUDNN_DATA_FLOAT) {
        memcpy(&f, at, sizeof f);
        return (double)f;
    }
    memcpy(&h, at, sizeof h);
    return (double)(t->type == CUDNN_DATA_HALF ? half_to_float(h) : bfloat_to_float(h));
}

static void store(const dnn_tensor *t, char *at, double value)
{
    float    f = (float)value;
    uint16_t h;

    if (t->type == CUDNN_DATA_DOUBLE) {
        memcpy(at, &value, sizeof value);
    } else if (t->type == CUDNN_DATA_FLOAT) {
        memcpy(at, &f, sizeof f);
    } else {
        h = t->type == CUDNN_DATA_HALF ? float_to_half(f) : float_to_bfloat(f);
        memcpy(at, &h, sizeof h);
    }
}

/* A factor, as the engine sees it. */
static double factor(const dnn_job *job, const dnn_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    double value = load(t, element(t, a, b, c, d));

    return job->engine == ENGINE_TENSOR_CORE && t->type == CUDNN_DATA_FLOAT
               ? (double)float_of(round_bits(bits_of((float)value), 13))
               : value;
}

static double add(const dnn_job *job, double sum, double product)
{
    return job->doubles ? sum + product : (double)((float)sum + (float)product);
}

/* --- convolutions ------------------------------------------------------------------------------------------------- */

/* Row or column of x that a tap at output `o` reads; false for one of the padding. */
static bool reads(const dnn_job *job, int i, int64_t o, int64_t tap, int64_t *at)
{
    *at = o * job->stride[i] - job->padding[i] + tap * job->dilation[i];
    return *at >= 0 && *at < job->x.dims[2 + i];
}

static double forward_element(const dnn_job *job, int64_t n, int64_t k, int64_t p, int64_t q)
{
    const dnn_tensor *w = &job->weight;
    int64_t           groups = job->x.dims[1] / w->dims[1], first = k / (w->dims[0] / groups) * w->dims[1], y, x;
    double            sum = 0;

    for (int64_t c = 0; c < w->dims[1]; c++)
        for (int64_t r = 0; r < w->dims[2]; r++)
            for (int64_t s = 0; s < w->dims[3]; s++)
                if (reads(job, 0, p, r, &y) && reads(job, 1, q, s, &x))
                    sum = add(job, sum, factor(job, &job->x, n, first + c, y, x) * factor(job, w, k, c, r, s));
    if (job->has_bias)
        sum = add(job, sum, load(&job->bias, element(&job->bias, 0, k, 0, 0)));
    if (job->has_relu && !(sum > 0) && (sum == sum || !job->nan_stays))
        sum = 0;
    return sum;
}

static double data_element(const dnn_job *job, int64_t n, int64_t c, int64_t h, int64_t v)
{
    const dnn_tensor *w = &job->weight;
    int64_t           groups = job->x.dims[1] / w->dims[1], size = w->dims[0] / groups, first = c / w->dims[1] * size;
    double            sum = 0;

    for (int64_t k = first; k < first + size; k++)
        for (int64_t r = 0; r < w->dims[2]; r++)
            for (int64_t s = 0; s < w->dims[3]; s++) {
                int64_t p = h + job->padding[0] - r * job->dilation[0], q = v + job->padding[1] - s * job->dilation[1];
                if (p < 0 || q < 0 || p % job->stride[0] || q % job->stride[1])
                    continue;
                p /= job->stride[0];
                q /= job->stride[1];
                if (p < job->y.dims[2] && q < job->y.dims[3])
                    sum = add(job, sum, factor(job, &job->y, n, k, p, q) * factor(job, w, k, c % w->dims[1], r, s));
            }
    return sum;
}

static double weight_element(const dnn_job *job, int64_t k, int64_t c, int64_t r, int64_t s)
{
    const dnn_tensor *w = &job->weight;
    int64_t           groups = job->x.dims[1] / w->dims[1], first = k / (w->dims[0] / groups) * w->dims[1], y, x;
    double            sum = 0;

    for (int64_t n = 0; n < job->x.dims[0]; n++)
        for (int64_t p = 0; p < job->y.dims[2]; p++)
            for (int64_t q = 0; q < job->y.dims[3]; q++)
                if (reads(job, 0, p, r, &y) && reads(job, 1, q, s, &x))
                    sum = add(job, sum, factor(job, &job->x, n, first + c, y, x) * factor(job, &job->y, n, k, p, q));
    return sum;
}

static void dawdle(int engine)
{
    const char *words = getenv("STANDIN_CUDNN");

    if (engine == ENGINE_TILED && words && strstr(words, "slow"))
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
}

static int run(void *data)
{
    static double (*const elements[])(const dnn_job *, int64_t, int64_t, int64_t,
                                      int64_t) = {forward_element, data_element, weight_element};
    const dnn_job    *job = data;
    const dnn_tensor *out = job->pass == 0 ? &job->y : job->pass == 1 ? &job->x : &job->weight;

    dawdle(job->engine);
    if (job->workspace)
        memset(job->workspace, 0xA5, job->workspace_bytes);
    for (int64_t a = 0; a < out->dims[0]; a++)
        for (int64_t b = 0; b < out->dims[1]; b++)
            for (int64_t c = 0; c < out->dims[2]; c++)
                for (int64_t d = 0; d < out->dims[3]; d++)
                    store(out, element(out, a, b, c, d), elements[job->pass](job, a, b, c, d));
    return CUDA_SUCCESS;
}

/* --- submitting --------------------------------------------------------------------------------------------------- */

static cudnnStatus_t place(CUstream stream, const dnn_descriptor *pack, dnn_tensor *t)
{
    const dnn_attribute *numbers = dnn_find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    int64_t              extent = 1;

    for (int i = 0; i < 4; i++)
        extent += (t->dims[i] - 1) * t->strides[i];
    for (int64_t i = 0; i < numbers->count; i++) {
        int64_t at = dnn_int(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
        if (((const int64_t *)numbers->values)[i] != t->number)
            continue;
        if (at % t->alignment != 0)
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a pointer is less aligned than was promised");
        t->at = standin_place(stream, (unsigned long long)at, (size_t)extent * dnn_size(t->type));
        return t->at ? CUDNN_STATUS_SUCCESS
                     : dnn_refuse(CUDNN_STATUS_EXECUTION_FAILED, "a buffer is not the GPU's memory, or not all of it");
    }
    return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "the variant pack lacks a tensor");
}

cudnnStatus_t dnn_submit(CUstream stream, const dnn_descriptor *plan, const dnn_descriptor *pack)
{
    const dnn_descriptor *engine =
        dnn_child(dnn_child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0), CUDNN_ATTR_ENGINECFG_ENGINE, 0);
    dnn_job       job;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;

    if (!dnn_take_apart(dnn_child(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 0), &job))
        return dnn_refuse(CUDNN_STATUS_INTERNAL_ERROR, "the plan has no graph");
    job.engine = (int)dnn_int(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
    dnn_tensor *tensors[] = {&job.x, &job.weight, &job.y, job.has_bias ? &job.bias : NULL};
    void       *places[5] = {NULL};
    for (int i = 0; i < 4 && status == CUDNN_STATUS_SUCCESS; i++)
        if (tensors[i]) {
            status = place(stream, pack, tensors[i]);
            places[i] = tensors[i]->at;
        }
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if (plan->workspace > 0) {
        job.workspace_bytes = (size_t)plan->workspace;
        places[4] = job.workspace = standin_place(
            stream, (unsigned long long)dnn_int(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 0), job.workspace_bytes);
        if (!job.workspace)
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "the workspace is missing or too small");
    }
    atomic_fetch_add(&runs[job.engine], 1);
    return standin_submit(stream, run, &job, sizeof job, places, 5) == CUDA_SUCCESS
               ? CUDNN_STATUS_SUCCESS
               : dnn_refuse(CUDNN_STATUS_EXECUTION_FAILED, "the driver refused the work");
}

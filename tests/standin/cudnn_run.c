/* The stand-in for cuDNN: convolutions and their gradients, with bias and relu, by the definition. */
#include "cudnn.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- graphs ---- */

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

/* ---- numbers ---- */

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

/* A tensor's elements in the order of its dimensions, as the engine sees them; to free. */
static double *unpack(const dnn_job *job, const dnn_tensor *t)
{
    bool    rounds = job->engine == ENGINE_TENSOR_CORE && t->type == CUDNN_DATA_FLOAT;
    double *values = malloc(sizeof *values * (size_t)(t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3])), *at = values;
    for (int64_t a = 0; values && a < t->dims[0]; a++)
        for (int64_t b = 0; b < t->dims[1]; b++)
            for (int64_t c = 0; c < t->dims[2]; c++)
                for (int64_t d = 0; d < t->dims[3]; d++) {
                    double value = load(t, element(t, a, b, c, d));
                    *at++ = rounds ? (double)float_of(round_bits(bits_of((float)value), 13)) : value;
                }
    return values;
}

/* ---- convolutions: a row of the result at a time, summed in f64 ---- */

/* A job with its operands unpacked; the one that is the result is not among them. */
typedef struct dnn_work {
    const dnn_job *job;
    double        *x, *weight, *y;
} dnn_work;

/* Where row (a, b, c) of unpacked values begins. */
static const double *row_of(const double *values, const dnn_tensor *t, int64_t a, int64_t b, int64_t c)
{
    return values + ((a * t->dims[1] + b) * t->dims[2] + c) * t->dims[3];
}

/* A row of y reads a row of x by a tap of the weight's: columns first <= q < end of y, q * stride + shift of x. */
typedef struct span {
    int64_t first, end, stride, shift;
} span;

static span span_of(const dnn_job *job, int64_t tap)
{
    span    s = {.end = job->y.dims[3], .stride = job->stride[1], .shift = tap * job->dilation[1] - job->padding[1]};
    int64_t width = job->x.dims[3];
    while (s.first < s.end && s.first * s.stride + s.shift < 0)
        s.first++;
    while (s.end > s.first && (s.end - 1) * s.stride + s.shift >= width)
        s.end--;
    return s;
}

/* Row of x that a tap at row `o` of y reads; false for one of the padding. */
static bool reads(const dnn_job *job, int64_t o, int64_t tap, int64_t *at)
{
    *at = o * job->stride[0] - job->padding[0] + tap * job->dilation[0];
    return *at >= 0 && *at < job->x.dims[2];
}

/* Row of y whose tap reads row `at` of x; false if there is none. */
static bool is_read_by(const dnn_job *job, int64_t at, int64_t tap, int64_t *o)
{
    *o = at + job->padding[0] - tap * job->dilation[0];
    if (*o < 0 || *o % job->stride[0] != 0)
        return false;
    *o /= job->stride[0];
    return *o < job->y.dims[2];
}

/* The first channel of x that channel `k` of y reads. */
static int64_t group_of(const dnn_job *job, int64_t k)
{
    const dnn_tensor *w = &job->weight;
    int64_t           groups = job->x.dims[1] / w->dims[1];
    return k / (w->dims[0] / groups) * w->dims[1];
}

static void forward_row(const dnn_work *work, int64_t n, int64_t k, int64_t p, double *sums)
{
    const dnn_job    *job = work->job;
    const dnn_tensor *w = &job->weight;
    int64_t           y;
    for (int64_t c = 0; c < w->dims[1]; c++)
        for (int64_t r = 0; r < w->dims[2]; r++) {
            if (!reads(job, p, r, &y))
                continue;
            const double *from = row_of(work->x, &job->x, n, group_of(job, k) + c, y);
            const double *by = row_of(work->weight, w, k, c, r);
            for (int64_t s = 0; s < w->dims[3]; s++) {
                span at = span_of(job, s);
                for (int64_t q = at.first; q < at.end; q++)
                    sums[q] += from[q * at.stride + at.shift] * by[s];
            }
        }
    for (int64_t q = 0; q < job->y.dims[3]; q++) {
        if (job->has_bias)
            sums[q] += load(&job->bias, element(&job->bias, 0, k, 0, 0));
        if (job->has_relu && !(sums[q] > 0) && (sums[q] == sums[q] || !job->nan_stays))
            sums[q] = 0;
    }
}

static void data_row(const dnn_work *work, int64_t n, int64_t c, int64_t h, double *sums)
{
    const dnn_job    *job = work->job;
    const dnn_tensor *w = &job->weight;
    int64_t           size = w->dims[0] / (job->x.dims[1] / w->dims[1]), first = c / w->dims[1] * size, p;
    for (int64_t k = first; k < first + size; k++)
        for (int64_t r = 0; r < w->dims[2]; r++) {
            if (!is_read_by(job, h, r, &p))
                continue;
            const double *from = row_of(work->y, &job->y, n, k, p);
            const double *by = row_of(work->weight, w, k, c % w->dims[1], r);
            for (int64_t s = 0; s < w->dims[3]; s++) {
                span at = span_of(job, s);
                for (int64_t q = at.first; q < at.end; q++)
                    sums[q * at.stride + at.shift] += from[q] * by[s];
            }
        }
}

static void weight_row(const dnn_work *work, int64_t k, int64_t c, int64_t r, double *sums)
{
    const dnn_job *job = work->job;
    int64_t        y;
    for (int64_t s = 0; s < job->weight.dims[3]; s++) {
        span   at = span_of(job, s);
        double sum[4] = {0}; /* processors add several at a time */
        for (int64_t n = 0; n < job->x.dims[0]; n++)
            for (int64_t p = 0; p < job->y.dims[2]; p++) {
                if (!reads(job, p, r, &y))
                    continue;
                const double *from = row_of(work->x, &job->x, n, group_of(job, k) + c, y);
                const double *by = row_of(work->y, &job->y, n, k, p);
                for (int64_t q = at.first; q < at.end; q++)
                    sum[q & 3] += from[q * at.stride + at.shift] * by[q];
            }
        sums[s] = sum[0] + sum[1] + sum[2] + sum[3];
    }
}

static const dnn_tensor *result_of(const dnn_job *job)
{
    return job->pass == 0 ? &job->y : job->pass == 1 ? &job->x : &job->weight;
}

/* `sums` has room for a row of the result. */
static void compute(const dnn_work *work, double *sums)
{
    static void (*const rows[])(const dnn_work *, int64_t, int64_t, int64_t, double *) = {forward_row, data_row,
                                                                                          weight_row};
    const dnn_job    *job = work->job;
    const dnn_tensor *out = result_of(job);
    for (int64_t a = 0; a < out->dims[0]; a++)
        for (int64_t b = 0; b < out->dims[1]; b++)
            for (int64_t c = 0; c < out->dims[2]; c++) {
                memset(sums, 0, sizeof *sums * (size_t)out->dims[3]);
                rows[job->pass](work, a, b, c, sums);
                for (int64_t d = 0; d < out->dims[3]; d++)
                    store(out, element(out, a, b, c, d), sums[d]);
            }
}

static int run(void *data)
{
    const dnn_job *job = data;
    dnn_work       work = {.job = job};
    double        *sums = malloc(sizeof *sums * (size_t)result_of(job)->dims[3]);
    bool           good;
    if (job->workspace)
        memset(job->workspace, 0xA5, job->workspace_bytes);
    work.x = job->pass == 1 ? NULL : unpack(job, &job->x);
    work.weight = job->pass == 2 ? NULL : unpack(job, &job->weight);
    work.y = job->pass == 0 ? NULL : unpack(job, &job->y);
    good = sums && (work.x || job->pass == 1) && (work.weight || job->pass == 2) && (work.y || job->pass == 0);
    if (good)
        compute(&work, sums);
    free(sums);
    free(work.x);
    free(work.weight);
    free(work.y);
    return good ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- submitting ---- */

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
        if (at % t->alignment != 0 || at % 16 != 0)
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

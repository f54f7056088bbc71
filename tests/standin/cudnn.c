/* A stand-in for cuDNN's graph interface, as far as the backend uses it: descriptors with attributes of given types,
 * checked when they are finalized; engines with notes and workspaces, proposed in an order; convolutions as work on the
 * driver's streams. It is strict where the real one may be lucky: buffers are inside allocations and as aligned as was
 * promised, a workspace's contents are lost, a handle is used by one thread at a time. Its errors are of the real one's
 * categories (tests/backends/cuda_declarations_cudnn.sh compares them).
 *
 * STANDIN_CUDNN, a list: "none": no engine; "unfused": engines do one operation only; "old": version 8. */
#include "cudnn.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DESCRIPTOR = 0x644E4E31, HANDLE = 0x644E4E32, GONE = 0x474F4E45 };

struct cudnnContext {
    unsigned    magic;
    CUcontext   context;
    CUstream    stream;
    atomic_flag busy;
};

static _Thread_local char last_error[256];

cudnnStatus_t dnn_refuse(cudnnStatus_t status, const char *why)
{
    snprintf(last_error, sizeof last_error, "%s", why);
    return status;
}

void cudnnGetLastErrorString(char *out, size_t size)
{
    if (size > 0)
        snprintf(out, size, "%s", last_error);
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
#define NAME(value)                                                                                                    \
    if (status == (value))                                                                                             \
        return #value;
    NAME(CUDNN_STATUS_SUCCESS)
    NAME(CUDNN_STATUS_NOT_INITIALIZED)
    NAME(CUDNN_STATUS_BAD_PARAM)
    NAME(CUDNN_STATUS_NOT_SUPPORTED)
    NAME(CUDNN_STATUS_INTERNAL_ERROR)
    NAME(CUDNN_STATUS_EXECUTION_FAILED)
#undef NAME
    return "CUDNN_STATUS of another kind";
}

size_t cudnnGetVersion(void)
{
    const char *words = getenv("STANDIN_CUDNN");
    return words && strstr(words, "old") ? 8907 : 91900;
}

/* ---- descriptors ---- */

static size_t type_size(int type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4;
    }
}

dnn_descriptor *dnn_new(int type)
{
    dnn_descriptor *d = calloc(1, sizeof *d);
    if (d)
        *d = (dnn_descriptor){.magic = DESCRIPTOR, .type = type, .refs = 1};
    return d;
}

static void clear(dnn_descriptor *d)
{
    for (int i = 0; i < d->count; i++) {
        dnn_attribute *a = &d->attributes[i];
        for (int64_t k = 0; a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR && k < a->count; k++)
            dnn_free(((dnn_descriptor **)a->values)[k]);
        free(a->values);
    }
    d->count = 0;
}

void dnn_free(dnn_descriptor *d)
{
    if (!d || --d->refs > 0)
        return;
    clear(d);
    d->magic = GONE;
    free(d);
}

const dnn_attribute *dnn_find(const dnn_descriptor *d, int name)
{
    for (int i = 0; d && i < d->count; i++)
        if (d->attributes[i].name == name)
            return &d->attributes[i];
    return NULL;
}

int64_t dnn_int(const dnn_descriptor *d, int name, int64_t i)
{
    const dnn_attribute *a = dnn_find(d, name);
    return a && i < a->count ? ((const int64_t *)a->values)[i] : 0;
}

int dnn_enum(const dnn_descriptor *d, int name)
{
    const dnn_attribute *a = dnn_find(d, name);
    return a ? *(const int *)a->values : -1;
}

dnn_descriptor *dnn_child(const dnn_descriptor *d, int name, int64_t i)
{
    const dnn_attribute *a = dnn_find(d, name);
    return a && i < a->count ? ((dnn_descriptor **)a->values)[i] : NULL;
}

/* Replaces what there is of that name. */
cudnnStatus_t dnn_put(dnn_descriptor *d, int name, int type, int64_t count, const void *values)
{
    dnn_attribute *a = (dnn_attribute *)dnn_find(d, name);
    size_t         bytes = (size_t)count * type_size(type);
    void          *copy = malloc(bytes ? bytes : 1);
    if (!copy || (!a && d->count == DNN_MAX_ATTRIBUTES)) {
        free(copy);
        return dnn_refuse(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "host memory");
    }
    memcpy(copy, values, bytes);
    for (int64_t k = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && k < count; k++)
        ((dnn_descriptor **)copy)[k]->refs++;
    if (a) {
        for (int64_t k = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && k < a->count; k++)
            dnn_free(((dnn_descriptor **)a->values)[k]);
        free(a->values);
    } else {
        a = &d->attributes[d->count++];
    }
    *a = (dnn_attribute){name, type, count, copy};
    return CUDNN_STATUS_SUCCESS;
}

/* What each attribute is: of which descriptor, of which type, with how many values at least and at most. */
typedef struct rule {
    int     descriptor, name, type;
    int64_t least, most;
} rule;

#define ONE(descriptor, name, type)                                                                                    \
    {                                                                                                                  \
        CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, 1, 1                            \
    }
#define MANY(descriptor, name, type, most)                                                                             \
    {                                                                                                                  \
        CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, 1, most                         \
    }
#define CONVOLUTION(descriptor, name, x, w, y)                                                                         \
    ONE(descriptor, name##_ALPHA, FLOAT), ONE(descriptor, name##_ALPHA, DOUBLE), ONE(descriptor, name##_BETA, FLOAT),  \
        ONE(descriptor, name##_BETA, DOUBLE), ONE(descriptor, name##_CONV_DESC, BACKEND_DESCRIPTOR),                   \
        ONE(descriptor, name##_##x, BACKEND_DESCRIPTOR), ONE(descriptor, name##_##w, BACKEND_DESCRIPTOR),              \
        ONE(descriptor, name##_##y, BACKEND_DESCRIPTOR)

static const rule rules[] = {
    ONE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE),
    MANY(TENSOR, TENSOR_DIMENSIONS, INT64, 8),
    MANY(TENSOR, TENSOR_STRIDES, INT64, 8),
    ONE(TENSOR, TENSOR_UNIQUE_ID, INT64),
    ONE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64),
    ONE(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN),
    ONE(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE),
    ONE(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE),
    ONE(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64),
    MANY(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, 8),
    MANY(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, 8),
    MANY(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, 8),
    MANY(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, 8),
    ONE(POINTWISE, POINTWISE_MODE, POINTWISE_MODE),
    ONE(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE),
    ONE(POINTWISE, POINTWISE_NAN_PROPAGATION, NAN_PROPOGATION),
    CONVOLUTION(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD, X, W, Y),
    CONVOLUTION(OPERATION_CONVOLUTION_BACKWARD_DATA, OPERATION_CONVOLUTION_BWD_DATA, DX, W, DY),
    CONVOLUTION(OPERATION_CONVOLUTION_BACKWARD_FILTER, OPERATION_CONVOLUTION_BWD_FILTER, X, DW, DY),
    ONE(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR),
    ONE(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR),
    ONE(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR),
    ONE(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR),
    ONE(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE),
    MANY(OPERATIONGRAPH, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 50),
    ONE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE),
    ONE(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR),
    ONE(ENGINE, ENGINE_OPERATION_GRAPH, BACKEND_DESCRIPTOR),
    ONE(ENGINE, ENGINE_GLOBAL_INDEX, INT64),
    ONE(KNOB_CHOICE, KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE),
    ONE(KNOB_CHOICE, KNOB_CHOICE_KNOB_VALUE, INT64),
    ONE(ENGINECFG, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR),
    MANY(ENGINECFG, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR, 64),
    ONE(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE),
    ONE(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR),
    MANY(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, 64),
    MANY(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 64),
    ONE(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR),
};

static bool is_known(int type)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].descriptor == type)
            return true;
    return false;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
    cudnnStatus_t status = (cudnnStatus_t)standin_call(CALL_cudnnBackendCreateDescriptor);
    if (status != CUDNN_STATUS_SUCCESS)
        return dnn_refuse(status, "asked to fail");
    *out = is_known((int)type) ? dnn_new((int)type) : NULL;
    return *out ? CUDNN_STATUS_SUCCESS : dnn_refuse(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no such type");
}

static dnn_descriptor *as(cudnnBackendDescriptor_t d)
{
    dnn_descriptor *known = d;
    if (known && known->magic != DESCRIPTOR) {
        fprintf(stderr, "standin: a descriptor is used that was destroyed or never was one\n");
        known = NULL;
    }
    return known;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    cudnnStatus_t status = (cudnnStatus_t)standin_call(CALL_cudnnBackendDestroyDescriptor);
    if (status == CUDNN_STATUS_SUCCESS && !as(d))
        status = CUDNN_STATUS_BAD_PARAM;
    if (status != CUDNN_STATUS_SUCCESS)
        return dnn_refuse(status, "destroying a descriptor");
    dnn_free(d);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_attribute(const dnn_descriptor *d, int name, int type, int64_t count, const void *values)
{
    bool named = false;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const rule *r = &rules[i];
        if (r->descriptor != d->type || r->name != name)
            continue;
        named = true;
        if (r->type != type)
            continue;
        if (!values || count < r->least || count > r->most)
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "the attribute has another number of values");
        for (int64_t k = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && k < count; k++)
            if (!as(((const cudnnBackendDescriptor_t *)values)[k]))
                return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "no descriptor");
        return CUDNN_STATUS_SUCCESS;
    }
    return named ? dnn_refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "the attribute has another type")
                 : dnn_refuse(CUDNN_STATUS_BAD_PARAM, "the descriptor has no such attribute");
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    dnn_descriptor *d = as(descriptor);
    cudnnStatus_t   status = (cudnnStatus_t)standin_call(CALL_cudnnBackendSetAttribute);
    if (status != CUDNN_STATUS_SUCCESS)
        return dnn_refuse(status, "asked to fail");
    if (!d || d->finalized)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized");
    status = check_attribute(d, (int)name, (int)type, count, values);
    return status == CUDNN_STATUS_SUCCESS ? dnn_put(d, (int)name, (int)type, count, values) : status;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    dnn_descriptor *d = as(descriptor);
    cudnnStatus_t   status = (cudnnStatus_t)standin_call(CALL_cudnnBackendFinalize);
    if (status != CUDNN_STATUS_SUCCESS)
        return dnn_refuse(status, "asked to fail");
    if (!d || d->finalized)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized already");
    status = dnn_check(d);
    d->finalized = status == CUDNN_STATUS_SUCCESS;
    return status;
}

/* ---- asking ---- */

/* `to`, which the caller made, becomes what `from` is. */
static cudnnStatus_t assign(cudnnBackendDescriptor_t to, const dnn_descriptor *from)
{
    dnn_descriptor *d = as(to);
    cudnnStatus_t   status = CUDNN_STATUS_SUCCESS;
    if (!d || d->type != from->type || d->finalized)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a fresh descriptor of the type that is asked for is needed");
    clear(d);
    for (int i = 0; i < from->count && status == CUDNN_STATUS_SUCCESS; i++) {
        const dnn_attribute *a = &from->attributes[i];
        status = dnn_put(d, a->name, a->type, a->count, a->values);
    }
    d->finalized = true;
    return status;
}

/* A configuration for each engine that is proposed; one more is announced than is given, as the real one may do. */
static cudnnStatus_t get_results(const dnn_descriptor *d, int64_t room, int64_t *count, cudnnBackendDescriptor_t *out)
{
    dnn_descriptor *graph = dnn_child(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
    int             found[ENGINES], n = dnn_propose(graph, dnn_enum(d, CUDNN_ATTR_ENGINEHEUR_MODE), found);
    cudnnStatus_t   status = CUDNN_STATUS_SUCCESS;
    *count = n + (n > 0);
    if (room == 0)
        return CUDNN_STATUS_SUCCESS;
    *count = n < room ? n : room;
    for (int i = 0; i < *count && status == CUDNN_STATUS_SUCCESS; i++) {
        dnn_descriptor *config = dnn_new(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        dnn_descriptor *engine = dnn_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
        dnn_descriptor *knob = dnn_new(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        int64_t         number = found[i], value = 2;
        engine->finalized = knob->finalized = config->finalized = true;
        dnn_put(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
        dnn_put(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &number);
        dnn_put(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
        if (dnn_engines[number].knob >= 0) {
            dnn_put(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &dnn_engines[number].knob);
            dnn_put(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
            dnn_put(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &knob);
        }
        status = assign(out[i], config);
        dnn_free(knob);
        dnn_free(engine);
        dnn_free(config);
    }
    return status;
}

/* The attributes that were set, and those that only the library knows. */
static cudnnStatus_t get(const dnn_descriptor *d, int name, int type, int64_t room, int64_t *count, void *out)
{
    const dnn_attribute *a = dnn_find(d, name);
    cudnnStatus_t        status = CUDNN_STATUS_SUCCESS;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        return type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? get_results(d, room, count, out)
                                                     : dnn_refuse(CUDNN_STATUS_BAD_PARAM, "results are descriptors");
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE) {
        const dnn_engine *e = &dnn_engines[dnn_int(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0)];
        *count = e->note_count;
        memcpy(out, e->notes, sizeof(int) * (size_t)(e->note_count < room ? e->note_count : room));
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64 && room == 1) {
        *count = 1;
        memcpy(out, &d->workspace, sizeof d->workspace);
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES && !a) {
        *count = 0;
        return CUDNN_STATUS_SUCCESS;
    }
    if (!a || a->type != type)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "no such attribute");
    *count = a->count;
    for (int64_t i = 0; i < a->count && i < room && status == CUDNN_STATUS_SUCCESS; i++) {
        size_t size = type_size(type);
        if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
            status = assign(((cudnnBackendDescriptor_t *)out)[i], ((dnn_descriptor **)a->values)[i]);
        else
            memcpy((char *)out + (size_t)i * size, (char *)a->values + (size_t)i * size, size);
    }
    return status;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room, int64_t *count, void *out)
{
    dnn_descriptor *d = as(descriptor);
    cudnnStatus_t   status = (cudnnStatus_t)standin_call(CALL_cudnnBackendGetAttribute);
    int64_t         unused;
    if (status != CUDNN_STATUS_SUCCESS)
        return dnn_refuse(status, "asked to fail");
    if (!d)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "no descriptor");
    if (!d->finalized)
        return dnn_refuse(CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is not finalized");
    return get(d, (int)name, (int)type, room, count ? count : &unused, out);
}

/* The driver's, with which this library is linked. */
STANDIN_EXPORT CUresult cuCtxGetCurrent(CUcontext *out);

/* ---- handles ---- */

cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
    CUcontext     context = NULL;
    cudnnStatus_t status = (cudnnStatus_t)standin_call(CALL_cudnnCreate);
    if (status != CUDNN_STATUS_SUCCESS)
        return dnn_refuse(status, "asked to fail");
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return dnn_refuse(CUDNN_STATUS_NOT_INITIALIZED, "no context is current");
    *out = calloc(1, sizeof **out);
    if (!*out)
        return dnn_refuse(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "host memory");
    (*out)->magic = HANDLE;
    (*out)->context = context;
    atomic_flag_clear(&(*out)->busy);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_handle(cudnnHandle_t handle)
{
    CUcontext context = NULL;
    if (!handle || handle->magic != HANDLE)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "no handle");
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || context != handle->context)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "the handle is of another context than the current one");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, CUstream stream)
{
    cudnnStatus_t status = (cudnnStatus_t)standin_call(CALL_cudnnSetStream);
    if (status == CUDNN_STATUS_SUCCESS)
        status = check_handle(handle);
    if (status == CUDNN_STATUS_SUCCESS)
        handle->stream = stream;
    return status;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    dnn_descriptor *p = as(plan), *v = as(pack);
    cudnnStatus_t   status = (cudnnStatus_t)standin_call(CALL_cudnnBackendExecute);
    if (status != CUDNN_STATUS_SUCCESS)
        return dnn_refuse(status, "asked to fail");
    status = check_handle(handle);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if (!p || !v || p->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
        v->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR || !p->finalized || !v->finalized)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a plan and a variant pack are needed");
    if (atomic_flag_test_and_set(&handle->busy)) {
        fprintf(stderr, "standin: a cuDNN handle is used by two threads at a time\n");
        return dnn_refuse(CUDNN_STATUS_INTERNAL_ERROR, "the handle is in use");
    }
    status = dnn_submit(handle->stream, p, v);
    atomic_flag_clear(&handle->busy);
    return status;
}

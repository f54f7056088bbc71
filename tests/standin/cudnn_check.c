/* The stand-in for cuDNN: what finalizing a descriptor checks. */
#include "cudnn.h"

static cudnnStatus_t bad(const char *why)
{
    return dnn_refuse(CUDNN_STATUS_BAD_PARAM, why);
}

static bool has_all(const dnn_descriptor *d, const int *names)
{
    for (; *names >= 0; names++)
        if (!dnn_find(d, *names))
            return false;
    return true;
}
#define HAS(d, ...) has_all(d, (const int[]){__VA_ARGS__, -1})

/* A finalized descriptor of that type. */
static bool is(const dnn_descriptor *d, int type)
{
    return d && d->type == type && d->finalized;
}

static cudnnStatus_t check_tensor(const dnn_descriptor *d)
{
    const dnn_attribute *dims = dnn_find(d, CUDNN_ATTR_TENSOR_DIMENSIONS);
    const dnn_attribute *strides = dnn_find(d, CUDNN_ATTR_TENSOR_STRIDES);
    int64_t              alignment = dnn_int(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0);
    if (!dims || !strides || !HAS(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_UNIQUE_ID))
        return bad("a tensor needs dimensions, strides, a data type and a number");
    if (dims->count != 4 || strides->count != dims->count)
        return bad("four dimensions and strides are needed");
    for (int64_t i = 0; i < dims->count; i++)
        if (((int64_t *)dims->values)[i] < 1 || ((int64_t *)strides->values)[i] < 1)
            return bad("dimensions and strides are positive");
    if (alignment < 1 || (alignment & (alignment - 1)) != 0 || dnn_size(dnn_enum(d, CUDNN_ATTR_TENSOR_DATA_TYPE)) == 0)
        return bad("the alignment is a power of two, the data type a known one");
    return CUDNN_STATUS_SUCCESS;
}

static bool has_two(const dnn_descriptor *d, int name, int64_t least)
{
    const dnn_attribute *a = dnn_find(d, name);
    return a && a->count == 2 && dnn_int(d, name, 0) >= least && dnn_int(d, name, 1) >= least;
}

static cudnnStatus_t check_convolution(const dnn_descriptor *d)
{
    if (!HAS(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) ||
        dnn_enum(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION ||
        dnn_int(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0) != 2)
        return bad("a cross-correlation of two dimensions is needed");
    if (!has_two(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1) || !has_two(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, 1) ||
        !has_two(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0) || !has_two(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0))
        return bad("strides, dilations and paddings are missing or wrong");
    return CUDNN_STATUS_SUCCESS;
}

/* alpha is 1 and beta 0, in the type that is computed in. */
static bool has_factors(const dnn_descriptor *d, int alpha, int beta, int computed)
{
    const dnn_attribute *a = dnn_find(d, alpha), *b = dnn_find(d, beta);
    int                  type = computed == CUDNN_DATA_DOUBLE ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
    if (!a || !b || a->type != type || b->type != type)
        return false;
    return computed == CUDNN_DATA_DOUBLE ? *(double *)a->values == 1 && *(double *)b->values == 0
                                         : *(float *)a->values == 1 && *(float *)b->values == 0;
}

static bool output_fits(const dnn_descriptor *how, const dnn_tensor *x, const dnn_tensor *w, const dnn_tensor *y, int i)
{
    int64_t padded = x->dims[2 + i] + dnn_int(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i) +
                     dnn_int(how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i);
    int64_t reach = dnn_int(how, CUDNN_ATTR_CONVOLUTION_DILATIONS, i) * (w->dims[2 + i] - 1) + 1;
    return padded >= reach &&
           y->dims[2 + i] == (padded - reach) / dnn_int(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i) + 1;
}

/* alpha, beta, description, x, weight, y of the three operations. */
static cudnnStatus_t check_operation(const dnn_descriptor *d, int alpha, int beta, int convolution, int x, int weight,
                                     int y)
{
    const dnn_descriptor *how = dnn_child(d, convolution, 0);
    dnn_tensor            tx, tw, ty;
    if (!is(how, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) || !dnn_read_tensor(dnn_child(d, x, 0), &tx) ||
        !dnn_read_tensor(dnn_child(d, weight, 0), &tw) || !dnn_read_tensor(dnn_child(d, y, 0), &ty))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "an operation needs finalized descriptors");
    if (!has_factors(d, alpha, beta, dnn_enum(how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE)))
        return bad("alpha and beta are of the type that is computed in");
    if (dnn_enum(how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) !=
        (tx.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
        return bad("doubles are computed in f64, all else in f32");
    if (tx.dims[0] != ty.dims[0] || tw.dims[0] != ty.dims[1] || tx.dims[1] % tw.dims[1] != 0 ||
        tw.dims[0] % (tx.dims[1] / tw.dims[1]) != 0 || !output_fits(how, &tx, &tw, &ty, 0) ||
        !output_fits(how, &tx, &tw, &ty, 1))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "the shapes of a convolution do not fit");
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_pointwise(const dnn_descriptor *d)
{
    const dnn_descriptor *how = dnn_child(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    const dnn_descriptor *b = dnn_child(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 0);
    dnn_tensor            x, other, y;
    if (!is(how, CUDNN_BACKEND_POINTWISE_DESCRIPTOR) ||
        !dnn_read_tensor(dnn_child(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 0), &x) ||
        !dnn_read_tensor(dnn_child(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 0), &y) ||
        (b && !dnn_read_tensor(b, &other)))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "an operation needs finalized descriptors");
    if ((dnn_enum(how, CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_ADD) != (b != NULL))
        return bad("an addition has two operands, a relu one");
    for (int i = 0; i < 4; i++)
        if (x.dims[i] != y.dims[i] || (b && other.dims[i] != 1 && other.dims[i] != y.dims[i]))
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "the shapes of a pointwise operation do not fit");
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_graph(const dnn_descriptor *d)
{
    const dnn_attribute *operations = dnn_find(d, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    dnn_job              job;
    if (!operations || !HAS(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE))
        return bad("a graph needs operations and a handle");
    for (int64_t i = 0; i < operations->count; i++)
        if (!((dnn_descriptor **)operations->values)[i]->finalized)
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "an operation is not finalized");
    return dnn_take_apart(d, &job) ? CUDNN_STATUS_SUCCESS
                                   : dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "the graph's pattern is not known here");
}

static cudnnStatus_t check_engine(const dnn_descriptor *d)
{
    int64_t number = dnn_int(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
    if (!is(dnn_child(d, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 0), CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) ||
        !HAS(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX) || number < 0 || number >= ENGINES)
        return bad("an engine needs a graph, and a number that there is");
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_config(const dnn_descriptor *d)
{
    const dnn_descriptor *engine = dnn_child(d, CUDNN_ATTR_ENGINECFG_ENGINE, 0);
    const dnn_attribute  *knobs = dnn_find(d, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
    if (!is(engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR))
        return bad("a configuration needs an engine");
    for (int64_t i = 0; knobs && i < knobs->count; i++) {
        const dnn_descriptor *knob = ((dnn_descriptor **)knobs->values)[i];
        const dnn_engine     *e = &dnn_engines[dnn_int(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0)];
        int64_t               value = dnn_int(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 0);
        if (!is(knob, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR) || e->knob < 0 ||
            dnn_enum(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE) != e->knob || value < 0 || value > 3)
            return bad("the engine has no such knob, or not that value of it");
    }
    return CUDNN_STATUS_SUCCESS;
}

/* Here the real one compiles engines that are not compiled yet, and finds unsupported problems. */
static cudnnStatus_t check_plan(dnn_descriptor *d)
{
    const dnn_descriptor *config = dnn_child(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0), *engine, *graph;
    int                   number;
    if (!is(config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) || !HAS(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE))
        return bad("a plan needs a configuration and a handle");
    engine = dnn_child(config, CUDNN_ATTR_ENGINECFG_ENGINE, 0);
    graph = dnn_child(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 0);
    number = (int)dnn_int(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
    if (!dnn_supports(number, graph) || dnn_engines[number].refuses)
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "the engine does not do this");
    d->workspace = dnn_workspace(number, graph);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_pack(const dnn_descriptor *d)
{
    const dnn_attribute *numbers = dnn_find(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const dnn_attribute *pointers = dnn_find(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    if (!numbers || !pointers || numbers->count != pointers->count)
        return bad("a variant pack needs as many pointers as numbers");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t dnn_check(dnn_descriptor *d)
{
    const dnn_descriptor *graph;
#define OPERATION(name, x, w, y)                                                                                       \
    check_operation(                                                                                                   \
        d, CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_BETA,            \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_##x,            \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_##w, CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_##y)
    switch (d->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return check_tensor(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return check_convolution(d);
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
        return HAS(d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC)
                   ? CUDNN_STATUS_SUCCESS
                   : bad("mode and precision are missing");
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR: return OPERATION(FORWARD, X, W, Y);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR: return OPERATION(BWD_DATA, DX, W, DY);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR: return OPERATION(BWD_FILTER, X, DW, DY);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return check_pointwise(d);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return check_graph(d);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        graph = dnn_child(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
        return is(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) && HAS(d, CUDNN_ATTR_ENGINEHEUR_MODE)
                   ? CUDNN_STATUS_SUCCESS
                   : bad("heuristics need a graph and a mode");
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: return check_engine(d);
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
        return HAS(d, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)
                   ? CUDNN_STATUS_SUCCESS
                   : bad("a knob needs a value");
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: return check_config(d);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return check_plan(d);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return check_pack(d);
    default: return bad("no such descriptor");
    }
#undef OPERATION
}

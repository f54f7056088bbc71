/* Losses. */
#include <haul/autograd.h>
#include <haul/dtype.h>
#include <haul/loss.h>
#include <string.h>

#include "core/tensor.h"
#include "onnx/families.h"

#define X(i) haul__onnx_x(c, i)

typedef struct settings {
    haul_reduction reduction;
    int64_t        ignored; /* 0: none; HAUL_ZERO: class 0 */
} settings;

static bool read_settings(haul__onnx_call *c, settings *s)
{
    const char   *name = haul__onnx_string(c, "reduction", "mean");
    const int64_t ignored = haul__onnx_int(c, "ignore_index", 0);
    const bool    given = haul__onnx_attribute_of(c->step->node, "ignore_index") != NULL;
    s->reduction = !strcmp(name, "none") ? HAUL_REDUCE_NONE : !strcmp(name, "sum") ? HAUL_REDUCE_SUM : HAUL_REDUCE_MEAN;
    s->ignored = !given ? 0 : ignored ? ignored : (int64_t)HAUL_ZERO;
    return s->reduction != HAUL_REDUCE_MEAN || !strcmp(name, "mean");
}

/* Losses have no gradient for weights of classes. */
static haul_tensor *weight_of(haul__onnx_call *c)
{
    return haul__onnx_has(c, 2) ? haul_detach(X(2)) : NULL;
}

haul_tensor *haul__onnx_nll_loss(haul__onnx_call *c)
{
    settings s;
    if (!read_settings(c, &s))
        return haul__onnx_refuse(c, "this reduction");
    return haul_nll_loss(X(0), X(1), .weight = weight_of(c), .ignore_index = s.ignored, .reduction = s.reduction);
}

/* The second result is the logarithm of the softmax. */
haul_tensor *haul__onnx_cross_entropy(haul__onnx_call *c)
{
    settings s;
    if (!read_settings(c, &s))
        return haul__onnx_refuse(c, "this reduction");
    if (c->step->output_count > 1)
        c->y[1] = haul_log_softmax(X(0), 1);
    return haul_cross_entropy(X(0), X(1), .weight = weight_of(c), .ignore_index = s.ignored, .reduction = s.reduction);
}

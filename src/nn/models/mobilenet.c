/* MobileNetV2 (Sandler, Howard, Zhu, Zhmoginov, Chen, "MobileNetV2: inverted residuals and linear bottlenecks", 2018),
 * with torchvision's names. */
#include "nn/models/mobilenet.h"

#include <haul/scope.h>
#include <stdio.h>

#include "base/assert.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "nn/models/pictures.h"
#include "nn/module.h"

enum { FIRST = 32, LAST = 1280 }; /* channels of the first and of the last convolution */

/* ---- an inverted residual: expand, filter each channel, project ---- */

typedef struct block {
    bool adds; /* sizes stay, so that x is added to the result */
} block;

static haul_tensor *block_forward(haul_module *m, haul_args *args)
{
    const block *s = haul_module_state(m);
    haul_tensor *y = haul_call_child(m, "conv", args->x[0]);
    if (!s->adds || haul__failed(y))
        return y;
    haul_tensor *sum = haul_add(args->x[0], y);
    haul_drop(y);
    return sum;
}

/* A convolution, its normalisation and a relu up to 6. */
static haul_module *convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups)
{
    int64_t padding = kernel / 2;
    return HAUL_SEQUENTIAL(haul_nn_conv2d(in, out, kernel, .stride = {stride, stride}, .padding = {padding, padding},
                                          .groups = groups, .no_bias = true),
                           haul_nn_batch_norm(out), haul_nn_hardtanh(0, 6));
}

static haul_module *convolutions(int64_t in, int64_t out, int64_t stride, int64_t times)
{
    int64_t      width = in * times;
    haul_module *filter = convolution(width, width, 3, stride, width);
    haul_module *project = haul_nn_conv2d(width, out, 1, .no_bias = true);
    if (times == 1)
        return HAUL_SEQUENTIAL(filter, project, haul_nn_batch_norm(out));
    return HAUL_SEQUENTIAL(convolution(in, width, 1, 1, 1), filter, project, haul_nn_batch_norm(out));
}

static haul_module *new_block(int64_t in, int64_t out, int64_t stride, int64_t times)
{
    haul_module *m = haul_module_new("inverted_residual", block_forward, .state_bytes = sizeof(block));
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    block *s = haul_module_state(m);
    s->adds = stride == 1 && in == out;
    haul_status status = haul_module_add(m, "conv", convolutions(in, out, stride, times));
    return haul__module_built(m, scope, status, "haul_model_new");
}

/* ---- the network ---- */

/* The paper's table 2: blocks with the same channels, the first of which has the stride. */
typedef struct row {
    int times, out, count, stride;
} row;
static const row rows[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                           {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

static haul_status add_numbered(haul_module *m, int *number, haul_module *layer)
{
    char name[24];
    snprintf(name, sizeof name, "%d", (*number)++);
    return haul_module_add(m, name, layer);
}

/* All convolutions, "0" to "18". */
static haul_module *new_features(int64_t channels)
{
    haul_module *m = haul_module_new("features", haul__call_in_order);
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    int         number = 0;
    int64_t     in = FIRST;
    haul_status status = add_numbered(m, &number, convolution(channels, FIRST, 3, 2, 1));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int k = 0; k < rows[i].count && !status; k++) {
            status = add_numbered(m, &number, new_block(in, rows[i].out, k ? 1 : rows[i].stride, rows[i].times));
            in = rows[i].out;
        }
    }
    HAUL__ASSERT(status || number == 18);
    if (!status)
        status = add_numbered(m, &number, convolution(in, LAST, 1, 1, 1));
    return haul__module_built(m, scope, status, "haul_model_new");
}

haul_status haul__build_mobilenet_v2(haul_module *m, const haul_model_options *o)
{
    haul_status status = haul__model_check_pictures("mobilenet_v2", &o->input);
    if (!status)
        status = haul_module_add(m, "features", new_features(o->input.dims[0]));
    if (!status)
        status = haul_module_add(m, "avgpool", haul__model_average());
    if (!status)
        status =
            haul_module_add(m, "classifier", HAUL_SEQUENTIAL(haul_nn_dropout(0.2), haul_nn_linear(LAST, o->outputs)));
    return status;
}

/* Orders: the dataset's own, shuffled, or drawn by weight. They depend only on the seed and the epoch. */
#include "data/loader/order.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "data/random.h"
#include "host_access/view.h"

/* ---- weights ---- */

static haul_status check_weights(const haul_tensor *t, const haul_dataset *dataset, const char *operation)
{
    if (haul__check_tensor(operation, "weights", t))
        return haul_error_status();
    if (haul_tensor_device(t) != haul_cpu())
        return haul__fail(HAUL_DEVICE, operation, "weights", ".weights is on %s; it must be on the CPU",
                          haul_device_name(haul_tensor_device(t)));
    if (t->dtype != HAUL_F32 && t->dtype != HAUL_F64)
        return haul__fail(HAUL_DTYPE, operation, "weights", ".weights is %s; it must be f32 or f64",
                          haul_dtype_name(t->dtype));
    if (t->shape.ndim != 1 || t->count != dataset->count)
        return haul__fail(HAUL_SHAPE, operation, "weights", ".weights must be [%lld], a weight for each example",
                          (long long)dataset->count);
    return HAUL_OK;
}

static haul_status cumulate(haul__order *order, haul_tensor *t, const char *operation)
{
    haul__host_view view;
    double          sum = 0;
    haul_status     status = haul__host_view_begin(&view, t, NULL, operation);
    if (status)
        return status;
    HAUL__ASSERT(order->cumulated && t->count == order->examples);
    for (int64_t i = 0; i < order->examples && status == HAUL_OK; i++) {
        double weight = t->dtype == HAUL_F64 ? ((const double *)view.data)[i] : (double)((const float *)view.data)[i];
        if (!(weight >= 0 && isfinite(weight)))
            status = haul__fail(HAUL_INVALID_ARGUMENT, operation, "weights",
                                "weight %lld is %g; weights are finite and not negative", (long long)i, weight);
        order->cumulated[i] = sum += weight;
    }
    haul__host_view_end(&view);
    if (status == HAUL_OK && order->count && !(sum > 0 && isfinite(sum)))
        status = haul__fail(HAUL_INVALID_ARGUMENT, operation, "weights",
                            "the weights add up to %g; at least one must be positive, and the sum finite", sum);
    return status;
}

/* The first example whose sum of weights is above `target`. Examples of weight 0 are never found. */
static int64_t find(const haul__order *order, double target)
{
    int64_t low = 0, high = order->examples - 1;
    HAUL__ASSERT(high >= 0);
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (order->cumulated[middle] > target)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* ---- orders ---- */

haul_status haul__order_init(haul__order *order, const haul_dataset *dataset, const haul_loader_options *o,
                             const char *operation)
{
    bool weighted = o->weights && o->weights != HAUL_NONE;
    *order = (haul__order){.shuffle = o->shuffle, .seed = o->seed};
    if (dataset->count == HAUL_UNKNOWN)
        return HAUL_OK;
    if (weighted && check_weights(o->weights, dataset, operation))
        return haul_error_status();
    order->examples = dataset->count;
    order->count = o->samples ? o->samples : dataset->count;
    if (!order->examples)
        order->count = 0;
    if (!(order->indices = haul__calloc((size_t)order->count + 1, sizeof *order->indices)))
        return haul__fail_memory(operation, (size_t)order->count * sizeof *order->indices);
    if (!weighted)
        return HAUL_OK;
    if (!(order->cumulated = haul__calloc((size_t)order->examples + 1, sizeof *order->cumulated)))
        return haul__fail_memory(operation, (size_t)order->examples * sizeof *order->cumulated);
    return cumulate(order, o->weights, operation);
}

static void draw_by_weight(haul__order *order, int64_t epoch)
{
    double sum = order->examples ? order->cumulated[order->examples - 1] : 0;
    for (int64_t i = 0; i < order->count; i++) {
        haul_draws draws = haul__draws_begin(order->seed, HAUL__FOR_SAMPLES, (uint64_t)epoch, (uint64_t)i);
        int64_t    found = find(order, haul_draw_unit(&draws) * sum);
        while (found && order->cumulated[found] == order->cumulated[found - 1])
            found--; /* the product was rounded up to the sum, and the last weights are 0 */
        HAUL__ASSERT(0 <= found && found < order->examples);
        order->indices[i] = found;
    }
}

void haul__order_begin(haul__order *order, int64_t epoch)
{
    HAUL__ASSERT(order->indices || !order->count);
    if (order->cumulated) {
        draw_by_weight(order, epoch);
        return;
    }
    for (int64_t i = 0; i < order->count; i++)
        order->indices[i] = i;
    if (order->shuffle)
        haul__shuffle(order->indices, order->count, order->seed, HAUL__FOR_ORDER, (uint64_t)epoch);
}

void haul__order_free(haul__order *order)
{
    haul__free(order->indices);
    haul__free(order->cumulated);
}

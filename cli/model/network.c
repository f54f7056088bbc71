#include "cli/model/network.h"

const char *network_default(const data_spec *spec)
{
    bool picture = spec->x.shape.ndim == 3 && spec->x.shape.dims[1] >= 16 && spec->x.shape.dims[2] >= 16;
    return picture && spec->y.classes ? "simplecnn" : "dense";
}

haul_module *network_new(const char *model, const data_spec *spec)
{
    int64_t outputs = spec->y.classes;
    if (spec->y.dtype != HAUL_I64) {
        outputs = 1;
        for (int i = 0; i < spec->y.shape.ndim; i++)
            outputs *= spec->y.shape.dims[i];
    }
    return haul_model_new(model, .input = spec->x.shape, .outputs = outputs);
}

haul_tensor *network_loss(const data_spec *spec, haul_tensor *logits, haul_tensor *y)
{
    if (!haul_tensor_is_valid(logits)) /* it has no shape */
        return logits;
    if (spec->y.dtype == HAUL_I64)
        return haul_cross_entropy(logits, y);
    return haul_bce_with_logits(logits, haul_reshape(y, haul_tensor_shape(logits)));
}

static haul_tensor *right(const data_spec *spec, haul_tensor *logits, haul_tensor *y)
{
    if (spec->y.dtype == HAUL_I64)
        return haul_eq(haul_argmax(logits, 1, false), y);
    haul_tensor *target = haul_reshape(y, haul_tensor_shape(logits));
    return haul_eq(haul_gt_scalar(logits, 0), haul_gt_scalar(target, 0.5));
}

haul_tensor *network_hits(const data_spec *spec, haul_tensor *logits, haul_tensor *y)
{
    haul_scope *scope = haul_scope_push();
    haul_set_grad_enabled(false);
    return haul_scope_return(scope, haul_sum(right(spec, logits, y)));
}

int64_t network_answers(const haul_tensor *y)
{
    return haul_tensor_count(y);
}

static haul_status score_batch(haul_module *net, const data_spec *spec, const haul_batch *batch,
                               const network_watch *watch, haul_tensor *loss, haul_tensor *hits)
{
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    haul_tensor *logits = haul_call(net, batch->x);
    haul_tensor *mean = network_loss(spec, logits, batch->y);
    haul_status  status = haul_add_into(loss, loss, haul_mul_scalar(mean, (double)batch->size));
    if (!status)
        status = haul_add_into(hits, hits, network_hits(spec, logits, batch->y));
    if (!status && watch && watch->see)
        status = watch->see(logits, batch->y, watch->context);
    haul_scope_pop(scope);
    return status;
}

static haul_status score_all(haul_module *net, const data_spec *spec, haul_loader *loader, const network_watch *watch,
                             network_score *out)
{
    haul_tensor *loss = haul_scalar(0), *hits = haul_zeros(HAUL_I64, HAUL_SCALAR_SHAPE);
    int64_t      examples = 0, answers = 0, batches = 0;
    haul_status  status = haul_loader_start(loader, 0);
    while (!status && (!watch || !watch->go_on || watch->go_on(batches, watch->context))) {
        const haul_batch *batch = haul_loader_next(loader);
        if (!batch)
            break;
        batches++;
        examples += batch->size;
        answers += network_answers(batch->y);
        status = score_batch(net, spec, batch, watch, loss, hits);
    }
    if (!status)
        status = haul_error_status();
    if (status)
        return status;
    out->loss = examples ? haul_item(loss) / (double)examples : 0;
    out->accuracy = answers ? (double)haul_item_i64(hits) / (double)answers : 0;
    out->answers = answers;
    return haul_error_status();
}

static haul_status score_first(haul_module *net, const data_spec *spec, haul_loader *loader)
{
    haul_tensor      *loss = haul_scalar(0), *hits = haul_zeros(HAUL_I64, HAUL_SCALAR_SHAPE);
    const haul_batch *batch = haul_loader_start(loader, 0) ? NULL : haul_loader_next(loader);
    haul_status       status = batch ? score_batch(net, spec, batch, NULL, loss, hits) : haul_error_status();
    return status ? status : score_batch(net, spec, batch, NULL, loss, hits); /* finds what the first has left */
}

/* Opens a scope in which the network evaluates; NULL after a failure. */
static haul_scope *begin_scoring(haul_module *net, bool *training)
{
    haul_scope *scope = haul_scope_push();
    *training = haul_module_is_training(net);
    if (!scope)
        return NULL;
    haul_set_grad_enabled(false);
    if (!haul_module_train(net, false))
        return scope;
    haul_module_train(net, *training);
    haul_scope_pop(scope);
    return NULL;
}

static haul_status end_scoring(haul_module *net, bool training, haul_scope *scope, haul_status status)
{
    haul_module_train(net, training);
    haul_scope_pop(scope);
    return status;
}

haul_status network_try(haul_module *net, const data_spec *spec, haul_loader *loader)
{
    bool        training;
    haul_scope *scope = begin_scoring(net, &training);
    return scope ? end_scoring(net, training, scope, score_first(net, spec, loader)) : haul_error_status();
}

haul_status network_evaluate(haul_module *net, const data_spec *spec, haul_loader *loader, const network_watch *watch,
                             network_score *out)
{
    bool        training;
    haul_scope *scope = begin_scoring(net, &training);
    return scope ? end_scoring(net, training, scope, score_all(net, spec, loader, watch, out)) : haul_error_status();
}

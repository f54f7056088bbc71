#include "cli/model/network.h"

#include <string.h>

#include "cli/shared/cli.h"

typedef struct network_kind {
    const char *name, *data;
    data_task   task;
    const char *head; /* the path of the last layer; NULL: it shares its weights with another one */
} network_kind;

static const network_kind kinds[] = {
    {"simplecnn", "shapes", TASK_ANSWER, "fc3"},
    {"resnet18", "shapes", TASK_ANSWER, "fc"},
    {"resnet18_imagenet", "shapes", TASK_ANSWER, "fc"},
    {"resnet50", "shapes", TASK_ANSWER, "fc"},
    {"mobilenet_v2", "shapes", TASK_ANSWER, "classifier.1"},
    {"vit_tiny", "shapes", TASK_ANSWER, "heads.head"},
    {"dense", "shapes", TASK_ANSWER, "fc2"},
    {"mlp", "shapes", TASK_ANSWER, "fc3"},
    {"char_gpt", "sentences", TASK_TOKENS, NULL},
    {"unet", "scenes", TASK_PIXELS, "out"},
    {NETWORK_ONNX, "shapes", TASK_ANSWER, NULL},
};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

static const network_kind *find(const char *model)
{
    for (int i = 0; model && i < KIND_COUNT; i++)
        if (!strcmp(kinds[i].name, model))
            return &kinds[i];
    return &kinds[0];
}

data_task network_task(const char *model)
{
    return find(model)->task;
}

const char *network_data(const char *model)
{
    return find(model)->data;
}

const char *network_head(const char *model)
{
    return find(model)->head;
}

const char *network_default(const data_spec *spec)
{
    const data_task task = source_task(spec);
    const bool      picture = spec->x.shape.ndim == 3 && spec->x.shape.dims[1] >= 16 && spec->x.shape.dims[2] >= 16;
    if (task != TASK_ANSWER)
        return task == TASK_TOKENS ? "char_gpt" : "unet";
    return picture && spec->y.classes ? "simplecnn" : "dense";
}

bool network_suits(const char *model, const data_spec *spec, const char *data)
{
    static const char *const tasks[] = {[TASK_ANSWER] = "finds one class or value for each example",
                                        [TASK_PIXELS] = "finds the class of each pixel",
                                        [TASK_TOKENS] = "finds the character that follows each"};
    static const char *const fitting[] = {[TASK_ANSWER] = "images:DIR or shapes",
                                          [TASK_PIXELS] = "masks:DIR or scenes",
                                          [TASK_TOKENS] = "text:FILE or sentences"};
    const network_kind      *kind = find(model);
    if (kind->task == source_task(spec))
        return true;
    complain("--model %s %s, and --data %s is not of that kind; give --data %s, or leave --model out, which takes %s",
             model, tasks[kind->task], data, fitting[kind->task], network_default(spec));
    return false;
}

int64_t network_outputs(const data_spec *spec)
{
    int64_t outputs = 1;
    if (spec->y.dtype == HAUL_I64)
        return spec->y.classes;
    for (int i = 0; i < spec->y.shape.ndim; i++)
        outputs *= spec->y.shape.dims[i];
    return outputs;
}

bool network_is_onnx(const char *path)
{
    const size_t length = path ? strlen(path) : 0, ending = strlen(".onnx");
    return length > ending && !strcmp(path + length - ending, ".onnx");
}

static haul_module *load_onnx(const char *file)
{
    if (!file) {
        haul_error_set(HAUL_INVALID_ARGUMENT, NULL, NULL,
                       "--model " NETWORK_ONNX " is the network of haul train --init FILE.onnx; name that file, or "
                       "another model");
        return NULL;
    }
    haul_module *net = haul_load_onnx(file);
    return net && haul_module_train(net, true) ? NULL : net;
}

haul_module *network_new(const char *model, const network_sizes *sizes, const data_spec *spec)
{
    if (!strcmp(model, NETWORK_ONNX))
        return load_onnx(sizes->file);
    return haul_model_new(model, .input = spec->x.shape, .outputs = network_outputs(spec), .layers = sizes->layers,
                          .features = sizes->features, .heads = sizes->heads);
}

haul_tensor *network_loss(const data_spec *spec, haul_tensor *logits, haul_tensor *y)
{
    if (!haul_tensor_is_valid(logits)) /* it has no shape */
        return logits;
    const haul_shape given = haul_tensor_shape(logits);
    if (source_task(spec) == TASK_ANSWER && spec->y.dtype == HAUL_I64 &&
        (given.ndim != 2 || given.dims[1] != spec->y.classes))
        return haul_tensor_fail(HAUL_SHAPE, NULL, NULL,
                                "the network's result is %s, and the data has %lld classes; [examples, classes] is "
                                "expected",
                                text_shape(&given), (long long)spec->y.classes);
    if (source_task(spec) == TASK_TOKENS)
        return haul_cross_entropy(haul_reshape(logits, HAUL_SHAPE(-1, spec->y.classes)),
                                  haul_reshape(y, HAUL_SHAPE(-1)));
    if (spec->y.dtype == HAUL_I64)
        return haul_cross_entropy(logits, y);
    return haul_bce_with_logits(logits, haul_reshape(y, haul_tensor_shape(logits)));
}

haul_tensor *network_classes(const data_spec *spec, haul_tensor *logits)
{
    return haul_argmax(logits, source_task(spec) == TASK_TOKENS ? 2 : 1, false);
}

static haul_tensor *right(const data_spec *spec, haul_tensor *logits, haul_tensor *y)
{
    if (spec->y.dtype == HAUL_I64)
        return haul_eq(network_classes(spec, logits), y);
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

void network_bring(haul_device *metrics, haul_tensor **logits, haul_tensor **y)
{
    if (!metrics)
        return;
    *logits = haul_to(*logits, metrics);
    *y = haul_to(*y, metrics);
}

void network_sums(haul_device *metrics, haul_tensor **loss, haul_tensor **hits)
{
    haul_device *before = haul_current_device();
    if (metrics)
        haul_set_device(metrics);
    *loss = haul_scalar(0);
    *hits = haul_zeros(HAUL_I64, HAUL_SCALAR_SHAPE);
    haul_set_device(before);
}

static haul_status score_batch(haul_module *net, const data_spec *spec, const haul_batch *batch,
                               const network_watch *watch, haul_tensor *loss, haul_tensor *hits)
{
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    haul_tensor *logits = watch->parallel ? haul_parallel_call(watch->parallel, batch->x) : haul_call(net, batch->x);
    haul_tensor *y = batch->y;
    if (watch->passes_on && logits == HAUL_NONE) {
        haul_scope_pop(scope);
        return HAUL_OK;
    }
    network_bring(watch->metrics, &logits, &y);
    haul_tensor *mean = network_loss(spec, logits, y);
    haul_tensor *sum = haul_mul_scalar(mean, (double)batch->size);
    haul_status  status = haul_add_into(loss, loss, sum);
    if (!status && watch->join) {
        const int64_t at = batch->step * watch->ranks + batch->piece;
        status = haul_copy_into(haul_slice(watch->losses, 0, at, at + 1, 1), sum);
    }
    if (!status)
        status = haul_add_into(hits, hits, network_hits(spec, logits, y));
    if (!status && watch->see)
        status = watch->see(logits, y, watch->context);
    haul_scope_pop(scope);
    return status;
}

static haul_status score_all(haul_module *net, const data_spec *spec, haul_loader *loader, const network_watch *watch,
                             network_score *out)
{
    haul_tensor   *loss, *hits;
    network_totals totals = {0};
    int64_t        batches = 0;
    haul_status    status = haul_loader_start(loader, 0);
    network_sums(watch->metrics, &loss, &hits);
    while (!status && (!watch->go_on || watch->go_on(batches, watch->context))) {
        const haul_batch *batch = haul_loader_next(loader);
        if (!batch)
            break;
        batches++;
        if (!batch->size)
            continue;
        if (!watch->passes_on) {
            totals.examples += batch->size;
            totals.answers += network_answers(batch->y);
        }
        status = score_batch(net, spec, batch, watch, loss, hits);
    }
    if (!status)
        status = haul_error_status();
    if (status)
        return status;
    totals.loss = haul_item(loss);
    totals.hits = haul_item_i64(hits);
    if (haul_error_status() || (watch->join && watch->join(&totals, watch->context)))
        return haul_error_status();
    out->loss = totals.examples ? totals.loss / (double)totals.examples : 0;
    out->accuracy = totals.answers ? (double)totals.hits / (double)totals.answers : 0;
    out->answers = totals.answers;
    return HAUL_OK;
}

static haul_status score_first(haul_module *net, const data_spec *spec, haul_loader *loader, haul_device *metrics)
{
    const network_watch watch = {.metrics = metrics};
    haul_tensor        *loss, *hits;
    network_sums(metrics, &loss, &hits);
    const haul_batch *batch = haul_loader_start(loader, 0) ? NULL : haul_loader_next(loader);
    haul_status       status = batch ? score_batch(net, spec, batch, &watch, loss, hits) : haul_error_status();
    return status ? status : score_batch(net, spec, batch, &watch, loss, hits); /* finds what the first has left */
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

haul_status network_try(haul_module *net, const data_spec *spec, haul_loader *loader, haul_device *metrics)
{
    bool        training;
    haul_scope *scope = begin_scoring(net, &training);
    return scope ? end_scoring(net, training, scope, score_first(net, spec, loader, metrics)) : haul_error_status();
}

haul_status network_evaluate(haul_module *net, const data_spec *spec, haul_loader *loader, const network_watch *watch,
                             network_score *out)
{
    bool        training;
    haul_scope *scope = begin_scoring(net, &training);
    return scope ? end_scoring(net, training, scope, score_all(net, spec, loader, watch, out)) : haul_error_status();
}

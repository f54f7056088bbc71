#include "cli/predict/predictor.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/model/classes.h"
#include "cli/model/network.h"
#include "cli/shared/cli.h"
#include "cli/train/validation.h"

/* ---- the run ---- */

static const char *stored_text(const predictor *p, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(p->stored, name));
    if (!text)
        complain("%s does not say which --%s the network was trained with", p->run.checkpoint, name);
    return text;
}

static double stored_number(const predictor *p, const char *name)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(p->stored, name);
    return cJSON_IsNumber(number) ? number->valuedouble : 0;
}

static bool open_run(predictor *p)
{
    if (!run_name(&p->run, p->options->run) || !run_find(&p->run))
        return false;
    p->stored = run_object(&p->run, RUN_OPTIONS_KEY);
    p->classes = p->stored ? run_array(&p->run, RUN_CLASSES_KEY) : NULL;
    return p->classes && run_input(&p->run, &p->input);
}

static bool open_device(predictor *p)
{
    p->device = device_use(p->options->device);
    return p->device && computes_values(p->device, "predicted", "");
}

/* ---- data ---- */

/* The examples of a part. The validation part is drawn as in the training. */
static haul_dataset *open_part(const predictor *p, const char *source, example_size *size)
{
    haul_dataset *raw = source_open(source, !strcmp(p->part, "test"), size), *parts[2] = {raw, NULL};
    double        fraction = p->options->data ? 0 : stored_number(p, "validation");
    bool          validation = !strcmp(p->part, "validation");
    if (!raw || fraction <= 0 || (!validation && strcmp(p->part, "train") != 0))
        return raw;
    if (!validation_split(raw, fraction, (uint64_t)whole_number(stored_number(p, "seed")),
                          source_is_sorted_by_class(source), parts))
        return parts[validation];
    complain_error();
    return NULL;
}

/* --split, or else what the network was not trained on, as far as there is any. */
static const char *choose_part(const predictor *p, const char *source)
{
    const predict_options *o = p->options;
    bool                   drawn = !o->data && stored_number(p, "validation") > 0;
    if (!o->split)
        return source_has_test(source) ? "test" : drawn ? "validation" : "";
    if (strcmp(o->split, "validation") != 0 || drawn)
        return o->split;
    complain(o->data
                 ? "--split validation is the part that was kept from training, of the run's own data; leave --data "
                   "out"
                 : "--split validation: %s was trained without --validation",
             o->run);
    return NULL;
}

static bool check_shape(const predictor *p)
{
    const haul_shape *given = &p->spec.x.shape, *known = &p->input.shape;
    bool              same = given->ndim == known->ndim;
    for (int i = 0; same && i < known->ndim; i++)
        same = given->dims[i] == known->dims[i];
    if (!same)
        complain("%s has examples of shape %s, and %s was trained on %s: give data of the same kind",
                 haul_dataset_name(p->data), text_shape(given), p->options->run, text_shape(known));
    return same;
}

static bool check_index(const predictor *p)
{
    int64_t index = p->options->index, count = haul_dataset_count(p->data);
    if (index >= count)
        complain("--index %lld: %s has %lld examples, counted from 0", (long long)index, haul_dataset_name(p->data),
                 (long long)count);
    return index < count;
}

/* That of --data, else that of the training. Its classes must be those that the network was trained on. */
static bool open_data(predictor *p)
{
    const char *source = p->options->data ? p->options->data : stored_text(p, "data");
    if (!source || !(p->part = choose_part(p, source)))
        return false;
    example_size  size = source_size(source, &p->input.shape);
    haul_dataset *raw = open_part(p, source, &size);
    if (!raw || !classes_agree(raw, p->classes, p->options->run))
        return false;
    p->data = input_form_apply(&p->input, raw);
    if (!p->data || source_spec(p->data, &p->spec)) {
        complain_error();
        return false;
    }
    return check_shape(p) && check_index(p);
}

/* ---- pictures ---- */

static bool open_pictures(predictor *p)
{
    if (!input_is_picture(&p->input)) {
        complain("%s was trained on examples of shape %s, not on pictures; give --data instead", p->options->run,
                 text_shape(&p->input.shape));
        return false;
    }
    const char *model = stored_text(p, "model");
    const bool  marks = model && network_task(model) == TASK_PIXELS;
    p->spec = (data_spec){
        .x = {.name = "x", .dtype = HAUL_F32, .shape = p->input.shape},
        .y = {.name = "y",
              .dtype = HAUL_I64,
              .shape = marks ? HAUL_SHAPE(p->input.shape.dims[1], p->input.shape.dims[2]) : HAUL_SCALAR_SHAPE,
              .classes = cJSON_GetArraySize(p->classes)}};
    if (model && p->options->masks && !marks)
        complain("--masks writes the classes of pixels, which %s does not find: it was trained with --model %s",
                 p->options->run, model);
    return model && (marks || !p->options->masks);
}

/* ---- prompts ---- */

static bool open_prompt(predictor *p)
{
    const char *model = stored_text(p, "model");
    const bool  writes = model && network_task(model) == TASK_TOKENS;
    const int   tokens = cJSON_GetArraySize(p->classes);
    haul_field  field = {.name = "x", .dtype = HAUL_I64, .shape = p->input.shape, .classes = tokens};
    p->spec.x = p->spec.y = field;
    p->spec.y.name = "y";
    if (model && !writes)
        complain("--prompt is for networks that continue a text, and %s was trained with --model %s", p->options->run,
                 model);
    return writes;
}

haul_tensor *predictor_picture(const predictor *p, const char *path)
{
    const haul_shape *shape = &p->input.shape;
    haul_scope       *scope = haul_scope_push();
    haul_tensor      *x = NULL;
    if (!scope || haul_set_device(haul_cpu())) {
        haul_scope_pop(scope);
        return NULL;
    }
    haul_tensor *bytes =
        haul_read_image(path, .size = {shape->dims[1], shape->dims[2]}, .channels = (int)shape->dims[0]);
    haul_named_tensor named = {.name = "x", .tensor = haul_unsqueeze(bytes, 0)};
    haul_dataset     *raw = haul_tensor_is_valid(bytes) ? haul_dataset_from_named(&named, 1) : NULL;
    haul_dataset     *one = raw ? input_form_apply(&p->input, raw) : NULL;
    haul_loader      *loader = one ? haul_loader_new(one, .batch = 1, .device = haul_cpu()) : NULL;
    if (loader && !haul_loader_start(loader, 0)) {
        const haul_batch *batch = haul_loader_next(loader);
        x = batch ? haul_clone(batch->x) : NULL;
    }
    return x ? haul_scope_return(scope, x) : (haul_scope_pop(scope), NULL);
}

/* ---- the network ---- */

/* The weights of the best epoch, unless the last ones are asked for or there are none. */
static bool choose_weights(predictor *p)
{
    const char *wanted = p->options->weights;
    bool        has_best = !access(p->run.best, F_OK);
    if (wanted && !strcmp(wanted, "best") && !has_best) {
        complain("--weights best: found no %s; give --weights last, or leave it out", p->run.best);
        return false;
    }
    p->best = has_best && (!wanted || !strcmp(wanted, "best"));
    p->weights = p->best ? p->run.best : p->run.weights;
    return true;
}

static bool open_network(predictor *p)
{
    const char         *model = choose_weights(p) ? stored_text(p, "model") : NULL;
    const network_sizes sizes = {.layers = whole_number(stored_number(p, "layers")),
                                 .features = whole_number(stored_number(p, "features")),
                                 .heads = whole_number(stored_number(p, "heads")),
                                 .file = p->run.model};
    p->net = model ? network_new(model, &sizes, &p->spec) : NULL;
    if (p->net && !haul_load_weights(p->weights, p->net) && !haul_module_train(p->net, false))
        return true;
    if (model)
        complain_error();
    return false;
}

bool predictor_open(predictor *p, const predict_options *options)
{
    *p = (predictor){.options = options, .part = ""};
    haul_set_grad_enabled(false);
    return open_run(p) && open_device(p) &&
           (options->prompt           ? open_prompt(p)
            : options->pictures.count ? open_pictures(p)
                                      : open_data(p)) &&
           open_network(p);
}

void predictor_close(predictor *p)
{
    cJSON_Delete(p->stored);
    cJSON_Delete(p->classes);
    run_close(&p->run);
}

/* haul predict: a trained network on data. */
#include <math.h>
#include <string.h>

#include "classes.h"
#include "cli.h"
#include "json.h"
#include "network.h"
#include "options.h"
#include "run_folder.h"
#include "source.h"
#include "trace.h"

typedef struct predict_options {
    const char *run, *data, *split, *device;
    int64_t     index, count, batch;
    bool        trace, json;
} predict_options;

typedef struct predictor {
    const predict_options *options;
    run_folder             run;
    cJSON                 *stored, *classes; /* the options of the training, and the names of its classes */
    haul_device           *device;
    haul_dataset          *data;
    data_spec              spec;
    haul_module           *net;
} predictor;

/* ---- opening ---- */

static bool open_run(predictor *p)
{
    if (!run_name(&p->run, p->options->run) || !run_find(&p->run))
        return false;
    p->stored = run_object(&p->run, RUN_OPTIONS_KEY);
    p->classes = p->stored ? run_array(&p->run, RUN_CLASSES_KEY) : NULL;
    return p->classes != NULL;
}

static const char *stored_text(const predictor *p, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(p->stored, name));

    if (!text)
        complain("%s does not say which --%s the network was trained with", p->run.checkpoint, name);
    return text;
}

/* That of --data, else that of the training. Its classes must be those that the network was trained on. */
static bool open_data(predictor *p)
{
    const predict_options *o = p->options;
    const char            *source = o->data ? o->data : stored_text(p, "data");

    p->data = source ? source_open(source, !strcmp(o->split, "test")) : NULL;
    if (!p->data || !classes_agree(p->data, p->classes, o->run))
        return false;
    if (source_spec(p->data, &p->spec)) {
        complain_error();
        return false;
    }
    if (o->index >= haul_dataset_count(p->data)) {
        complain("--index %lld: %s has %lld examples, counted from 0", (long long)o->index, haul_dataset_name(p->data),
                 (long long)haul_dataset_count(p->data));
        return false;
    }
    return true;
}

static bool open_network(predictor *p)
{
    const char *model = stored_text(p, "model");

    p->net = model ? network_new(model, &p->spec) : NULL;
    if (p->net && !haul_load_weights(p->run.weights, p->net) && !haul_module_train(p->net, false))
        return true;
    if (model)
        complain_error();
    return false;
}

static bool open_device(predictor *p)
{
    p->device = haul_device_get(p->options->device);
    if (haul_set_device(p->device)) {
        complain_error();
        return false;
    }
    return computes_values(p->device, "predicted", "");
}

/* ---- one prediction ---- */

typedef struct answer {
    int    predicted, wanted; /* class, or 0 and 1 */
    double probability;
} answer;

static const char *class_text(const predictor *p, int index)
{
    static char numbers[2][16];
    static int  at;
    const char *name = classes_name(p->classes, index);

    if (name)
        return name;
    at = !at;
    snprintf(numbers[at], sizeof numbers[at], "%d", index);
    return numbers[at];
}

/* From the logits of one example, [1, n]. */
static haul_status read_answer(const predictor *p, haul_tensor *logits, haul_tensor *y, answer *out)
{
    haul_scope *scope = haul_scope_push();

    if (p->spec.y.dtype == HAUL_I64) {
        out->predicted = (int)haul_item_i64(haul_argmax(logits, 1, false));
        out->probability = haul_item(haul_select(haul_softmax(logits, 1), 1, out->predicted));
        out->wanted = (int)haul_item_i64(y);
    } else { /* the first value, if there are several */
        haul_tensor *first = haul_select(haul_reshape(logits, HAUL_SHAPE(-1)), 0, 0);
        double       yes = haul_item(haul_sigmoid(first));
        out->predicted = yes > 0.5;
        out->probability = out->predicted ? yes : 1 - yes;
        out->wanted = haul_item(haul_select(haul_reshape(y, HAUL_SHAPE(-1)), 0, 0)) > 0.5;
    }
    haul_scope_pop(scope);
    return haul_error_status();
}

static bool print_answer(const predictor *p, int64_t index, const answer *a)
{
    const char *predicted = class_text(p, a->predicted), *wanted = class_text(p, a->wanted);

    if (!p->options->json) {
        printf("example %-6lld ", (long long)index);
        print_visible(predicted, 12);
        printf(" %5.1f%%   is ", 100 * a->probability);
        print_visible(wanted, 12);
        printf(" %s\n", a->predicted == a->wanted ? "right" : "wrong");
        return true;
    }
    cJSON *event = json_event("prediction");
    json_number(event, "index", (double)index);
    json_text(event, "predicted", predicted);
    json_number(event, "probability", a->probability);
    json_text(event, "label", wanted);
    json_bool(event, "right", a->predicted == a->wanted);
    return json_print(event);
}

/* ---- the work ---- */

/* Examples from --index on, one at a time; the first is traced if so wished. */
static bool predict_examples(predictor *p)
{
    const predict_options *o = p->options;
    haul_loader           *loader = haul_loader_new(p->data, .batch = 1, .device = haul_cpu());
    bool                   traced = false;

    if (!loader || haul_loader_start_at(loader, 0, o->index)) {
        complain_error();
        return false;
    }
    for (int64_t i = 0; i < (o->trace ? 1 : o->count); i++) {
        answer            a = {0};
        const haul_batch *batch = haul_loader_next(loader);
        if (!batch)
            break;
        haul_scope  *scope = haul_scope_push();
        haul_tensor *logits = o->trace ? trace_call(p->net, batch->x, p->device, o->json)
                                       : haul_to(haul_call(p->net, haul_to(batch->x, p->device)), haul_cpu());
        bool         read = !read_answer(p, logits, batch->y, &a);
        haul_scope_pop(scope);
        if (o->trace && !o->json && read)
            putchar('\n');
        if (read && !print_answer(p, o->index + i, &a))
            return false;
        traced = true;
        if (!read)
            break;
    }
    if (haul_error_status()) {
        complain_error();
        return false;
    }
    return traced;
}

static bool predict_all(predictor *p)
{
    network_score score = {0};
    haul_loader  *loader = haul_loader_new(p->data, .batch = p->options->batch, .workers = 2, .device = p->device);

    if (!loader || network_evaluate(p->net, &p->spec, loader, NULL, &score)) {
        complain_error();
        return false;
    }
    if (!p->options->json) {
        printf("\n%s, all %s examples on %s: accuracy %.1f%%, loss %.3f\n", haul_dataset_name(p->data),
               text_count(haul_dataset_count(p->data)), haul_device_name(p->device), 100 * score.accuracy, score.loss);
        return true;
    }
    cJSON *event = json_event("summary");
    json_text(event, "data", haul_dataset_name(p->data));
    json_text(event, "device", haul_device_name(p->device));
    json_number(event, "examples", (double)haul_dataset_count(p->data));
    json_number(event, "accuracy", score.accuracy);
    json_number(event, "loss", score.loss);
    return json_print(event);
}

static int predict(const predict_options *o)
{
    predictor p = {.options = o};

    haul_set_grad_enabled(false);
    bool done = open_run(&p) && open_device(&p) && open_data(&p) && open_network(&p) && predict_examples(&p) &&
                (o->trace || predict_all(&p));
    cJSON_Delete(p.stored);
    cJSON_Delete(p.classes);
    run_close(&p.run);
    return done ? EXIT_OK : EXIT_FAILED;
}

int predict_main(int argc, char **argv)
{
    predict_options o = {.split = "test", .device = "auto", .count = 10, .batch = 64};
    option          rows[] = {
                 {"run", OPTION_TEXT, &o.run, "DIR", "the folder of a training", 0, 0, NULL, false},
                 {"data", OPTION_TEXT, &o.data, "SOURCE", "by default the data of the training; " SOURCE_HELP, 0, 0, NULL,
                  false},
                 {"split", OPTION_TEXT, &o.split, "test or train", "which examples", 0, 0, "test train", false},
                 {"device", OPTION_TEXT, &o.device, "SPEC", "cpu, opencl:0, gpu, auto ...; haul devices lists them", 0, 0, NULL,
                  false},
                 {"index", OPTION_INTEGER, &o.index, "N", "the first example to show", 0, 1e15, NULL, false},
                 {"count", OPTION_INTEGER, &o.count, "N", "how many examples to show", 1, 1e15, NULL, false},
                 {"batch", OPTION_INTEGER, &o.batch, "N", "examples in a mini-batch when measuring accuracy", 1, 1e6, NULL,
                  false},
                 {"trace", OPTION_FLAG, &o.trace, NULL,
                  "follow one example: to the device, through each layer, and back, with shape, time and values of each stage",
                  0, 0, NULL, false},
                 {"json", OPTION_FLAG, &o.json, NULL, "JSON lines on standard output, and nothing else", 0, 0, NULL, false},
    };
    option_set set = {
        .command = "predict",
        .usage = "--run DIR [OPTION...]",
        .summary = "Runs a trained network: shows some predictions and the accuracy on all examples, or with --trace "
                   "how one example passes through the network.",
        .notes = "examples:\n"
                 "  haul predict --run runs/first\n"
                 "  haul predict --run runs/first --data cifar10:elsewhere --index 5 --trace",
        .rows = rows,
        .count = sizeof rows / sizeof *rows,
    };
    int code = options_parse(&set, argc, argv);

    if (code >= 0)
        return code;
    if (!o.run) {
        complain("--run is missing (usage: haul predict %s)", set.usage);
        return EXIT_USAGE;
    }
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return complain_error();
    code = predict(&o);
    haul_scope_pop(scope);
    return code;
}

/* haul export: the network of a run as an ONNX model. */
#include <string.h>
#include <unistd.h>

#include "cli/model/input_form.h"
#include "cli/model/network.h"
#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/run_folder/folder.h"
#include "cli/shared/cli.h"

typedef struct export_options {
    const char  *weights;
    operand_list operands;
    int64_t      opset, batch; /* batch 0: any */
} export_options;

typedef struct exporter {
    const export_options *o;
    const char           *path; /* of the model */
    run_folder            run;
    cJSON                *stored, *classes; /* options of the training; names of its classes */
    input_form            input;
    data_spec             spec;
    const char           *model, *weights;
    haul_module          *net;
} exporter;

/* ---- the run ---- */

static const char *stored_text(const exporter *e, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(e->stored, name));
    if (!text)
        complain("%s does not say which --%s the network was trained with", e->run.checkpoint, name);
    return text;
}

static int64_t stored_whole(const exporter *e, const char *name)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(e->stored, name);
    return cJSON_IsNumber(number) ? whole_number(number->valuedouble) : 0;
}

static bool open_run(exporter *e)
{
    if (!run_name(&e->run, e->o->operands.items[0]) || !run_find(&e->run))
        return false;
    e->stored = run_object(&e->run, RUN_OPTIONS_KEY);
    e->classes = e->stored ? run_array(&e->run, RUN_CLASSES_KEY) : NULL;
    return e->classes && run_input(&e->run, &e->input) && (e->model = stored_text(e, "model"));
}

/* The weights of the best epoch, unless the last ones are asked for or there are none. */
static bool choose_weights(exporter *e)
{
    const char *wanted = e->o->weights;
    const bool  has_best = !access(e->run.best, F_OK);
    if (wanted && !strcmp(wanted, "best") && !has_best) {
        complain("--weights best: found no %s; give --weights last, or leave it out", e->run.best);
        return false;
    }
    e->weights = has_best && (!wanted || !strcmp(wanted, "best")) ? e->run.best : e->run.weights;
    return true;
}

/* The outputs of the last layer, from its weights: the data may be gone. 0 after a complaint. */
static int64_t count_outputs(const exporter *e)
{
    char              name[96];
    haul_safetensors *file = haul_open_safetensors(e->weights);
    snprintf(name, sizeof name, "%s.weight", network_head(e->model));
    for (int i = 0; file && i < haul_safetensors_count(file); i++) {
        haul_file_tensor entry;
        if (!haul_safetensors_entry(file, i, &entry) && !strcmp(entry.name, name) && entry.shape.ndim)
            return entry.shape.dims[0];
    }
    if (file)
        complain("%s has no tensor %s", e->weights, name);
    else
        complain_error();
    return 0;
}

static bool describe_data(exporter *e)
{
    const data_task task = network_task(e->model);
    const bool      own = !strcmp(e->model, NETWORK_ONNX); /* it knows its outputs */
    const int64_t   classes = own ? 1 : task == TASK_ANSWER ? count_outputs(e) : cJSON_GetArraySize(e->classes);
    const int64_t  *sides = e->input.shape.dims + 1;
    e->spec.x = (haul_field){.name = "x", .dtype = HAUL_F32, .shape = e->input.shape};
    e->spec.y = (haul_field){.name = "y", .dtype = HAUL_I64, .shape = HAUL_SCALAR_SHAPE, .classes = classes};
    if (task == TASK_TOKENS) {
        e->spec.x.dtype = HAUL_I64;
        e->spec.x.classes = classes;
        e->spec.y.shape = e->input.shape;
    } else if (task == TASK_PIXELS) {
        e->spec.y.shape = HAUL_SHAPE(sides[0], sides[1]);
    }
    return classes > 0;
}

static bool open_network(exporter *e)
{
    const network_sizes sizes = {.layers = stored_whole(e, "layers"),
                                 .features = stored_whole(e, "features"),
                                 .heads = stored_whole(e, "heads"),
                                 .file = e->run.model};
    e->net = network_new(e->model, &sizes, &e->spec);
    if (e->net && !haul_load_weights(e->weights, e->net))
        return true;
    complain_error();
    return false;
}

/* ---- the model ---- */

static haul_tensor *example(const exporter *e)
{
    haul_shape shape = {.ndim = e->input.shape.ndim + 1};
    shape.dims[0] = e->o->batch ? e->o->batch : 1;
    memcpy(shape.dims + 1, e->input.shape.dims, (size_t)e->input.shape.ndim * sizeof *shape.dims);
    return haul_empty(network_task(e->model) == TASK_TOKENS ? HAUL_I64 : HAUL_F32, shape);
}

static bool save(const exporter *e)
{
    if (!haul_save_onnx(e->path, e->net, example(e), .opset = (int)e->o->opset, .dynamic = !e->o->batch))
        return true;
    complain_error();
    return false;
}

static void print_export(const exporter *e)
{
    char batch[32];
    snprintf(batch, sizeof batch, "%lld", (long long)e->o->batch);
    print_visible(e->path, 0);
    printf(": %s with ", e->model);
    print_visible(e->weights, 0);
    printf(", opset %lld, batch of %s\n", (long long)e->o->opset, e->o->batch ? batch : "any size");
    printf("input: one example is %s %s", network_task(e->model) == TASK_TOKENS ? "i64" : "f32",
           text_shape(&e->input.shape));
    if (e->input.deviation > 0)
        printf(", each byte of a picture as (byte / 255 - %g) / %g", e->input.mean, e->input.deviation);
    printf("\n");
}

/* ---- the command ---- */

static int export_run(const export_options *o)
{
    exporter e = {.o = o, .path = o->operands.items[1]};
    haul_set_grad_enabled(false);
    const bool done =
        device_use("cpu") && open_run(&e) && choose_weights(&e) && describe_data(&e) && open_network(&e) && save(&e);
    if (done)
        print_export(&e);
    cJSON_Delete(e.stored);
    cJSON_Delete(e.classes);
    run_close(&e.run);
    return done && output_works() ? EXIT_OK : EXIT_FAILED;
}

static const option export_rows[] = {
    {.group = "Options",
     .name = "batch",
     OPTION_INTEGER_AT(export_options, batch),
     .argument = "N",
     .help = "The number of examples that the model takes at a time; dynamic: any",
     .initial = "dynamic",
     .word = "dynamic",
     .low = 1,
     .high = 1e6},
    {.group = "Options",
     .name = "opset",
     OPTION_INTEGER_AT(export_options, opset),
     .argument = "N",
     .help = "The set of ONNX's operators",
     .initial = "22",
     .low = 18,
     .high = 28},
    {.group = "Options",
     .name = "weights",
     OPTION_TEXT_AT(export_options, weights),
     .argument = "WHICH",
     .help = "The weights of the best epoch or of the last one. Without it the best, if the run has them",
     .choices = OPTION_CHOICES("best", "last")}};

static int export_main(int argc, char **argv)
{
    export_options o = {0};
    option_values  values;
    int            code = options_parse(&values, &export_command, &o, argc, argv);
    if (code < 0 && o.operands.count != 2) {
        complain("two names are expected, DIR and FILE: haul export runs/first first.onnx");
        code = EXIT_USAGE;
    }
    if (code >= 0)
        return code;
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return complain_error();
    code = export_run(&o);
    haul_scope_pop(scope);
    return code;
}

static const help_example export_lines[] = {
    {"haul export runs/first first.onnx", NULL},
    {"haul export runs/first first.onnx --batch 1 --opset 20", "for a program that knows older operators"},
    {NULL, NULL}};

const command export_command = {
    .name = "export",
    .summary = "Write the network of a run as an ONNX model",
    .usage = "[OPTION...] DIR FILE",
    .description = "Writes the trained network in the folder of a run as an ONNX model, which haul run and other "
                   "programs run. The model takes examples in the form in which the network met them in the training; "
                   "the command prints that form.",
    .options = export_rows,
    .option_count = sizeof export_rows / sizeof *export_rows,
    .operand = {.name = "DIR FILE",
                .help = "The folder of the run, and the model to write",
                .offset = offsetof(export_options, operands),
                .several = true,
                .required = true,
                .complete = COMPLETE_FILE},
    .examples = export_lines,
    .run = export_main,
};

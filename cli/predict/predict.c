/* haul predict: a trained network on data, or on single pictures. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/model/answer.h"
#include "cli/model/classes.h"
#include "cli/model/confusion.h"
#include "cli/model/network.h"
#include "cli/options/commands.h"
#include "cli/predict/continuation.h"
#include "cli/predict/mask_file.h"
#include "cli/predict/predictor.h"
#include "cli/predict/trace.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"

/* The network's logits for x, [1, ...] on the CPU. The first call is traced if that was asked for. NULL with the
 * library's error. */
static haul_tensor *ask(const predictor *p, haul_tensor *x)
{
    const predict_options *o = p->options;
    haul_tensor           *logits = o->trace ? trace_call(p->net, x, p->device, o->json)
                                             : haul_to(haul_call(p->net, haul_to(x, p->device)), haul_cpu());
    if (!logits || haul_tensor_check(logits))
        return NULL;
    if (o->trace && !o->json)
        putchar('\n');
    return logits;
}

static void print_weights(const predictor *p)
{
    if (p->options->json)
        return;
    char text[4096];
    snprintf(text, sizeof text, "%s%s", p->weights, p->best ? " (the best epoch)" : "");
    printf("weights  ");
    print_wrapped(text, 9, 9);
}

/* ---- single pictures ---- */

static bool print_picture(const predictor *p, const char *path, const answer *a, int name_width)
{
    if (!p->options->json) {
        answer_print(a, p->classes, path, name_width);
        return output_works();
    }
    cJSON *event = json_event("prediction");
    json_text(event, "source", path);
    answer_to_json(a, p->classes, event);
    return json_print(event);
}

static void complain_picture(const char *path)
{
    struct stat status;
    if (!stat(path, &status) && S_ISDIR(status.st_mode))
        complain("%s is a folder; name pictures in it, as in %s/*.jpg, or give --data images:%s if it has a folder for "
                 "each class",
                 path, path, path);
    else
        complain_error();
}

static bool predict_picture(const predictor *p, const char *path, int name_width)
{
    answer       a;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = scope ? predictor_picture(p, path) : NULL, *logits = x ? ask(p, x) : NULL;
    bool         done = logits && !answer_read(&p->spec, logits, (int)p->options->top, &a);
    if (!done)
        complain_picture(path);
    done = done && (!p->options->masks || mask_file_write(p, path, logits));
    haul_scope_pop(scope);
    if (done)
        return print_picture(p, path, &a, name_width);
    haul_error_clear();
    return false;
}

/* Columns for names: those of the longest, but no more than a third of the line. */
static int width_of_names(const operand_list *pictures)
{
    int widest = 0, most = output_room() / 3;
    for (int i = 0; i < pictures->count; i++) {
        int columns = text_columns(pictures->items[i]);
        widest = columns > widest ? columns : widest;
    }
    return widest < most ? widest : most;
}

/* How many pictures were left out, if there were others. */
static bool print_left_out(const predictor *p, int left_out)
{
    const int count = p->options->pictures.count;
    if (!left_out || count < 2)
        return true;
    if (!p->options->json) {
        printf("%d of %d pictures %s left out\n", left_out, count, left_out == 1 ? "was" : "were");
        return true;
    }
    cJSON *event = json_event("left_out");
    json_number(event, "pictures", left_out);
    json_number(event, "of", count);
    return json_print(event);
}

/* Those that cannot be read are named and counted, and the others are answered. */
static bool predict_pictures(const predictor *p)
{
    const operand_list *pictures = &p->options->pictures;
    int                 name_width = width_of_names(pictures), left_out = 0;
    print_weights(p);
    for (int i = 0; i < pictures->count && output_works(); i++)
        left_out += !predict_picture(p, pictures->items[i], name_width);
    return output_works() && print_left_out(p, left_out) && !left_out;
}

/* ---- examples of a dataset ---- */

static haul_status wanted_class(const predictor *p, haul_tensor *y, int *out)
{
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    *out = p->spec.y.dtype == HAUL_I64 ? (int)haul_item_i64(y)
                                       : haul_item(haul_select(haul_reshape(y, HAUL_SHAPE(-1)), 0, 0)) > 0.5;
    haul_scope_pop(scope);
    return haul_error_status();
}

/* In at least 12 columns. */
static int class_columns(const char *name)
{
    const int columns = text_columns(name);
    return columns < 12 ? 12 : columns;
}

/* A row, or a sentence where a narrow terminal has no room for both names. */
static void print_answer(int64_t index, const char *predicted, const char *percent, const char *name, bool right)
{
    enum { OTHERS = 34 };
    char text[512];
    if (output_room() < OTHERS + class_columns(predicted) + class_columns(name)) {
        snprintf(text, sizeof text, "example %" PRId64 ": %s, %s; is %s: %s", index, predicted, percent, name,
                 right ? "right" : "wrong");
        print_wrapped(text, 0, 2);
        return;
    }
    printf("example %-6" PRId64 " ", index);
    print_visible(predicted, class_columns(predicted));
    printf("  %5s  is ", percent);
    print_visible(name, class_columns(name));
    printf("  ");
    set_style(right ? STYLE_GOOD : STYLE_BAD);
    printf("%s", right ? "right" : "wrong");
    set_style(STYLE_PLAIN);
    putchar('\n');
}

static bool print_example(const predictor *p, int64_t index, const answer *a, int wanted)
{
    const char *predicted = answer_name(p->classes, a->top[0].index), *name = answer_name(p->classes, wanted);
    bool        right = a->top[0].index == wanted;
    if (!p->options->json) {
        print_answer(index, predicted, answer_percent(a->top[0].probability), name, right);
        return true;
    }
    cJSON *event = json_event("prediction");
    json_text(event, "source", haul_dataset_name(p->data));
    json_number(event, "index", (double)index);
    answer_to_json(a, p->classes, event);
    json_text(event, "predicted", predicted);
    json_text(event, "label", name);
    json_bool(event, "right", right);
    return json_print(event);
}

/* One example of a class or value. */
static bool predict_answer(const predictor *p, const haul_batch *batch, int64_t index)
{
    answer       a;
    int          wanted = 0;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *logits = scope ? ask(p, batch->x) : NULL;
    bool         done =
        logits && !answer_read(&p->spec, logits, (int)p->options->top, &a) && !wanted_class(p, batch->y, &wanted);
    haul_scope_pop(scope);
    return done && print_example(p, index, &a, wanted);
}

static bool print_share(const predictor *p, int64_t index, int64_t hits, int64_t answers)
{
    const double accuracy = (double)hits / (double)answers;
    if (!p->options->json) {
        printf("example %-6lld %5.1f %% of %s %s right\n", (long long)index, 100 * accuracy, text_count(answers),
               source_task(&p->spec) == TASK_TOKENS ? "characters" : "pixels");
        return true;
    }
    cJSON *event = json_event("prediction");
    json_text(event, "source", haul_dataset_name(p->data));
    json_number(event, "index", (double)index);
    json_number(event, "accuracy", accuracy);
    json_number(event, "answers", (double)answers);
    return json_print(event);
}

/* One example with a class for each pixel or character: how many are right. */
static bool predict_share(const predictor *p, const haul_batch *batch, int64_t index)
{
    int64_t      hits = 0;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *logits = scope ? ask(p, batch->x) : NULL;
    if (logits)
        hits = haul_item_i64(network_hits(&p->spec, logits, batch->y));
    haul_scope_pop(scope);
    return logits && !haul_error_status() && print_share(p, index, hits, network_answers(batch->y));
}

/* Examples from --index on, one at a time. */
static bool predict_examples(const predictor *p)
{
    const predict_options *o = p->options;
    haul_loader           *loader = haul_loader_new(p->data, .batch = 1, .device = haul_cpu());
    if (!loader || haul_loader_start_at(loader, 0, o->index)) {
        complain_error();
        return false;
    }
    print_weights(p);
    const bool one = source_task(&p->spec) == TASK_ANSWER;
    for (int64_t i = 0; i < (o->trace ? 1 : o->count); i++) {
        const haul_batch *batch = haul_loader_next(loader);
        if (!batch || !(one ? predict_answer : predict_share)(p, batch, o->index + i))
            break;
    }
    if (!output_works())
        return false;
    if (haul_error_status()) {
        complain_error();
        return false;
    }
    return true;
}

/* ---- all of a dataset ---- */

static bool print_summary(const predictor *p, const confusion *c, const network_score *score)
{
    const char *name = haul_dataset_name(p->data), *device = haul_device_name(p->device);
    int64_t     count = haul_dataset_count(p->data);
    if (!p->options->json) {
        putchar('\n');
        confusion_print(c, p->classes);
        const char *part = *p->part && !strstr(name, p->part) ? p->part : "";
        char        text[512], iou[32] = "";
        if (source_task(&p->spec) == TASK_PIXELS)
            snprintf(iou, sizeof iou, "mean IoU %.3f, ", confusion_mean_iou(c));
        snprintf(text, sizeof text, "%s%s%s%s, all %s examples on %s: accuracy %.1f %%, %sloss %.3f", name,
                 *part ? ", the " : "", part, *part ? " part" : "", text_count(count), device, 100 * score->accuracy,
                 iou, score->loss);
        printf("%s", c->classes ? "\n" : "");
        print_wrapped(text, 0, 0);
        return output_works();
    }
    cJSON *event = json_event("summary");
    json_text(event, "data", name);
    if (*p->part)
        json_text(event, "split", p->part);
    json_text(event, "device", device);
    json_text(event, "weights", p->best ? "best" : "last");
    json_number(event, "examples", (double)count);
    json_number(event, "accuracy", score->accuracy);
    if (source_task(&p->spec) == TASK_PIXELS)
        json_number(event, "mean_iou", confusion_mean_iou(c));
    json_number(event, "loss", score->loss);
    confusion_to_json(c, p->classes, event);
    return json_print(event);
}

typedef struct counting {
    confusion        confusion;
    const data_spec *spec;
} counting;

static haul_status count_batch(haul_tensor *logits, haul_tensor *y, void *context)
{
    counting *c = context;
    return confusion_add(&c->confusion, c->spec, logits, y);
}

static bool predict_all(const predictor *p)
{
    network_score score = {0};
    counting      c = {.spec = &p->spec};
    network_watch watch = {.see = count_batch, .context = &c};
    haul_loader  *loader = haul_loader_new(p->data, .batch = p->options->batch, .workers = 2, .device = p->device);
    bool          done = false;
    if (!confusion_init(&c.confusion, &p->spec))
        complain("memory is exhausted");
    else if (!loader || network_evaluate(p->net, &p->spec, loader, &watch, &score))
        complain_error();
    else
        done = print_summary(p, &c.confusion, &score);
    confusion_free(&c.confusion);
    return done;
}

/* ---- the command ---- */

/* Complains of an option that was given and is for something else than was asked. */
static bool refuse(const option_values *values, const char *const *names, const char *why)
{
    for (; *names; names++)
        if (option_given(values, *names)) {
            complain("--%s %s", *names, why);
            return true;
        }
    return false;
}

/* An exit code, or -1. */
static int check(const option_values *values, const predict_options *o)
{
    static const char *const of_data[] = {"data", "split", "index", "count", "batch", NULL};
    static const char *const of_prompts[] = {"length", "temperature", "seed", NULL};
    if (o->prompt && (refuse(values, of_data, "is for data, and --prompt continues a text; give one or the other") ||
                      refuse(values, (const char *const[]){"trace", "top", "masks", NULL},
                             "is for pictures and data, and --prompt continues a text; give one or the other")))
        return EXIT_USAGE;
    if (o->prompt && o->pictures.count) {
        complain("a picture and --prompt were given; give one or the other");
        return EXIT_USAGE;
    }
    if (!o->prompt &&
        refuse(values, of_prompts, "is for texts that are continued; give --prompt TEXT, or leave it out"))
        return EXIT_USAGE;
    if (o->masks && !o->pictures.count) {
        complain("--masks writes the masks of pictures; name some");
        return EXIT_USAGE;
    }
    if (!o->pictures.count)
        return -1;
    if (refuse(values, of_data, "is for data, and pictures are named as well; give one or the other"))
        return EXIT_USAGE;
    if (o->trace && o->pictures.count > 1) {
        complain("--trace follows one picture; name only one");
        return EXIT_USAGE;
    }
    return -1;
}

static int predict(const predict_options *o)
{
    predictor p;
    bool      done = predictor_open(&p, o);
    if (done && o->prompt)
        done = continue_prompt(&p);
    else if (done && o->pictures.count)
        done = predict_pictures(&p);
    else if (done)
        done = predict_examples(&p) && (o->trace || predict_all(&p));
    predictor_close(&p);
    return done ? EXIT_OK : EXIT_FAILED;
}

static const option predict_rows[] = {
    {.group = "Input",
     .name = "run",
     OPTION_TEXT_AT(predict_options, run),
     .argument = "DIR",
     .help = "The folder of a run",
     .complete = COMPLETE_FOLDER,
     .flags = OPTION_REQUIRED},
    {.group = "Input",
     .name = "data",
     OPTION_TEXT_AT(predict_options, data),
     .argument = "SOURCE",
     .help = "Data; by default the data of the run: " SOURCE_HELP,
     .complete = COMPLETE_SOURCE},
    {.group = "Input",
     .name = "split",
     OPTION_TEXT_AT(predict_options, split),
     .argument = "NAME",
     .help = "Which part of the data; by default the test part or, if there is none, the validation part",
     .choices = OPTION_CHOICES("test", "validation", "train")},
    {.group = "Input",
     .name = "index",
     OPTION_INTEGER_AT(predict_options, index),
     .argument = "N",
     .help = "The first example to show",
     .initial = "0",
     .low = 0,
     .high = 1e15},
    {.group = "Input",
     .name = "count",
     OPTION_INTEGER_AT(predict_options, count),
     .argument = "N",
     .help = "How many examples to show",
     .initial = "10",
     .low = 1,
     .high = 1e15},
    {.group = "Input",
     .name = "prompt",
     OPTION_TEXT_AT(predict_options, prompt),
     .argument = "TEXT",
     .help = "The beginning of a text, which a network that was trained on texts continues"},
    {.group = "Network",
     .name = "weights",
     OPTION_TEXT_AT(predict_options, weights),
     .argument = "NAME",
     .help =
         "Which weights to use: best (of the lowest measured loss) or last; best unless given, or last where no best "
         "were saved",
     .choices = OPTION_CHOICES("best", "last")},
    {.group = "Computing",
     .name = "device",
     OPTION_TEXT_AT(predict_options, device),
     .argument = "SPEC",
     .help = DEVICE_HELP,
     .initial = "auto",
     .complete = COMPLETE_DEVICE},
    {.group = "Computing",
     .name = "batch",
     OPTION_INTEGER_AT(predict_options, batch),
     .argument = "N",
     .help = "Examples in a mini-batch when the accuracy is measured",
     .initial = "64",
     .low = 1,
     .high = 1e6},
    {.group = "Output",
     .name = "top",
     OPTION_INTEGER_AT(predict_options, top),
     .argument = "N",
     .help = "How many classes to show for each picture",
     .initial = "3",
     .low = 1,
     .high = ANSWER_MOST},
    {.group = "Output",
     .name = "masks",
     OPTION_TEXT_AT(predict_options, masks),
     .argument = "DIR",
     .help = "Write the classes of the pixels of each picture into this folder, as NAME.png with a grey value for each "
             "pixel, in the size that the network was trained on",
     .complete = COMPLETE_FOLDER},
    {.group = "Output",
     .name = "length",
     OPTION_INTEGER_AT(predict_options, length),
     .argument = "N",
     .help = "How many characters follow --prompt",
     .initial = "200",
     .low = 1,
     .high = 1e6},
    {.group = "Output",
     .name = "temperature",
     OPTION_NUMBER_AT(predict_options, temperature),
     .argument = "X",
     .help = "What the logits of the characters are divided by before one is drawn: less than 1 prefers the probable "
             "ones, and 0 takes the most probable one",
     .initial = "1",
     .low = 0,
     .high = 1000},
    {.group = "Output",
     .name = "seed",
     OPTION_INTEGER_AT(predict_options, seed),
     .argument = "N",
     .help = "Seed of the characters that are drawn: the same seed gives the same text",
     .initial = "0",
     .low = 0,
     .high = 9007199254740991.0},
    {.group = "Output",
     .name = "trace",
     OPTION_FLAG_AT(predict_options, trace),
     .help = "Follow one example to the device, through each layer and back, with the shape, time and values at each "
             "stage"},
    {.group = "Output", .name = "json", OPTION_FLAG_AT(predict_options, json), .help = JSON_HELP},
};

static int predict_main(int argc, char **argv)
{
    predict_options o = {0};
    option_values   values;
    int             code = options_parse(&values, &predict_command, &o, argc, argv);
    if (code < 0)
        code = check(&values, &o);
    if (code >= 0)
        return code;
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return complain_error();
    code = predict(&o);
    haul_scope_pop(scope);
    return code;
}

static const help_example predict_lines[] = {
    {"haul predict --run runs/first cat.jpg dog.png", "the most probable classes of two pictures"},
    {"haul predict --run runs/first", "the accuracy on the test data of the run"},
    {"haul predict --run runs/first --data images:more", "the accuracy on other data that has the same classes"},
    {"haul predict --run runs/first --data cifar10:elsewhere --index 5 --trace", NULL},
    {"haul predict --run runs/book --prompt 'It was '", "a text that begins like this"},
    {"haul predict --run runs/streets --masks marked a.jpg", "its classes as marked/a.png"},
    {NULL, NULL}};

const command predict_command = {
    .name = "predict",
    .summary = "Classify pictures, continue a text, or measure accuracy",
    .usage = "--run DIR [OPTION...] [PICTURE...]",
    .description =
        "Runs a trained network. For pictures it shows the most probable classes or, of a network that marks pixels, "
        "those with the most pixels. For data it shows some "
        "predictions; then, over all examples, the accuracy for each class and the classes that are confused. --trace "
        "shows how one example passes through the network. --prompt shows how a network that was trained on a text "
        "continues one. Pictures are resized to the size that the network was "
        "trained on.",
    .options = predict_rows,
    .option_count = sizeof predict_rows / sizeof *predict_rows,
    .operand = {.name = "PICTURE",
                .help = "JPEG or PNG files",
                .offset = offsetof(predict_options, pictures),
                .several = true,
                .complete = COMPLETE_FILE},
    .examples = predict_lines,
    .run = predict_main,
};

/* haul compare: the first operation of a training step whose results differ between two ways to compute it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/compare/difference.h"
#include "cli/compare/side.h"
#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"
#include "core/shape.h"
#include "files/descriptor.h"

typedef struct compare_options {
    one_step    step;
    const char *a, *b;
    bool        json;
} compare_options;

/* A process that makes the step. */
typedef struct child {
    const char *name; /* "a" */
    side_spec   spec;
    pid_t       pid;
    int         fd;
    side_record record;
    void       *data; /* of the record */
    size_t      room;
} child;

/* ---- processes ---- */

#define SIDE_VARIABLE "HAUL_COMPARE_SIDE"
#define FILE_VARIABLE "HAUL_COMPARE_FD"

/* In the new process. The side begins with main, so that it chooses its instructions before it computes. */
static void become_side(const child *c, int fd, char **argv)
{
    char number[24];
    snprintf(number, sizeof number, "%d", fd);
    if (fcntl(fd, F_SETFD, 0) || setenv(SIDE_VARIABLE, c->name, 1) || setenv(FILE_VARIABLE, number, 1) ||
        (*c->spec.level && setenv("HAUL_CPU_LEVEL", c->spec.level, 1)))
        _exit(EXIT_FAILED);
    const char *path = *c->spec.library ? c->spec.library : "/proc/self/exe";
    execv(path, argv);
    complain("--%s: %s cannot be run: %s", c->name, path, strerror(errno));
    _exit(EXIT_FAILED);
}

static bool start(child *c, char **argv)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) {
        complain("no pipe can be made: %s", strerror(errno));
        return false;
    }
    fflush(stdout);
    c->pid = fork();
    if (c->pid == 0)
        become_side(c, ends[1], argv);
    close(ends[1]);
    c->fd = ends[0];
    if (c->pid < 0)
        complain("no process can be started: %s", strerror(errno));
    return c->pid > 0;
}

/* A side that has not ended is ended. True if it made its step. */
static bool finish(child *c, bool at_end)
{
    int status = 0;
    if (c->fd >= 0)
        close(c->fd);
    if (c->pid <= 0)
        return false;
    if (!at_end)
        kill(c->pid, SIGKILL);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    free(c->data);
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_OK;
}

/* ---- records ---- */

/* What only one side may do: conversions, and operations that are parts of others. */
static bool may_be_skipped(const side_record *r)
{
    static const char *const names[] = {"haul_cast", "haul_to", "haul_contiguous", "haul_to_format", "haul_to_order"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(r->name, names[i]))
            return true;
    return r->depth > 0 && !r->is_end;
}

static bool next_record(child *c)
{
    if (!haul__read_all(c->fd, &c->record, sizeof c->record))
        return false;
    if (c->record.is_end)
        return true;
    const size_t bytes = (size_t)c->record.bytes;
    if (bytes > c->room) {
        void *grown = realloc(c->data, bytes);
        if (!grown)
            return complain("memory is exhausted"), false;
        c->data = grown;
        c->room = bytes;
    }
    return haul__read_all(c->fd, c->data, bytes);
}

static bool skip(child *c, const side_record *other)
{
    while (may_be_skipped(&c->record) && strcmp(c->record.name, other->name) != 0)
        if (!next_record(c))
            return false;
    return true;
}

/* The next operation of both sides. */
static bool next_pair(child *a, child *b)
{
    return next_record(a) && next_record(b) && skip(a, &b->record) && skip(b, &a->record) && skip(a, &b->record);
}

/* ---- promises ---- */

static bool is_cpu(const side_spec *s)
{
    return !strcmp(s->device, "cpu");
}

/* The device without its number. */
static size_t kind_length(const char *device)
{
    return strcspn(device, ":");
}

/* True if docs/decisions/019 promises bit-identical results. It does not between kinds of devices, levels, dtypes and
 * builds.
 */
static bool same_bits_promised(const side_spec *a, const side_spec *b)
{
    const size_t kind = kind_length(a->device);
    return kind == kind_length(b->device) && !strncmp(a->device, b->device, kind) && !strcmp(a->dtype, b->dtype) &&
           (!strcmp(a->level, b->level) || !is_cpu(a)) && !strcmp(a->library, b->library);
}

static bool is_half(const side_spec *s)
{
    return *s->dtype && strcmp(s->dtype, "f32") != 0;
}

/* The difference in relation to a tensor's norm that rounding may make in a step. */
static double rounding_of(const side_spec *a, const side_spec *b)
{
    if (same_bits_promised(a, b))
        return 0;
    return is_half(a) || is_half(b) ? 0.3 : 0.01;
}

/* Where rounding is allowed, indices of equal maxima may differ. */
static bool counts(const child *a, const difference *d, double rounding)
{
    if (!d->count)
        return false;
    return rounding == 0 || (d->share > rounding && haul_dtype_is_float(a->record.dtype));
}

/* ---- results ---- */

typedef struct comparison {
    int64_t     operations;
    bool        found, parted; /* parted: the sides make other operations from here on */
    side_record first;         /* of side a */
    char        other[64];     /* the operation of side b */
    difference  difference;
} comparison;

/* Element 17 of [4, 10] is [1, 7]. */
static int index_of(const side_record *r, int64_t element, int64_t *index)
{
    for (int d = r->shape.ndim - 1; d >= 0; d--) {
        index[d] = element % r->shape.dims[d];
        element /= r->shape.dims[d];
    }
    return r->shape.ndim;
}

static bool print_json(const comparison *c)
{
    int64_t index[HAUL_MAX_DIMS];
    cJSON  *object = cJSON_CreateObject();
    json_number(object, "operations", (double)c->operations);
    if (!c->found) {
        cJSON_AddNullToObject(object, "first");
        return json_print(object);
    }
    cJSON *first = json_object(object, "first");
    json_text(first, "name", c->first.name);
    json_text(first, "module", c->first.module);
    json_number(first, "ulp", c->parted ? NAN : c->difference.ulp);
    cJSON *array = json_array(first, "index");
    for (int i = 0, n = c->parted ? 0 : index_of(&c->first, c->difference.element, index); i < n; i++)
        json_push(array, cJSON_CreateNumber((double)index[i]));
    json_number(first, "operation", (double)c->first.operation);
    json_number(first, "differing", (double)c->difference.count);
    json_number(first, "a", c->difference.a);
    json_number(first, "b", c->difference.b);
    return json_print(object);
}

static void print_first(const comparison *c)
{
    char        text[600];
    int64_t     index[HAUL_MAX_DIMS], count = 1;
    haul_shape  at = {.ndim = 0};
    const char *module = *c->first.module ? c->first.module : "no module";
    for (int i = 0; i < c->first.shape.ndim; i++)
        count *= c->first.shape.dims[i];
    if (c->parted) {
        snprintf(text, sizeof text, "the sides part at operation %" PRId64 ": %s (%s) and %s", c->first.operation,
                 c->first.name, module, c->other);
        print_wrapped(text, 0, 2);
        return;
    }
    at.ndim = index_of(&c->first, c->difference.element, index);
    for (int i = 0; i < at.ndim; i++)
        at.dims[i] = index[i];
    snprintf(text, sizeof text, "first difference: operation %" PRId64 " of %" PRId64 ", %s (%s)", c->first.operation,
             c->operations, c->first.name, module);
    print_wrapped(text, 0, 2);
    snprintf(text, sizeof text, "element %s of %s: %.9g and %.9g, %.6g ULP; %s of %s elements differ", text_shape(&at),
             text_shape(&c->first.shape), c->difference.a, c->difference.b, c->difference.ulp,
             text_count(c->difference.count), text_count(count));
    print_wrapped(text, 0, 2);
}

static bool print_text(const compare_options *o, const comparison *c, double rounding)
{
    char text[800];
    if (c->found) {
        print_first(c);
        return output_works();
    }
    snprintf(text, sizeof text, "%s operations of a training step of %s: %s on %s and %s", text_count(c->operations),
             o->step.model ? o->step.model : o->step.run, rounding > 0 ? "the same but for rounding" : "bit-identical",
             o->a, o->b);
    print_wrapped(text, 0, 2);
    return output_works();
}

/* ---- the whole ---- */

static bool greet(child *c)
{
    side_hello       hello;
    const side_hello expected = side_hello_now();
    if (!haul__read_all(c->fd, &hello, sizeof hello))
        return false; /* it has complained */
    if (!memcmp(&hello, &expected, sizeof hello))
        return true;
    complain("--%s: the other build's haul compare has another format", c->name);
    return false;
}

/* False if a side has failed. After the first difference the rest is only counted. */
static bool read_all(child *a, child *b, double rounding, comparison *c)
{
    if (!greet(a) || !greet(b))
        return false;
    for (;;) {
        if (!(c->parted ? next_record(a) : next_pair(a, b)))
            return false;
        if (a->record.is_end)
            break;
        c->parted = c->parted || b->record.is_end || strcmp(a->record.name, b->record.name) != 0 ||
                    !haul__shape_equal(&a->record.shape, &b->record.shape);
        if (c->found)
            continue;
        if (!c->parted)
            c->difference = difference_of(&a->record, a->data, &b->record, b->data);
        c->found = c->parted || counts(a, &c->difference, rounding);
        c->first = a->record;
        snprintf(c->other, sizeof c->other, "%s", b->record.is_end ? "its end" : b->record.name);
    }
    c->operations = a->record.operation;
    if (!c->found && !b->record.is_end) {
        c->found = c->parted = true;
        snprintf(c->first.name, sizeof c->first.name, "its end");
        snprintf(c->other, sizeof c->other, "%s", b->record.name);
    }
    while (!b->record.is_end)
        if (!next_record(b))
            return false;
    return true;
}

static void name_dtype(side_spec *s)
{
    if (!*s->dtype)
        snprintf(s->dtype, sizeof s->dtype, "f32");
}

static int compare(const compare_options *o, char **argv)
{
    child      a = {.name = "a", .fd = -1}, b = {.name = "b", .fd = -1};
    comparison c = {.operations = 0};
    if (!spec_parse(o->a, "a", &a.spec) || !spec_parse(o->b, "b", &b.spec))
        return EXIT_USAGE;
    if (o->step.model) { /* the dtype of a model unless it is given */
        name_dtype(&a.spec);
        name_dtype(&b.spec);
    }
    const double rounding = rounding_of(&a.spec, &b.spec);
    const bool   worked = start(&a, argv) && start(&b, argv) && read_all(&a, &b, rounding, &c);
    const bool   a_ended = finish(&a, worked), b_ended = finish(&b, worked);
    if (!worked || !a_ended || !b_ended)
        return EXIT_FAILED;
    if (!(o->json ? print_json(&c) : print_text(o, &c, rounding)))
        return EXIT_FAILED;
    return c.found ? EXIT_FAILED : EXIT_OK;
}

/* The process of a side has the same arguments, and two variables. */
static int compare_side(const compare_options *o, const char *name)
{
    side_spec   spec;
    one_step    step = o->step;
    const char *file = getenv(FILE_VARIABLE), *text = !strcmp(name, "b") ? o->b : o->a;
    if (!file || !spec_parse(text, name, &spec))
        return EXIT_FAILED;
    step.device = spec.device;
    step.precision = *spec.dtype ? spec.dtype : NULL;
    step.threads = spec.threads;
    return side_run(&step, atoi(file));
}

static int check(const compare_options *o)
{
    if (one_step_is_named(&o->step, ONE_STEP_BOTH, "--model NAME, such as simplecnn, or --run DIR"))
        return -1;
    return EXIT_USAGE;
}

static const option compare_rows[] = {
    ONE_STEP_MODEL_ROW("The step", compare_options, "NAME"),
    ONE_STEP_RUN_ROW("The step", compare_options, "The first step"),
    ONE_STEP_BATCH_ROW("The step", compare_options),
    {.group = "The sides",
     .name = "a",
     OPTION_TEXT_AT(compare_options, a),
     .argument = "SIDE",
     .help = SPEC_HELP,
     .complete = COMPLETE_DEVICE,
     .flags = OPTION_REQUIRED},
    {.group = "The sides",
     .name = "b",
     OPTION_TEXT_AT(compare_options, b),
     .argument = "SIDE",
     .help = "The other side, likewise",
     .complete = COMPLETE_DEVICE,
     .flags = OPTION_REQUIRED},
    {.group = "Output",
     .name = "json",
     OPTION_FLAG_AT(compare_options, json),
     .help = "Print one JSON object instead: operations, and first, which is null or the first difference"}};

static int compare_main(int argc, char **argv)
{
    compare_options o = {0};
    option_values   values;
    const char     *side = getenv(SIDE_VARIABLE);
    int             code = options_parse(&values, &compare_command, &o, argc, argv);
    if (code < 0)
        code = check(&o);
    if (code >= 0)
        return code;
    o.step.batch_given = option_given(&values, "batch");
    if (side)
        return compare_side(&o, side);
    char **whole = calloc((size_t)argc + 2, sizeof *whole); /* with the name of the program */
    if (!whole)
        return complain("memory is exhausted");
    whole[0] = (char[]){"haul"};
    memcpy(whole + 1, argv, (size_t)argc * sizeof *whole);
    code = compare(&o, whole);
    free(whole);
    return code;
}

static const help_example compare_lines[] = {
    {"haul compare --model simplecnn --a cpu --b cpu,threads=1", NULL},
    {"haul compare --model resnet18 --batch 8 --a cpu --b gpu", NULL},
    {"haul compare --run runs/first --a cpu,level=v3 --b cpu,level=base --json", NULL},
    {NULL, NULL}};

const command compare_command = {
    .name = "compare",
    .summary = "Find the first operation that two devices compute differently",
    .usage = "(--model NAME | --run DIR) --a SIDE --b SIDE [OPTION...]",
    .description =
        "Makes the first step of a training on two sides, in a process each, and compares what each operation "
        "computes, "
        "bit by bit. Names the first operation that differs, with its module and the element that differs most. Where "
        "sides are of different kinds of devices, instruction levels, dtypes or builds, differences by rounding are "
        "allowed: a hundredth of a tensor's norm, and 0.3 of it with tf32, bf16 and f16. The exit status is 0 if "
        "nothing differs, otherwise 1.",
    .options = compare_rows,
    .option_count = sizeof compare_rows / sizeof *compare_rows,
    .examples = compare_lines,
    .run = compare_main,
};

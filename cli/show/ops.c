/* haul ops: the operations of the library, how they are called, what they take and give; and the modules. */
#include <stdlib.h>
#include <string.h>

#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"
#include "cli/show/calls.h"

enum { PREFIX = 5 /* "haul_" */, TEXT = 256, LEAST_DESCRIPTION = 30 /* columns */ };

static const char *short_name(const haul_operation_info *info)
{
    return info->name + PREFIX;
}

/* ---- texts ---- */

static void append(char *text, const char *word, const char *before, const char *after)
{
    size_t used = strlen(text);
    snprintf(text + used, TEXT - used, "%s%s%s%s", used ? " " : "", before, word, after);
}

/* Appends "x weight [bias]"; a variadic operand is "xs..." */
static const char *add_operands(const haul_operation_info *info, char *text)
{
    for (int i = 0; i < info->operand_count; i++) {
        bool optional = info->operands[i].optional;
        append(text, info->operands[i].name, optional ? "[" : "", optional ? "]" : info->variadic ? "..." : "");
    }
    return text;
}

static const char *results_text(const haul_operation_info *info, char *text)
{
    *text = 0;
    for (int i = 0; i < info->result_count; i++)
        append(text, info->results[i], "", "");
    return text;
}

/* Few operations have u16, u32 and u64: a + stands for these. */
static bool is_unsigned(haul_dtype dtype)
{
    return dtype == HAUL_U16 || dtype == HAUL_U32 || dtype == HAUL_U64;
}

static bool is_any(haul_dtype dtype)
{
    return dtype != HAUL_DTYPE_NONE && !is_unsigned(dtype);
}

static bool is_number(haul_dtype dtype)
{
    return dtype != HAUL_BOOL && !is_unsigned(dtype);
}

static bool is_integer(haul_dtype dtype)
{
    return haul_dtype_is_integer(dtype) && !is_unsigned(dtype);
}

static const struct {
    const char *name;
    bool (*has)(haul_dtype dtype);
} dtype_sets[] = {{"all", is_any}, {"numbers", is_number}, {"floats", haul_dtype_is_float}, {"integers", is_integer}};

/* True if the operation's dtypes, which are different ones, make up the whole set; `more` if with u16, u32 and u64. */
static bool is_set(const haul_operation_info *info, bool (*has)(haul_dtype dtype), bool *more)
{
    int size = 0, others = 0;
    for (int d = HAUL_DTYPE_NONE + 1; d < HAUL_DTYPE_END; d++)
        size += has((haul_dtype)d);
    for (int i = 0; i < info->dtype_count; i++) {
        others += is_unsigned(info->dtypes[i]);
        if (!has(info->dtypes[i]) && !is_unsigned(info->dtypes[i]))
            return false;
    }
    *more = others == 3;
    return size + others == info->dtype_count;
}

static const char *dtype_names(const haul_operation_info *info, char *text)
{
    *text = 0;
    for (int i = 0; i < info->dtype_count; i++)
        append(text, haul_dtype_name(info->dtypes[i]), "", "");
    return text;
}

static const char *dtypes_text(const haul_operation_info *info, char *text)
{
    bool more = false;
    for (size_t i = 0; i < sizeof dtype_sets / sizeof *dtype_sets; i++)
        if (is_set(info, dtype_sets[i].has, &more))
            return more ? strcat(strcpy(text, dtype_sets[i].name), "+") : strcpy(text, dtype_sets[i].name);
    return dtype_names(info, text);
}

/* The description of an operation that programs call; of the others what they take. */
static const char *description_text(const haul_operation_info *info, char *text)
{
    const operation_call *call = operation_call_of(short_name(info));
    if (call)
        return call->description;
    *text = 0;
    append(text, "internal:", "", "");
    return add_operands(info, text);
}

/* ---- the table ---- */

typedef enum column { NAME, DTYPES, GRADIENT, FIXED } column;

/* The description comes last: it wraps. Columns that a narrow terminal has no room for have width 0. */
static const char *const heads[FIXED] = {"operation", "dtypes", "grad"};

static void row_texts(const haul_operation_info *info, char texts[FIXED][TEXT])
{
    snprintf(texts[NAME], TEXT, "%s", short_name(info));
    dtypes_text(info, texts[DTYPES]);
    snprintf(texts[GRADIENT], TEXT, "%s", info->differentiable ? "yes" : "no");
}

static int line_width(const int widths[FIXED])
{
    int width = 0;
    for (int c = 0; c < FIXED; c++)
        width += widths[c] ? widths[c] + 2 : 0;
    return width;
}

/* Where even names have too little room they are cut. */
static int fit_name(const int widths[FIXED], int room)
{
    enum { LEAST_NAME = 12 };
    int excess = line_width(widths) - room, name = widths[NAME] - (excess > 0 ? excess : 0);
    return name < LEAST_NAME ? LEAST_NAME : name;
}

/* Columns as wide as their widest texts, as far as the terminal has room. */
static void measure(const haul_operation_info *all, int count, int widths[FIXED])
{
    static const column leaving[] = {DTYPES, GRADIENT};
    char                texts[FIXED][TEXT];
    for (int c = 0; c < FIXED; c++)
        widths[c] = (int)strlen(heads[c]);
    for (int i = 0; i < count; i++) {
        row_texts(&all[i], texts);
        for (int c = 0; c < FIXED; c++)
            widths[c] = (int)strlen(texts[c]) > widths[c] ? (int)strlen(texts[c]) : widths[c];
    }
    for (size_t i = 0; i < sizeof leaving / sizeof *leaving; i++)
        if (line_width(widths) + LEAST_DESCRIPTION > output_room())
            widths[leaving[i]] = 0;
    widths[NAME] = fit_name(widths, output_room() - LEAST_DESCRIPTION);
}

static void print_row(const int widths[FIXED], const char *const texts[FIXED], const char *description)
{
    int spaces = 0;
    for (int c = 0; c < FIXED; c++)
        if (widths[c]) {
            int used = text_columns(texts[c]), shown = used < widths[c] ? used : widths[c];
            if (used) {
                printf("%*s", spaces, "");
                print_fitted(texts[c], shown);
                spaces = 0;
            }
            spaces += widths[c] - shown + 2;
        }
    printf("%*s", *description ? spaces : 0, "");
    print_wrapped(description, line_width(widths), line_width(widths));
}

static void print_table(const haul_operation_info *all, int count)
{
    int  widths[FIXED];
    char texts[FIXED][TEXT], description[TEXT];
    measure(all, count, widths);
    set_style(STYLE_DIM);
    print_row(widths, heads, "description");
    set_style(STYLE_PLAIN);
    for (int i = 0; i < count; i++) {
        row_texts(&all[i], texts);
        print_row(widths, (const char *const[FIXED]){texts[0], texts[1], texts[2]},
                  description_text(&all[i], description));
    }
}

static void print_module_table(void)
{
    const module_call *m = NULL;
    int                widths[FIXED] = {0};
    while ((m = module_call_after(m)))
        widths[NAME] = (int)strlen(m->name) > widths[NAME] ? (int)strlen(m->name) : widths[NAME];
    widths[NAME] = fit_name(widths, output_room() - LEAST_DESCRIPTION);
    set_style(STYLE_DIM);
    print_row(widths, (const char *const[FIXED]){"module"}, "description");
    set_style(STYLE_PLAIN);
    while ((m = module_call_after(m)))
        print_row(widths, (const char *const[FIXED]){m->name}, m->description);
}

/* ---- one operation ---- */

/* A name and what it says, in two columns. */
static void print_fact(const char *name, const char *text)
{
    enum { INDENT = 18 };
    printf("  %-16s", name);
    print_wrapped(text, INDENT, INDENT);
}

/* Each option with its meaning and default, in columns where the terminal has room for them. */
static void print_options(const char *operation)
{
    enum { NAME_AT = 18, NAME_WIDTH = 16, LEAST_ROOM = 70 };
    const bool         columns = output_room() >= LEAST_ROOM;
    const call_option *o = NULL;
    for (bool first = true; (o = call_option_after(operation, o)); first = false) {
        const int length = (int)strlen(o->name), width = columns && length < NAME_WIDTH - 1 ? NAME_WIDTH : length + 2;
        char      text[TEXT];
        printf("  %-16s%-*s", first ? "options" : "", width, o->name);
        snprintf(text, sizeof text, "%s%s%s", o->meaning, *o->value ? "; default " : "", o->value);
        print_wrapped(text, NAME_AT + width, columns ? NAME_AT + NAME_WIDTH : NAME_AT);
    }
}

static void print_module(const module_call *m)
{
    printf("haul_%s\n  ", m->name);
    print_wrapped(m->prototype, 2, 2);
    print_fact("description", m->description);
    print_options(m->name);
    if (*m->inputs)
        print_fact("inputs", m->inputs);
    if (*m->results)
        print_fact("results", m->results);
}

static void print_operation(const haul_operation_info *info)
{
    char                  text[TEXT];
    const operation_call *call = operation_call_of(short_name(info));
    const module_call    *module = module_call_of(short_name(info));
    printf("%s\n", info->name);
    if (call) {
        printf("  ");
        print_wrapped(call->prototype, 2, 2);
        print_fact("description", call->description);
        print_options(short_name(info));
    } else {
        print_fact("internal", module ? "the module calls it" : "the library calls it; programs cannot");
    }
    for (int i = 0; i < info->operand_count; i++) {
        const haul_operation_operand *o = &info->operands[i];
        snprintf(text, sizeof text, "%s%s%s%s", o->name, info->variadic ? ", any number of tensors" : "",
                 o->optional ? ", optional" : "", o->written ? ", changed in place" : "");
        print_fact(i ? "" : "operands", text);
    }
    if (info->result_count)
        print_fact("results", results_text(info, text));
    print_fact("dtypes", dtype_names(info, text));
    print_fact("differentiable", info->differentiable ? "yes" : "no");
    if (info->has_into) {
        snprintf(text, sizeof text, "%s_into", info->name);
        print_fact("into a tensor", text);
    }
    if (module && call) {
        snprintf(text, sizeof text, "haul_%s: haul ops %s", module->name, module->name);
        print_fact("as a module", text);
    }
}

/* ---- JSON ---- */

enum { DEVICES = 32 };

/* The devices that compute; -1 if memory is exhausted. */
static int find_devices(haul_device **out)
{
    haul_device_report reports[DEVICES];
    int                count = haul_device_list(reports, DEVICES), found = 0;
    for (int i = 0; i < count && i < DEVICES; i++) {
        haul_device           *device = haul_device_get(reports[i].name);
        haul_device_properties p;
        haul_status            status = haul_device_describe(device, &p);
        if (status == HAUL_OUT_OF_MEMORY)
            return -1;
        haul_error_clear();
        if (!status && p.kind != HAUL_KIND_META)
            out[found++] = device;
    }
    return found;
}

/* {"cpu": ["onednn", ...], ...} */
static bool add_implementations(cJSON *object, const haul_operation_info *info, haul_device *const *devices, int count)
{
    const char *names[HAUL_OPERATION_MAX_IMPLEMENTATIONS];
    cJSON      *by_device = json_object(object, "implementations");
    for (int i = 0; i < count; i++) {
        cJSON *list = json_array(by_device, haul_device_name(devices[i]));
        int    length = haul_operation_implementations(haul_operation_find(info->name), devices[i], names,
                                                       HAUL_OPERATION_MAX_IMPLEMENTATIONS);
        if (length < 0)
            return false;
        for (int k = 0; k < length; k++)
            json_push(list, cJSON_CreateString(names[k]));
    }
    return true;
}

/* How an operation or module is called. */
static void add_form(cJSON *object, const char *name, const char *prototype, const char *description)
{
    json_text(object, "prototype", prototype);
    json_text(object, "description", description);
    cJSON             *options = json_array(object, "options");
    const call_option *o = NULL;
    while ((o = call_option_after(name, o))) {
        cJSON *one = cJSON_CreateObject();
        json_text(one, "name", o->name);
        json_text(one, "type", o->type);
        json_text(one, "default", o->value);
        json_text(one, "meaning", o->meaning);
        json_push(options, one);
    }
}

/* "public", and of an operation that programs call how they do it. */
static void add_call(cJSON *object, const char *operation)
{
    const operation_call *call = operation_call_of(operation);
    json_bool(object, "public", call != NULL);
    if (call)
        add_form(object, operation, call->prototype, call->description);
}

static cJSON *operation_json(const haul_operation_info *info)
{
    cJSON *object = cJSON_CreateObject();
    json_text(object, "name", info->name);
    cJSON *operands = json_array(object, "operands");
    for (int i = 0; i < info->operand_count; i++) {
        cJSON *operand = cJSON_CreateObject();
        json_text(operand, "name", info->operands[i].name);
        json_bool(operand, "optional", info->operands[i].optional);
        json_push(operands, operand);
    }
    cJSON *results = json_array(object, "results");
    for (int i = 0; i < info->result_count; i++)
        json_push(results, cJSON_CreateString(info->results[i]));
    cJSON *dtypes = json_array(object, "dtypes");
    for (int i = 0; i < info->dtype_count; i++)
        json_push(dtypes, cJSON_CreateString(haul_dtype_name(info->dtypes[i])));
    json_bool(object, "differentiable", info->differentiable);
    add_call(object, short_name(info));
    return object;
}

static bool print_json(const haul_operation_info *all, int count)
{
    haul_device *devices[DEVICES];
    int          device_count = find_devices(devices);
    cJSON       *list = cJSON_CreateArray();
    bool         fine = device_count >= 0;
    for (int i = 0; fine && i < count; i++) {
        cJSON *object = operation_json(&all[i]);
        fine = add_implementations(object, &all[i], devices, device_count);
        json_push(list, object);
    }
    if (fine)
        return json_print(list);
    complain_error();
    cJSON_Delete(list);
    return false;
}

static void push_module(cJSON *list, const module_call *m)
{
    cJSON *object = cJSON_CreateObject();
    char   name[TEXT];
    snprintf(name, sizeof name, "haul_%s", m->name);
    json_text(object, "name", name);
    add_form(object, m->name, m->prototype, m->description);
    json_text(object, "inputs", m->inputs);
    json_text(object, "results", m->results);
    json_push(list, object);
}

/* ---- modules ---- */

typedef struct ops_options {
    const char *name;
    bool        all, json, names, modules;
} ops_options;

/* All of them, or one. */
static int show_modules(const module_call *one, const ops_options *o)
{
    const module_call *m = NULL;
    cJSON             *list = o->json ? cJSON_CreateArray() : NULL;
    while ((m = module_call_after(m)))
        if (o->json && (!one || m == one))
            push_module(list, m);
        else if (o->names && (!one || m == one))
            printf("%s\n", m->name);
    if (o->json)
        return json_print(list) ? EXIT_OK : EXIT_FAILED;
    if (!o->names && one)
        print_module(one);
    else if (!o->names)
        print_module_table();
    return EXIT_OK;
}

/* ---- the command ---- */

/* What other libraries call operations. */
static const char *known_elsewhere(const char *name)
{
    static const char *const elsewhere[][2] = {{"gemm", "matmul"},
                                               {"mm", "matmul"},
                                               {"bmm", "matmul"},
                                               {"dot", "matmul"},
                                               {"dense", "linear"},
                                               {"fc", "linear"},
                                               {"concat", "cat"},
                                               {"concatenate", "cat"},
                                               {"view", "reshape"},
                                               {"convolution", "conv2d"},
                                               {"conv", "conv2d"},
                                               {"transformer", "transformer_encoder"},
                                               {"mha", "multi_head_attention"}};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (!strcmp(name, elsewhere[i][0]))
            return elsewhere[i][1];
    return NULL;
}

/* "conv2d", "nn_lstm" and "lstm"; NULL at the end, or if memory is exhausted. */
static const char **known_names(const haul_operation_info *all, int count)
{
    size_t             used = 0, modules = 0;
    const module_call *m = NULL;
    while ((m = module_call_after(m)))
        modules++;
    const char **names = calloc((size_t)count + 2 * modules + 1, sizeof *names);
    for (int i = 0; names && i < count; i++)
        names[used++] = short_name(&all[i]);
    while (names && (m = module_call_after(m))) {
        names[used++] = m->name;
        names[used++] = m->name + MODULE_PREFIX;
    }
    return names;
}

static int unknown(const haul_operation_info *all, int count, const char *name)
{
    const char **names = known_names(all, count);
    const char  *near = known_elsewhere(name);
    near = near || !names ? near : did_you_mean(name, names);
    if (near)
        complain("unknown operation '%s'; did you mean '%s'? (haul ops and haul ops --modules list all)", name, near);
    else
        complain("unknown operation '%s' (haul ops and haul ops --modules list all)", name);
    free(names);
    return EXIT_USAGE;
}

static const haul_operation_info *find(const haul_operation_info *all, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(short_name(&all[i]), name))
            return &all[i];
    return NULL;
}

/* All of them, or with a name the one that has it. */
static int show(const haul_operation_info *all, int count, const ops_options *o)
{
    const char *name = o->name;
    if (name) {
        if (!strncmp(name, "haul_", PREFIX))
            name += PREFIX;
        const haul_operation_info *one = find(all, count, name);
        const module_call         *module = module_call_of(name);
        if (module && !one)
            return show_modules(module, o);
        if (!one)
            return unknown(all, count, name);
        if (module && !operation_call_of(name) && !o->json && !o->names) {
            print_module(module);
            putchar('\n');
        }
        all = one;
        count = 1;
    }
    if (o->names) {
        for (int i = 0; i < count; i++)
            printf("%s\n", short_name(&all[i]));
        return EXIT_OK;
    }
    if (o->json)
        return print_json(all, count) ? EXIT_OK : EXIT_FAILED;
    if (name)
        print_operation(all);
    else
        print_table(all, count);
    return EXIT_OK;
}

static const option ops_rows[] = {
    {.group = "Options",
     .name = "all",
     OPTION_FLAG_AT(ops_options, all),
     .help = "List also the operations that only the library calls, such as gradients"},
    {.group = "Options",
     .name = "modules",
     OPTION_FLAG_AT(ops_options, modules),
     .help = "List the modules of networks, such as haul_nn_lstm, instead of operations"},
    {.group = "Options", .name = "json", OPTION_FLAG_AT(ops_options, json), .help = "Print one JSON array instead"},
    {.group = "Options",
     .name = "names",
     OPTION_FLAG_AT(ops_options, names),
     .help = "Print only the names, one per line"}};

static int ops_main(int argc, char **argv)
{
    ops_options   o = {0};
    option_values values;
    int           code = options_parse(&values, &ops_command, &o, argc, argv);
    if (code >= 0)
        return code;
    if (o.json && o.names) {
        complain("--json and --names exclude each other; give one of them");
        return EXIT_USAGE;
    }
    if (o.modules && (o.name || o.all)) {
        complain("--modules lists all modules; give it without %s", o.name ? "a name" : "--all");
        return EXIT_USAGE;
    }
    if (o.modules)
        return show_modules(NULL, &o);
    int                  count = haul_operation_count();
    haul_operation_info *all = calloc((size_t)count, sizeof *all);
    if (!all)
        return complain("memory is exhausted");
    int shown = 0;
    for (int i = 0; i < count && code < 0; i++)
        if (haul_operation_describe(i, &all[shown]))
            code = complain_error();
        else if (o.all || o.json || o.name || operation_call_of(short_name(&all[shown])))
            shown++;
    if (code < 0)
        code = show(all, shown, &o);
    free(all);
    return code;
}

static const help_example ops_lines[] = {
    {"haul ops", NULL},           {"haul ops conv2d", NULL},        {"haul ops lstm", NULL},
    {"haul ops --modules", NULL}, {"haul ops --all --names", NULL}, {NULL, NULL}};

const command ops_command = {
    .name = "ops",
    .summary = "List operations and modules of the library, and how to call them",
    .usage = "[--all | --modules] [--json | --names] [NAME]",
    .description = "Lists the operations that a program can call: the dtypes they accept, whether gradients flow "
                   "through them, and what they compute. With a NAME it shows the prototype, the options with their "
                   "defaults, operands and results; the NAME may be that of a module. --json lists all operations; "
                   "those that only the library calls "
                   "have \"public\": false.",
    .options = ops_rows,
    .option_count = sizeof ops_rows / sizeof *ops_rows,
    .operand = {.name = "NAME",
                .help = "Describe only this operation or module: softmax, haul_softmax, lstm or haul_nn_lstm",
                .offset = offsetof(ops_options, name),
                .complete = COMPLETE_OPERATION},
    .examples = ops_lines,
    .run = ops_main,
};

/* haul ops: every operation of the library, what it takes and gives. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "options.h"

enum { COLUMNS = 80, PREFIX = 5 /* "haul_" */, TEXT = 256 };

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

/* "x weight [bias]"; a variadic operand is "xs..." */
static const char *operands_text(const haul_operation_info *info, char *text)
{
    *text = 0;
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

static bool is_any(haul_dtype dtype)
{
    return dtype != HAUL_DTYPE_NONE;
}

static bool is_number(haul_dtype dtype)
{
    return dtype != HAUL_BOOL;
}

static const struct {
    const char *name;
    bool (*has)(haul_dtype dtype);
} dtype_sets[] = {
    {"all", is_any}, {"numbers", is_number}, {"floats", haul_dtype_is_float}, {"integers", haul_dtype_is_integer}};

/* Do the operation's dtypes, which are different ones, make up the whole set? */
static bool is_set(const haul_operation_info *info, bool (*has)(haul_dtype dtype))
{
    int size = 0;
    for (int d = HAUL_DTYPE_NONE + 1; d < HAUL_DTYPE_END; d++)
        size += has((haul_dtype)d);
    for (int i = 0; i < info->dtype_count; i++)
        if (!has(info->dtypes[i]))
            return false;
    return size == info->dtype_count;
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
    for (size_t i = 0; i < sizeof dtype_sets / sizeof *dtype_sets; i++)
        if (is_set(info, dtype_sets[i].has))
            return strcpy(text, dtype_sets[i].name);
    return dtype_names(info, text);
}

/* ---- the table ---- */

typedef struct widths {
    int name, operands, results, dtypes;
} widths;

static int wider(int width, const char *text)
{
    return (int)strlen(text) > width ? (int)strlen(text) : width;
}

/* As wide as the longest text. Results and operands wrap: the former need room for the longest name, the latter get
 * what is left of the line. */
static widths measure(const haul_operation_info *all, int count)
{
    static const char last[] = "gradient";
    char              text[TEXT];
    widths            w = {.name = 9, .operands = 8, .results = 7, .dtypes = 6};
    for (int i = 0; i < count; i++) {
        w.name = wider(w.name, short_name(&all[i]));
        w.operands = wider(w.operands, operands_text(&all[i], text));
        for (int k = 0; k < all[i].result_count; k++)
            w.results = wider(w.results, all[i].results[k]);
        w.dtypes = wider(w.dtypes, dtypes_text(&all[i], text));
    }
    int left = COLUMNS - 1 - w.name - w.results - w.dtypes - (int)strlen(last) - 8;
    if (w.operands > left)
        w.operands = left > 12 ? left : 12;
    return w;
}

/* The words of the text that fit into one line, at least one; *text moves on to the next. */
static int take_line(const char **text, int width)
{
    int used = (int)strcspn(*text, " ");
    while ((*text)[used] == ' ') {
        int more = 1 + (int)strcspn(*text + used + 1, " ");
        if (used + more > width)
            break;
        used += more;
    }
    *text += used + ((*text)[used] == ' ');
    return used;
}

/* The next words of the text; padded to `pad` columns. */
static void print_part(const char **text, int width, int pad)
{
    const char *line = *text;
    int         size = take_line(text, width);
    printf("  %-*.*s", pad, size, line);
}

static void print_row(const haul_operation_info *info, const widths *w)
{
    char        texts[2][TEXT], dtypes[TEXT];
    const char *operands = operands_text(info, texts[0]), *results = results_text(info, texts[1]);

    printf("%-*s", w->name, short_name(info));
    print_part(&operands, w->operands, w->operands);
    print_part(&results, w->results, w->results);
    printf("  %-*s  %s\n", w->dtypes, dtypes_text(info, dtypes), info->differentiable ? "yes" : "no");
    while (*operands || *results) {
        printf("%-*s", w->name, "");
        print_part(&operands, w->operands, *results ? w->operands : 0);
        if (*results)
            print_part(&results, w->results, 0);
        putchar('\n');
    }
}

static void print_table(const haul_operation_info *all, int count)
{
    widths w = measure(all, count);
    printf("%-*s  %-*s  %-*s  %-*s  %s\n", w.name, "operation", w.operands, "operands", w.results, "results", w.dtypes,
           "dtypes", "gradient");
    for (int i = 0; i < count; i++)
        print_row(&all[i], &w);
}

/* ---- one operation ---- */

static void print_operation(const haul_operation_info *info)
{
    char text[TEXT];
    printf("%s\n", info->name);
    for (int i = 0; i < info->operand_count; i++) {
        const haul_operation_operand *o = &info->operands[i];
        printf("  %-16s%s%s%s%s\n", i ? "" : "operands", o->name, info->variadic ? ", any number of tensors" : "",
               o->optional ? ", optional" : "", o->written ? ", changed in place" : "");
    }
    if (info->result_count)
        printf("  %-16s%s\n", "results", results_text(info, text));
    printf("  %-16s%s\n", "dtypes", dtype_names(info, text));
    printf("  %-16s%s\n", "differentiable", info->differentiable ? "yes" : "no");
    if (info->has_into)
        printf("  %-16s%s_into\n", "into a tensor", info->name);
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
    cJSON      *by_device = cJSON_AddObjectToObject(object, "implementations");
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

/* ---- the command ---- */

static int unknown(const haul_operation_info *all, int count, const char *name)
{
    const char **names = calloc((size_t)count + 1, sizeof *names);
    for (int i = 0; names && i < count; i++)
        names[i] = short_name(&all[i]);
    const char *near = names ? did_you_mean(name, names) : NULL;
    if (near)
        complain("there is no operation '%s'; did you mean '%s'?", name, near);
    else
        complain("there is no operation '%s' (haul ops lists them)", name);
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
static int show(const haul_operation_info *all, int count, const char *name, bool json)
{
    if (name) {
        if (!strncmp(name, "haul_", PREFIX))
            name += PREFIX;
        const haul_operation_info *one = find(all, count, name);
        if (!one)
            return unknown(all, count, name);
        all = one;
        count = 1;
    }
    if (json)
        return print_json(all, count) ? EXIT_OK : EXIT_FAILED;
    if (name)
        print_operation(all);
    else
        print_table(all, count);
    return EXIT_OK;
}

int ops_main(int argc, char **argv)
{
    bool        json = false;
    const char *name = NULL;
    option     rows[] = {{.name = "json", .kind = OPTION_FLAG, .value = &json, .help = "print one JSON array instead"}};
    option_set set = {.command = "ops",
                      .usage = "[--json] [NAME]",
                      .summary = "Lists every operation of the library: its operands, optional ones in brackets, its "
                                 "results, the dtypes it accepts, and whether gradients flow through it. With a NAME, "
                                 "softmax or haul_softmax, it describes that operation.",
                      .rows = rows,
                      .count = 1,
                      .operand = &name};
    int        code = options_parse(&set, argc, argv);

    if (code >= 0)
        return code;
    int                  count = haul_operation_count();
    haul_operation_info *all = calloc((size_t)count, sizeof *all);
    if (!all)
        return complain("memory is exhausted");
    for (int i = 0; i < count && code < 0; i++)
        if (haul_operation_describe(i, &all[i]))
            code = complain_error();
    if (code < 0)
        code = show(all, count, name, json);
    free(all);
    return code;
}

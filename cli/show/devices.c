/* haul devices: the devices, their properties, and why others are not used. */
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/lapack/library.h"
#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"
#include "cli/show/machine_text.h"

static const char *const kind_names[] = {"processor", "GPU", "accelerator", "shapes without data"};

enum { INDENT = 11 }; /* columns before a device's description */

/* The first line of a device names it. */
static void print_line(const char *name, const char *text)
{
    set_style(STYLE_BOLD);
    printf("%-*s ", INDENT - 1, name);
    set_style(STYLE_PLAIN);
    print_wrapped(text, INDENT, INDENT);
}

/* Asked for here only, because opening a library takes longer than most commands. */
static const char *lapack(char *text, size_t size)
{
    const char *reason;
    if (haul__lapack(&reason))
        snprintf(text, size, "LAPACK: %s", haul__lapack_path());
    else
        snprintf(text, size, "no LAPACK: %s", reason);
    return text;
}

static const char *libraries(const haul_device_report *report, const haul_device_properties *p, char *text, size_t size)
{
    return strcmp(report->name, "cpu") == 0 ? lapack(text, size) : p->libraries;
}

static void print_device(const haul_device_report *report, const haul_device_properties *p)
{
    char text[320];
    print_line(report->name, p->model);
    if (p->kind == HAUL_KIND_META)
        return;
    snprintf(text, sizeof text, "%s, %d compute units, %s of %smemory%s", kind_names[p->kind], p->compute_units,
             p->memory_bytes ? text_bytes(p->memory_bytes) : "unknown size",
             p->shares_host_memory ? "the machine's " : "", p->has_f64 ? "" : ", no f64");
    print_line("", text);
    if (*p->driver)
        print_line("", p->driver);
    const char *found = libraries(report, p, text, sizeof text);
    if (*found)
        print_line("", found);
}

static cJSON *device_json(const haul_device_report *report, const haul_device_properties *p)
{
    char   text[320];
    cJSON *object = cJSON_CreateObject();
    json_text(object, "name", report->name);
    json_bool(object, "usable", report->usable);
    if (!report->usable) {
        json_text(object, "reason", report->reason);
        return object;
    }
    json_text(object, "backend", p->backend);
    json_text(object, "kind", kind_names[p->kind]);
    json_text(object, "model", p->model);
    json_text(object, "driver", p->driver);
    json_text(object, "libraries", libraries(report, p, text, sizeof text));
    json_number(object, "compute_units", p->compute_units);
    json_number(object, "memory_bytes", (double)p->memory_bytes);
    json_bool(object, "shares_host_memory", p->shares_host_memory);
    json_bool(object, "f64", p->has_f64);
    return object;
}

/* Opening may fail where listing did not: the entry then has the reason. It may also succeed, where memory was
 * exhausted for a moment. False where it is still. */
static bool describe(haul_device_report *report, haul_device_properties *p)
{
    haul_status status = haul_device_describe(haul_device_get(report->name), p);
    if (status && report->usable)
        snprintf(report->reason, sizeof report->reason, "%s", error_text());
    report->usable = !status;
    haul_error_clear();
    return status != HAUL_OUT_OF_MEMORY;
}

static bool print_all(haul_device_report *all, int count)
{
    bool complete = true;
    for (int i = 0; i < count; i++) {
        haul_device_properties p = {0};
        complete = describe(&all[i], &p) && complete;
        if (all[i].usable)
            print_device(&all[i], &p);
    }
    for (int i = 0; i < count; i++) {
        char text[sizeof all->reason + 16];
        snprintf(text, sizeof text, "not used: %s", all[i].reason);
        if (!all[i].usable)
            print_line(all[i].name, text);
    }
    haul_device *chosen = haul_device_get("auto");
    if (haul_device_is_valid(chosen))
        printf("\n--device auto is %s on this machine\n", haul_device_name(chosen));
    return complete || !complain("memory is exhausted: not all devices could be opened");
}

static bool print_all_json(haul_device_report *all, int count)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *list = json_array(object, "devices");
    bool   complete = true;
    for (int i = 0; i < count; i++) {
        haul_device_properties p = {0};
        complete = describe(&all[i], &p) && complete;
        json_push(list, device_json(&all[i], &p));
    }
    json_text(object, "auto", haul_device_name(haul_device_get("auto")));
    if (!json_print(object))
        return false;
    return complete || !complain("memory is exhausted: not all devices could be opened");
}

static bool print_names(const haul_device_report *all, int count)
{
    for (int i = 0; i < count; i++)
        if (all[i].usable)
            printf("%s\n", all[i].name);
    return true;
}

typedef struct devices_options {
    bool json, names, machines;
} devices_options;

static const option devices_rows[] = {{.group = "Options",
                                       .name = "json",
                                       OPTION_FLAG_AT(devices_options, json),
                                       .help = "Print one JSON object instead"},
                                      {.group = "Options",
                                       .name = "names",
                                       OPTION_FLAG_AT(devices_options, names),
                                       .help = "Print only the names of usable devices, one per line"},
                                      {.group = "Options",
                                       .name = "machines",
                                       OPTION_FLAG_AT(devices_options, machines),
                                       .help = "List the machines that predictions know: this computer, as haul "
                                               "calibrate measured it, and others"}};

static int devices_main(int argc, char **argv)
{
    devices_options o = {0};
    option_values   values;
    int             code = options_parse(&values, &devices_command, &o, argc, argv);
    if (code >= 0)
        return code;
    if (o.names && (o.json || o.machines)) {
        complain("--names and --%s exclude each other; give one of them", o.json ? "json" : "machines");
        return EXIT_USAGE;
    }
    if (o.machines)
        return (o.json ? print_machines_json() : print_machines()) ? EXIT_OK : EXIT_FAILED;
    int                 count = haul_device_list(NULL, 0);
    haul_device_report *all = count > 0 ? calloc((size_t)count, sizeof *all) : NULL;
    if (!all)
        return complain("memory is exhausted");
    int filled = haul_device_list(all, count);
    if (filled < count)
        count = filled;
    bool told = o.names ? print_names(all, count) : o.json ? print_all_json(all, count) : print_all(all, count);
    free(all);
    return told ? EXIT_OK : EXIT_FAILED;
}

static const help_example devices_lines[] = {
    {"haul devices", NULL}, {"haul devices --json", NULL}, {"haul devices --machines", NULL}, {NULL, NULL}};

const command devices_command = {
    .name = "devices",
    .summary = "List the devices of this machine, and why others are not used",
    .usage = "[--json] [--machines] | --names",
    .description = "Lists the devices of this machine: the names that --device accepts, their properties, and why "
                   "others are not used.",
    .options = devices_rows,
    .option_count = sizeof devices_rows / sizeof *devices_rows,
    .examples = devices_lines,
    .run = devices_main,
};

/* haul devices: what was found, its properties, and why something was not used. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "options.h"

static const char *const kind_names[] = {"processor", "GPU", "accelerator", "shapes without data"};

static void print_device(const haul_device_report *report, const haul_device_properties *p)
{
    printf("%-10s %s\n", report->name, p->model);
    if (p->kind == HAUL_KIND_META)
        return;
    printf("           %s, %d compute units, %s of %smemory%s\n", kind_names[p->kind], p->compute_units,
           p->memory_bytes ? text_bytes(p->memory_bytes) : "unknown size",
           p->shares_host_memory ? "the machine's " : "", p->has_f64 ? "" : ", no f64");
    if (*p->driver)
        printf("           %s\n", p->driver);
    if (*p->libraries)
        printf("           %s\n", p->libraries);
}

bool computes_values(const haul_device *device, const char *done, const char *instead)
{
    haul_device_properties p;

    if (haul_device_describe(device, &p)) {
        complain_error();
        return false;
    }
    if (p.kind == HAUL_KIND_META)
        complain("--device meta has shapes without data, so nothing can be %s there; give another device (haul devices "
                 "lists them)%s",
                 done, instead);
    return p.kind != HAUL_KIND_META;
}

static cJSON *device_json(const haul_device_report *report, const haul_device_properties *p)
{
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
    json_text(object, "libraries", p->libraries);
    json_number(object, "compute_units", p->compute_units);
    json_number(object, "memory_bytes", (double)p->memory_bytes);
    json_bool(object, "shares_host_memory", p->shares_host_memory);
    json_bool(object, "f64", p->has_f64);
    return object;
}

/* Opening may fail where listing did not: the entry then tells the reason. It may also succeed, where memory was
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
    for (int i = 0; i < count; i++)
        if (!all[i].usable)
            printf("%-10s not used: %s\n", all[i].name, all[i].reason);
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

int devices_main(int argc, char **argv)
{
    bool   json = false;
    option rows[] = {{.name = "json", .kind = OPTION_FLAG, .value = &json, .help = "print one JSON object instead"}};
    option_set set = {.command = "devices",
                      .usage = "[--json]",
                      .summary = "Lists the devices of this machine: the names that --device takes, what they are, and "
                                 "why something was not used.",
                      .rows = rows,
                      .count = 1};
    int        code = options_parse(&set, argc, argv);

    if (code >= 0)
        return code;
    int                 count = haul_device_list(NULL, 0);
    haul_device_report *all = count > 0 ? calloc((size_t)count, sizeof *all) : NULL;
    if (!all)
        return complain("memory is exhausted");
    int filled = haul_device_list(all, count);
    if (filled < count)
        count = filled;
    bool told = json ? print_all_json(all, count) : print_all(all, count);
    free(all);
    return told ? EXIT_OK : EXIT_FAILED;
}

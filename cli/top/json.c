/* One object with all devices and processes: bytes, seconds and watts without prefixes, null for unknown values. */
#include <string.h>
#include <time.h>

#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/top/output.h"

/* What the library does not know is -1. */
static void put_known(cJSON *object, const char *name, double value)
{
    json_number(object, name, value < 0 ? NAN : value);
}

/* ---- devices ---- */

static void put_cores(cJSON *object, const top_model *m)
{
    cJSON *cores = json_array(object, "cores");
    for (int i = 0; i < m->core_count; i++)
        json_push(cores, isnan(m->cores[i]) ? cJSON_CreateNull() : cJSON_CreateNumber(m->cores[i]));
}

static cJSON *device_json(const top_model *m, const top_device *d)
{
    const haul__hardware *h = &d->hardware;
    const haul_usage     *now = &h->now;
    cJSON                *object = cJSON_CreateObject();
    json_text(object, "name", *h->name ? h->name : h->id);
    json_text(object, "device", h->id);
    if (*h->bus)
        json_text(object, "bus", h->bus);
    if (*h->why)
        json_text(object, "reason", h->why);
    json_number(object, "utilisation", now->utilisation);
    if (!strcmp(h->id, "cpu"))
        put_cores(object, m);
    cJSON *memory = json_object(object, "memory");
    json_number(memory, "total", now->total);
    json_number(memory, "used", now->used);
    json_number(memory, "allocated", d->allocated);
    json_number(memory, "reserved", d->reserved);
    json_number(object, "celsius", now->celsius);
    json_number(object, "watts", now->watts);
    json_number(object, "watts_limit", now->watts_limit);
    json_number(object, "joules", now->joules);
    json_number(object, "mhz", now->megahertz);
    json_number(object, "up_bytes_per_second", now->to_device);
    json_number(object, "down_bytes_per_second", now->from_device);
    cJSON *uses = json_array(object, "processes");
    for (int i = 0; i < now->process_count; i++) {
        cJSON *use = cJSON_CreateObject();
        json_number(use, "pid", (double)now->processes[i].pid);
        json_text(use, "name", now->processes[i].name);
        json_number(use, "bytes", now->processes[i].bytes);
        json_push(uses, use);
    }
    return object;
}

/* ---- processes ---- */

static const char *state_of(const top_process *p)
{
    static const char *const names[] = {"running", "stopped", "unreadable"};
    return isnan(p->ended) ? names[p->page.state] : "ended";
}

static void put_devices(cJSON *object, const haul_published *g)
{
    cJSON *list = json_array(object, "devices");
    for (int i = 0; i < g->device_count; i++) {
        cJSON *device = cJSON_CreateObject();
        json_text(device, "device", g->devices[i].name);
        if (*g->devices[i].bus)
            json_text(device, "bus", g->devices[i].bus);
        put_known(device, "allocated", (double)g->devices[i].allocated);
        put_known(device, "reserved", (double)g->devices[i].reserved);
        put_known(device, "spilled", (double)g->devices[i].spilled);
        put_known(device, "spilled_to_file", (double)g->devices[i].spilled_to_file);
        json_push(list, device);
    }
}

static void put_progress(cJSON *object, const haul_published *g)
{
    put_known(object, "epoch", (double)g->epoch);
    put_known(object, "epochs", (double)g->epochs);
    put_known(object, "steps", (double)g->steps);
    put_known(object, "examples", (double)g->examples);
    put_known(object, "step_seconds", g->step_seconds);
    put_known(object, "examples_per_second", g->examples_per_second);
    put_known(object, "seconds_left", g->seconds_left);
    put_known(object, "loss", g->loss);
    put_known(object, "accuracy", g->accuracy);
    put_known(object, "copies", (double)g->copies);
    put_known(object, "copied_bytes", (double)g->copied_bytes);
    put_known(object, "copies_per_second", g->copies_per_second);
    put_known(object, "bytes_per_second", g->bytes_per_second);
    put_known(object, "waits", (double)g->waits);
    put_known(object, "waits_per_second", g->waits_per_second);
    put_known(object, "waiting", g->waiting);
    put_known(object, "rank", (double)g->rank);
    put_known(object, "ranks", (double)g->ranks);
    put_known(object, "sent_bytes", (double)g->sent_bytes);
    put_known(object, "sent_bytes_per_second", g->sent_per_second);
}

static cJSON *process_json(const top_process *p)
{
    const haul_published *g = &p->page;
    cJSON                *object = cJSON_CreateObject();
    json_text(object, "name", *g->name ? g->name : g->command);
    json_number(object, "pid", (double)g->pid);
    json_text(object, "command", g->command);
    json_text(object, "state", state_of(p));
    if (*g->why)
        json_text(object, "reason", g->why);
    put_known(object, "page_age_seconds", g->age);
    put_known(object, "running_seconds", g->running);
    json_number(object, "allocated", p->allocated);
    json_number(object, "reserved", p->reserved);
    json_number(object, "spilled", p->spilled);
    json_number(object, "spilled_to_file", p->spilled_to_file);
    put_devices(object, g);
    put_progress(object, g);
    return object;
}

/* ---- all ---- */

bool top_print_json(const top_model *m)
{
    const time_t now = time(NULL);
    struct tm    utc;
    char         text[40] = "";
    cJSON       *object = cJSON_CreateObject();
    if (gmtime_r(&now, &utc))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_text(object, "time", text);
    json_text(object, "host", m->host);
    cJSON *devices = json_array(object, "devices");
    for (int i = 0; i < m->device_count; i++)
        json_push(devices, device_json(m, &m->devices[i]));
    cJSON *processes = json_array(object, "processes");
    for (int i = 0; i < m->process_count; i++)
        json_push(processes, process_json(&m->processes[i]));
    return json_print(object);
}

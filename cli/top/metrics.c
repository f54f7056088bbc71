/* Metrics in the text format of Prometheus: for each a line of help, its type, and a sample for each device or process
 * of which it is known. Names have base units. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/output.h"

/* ---- samples ---- */

typedef struct metrics {
    FILE       *to;
    const char *name, *type, *help; /* of the metric under way */
    bool        begun;              /* its first sample was written */
} metrics;

static void begin(metrics *x, const char *name, const char *type, const char *help)
{
    x->name = name;
    x->type = type;
    x->help = help;
    x->begun = false;
}

static void put_label(FILE *to, const char *name, const char *value, const char *before)
{
    fprintf(to, "%s%s=\"", before, name);
    for (; *value; value++)
        if (*value == '\n')
            fputs("\\n", to);
        else if (*value == '\\' || *value == '"')
            fprintf(to, "\\%c", *value);
        else
            fputc(*value, to);
    fputc('"', to);
}

/* Labels are name, value, name, value ..., NULL. Unknown values leave no line. */
static void put_sample(metrics *x, double value, const char *const *labels)
{
    if (!isfinite(value))
        return;
    if (!x->begun)
        fprintf(x->to, "# HELP %s %s\n# TYPE %s %s\n", x->name, x->help, x->name, x->type);
    x->begun = true;
    fputs(x->name, x->to);
    for (int i = 0; labels[i]; i += 2)
        put_label(x->to, labels[i], labels[i + 1], i ? "," : "{");
    fprintf(x->to, "%s %.17g\n", labels[0] ? "}" : "", value);
}

#define SAMPLE(x, value, ...) put_sample(x, value, (const char *const[]){__VA_ARGS__, NULL})

/* ---- devices ---- */

typedef struct device_metric {
    const char *name, *help;
    size_t      at; /* of a double in top_device */
    double      factor;
    bool        counter;
} device_metric;

#define OF_DEVICE(field) offsetof(top_device, field)
#define OF_NOW(field)    offsetof(top_device, hardware.now.field)

static const device_metric device_metrics[] = {
    {"haul_device_utilization_ratio", "Share of the time in which the device was busy.", OF_NOW(utilisation), 1, false},
    {"haul_device_memory_total_bytes", "Memory of the device.", OF_NOW(total), 1, false},
    {"haul_device_memory_used_bytes", "Memory of the device that is in use, by all processes.", OF_NOW(used), 1, false},
    {"haul_device_memory_allocated_bytes", "Memory of the device that tensors of Haul processes hold.",
     OF_DEVICE(allocated), 1, false},
    {"haul_device_memory_reserved_bytes", "Memory of the device that Haul processes have.", OF_DEVICE(reserved), 1,
     false},
    {"haul_device_temperature_celsius", "Temperature of the device.", OF_NOW(celsius), 1, false},
    {"haul_device_power_watts", "Power that the device draws.", OF_NOW(watts), 1, false},
    {"haul_device_power_limit_watts", "Power that the device may draw.", OF_NOW(watts_limit), 1, false},
    {"haul_device_energy_joules_total", "Energy that the device used since haul top began.", OF_NOW(joules), 1, true},
    {"haul_device_clock_hertz", "Clock of the device's cores.", OF_NOW(megahertz), 1e6, false},
    {"haul_device_received_bytes_per_second", "Bytes that the device receives over its link.", OF_NOW(to_device), 1,
     false},
    {"haul_device_sent_bytes_per_second", "Bytes that the device sends over its link.", OF_NOW(from_device), 1, false},
};

static void put_devices(metrics *x, const top_model *m)
{
    begin(x, "haul_device_info", "gauge", "A device with its name and address; always 1.");
    for (int i = 0; i < m->device_count; i++) {
        const haul__hardware *h = &m->devices[i].hardware;
        if (!*h->why)
            SAMPLE(x, 1, "device", h->id, "name", h->name, "bus", h->bus);
    }
    for (size_t k = 0; k < sizeof device_metrics / sizeof *device_metrics; k++) {
        const device_metric *metric = &device_metrics[k];
        begin(x, metric->name, metric->counter ? "counter" : "gauge", metric->help);
        for (int i = 0; i < m->device_count; i++) {
            double value;
            memcpy(&value, (const char *)&m->devices[i] + metric->at, sizeof value);
            SAMPLE(x, value * metric->factor, "device", m->devices[i].hardware.id);
        }
    }
}

/* ---- processes ---- */

typedef struct process_metric {
    const char *name, *help;
    size_t      at; /* in haul_published, of an int64_t, or a double with `real` */
    bool        real, counter;
} process_metric;

#define OF_PAGE(field) offsetof(haul_published, field)

static const process_metric process_metrics[] = {
    {"haul_process_steps_total", "Training steps done.", OF_PAGE(steps), false, true},
    {"haul_process_examples_total", "Examples seen.", OF_PAGE(examples), false, true},
    {"haul_process_copies_total", "Copies between devices.", OF_PAGE(copies), false, true},
    {"haul_process_copied_bytes_total", "Bytes copied between devices.", OF_PAGE(copied_bytes), false, true},
    {"haul_process_waits_total", "Times the training thread waited for a device.", OF_PAGE(waits), false, true},
    {"haul_process_waiting_ratio", "Share of the last seconds spent waiting for a device.", OF_PAGE(waiting), true,
     false},
    {"haul_process_step_seconds", "Duration of a step, on average.", OF_PAGE(step_seconds), true, false},
    {"haul_process_examples_per_second", "Examples a second.", OF_PAGE(examples_per_second), true, false},
    {"haul_process_epoch", "The present epoch.", OF_PAGE(epoch), false, false},
    {"haul_process_epochs", "Epochs that there will be.", OF_PAGE(epochs), false, false},
    {"haul_process_left_seconds", "Time until the work is done.", OF_PAGE(seconds_left), true, false},
    {"haul_process_loss", "Loss in training, in the present epoch.", OF_PAGE(loss), true, false},
    {"haul_process_accuracy_ratio", "Accuracy in training, in the present epoch.", OF_PAGE(accuracy), true, false},
    {"haul_process_rank", "Number of the process among the ranks that train together.", OF_PAGE(rank), false, false},
    {"haul_process_ranks", "Ranks that train together.", OF_PAGE(ranks), false, false},
    {"haul_process_sent_bytes_total", "Bytes sent to other ranks.", OF_PAGE(sent_bytes), false, true},
    {"haul_process_page_age_seconds", "Time since the process published.", OF_PAGE(age), true, false},
};

static double value_of(const haul_published *page, const process_metric *metric)
{
    double  real;
    int64_t integer;
    memcpy(&real, (const char *)page + metric->at, sizeof real);
    memcpy(&integer, (const char *)page + metric->at, sizeof integer);
    const double value = metric->real ? real : (double)integer;
    return value < 0 ? NAN : value;
}

typedef struct names {
    char        pid[24];
    const char *name;
} names;

static names names_of(const top_process *p)
{
    names n = {.name = *p->page.name ? p->page.name : p->page.command};
    snprintf(n.pid, sizeof n.pid, "%lld", (long long)p->page.pid);
    return n;
}

static bool lives(const top_process *p)
{
    return isnan(p->ended);
}

static void put_states(metrics *x, const top_model *m)
{
    static const char *const states[] = {"running", "stopped", "unreadable"};
    begin(x, "haul_process_state", "gauge", "A Haul process with its state; always 1.");
    for (int i = 0; i < m->process_count; i++) {
        const names n = names_of(&m->processes[i]);
        if (lives(&m->processes[i]))
            SAMPLE(x, 1, "pid", n.pid, "name", n.name, "state", states[m->processes[i].page.state]);
    }
}

static void put_memory(metrics *x, const top_model *m, const char *name, const char *help, size_t at)
{
    begin(x, name, "gauge", help);
    for (int i = 0; i < m->process_count; i++) {
        const names n = names_of(&m->processes[i]);
        for (int k = 0; lives(&m->processes[i]) && k < m->processes[i].page.device_count; k++) {
            const haul_published_device *d = &m->processes[i].page.devices[k];
            int64_t                      bytes;
            memcpy(&bytes, (const char *)d + at, sizeof bytes);
            SAMPLE(x, bytes < 0 ? NAN : (double)bytes, "pid", n.pid, "name", n.name, "device", d->name);
        }
    }
}

static void put_processes(metrics *x, const top_model *m)
{
    put_states(x, m);
    put_memory(x, m, "haul_process_memory_allocated_bytes", "Memory that tensors of the process hold.",
               offsetof(haul_published_device, allocated));
    put_memory(x, m, "haul_process_memory_reserved_bytes", "Memory that the process has of the device.",
               offsetof(haul_published_device, reserved));
    put_memory(x, m, "haul_process_memory_spilled_bytes", "Memory of tensors that were moved to host memory or a file.",
               offsetof(haul_published_device, spilled));
    put_memory(x, m, "haul_process_memory_spilled_to_file_bytes", "Of these: memory of tensors that are in a file.",
               offsetof(haul_published_device, spilled_to_file));
    for (size_t k = 0; k < sizeof process_metrics / sizeof *process_metrics; k++) {
        const process_metric *metric = &process_metrics[k];
        begin(x, metric->name, metric->counter ? "counter" : "gauge", metric->help);
        for (int i = 0; i < m->process_count; i++) {
            const names n = names_of(&m->processes[i]);
            if (lives(&m->processes[i]))
                SAMPLE(x, value_of(&m->processes[i].page, metric), "pid", n.pid, "name", n.name);
        }
    }
}

/* ---- all ---- */

char *top_metrics(const top_model *m, size_t *size)
{
    char   *text = NULL;
    metrics x = {.to = open_memstream(&text, size)};
    if (!x.to)
        return NULL;
    put_devices(&x, m);
    put_processes(&x, m);
    const bool failed = ferror(x.to) != 0;
    if (fclose(x.to) || failed) {
        free(text);
        return NULL;
    }
    return text;
}

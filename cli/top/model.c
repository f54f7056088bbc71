/* Reads all devices and pages, and keeps what belongs together from one reading to the next. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/ascii.h"
#include "cli/shared/cli.h"
#include "cli/top/top.h"

enum { ENDED_SECONDS = 10 };

top_model *top_model_new(void)
{
    top_model *m = calloc(1, sizeof *m);
    if (!m) {
        complain("memory is exhausted");
        return NULL;
    }
    if (gethostname(m->host, sizeof m->host - 1))
        snprintf(m->host, sizeof m->host, "localhost");
    return m;
}

void top_model_free(top_model *m)
{
    haul__nvidia_close();
    free(m);
}

void top_history_add(top_history *h, double value)
{
    if (h->count == TOP_HISTORY) {
        memmove(h->values, h->values + 1, (TOP_HISTORY - 1) * sizeof *h->values);
        h->count--;
    }
    h->values[h->count++] = (float)value;
}

/* ---- devices ---- */

/* The processor comes last, as it is the one that every machine has. */
static void read_devices(top_model *m)
{
    const int gpus = haul__gpus_read(&m->gpus, m->hardware, TOP_DEVICES - 1, m->seconds);
    haul__cpu_sensors_read(&m->cpu, &m->hardware[gpus], m->seconds);
    m->core_count = haul__cores_read(&m->core_sensors, m->cores);
    m->device_count = gpus + 1;
    for (int i = 0; i < m->device_count; i++) {
        m->devices[i] = (top_device){.hardware = m->hardware[i]};
        top_history_add(&m->busy[i], m->hardware[i].now.utilisation);
    }
}

top_device *top_device_of(top_model *m, const haul_published_device *d)
{
    for (int i = 0; i < m->device_count; i++)
        if (*d->bus ? haul__same_bus(m->devices[i].hardware.bus, d->bus) : !strcmp(m->devices[i].hardware.id, d->name))
            return &m->devices[i];
    return NULL;
}

/* The row of a device that a page names but no reader has, for example an OpenCL device. Its name is its address where
 * two processes mean different devices by one name. NULL where there is no room. */
static top_device *add_published(top_model *m, const haul_published_device *d)
{
    bool taken = false;
    if (m->device_count == TOP_DEVICES)
        return NULL;
    for (int i = 0; i < m->device_count; i++)
        taken = taken || !strcmp(m->devices[i].hardware.id, d->name);
    top_history_add(&m->busy[m->device_count], NAN);
    top_device *new = &m->devices[m->device_count++];
    *new = (top_device){.published = true};
    haul__hardware_init(&new->hardware, taken ? d->bus : d->name, d->model);
    snprintf(new->hardware.bus, sizeof new->hardware.bus, "%s", d->bus);
    return new;
}

/* ---- processes ---- */

static top_process *find(top_model *m, const haul_published *page)
{
    for (int i = 0; i < m->process_count; i++)
        if (m->processes[i].page.pid == page->pid && m->processes[i].page.started == page->started)
            return &m->processes[i];
    return NULL;
}

/* NULL where there is no room. */
static top_process *find_or_add(top_model *m, const haul_published *page)
{
    top_process *p = find(m, page);
    if (p || m->process_count == TOP_PROCESSES)
        return p;
    p = &m->processes[m->process_count++];
    *p = (top_process){.stopped = NAN};
    return p;
}

static double known(double value)
{
    return value < 0 ? NAN : value;
}

/* Its memory on all devices, and the device with most of it. */
static void add_memory(top_model *m, top_process *p)
{
    int64_t most = -1;
    p->allocated = p->reserved = p->spilled = p->spilled_to_file = p->page.state == HAUL_PUBLISHED_UNREADABLE ? NAN : 0;
    snprintf(p->device, sizeof p->device, "-");
    for (int i = 0; i < p->page.device_count; i++) {
        const haul_published_device *d = &p->page.devices[i];
        top_device                  *on = top_device_of(m, d);
        on = on ? on : add_published(m, d);
        p->allocated += (double)d->allocated;
        p->reserved += (double)d->reserved;
        p->spilled += (double)d->spilled;
        p->spilled_to_file += (double)d->spilled_to_file;
        if (on) {
            on->allocated += (double)d->allocated;
            on->reserved += (double)d->reserved;
        }
        if (d->reserved > most) {
            most = d->reserved;
            snprintf(p->device, sizeof p->device, "%s", on ? on->hardware.id : d->name);
        }
    }
}

/* A stopped process does nothing now, whatever its page says. */
static void note_stop(const top_model *m, top_process *p)
{
    haul_published *g = &p->page;
    if (g->state != HAUL_PUBLISHED_STOPPED) {
        p->stopped = NAN;
        return;
    }
    if (isnan(p->stopped))
        p->stopped = m->seconds - (g->age < 0 ? 0 : g->age);
    g->examples_per_second = g->copies_per_second = g->bytes_per_second = 0;
    g->waits_per_second = g->waiting = 0;
    g->seconds_left = -1;
}

static void take_page(top_model *m, const haul_published *page)
{
    top_process *p = find_or_add(m, page);
    if (!p) {
        m->processes_left_out++;
        return;
    }
    p->page = *page;
    p->ended = NAN;
    note_stop(m, p);
    add_memory(m, p);
    page = &p->page;
    top_history_add(&p->history[TOP_LOSS], known(page->loss));
    top_history_add(&p->history[TOP_ACCURACY], known(page->accuracy));
    top_history_add(&p->history[TOP_EXAMPLES], known(page->examples_per_second));
    top_history_add(&p->history[TOP_STEP], known(page->step_seconds));
    top_history_add(&p->history[TOP_ALLOCATED], p->allocated);
    top_history_add(&p->history[TOP_WAITS], known(page->waits_per_second));
}

/* The file of a process that ended is gone; the process is shown a little longer. */
static void drop_ended(top_model *m)
{
    int kept = 0;
    for (int i = 0; i < m->process_count; i++) {
        const double ended = m->processes[i].ended;
        if (isnan(ended) || m->seconds - ended < ENDED_SECONDS)
            m->processes[kept++] = m->processes[i];
    }
    m->process_count = kept;
}

static bool read_processes(top_model *m)
{
    const int count = haul_published_list(m->pages, TOP_PROCESSES);
    if (count < 0)
        return false;
    for (int i = 0; i < m->process_count; i++)
        if (isnan(m->processes[i].ended))
            m->processes[i].ended = m->seconds;
    m->processes_left_out = count > TOP_PROCESSES ? count - TOP_PROCESSES : 0;
    for (int i = 0; i < count && i < TOP_PROCESSES; i++)
        take_page(m, &m->pages[i]);
    drop_ended(m);
    return true;
}

bool top_model_read(top_model *m)
{
    m->seconds = clock_seconds();
    m->readings++;
    read_devices(m);
    return read_processes(m);
}

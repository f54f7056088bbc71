/* NVIDIA's GPUs, by its management library, which is opened at run time. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/word_list.h"
#include "observe/usage/nvml.h"
#include "observe/usage/sensors.h"

static struct {
    void *library;
    bool  ready;
#define X(name, symbol, arguments) int(*name) arguments;
#include "observe/usage/nvml.def"
#undef X
} nvml;

static void *open_library(void)
{
    const char *folder = getenv("HAUL_CUDA_LIBRARIES");
    char        path[1024] = "libnvidia-ml.so.1";
    if (folder && snprintf(path, sizeof path, "%s/libnvidia-ml.so.1", folder) >= (int)sizeof path)
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static bool start(char *why, size_t size)
{
    if (nvml.ready)
        return true;
    if (haul__word_list_has(getenv("HAUL_CUDA_WITHOUT"), "nvml")) {
        snprintf(why, size, "HAUL_CUDA_WITHOUT names nvml");
        return false;
    }
    if (!nvml.library && !(nvml.library = open_library()))
        return false;
#define X(name, symbol, arguments) *(void **)&nvml.name = dlsym(nvml.library, #symbol);
#include "observe/usage/nvml.def"
#undef X
    if (!nvml.Init || !nvml.Count || !nvml.Handle) {
        snprintf(why, size, "NVIDIA's management library lacks nvmlInit_v2; update the driver");
        return false;
    }
    const int code = nvml.Init();
    if (code)
        snprintf(why, size, "NVIDIA's management library failed to start: nvmlInit_v2 returned %d", code);
    nvml.ready = !code;
    return nvml.ready;
}

void haul__nvidia_close(void)
{
    if (nvml.ready && nvml.Shutdown)
        nvml.Shutdown();
    nvml.ready = false;
}

/* ---- one device ---- */

/* A number from the library, or NaN. */
typedef int ask(nvml_device, unsigned *);
typedef int ask_which(nvml_device, int, unsigned *);

static double number(ask *function, nvml_device device)
{
    unsigned value = 0;
    return function && !function(device, &value) ? (double)value : NAN;
}

static double number_of(ask_which *function, nvml_device device, int which)
{
    unsigned value = 0;
    return function && !function(device, which, &value) ? (double)value : NAN;
}

static double energy_of(nvml_device device, haul__sensor_energy *e)
{
    unsigned long long millijoules;
    if (!nvml.Energy || nvml.Energy(device, &millijoules))
        return NAN;
    return haul__sensor_energy_add(e, (double)millijoules / 1000, NAN);
}

static void read_numbers(nvml_device device, haul__nvidia_sensors *s, haul_usage *u)
{
    nvml_utilisation busy;
    nvml_memory      memory;
    if (nvml.Utilisation && !nvml.Utilisation(device, &busy))
        u->utilisation = busy.gpu / 100.0;
    if (nvml.Memory && !nvml.Memory(device, &memory)) {
        u->total = (double)memory.total;
        u->used = (double)memory.used;
    }
    u->celsius = number_of(nvml.Temperature, device, NVML_SENSOR_GPU);
    u->celsius_limit = number_of(nvml.TemperatureLimit, device, NVML_LIMIT_SLOWDOWN);
    u->watts = number(nvml.Power, device) / 1000;
    u->joules = energy_of(device, &s->energy);
    u->watts_limit = number(nvml.PowerLimit, device) / 1000;
    u->megahertz = number_of(nvml.Clock, device, NVML_CLOCK_GRAPHICS);
    u->to_device = number_of(nvml.Throughput, device, NVML_RECEIVED) * 1000; /* in kilobytes a second */
    u->from_device = number_of(nvml.Throughput, device, NVML_SENT) * 1000;
}

static void add_process(haul_usage *u, const nvml_process *p)
{
    HAUL__ASSERT(0 <= u->process_count && u->process_count <= HAUL_USAGE_PROCESSES);
    for (int i = 0; i < u->process_count; i++)
        if (u->processes[i].pid == p->pid)
            return; /* it computes and draws */
    if (u->process_count == HAUL_USAGE_PROCESSES) {
        u->processes_left_out++;
        return;
    }
    haul_usage_process *use = &u->processes[u->process_count++];
    *use = (haul_usage_process){.pid = p->pid, .bytes = p->bytes == ~0ull ? NAN : (double)p->bytes};
    if (!haul__sensor_text(use->name, sizeof use->name, "/proc/%u/comm", p->pid))
        snprintf(use->name, sizeof use->name, "?");
}

static void read_processes(int (*list)(nvml_device, unsigned *, nvml_process *), nvml_device device, haul_usage *u)
{
    enum { MOST = 64 };
    nvml_process all[MOST];
    unsigned     count = MOST;
    if (!list || list(device, &count, all))
        return;
    u->processes_known = true;
    for (unsigned i = 0; i < count && i < MOST; i++)
        add_process(u, &all[i]);
}

/* With a domain of four digits, as the system and CUDA write it; the library writes eight. */
static void write_bus(const nvml_pci *pci, char *out, size_t size)
{
    const bool longer = strcspn(pci->bus_id, ":") == 8 && !strncmp(pci->bus_id, "0000", 4);
    snprintf(out, size, "%.31s", pci->bus_id + (longer ? 4 : 0));
}

static void read_device(unsigned index, haul__nvidia_sensors *s, haul__hardware *d)
{
    HAUL__ASSERT(nvml.ready && index < HAUL__NVIDIA_GPUS);
    nvml_device device;
    nvml_pci    pci = {.bus_id = ""};
    char        id[32];
    snprintf(id, sizeof id, "cuda:%u", index);
    haul__hardware_init(d, id, "NVIDIA GPU");
    const int code = nvml.Handle(index, &device);
    if (code) {
        snprintf(d->why, sizeof d->why, "it cannot be opened: nvmlDeviceGetHandleByIndex_v2 returned %d", code);
        return;
    }
    if (nvml.Name && nvml.Name(device, d->name, sizeof d->name))
        snprintf(d->name, sizeof d->name, "NVIDIA GPU");
    d->name[sizeof d->name - 1] = 0;
    if (nvml.Pci && !nvml.Pci(device, &pci))
        write_bus(&pci, d->bus, sizeof d->bus);
    read_numbers(device, s, &d->now);
    read_processes(nvml.Computing, device, &d->now);
    read_processes(nvml.Drawing, device, &d->now);
}

int haul__nvidia_read(haul__nvidia_sensors gpus[HAUL__NVIDIA_GPUS], haul__hardware *out, int room, char *why,
                      size_t size)
{
    unsigned count = 0;
    int      code;
    *why = 0;
    if (!start(why, size))
        return -1;
    if ((code = nvml.Count(&count))) {
        snprintf(why, size, "NVIDIA's driver does not answer: nvmlDeviceGetCount_v2 returned %d", code);
        haul__nvidia_close();
        return -1;
    }
    const int most = room < HAUL__NVIDIA_GPUS ? room : HAUL__NVIDIA_GPUS;
    const int here = count < (unsigned)most ? (int)count : most;
    HAUL__ASSERT(0 <= here && here <= HAUL__NVIDIA_GPUS);
    for (int i = 0; i < here; i++)
        read_device((unsigned)i, &gpus[i], &out[i]);
    return here;
}

double haul__nvidia_energy(const char *bus, haul__sensor_energy *e)
{
    char        why[160];
    nvml_device device;
    if (!start(why, sizeof why) || !nvml.HandleOfBus || nvml.HandleOfBus(bus, &device))
        return NAN;
    return energy_of(device, e);
}

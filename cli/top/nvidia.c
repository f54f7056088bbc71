/* NVIDIA's GPUs, by its management library, which is opened at run time. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/word_list.h"
#include "cli/top/nvml.h"
#include "cli/top/top.h"

static struct {
    void *library;
    bool  ready;
#define X(name, symbol, arguments) int(*name) arguments;
#include "cli/top/nvml.def"
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
#include "cli/top/nvml.def"
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

void top_nvidia_close(void)
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

static void read_numbers(nvml_device device, top_device *d)
{
    nvml_utilisation busy;
    nvml_memory      memory;
    if (nvml.Utilisation && !nvml.Utilisation(device, &busy))
        d->utilisation = busy.gpu / 100.0;
    if (nvml.Memory && !nvml.Memory(device, &memory)) {
        d->total = (double)memory.total;
        d->used = (double)memory.used;
    }
    d->celsius = number_of(nvml.Temperature, device, NVML_SENSOR_GPU);
    d->celsius_limit = number_of(nvml.TemperatureLimit, device, NVML_LIMIT_SLOWDOWN);
    d->watts = number(nvml.Power, device) / 1000;
    d->watts_limit = number(nvml.PowerLimit, device) / 1000;
    d->megahertz = number_of(nvml.Clock, device, NVML_CLOCK_GRAPHICS);
    d->to_device = number_of(nvml.Throughput, device, NVML_RECEIVED) * 1000; /* in kilobytes a second */
    d->from_device = number_of(nvml.Throughput, device, NVML_SENT) * 1000;
}

static void add_use(top_device *d, const nvml_process *p)
{
    for (int i = 0; i < d->use_count; i++)
        if (d->uses[i].pid == p->pid)
            return; /* it computes and draws */
    if (d->use_count == TOP_USES) {
        d->uses_left_out++;
        return;
    }
    top_use *use = &d->uses[d->use_count++];
    *use = (top_use){.pid = p->pid, .bytes = p->bytes == ~0ull ? NAN : (double)p->bytes};
    if (!top_file_text(use->name, sizeof use->name, "/proc/%u/comm", p->pid))
        snprintf(use->name, sizeof use->name, "?");
}

static void read_uses(int (*list)(nvml_device, unsigned *, nvml_process *), nvml_device device, top_device *d)
{
    enum { MOST = 64 };
    nvml_process all[MOST];
    unsigned     count = MOST;
    if (!list || list(device, &count, all))
        return;
    d->tells_uses = true;
    for (unsigned i = 0; i < count && i < MOST; i++)
        add_use(d, &all[i]);
}

/* With a domain of four digits, as the system and CUDA write it; the library writes eight. */
static void write_bus(const nvml_pci *pci, char *out, size_t size)
{
    const bool longer = strcspn(pci->bus_id, ":") == 8 && !strncmp(pci->bus_id, "0000", 4);
    snprintf(out, size, "%.31s", pci->bus_id + (longer ? 4 : 0));
}

static void read_device(unsigned index, top_device *d)
{
    nvml_device device;
    nvml_pci    pci = {.bus_id = ""};
    char        id[32];
    snprintf(id, sizeof id, "cuda:%u", index);
    top_device_init(d, id, "NVIDIA GPU");
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
    read_numbers(device, d);
    read_uses(nvml.Computing, device, d);
    read_uses(nvml.Drawing, device, d);
}

int top_nvidia_read(top_device *out, int room, char *why, size_t size)
{
    unsigned count = 0;
    int      code;
    *why = 0;
    if (!start(why, size))
        return -1;
    if ((code = nvml.Count(&count))) {
        snprintf(why, size, "NVIDIA's driver does not answer: nvmlDeviceGetCount_v2 returned %d", code);
        top_nvidia_close();
        return -1;
    }
    const int here = count < (unsigned)room ? (int)count : room;
    for (int i = 0; i < here; i++)
        read_device((unsigned)i, &out[i]);
    return here;
}

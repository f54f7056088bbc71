#include "device/generated.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "device/device.h"
#include "events/events.h"

typedef struct entry {
    struct entry *next;
    haul_device  *device;
    haul_dtype    dtype;
    char         *text;
    haul__kernel  kernel;
} entry;

/* Entries stay. New ones are put in front by a thread that holds their device's kernels_lock. */
static _Atomic(entry *) entries;

static const haul__kernel *find(const haul_device *device, const char *text, haul_dtype dtype)
{
    for (entry *e = atomic_load(&entries); e; e = e->next)
        if (e->device == device && e->dtype == dtype && strcmp(e->text, text) == 0)
            return &e->kernel;
    return NULL;
}

static void publish(entry *e)
{
    HAUL__ASSERT(e->device && e->text && !e->next);
    e->next = atomic_load(&entries);
    while (!atomic_compare_exchange_weak(&entries, &e->next, e))
        continue;
}

static haul_status compile(entry *e, const char *name, const char *shown)
{
    HAUL__ASSERT(haul__device_compiles_text(e->device));
    char       *unit = haul__format("%s %p", name, (void *)e); /* units of one name would be one program */
    haul_status status = unit ? HAUL_OK : haul__fail_memory(shown, strlen(name));
    if (!status)
        status = haul__kernel_compile(e->device,
                                      &(haul__unit){.name = unit, .text = e->text, .kernel = name, .dtype = e->dtype},
                                      shown, &e->kernel);
    haul__free(unit);
    snprintf(e->kernel.name, sizeof e->kernel.name, "%s", shown);
    return status;
}

static const haul__kernel *make(haul_device *device, const char *name, const char *text, haul_dtype dtype,
                                const char *shown)
{
    entry *e = haul__calloc(1, sizeof *e);
    char  *own = haul__strdup(text);
    if (!e || !own) {
        haul__free(e);
        haul__free(own);
        haul__fail_memory(shown, strlen(text));
        return NULL;
    }
    *e = (entry){.device = device, .dtype = dtype, .text = own};
    if (compile(e, name, shown)) {
        haul__free(own);
        haul__free(e);
        return NULL;
    }
    publish(e);
    return &e->kernel;
}

const haul__kernel *haul__kernel_of_text(haul_device *device, const char *name, const char *text, haul_dtype dtype,
                                         const char *shown)
{
    const haul__kernel *kernel = find(device, text, dtype);
    if (kernel)
        return kernel;
    haul__events_hold();
    pthread_mutex_lock(&device->kernels_lock);
    kernel = find(device, text, dtype);
    if (!kernel)
        kernel = make(device, name, text, dtype, shown);
    HAUL__ASSERT(find(device, text, dtype) == kernel);
    pthread_mutex_unlock(&device->kernels_lock);
    haul__events_release();
    return kernel;
}

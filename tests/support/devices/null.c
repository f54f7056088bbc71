#include "support/devices/null.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "device/index_fault.h"
#include "kernels/kernels.h"
#include "support/ledger.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static null_command    commands[NULL_KEPT];
static int             count, index_faults;

/* A compiled kernel is its name and dtype. */
typedef struct null_kernel {
    const char *name;
    haul_dtype  dtype;
} null_kernel;

static int null_count_devices(char *why, size_t why_size)
{
    (void)why;
    (void)why_size;
    return 1;
}

static haul_status null_open(haul_device *device, int index)
{
    (void)index;
    device->properties.kind = HAUL_KIND_ACCELERATOR;
    device->properties.has_f64 = true;
    snprintf(device->model, sizeof device->model, "records commands");
    return HAUL_OK;
}

/* Memory that is never touched: a handle that is not NULL. */
static haul_status null_alloc(haul_device *device, size_t bytes, const haul__buffer_address *of, haul__buffer *out)
{
    (void)of;
    (void)device;
    (void)bytes;
    *out = (haul__buffer){.handle = &count};
    return HAUL_OK;
}

static void null_free(haul_device *device, haul__buffer *buffer)
{
    (void)device;
    *buffer = (haul__buffer){0};
}

static haul_status null_compile(haul_device *device, const haul__unit *unit, haul__kernel *out)
{
    static null_kernel kernels[4096]; /* compiled under the device's lock, and never freed */
    static int         used;
    (void)device;
    if (used == 4096)
        abort();
    kernels[used] = (null_kernel){unit->kernel, unit->dtype};
    out->handle = &kernels[used++];
    return HAUL_OK;
}

static haul_status record(const haul__command *c)
{
    pthread_mutex_lock(&lock);
    if (count < NULL_KEPT) {
        const null_kernel *kernel = c->kernel ? c->kernel->handle : NULL;
        commands[count] = (null_command){.kind = c->kind,
                                         .operation = c->operation,
                                         .kernel = kernel ? kernel->name : "",
                                         .dtype = kernel ? kernel->dtype : HAUL_DTYPE_NONE,
                                         .items = c->items,
                                         .bytes = c->bytes,
                                         .write_count = c->write_count,
                                         .buffer_count = c->buffer_count};
    }
    count++;
    pthread_mutex_unlock(&lock);
    return HAUL_OK;
}

static haul_status null_submit(haul__stream *s, const haul__command *c)
{
    (void)s;
    if (strcmp(c->operation, haul__index_fault_operation) == 0) {
        index_faults += c->kind == HAUL__COMMAND_READ;
        return HAUL_OK;
    }
    haul_status status = record(c);
    return c->kind == HAUL__COMMAND_WRITE  ? ledger_asked(LEDGER_UP, c, status)
           : c->kind == HAUL__COMMAND_READ ? ledger_asked(LEDGER_DOWN, c, status)
                                           : status;
}

static haul_status null_sync(haul__stream *s, void *event)
{
    (void)s;
    (void)event;
    return HAUL_OK;
}

static const haul__backend backend = {
    .size = sizeof backend,
    .name = "null",
    .count = null_count_devices,
    .open = null_open,
    .alloc = null_alloc,
    .free = null_free,
    .submit = null_submit,
    .compile = null_compile,
    .sync = null_sync,
    .precompiled = true,
};

haul_device *null_device(void)
{
    static bool added;
    if (!added && haul__backend_add(&backend))
        abort();
    added = true;
    return haul_device_get("null:0");
}

void null_forget(void)
{
    count = 0;
}

int null_count(void)
{
    return count;
}

int null_index_faults(void)
{
    return index_faults;
}

const null_command *null_get(int i)
{
    return &commands[i];
}

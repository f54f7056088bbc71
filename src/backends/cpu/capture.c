/* Lists of commands on the CPU: copies of the commands, run in order without the checks and waits for each one. */
#include "backends/cpu/cpu.h"
#include "base/alloc.h"

typedef struct list {
    int           count;
    void         *room; /* where slots are written */
    haul__command commands[];
} list;

/* Copies that cross no link. */
static bool is_captured(haul__command_kind kind)
{
    return kind != HAUL__COMMAND_WRITE && kind != HAUL__COMMAND_READ && kind != HAUL__COMMAND_PEER;
}

void haul__cpu_capture_free(haul_device *device, void *handle)
{
    list *l = handle;
    (void)device;
    for (int i = 0; i < l->count; i++)
        haul__command_free(&l->commands[i]);
    haul__free(l->room);
    haul__free(l);
}

haul_status haul__cpu_capture(haul_device *device, const haul__command *commands, int count, void **handle)
{
    size_t room = 1;
    for (int i = 0; i < count; i++) {
        if (!is_captured(commands[i].kind))
            return HAUL_UNSUPPORTED;
        room = commands[i].params_size > room ? commands[i].params_size : room;
    }
    list *l = haul__calloc(1, sizeof *l + (size_t)count * sizeof l->commands[0]);
    if (!l)
        return haul__fail_memory(commands[0].operation, (size_t)count * sizeof l->commands[0]);
    l->room = haul__malloc(room);
    haul_status status = l->room ? HAUL_OK : haul__fail_memory(commands[0].operation, room);
    for (int i = 0; i < count && !status; i++) {
        status = haul__command_copy(&l->commands[i], &commands[i]);
        l->count += !status;
    }
    if (status) {
        haul__cpu_capture_free(device, l);
        return status;
    }
    *handle = l;
    return HAUL_OK;
}

haul_status haul__cpu_replay(haul__stream *s, void *handle, const haul__slot_values *values)
{
    const list *l = handle;
    haul_status status = HAUL_OK;
    for (int i = 0; i < l->count && !status; i++) {
        haul__command c = haul__command_with(&l->commands[i], values, l->room);
        status = haul__cpu_submit(s, &c);
    }
    return status;
}

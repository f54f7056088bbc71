#include "cli/compare/side.h"

#include <stdlib.h>
#include <string.h>

#include "cli/compare/stream.h"
#include "cli/shared/cli.h"

typedef struct side {
    int     fd;
    int64_t operations;
    void   *buffer;
    size_t  room;
    bool    failed; /* a tensor could not be read, or memory is exhausted; `fd` could not be written */
} side;

static bool make_room(side *s, size_t bytes)
{
    if (bytes <= s->room)
        return true;
    void *grown = realloc(s->buffer, bytes);
    if (!grown)
        return false;
    s->buffer = grown;
    s->room = bytes;
    return true;
}

static bool send_tensor(side *s, const haul_event *e, haul_tensor *t)
{
    const size_t bytes = (size_t)haul_tensor_bytes(t);
    side_record  record = {.operation = s->operations,
                           .depth = e->depth,
                           .dtype = haul_tensor_dtype(t),
                           .shape = haul_tensor_shape(t),
                           .bytes = (int64_t)bytes};
    snprintf(record.name, sizeof record.name, "%s", e->operation);
    snprintf(record.module, sizeof record.module, "%s", e->origin);
    return make_room(s, bytes) && !haul_read(t, s->buffer, bytes) && stream_write(s->fd, &record, sizeof record) &&
           stream_write(s->fd, s->buffer, bytes);
}

/* An operation without results, for example an optimizer's, writes its operands. */
static void take(const haul_event *e, void *context)
{
    side                   *s = context;
    const haul_call_values *values = e->y && e->y->count ? e->y : e->x;
    if (e->kind != HAUL_EVENT_OPERATION_END)
        return; /* beginnings count the depth */
    for (int i = 0; values && i < values->count; i++)
        if (haul_tensor_is_valid(values->tensors[i]) && haul_tensor_bytes(values->tensors[i]) > 0)
            s->failed = s->failed || !send_tensor(s, e, values->tensors[i]);
    s->operations++;
}

static int make_step(side *s, trainer *t)
{
    const haul_batch *batch;
    const side_hello  hello = stream_hello();
    if (!stream_write(s->fd, &hello, sizeof hello))
        return EXIT_FAILED;
    if (one_step_build(t, &batch) || !haul_events_subscribe(take, .kinds = HAUL_EVENT_OPERATION, .context = s) ||
        one_step_make(t, batch))
        return complain_error();
    if (s->failed)
        return complain("a tensor could not be read or handed over");
    const side_record end = {.is_end = true, .operation = s->operations};
    return stream_write(s->fd, &end, sizeof end) ? EXIT_OK : EXIT_FAILED;
}

int side_run(const one_step *step, int fd)
{
    option_values values;
    train_options options = {0};
    cJSON        *stored = NULL;
    side          s = {.fd = fd};
    int           code = EXIT_FAILED;
    trainer      *t = calloc(1, sizeof *t); /* too large for small stacks */
    haul_scope   *scope = t ? haul_scope_push() : NULL;
    if (!scope) {
        free(t);
        return complain("memory is exhausted");
    }
    t->options = &options;
    if (one_step_open(step, "compare", t, &values, &stored) && computes_values(t->device, "compared", ""))
        code = make_step(&s, t);
    haul_scope_pop(scope);
    trainer_close(t);
    free(t);
    free(s.buffer);
    cJSON_Delete(stored);
    return code;
}

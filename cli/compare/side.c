#include "cli/compare/side.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/compare/difference.h"
#include "cli/shared/cli.h"
#include "files/descriptor.h"

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

static bool read_tensor(side *s, haul_tensor *t)
{
    const size_t bytes = (size_t)haul_tensor_bytes(t);
    return make_room(s, bytes) && !haul_read(t, s->buffer, bytes);
}

static bool has_values(const haul_tensor *t)
{
    return haul_tensor_is_valid(t) && haul_tensor_bytes(t) > 0;
}

static bool add_norm(side *s, haul_tensor *t, double *scale)
{
    const haul_dtype dtype = haul_tensor_dtype(t);
    double           sum = 0;
    if (!haul_dtype_is_float(dtype))
        return true;
    if (!read_tensor(s, t))
        return false;
    for (int64_t i = 0; i < haul_tensor_count(t); i++) {
        const double value = element_of(dtype, s->buffer, i);
        sum += isfinite(value) ? value * value : 0;
    }
    *scale = fmax(*scale, sqrt(sum));
    return true;
}

/* A sum may be much smaller than its terms, and an optimizer's state than the parameter. Their rounding is that of the
 * terms and of the parameter. */
static bool find_scale(side *s, const haul_event *e, double *scale)
{
    bool found = true;
    if (e->y && e->y->count && strcmp(e->operation, "haul_sum") != 0)
        return true;
    for (int i = 0; e->x && i < e->x->count && found; i++)
        if (has_values(e->x->tensors[i]))
            found = add_norm(s, e->x->tensors[i], scale);
    return found;
}

static bool send_tensor(side *s, const haul_event *e, haul_tensor *t, double scale)
{
    const size_t bytes = (size_t)haul_tensor_bytes(t);
    side_record  record = {.operation = s->operations,
                           .depth = e->depth,
                           .dtype = haul_tensor_dtype(t),
                           .shape = haul_tensor_shape(t),
                           .bytes = (int64_t)bytes,
                           .scale = scale};
    snprintf(record.name, sizeof record.name, "%s", e->operation);
    snprintf(record.module, sizeof record.module, "%s", e->origin);
    return read_tensor(s, t) && haul__write_all(s->fd, &record, sizeof record) &&
           haul__write_all(s->fd, s->buffer, bytes);
}

/* An operation without results, for example an optimizer's, writes its operands. */
static void take(const haul_event *e, void *context)
{
    side                   *s = context;
    const haul_call_values *values = e->y && e->y->count ? e->y : e->x;
    double                  scale = 0;
    if (e->kind != HAUL_EVENT_OPERATION_END)
        return; /* beginnings count the depth */
    s->failed = s->failed || !find_scale(s, e, &scale);
    for (int i = 0; values && i < values->count; i++)
        if (has_values(values->tensors[i]))
            s->failed = s->failed || !send_tensor(s, e, values->tensors[i], scale);
    s->operations++;
}

static int make_step(const one_training *t, void *context)
{
    side             *s = context;
    const haul_batch *batch;
    const side_hello  hello = side_hello_now();
    if (!computes_values(t->device, "compared", "") || !haul__write_all(s->fd, &hello, sizeof hello))
        return EXIT_FAILED;
    if (one_step_build(t->trainer, &batch) ||
        !haul_events_subscribe(take, .kinds = HAUL_EVENT_OPERATION, .context = s) || one_step_make(t->trainer, batch))
        return complain_error();
    if (s->failed)
        return complain("a tensor could not be read or handed over");
    const side_record end = {.is_end = true, .operation = s->operations};
    return haul__write_all(s->fd, &end, sizeof end) ? EXIT_OK : EXIT_FAILED;
}

int side_run(const one_step *step, int fd)
{
    side      s = {.fd = fd};
    const int code = one_step_open(step, "compare", make_step, &s);
    free(s.buffer);
    return code;
}

#include "parallel/pipe.h"

#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/transfer.h>
#include <inttypes.h>
#include <string.h>

#include "autograd/pass.h"
#include "autograd/recompute.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "parallel/passage.h"

#define NEW      "haul_parallel_new"
#define CALL     "haul_parallel_call"
#define BACKWARD "haul_parallel_backward"

/* In the place of a step: outside of steps, and between the pieces of one, where gradients may be on their way. */
enum { OUTSIDE = -1, BETWEEN = -2 };

static bool is_first(const haul__pipe *p)
{
    return p->rank == 0;
}

static bool is_last(const haul__pipe *p)
{
    return p->rank == p->stages - 1;
}

/* ---- making ---- */

static haul_status find_owners(haul__pipe *p)
{
    const size_t count = (size_t)p->all.parameters;
    HAUL__ASSERT(!p->owners && count >= (size_t)p->stages); /* each stage has a parameter */
    p->owners = haul__calloc(count, sizeof *p->owners);
    if (!p->owners)
        return haul__fail_memory(NEW, count * sizeof *p->owners);
    for (int i = 0; i < p->all.parameters; i++) {
        p->owners[i] = haul__cut_stage(&p->cut, p->all.items[i].name);
        HAUL__ASSERT(0 <= p->owners[i] && p->owners[i] < p->stages);
    }
    return HAUL_OK;
}

static haul_status fill(haul__pipe *p, const char *cuts)
{
    haul_status status = haul__cut_make(&p->cut, p->module, p->stages, cuts, NEW);
    if (!status)
        status = haul__flat_init(&p->all, p->module, NEW);
    if (!status)
        status = find_owners(p);
    if (!status && !(p->queue = haul__calloc((size_t)p->stages, sizeof *p->queue)))
        status = haul__fail_memory(NEW, (size_t)p->stages * sizeof *p->queue);
    if (!status && !(p->absent = haul__absent_new(&p->all, &p->cut, p->owners, p->group)))
        status = haul_error_status();
    return status;
}

haul__pipe *haul__pipe_new(haul_module *module, haul_group *group, int stages, const char *cuts)
{
    haul__pipe *p = haul__calloc(1, sizeof *p);
    if (!p) {
        haul__fail_memory(NEW, sizeof *p);
        return NULL;
    }
    *p = (haul__pipe){.group = group, .rank = haul_group_rank(group), .stages = stages, .module = module};
    HAUL__ASSERT(0 <= p->rank && p->rank < p->stages);
    if (!fill(p, cuts))
        return p;
    haul__pipe_free(p);
    return NULL;
}

static void drop(haul__pipe_piece *piece)
{
    haul__object_release(piece->x);
    haul__object_release(piece->y);
    haul__object_release(piece->rest);
    *piece = (haul__pipe_piece){.x = NULL};
}

static void drop_all(haul__pipe *p)
{
    HAUL__ASSERT(0 <= p->queued && p->queued <= p->stages);
    for (int i = 0; i < p->queued; i++)
        drop(&p->queue[i]);
    p->queued = 0;
    drop(&p->now);
}

void haul__pipe_free(haul__pipe *p)
{
    if (!p)
        return;
    drop_all(p);
    haul__absent_free(p->absent);
    haul__flat_free(&p->all);
    haul__cut_free(&p->cut);
    haul__free(p->queue);
    haul__free(p->owners);
    haul__free(p);
}

static bool is_own(const char *name, const void *pipe)
{
    const haul__pipe *p = pipe;
    return haul__cut_stage(&p->cut, name) == p->rank;
}

haul_status haul__pipe_own(const haul__pipe *p, haul__flat *own)
{
    const haul_status status = haul__flat_init_some(own, p->module, is_own, p, NEW);
    own->dtype = p->all.dtype; /* sums of one process have that */
    return status;
}

/* ---- a piece ---- */

haul_status haul__pipe_begin_step(haul__pipe *p, int64_t step)
{
    if (p->why.status)
        return haul__fail(HAUL_STATE, "haul_parallel_begin", "parallel",
                          "a step of this training in stages has failed, so it cannot go on (%.300s); start the "
                          "program again, from a checkpoint",
                          p->why.message);
    HAUL__ASSERT(p->queue && p->absent);
    p->step = step;
    p->under_way = true;
    p->weight = 0;
    return haul__absent_begin(p->absent);
}

void haul__pipe_begin(haul__pipe *p, int piece)
{
    HAUL__ASSERT(piece >= 0);
    drop(&p->now);
    p->now.number = piece;
    p->called = false;
}

/* A passage from or to the neighbour before (-1) or after (1). */
static haul__passage passage(const haul__pipe *p, int to, bool is_gradient, int64_t step, int piece)
{
    HAUL__ASSERT(to == -1 || to == 1);
    return (haul__passage){
        .group = p->group, .peer = p->rank + to, .is_gradient = is_gradient, .step = step, .piece = piece};
}

/* A passage of an activation. */
static haul__passage forward(const haul__pipe *p, int to, bool within)
{
    return passage(p, to, false, within ? p->step : p->under_way ? BETWEEN : OUTSIDE, within ? p->now.number : 0);
}

/* Units that run again in the backward pass. */
typedef struct units_run {
    haul_module *module; /* with a reference */
    int          count;
    char         paths[]; /* one text behind the other */
} units_run;

static haul_status run_units(void *context, haul_tensor *const *inputs, int count, haul_tensor **results)
{
    const units_run *r = context;
    const char      *path = r->paths;
    haul_tensor     *now = inputs[0];
    HAUL__ASSERT(count == 1 && r->count > 0);
    (void)count;
    for (int u = 0; u < r->count && !haul__failed(now); u++, path += strlen(path) + 1) {
        haul_tensor *next = haul_call_child(r->module, path, now);
        if (now != inputs[0])
            haul_drop(now);
        now = next;
    }
    results[0] = now;
    return haul__status_of(now);
}

static void release_units(void *context)
{
    units_run *r = context;
    haul__object_release(r->module);
    haul__free(r);
}

static haul_tensor *call_again(const haul__pipe *p, int first, int end, haul_tensor *x)
{
    size_t       size = 0, used = 0;
    haul_tensor *y = NULL;
    for (int u = first; u < end; u++)
        size += strlen(p->cut.units[u].path) + 1;
    HAUL__ASSERT(first < end);
    units_run *r = haul__malloc(sizeof *r + size);
    if (!r) {
        haul__fail_memory(CALL, sizeof *r + size);
        return haul__failed_tensor();
    }
    *r = (units_run){.module = p->module, .count = end - first};
    haul__object_keep(r->module);
    for (int u = first; u < end; u++) {
        const size_t length = strlen(p->cut.units[u].path) + 1;
        memcpy(r->paths + used, p->cut.units[u].path, length);
        used += length;
    }
    HAUL__ASSERT(used == size);
    const haul__recompute_body body = {
        .operation = CALL, .run = run_units, .release = release_units, .context = r, .result_count = 1};
    return haul__recompute(&body, &x, 1, &y) ? haul__failed_tensor() : y;
}

/* Calls the units of the stage, each intermediate result of which goes as soon as the next unit has used it. Those of
 * one part run again together. */
static haul_tensor *call_units(const haul__pipe *p, haul_tensor *x)
{
    haul_tensor *now = x;
    HAUL__ASSERT(p->cut.first[p->rank] < p->cut.first[p->rank + 1]);
    for (int u = p->cut.first[p->rank], next, end = p->cut.first[p->rank + 1]; u < end; u = next) {
        const void *part = haul__cut_part(p->module, &p->cut.units[u]);
        for (next = u + 1; part && next < end && haul__cut_part(p->module, &p->cut.units[next]) == part;)
            next++;
        haul_tensor *y = part ? call_again(p, u, next, now) : haul_call_child(p->module, p->cut.units[u].path, now);
        if (now != x)
            haul_drop(now);
        if (haul__failed(y))
            return y;
        now = y;
    }
    return now;
}

static void keep(haul_tensor **to, haul_tensor *t)
{
    HAUL__ASSERT(!*to && t);
    haul__object_keep(t);
    *to = t;
}

/* The result of the stage. */
static haul_tensor *pass_through(haul__pipe *p, haul_tensor *x, bool within, haul_device *device)
{
    if (!is_first(p)) {
        const haul__passage from = forward(p, -1, within);
        x = haul__passage_receive(&from, device);
        if (!haul__failed(x) && within && haul_dtype_is_float(x->dtype))
            x = haul_set_requires_grad(x, true);
    }
    if (haul__failed(x))
        return x;
    haul_tensor *y = call_units(p, x);
    if (haul__failed(y))
        return y;
    if (within && !is_first(p))
        keep(&p->now.x, x);
    if (within && !is_last(p))
        keep(&p->now.y, y);
    return y;
}

haul_tensor *haul__pipe_call(haul__pipe *p, haul_tensor *x, bool within, haul_device *device)
{
    if (within && p->called) {
        haul__fail(HAUL_STATE, CALL, "parallel", "the network was called twice in piece %d; call it once in each piece",
                   p->now.number);
        haul__pipe_fail(p);
        return haul__failed_tensor();
    }
    if (within)
        p->called = true;
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul__failed_tensor();
    const haul__passage to = forward(p, 1, within);
    haul_tensor        *y = pass_through(p, x, within, device);
    if (!is_last(p) && !(within && haul__failed(y)) && haul__passage_send(&to, y))
        y = haul__failed_tensor();
    if (haul__failed(y) && within)
        haul__pipe_fail(p);
    if (haul__failed(y) || is_last(p))
        return haul_scope_return(scope, y);
    haul_scope_pop(scope);
    return HAUL_NONE;
}

haul_status haul__pipe_check(const haul__pipe *p, haul_tensor *loss)
{
    if (p->why.status) {
        haul__error_restore(&p->why);
        return p->why.status;
    }
    const bool expected = p->called && is_last(p);
    if (haul__is_none(loss) != expected)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, BACKWARD, "sum_of_losses",
                      expected ? "the loss of piece %d is HAUL_NONE on rank %d, which has the last stage"
                               : "there is a loss for piece %d on rank %d, where haul_parallel_call has given none",
                      p->now.number, p->rank);
}

haul_status haul__pipe_add(haul__pipe *p, haul__flat *own, haul_tensor *loss, haul_tensor *scaled, double weight)
{
    haul_tensor *rest = haul__flat_gather_rest(own, loss, weight, p->now.number == 0);
    if (!rest)
        return haul_error_status();
    keep(&p->now.rest, rest);
    if (is_last(p) && !haul__is_none(scaled))
        keep(&p->now.y, scaled);
    p->weight += weight;
    HAUL__ASSERT(p->queued < p->stages - p->rank); /* one more than there are stages after this one */
    p->queue[p->queued++] = p->now;
    p->now = (haul__pipe_piece){.x = NULL};
    return haul__flat_restore_changed(own);
}

/* ---- backward passes ---- */

/* The gradient of what came from the stage before, on its way back. */
typedef struct way_back {
    haul__passage to;
    bool          sent;
} way_back;

/* A hook: a gradient passes as an operation of one process would get it, with its strides. What the pass leaves at the
 * leaf has the leaf's. */
static haul_tensor *pass_gradient(haul_tensor *gradient, void *context)
{
    way_back *back = context;
    back->sent = true;
    return haul__passage_send(&back->to, gradient) ? haul__failed_tensor() : gradient;
}

/* seed: HAUL_NONE, or the gradient of the stage's result. Nothing in the stage may have taken part in that, for example
 * behind haul_detach. */
static haul_status pass_seed(const haul__pipe_piece *piece, haul_tensor *seed, haul__buckets *b)
{
    if (!haul__is_none(seed) && !haul_requires_grad(piece->y))
        return HAUL_OK;
    return haul__backward_once(piece->y, seed, haul__buckets_take, b);
}

static haul_status differentiate(const haul__pipe *p, const haul__pipe_piece *piece, haul__buckets *b)
{
    haul_tensor *seed = HAUL_NONE;
    HAUL__ASSERT(piece->rest && (!piece->y || is_first(p) || piece->x));
    way_back back = {.to = passage(p, -1, true, p->step, piece->number)};
    if (!piece->y)
        return HAUL_OK;
    if (!is_last(p)) {
        const haul__passage from = passage(p, 1, true, p->step, piece->number);
        seed = haul__passage_receive(&from, piece->y->storage->device);
        if (haul__failed(seed))
            return haul_error_status();
    }
    if (!is_first(p) && haul_requires_grad(piece->x) &&
        !haul_tensor_add_hook(piece->x, .gradient = pass_gradient, .context = &back))
        return haul_error_status();
    const haul_status status = pass_seed(piece, seed, b);
    return status || is_first(p) || back.sent ? status : haul__passage_send(&back.to, haul_zeros_like(piece->x));
}

static haul_status make_backward(const haul__pipe *p, haul__pipe_piece *piece, haul__buckets *b)
{
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    haul__buckets_begin(b, p->step, piece->number, false, false);
    haul_status status = differentiate(p, piece, b);
    haul_scope_pop(scope);
    scope = status ? NULL : haul__flat_scope();
    if (!scope)
        return haul_error_status();
    status = haul__buckets_finish_with(b, piece->rest);
    haul_scope_pop(scope);
    return status;
}

haul_status haul__pipe_backward(haul__pipe *p, haul__buckets *b, bool last)
{
    const int ahead = last ? 0 : p->stages - 1 - p->rank;
    HAUL__ASSERT(p->queued <= p->stages - p->rank);
    haul_status status = HAUL_OK;
    while (p->queued > ahead && !status) {
        haul__pipe_piece piece = p->queue[0];
        p->queued--;
        for (int i = 0; i < p->queued; i++)
            p->queue[i] = p->queue[i + 1];
        status = make_backward(p, &piece, b);
        drop(&piece);
    }
    return status;
}

haul_tensor *haul__pipe_share_loss(haul__pipe *p, haul_tensor *loss)
{
    char                   what[120];
    double                 value = 0; /* room for f32, too */
    const haul__group_call call = {.name = BACKWARD, .what = what};
    const size_t           bytes = haul_tensor_bytes(loss);
    HAUL__ASSERT(bytes <= sizeof value && p->under_way);
    haul__snprintf(what, sizeof what, "the loss of step %" PRId64 " with weight %.17g", p->step, p->weight);
    haul_status status = is_last(p) ? haul_read(loss, &value, bytes) : HAUL_OK;
    if (!status)
        status = haul__work_wait(haul__group_broadcast_begin(p->group, &call, &value, (int64_t)bytes, p->stages - 1));
    if (status)
        return haul__failed_tensor();
    p->under_way = false;
    return is_last(p) ? loss : haul_from_host(loss->dtype, HAUL_SCALAR_SHAPE, &value);
}

void haul__pipe_fail(haul__pipe *p)
{
    if (p->why.status)
        return;
    haul__error_save(&p->why);
    if (!p->why.status)
        return;
    const haul__passage before = passage(p, -1, true, p->step, p->now.number);
    const haul__passage after = passage(p, 1, false, p->step, p->now.number);
    if (!is_first(p))
        haul__passage_fail(&before);
    if (!is_last(p))
        haul__passage_fail(&after);
    drop_all(p);
    haul__error_restore(&p->why);
}

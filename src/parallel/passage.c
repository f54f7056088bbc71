#include "parallel/passage.h"

#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/random.h>
#include <haul/transfer.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "device/device.h"

#define CALL     "haul_parallel_call"
#define BACKWARD "haul_parallel_backward"

typedef struct head {
    int64_t           step, piece;
    int64_t           status; /* of the sender; if it is not HAUL_OK, no tensor follows */
    int64_t           dtype, ndim;
    int64_t           dims[HAUL_MAX_DIMS];    /* of the elements that follow, in the order of memory */
    int64_t           axes[HAUL_MAX_DIMS];    /* dimension i of the tensor is this one of them, */
    int64_t           repeats[HAUL_MAX_DIMS]; /* which is there so many times, without a stride */
    haul_random_state random;                 /* of the sender's generator */
    char              text[400];              /* the error */
} head;

static const char *operation(const haul__passage *p)
{
    return p->is_gradient ? BACKWARD : CALL;
}

static haul__group_call call_of(const haul__passage *p, bool is_head)
{
    static const char *const what[2][2] = {{"an activation", "the head of an activation"},
                                           {"the gradient of an activation", "the head of a gradient"}};
    return (haul__group_call){.name = operation(p), .what = what[p->is_gradient][is_head]};
}

/* ---- sending ---- */

/* Order of a tensor's dimensions in memory, the one with the largest strides first. Dimensions of one element and
 * those without a stride stay where they are. */
static void order_axes(const haul_tensor *t, int *order)
{
    for (int i = 0; i < t->shape.ndim; i++)
        order[i] = i;
    for (int i = 1; i < t->shape.ndim; i++)
        for (int k = i; k > 0 && t->strides[order[k - 1]] < t->strides[order[k]] && t->shape.dims[order[k]] > 1; k--) {
            const int axis = order[k];
            order[k] = order[k - 1];
            order[k - 1] = axis;
        }
}

/* The tensor without repetitions, and with its dimensions in the order of memory where that leaves no gaps. */
static haul_tensor *in_order(haul_tensor *t, head *h)
{
    int          order[HAUL_MAX_DIMS];
    haul_tensor *once = haul_detach(t);
    h->ndim = t->shape.ndim;
    for (int i = 0; i < t->shape.ndim && !haul__failed(once); i++) {
        const bool repeats = t->strides[i] == 0 && t->shape.dims[i] > 1;
        h->repeats[i] = repeats ? t->shape.dims[i] : 1;
        if (repeats)
            once = haul_slice(once, i, 0, 1, 1);
    }
    if (haul__failed(once) || !t->shape.ndim)
        return once;
    order_axes(once, order);
    haul_tensor *straight = haul_permute(once, order, t->shape.ndim);
    if (haul__failed(straight))
        return straight;
    const bool dense = haul_tensor_is_contiguous(straight);
    HAUL__ASSERT(h->ndim == once->shape.ndim);
    for (int i = 0; i < t->shape.ndim; i++) {
        const int axis = dense ? order[i] : i;
        HAUL__ASSERT(0 <= axis && axis < once->shape.ndim && h->repeats[i] >= 1);
        h->axes[axis] = i;
        h->dims[i] = once->shape.dims[axis];
    }
    return dense ? straight : once;
}

static haul_random_state random_state(void)
{
    const haul_generator *generator = haul_current_generator();
    return generator ? haul_generator_state_get(generator) : haul_random_state_get();
}

static haul_status receive_head(const haul__passage *p, head *h);

/* The elements are there before the head goes: what fails on this rank until then can still go in its place. */
static haul_status send_all(const haul__passage *p, const head *h, haul_tensor *elements)
{
    const haul__group_call calls[2] = {call_of(p, true), call_of(p, false)};
    const size_t           bytes = haul_tensor_bytes(elements);
    HAUL__ASSERT(h->status == HAUL_OK && p->peer >= 0 && p->peer != haul_group_rank(p->group));
    void       *room = haul__malloc(bytes + 1);
    haul_status status = room ? haul_read(elements, room, bytes) : haul__fail_memory(operation(p), bytes);
    if (!status)
        status = haul__group_send(p->group, &calls[0], h, sizeof *h, p->peer);
    if (!status)
        status = haul__group_send(p->group, &calls[1], room, (int64_t)bytes, p->peer);
    haul__free(room);
    return status;
}

/* What says that an activation has come. */
static haul__passage answer(const haul__passage *p)
{
    haul__passage back = *p;
    back.is_gradient = true;
    return back;
}

static bool is_answered(const haul__passage *p)
{
    return p->step == -1 && !p->is_gradient;
}

static haul_status send_tensor(const haul__passage *p, haul_tensor *t)
{
    head h = {.step = p->step, .piece = p->piece, .random = random_state()};
    if (haul__failed(t))
        return haul_error_status();
    h.dtype = t->dtype;
    haul_tensor *elements = in_order(t, &h);
    return haul__failed(elements) ? haul_error_status() : send_all(p, &h, elements);
}

haul_status haul__passage_send(const haul__passage *p, haul_tensor *t)
{
    const haul__passage back = answer(p);
    head                h;
    const haul_status   status = send_tensor(p, t);
    if (status && p->step < 0 && !p->is_gradient)
        haul__passage_fail(p);
    return status || !is_answered(p) ? status : receive_head(&back, &h);
}

void haul__passage_fail(const haul__passage *p)
{
    const haul__group_call call = call_of(p, true);
    haul__error_record     error;
    haul__error_save(&error);
    HAUL__ASSERT(p->peer >= 0 && p->peer != haul_group_rank(p->group));
    head h = {.step = p->step, .piece = p->piece, .status = error.status ? error.status : HAUL_STATE};
    haul__snprintf(h.text, sizeof h.text, "%s%s%s", error.operation, *error.operation ? ": " : "", error.message);
    haul__group_send(p->group, &call, &h, sizeof h, p->peer);
    haul__error_restore(&error);
}

/* ---- receiving ---- */

/* The other rank's error, with its name unless an earlier one is named. */
static haul_status take_error(const haul__passage *p, head *h)
{
    char rank[120];
    haul__group_describe_rank(p->group, p->peer, rank, sizeof rank);
    h->text[sizeof h->text - 1] = '\0';
    if (strncmp(h->text, "haul_parallel_", 14) == 0 && strstr(h->text, " has failed: "))
        return haul__fail((haul_status)h->status, NULL, NULL, "%s", h->text);
    return haul__fail((haul_status)h->status, operation(p), NULL, "%s has failed: %.400s", rank, h->text);
}

static haul_status check_head(const haul__passage *p, head *h)
{
    char rank[120];
    if (h->status)
        return take_error(p, h);
    haul__group_describe_rank(p->group, p->peer, rank, sizeof rank);
    if (h->step != p->step || h->piece != p->piece)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation(p), NULL,
                          "%s sends piece %" PRId64 " of step %" PRId64
                          ", but this rank is in piece %d of step %" PRId64
                          "; all ranks call the network for the same pieces and outside of steps equally often",
                          rank, h->piece, h->step, p->piece, p->step);
    return HAUL_OK;
}

static haul_status receive_head(const haul__passage *p, head *h)
{
    const haul__group_call call = call_of(p, true);
    const haul_status      status = haul__work_wait(haul__group_receive_begin(p->group, &call, h, sizeof *h, p->peer));
    return status ? status : check_head(p, h);
}

/* What a head says of its tensor; shape: of the elements. */
static haul_status check_tensor(const haul__passage *p, const head *h, haul_shape *shape, haul_device *device)
{
    int64_t count = 0;
    bool    valid = h->ndim >= 0 && h->ndim <= HAUL_MAX_DIMS && h->dtype > HAUL_DTYPE_NONE && h->dtype <= INT32_MAX;
    *shape = (haul_shape){.ndim = valid ? (int)h->ndim : 0};
    for (int i = 0; i < shape->ndim; i++) {
        shape->dims[i] = h->dims[i];
        valid = valid && h->axes[i] >= 0 && h->axes[i] < h->ndim && h->repeats[i] >= 1;
    }
    if (!valid)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation(p), NULL, "the head of a tensor from rank %d is damaged",
                          p->peer);
    const haul_status status = haul__check_dtype((haul_dtype)h->dtype, device, operation(p));
    return status ? status : haul__shape_count(shape, operation(p), &count);
}

/* The tensor that has these elements. */
static haul_tensor *arrange(const head *h, haul_tensor *elements)
{
    int  axes[HAUL_MAX_DIMS];
    bool repeats = false;
    for (int i = 0; i < h->ndim; i++) {
        axes[i] = (int)h->axes[i];
        repeats = repeats || h->repeats[i] > 1;
    }
    HAUL__ASSERT(h->ndim == elements->shape.ndim && h->status == HAUL_OK); /* check_tensor, check_head */
    haul_tensor *t = h->ndim < 2 ? elements : haul_permute(elements, axes, (int)h->ndim);
    if (haul__failed(t) || !repeats)
        return t;
    haul_shape shape = t->shape;
    for (int i = 0; i < h->ndim; i++)
        if (h->repeats[i] > 1)
            shape.dims[i] = h->repeats[i];
    return haul_expand(t, shape);
}

static haul_tensor *receive_elements(const haul__passage *p, const head *h, haul_device *device)
{
    const haul__group_call call = call_of(p, false);
    haul_shape             shape;
    if (check_tensor(p, h, &shape, device))
        return haul__failed_tensor();
    size_t bytes = haul__dtype_size((haul_dtype)h->dtype);
    for (int i = 0; i < shape.ndim; i++)
        bytes *= (size_t)shape.dims[i];
    void *room = haul__malloc(bytes + 1);
    if (!room) {
        haul__fail_memory(operation(p), bytes);
        return haul__failed_tensor();
    }
    haul_status  status = haul__work_wait(haul__group_receive_begin(p->group, &call, room, (int64_t)bytes, p->peer));
    haul_tensor *t = status ? haul__failed_tensor() : haul_from_host((haul_dtype)h->dtype, shape, room);
    haul__free(room);
    return haul__failed(t) ? t : arrange(h, t);
}

static haul_status go_on_drawing(haul_random_state state)
{
    haul_generator *generator = haul_current_generator();
    if (generator)
        return haul_generator_state_set(generator, state);
    haul_random_state_set(state);
    return HAUL_OK;
}

static haul_status send_answer(const haul__passage *p)
{
    const haul__passage    back = answer(p);
    const haul__group_call call = call_of(&back, true);
    HAUL__ASSERT(is_answered(p) && back.is_gradient);
    const head h = {.step = p->step, .piece = p->piece};
    return haul__group_send(p->group, &call, &h, sizeof h, p->peer);
}

static haul_tensor *take(const haul__passage *p, const head *h, haul_device *device)
{
    haul_device *before = haul_current_device();
    haul_set_device(device);
    haul_tensor *t = receive_elements(p, h, device);
    haul_set_device(before);
    return haul__failed(t) || p->is_gradient || !go_on_drawing(h->random) ? t : haul__failed_tensor();
}

haul_tensor *haul__passage_receive(const haul__passage *p, haul_device *device)
{
    head                h = {.step = 0};
    const haul__passage back = answer(p);
    const haul_status   status = receive_head(p, &h);
    haul_tensor        *t = status ? haul__failed_tensor() : take(p, &h, device);
    if (!is_answered(p) || h.status)
        return t;
    if (haul__failed(t))
        haul__passage_fail(&back);
    else if (send_answer(p))
        return haul__failed_tensor();
    return t;
}

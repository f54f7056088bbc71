#include "parallel/passage.h"

#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/transfer.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"

#define CALL     "haul_parallel_call"
#define BACKWARD "haul_parallel_backward"

typedef struct head {
    int64_t step, piece;
    int64_t status; /* of the sender; if it is not HAUL_OK, no tensor follows */
    int64_t dtype, ndim;
    int64_t dims[HAUL_MAX_DIMS]; /* in the order of memory */
    int64_t axes[HAUL_MAX_DIMS]; /* dimension i of the tensor is this one of them */
    char    text[400];           /* the error */
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

/* The tensor with its dimensions in the order of memory; as it is where that leaves gaps. */
static haul_tensor *in_order(haul_tensor *t, head *h)
{
    int order[HAUL_MAX_DIMS];
    order_axes(t, order);
    haul_tensor *straight = haul_permute(haul_detach(t), order, t->shape.ndim);
    if (haul__failed(straight))
        return straight;
    const bool dense = haul_tensor_is_contiguous(straight);
    for (int i = 0; i < t->shape.ndim; i++) {
        const int axis = dense ? order[i] : i;
        h->axes[axis] = i;
        h->dims[i] = t->shape.dims[axis];
    }
    return dense ? straight : haul_detach(t);
}

static haul_status send_elements(const haul__passage *p, haul_tensor *t)
{
    const haul__group_call call = call_of(p, false);
    const size_t           bytes = haul_tensor_bytes(t);
    void                  *room = haul__malloc(bytes + 1);
    haul_status            status = room ? haul_read(t, room, bytes) : haul__fail_memory(operation(p), bytes);
    if (!status)
        status = haul__group_send(p->group, &call, room, (int64_t)bytes, p->peer);
    haul__free(room);
    return status;
}

haul_status haul__passage_send(const haul__passage *p, haul_tensor *t)
{
    const haul__group_call call = call_of(p, true);
    head                   h = {.step = p->step, .piece = p->piece};
    if (haul__failed(t))
        return haul_error_status();
    h.dtype = t->dtype;
    h.ndim = t->shape.ndim;
    haul_tensor *straight = t->shape.ndim ? in_order(t, &h) : haul_detach(t);
    if (haul__failed(straight))
        return haul_error_status();
    const haul_status status = haul__group_send(p->group, &call, &h, sizeof h, p->peer);
    return status ? status : send_elements(p, straight);
}

void haul__passage_fail(const haul__passage *p)
{
    const haul__group_call call = call_of(p, true);
    haul__error_record     error;
    haul__error_save(&error);
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

static haul_tensor *receive_elements(const haul__passage *p, const head *h)
{
    const haul__group_call call = call_of(p, false);
    haul_shape             shape = {.ndim = (int)h->ndim};
    int                    axes[HAUL_MAX_DIMS];
    int64_t                count = 1;
    for (int i = 0; i < shape.ndim; i++) {
        shape.dims[i] = h->dims[i];
        axes[i] = (int)h->axes[i];
        count *= shape.dims[i];
    }
    const size_t bytes = (size_t)count * haul__dtype_size((haul_dtype)h->dtype);
    void        *room = haul__malloc(bytes + 1);
    if (!room) {
        haul__fail_memory(operation(p), bytes);
        return haul__failed_tensor();
    }
    haul_status  status = haul__work_wait(haul__group_receive_begin(p->group, &call, room, (int64_t)bytes, p->peer));
    haul_tensor *t = status ? haul__failed_tensor() : haul_from_host((haul_dtype)h->dtype, shape, room);
    haul__free(room);
    return haul__failed(t) || shape.ndim < 2 ? t : haul_permute(t, axes, shape.ndim);
}

haul_tensor *haul__passage_receive(const haul__passage *p, haul_device *device)
{
    const haul__group_call call = call_of(p, true);
    head                   h = {.step = 0};
    haul_status            status = haul__work_wait(haul__group_receive_begin(p->group, &call, &h, sizeof h, p->peer));
    if (!status)
        status = check_head(p, &h);
    if (status)
        return haul__failed_tensor();
    haul_device *before = haul_current_device();
    haul_set_device(device);
    haul_tensor *t = receive_elements(p, &h);
    haul_set_device(before);
    return t;
}

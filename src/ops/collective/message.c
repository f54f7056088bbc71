/* haul_send and haul_receive: a tensor goes from one rank of a group to another one, through host memory.
 *
 * The gradient of a message is a message back. Both ranks have the number of the first one, a hidden result of each
 * operation, and the second one's text names it. So gradients that are computed in another order on the two ranks are
 * an error. */
#include <haul/group.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "engine/attribute_shape.h"
#include "engine/node.h"
#include "group/messages.h"
#include "memory/dry_run/dry_run.h"
#include "ops/collective/collective.h"
#include "transfer/copy.h"

/* Begins as the attributes of other collectives do (collective.c). */
typedef struct message_attributes {
    int64_t               group; /* its number */
    int32_t               peer;
    int32_t               dtype; /* of the gradient that comes back; of send_backward only, as is the shape */
    haul__attribute_shape shape;
} message_attributes;

extern const haul__operation haul__operation_send, haul__operation_receive, haul__operation_send_backward,
    haul__operation_receive_backward;

/* ---- shapes ---- */

/* What a send returns: 0, which a backward pass begins at. */
static haul_status describe_token(haul__call *c)
{
    const haul_dtype dtype = c->operands[0]->dtype;
    return haul__describe(c, 0, haul_dtype_is_float(dtype) ? dtype : HAUL_F32, &HAUL_SCALAR_SHAPE);
}

static haul_status infer_send(haul__call *c)
{
    return describe_token(c) ? haul_error_status() : haul__describe(c, 1, HAUL_I64, &HAUL_SCALAR_SHAPE);
}

static haul_status infer_receive(haul__call *c)
{
    const haul_tensor *like = c->operands[0];
    return haul__describe(c, 0, like->dtype, &like->shape) ? haul_error_status()
                                                           : haul__describe(c, 1, HAUL_I64, &HAUL_SCALAR_SHAPE);
}

static haul_status infer_send_backward(haul__call *c)
{
    const message_attributes *a = haul__attributes_of(c);
    const haul_shape          shape = haul__shape_of_attribute(&a->shape);
    HAUL__ASSERT(0 <= shape.ndim && shape.ndim <= HAUL_MAX_DIMS && (haul_dtype)a->dtype < HAUL_DTYPE_END);
    return haul__describe(c, 0, (haul_dtype)a->dtype, &shape);
}

static haul_status infer_receive_backward(haul__call *c)
{
    return describe_token(c);
}

/* ---- data ---- */

static haul_status download(const haul__call *c, const haul_tensor *x, void *to)
{
    HAUL__ASSERT(x->contiguous);
    const size_t size = haul__dtype_size(x->dtype);
    return haul__transfer(&(haul__copy){.operation = c->operation->name,
                                        .to_host = to,
                                        .from = {x->storage, (size_t)x->offset * size},
                                        .bytes = haul_tensor_bytes(x)});
}

static haul_status upload(const haul__call *c, haul_tensor *y, const void *from)
{
    HAUL__ASSERT(y->contiguous);
    const size_t size = haul__dtype_size(y->dtype);
    return haul__transfer(&(haul__copy){.operation = c->operation->name,
                                        .to = {y->storage, (size_t)y->offset * size},
                                        .from_host = from,
                                        .bytes = haul_tensor_bytes(y),
                                        .fresh = !c->into});
}

/* The text that both ranks must have: of the tensor, and of the message whose gradient it is or whether a gradient will
 * follow. */
static haul_status write_text(const haul__call *c, const haul_tensor *t, bool is_gradient, char *out, size_t size)
{
    char    shape[80], more[64] = "";
    int64_t number = 0;
    if (is_gradient && download(c, c->operands[1], &number))
        return haul_error_status();
    if (is_gradient)
        haul__snprintf(more, sizeof more, ", the gradient of message %lld", (long long)number);
    else if (c->records)
        haul__snprintf(more, sizeof more, ", with a gradient");
    haul__snprintf(out, size, "%s%s%s", haul_dtype_name(t->dtype), haul__shape_text(&t->shape, shape, sizeof shape),
                   more);
    return HAUL_OK;
}

static haul_status move(const haul__call *c, haul_tensor *t, bool sends, bool is_gradient, char *room, int64_t *number)
{
    const message_attributes *a = haul__attributes_of(c);
    char                      text[192];
    const haul__group_call    call = {.name = c->operation->name, .what = text};
    const int64_t             bytes = (int64_t)haul_tensor_bytes(t);
    HAUL__ASSERT(bytes > 0 && room);
    haul_group *group = haul__group_of_number(a->group, call.name);
    if (!group || write_text(c, t, is_gradient, text, sizeof text))
        return haul_error_status();
    if (sends)
        return download(c, t, room) ? haul_error_status()
                                    : haul__message_send(group, &call, room, bytes, a->peer, number);
    return haul__message_receive(group, &call, room, bytes, a->peer, number) ? haul_error_status() : upload(c, t, room);
}

/* Moves a tensor, unless it has no elements: a rank that receives none has nothing to compute, either. */
static haul_status run(const haul__call *c, haul_tensor *t, bool sends, bool is_gradient)
{
    const size_t bytes = haul_tensor_bytes(t);
    int64_t      number = 0, zero = 0;
    haul_status  status = HAUL_OK;
    HAUL__ASSERT(t == (sends ? c->operands[0] : c->results[0]) && (!is_gradient || c->count == 2));
    if (bytes && haul__is_dry()) {
        status = sends ? HAUL_OK : upload(c, t, &zero);
    } else if (bytes) {
        char *room = haul__malloc(bytes);
        status = room ? move(c, t, sends, is_gradient, room, &number) : haul__fail_memory(c->operation->name, bytes);
        haul__free(room);
    }
    if (!status && sends)
        status = upload(c, c->results[0], &zero);
    if (!status && !is_gradient && c->results[1])
        status = upload(c, c->results[1], &number);
    return status;
}

static haul_status compute_send(haul__call *c)
{
    return run(c, c->operands[0], true, false);
}

static haul_status compute_receive(haul__call *c)
{
    return run(c, c->results[0], false, false);
}

static haul_status compute_send_backward(haul__call *c)
{
    return run(c, c->results[0], false, true);
}

static haul_status compute_receive_backward(haul__call *c)
{
    return run(c, c->operands[0], true, true);
}

/* ---- gradients ---- */

static haul_tensor *make(const haul__operation *operation, const message_attributes *a, haul_tensor *const *operands,
                         int count)
{
    haul_tensor *y = haul__apply1(operation, a, operands, count);
    if (haul__failed(y))
        haul__collective_fail(operation, a);
    return y;
}

static haul_tensor *make_gradient(const haul__gradient *g, const haul__operation *operation,
                                  const message_attributes *a)
{
    if (haul__differentiated(g)) {
        haul__fail(HAUL_UNSUPPORTED, g->operation->name, NULL,
                   "the gradient of a message cannot be differentiated; call haul_grad without .create_graph");
        haul__collective_fail(operation, a);
        return haul__failed_tensor();
    }
    return make(operation, a, HAUL__OPERANDS(g->results[0], g->saved_results[1]));
}

static void gradient_send(haul__gradient *g)
{
    message_attributes a = *(const message_attributes *)g->attributes;
    haul__shape_to_attribute(&a.shape, haul__operand_shape(g, 0));
    a.dtype = (int32_t)haul__operand_dtype(g, 0);
    HAUL__ASSERT(!haul__is_none(g->saved_results[1]));
    g->operands[0] = make_gradient(g, &haul__operation_send_backward, &a);
}

/* None flows to the operand, whose elements are not read. */
static void gradient_receive(haul__gradient *g)
{
    const haul_tensor *sent = make_gradient(g, &haul__operation_receive_backward, g->attributes);
    if (haul__failed(sent))
        g->operands[0] = NULL;
}

/* ---- operations ---- */

#define MESSAGE(title, kind)                                                                                           \
    .name = title, .infer = infer_##kind, .compute = compute_##kind, .extra = haul__message, .between_ranks = true,    \
    .attributes_size = HAUL__ATTRIBUTES(message_attributes)
#define NUMBER                                                                                                         \
    {                                                                                                                  \
        .name = "number", .hidden = true, .saved_for = HAUL__FOR_0                                                     \
    }

HAUL__OPERATION(send) = {MESSAGE("haul_send", send), .operands = {{"x"}}, .results = {{"y"}, NUMBER},
                         .gradient = gradient_send};
HAUL__OPERATION(receive) = {MESSAGE("haul_receive", receive), .operands = {{"like", .layout = HAUL__ANY_STRIDES}},
                            .results = {{"y"}, NUMBER}, .gradient = gradient_receive};
HAUL__OPERATION(send_backward) = {MESSAGE("haul_send_backward", send_backward),
                                  .operands = {{"g"}, {"number", .accepts = HAUL__ONLY(HAUL_I64)}},
                                  .results = {{"dx"}}};
HAUL__OPERATION(receive_backward) = {MESSAGE("haul_receive_backward", receive_backward),
                                     .operands = {{"g"}, {"number", .accepts = HAUL__ONLY(HAUL_I64)}},
                                     .results = {{"y"}}};

/* The other rank does not know that a function runs again. */
static haul_status check(const haul_group *group, int peer, const char *name, const char *argument)
{
    if (haul__group_check(group, name) || haul__group_check_rank(group, peer, name, argument))
        return haul_error_status();
    return haul__thread()->words[HAUL__RECOMPUTE]
               ? haul__fail(HAUL_UNSUPPORTED, name, NULL,
                            "a function that runs again in the backward pass cannot send or receive")
               : HAUL_OK;
}

haul_tensor *haul_send(haul_tensor *x, int to, haul_group *group)
{
    if (check(group, to, "haul_send", "to"))
        return haul__failed_tensor();
    return make(&haul__operation_send, &(message_attributes){.group = haul__group_number(group), .peer = to},
                HAUL__OPERANDS(x));
}

haul_tensor *haul_receive(haul_tensor *like, int from, haul_group *group)
{
    if (check(group, from, "haul_receive", "from"))
        return haul__failed_tensor();
    return make(&haul__operation_receive, &(message_attributes){.group = haul__group_number(group), .peer = from},
                HAUL__OPERANDS(like));
}

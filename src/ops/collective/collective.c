/* Operations on tensors of all ranks of a group: their data comes to host memory, a collective of the group moves it
 * (group/group.h), and the result goes to the device. Sums of a group whose devices are connected stay on the device
 * (group/direct.h). */
#include <haul/group.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/half.h"
#include "base/text/plain.h"
#include "engine/operation.h"
#include "group/direct.h"
#include "group/group.h"
#include "group/messages.h"
#include "memory/dry_run/dry_run.h"
#include "ops/collective/axis.h"
#include "ops/collective/collective.h"
#include "transfer/copy.h"

enum { ALL_REDUCE_DTYPES = HAUL__ONLY(HAUL_F32) | HAUL__ONLY(HAUL_F64) | HAUL__ONLY(HAUL_I32) | HAUL__ONLY(HAUL_I64) };

typedef struct collective_attributes {
    int64_t group; /* its number */
    int32_t axis;  /* or the root */
    int32_t reserved;
} collective_attributes;

/* ---- shapes ---- */

static int ranks_of(const collective_attributes *a, const char *name)
{
    const haul_group *group = haul__group_of_number(a->group, name);
    return group ? haul_group_size(group) : -1;
}

static haul_status infer_same(haul__call *c)
{
    return haul__describe(c, 0, c->operands[0]->dtype, &c->operands[0]->shape);
}

static haul_status complete_axis(haul__call *c, collective_attributes *a)
{
    int         axis = a->axis;
    haul_status status = haul__call_proper_axis(c, 0, &axis);
    a->axis = axis;
    return status;
}

static haul_status infer_gather(haul__call *c)
{
    collective_attributes *a = haul__attributes(c);
    haul_shape             shape = c->operands[0]->shape;
    const int              ranks = ranks_of(a, c->operation->name);
    if (ranks < 0 || complete_axis(c, a))
        return haul_error_status();
    if (!haul__mul_size(shape.dims[a->axis], ranks, &shape.dims[a->axis]))
        return haul__refuse_shape(c, 0, "fewer elements are expected");
    return haul__describe(c, 0, c->operands[0]->dtype, &shape);
}

static haul_status infer_scatter(haul__call *c)
{
    collective_attributes *a = haul__attributes(c);
    haul_shape             shape = c->operands[0]->shape;
    const int              ranks = ranks_of(a, c->operation->name);
    char                   have[80];
    if (ranks < 0 || complete_axis(c, a))
        return haul_error_status();
    HAUL__ASSERT(0 <= a->axis && a->axis < shape.ndim);
    if (shape.dims[a->axis] % ranks)
        return haul__fail(HAUL_SHAPE, c->operation->name, "x",
                          "x has shape %s, and axis %d cannot be divided among %d ranks; a multiple of %d is expected",
                          haul__shape_text(&shape, have, sizeof have), (int)a->axis, ranks, ranks);
    HAUL__ASSERT(ranks > 0);
    shape.dims[a->axis] /= ranks;
    return haul__describe(c, 0, c->operands[0]->dtype, &shape);
}

/* ---- data ---- */

/* A collective in host memory: the function brings the operand there, and writes the result to `out`. */
typedef struct host_call {
    haul_group             *group;
    const haul__group_call *call;
    haul_tensor            *x, *y;
    int                     axis, ranks;
    char                   *out;
    size_t                  in_bytes, out_bytes;
} host_call;

static haul__tree tree_of(const host_call *h)
{
    return (haul__tree){.pieces = h->ranks, .ranks = h->ranks};
}

/* The operand, in host memory. */
static haul_status download(const host_call *h, void *to)
{
    if (!h->in_bytes)
        return HAUL_OK;
    return haul__transfer(&(haul__copy){.operation = h->call->name,
                                        .to_host = to,
                                        .from = {h->x->storage, (size_t)h->x->offset * haul__dtype_size(h->x->dtype)},
                                        .bytes = h->in_bytes});
}

static haul_status move_reduce(const host_call *h)
{
    HAUL__ASSERT(h->in_bytes == h->out_bytes && h->x->dtype == h->y->dtype);
    const haul__tree tree = tree_of(h);
    if (download(h, h->out))
        return haul_error_status();
    return haul__work_wait(
        haul__group_sum_begin(h->group, h->call, &tree, h->x->dtype, (void *[]){h->out}, h->x->count));
}

/* The operand is copied on its device, where the sum is then made. */
static haul_status reduce_on_device(const haul__call *c, const host_call *h)
{
    HAUL__ASSERT(h->in_bytes == h->out_bytes && h->x->storage->device == h->y->storage->device);
    const haul__tree  tree = tree_of(h);
    const size_t      size = haul__dtype_size(h->x->dtype);
    const haul__copy  copy = {.operation = h->call->name,
                              .to = {h->y->storage, (size_t)h->y->offset * size},
                              .from = {h->x->storage, (size_t)h->x->offset * size},
                              .bytes = h->in_bytes,
                              .fresh = !c->into};
    const haul_status status = haul__transfer(&copy);
    return status ? status : haul__work_wait(haul__group_sum_tensors_begin(h->group, h->call, &tree, &h->y));
}

static haul_status move_broadcast(const host_call *h)
{
    HAUL__ASSERT(h->in_bytes == h->out_bytes);
    if (download(h, h->out))
        return haul_error_status();
    return haul__work_wait(haul__group_broadcast_begin(h->group, h->call, h->out, (int64_t)h->out_bytes, h->axis));
}

/* The portions of ranks arrive one after the other, and are then rows of the axis. */
static haul_status move_gather(const host_call *h)
{
    HAUL__ASSERT(h->out_bytes == h->in_bytes * (size_t)h->ranks);
    HAUL__ASSERT(haul_group_rank(h->group) < h->ranks);
    const haul__axis_blocks blocks = haul__axis_blocks_of(&h->x->shape, h->axis, haul__dtype_size(h->x->dtype));
    char                   *all = haul__malloc(h->out_bytes + 1);
    if (!all)
        return haul__fail_memory(h->call->name, h->out_bytes);
    haul_status status = download(h, all + (size_t)haul_group_rank(h->group) * h->in_bytes);
    if (!status)
        status = haul__group_gather_equal(h->group, h->call, all, h->in_bytes);
    if (!status)
        haul__axis_interleave(&blocks, h->ranks, all, h->out);
    haul__free(all);
    return status;
}

/* Each rank gets its part of all ranks' operands, and adds them in the order of the tree. */
static haul_status add_parts(const host_call *h, char *parts)
{
    HAUL__ASSERT(h->ranks > 0 && h->in_bytes == h->out_bytes * (size_t)h->ranks);
    const haul__tree tree = tree_of(h);
    void           **sums = haul__malloc((size_t)h->ranks * sizeof *sums);
    if (!sums)
        return haul__fail_memory(h->call->name, (size_t)h->ranks * sizeof *sums);
    for (int r = 0; r < h->ranks; r++)
        sums[r] = parts + (size_t)r * h->out_bytes;
    memcpy(h->out, haul__tree_sum(&tree, h->x->dtype, sums, h->y->count), h->out_bytes);
    haul__free(sums);
    return HAUL_OK;
}

/* `parts` has the operand first, and then what arrives. */
static haul_status move_scatter(const host_call *h)
{
    HAUL__ASSERT(h->in_bytes == h->out_bytes * (size_t)h->ranks);
    HAUL__ASSERT(h->ranks > 0);
    const haul__axis_blocks blocks = haul__axis_blocks_of(&h->y->shape, h->axis, haul__dtype_size(h->x->dtype));
    int64_t                *bytes = haul__malloc((size_t)h->ranks * sizeof *bytes);
    char                   *packed = haul__malloc(h->in_bytes + 1), *parts = haul__malloc(h->in_bytes + 1);
    haul_status             status;
    if (!packed || !parts || !bytes)
        status = haul__fail_memory(h->call->name, 2 * h->in_bytes);
    else
        status = download(h, parts);
    if (!status) {
        for (int r = 0; r < h->ranks; r++)
            bytes[r] = (int64_t)h->out_bytes;
        haul__axis_separate(&blocks, h->ranks, parts, packed);
        status = haul__work_wait(
            haul__group_exchange_begin(h->group, h->call, packed, bytes, parts, bytes, (int64_t)h->in_bytes));
    }
    if (!status)
        status = add_parts(h, parts);
    haul__free(packed);
    haul__free(parts);
    haul__free(bytes);
    return status;
}

static haul_status upload(const haul__call *c, const host_call *h)
{
    HAUL__ASSERT(h->y->contiguous && h->out_bytes == haul_tensor_bytes(h->y));
    return haul__transfer(&(haul__copy){.operation = h->call->name,
                                        .to = {h->y->storage, (size_t)h->y->offset * haul__dtype_size(h->y->dtype)},
                                        .from_host = h->out,
                                        .bytes = h->out_bytes,
                                        .fresh = !c->into});
}

static haul_status run(const haul__call *c, host_call *h, haul_status (*move)(const host_call *h))
{
    h->out = haul__malloc(h->out_bytes + 1);
    haul_status status = h->out ? move(h) : haul__fail_memory(h->call->name, h->out_bytes);
    if (!status && h->out_bytes)
        status = upload(c, h);
    haul__free(h->out);
    return status;
}

/* What all ranks must have in common. A backward pass makes collectives, too, so it belongs to this whether one will
 * follow. */
static void write_call(const haul__call *c, const collective_attributes *a, char *out, size_t size)
{
    const haul_tensor *x = c->operands[0];
    const char        *number = c->operation->extra; /* NULL: there is none */
    char               shape[80], chosen[40] = "";
    if (number)
        haul__snprintf(chosen, sizeof chosen, ", %s %d", number, (int)a->axis);
    haul__snprintf(out, size, "%s%s%s%s", haul_dtype_name(x->dtype), haul__shape_text(&x->shape, shape, sizeof shape),
                   chosen, c->records ? ", with a gradient" : "");
}

static haul_status compute(haul__call *c, haul_status (*move)(const host_call *h))
{
    const collective_attributes *a = haul__attributes(c);
    char                         what[160];
    const haul__group_call       call = {.name = c->operation->name, .what = what};
    host_call                    h = {.call = &call, .x = c->operands[0], .y = c->results[0], .axis = a->axis};
    h.group = haul__group_of_number(a->group, call.name);
    if (!h.group)
        return haul_error_status();
    h.ranks = haul_group_size(h.group);
    HAUL__ASSERT(h.x->contiguous && h.ranks > 0);
    h.in_bytes = haul_tensor_bytes(h.x);
    h.out_bytes = haul_tensor_bytes(h.y);
    if (haul__is_dry())
        return h.out_bytes ? upload(c, &h) : HAUL_OK;
    write_call(c, a, what, sizeof what);
    if (move == move_reduce && haul__direct_moves(h.group, h.y))
        return reduce_on_device(c, &h);
    return run(c, &h, move);
}

static haul_status compute_reduce(haul__call *c)
{
    return compute(c, move_reduce);
}

static haul_status compute_broadcast(haul__call *c)
{
    return compute(c, move_broadcast);
}

static haul_status compute_gather(haul__call *c)
{
    return compute(c, move_gather);
}

static haul_status compute_scatter(haul__call *c)
{
    return compute(c, move_scatter);
}

/* ---- errors ---- */

const char haul__message[] = "message";

/* A rank may fail before its collective begins: an operand has failed, or memory is missing. The others make the
 * collective, and get the error. */
void haul__collective_fail(const haul__operation *operation, const void *attributes)
{
    const collective_attributes *a = attributes;
    haul__error_record           error;
    haul__error_save(&error);
    haul_group *group = haul__group_of_number(a->group, operation->name);
    haul__error_restore(&error);
    if (group && operation->extra == haul__message)
        haul__message_fail(group, operation->name);
    else if (group)
        haul__group_pass_error(group, operation->name);
}

static haul_tensor *make(const haul__operation *operation, const collective_attributes *a, haul_tensor *x)
{
    haul_tensor *y = haul__apply1(operation, a, HAUL__OPERANDS(x));
    if (haul__failed(y))
        haul__collective_fail(operation, a);
    return y;
}

/* ---- gradients ---- */

/* Sums of f16 and bf16 are made in f32. */
static haul_tensor *in_sums(const haul__operation *operation, const collective_attributes *a, haul_tensor *x)
{
    if (!haul_tensor_is_valid(x) || !haul__is_half(x->dtype))
        return make(operation, a, x);
    haul_tensor *wide = haul_cast(x, HAUL_F32);
    haul_tensor *sum = make(operation, a, wide);
    return haul__failed(sum) ? sum : haul_cast(sum, x->dtype);
}

extern const haul__operation haul__operation_all_reduce, haul__operation_all_gather, haul__operation_reduce_scatter;

static void gradient_reduce(haul__gradient *g)
{
    g->operands[0] = in_sums(&haul__operation_all_reduce, g->attributes, g->results[0]);
}

/* Every rank makes the sum, because it is a collective. */
static void gradient_broadcast(haul__gradient *g)
{
    const collective_attributes *a = g->attributes;
    const collective_attributes  sums = {.group = a->group};
    haul_group                  *group = haul__group_of_number(a->group, g->operation->name);
    HAUL__ASSERT(!group || a->axis < haul_group_size(group));
    haul_tensor *sum = group ? in_sums(&haul__operation_all_reduce, &sums, g->results[0]) : NULL;
    const bool   is_root = group && haul_group_rank(group) == a->axis;
    g->operands[0] = haul__failed(sum) || is_root ? sum : haul_zeros_like(sum);
}

static void gradient_gather(haul__gradient *g)
{
    g->operands[0] = in_sums(&haul__operation_reduce_scatter, g->attributes, g->results[0]);
}

static void gradient_scatter(haul__gradient *g)
{
    g->operands[0] = make(&haul__operation_all_gather, g->attributes, g->results[0]);
}

/* ---- operations ---- */

#define COLLECTIVE(title, kind, inferred, number)                                                                      \
    .name = title, .operands = {{.name = "x"}}, .results = {{.name = "y"}}, .infer = inferred,                         \
    .compute = compute_##kind, .gradient = gradient_##kind, .extra = number, .between_ranks = true,                    \
    .attributes_size = HAUL__ATTRIBUTES(collective_attributes)

HAUL__OPERATION(all_reduce) = {COLLECTIVE("haul_all_reduce", reduce, infer_same, NULL), .dtypes = ALL_REDUCE_DTYPES,
                               .flops = 1};
HAUL__OPERATION(broadcast) = {COLLECTIVE("haul_broadcast", broadcast, infer_same, "root")};
HAUL__OPERATION(all_gather) = {COLLECTIVE("haul_all_gather", gather, infer_gather, "axis")};
HAUL__OPERATION(reduce_scatter) = {COLLECTIVE("haul_reduce_scatter", scatter, infer_scatter, "axis"),
                                   .dtypes = ALL_REDUCE_DTYPES, .flops = 1};

haul_tensor *haul_all_reduce(haul_tensor *x, haul_group *group)
{
    if (haul__group_check(group, "haul_all_reduce"))
        return haul__failed_tensor();
    return in_sums(&haul__operation_all_reduce, &(collective_attributes){.group = haul__group_number(group)}, x);
}

haul_tensor *haul_broadcast(haul_tensor *x, int root, haul_group *group)
{
    static const char name[] = "haul_broadcast";
    if (haul__group_check(group, name) || haul__group_check_rank(group, root, name, "root"))
        return haul__failed_tensor();
    return make(&haul__operation_broadcast, &(collective_attributes){.group = haul__group_number(group), .axis = root},
                x);
}

haul_tensor *haul_all_gather(haul_tensor *x, int axis, haul_group *group)
{
    if (haul__group_check(group, "haul_all_gather"))
        return haul__failed_tensor();
    return make(&haul__operation_all_gather, &(collective_attributes){.group = haul__group_number(group), .axis = axis},
                x);
}

haul_tensor *haul_reduce_scatter(haul_tensor *x, int axis, haul_group *group)
{
    if (haul__group_check(group, "haul_reduce_scatter"))
        return haul__failed_tensor();
    return in_sums(&haul__operation_reduce_scatter,
                   &(collective_attributes){.group = haul__group_number(group), .axis = axis}, x);
}

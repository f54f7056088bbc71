/* Finds chains: neighbouring pointwise operations whose results have one shape and layout, and a reduction of rows that
 * may end them.
 *
 * A chain is computed tile by tile, each tile by all operations in their order. Tiles run at the same time, so what one
 * operation writes, others of the chain may only read or write at the same position. What no other operation uses has
 * no memory but that of a tile. Each operation keeps its own kernel, so results are bit-identical. */
#include "record/fuse.h"

#include "backends/implementation.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/clock.h"
#include "core/shape.h"
#include "engine/operation.h"
#include "ops/reduce/reduce.h"
#include "record/formula.h"

typedef struct search {
    haul__fusing *f;
    haul_program *p;
    int64_t       parts[HAUL__MAX_CHAIN]; /* of the chain under way */
    int           count;
} search;

haul_status haul__fusing_begin(haul__fusing *f, const haul__program *log, const haul__program_order *order,
                               haul_program *p, const bool *constant)
{
    HAUL__ASSERT(order->count == (size_t)p->operation_count);
    *f = (haul__fusing){.log = log, .order = order, .p = p, .constant = constant};
    f->is_off = haul__implementation_left_out(HAUL__BY_fusion) || haul__clock_is_virtual();
    f->places = haul__calloc(log->call_count + 1, sizeof *f->places);
    if (!f->places)
        return haul__fail_memory("haul_program_record", log->call_count * sizeof *f->places);
    for (size_t i = 0; i < log->described_count; i++)
        f->places[log->described[i]] = i;
    return HAUL_OK;
}

void haul__fusing_end(haul__fusing *f)
{
    haul__free(f->places);
}

static const haul__program_call *call_of(const haul__fusing *x, int64_t number)
{
    return &x->log->calls[x->order->items[number].call];
}

const haul_program_value *haul__fusing_values(const haul__fusing *x, int64_t number)
{
    return x->p->values + x->p->operations[number].value;
}

static const haul_program_value *result_of(const haul__fusing *x, int64_t number)
{
    return haul__fusing_values(x, number) + x->p->operations[number].operand_count;
}

bool haul__program_same_form(const haul_program_value *a, const haul_program_value *b)
{
    return a->dtype == b->dtype && a->offset == b->offset && haul__shape_equal(&a->shape, &b->shape) &&
           haul__shape_same_strides(&a->shape, a->strides, b->strides);
}

/* ---- what may be a part ---- */

bool haul__fusing_is_without_work(const haul__fusing *x, int64_t number)
{
    return x->p->operations[number].view_of >= 0 || !call_of(x, number)->operation->compute;
}

static bool has_elements(const haul_program_value *v)
{
    bool all = v->store >= 0;
    for (int d = 0; d < v->shape.ndim; d++)
        all = all && v->shape.dims[d] > 0;
    return all;
}

/* True for operations that launch one pointwise kernel. */
static bool is_pointwise(const haul__fusing *x, int64_t number)
{
    const haul_program_operation *o = &x->p->operations[number];
    const haul__ordered_call     *item = &x->order->items[number];
    const haul__program_call     *c = call_of(x, number);
    return c->tiles && o->result_count == 1 && o->command_count == 1 && o->view_of < 0 && !item->moved &&
           item->count == c->operand_count && has_elements(result_of(x, number));
}

/* True if its chains run tile by tile (record/follow/chain.h). */
static bool has_tiles(const haul_device *device)
{
    return haul__device_is_host(device) && haul__device_is_synchronous(device) && haul__device_computes(device);
}

/* Why the formula of an operation cannot be in a kernel that is generated; NULL: it can. `*computes`: the dtype of that
 * kernel; HAUL_DTYPE_NONE: any. */
static const char *formula_refusal(const haul__fusing *x, int64_t number, haul_dtype *computes)
{
    const haul_dtype from = haul__fusing_values(x, number)->dtype;
    return haul__formula_refusal(x->p->operations[number].device, call_of(x, number)->operation, from,
                                 result_of(x, number)->dtype, computes);
}

/* Why a pointwise operation cannot be a part of any chain; NULL: it can. */
static const char *refusal(const haul__fusing *x, int64_t number)
{
    const haul_device *device = x->p->operations[number].device;
    haul_dtype         computes;
    if (x->is_off)
        return "fusion is off";
    if (!has_tiles(device) && !haul__device_compiles_text(device))
        return "its device computes each operation by itself";
    if (x->constant[result_of(x, number)->store])
        return "it is a constant, which is computed once";
    return has_tiles(device) ? NULL : formula_refusal(x, number, &computes);
}

static bool is_row_major(const haul_program_value *v)
{
    int64_t strides[HAUL_MAX_DIMS];
    haul__shape_strides(&v->shape, strides);
    return haul__shape_same_strides(&v->shape, v->strides, strides);
}

bool haul__fusing_is_end(const haul__fusing *x, int64_t number)
{
    const haul_program_operation *o = &x->p->operations[number];
    const haul__ordered_call     *item = &x->order->items[number];
    const haul__program_call     *c = call_of(x, number);
    int                           passes = 0;
    if (!has_tiles(o->device) || !haul__reduce_has_tiles(c->operation) || o->operand_count != 1 ||
        o->result_count != 1 || o->view_of >= 0 || item->moved || !o->command_count || refusal(x, number))
        return false;
    const haul_program_value *v = haul__fusing_values(x, number);
    haul_tensor               t;
    if (!has_elements(v) || !is_row_major(v))
        return false;
    haul__tensor_clear(&t);
    haul__tensor_describe(&t, v->dtype, &v->shape, v->strides, v->offset);
    return haul__reduce_tile(c->operation, x->log->attributes.bytes + c->form.attributes, &t, &passes) > 0 &&
           o->command_count == passes;
}

bool haul__fusing_is_part(const haul__fusing *x, int64_t number)
{
    return is_pointwise(x, number) && !refusal(x, number);
}

/* ---- what fits a chain ---- */

bool haul__fusing_writes(const haul__fusing *x, int64_t number, int value)
{
    return value >= x->p->operations[number].operand_count || haul__fusing_values(x, number)[value].written;
}

/* True if the two use the same memory at other positions, and one of them writes it. */
static bool disturb(const haul__fusing *x, int64_t a, int64_t b)
{
    const haul_program_value *of_a = haul__fusing_values(x, a), *of_b = haul__fusing_values(x, b);
    HAUL__ASSERT(x->p->operations[a].result_count == 1 && x->p->operations[b].result_count == 1);
    for (int i = 0; i <= x->p->operations[a].operand_count; i++)
        for (int k = 0; k <= x->p->operations[b].operand_count; k++)
            if (of_a[i].store >= 0 && of_a[i].store == of_b[k].store &&
                (haul__fusing_writes(x, a, i) || haul__fusing_writes(x, b, k)) &&
                !haul__program_same_form(&of_a[i], &of_b[k]))
                return true;
    return false;
}

/* Updates that move compute earlier, or where the program makes them: that must not be between two parts. */
static bool has_update_between(const haul__fusing *x, const int64_t *parts, int count, int64_t number)
{
    size_t first = x->places[x->order->items[number].call], last = first;
    for (int i = 0; i < count; i++) {
        const size_t place = x->places[x->order->items[parts[i]].call];
        first = place < first ? place : first;
        last = place > last ? place : last;
    }
    HAUL__ASSERT(first <= last && last < x->log->described_count);
    for (size_t i = 0; i < x->order->count; i++) {
        const size_t place = x->places[x->order->items[i].call];
        if (x->order->items[i].moved && first < place && place < last)
            return true;
    }
    return false;
}

static bool is_made_by(const haul__fusing *x, const int64_t *parts, int count, const haul_program_value *v)
{
    for (int i = 0; i < count; i++)
        if (result_of(x, parts[i])->store == v->store && haul__program_same_form(result_of(x, parts[i]), v))
            return true;
    return false;
}

/* True if the formulas of the operation and of the parts compute in different dtypes. */
static bool computes_otherwise(const haul__fusing *x, const int64_t *parts, int count, int64_t number)
{
    haul_dtype one, other;
    if (has_tiles(x->p->operations[number].device) || formula_refusal(x, number, &one) || one == HAUL_DTYPE_NONE)
        return false;
    for (int i = 0; i < count; i++)
        if (!formula_refusal(x, parts[i], &other) && other != HAUL_DTYPE_NONE && other != one)
            return true;
    return false;
}

const char *haul__fusing_misfit(const haul__fusing *x, const int64_t *parts, int count, int64_t number)
{
    const bool                is_end = haul__fusing_is_end(x, number);
    const haul_program_value *r = is_end ? haul__fusing_values(x, number) : result_of(x, number);
    const haul_program_value *first = result_of(x, parts[0]);
    HAUL__ASSERT(0 < count && count <= HAUL__MAX_CHAIN);
    if (haul__fusing_is_end(x, parts[count - 1]))
        return "the operation before it is a reduction";
    if (is_end && !is_made_by(x, parts, count, r))
        return "its operand is not made by the operations before it";
    if (x->p->operations[number].device != x->p->operations[parts[0]].device)
        return "the operation before it is on another device";
    if (!haul__shape_equal(&r->shape, &first->shape) ||
        !haul__shape_same_strides(&r->shape, r->strides, first->strides))
        return "the operation before it has a result of another shape or layout";
    if (count == HAUL__MAX_CHAIN)
        return "the operations before it are a chain of the greatest length";
    if (computes_otherwise(x, parts, count, number))
        return "the operation before it computes in another dtype";
    for (int i = 0; i < count; i++)
        if (disturb(x, parts[i], number))
            return "the operations before it use its memory in another order";
    return has_update_between(x, parts, count, number) ? "an update of parameters is before it" : NULL;
}

/* ---- chains ---- */

static void end_chain(search *x)
{
    for (int i = 0; i < x->count && x->count > 1; i++) {
        HAUL__ASSERT(x->p->operations[x->parts[i]].device == x->p->operations[x->parts[0]].device);
        HAUL__ASSERT(x->p->operations[x->parts[i]].fused < 0); /* it is in one chain */
        x->p->operations[x->parts[i]].fused = x->parts[0];
        x->p->operations[x->parts[i]].unfused = "";
    }
    x->count = 0;
}

static void add_part(search *x, int64_t number)
{
    const char *why =
        x->count ? haul__fusing_misfit(x->f, x->parts, x->count, number) : "the operation before it is not pointwise";
    if (x->count && why)
        end_chain(x);
    HAUL__ASSERT(x->count < HAUL__MAX_CHAIN && (!x->count || x->parts[x->count - 1] < number));
    x->p->operations[number].unfused = why ? why : "";
    x->parts[x->count++] = number;
}

static bool ends_chain(const search *x, int64_t number)
{
    return x->count && haul__fusing_is_end(x->f, number) && !haul__fusing_misfit(x->f, x->parts, x->count, number);
}

static void find_chains(search *x)
{
    for (int64_t i = 0; i < x->p->operation_count; i++) {
        const bool  tiles = is_pointwise(x->f, i);
        const char *why = tiles ? refusal(x->f, i) : NULL;
        if (haul__fusing_is_without_work(x->f, i))
            continue;
        if (tiles && !why) {
            add_part(x, i);
            continue;
        }
        if (ends_chain(x, i))
            x->parts[x->count++] = i;
        HAUL__ASSERT(x->count <= HAUL__MAX_CHAIN);
        end_chain(x);
        x->p->operations[i].unfused = why ? why : "";
    }
    end_chain(x);
}

int64_t haul__program_chain_end(const haul_program *p, int64_t at)
{
    const int64_t first = p->operations[at].fused;
    int64_t       end = at;
    HAUL__ASSERT(0 <= first && first <= at);
    for (int64_t i = at + 1; i < p->operation_count; i++) {
        const bool between = p->operations[i].fused < 0;
        if (!between && p->operations[i].fused != first)
            break;
        end = between ? end : i;
    }
    return end;
}

/* ---- stores ---- */

/* Sets the chain's first and last operation for each operation from the first to the last part, else -1. */
static void find_bounds(const search *x, int64_t *from, int64_t *to)
{
    for (int64_t i = 0; i < x->p->operation_count; i++)
        from[i] = to[i] = i;
    for (int64_t i = 0; i < x->p->operation_count; i++) {
        if (x->p->operations[i].fused != i)
            continue;
        const int64_t end = haul__program_chain_end(x->p, i);
        HAUL__ASSERT(end > i); /* a chain has two parts at least */
        for (int64_t k = i; k <= end; k++) {
            HAUL__ASSERT(from[k] == k && to[k] == k); /* chains do not overlap */
            from[k] = i;
            to[k] = end;
        }
    }
}

static bool may_be_within(const haul_program_store *s, const bool *constant, int64_t number)
{
    return s->kind == HAUL_STORE_INSIDE && !s->pinned && !s->outlives && !constant[number] && s->first >= 0;
}

/* A result that the chain alone uses has the form of all of its uses, because parts that use it otherwise are not in
 * the chain, and begins at the start of its store, in which there is nothing else. On devices without tiles it keeps
 * its memory, because the operations run one by one until the chain has a kernel: it is `inner`. */
static void find_within(search *x, const int64_t *from, bool *inner)
{
    for (int64_t i = 0; i < x->p->operation_count; i++) {
        if (x->p->operations[i].fused < 0)
            continue;
        const haul_program_value *r = result_of(x->f, i);
        haul_program_store       *s = &x->p->stores[r->store];
        if (!may_be_within(s, x->f->constant, r->store) || s->first != i || from[s->last] != from[i] || s->last == i)
            continue;
        HAUL__ASSERT(from[i] <= i && s->first < s->last);
        int64_t count = 1;
        for (int d = 0; d < r->shape.ndim; d++)
            count *= r->shape.dims[d];
        const bool alone = r->offset == 0 && s->bytes == count * (int64_t)haul__dtype_size(r->dtype);
        s->within = alone && has_tiles(x->p->operations[i].device);
        inner[r->store] = alone && !s->within;
    }
}

/* The kernel of a chain does not write inner results. */
static void widen_uses(const search *x, const int64_t *from, const int64_t *to, const bool *inner)
{
    for (int64_t i = 0; i < x->p->store_count; i++) {
        haul_program_store *s = &x->p->stores[i];
        if (inner[i])
            continue;
        s->first = s->first < 0 ? s->first : from[s->first];
        s->last = s->last < 0 ? s->last : to[s->last];
        HAUL__ASSERT(s->first <= s->last);
    }
}

haul_status haul__program_fuse(const haul__program *log, const haul__program_order *order, haul_program *p,
                               const bool *constant)
{
    const size_t operations = (size_t)p->operation_count + 1;
    haul__fusing f;
    search       x = {.f = &f, .p = p};
    if (haul__fusing_begin(&f, log, order, p, constant))
        return haul_error_status();
    int64_t   *from = haul__calloc(operations, sizeof *from), *to = haul__calloc(operations, sizeof *to);
    bool      *inner = haul__calloc((size_t)p->store_count + 1, sizeof *inner);
    const bool works = from && to && inner;
    if (works) {
        find_chains(&x);
        find_bounds(&x, from, to);
        find_within(&x, from, inner);
        widen_uses(&x, from, to, inner);
    }
    haul__fusing_end(&f);
    haul__free(from);
    haul__free(to);
    haul__free(inner);
    return works ? HAUL_OK : haul__fail_memory("haul_program_record", operations * sizeof *from);
}

/* If, Loop and Scan: operators whose nested graphs run in the slots of the run that they are in.
 *
 * A condition, and a number of repetitions, is a number on the host if it follows from constants and sizes; else it is
 * read, which waits for the device once. The states of a loop stay on the host as long as they are numbers there. */
#include <haul/transfer.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/tensor.h"
#include "onnx/run.h"

enum { MOST_REPEATS = 1 << 24 };

/* ---- what the graphs give and get ---- */

static haul__numbers *copy_numbers(haul__onnx_call *c, const haul__numbers *n)
{
    haul__numbers *copy = haul__onnx_new_numbers(c, n->dtype, &n->shape);
    HAUL__ASSERT(!copy || copy->count == n->count);
    if (copy)
        memcpy(copy->items, n->items, (size_t)n->count * sizeof *n->items);
    return copy;
}

/* Makes what a slot holds the caller's: numbers are copied, a tensor that the run did not make is shared. */
static haul_status own(haul__onnx_call *c, haul__onnx_slot *slot)
{
    if (slot->numbers && !(slot->numbers = copy_numbers(c, slot->numbers)))
        return haul_error_status();
    if (!slot->tensor || slot->made)
        return HAUL_OK;
    haul_tensor *y = haul_to(slot->tensor, slot->tensor->storage->device);
    if (haul__failed(y))
        return haul_error_status();
    slot->tensor = y;
    slot->made = true;
    return HAUL_OK;
}

/* Result k of a body, which the caller owns: what the body made is handed over. */
static haul_status take(haul__onnx_call *c, const haul__onnx_body *body, int k, haul__onnx_slot *out)
{
    const int        value = body->outputs[k];
    haul__onnx_slot *slot = &c->run->slots[value];
    HAUL__ASSERT(0 <= k && k < body->output_count && 0 <= value && value < c->run->plan->value_count);
    *out = (haul__onnx_slot){.tensor = NULL};
    if (!slot->tensor && !slot->numbers)
        return haul__onnx_wrong(c, "a result of its graph is made by no node"), haul_error_status();
    *out = *slot;
    out->made = slot->made && value >= body->first_value && value < body->first_value + body->value_count;
    if (out->made)
        slot->made = false;
    return own(c, out);
}

/* Empties the slots of a body for its next run. Its constants stay. */
static void clear_body(haul__onnx_run *run, const haul__onnx_body *body)
{
    HAUL__ASSERT(body > run->plan->bodies && body < run->plan->bodies + run->plan->body_count);
    for (int i = 0; i < body->input_count; i++)
        haul__onnx_clear(&run->slots[body->inputs[i]]);
    for (int n = 0; n < body->step_count; n++) {
        const haul__onnx_step *step = &run->plan->steps[body->first_step + n];
        for (int k = 0; k < step->output_count && !step->is_constant; k++)
            if (step->outputs[k] >= 0)
                haul__onnx_clear(&run->slots[step->outputs[k]]);
    }
}

static haul_status read_condition(const haul__onnx_call *c, const haul__onnx_slot *slot, bool *out)
{
    const haul__numbers *n = slot->numbers;
    uint8_t              byte = 0;
    if (n ? n->dtype != HAUL_BOOL || n->count != 1
          : !slot->tensor || slot->tensor->dtype != HAUL_BOOL || haul_tensor_count(slot->tensor) != 1)
        return haul__onnx_wrong(c, "a condition is not one element of the dtype bool"), haul_error_status();
    if (!n && haul_read(slot->tensor, &byte, 1))
        return haul_error_status();
    *out = n ? n->items->i != 0 : byte != 0;
    return HAUL_OK;
}

/* ---- If ---- */

static haul_status choose(haul__onnx_call *c)
{
    bool        condition = false;
    haul_status status = HAUL_OK;
    if (!haul__onnx_has(c, 0))
        return haul__onnx_wrong(c, "an input is missing"), haul_error_status();
    if (read_condition(c, &c->run->slots[c->step->inputs[0]], &condition))
        return haul_error_status();
    const haul__onnx_body *body = &c->run->plan->bodies[c->step->bodies[!condition]];
    HAUL__ASSERT(body->input_count == 0 && body->output_count == c->step->output_count);
    status = haul__onnx_run_body(c->run, body, c->training);
    for (int k = 0; k < c->step->output_count && !status; k++)
        if (c->step->outputs[k] >= 0)
            status = take(c, body, k, &c->run->slots[c->step->outputs[k]]);
    clear_body(c->run, body);
    return status;
}

/* ---- Loop and Scan ---- */

/* A result that joins those of all repetitions. */
typedef struct join {
    haul_tensor **parts;
    size_t        room;
    int           axis;
    bool          wanted, reversed;
} join;

typedef struct repeats {
    haul__onnx_call       *c;
    const haul__onnx_body *body;
    haul__onnx_slot       *states; /* as the next repetition gets them */
    join                  *joins;
    int                    state_count, join_count;
    int                    first_state;  /* among the inputs of the body */
    int                    first_result; /* the first state's place among the body's results */
    int64_t                done;
    haul__numbers         *around, *last; /* the numbers of the run around, and of the last repetition */
} repeats;

static haul_status begin(repeats *r, haul__onnx_call *c, bool is_loop, int state_count)
{
    *r = (repeats){.c = c,
                   .body = &c->run->plan->bodies[c->step->bodies[0]],
                   .state_count = state_count,
                   .first_state = is_loop ? 2 : 0,
                   .first_result = is_loop, /* before it is the condition */
                   .around = c->run->numbers};
    r->join_count = r->body->output_count - r->first_result - state_count;
    HAUL__ASSERT(c->step->body_count == 1 && state_count >= 0 && r->join_count >= 0);
    HAUL__ASSERT(r->first_state + state_count <= r->body->input_count);
    r->states = haul__calloc((size_t)state_count + 1, sizeof *r->states);
    r->joins = haul__calloc((size_t)r->join_count + 1, sizeof *r->joins);
    c->run->numbers = NULL;
    if (!r->states || !r->joins)
        return haul__fail_memory(HAUL__ONNX_CALL, sizeof *r->joins);
    for (int k = 0; k < r->join_count; k++) {
        const int place = state_count + k;
        r->joins[k].wanted = place < c->step->output_count && c->step->outputs[place] >= 0;
    }
    return HAUL_OK;
}

/* The first states are inputs of the node, from `first` on. */
static haul_status begin_states(repeats *r, int first)
{
    HAUL__ASSERT(!r->state_count || first + r->state_count <= r->c->step->input_count);
    for (int i = 0; i < r->state_count; i++) {
        if (!haul__onnx_has(r->c, first + i))
            return haul__onnx_wrong(r->c, "an input is missing"), haul_error_status();
        r->states[i] = r->c->run->slots[r->c->step->inputs[first + i]];
        r->states[i].made = false;
    }
    return HAUL_OK;
}

static haul_status add_part(repeats *r, int k)
{
    join           *j = &r->joins[k];
    const size_t    count = (size_t)r->done;
    haul__onnx_slot slot;
    HAUL__ASSERT(k < r->join_count && j->wanted && j->room >= count);
    haul_status status = take(r->c, r->body, r->first_result + r->state_count + k, &slot);
    if (!status && !slot.tensor) {
        slot.tensor = haul__onnx_from_numbers(slot.numbers);
        status = haul__failed(slot.tensor) ? haul_error_status() : HAUL_OK;
    }
    if (!status && !haul__grow(&j->parts, &j->room, count + 1, sizeof(haul_tensor *)))
        status = haul__fail_memory(HAUL__ONNX_CALL, count * sizeof(haul_tensor *));
    if (!status)
        j->parts[count] = slot.tensor;
    return status;
}

/* Runs the body once. The caller has set the inputs that are not states. If `condition` is not NULL, the first result
 * is the condition. */
static haul_status repeat(repeats *r, bool *condition)
{
    haul__onnx_run *run = r->c->run;
    HAUL__ASSERT(0 <= r->done && r->done < MOST_REPEATS);
    for (int i = 0; i < r->state_count; i++) {
        run->slots[r->body->inputs[r->first_state + i]] = r->states[i];
        r->states[i] = (haul__onnx_slot){.tensor = NULL};
    }
    haul_status status = haul__onnx_run_body(run, r->body, r->c->training);
    if (!status && condition)
        status = read_condition(r->c, &run->slots[r->body->outputs[0]], condition);
    for (int i = 0; i < r->state_count && !status; i++)
        status = take(r->c, r->body, r->first_result + i, &r->states[i]);
    for (int k = 0; k < r->join_count && !status; k++)
        if (r->joins[k].wanted)
            status = add_part(r, k);
    clear_body(run, r->body);
    haul__onnx_free_numbers(r->last);
    r->last = run->numbers;
    run->numbers = NULL;
    r->done++;
    return status;
}

/* The result of no repetitions has no elements; its other sizes are those that the model declares. */
static haul_tensor *join_nothing(const repeats *r, int k)
{
    const haul__onnx_value *v = &r->body->graph->outputs[r->first_result + r->state_count + k];
    haul_shape              shape = {.ndim = v->ndim + 1};
    bool                    known = v->dtype != HAUL_DTYPE_NONE && v->ndim >= 0 && v->ndim < HAUL_MAX_DIMS;
    const int               axis = r->joins[k].axis < 0 ? r->joins[k].axis + shape.ndim : r->joins[k].axis;
    for (int d = 0; known && d < v->ndim; d++) {
        known = v->dims[d] >= 0;
        shape.dims[d + (d >= axis)] = v->dims[d];
    }
    HAUL__ASSERT(r->done == 0 && k < r->join_count);
    if (!known || axis < 0 || axis > v->ndim)
        return haul__onnx_refuse(r->c, "no repetitions, with a result whose sizes are not declared,");
    shape.dims[axis] = 0;
    return haul_empty(v->dtype, shape);
}

static haul_status join_parts(const repeats *r, int k, haul__onnx_slot *out)
{
    const join *j = &r->joins[k];
    HAUL__ASSERT(j->wanted && (size_t)r->done <= j->room);
    for (int64_t low = 0, high = r->done - 1; j->reversed && low < high; low++, high--) {
        haul_tensor *part = j->parts[low];
        j->parts[low] = j->parts[high];
        j->parts[high] = part;
    }
    haul_tensor *y = r->done ? haul_stack(j->parts, (int)r->done, j->axis) : join_nothing(r, k);
    if (haul__failed(y))
        return haul_error_status();
    for (int64_t i = 0; i < r->done; i++)
        haul_drop(j->parts[i]);
    *out = (haul__onnx_slot){.tensor = y, .made = true};
    return HAUL_OK;
}

/* Puts the results into their slots if all went well, and frees what the repetitions took. */
static haul_status finish(repeats *r, haul_status status)
{
    haul__onnx_call *c = r->c;
    HAUL__ASSERT(status || (r->states && r->joins));
    haul__onnx_free_numbers(c->run->numbers);
    c->run->numbers = r->around;
    for (int i = 0; r->states && i < r->state_count; i++) {
        haul__onnx_slot *state = &r->states[i];
        haul__onnx_slot *slot =
            i < c->step->output_count && c->step->outputs[i] >= 0 ? &c->run->slots[c->step->outputs[i]] : NULL;
        if (!status && slot)
            status = own(c, state); /* without a repetition it is the input's */
        if (!status && slot)
            *slot = *state;
        else if (!status)
            haul__onnx_clear(state);
    }
    for (int k = 0; r->joins && k < r->join_count; k++) {
        if (!status && r->joins[k].wanted)
            status = join_parts(r, k, &c->run->slots[c->step->outputs[r->state_count + k]]);
        haul__free(r->joins[k].parts);
    }
    haul__onnx_free_numbers(r->last);
    haul__free(r->states);
    haul__free(r->joins);
    return status;
}

static haul_status set_number(repeats *r, int input, haul_dtype dtype, int64_t value)
{
    HAUL__ASSERT(input < r->first_state && r->first_state <= r->body->input_count);
    haul__numbers *n = haul__onnx_new_numbers(r->c, dtype, &(haul_shape){.ndim = 0});
    if (!n)
        return haul_error_status();
    haul__onnx_set(n, 0, haul__number_of(value));
    r->c->run->slots[r->body->inputs[input]] = (haul__onnx_slot){.numbers = n};
    return HAUL_OK;
}

static haul_status loop(haul__onnx_call *c)
{
    const int   state_count = c->step->input_count > 2 ? c->step->input_count - 2 : 0;
    int64_t     trips = INT64_MAX;
    bool        condition = true;
    repeats     r;
    haul_status status = haul__onnx_integer(c, 0, trips, &trips);
    if (!status && haul__onnx_has(c, 1))
        status = read_condition(c, &c->run->slots[c->step->inputs[1]], &condition);
    if (status)
        return status;
    status = begin(&r, c, true, state_count);
    if (!status)
        status = begin_states(&r, 2);
    while (!status && condition && r.done < trips) {
        if (r.done == MOST_REPEATS) {
            status = (haul__onnx_refuse(c, "more than 16,777,216 repetitions"), haul_error_status());
            continue;
        }
        status = set_number(&r, 0, HAUL_I64, r.done);
        if (!status)
            status = set_number(&r, 1, HAUL_BOOL, 1);
        if (!status)
            status = repeat(&r, &condition);
    }
    return finish(&r, status);
}

/* The parts of Scan's inputs along their axes. */
typedef struct parts {
    haul_tensor *x;
    int          axis;
    bool         reversed;
} parts;

static haul_status begin_parts(haul__onnx_call *c, int first, int count, parts *all, int64_t *length)
{
    haul__onnx_list axes, directions;
    HAUL__ASSERT(first >= 0 && count > 0 && first + count <= c->step->input_count);
    if (haul__onnx_ints(c, "scan_input_axes", &axes) || haul__onnx_ints(c, "scan_input_directions", &directions))
        return haul_error_status();
    for (int i = 0; i < count; i++) {
        parts *p = &all[i];
        p->x = haul__onnx_x(c, first + i);
        if (haul__failed(p->x))
            return haul_error_status();
        if (haul__is_none(p->x) || !p->x->shape.ndim)
            return haul__onnx_wrong(c, "an input without an axis to go along"), haul_error_status();
        if (haul__onnx_axis(c, i < axes.count ? axes.items[i] : 0, p->x->shape.ndim, &p->axis))
            return haul_error_status();
        p->reversed = i < directions.count && directions.items[i];
        if (i && p->x->shape.dims[p->axis] != *length)
            return haul__onnx_wrong(c, "inputs of different lengths"), haul_error_status();
        *length = p->x->shape.dims[p->axis];
    }
    return *length > MOST_REPEATS ? (haul__onnx_refuse(c, "more than 16,777,216 repetitions"), haul_error_status())
                                  : HAUL_OK;
}

static haul_status begin_joins(repeats *r)
{
    haul__onnx_list axes, directions;
    if (haul__onnx_ints(r->c, "scan_output_axes", &axes) ||
        haul__onnx_ints(r->c, "scan_output_directions", &directions))
        return haul_error_status();
    for (int k = 0; k < r->join_count; k++) {
        const int64_t axis = k < axes.count ? axes.items[k] : 0;
        if (axis < -HAUL_MAX_DIMS || axis >= HAUL_MAX_DIMS)
            return haul__onnx_wrong(r->c, "an axis is out of range"), haul_error_status();
        r->joins[k].axis = (int)axis;
        r->joins[k].reversed = k < directions.count && directions.items[k];
    }
    return HAUL_OK;
}

static haul_status set_parts(const repeats *r, const parts *all, int count, int64_t length)
{
    HAUL__ASSERT(r->done < length && r->state_count + count == r->body->input_count);
    for (int i = 0; i < count; i++) {
        haul__onnx_slot *slot = &r->c->run->slots[r->body->inputs[r->state_count + i]];
        *slot = (haul__onnx_slot){.made = true};
        slot->tensor = haul_select(all[i].x, all[i].axis, all[i].reversed ? length - 1 - r->done : r->done);
        if (haul__failed(slot->tensor))
            return haul_error_status();
    }
    return HAUL_OK;
}

static haul_status run_parts(repeats *r, const parts *all, int count, int64_t length)
{
    haul_status status = HAUL_OK;
    while (!status && r->done < length) {
        status = set_parts(r, all, count, length);
        if (!status)
            status = repeat(r, NULL);
    }
    return status;
}

static haul_status scan(haul__onnx_call *c)
{
    const int count = (int)haul__onnx_int(c, "num_scan_inputs", 1); /* compared with the inputs: check.c */
    const int state_count = c->step->input_count - count;
    int64_t   length = 0;
    repeats   r;
    HAUL__ASSERT(count > 0 && state_count >= 0);
    parts      *all = haul__calloc((size_t)count, sizeof *all);
    haul_status status = begin(&r, c, false, state_count);
    if (!all && !status)
        status = haul__fail_memory(HAUL__ONNX_CALL, (size_t)count * sizeof *all);
    if (!status)
        status = begin_states(&r, 0);
    if (!status)
        status = begin_parts(c, state_count, count, all, &length);
    if (!status)
        status = begin_joins(&r);
    if (!status)
        status = run_parts(&r, all, count, length);
    haul__free(all);
    return finish(&r, status);
}

/* ---- Scan of opset 8 ---- */

/* Each example is scanned by itself: states and inputs are [batch, ...] and [batch, steps, ...], and so are results. */
typedef struct examples {
    haul__onnx_call     *c;
    int                  count, state_count; /* of inputs that have steps, and of states */
    int64_t              batch, steps;
    const haul__numbers *lengths; /* steps of each example; NULL: all */
    parts               *all;     /* the inputs of an example */
    haul_tensor        **results; /* for each result those of all examples */
} examples;

enum { SCAN_LENGTHS, SCAN_FIRST };

static haul_status check_examples(examples *e)
{
    haul__onnx_call *c = e->c;
    for (int i = 0; i < e->state_count + e->count; i++) {
        const haul_shape x = haul__onnx_shape(c, SCAN_FIRST + i);
        const bool       has_steps = i >= e->state_count;
        if (!haul__onnx_has(c, SCAN_FIRST + i) || x.ndim < 1 + has_steps || x.dims[0] != e->batch ||
            (has_steps && x.dims[1] != e->steps))
            return haul__onnx_wrong(c, "inputs that are missing, or of different batches or lengths"),
                   haul_error_status();
    }
    if (!e->batch || e->batch > MOST_REPEATS || e->steps > MOST_REPEATS)
        return haul__onnx_refuse(c, "no examples, or more than 16,777,216 repetitions"), haul_error_status();
    if (haul__onnx_has(c, SCAN_LENGTHS) && !(e->lengths = haul__onnx_numbers(c, SCAN_LENGTHS)))
        return haul_error_status();
    if (e->lengths && e->lengths->count != e->batch)
        return haul__onnx_wrong(c, "another number of lengths than of examples"), haul_error_status();
    for (int64_t b = 0; e->lengths && b < e->batch; b++)
        if (e->lengths->items[b].i < 0 || e->lengths->items[b].i > e->steps)
            return haul__onnx_wrong(c, "a length is out of range"), haul_error_status();
    return HAUL_OK;
}

static haul_status begin_example(const examples *e, repeats *r, int64_t b)
{
    haul__onnx_list directions;
    if (haul__onnx_ints(e->c, "directions", &directions) || begin(r, e->c, false, e->state_count))
        return haul_error_status();
    for (int i = 0; i < e->state_count + e->count; i++) {
        haul_tensor *x = haul_select(haul__onnx_x(e->c, SCAN_FIRST + i), 0, b);
        const int    k = i - e->state_count;
        if (haul__failed(x))
            return haul_error_status();
        if (k < 0)
            r->states[i] = (haul__onnx_slot){.tensor = x, .made = true};
        else
            e->all[k] = (parts){.x = x, .reversed = k < directions.count && directions.items[k]};
    }
    return HAUL_OK;
}

/* Takes the results of an example out of the node's slots. Those of steps get zeros up to the longest example's. */
static haul_status take_results(const examples *e, int64_t b, int64_t length)
{
    haul__onnx_run *run = e->c->run;
    HAUL__ASSERT(0 <= b && b < e->batch && 0 <= length && length <= e->steps);
    for (int k = 0; k < e->c->step->output_count; k++) {
        if (e->c->step->outputs[k] < 0)
            continue;
        haul__onnx_slot *slot = &run->slots[e->c->step->outputs[k]];
        haul_tensor     *y = slot->tensor ? slot->tensor : haul__onnx_from_numbers(slot->numbers);
        *slot = (haul__onnx_slot){.tensor = NULL};
        if (k >= e->state_count && length < e->steps && !haul__failed(y)) {
            haul_shape shape = y->shape;
            shape.dims[0] = e->steps - length;
            haul_tensor *both[] = {y, haul_zeros(y->dtype, shape)};
            y = haul_cat(both, 2, 0);
            haul_drop(both[0]);
            haul_drop(both[1]);
        }
        if (haul__failed(y))
            return haul_error_status();
        e->results[k * e->batch + b] = y;
    }
    return HAUL_OK;
}

static haul_status scan_example(const examples *e, int64_t b)
{
    const int64_t length = e->lengths ? e->lengths->items[b].i : e->steps;
    repeats       r = {.c = NULL};
    haul_status   status = begin_example(e, &r, b);
    if (!status)
        status = run_parts(&r, e->all, e->count, length);
    if (r.c)
        status = finish(&r, status);
    for (int i = 0; i < e->count && !status; i++)
        haul_drop(e->all[i].x);
    return status ? status : take_results(e, b, length);
}

static haul_status join_examples(const examples *e)
{
    HAUL__ASSERT(0 < e->batch && e->batch <= MOST_REPEATS);
    for (int k = 0; k < e->c->step->output_count; k++) {
        if (e->c->step->outputs[k] < 0)
            continue;
        haul_tensor *y = haul_stack(e->results + k * e->batch, (int)e->batch, 0);
        if (haul__failed(y))
            return haul_error_status();
        for (int64_t b = 0; b < e->batch; b++)
            haul_drop(e->results[k * e->batch + b]);
        e->c->run->slots[e->c->step->outputs[k]] = (haul__onnx_slot){.tensor = y, .made = true};
    }
    return HAUL_OK;
}

static haul_status scan_examples(haul__onnx_call *c)
{
    const int        count = (int)haul__onnx_int(c, "num_scan_inputs", 1); /* compared with the inputs: check.c */
    const haul_shape x = haul__onnx_shape(c, c->step->input_count - 1);
    examples         e = {.c = c,
                          .count = count,
                          .state_count = c->step->input_count - SCAN_FIRST - count,
                          .batch = x.ndim > 0 ? x.dims[0] : 0,
                          .steps = x.ndim > 1 ? x.dims[1] : 0};
    HAUL__ASSERT(e.count > 0 && e.state_count >= 0);
    haul_status status = check_examples(&e);
    if (status)
        return status;
    e.all = haul__calloc((size_t)count, sizeof *e.all);
    e.results = haul__calloc((size_t)(e.batch * c->step->output_count), sizeof(haul_tensor *));
    if (!e.all || !e.results)
        status = haul__fail_memory(HAUL__ONNX_CALL, (size_t)e.batch * sizeof(haul_tensor *));
    for (int64_t b = 0; b < e.batch && !status; b++)
        status = scan_example(&e, b);
    if (!status)
        status = join_examples(&e);
    haul__free(e.all);
    haul__free(e.results);
    return status;
}

haul_status haul__onnx_control(haul__onnx_call *c)
{
    HAUL__ASSERT(c->step->body_count == 1 || c->step->body_count == 2);
    if (c->step->body_count == 2)
        return choose(c);
    return !strcmp(c->step->node->type, "Loop") ? loop(c) : c->opset < 9 ? scan_examples(c) : scan(c);
}

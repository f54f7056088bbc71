/* Recurrent layers. One product computes the input's part of the gates of all steps. A step is then a product, which
 * adds the state's part in place, and a kernel for all that follows. The backward pass has a kernel and a product for
 * each step, and one product of all steps for each weight.
 *
 * States are kept with time as the first axis, so those before and after the steps are parts of one tensor, which no
 * step copies. */
#include "ops/recurrent/recurrent.h"

#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/matmul/gemm.h"

// clang-format off
/* kernel text begins */
/* Offsets of the buffers are those of a step. */
typedef struct recurrent_params {
    I64 items, n;         /* sequences, hidden */
    I64 step, lengths;    /* the step; the offset of the lengths, -1: all sequences have it */
    I64 gates, h, c;      /* of an LSTM and an RNN: the gates' sums, and then the gates. h and c: the states after it */
    I64 h_before, c_before;
    I64 part;             /* of a GRU: the state's part of the gates' sums */
    I64 g, g_before, gc_before; /* gradients of the states before it, -1 where none arrived; g is unused forward */
    I64 dx, dh, dstate;   /* backward: gradients of the gates' sums, and of the state: h, and then c */
    I64 c_step;           /* the distance of h and c in dstate */
    I32 relu, reserved;
} recurrent_params;
#if defined(HAUL_KERNEL) && IS_FLOAT
FUNC I32 recurrent_is_past(GLOBAL const I64 *lengths, const recurrent_params p, I64 i)
{
    return (I32)(p.lengths >= 0 && lengths[p.lengths + i] <= p.step);
}

/* i, f, o = sigmoid, g = tanh; c' = f c + i g; h' = o tanh(c') */
KERNEL4(lstm_step, recurrent_params, T, gates, T, hs, T, cs, const I64, lengths)
{
    FOR_ROWS(i) {
        const I64 n = p.n;
        GLOBAL T *gate = gates + p.gates + i * 4 * n, *h = hs + p.h + i * n, *c = cs + p.c + i * n;
        GLOBAL const T *h_before = hs + p.h_before + i * n, *c_before = cs + p.c_before + i * n;
        if (recurrent_is_past(lengths, p, i)) {
            EACH_OF_ROW(j, n) h[j] = h_before[j];
            EACH_OF_ROW(j, n) c[j] = c_before[j];
        } else
            EACH_OF_ROW(j, n) {
                const A in = M_SIGMOID(LOAD(gate, j)), forget = M_SIGMOID(LOAD(gate, n + j));
                const A cell = M_TANH(LOAD(gate, 2 * n + j)), out = M_SIGMOID(LOAD(gate, 3 * n + j));
                const A next = forget * LOAD(c_before, j) + in * cell;
                STORE(gate, j, in);
                STORE(gate, n + j, forget);
                STORE(gate, 2 * n + j, cell);
                STORE(gate, 3 * n + j, out);
                STORE(c, j, next);
                STORE(h, j, out * M_TANH(next));
            }
    }
}

/* r, z = sigmoid(x + h); n = tanh(x + r h); h' = n + z (h - n). A row of gates gets r, z, n, and the state's part of n. */
KERNEL4(gru_step, recurrent_params, T, gates, T, hs, const T, parts, const I64, lengths)
{
    FOR_ROWS(i) {
        const I64 n = p.n;
        GLOBAL T *gate = gates + p.gates + i * 4 * n, *h = hs + p.h + i * n;
        GLOBAL const T *before = hs + p.h_before + i * n, *part = parts + p.part + i * 3 * n;
        if (recurrent_is_past(lengths, p, i)) {
            EACH_OF_ROW(j, n) h[j] = before[j];
        } else
            EACH_OF_ROW(j, n) {
                const A reset = M_SIGMOID(LOAD(gate, j) + LOAD(part, j)), of_h = LOAD(part, 2 * n + j);
                const A update = M_SIGMOID(LOAD(gate, n + j) + LOAD(part, n + j));
                const A fresh = M_TANH(LOAD(gate, 2 * n + j) + reset * of_h);
                STORE(gate, j, reset);
                STORE(gate, n + j, update);
                STORE(gate, 2 * n + j, fresh);
                STORE(gate, 3 * n + j, of_h);
                STORE(h, j, fresh + update * (LOAD(before, j) - fresh));
            }
    }
}

/* h' = tanh(x + h), or relu */
KERNEL3(rnn_step, recurrent_params, T, gates, T, hs, const I64, lengths)
{
    FOR_ROWS(i) {
        const I64 n = p.n;
        GLOBAL T *h = hs + p.h + i * n;
        GLOBAL const T *before = hs + p.h_before + i * n, *sum = gates + p.gates + i * n;
        if (recurrent_is_past(lengths, p, i)) {
            EACH_OF_ROW(j, n) h[j] = before[j];
        } else if (p.relu) {
            EACH_OF_ROW(j, n) {
                const A x = LOAD(sum, j);
                STORE(h, j, x > 0 ? x : x != x ? x : LIT(0.0));
            }
        } else
            EACH_OF_ROW(j, n) STORE(h, j, M_TANH(LOAD(sum, j)));
    }
}

/* Element j of a gradient at this offset, 0 where none arrived. */
FUNC A recurrent_gradient(GLOBAL const T *g, I64 at, I64 j) { return at < 0 ? LIT(0.0) : LOAD(g, at + j); }

/* dstate has the gradient of the state after the step, and gets what the kernel knows of the one before: the product with
 * the weights is added to h. */
KERNEL7(lstm_step_backward, recurrent_params, T, dx, T, dstate, const T, gates, const T, cs, const T, gh, const T, gc, const I64, lengths)
{
    FOR_ROWS(i) {
        const I64 n = p.n, gh_at = p.g_before < 0 ? -1 : p.g_before + i * n, gc_at = p.gc_before < 0 ? -1 : p.gc_before + i * n;
        GLOBAL T *d = dx + p.dx + i * 4 * n, *dh = dstate + p.dstate + i * n, *dc = dh + p.c_step;
        GLOBAL const T *gate = gates + p.gates + i * 4 * n, *c = cs + p.c + i * n, *c_before = cs + p.c_before + i * n;
        if (recurrent_is_past(lengths, p, i)) {
            EACH_OF_ROW(j, 4 * n) STORE(d, j, LIT(0.0));
            EACH_OF_ROW(j, n) STORE(dh, j, LOAD(dh, j) + recurrent_gradient(gh, gh_at, j));
            EACH_OF_ROW(j, n) STORE(dc, j, LOAD(dc, j) + recurrent_gradient(gc, gc_at, j));
        } else
            EACH_OF_ROW(j, n) {
                const A in = LOAD(gate, j), forget = LOAD(gate, n + j), cell = LOAD(gate, 2 * n + j), out = LOAD(gate, 3 * n + j);
                const A near = M_TANH(LOAD(c, j)), of_h = LOAD(dh, j);
                const A of_c = LOAD(dc, j) + of_h * out * (LIT(1.0) - near * near);
                STORE(d, j, of_c * cell * (in * (LIT(1.0) - in)));
                STORE(d, n + j, of_c * LOAD(c_before, j) * (forget * (LIT(1.0) - forget)));
                STORE(d, 2 * n + j, of_c * in * (LIT(1.0) - cell * cell));
                STORE(d, 3 * n + j, of_h * near * (out * (LIT(1.0) - out)));
                STORE(dh, j, recurrent_gradient(gh, gh_at, j));
                STORE(dc, j, of_c * forget + recurrent_gradient(gc, gc_at, j));
            }
    }
}

KERNEL7(gru_step_backward, recurrent_params, T, dx, T, dh, T, dstate, const T, gates, const T, hs, const T, gh, const I64, lengths)
{
    FOR_ROWS(i) {
        const I64 n = p.n, gh_at = p.g_before < 0 ? -1 : p.g_before + i * n;
        GLOBAL T *of_x = dx + p.dx + i * 3 * n, *of_h = dh + p.dh + i * 3 * n, *d = dstate + p.dstate + i * n;
        GLOBAL const T *gate = gates + p.gates + i * 4 * n, *before = hs + p.h_before + i * n;
        if (recurrent_is_past(lengths, p, i)) {
            EACH_OF_ROW(j, 3 * n) STORE(of_x, j, LIT(0.0));
            EACH_OF_ROW(j, 3 * n) STORE(of_h, j, LIT(0.0));
            EACH_OF_ROW(j, n) STORE(d, j, LOAD(d, j) + recurrent_gradient(gh, gh_at, j));
        } else
            EACH_OF_ROW(j, n) {
                const A reset = LOAD(gate, j), update = LOAD(gate, n + j), fresh = LOAD(gate, 2 * n + j), g = LOAD(d, j);
                const A of_fresh = g * (LIT(1.0) - update) * (LIT(1.0) - fresh * fresh);
                const A of_reset = of_fresh * LOAD(gate, 3 * n + j) * (reset * (LIT(1.0) - reset));
                const A of_update = g * (LOAD(before, j) - fresh) * (update * (LIT(1.0) - update));
                STORE(of_x, j, of_reset);
                STORE(of_x, n + j, of_update);
                STORE(of_x, 2 * n + j, of_fresh);
                STORE(of_h, j, of_reset);
                STORE(of_h, n + j, of_update);
                STORE(of_h, 2 * n + j, of_fresh * reset);
                STORE(d, j, g * update + recurrent_gradient(gh, gh_at, j));
            }
    }
}

KERNEL5(rnn_step_backward, recurrent_params, T, dx, T, dstate, const T, hs, const T, gh, const I64, lengths)
{
    FOR_ROWS(i) {
        const I64 n = p.n, gh_at = p.g_before < 0 ? -1 : p.g_before + i * n;
        GLOBAL T *of_x = dx + p.dx + i * n, *d = dstate + p.dstate + i * n;
        GLOBAL const T *h = hs + p.h + i * n;
        if (recurrent_is_past(lengths, p, i)) {
            EACH_OF_ROW(j, n) STORE(of_x, j, LIT(0.0));
            EACH_OF_ROW(j, n) STORE(d, j, LOAD(d, j) + recurrent_gradient(gh, gh_at, j));
        } else
            EACH_OF_ROW(j, n) {
                const A y = LOAD(h, j), slope = !p.relu ? LIT(1.0) - y * y : y > 0 ? LIT(1.0) : LIT(0.0);
                STORE(of_x, j, LOAD(d, j) * slope);
                STORE(d, j, recurrent_gradient(gh, gh_at, j));
            }
    }
}
#endif
/* kernel text ends */
// clang-format on

static const haul__cell_kind lstm = {HAUL__LSTM, 4, 2, 4, HAUL__K_lstm_step, HAUL__K_lstm_step_backward},
                             gru = {HAUL__GRU, 3, 1, 4, HAUL__K_gru_step, HAUL__K_gru_step_backward},
                             rnn = {HAUL__RNN, 1, 1, 0, HAUL__K_rnn_step, HAUL__K_rnn_step_backward};

enum { X = HAUL__RECURRENT_X, IH, HH, BIAS, STATE, LENGTHS };

/* Elements that make a thread's share of a step worthwhile. */
enum { GRAIN = 4096 };

/* The sizes of a layer. */
typedef struct sizes {
    int64_t steps, n, in, hidden, gates; /* gates: elements of a row */
} sizes;

static int64_t rows_for(const sizes *s)
{
    return haul__whole_sides(1 + GRAIN / (s->gates + 1));
}

/* The place of a step in x, and in the states those before and after it. */
typedef struct place {
    int64_t at, before, after;
} place;

static place place_of(const sizes *s, bool reverse, int64_t step)
{
    HAUL__ASSERT(0 <= step && step < s->steps);
    const int64_t t = reverse ? s->steps - 1 - step : step;
    return reverse ? (place){t, t + 1, t} : (place){t, t, t + 1};
}

/* C [m, n] at c_offset of c is, or increases by, A [m, k] times B [k, n], which is row-major or, transposed, [n, k]. */
typedef struct product {
    int64_t      m, n, k;
    haul_tensor *a, *b, *c, *bias;
    int64_t      a_at, c_at, c_row;
    bool         transposed, accumulate;
} product;

static haul_status multiply(const haul__call *c, const product *p)
{
    const int64_t *b = p->b->strides;
    HAUL__ASSERT(p->b->shape.dims[p->transposed ? 0 : 1] == p->n && p->b->shape.dims[p->transposed ? 1 : 0] == p->k);
    HAUL__ASSERT(p->c_row >= p->n);
    haul__gemm g = {
        .batch = 1,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a_row = p->k,
        .a_col = 1,
        .b_row = p->transposed ? b[1] : b[0],
        .b_col = p->transposed ? b[0] : b[1],
        .c_row = p->c_row,
        .a_offset = p->a_at,
        .c_offset = p->c_at,
        .accumulate = p->accumulate,
    };
    g.c_batch = g.m * g.c_row;
    return g.m && g.n ? haul__gemm_run(c, &g, p->c, p->a, p->b, p->bias) : HAUL_OK;
}

/* Copies `from`, or zeros if it is NULL, to entry `at` of `to`, of which each is [N, hidden]. */
static haul_status put(const haul__call *c, haul_tensor *to, int64_t at, haul_tensor *from, int64_t from_at)
{
    const int        last = to->shape.ndim - 1;
    const haul_shape shape = HAUL_SHAPE(to->shape.dims[last - 1], to->shape.dims[last]);
    const int64_t    strides[] = {shape.dims[1], 1}, entry = shape.dims[0] * shape.dims[1];
    HAUL__ASSERT((at + 1) * entry <= to->count && (!from || (from_at + 1) * entry <= from->count));
    haul_tensor *target = haul__view_as(c, to, &shape, strides, to->offset + at * entry);
    if (!target)
        return haul_error_status();
    if (!from)
        return haul__fill_elements(target, 0, c->operation->name);
    haul_tensor *source = haul__view_as(c, from, &shape, strides, from->offset + from_at * entry);
    return source ? haul__copy_elements(target, source, c->operation->name) : haul_error_status();
}

/* ---- forward ---- */

static sizes sizes_of(const haul__call *c)
{
    const int64_t *x = c->operands[X]->shape.dims, *hh = c->operands[HH]->shape.dims;
    return (sizes){.steps = x[0], .n = x[1], .in = x[2], .hidden = hh[1], .gates = hh[0]};
}

static haul_status check(const haul__call *c)
{
    const haul__cell_kind *kind = c->operation->extra;
    const haul_shape      *x = &c->operands[X]->shape, *ih = &c->operands[IH]->shape, *hh = &c->operands[HH]->shape;
    HAUL__ASSERT(kind->gates > 0 && kind->states > 0);
    if (x->ndim != 3 || x->dims[0] < 1)
        return haul__refuse_shape(c, X, "it must be [T, N, in], with at least one step");
    if (hh->ndim != 2 || hh->dims[0] % kind->gates || hh->dims[0] / kind->gates != hh->dims[1])
        return haul__refuse_shape(c, HH, "it must be [gates hidden, hidden]");
    if (ih->ndim != 2 || ih->dims[0] != hh->dims[0] || ih->dims[1] != x->dims[2])
        return haul__refuse_shape(c, IH, "it must have the rows of weight_hh, and the features of x as columns");
    haul_shape bias = kind->cell == HAUL__GRU ? HAUL_SHAPE(2, hh->dims[0]) : HAUL_SHAPE(hh->dims[0]);
    if (haul__has(c, BIAS) && !haul__shape_equal(&c->operands[BIAS]->shape, &bias))
        return haul__refuse_shape(c, BIAS, "it must have an element for each row of weight_hh");
    if (haul__has(c, STATE) &&
        !haul__shape_equal(&c->operands[STATE]->shape, &HAUL_SHAPE(kind->states, x->dims[1], hh->dims[1])))
        return haul__refuse_shape(c, STATE, "it must be [states, N, hidden]");
    if (haul__has(c, LENGTHS) && !haul__shape_equal(&c->operands[LENGTHS]->shape, &HAUL_SHAPE(x->dims[1])))
        return haul__refuse_shape(c, LENGTHS, "it must be [N]");
    return HAUL_OK;
}

static haul_status infer(haul__call *c)
{
    const haul__cell_kind *kind = c->operation->extra;
    if (check(c))
        return haul_error_status();
    const sizes      s = sizes_of(c);
    const haul_dtype dtype = c->operands[X]->dtype;
    for (int i = 0; i < kind->states; i++)
        if (haul__describe(c, i, dtype, &HAUL_SHAPE(s.steps + 1, s.n, s.hidden)))
            return haul_error_status();
    return kind->kept ? haul__describe(c, kind->states, dtype, &HAUL_SHAPE(s.steps, s.n, kind->kept * s.hidden))
                      : HAUL_OK;
}

/* What a step needs. */
typedef struct layer {
    const haul__call                 *call;
    const haul__cell_kind            *kind;
    const haul__recurrent_attributes *attributes;
    sizes                             s;
    haul_tensor                      *gates, *part, *weight, *part_bias, *lengths;
    int64_t                           gates_row;
} layer;

static haul_status forward_step(const layer *l, int64_t step)
{
    const haul__call *c = l->call;
    haul_tensor      *h = c->results[0], *cell = l->kind->states > 1 ? c->results[1] : h;
    const sizes      *s = &l->s;
    const place       t = place_of(s, l->attributes->reverse, step);
    const int64_t     entry = s->n * s->hidden, row = t.at * s->n * l->gates_row;
    HAUL__ASSERT((l->part != NULL) == (l->kind->cell == HAUL__GRU) && row + s->n * l->gates_row <= l->gates->count);
    HAUL__ASSERT(t.before != t.after);
    recurrent_params p = {
        .items = s->n,
        .n = s->hidden,
        .step = t.at,
        .lengths = l->lengths ? l->lengths->offset : -1,
        .gates = l->gates->offset + row,
        .h = h->offset + t.after * entry,
        .h_before = h->offset + t.before * entry,
        .c = cell->offset + t.after * entry,
        .c_before = cell->offset + t.before * entry,
        .part = l->part ? l->part->offset : 0,
        .relu = l->attributes->relu,
    };
    const product part = {
        .m = s->n,
        .n = s->gates,
        .k = s->hidden,
        .a = h,
        .a_at = t.before * entry,
        .b = l->weight,
        .transposed = true,
        .c = l->part ? l->part : l->gates,
        .c_at = l->part ? 0 : row,
        .c_row = s->gates,
        .accumulate = !l->part,
        .bias = l->part_bias,
    };
    haul_tensor *lengths = l->lengths ? l->lengths : h;
    if (multiply(c, &part))
        return haul_error_status();
    switch (l->kind->cell) {
    case HAUL__LSTM:
        return haul__launch_kernel(c, l->kind->forward, h->dtype, HAUL__OUT(l->gates, h, cell), HAUL__IN(lengths),
                                   HAUL__PARAMS(p), .grain = rows_for(s));
    case HAUL__GRU:
        return haul__launch_kernel(c, l->kind->forward, h->dtype, HAUL__OUT(l->gates, h), HAUL__IN(l->part, lengths),
                                   HAUL__PARAMS(p), .grain = rows_for(s));
    default:
        return haul__launch_kernel(c, l->kind->forward, h->dtype, HAUL__OUT(l->gates, h), HAUL__IN(lengths),
                                   HAUL__PARAMS(p), .grain = rows_for(s));
    }
}

/* Products on processors transpose a weight each time, or add up its rows. With many steps a transposed copy pays. */
static haul_tensor *weight_for(const haul__call *c, const sizes *s)
{
    enum { ROWS = 2, STEPS = 4 };
    haul_tensor *weight = c->operands[HH];
    if (c->device->strided || s->n < ROWS || s->steps < STEPS)
        return weight;
    return haul__as_strided(c, weight, (const int64_t[]){1, s->gates});
}

/* The part of the gates that the inputs give, for all steps. */
static haul_status multiply_inputs(const layer *l)
{
    const haul__call *c = l->call;
    haul_tensor      *bias = haul__has(c, BIAS) ? c->operands[BIAS] : NULL;
    HAUL__ASSERT(l->gates->count == l->s.steps * l->s.n * l->gates_row);
    HAUL__ASSERT(l->gates_row >= l->s.gates);
    return multiply(c, &(product){
                           .m = l->s.steps * l->s.n,
                           .n = l->s.gates,
                           .k = l->s.in,
                           .a = c->operands[X],
                           .b = c->operands[IH],
                           .transposed = true,
                           .c = l->gates,
                           .c_row = l->gates_row,
                           .bias = bias,
                       });
}

static haul_status forward(haul__call *c)
{
    const haul__cell_kind *kind = c->operation->extra;
    layer                  l = {.call = c, .kind = kind, .attributes = haul__attributes_of(c), .s = sizes_of(c)};
    haul_status            status = HAUL_OK;
    l.gates_row = kind->kept ? kind->kept * l.s.hidden : l.s.gates;
    l.gates = kind->kept ? c->results[kind->states] : NULL;
    l.lengths = haul__has(c, LENGTHS) ? c->operands[LENGTHS] : NULL;
    if (!l.gates)
        l.gates = haul__temporary(c, c->operands[X]->dtype, &HAUL_SHAPE(l.s.steps, l.s.n, l.gates_row));
    l.weight = l.gates ? weight_for(c, &l.s) : NULL;
    if (!l.weight)
        return haul_error_status();
    if (kind->cell == HAUL__GRU) {
        l.part = haul__temporary(c, c->operands[X]->dtype, &HAUL_SHAPE(l.s.n, l.s.gates));
        if (l.part && haul__has(c, BIAS))
            l.part_bias = haul__view_as(c, c->operands[BIAS], &HAUL_SHAPE(l.s.gates), NULL,
                                        c->operands[BIAS]->offset + l.s.gates);
        if (!l.part || (haul__has(c, BIAS) && !l.part_bias))
            return haul_error_status();
    }
    HAUL__ASSERT(l.s.gates == kind->gates * l.s.hidden);
    const place first = place_of(&l.s, l.attributes->reverse, 0);
    for (int i = 0; i < kind->states && !status; i++)
        status = put(c, c->results[i], first.before, haul__has(c, STATE) ? c->operands[STATE] : NULL, i);
    if (!status)
        status = multiply_inputs(&l);
    for (int64_t step = 0; step < l.s.steps && !status; step++)
        status = forward_step(&l, step);
    return status;
}

static haul__cost cost(const haul__call *c)
{
    const sizes s = sizes_of(c);
    return (haul__cost){.flops = 2.0 * (double)s.steps * (double)s.n * (double)s.gates * (double)(s.in + s.hidden),
                        .bytes = haul__call_bytes(c)};
}

/* ---- backward ---- */

/* Of the gradients' operations. STATES are those that the kernel reads: c of an LSTM, h of the others. */
enum { G_H, G_C, GATES, STATES, WEIGHT, BACK_LENGTHS };

static sizes backward_sizes(const haul__call *c)
{
    const int64_t *states = c->operands[STATES]->shape.dims, *weight = c->operands[WEIGHT]->shape.dims;
    return (sizes){.steps = states[0] - 1, .n = states[1], .hidden = states[2], .gates = weight[0]};
}

static haul_status backward_infer(haul__call *c)
{
    const haul__cell_kind *kind = c->operation->extra;
    const sizes            s = backward_sizes(c);
    const haul_dtype       dtype = c->operands[STATES]->dtype;
    const haul_shape       gates = HAUL_SHAPE(s.steps, s.n, s.gates);
    HAUL__ASSERT(s.steps > 0 && s.gates == kind->gates * s.hidden);
    if (haul__describe(c, 0, dtype, &gates) || (kind->cell == HAUL__GRU && haul__describe(c, 2, dtype, &gates)))
        return haul_error_status();
    return haul__describe(c, 1, dtype, &HAUL_SHAPE(kind->states, s.n, s.hidden));
}

static haul_tensor *present(const haul__call *c, int i)
{
    return haul__has(c, i) ? c->operands[i] : NULL;
}

/* The place of a state's gradient, or -1. */
static int64_t gradient_at(const haul_tensor *g, int64_t entry)
{
    return g ? g->offset + entry : -1;
}

static haul_status backward_step(haul__call *c, const sizes *s, int64_t step)
{
    const haul__cell_kind            *kind = c->operation->extra;
    const haul__recurrent_attributes *a = haul__attributes_of(c);
    haul_tensor                      *gh = present(c, G_H), *gc = present(c, G_C), *lengths = present(c, BACK_LENGTHS);
    haul_tensor                      *gates = present(c, GATES), *states = c->operands[STATES];
    haul_tensor                      *dx = c->results[0], *dstate = c->results[1];
    haul_tensor                      *dh = kind->cell == HAUL__GRU ? c->results[2] : dx;
    const place                       t = place_of(s, a->reverse, step);
    const int64_t                     entry = s->n * s->hidden, row = t.at * s->n * s->gates;
    HAUL__ASSERT((gates != NULL) == (kind->kept > 0) && row + s->n * s->gates <= dx->count);
    HAUL__ASSERT(t.before != t.after);
    recurrent_params p = {
        .items = s->n,
        .n = s->hidden,
        .step = t.at,
        .lengths = lengths ? lengths->offset : -1,
        .gates = gates ? gates->offset + t.at * s->n * kind->kept * s->hidden : 0,
        .h = states->offset + t.after * entry,
        .h_before = states->offset + t.before * entry,
        .g_before = gradient_at(gh, t.before * entry),
        .gc_before = gradient_at(gc, t.before * entry),
        .dx = dx->offset + row,
        .dh = dh->offset + row,
        .dstate = dstate->offset,
        .c_step = entry,
        .relu = a->relu,
    };
    p.c = p.h;
    p.c_before = p.h_before;
    haul_tensor *any_h = gh ? gh : states, *any_c = gc ? gc : states, *any_lengths = lengths ? lengths : states;
    haul_status  status;
    switch (kind->cell) {
    case HAUL__LSTM:
        status = haul__launch_kernel(c, kind->backward, dx->dtype, HAUL__OUT(dx, dstate),
                                     HAUL__IN(gates, states, any_h, any_c, any_lengths), HAUL__PARAMS(p),
                                     .grain = rows_for(s));
        break;
    case HAUL__GRU:
        status =
            haul__launch_kernel(c, kind->backward, dx->dtype, HAUL__OUT(dx, dh, dstate),
                                HAUL__IN(gates, states, any_h, any_lengths), HAUL__PARAMS(p), .grain = rows_for(s));
        break;
    default:
        status = haul__launch_kernel(c, kind->backward, dx->dtype, HAUL__OUT(dx, dstate),
                                     HAUL__IN(states, any_h, any_lengths), HAUL__PARAMS(p), .grain = rows_for(s));
    }
    return status ? status
                  : multiply(c, &(product){.m = s->n,
                                           .n = s->hidden,
                                           .k = s->gates,
                                           .a = dh,
                                           .a_at = row,
                                           .b = c->operands[WEIGHT],
                                           .c = dstate,
                                           .c_row = s->hidden,
                                           .accumulate = true});
}

static haul_status backward(haul__call *c)
{
    const haul__cell_kind            *kind = c->operation->extra;
    const haul__recurrent_attributes *a = haul__attributes_of(c);
    const sizes                       s = backward_sizes(c);
    const place                       last = place_of(&s, a->reverse, s.steps - 1);
    haul_status                       status = HAUL_OK;
    for (int i = 0; i < kind->states && !status; i++)
        status = put(c, c->results[1], i, present(c, G_H + i), last.after);
    for (int64_t step = s.steps - 1; step >= 0 && !status; step--)
        status = backward_step(c, &s, step);
    return status;
}

static haul__cost backward_cost(const haul__call *c)
{
    const sizes s = backward_sizes(c);
    return (haul__cost){.flops = 2.0 * (double)s.steps * (double)s.n * (double)s.gates * (double)s.hidden,
                        .bytes = haul__call_bytes(c)};
}

#define BACKWARD(cell)                                                                                                 \
    .name = "haul_" #cell "_backward",                                                                                 \
    .operands = {{"g", .optional = true},                                                                              \
                 {"gc", .optional = true},                                                                             \
                 {"gates", .optional = true},                                                                          \
                 {"states"},                                                                                           \
                 {"weight_hh"},                                                                                        \
                 {"lengths", .optional = true, .accepts = HAUL__ONLY(HAUL_I64)}},                                      \
    .dtypes = HAUL__FLOATS, .attributes_size = HAUL__ATTRIBUTES(haul__recurrent_attributes),                           \
    .implementations = &haul__gemm_implementations, .extra = &(cell), .infer = backward_infer, .compute = backward,    \
    .cost = backward_cost

HAUL__OPERATION(lstm_backward) = {BACKWARD(lstm), .results = {{"dx"}, {"dstate"}}};
HAUL__OPERATION(gru_backward) = {BACKWARD(gru), .results = {{"dx"}, {"dstate"}, {"dh"}}};
HAUL__OPERATION(rnn_backward) = {BACKWARD(rnn), .results = {{"dx"}, {"dstate"}}};

/* ---- the operations ---- */

#define SAVED .saved_for = HAUL__FOR_ALL
#define FORWARD(cell)                                                                                                  \
    .name = "haul_" #cell,                                                                                             \
    .operands = {{"x", SAVED},                                                                                         \
                 {"weight_ih", SAVED},                                                                                 \
                 {"weight_hh", SAVED},                                                                                 \
                 {"bias", .optional = true, SAVED},                                                                    \
                 {"state", .optional = true},                                                                          \
                 {"lengths", .optional = true, .accepts = HAUL__INTEGERS, .becomes = HAUL_I64, SAVED}},                \
    .dtypes = HAUL__FLOATS, .rule = HAUL__FLOATED, .autocast = HAUL__LOWER,                                            \
    .attributes_size = HAUL__ATTRIBUTES(haul__recurrent_attributes), .implementations = &haul__gemm_implementations,   \
    .extra = &(cell), .infer = infer, .compute = forward, .gradient = haul__recurrent_gradient, .cost = cost

HAUL__OPERATION(lstm) = {FORWARD(lstm), .results = {{"h", SAVED}, {"c", SAVED}, {"gates", .hidden = true, SAVED}}};
HAUL__OPERATION(gru) = {FORWARD(gru), .results = {{"h", SAVED}, {"gates", .hidden = true, SAVED}}};
HAUL__OPERATION(rnn) = {FORWARD(rnn), .results = {{"h", SAVED}}};

haul_status haul__recurrent_steps(haul__recurrent_cell cell, const haul__recurrent *r, haul_tensor **results)
{
    static const haul__operation *const operations[] = {
        [HAUL__LSTM] = &haul__operation_lstm,
        [HAUL__GRU] = &haul__operation_gru,
        [HAUL__RNN] = &haul__operation_rnn,
    };
    HAUL__ASSERT((size_t)cell < sizeof operations / sizeof *operations);
    haul_tensor *made[HAUL__MAX_RESULTS] = {NULL};
    haul_status  status =
        haul__apply(operations[cell], &r->attributes,
                    HAUL__OPERANDS(r->x, r->weight_ih, r->weight_hh, r->bias, r->state, r->lengths), made);
    for (int i = 0; i < (cell == HAUL__LSTM ? 2 : 1); i++)
        results[i] = status ? haul__failed_tensor() : made[i];
    return status;
}

/* The backward pass of recurrent layers, composed of operations. What the steps have in common is computed for all of
 * them at once: factors of the gradients. */
#include "base/alloc.h"
#include "base/assert.h"
#include "core/scope.h"
#include "ops/recurrent/recurrent.h"

enum { MOST_GATES = 4 };

/* Factors of all steps, [T, N, hidden]. The sum of gate i gets `of_c[i]` times the gradient of c, or if that is NULL,
 * `of_h[i]` times that of h. c gets `h_to_c` times the gradient of h. The states before a step get `keeps_h` and
 * `keeps_c` times the gradients of those after it; NULL: nothing. In a GRU, `part[i]` is a factor of what the gate's
 * sum gets for the state's part; NULL: 1. */
typedef struct factors {
    haul_tensor *of_c[MOST_GATES], *of_h[MOST_GATES], *part[MOST_GATES];
    haul_tensor *h_to_c, *keeps_h, *keeps_c;
} factors;

typedef struct layer {
    const haul__gradient *g;
    haul__recurrent_cell  cell;
    bool                  reverse, relu;
    int                   gates;
    int64_t               steps, hidden;
    haul_tensor          *within; /* 1 for the steps of a sequence, 0 past it, [T, N, 1]; NULL: all are steps */
} layer;

static haul_tensor *before(const layer *l, int state)
{
    return haul__recurrent_states(l->g->saved_results[state], l->reverse, 0);
}

static haul_tensor *after(const layer *l, int state)
{
    return haul__recurrent_states(l->g->saved_results[state], l->reverse, 1);
}

static haul_tensor *gate(const layer *l, haul_tensor *sums, int i)
{
    HAUL__ASSERT(0 <= i && i < l->gates);
    return haul_slice(sums, 2, i * l->hidden, (i + 1) * l->hidden, 1);
}

static haul_tensor *one_minus(haul_tensor *x)
{
    return haul_affine(x, -1, 1);
}

/* The slopes of a sigmoid and of tanh, from their results. */
static haul_tensor *sigmoid_slope(haul_tensor *y)
{
    return haul_mul(y, one_minus(y));
}

static haul_tensor *tanh_slope(haul_tensor *y)
{
    return one_minus(haul_square(y));
}

/* ---- factors ---- */

/* The inputs' part of the gates' sums, and the state's. The bias is the input's alone, except in a GRU. */
static void sums(const layer *l, haul_tensor **x, haul_tensor **h)
{
    haul_tensor *const *in = l->g->saved, *x_bias = in[HAUL__RECURRENT_BIAS], *h_bias = HAUL_NONE;
    if (l->cell == HAUL__GRU && !haul__is_none(x_bias)) {
        h_bias = haul_select(x_bias, 0, 1);
        x_bias = haul_select(x_bias, 0, 0);
    }
    *x = haul_linear(in[HAUL__RECURRENT_X], in[HAUL__RECURRENT_IH], .bias = x_bias);
    *h = haul_linear(before(l, 0), in[HAUL__RECURRENT_HH], .bias = h_bias);
}

static void lstm_factors(const layer *l, factors *f)
{
    haul_tensor *x, *h;
    sums(l, &x, &h);
    haul_tensor *all = haul_add(x, h), *in = haul_sigmoid(gate(l, all, 0)), *forget = haul_sigmoid(gate(l, all, 1));
    haul_tensor *cell = haul_tanh(gate(l, all, 2)), *out = haul_sigmoid(gate(l, all, 3)),
                *near = haul_tanh(after(l, 1));
    f->of_c[0] = haul_mul(cell, sigmoid_slope(in));
    f->of_c[1] = haul_mul(before(l, 1), sigmoid_slope(forget));
    f->of_c[2] = haul_mul(in, tanh_slope(cell));
    f->of_h[3] = haul_mul(near, sigmoid_slope(out));
    f->h_to_c = haul_mul(out, tanh_slope(near));
    f->keeps_c = forget;
}

static void gru_factors(const layer *l, factors *f)
{
    haul_tensor *x, *h;
    sums(l, &x, &h);
    haul_tensor *reset = haul_sigmoid(haul_add(gate(l, x, 0), gate(l, h, 0))), *of_h = gate(l, h, 2);
    haul_tensor *update = haul_sigmoid(haul_add(gate(l, x, 1), gate(l, h, 1)));
    haul_tensor *fresh = haul_tanh(haul_add(gate(l, x, 2), haul_mul(reset, of_h)));
    f->of_h[2] = haul_mul(one_minus(update), tanh_slope(fresh));
    f->of_h[1] = haul_mul(haul_sub(before(l, 0), fresh), sigmoid_slope(update));
    f->of_h[0] = haul_mul(f->of_h[2], haul_mul(of_h, sigmoid_slope(reset)));
    f->part[2] = reset;
    f->keeps_h = update;
}

static void rnn_factors(const layer *l, factors *f)
{
    haul_tensor *h = after(l, 0);
    f->of_h[0] = l->relu ? haul_cast(haul_gt_scalar(h, 0), h->dtype) : tanh_slope(h);
}

/* Past the end of a sequence gates get nothing, and states what arrives. */
static void mask(const layer *l, factors *f)
{
    haul_tensor *past = one_minus(l->within);
    for (int i = 0; i < l->gates; i++) {
        haul_tensor **of = f->of_c[i] ? &f->of_c[i] : &f->of_h[i];
        HAUL__ASSERT(*of); /* each gate has a factor */
        *of = haul_mul(*of, l->within);
    }
    if (f->h_to_c)
        f->h_to_c = haul_mul(f->h_to_c, l->within);
    f->keeps_h = f->keeps_h ? haul_add(haul_mul(f->keeps_h, l->within), past) : past;
    if (f->keeps_c)
        f->keeps_c = haul_add(haul_mul(f->keeps_c, l->within), past);
}

/* ---- steps ---- */

/* Gradients of the states, [N, hidden]; NULL: 0. */
typedef struct carried {
    haul_tensor *h, *c;
} carried;

/* a + b; NULL is 0 */
static haul_tensor *sum(haul_tensor *a, haul_tensor *b)
{
    return !a ? b : !b ? a : haul_add(a, b);
}

static haul_tensor *times(haul_tensor *factor, haul_tensor *g, int64_t t)
{
    return factor && g ? haul_mul(haul_select(factor, 0, t), g) : NULL;
}

/* What arrived for entry `at` of state `i`. */
static haul_tensor *arrived(const layer *l, int i, int64_t at)
{
    haul_tensor *g = l->g->results[i];
    HAUL__ASSERT(0 <= at && at <= l->steps);
    return haul__is_none(g) ? NULL : haul_select(g, 0, at);
}

/* The gradients of the gates' sums in step t, for the input's and the state's part. */
static void back_step(const layer *l, const factors *f, int64_t t, carried *d, haul_tensor **of_x, haul_tensor **of_h)
{
    haul_tensor  *x[MOST_GATES], *h[MOST_GATES];
    const int64_t to = l->reverse ? t + 1 : t;
    HAUL__ASSERT(0 < l->gates && l->gates <= MOST_GATES && 0 <= t && t < l->steps);
    HAUL__ASSERT(0 <= to && to <= l->steps);
    haul_tensor *c = sum(d->c, times(f->h_to_c, d->h, t));
    for (int i = 0; i < l->gates; i++) {
        x[i] = f->of_c[i] ? times(f->of_c[i], c, t) : times(f->of_h[i], d->h, t);
        h[i] = f->part[i] ? times(f->part[i], x[i], t) : x[i];
    }
    *of_x = haul_cat(x, l->gates, 1);
    *of_h = l->cell == HAUL__GRU ? haul_cat(h, l->gates, 1) : *of_x;
    haul_tensor *kept = sum(times(f->keeps_h, d->h, t), arrived(l, 0, to));
    d->h = sum(kept, haul_matmul(*of_h, l->g->saved[HAUL__RECURRENT_HH]));
    if (l->cell == HAUL__LSTM)
        d->c = sum(times(f->keeps_c, c, t), arrived(l, 1, to));
}

static haul_status back(const layer *l, const factors *f, haul_tensor **x, haul_tensor **h,
                        haul__recurrent_gradients *out)
{
    const int64_t last = l->reverse ? 0 : l->steps;
    HAUL__ASSERT(l->steps > 0);
    haul_tensor *zeros = haul_zeros_like(haul_select(l->g->saved_results[0], 0, last));
    carried      d = {sum(arrived(l, 0, last), zeros), NULL};
    d.c = l->cell == HAUL__LSTM ? sum(arrived(l, 1, last), zeros) : NULL;
    for (int64_t i = 0; i < l->steps; i++) {
        const int64_t t = l->reverse ? i : l->steps - 1 - i;
        back_step(l, f, t, &d, &x[t], &h[t]);
        if (haul__failed(d.h))
            return haul_error_status();
    }
    out->x = haul_stack(x, (int)l->steps, 0);
    out->h = l->cell == HAUL__GRU ? haul_stack(h, (int)l->steps, 0) : out->x;
    haul_tensor *states[] = {d.h, d.c};
    out->state = haul_stack(states, d.c ? 2 : 1, 0);
    return haul__failed(out->x) || haul__failed(out->h) ? haul_error_status() : haul__status_of(out->state);
}

/* [T, N, 1], in the dtype of the states. */
static haul_tensor *within(const layer *l)
{
    haul_tensor *lengths = l->g->saved[HAUL__RECURRENT_LENGTHS], *h = l->g->saved_results[0];
    haul_tensor *steps = haul_to(haul_arange_i64(0, l->steps, 1), h->storage->device);
    return haul_unsqueeze(haul_cast(haul_lt(haul_unsqueeze(steps, 1), lengths), h->dtype), 2);
}

haul_status haul__recurrent_compose(const haul__gradient *g, haul__recurrent_cell cell, haul__recurrent_gradients *out)
{
    const haul__recurrent_attributes *a = g->attributes;
    const haul_shape                 *h = &g->saved_results[0]->shape;
    layer                             l = {
                                    .g = g, .cell = cell, .reverse = a->reverse, .relu = a->relu, .steps = h->dims[0] - 1, .hidden = h->dims[2]};
    factors f = {.h_to_c = NULL};
    l.gates = cell == HAUL__LSTM ? 4 : cell == HAUL__GRU ? 3 : 1;
    if (l.steps > INT32_MAX)
        return haul__fail(HAUL_UNSUPPORTED, g->operation->name, "x", "%lld steps are too many to differentiate twice",
                          (long long)l.steps);
    HAUL__ASSERT(l.steps > 0);
    if (cell == HAUL__LSTM)
        lstm_factors(&l, &f);
    else if (cell == HAUL__GRU)
        gru_factors(&l, &f);
    else
        rnn_factors(&l, &f);
    if (!haul__is_none(g->saved[HAUL__RECURRENT_LENGTHS])) {
        l.within = within(&l);
        mask(&l, &f);
    }
    const size_t  count = 2 * (size_t)l.steps;
    haul_tensor **made = haul__calloc(count, sizeof *made);
    if (!made)
        return haul__fail_memory(g->operation->name, count * sizeof *made);
    haul_status status = back(&l, &f, made, made + l.steps, out);
    haul__free(made);
    return status;
}

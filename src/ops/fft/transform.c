/* Transforms of whole axes as operations: of complex numbers, of real numbers, and to real numbers. The gradient of
 * each is another one of them.
 *
 * An even number n of real numbers is transformed as n / 2 complex ones (Press et al., Numerical Recipes, 12.3): its
 * terms are E_k + e^(-2 pi i k / n) O_k, where E and O are the transforms of the numbers at even and odd places. */
#include "base/assert.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/fft/fft.h"

// clang-format off
/* kernel text begins */
#include "ops/fft/fft_kernel.h"

typedef struct fft_real_params {
    I64 items, at[3];          /* of y, x and the factors, in elements */
    I64 n, middle, inner;      /* real numbers of a transform, n / 2, transforms side by side */
    U64 weight, scale;         /* of terms other than 0 and n / 2; of all */
} fft_real_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
/* y[j] = e^(-2 pi i j / n) */
KERNEL1(fft_circle, fft_real_params, T, y)
{
    FOR_ITEMS(j) fft_factor(y + p.at[0] + 2 * j, 0, (I32)j, p.n, LIT(1.0), LIT(1.0));
}

/* Real numbers as complex ones: y[j] = (x[2 j], x[2 j + 1]) for even n, else (x[j], 0). */
KERNEL2(fft_pack, fft_real_params, T, y, const T, x)
{
    const I32 even = 2 * p.middle == p.n;
    const I64 rows = even ? p.middle : p.n;
    FOR_ITEMS(i) {
        const I64 row = QUOTIENT(i, p.inner), q = i - row * p.inner, t = QUOTIENT(row, rows), j = row - t * rows;
        GLOBAL const T *v = x + p.at[1] + (t * p.n + (even ? 2 * j : j)) * p.inner + q;
        y[p.at[0] + 2 * i] = v[0];
        y[p.at[0] + 2 * i + 1] = even ? v[p.inner] : LIT(0.0);
    }
}

/* The opposite: y[j], whose numbers are real. */
KERNEL2(fft_unpack, fft_real_params, T, y, const T, x)
{
    const I32 even = 2 * p.middle == p.n;
    const I64 rows = even ? p.middle : p.n;
    FOR_ITEMS(i) {
        const I64 row = QUOTIENT(i, p.inner), q = i - row * p.inner, t = QUOTIENT(row, p.n), j = row - t * p.n;
        const I64 from = (t * rows + (even ? j / 2 : j)) * p.inner + q;
        y[p.at[0] + i] = x[p.at[1] + 2 * from + (even ? j & 1 : 0)];
    }
}

/* Terms 0 to n / 2 of real numbers, from the transform of the packed ones. */
KERNEL3(fft_half, fft_real_params, T, y, const T, x, const T, circle)
{
    const I32 even = 2 * p.middle == p.n;
    const I64 rows = even ? p.middle : p.n;
    FOR_ITEMS(i) {
        const I64 row = QUOTIENT(i, p.inner), q = i - row * p.inner, t = QUOTIENT(row, p.middle + 1);
        const I64 k = row - t * (p.middle + 1);
        const A weight = k && (k < p.middle || !even) ? SCALAR(p.weight) : LIT(1.0), scale = SCALAR(p.scale) * weight;
        GLOBAL const T *v = x + p.at[1] + 2 * (t * rows * p.inner + q);
        GLOBAL const T *a = v + 2 * p.inner * (even && k == p.middle ? 0 : k);
        if (even) {
            GLOBAL const T *b = v + 2 * p.inner * (k ? p.middle - k : 0), *w = circle + p.at[2] + 2 * k;
            const A er = LIT(0.5) * (a[0] + b[0]), ei = LIT(0.5) * (a[1] - b[1]);
            const A qr = LIT(0.5) * (a[1] + b[1]), qi = LIT(0.5) * (b[0] - a[0]);
            const fft_number turned = fft_turn(qr, qi, w, LIT(1.0));
            y[p.at[0] + 2 * i] = (er + turned.re) * scale;
            y[p.at[0] + 2 * i + 1] = (ei + turned.im) * scale;
        } else {
            y[p.at[0] + 2 * i] = a[0] * scale;
            y[p.at[0] + 2 * i + 1] = a[1] * scale;
        }
    }
}

/* What the inverse transform makes packed real numbers, from terms 0 to n / 2. */
KERNEL3(fft_whole, fft_real_params, T, y, const T, x, const T, circle)
{
    const I32 even = 2 * p.middle == p.n;
    const I64 rows = even ? p.middle : p.n;
    FOR_ITEMS(i) {
        const I64 row = QUOTIENT(i, p.inner), q = i - row * p.inner, t = QUOTIENT(row, rows), k = row - t * rows;
        GLOBAL const T *v = x + p.at[1] + 2 * (t * (p.middle + 1) * p.inner + q);
        const A weight = k ? SCALAR(p.weight) : LIT(1.0);
        const I32 back = k > p.middle;
        GLOBAL const T *a = v + 2 * p.inner * (back ? p.n - k : k);
        const A ar = a[0] * weight, ai = k ? (back ? -a[1] : a[1]) * weight : LIT(0.0);
        if (even) {
            GLOBAL const T *b = v + 2 * p.inner * (p.middle - k), *w = circle + p.at[2] + 2 * k;
            const A br = b[0] * weight, bi = k ? b[1] * weight : LIT(0.0);
            const fft_number turned = fft_turn(ar - br, ai + bi, w, LIT(-1.0));
            y[p.at[0] + 2 * i] = ar + br - turned.im; /* plus i times it */
            y[p.at[0] + 2 * i + 1] = ai - bi + turned.re;
        } else {
            y[p.at[0] + 2 * i] = ar;
            y[p.at[0] + 2 * i + 1] = ai;
        }
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 4096 };

static haul__fft_size size_of(const haul_shape *shape, int axis, int last)
{
    HAUL__ASSERT(0 <= axis && axis < last && last <= shape->ndim);
    haul__fft_size s = {1, shape->dims[axis], 1};
    for (int d = 0; d < last; d++) {
        s.outer *= d < axis ? shape->dims[d] : 1;
        s.inner *= d > axis ? shape->dims[d] : 1;
    }
    return s;
}

/* ---- complex numbers ---- */

static haul_status infer(haul__call *c)
{
    return haul__describe(c, 0, c->operands[0]->dtype, &c->operands[0]->shape);
}

static haul_status compute(haul__call *c)
{
    const haul__fft_attributes *a = haul__attributes(c);
    haul_tensor                *x = c->operands[0];
    return haul__fft_run(c, c->results[0], x, size_of(&x->shape, a->axis, x->shape.ndim - 1), a->inverse, a->scale);
}

static haul__cost cost(const haul__call *c)
{
    const haul_shape *s = &c->operands[0]->shape;
    haul__fft_size    size = size_of(s, ((const haul__fft_attributes *)haul__attributes_of(c))->axis, s->ndim);
    return (haul__cost){.flops = haul__fft_flops(size) / 2, .bytes = haul__call_bytes(c)};
}

static void gradient(haul__gradient *g)
{
    const haul__fft_attributes *a = g->attributes;
    g->operands[0] = haul__fft_complex(g->results[0], a->axis, !a->inverse, a->scale);
}

HAUL__OPERATION(fft_complex) = {
    .name = "haul_fft_complex",
    .operands = {{"x"}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(haul__fft_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .cost = cost,
};

haul_tensor *haul__fft_complex(haul_tensor *x, int axis, bool inverse, double scale)
{
    return HAUL__APPLY(fft_complex, (&(haul__fft_attributes){.axis = axis, .inverse = inverse, .scale = scale}), x);
}

/* ---- real numbers ---- */

/* The transform of packed numbers with its buffers: of the numbers, of the result, and the factors. */
typedef struct real_work {
    haul__fft_size  size; /* of complex numbers */
    haul_tensor    *circle;
    fft_real_params p;
} real_work;

/* `size` is that of the real numbers. */
static haul_status prepare(const haul__call *c, haul__fft_size size, real_work *w)
{
    haul_dtype dtype = c->results[0]->dtype;
    HAUL__ASSERT(size.n > 0);
    w->size = size;
    w->p = (fft_real_params){.n = size.n, .middle = size.n / 2, .inner = size.inner};
    if (size.n % 2 == 0)
        w->size.n /= 2;
    HAUL__ASSERT(w->size.n > 0);
    w->circle = haul__fft_temporary(c, dtype, w->p.middle + 1);
    if (!w->circle)
        return haul_error_status();
    fft_real_params p = w->p;
    p.items = p.middle + 1;
    p.at[0] = w->circle->offset;
    return haul__launch_kernel(c, HAUL__K_fft_circle, dtype, HAUL__OUT(w->circle), HAUL__PARAMS(p), .grain = GRAIN);
}

static haul_status launch(const haul__call *c, int kernel, const real_work *w, haul_tensor *y, haul_tensor *x,
                          int64_t rows, double weight, double scale)
{
    fft_real_params p = w->p;
    p.items = w->size.outer * rows * p.inner;
    p.at[0] = y->offset;
    p.at[1] = x->offset;
    p.at[2] = w->circle->offset;
    p.weight = haul__scalar_bits(y->dtype, weight);
    p.scale = haul__scalar_bits(y->dtype, scale);
    const bool   three = kernel == HAUL__K_fft_half || kernel == HAUL__K_fft_whole;
    haul_tensor *ins[] = {x, w->circle};
    return haul__launch_kernel(c, kernel, y->dtype, HAUL__OUT(y), .ins = ins, .in_count = three ? 2 : 1,
                               HAUL__PARAMS(p), .grain = GRAIN);
}

static haul_status of_real_infer(haul__call *c)
{
    haul__fft_attributes *a = haul__attributes(c);
    haul_shape            shape = c->operands[0]->shape;
    a->n = shape.dims[a->axis];
    shape.dims[a->axis] = a->n / 2 + 1;
    HAUL__ASSERT(shape.ndim < HAUL_MAX_DIMS);
    shape.dims[shape.ndim++] = 2;
    return haul__describe(c, 0, c->operands[0]->dtype, &shape);
}

/* Numbers of which one is the real part and the next the imaginary part of a complex number need no copy. */
static bool is_packed(const real_work *w)
{
    return w->p.inner == 1 && w->p.n % 2 == 0;
}

static haul_status of_real_compute(haul__call *c)
{
    const haul__fft_attributes *a = haul__attributes(c);
    haul_tensor                *x = c->operands[0], *y = c->results[0];
    real_work                   w;
    if (!y->count)
        return HAUL_OK;
    if (prepare(c, size_of(&x->shape, a->axis, x->shape.ndim), &w))
        return haul_error_status();
    HAUL__ASSERT(y->count == 2 * w.size.outer * (w.p.middle + 1) * w.size.inner &&
                 x->count == w.size.outer * w.p.n * w.size.inner);
    const int64_t total = w.size.outer * w.size.n * w.size.inner;
    HAUL__ASSERT(total > 0);
    haul_tensor *packed = is_packed(&w) ? x : haul__fft_temporary(c, y->dtype, total);
    haul_tensor *terms = haul__fft_temporary(c, y->dtype, total);
    if (!packed || !terms || (packed != x && launch(c, HAUL__K_fft_pack, &w, packed, x, w.size.n, 1, 1)) ||
        haul__fft_run(c, terms, packed, w.size, false, 1))
        return haul_error_status();
    return launch(c, HAUL__K_fft_half, &w, y, terms, w.p.middle + 1, a->twice ? 2 : 1, a->scale);
}

static void of_real_gradient(haul__gradient *g)
{
    const haul__fft_attributes *a = g->attributes;
    g->operands[0] = haul__fft_to_real(g->results[0], a->axis, a->n, a->twice, a->scale);
}

HAUL__OPERATION(fft_of_real) = {
    .name = "haul_fft_of_real",
    .operands = {{"x"}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(haul__fft_attributes),
    .infer = of_real_infer,
    .compute = of_real_compute,
    .gradient = of_real_gradient,
    .cost = cost,
};

haul_tensor *haul__fft_of_real(haul_tensor *x, int axis, bool twice, double scale)
{
    return HAUL__APPLY(fft_of_real, (&(haul__fft_attributes){.axis = axis, .twice = twice, .scale = scale}), x);
}

static haul_status to_real_infer(haul__call *c)
{
    const haul__fft_attributes *a = haul__attributes(c);
    haul_shape                  shape = c->operands[0]->shape;
    HAUL__ASSERT(shape.dims[shape.ndim - 1] == 2 && shape.dims[a->axis] == a->n / 2 + 1);
    shape.ndim--;
    shape.dims[a->axis] = a->n;
    return haul__describe(c, 0, c->operands[0]->dtype, &shape);
}

static haul_status to_real_compute(haul__call *c)
{
    const haul__fft_attributes *a = haul__attributes(c);
    haul_tensor                *x = c->operands[0], *y = c->results[0];
    real_work                   w;
    if (!y->count)
        return HAUL_OK;
    if (prepare(c, size_of(&y->shape, a->axis, y->shape.ndim), &w))
        return haul_error_status();
    HAUL__ASSERT(x->count == 2 * w.size.outer * (w.p.middle + 1) * w.size.inner &&
                 y->count == w.size.outer * w.p.n * w.size.inner);
    const int64_t total = w.size.outer * w.size.n * w.size.inner;
    HAUL__ASSERT(total > 0);
    haul_tensor *terms = haul__fft_temporary(c, y->dtype, total);
    haul_tensor *packed = is_packed(&w) ? y : haul__fft_temporary(c, y->dtype, total);
    if (!terms || !packed || launch(c, HAUL__K_fft_whole, &w, terms, x, w.size.n, a->twice ? 1 : 0.5, 1) ||
        haul__fft_run(c, packed, terms, w.size, true, a->scale))
        return haul_error_status();
    return packed == y ? HAUL_OK : launch(c, HAUL__K_fft_unpack, &w, y, packed, w.p.n, 1, 1);
}

static void to_real_gradient(haul__gradient *g)
{
    const haul__fft_attributes *a = g->attributes;
    g->operands[0] = haul__fft_of_real(g->results[0], a->axis, a->twice, a->scale);
}

HAUL__OPERATION(fft_to_real) = {
    .name = "haul_fft_to_real",
    .operands = {{"x"}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(haul__fft_attributes),
    .infer = to_real_infer,
    .compute = to_real_compute,
    .gradient = to_real_gradient,
    .cost = cost,
};

haul_tensor *haul__fft_to_real(haul_tensor *x, int axis, int64_t n, bool twice, double scale)
{
    return HAUL__APPLY(fft_to_real, (&(haul__fft_attributes){.axis = axis, .n = n, .twice = twice, .scale = scale}), x);
}

/* Every pointwise row x form x dtype x layout x device, against the row's own formula evaluated in double precision;
 * with sentinels around results written in place, special values, gradients, second gradients, and errors.
 *
 * ctest: cuda-only; sim-only; labels=slow; sim-labels=slow,once */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/pointwise/pointwise.h"
#include "support/conformance/conformance.h"

/* ---- the reference: formulas as functions on doubles, with the C library's mathematics ---- */

typedef double A;
#define LIT(x)                              (x)
#define M_ABS(x)                            fabs(x)
#define M_SIGN(x)                           ((x) > 0 ? 1.0 : (x) < 0 ? -1.0 : (x) != (x) ? (x) : 0.0)
#define M_EXP                               exp
#define M_EXPM1                             expm1
#define M_LOG                               log
#define M_LOG1P                             log1p
#define M_SQRT                              sqrt
#define M_SIN                               sin
#define M_COS                               cos
#define M_TANH                              tanh
#define M_ERF                               erf
#define M_POW                               pow
#define M_FLOOR                             floor
#define M_CEIL                              ceil
#define M_RINT                              rint
#define M_SIGMOID(x)                        (1 / (1 + exp(-(x))))
#define M_SILU(x)                           ((x) == -INFINITY ? -0.0 : (x)*M_SIGMOID(x))
#define M_SOFTPLUS(x)                       ((x) > 700 ? (x) : log1p(exp(x)))
#define M_GELU(x)                           ((x) == -INFINITY ? -0.0 : (x)*0.5 * erfc(-(x)*0.70710678118654752))
#define M_MAX(a, b)                         ((a) != (a) || (a) > (b) ? (a) : (b))
#define M_MIN(a, b)                         ((a) != (a) || (a) < (b) ? (a) : (b))
#define M_MOD(a, b)                         host_mod(a, b)
#define M_FLOOR_DIV(a, b)                   host_floor_div(a, b)
#define M_BCE(x, target)                    host_bce(x, target)
#define M_SILU_BACKWARD(g, x)               host_silu_backward(g, x)
#define M_GELU_BACKWARD(g, x)               host_gelu_backward(g, x)
#define M_TRUNC                             trunc
#define M_TRUNC_DIV(a, b)                   trunc((a) / (b))
#define M_FMOD                              fmod
#define M_TAN                               tan
#define M_ASIN                              asin
#define M_ACOS                              acos
#define M_ATAN                              atan
#define M_ATAN2                             atan2
#define M_SINH                              sinh
#define M_COSH                              cosh
#define M_ASINH                             asinh
#define M_ACOSH                             acosh
#define M_ATANH                             atanh
#define M_EXP2                              exp2
#define M_LOG2                              log2
#define M_LOG10                             log10
#define M_HYPOT                             hypot
#define M_COPYSIGN                          copysign
#define M_SIGNBIT                           signbit
#define M_NEXTAFTER                         nextafter
#define M_ERFC                              erfc
#define M_ERFINV(x)                         host_erfinv(x)
#define M_LGAMMA                            host_lgamma
#define M_DIGAMMA(x)                        host_digamma(x)
#define M_POLYGAMMA(n, x)                   host_polygamma(n, x)
#define M_LOGADDEXP(a, b)                   host_logaddexp(a, b)
#define M_XLOGY(a, b)                       ((b) != (b) ? (b) : (a) == 0 ? 0 : (a)*log(b))
#define M_SOFTPLUS_BETA(x, beta, threshold) ((x) * (beta) > (threshold) ? (x) : M_SOFTPLUS((x) * (beta)) / (beta))
#define M_GELU_TANH(x)                      ((x) == -INFINITY ? -0.0 : (x)*M_SIGMOID(1.5957691216057308 * (x) * (1 + 0.044715 * (x) * (x))))
#define M_BITS_AND(a, b)                    (double)((int64_t)(a) & (int64_t)(b))
#define M_BITS_OR(a, b)                     (double)((int64_t)(a) | (int64_t)(b))
#define M_BITS_XOR(a, b)                    (double)((int64_t)(a) ^ (int64_t)(b))
#define M_BITS_NOT(x)                       host_bits_not(x)
#define M_SHIFT_LEFT(a, b)                  ((b) < 0 ? 0 : (a)*exp2(b))
#define M_SHIFT_RIGHT(a, b)                 floor((b) < 0 ? ((a) < 0 ? -1 : 0) : (a)*exp2(-(b)))

static double host_mod(double a, double b)
{
    double r = fmod(a, b);
    return r != 0 && signbit(r) != signbit(b) ? r + b : r;
}

static double host_floor_div(double a, double b)
{
    double r = fmod(a, b), q = (a - r) / b;
    if (b == 0 || (a == 0 && r == r))
        return a / b;
    if (r != 0 && signbit(r) != signbit(b))
        q -= 1;
    return q == 0 ? copysign(0, a) * copysign(1, b) : rint(q);
}

static double host_bce(double x, double target)
{
    double missing = x > 0 ? 1 - target : target;
    return (missing == 0 ? 0 : fabs(x) * missing) + log1p(exp(-fabs(x)));
}

static double host_silu_backward(double g, double x)
{
    double s = M_SIGMOID(x);
    return g * s * (1 + x * (1 - s));
}

static double host_gelu_backward(double g, double x)
{
    return g * (0.5 * erfc(-x * 0.70710678118654752) + x * exp(-x * x / 2) / sqrt(2 * acos(-1)));
}

/* The next two by halving an interval and by a recurrence, for comparison. */
static double host_erfinv(double x)
{
    double low = 0, high = 8, a = fabs(x);
    if (!(a < 1))
        return a == 1 ? x * INFINITY : NAN;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (a < 0.5 ? erf(middle) < a : erfc(middle) > 1 - a)
            low = middle;
        else
            high = middle;
    }
    return copysign((low + high) / 2, x);
}

static double host_lgamma(double x)
{
    return x == -INFINITY ? INFINITY : lgamma(x);
}

static double host_digamma(double x)
{
    const double pi = 3.14159265358979323846;
    double       below = 0;
    if (x == 0 || x == INFINITY)
        return x == 0 ? -1 / x : x;
    if (x < 0)
        return x == rint(x) ? NAN : host_digamma(1 - x) - pi / tan(pi * (x - rint(x)));
    for (; x < 30; x++)
        below += 1 / x;
    double s = 1 / (x * x);
    return log(x) - 0.5 / x - s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s / 240))) - below;
}

/* The sum of its terms, and the integral of those from 4,000 on with two corrections. */
static double host_polygamma(double n, double x)
{
    double sum = 0, factor = 1;
    if (!(n >= 1) || n != floor(n))
        return NAN;
    for (int k = 3999; k >= 0; k--) /* the smallest first */
        sum += pow(x + k, -n - 1);
    x += 4000;
    sum += pow(x, -n) / n + pow(x, -n - 1) / 2 + (n + 1) * pow(x, -n - 2) / 12;
    for (double k = 2; k <= n; k++)
        factor *= k;
    return fmod(n, 2) != 0 ? factor * sum : -factor * sum;
}

static double host_logaddexp(double a, double b)
{
    double most = fmax(a, b);
    return a != a || b != b ? NAN : a == b ? a + log(2) : most + log1p(exp(-fabs(a - b)));
}

static double host_bits_not(double x)
{
    return (double)~(int64_t)x;
}

#define UNUSED (void)x, (void)a, (void)b, (void)s0, (void)s1;
#define REFERENCE(name, formula)                                                                                       \
    static double reference_##name(double a, double b, double s0, double s1)                                           \
    {                                                                                                                  \
        const double x = a;                                                                                            \
        UNUSED return (double)(formula);                                                                               \
    }
#define HAUL_UNARY(name, dtypes, formula, ...)         REFERENCE(name, formula)
#define HAUL_UNARY_TO_BOOL(name, dtypes, formula, ...) REFERENCE(name, formula)
#define HAUL_UNARY1(name, dtypes, formula, ...)        REFERENCE(name, formula)
#define HAUL_UNARY2(name, dtypes, formula, ...)        REFERENCE(name, formula)
#define HAUL_BINARY(name, dtypes, formula, ...)        REFERENCE(name, formula)
#define HAUL_COMPARE(name, formula)                    REFERENCE(name, formula)
#define HAUL_INTERNAL(name, dtypes, formula, ...)      REFERENCE(name, formula)
#include <haul/pointwise.def>
#undef HAUL_UNARY
#undef HAUL_UNARY_TO_BOOL
#undef HAUL_UNARY1
#undef HAUL_UNARY2
#undef HAUL_BINARY
#undef HAUL_COMPARE
#undef HAUL_INTERNAL

typedef double             reference_fn(double a, double b, double s0, double s1);
static reference_fn *const references[] = {
#define HAUL_UNARY(name, ...)         reference_##name,
#define HAUL_UNARY_TO_BOOL(name, ...) reference_##name,
#define HAUL_UNARY1(name, ...)        reference_##name,
#define HAUL_UNARY2(name, ...)        reference_##name,
#define HAUL_BINARY(name, ...)        reference_##name,
#define HAUL_COMPARE(name, ...)       reference_##name,
#define HAUL_INTERNAL(name, ...)      reference_##name,
#include <haul/pointwise.def>
};

/* ---- calling a row ---- */

typedef enum form { FORM_PLAIN, FORM_SCALAR, FORM_INTO } form;
static const char *const form_names[] = {"plain", "scalar", "into"};

typedef haul_tensor *unary_fn(haul_tensor *x);
typedef haul_tensor *unary1_fn(haul_tensor *x, double s);
typedef haul_tensor *unary2_fn(haul_tensor *x, double s0, double s1);
typedef haul_tensor *binary_fn(haul_tensor *a, haul_tensor *b);
typedef haul_tensor *scalar_fn(haul_tensor *a, double s);
typedef haul_status  unary_into_fn(haul_tensor *out, haul_tensor *x);
typedef haul_status  unary1_into_fn(haul_tensor *out, haul_tensor *x, double s);
typedef haul_status  unary2_into_fn(haul_tensor *out, haul_tensor *x, double s0, double s1);
typedef haul_status  binary_into_fn(haul_tensor *out, haul_tensor *a, haul_tensor *b);

static bool is_binary(const haul__row *row)
{
    return row->form == HAUL__BINARY || row->form == HAUL__COMPARE;
}

static bool has_numbers(const haul__row *row)
{
    return row->form == HAUL__UNARY1 || row->form == HAUL__UNARY2;
}

static haul_tensor *call(const haul__row *row, form f, haul_tensor *a, haul_tensor *b, double s0, double s1)
{
    if (f == FORM_SCALAR)
        return ((scalar_fn *)row->call_scalar)(a, s0);
    if (is_binary(row))
        return ((binary_fn *)row->call)(a, b);
    if (row->form == HAUL__UNARY1)
        return ((unary1_fn *)row->call)(a, s0);
    return row->form == HAUL__UNARY2 ? ((unary2_fn *)row->call)(a, s0, s1) : ((unary_fn *)row->call)(a);
}

static haul_status call_into(const haul__row *row, haul_tensor *out, haul_tensor *a, haul_tensor *b, double s0,
                             double s1)
{
    if (is_binary(row))
        return ((binary_into_fn *)row->call_into)(out, a, b);
    if (row->form == HAUL__UNARY1)
        return ((unary1_into_fn *)row->call_into)(out, a, s0);
    return row->form == HAUL__UNARY2 ? ((unary2_into_fn *)row->call_into)(out, a, s0, s1)
                                     : ((unary_into_fn *)row->call_into)(out, a);
}

/* ---- values ---- */

#define MAX_ELEMENTS 512

static const haul_shape shapes[] = {{4, {2, 3, 4, 5}}, {1, {37}}, {0, {0}}, {2, {3, 0}}};

typedef struct point {
    haul_device     *device;
    int              index; /* of the row */
    const haul__row *row;
    haul_dtype       dtype;
    haul_shape       shape;
    layout           how;
    form             f;
    double           s0, s1;
    int64_t          count;
    double           a[MAX_ELEMENTS], b[MAX_ELEMENTS], got[MAX_ELEMENTS];
} point;

/* Of integers only. */
static bool is_of_bits(const haul__row *row)
{
    return row->dtypes == HAUL__ROW_BITWISE || row->dtypes == HAUL__ROW_INTEGER;
}

static bool accepts(const haul__row *row, haul_dtype dtype)
{
    if (is_of_bits(row))
        return !haul_dtype_is_float(dtype) && (dtype != HAUL_BOOL || row->dtypes == HAUL__ROW_BITWISE);
    return !((row->dtypes == HAUL__ROW_NUMBER || row->dtypes == HAUL__ROW_NUMBER_WIDE) && dtype == HAUL_BOOL);
}

/* The reference steps in f64. tests/ops/test_ops_elementwise.c has the steps of halves. */
static bool steps_of_halves(const haul__row *row, haul_dtype dtype)
{
    return (dtype == HAUL_F16 || dtype == HAUL_BF16) && strcmp(row->name, "haul_nextafter") == 0;
}

/* The dtype the row computes in for tensors of `dtype` (and scalars that are whole numbers). */
static haul_dtype computes_in(const haul__row *row, haul_dtype dtype, form f)
{
    bool scalars = f == FORM_SCALAR || has_numbers(row);
    if (scalars && dtype == HAUL_BOOL && row->form != HAUL__COMPARE)
        dtype = HAUL_I64;
    bool floats = row->dtypes == HAUL__ROW_FLOAT || row->dtypes == HAUL__ROW_WIDE;
    return floats && !haul_dtype_is_float(dtype) ? HAUL_F32 : dtype;
}

static bool gives_bool(const haul__row *row)
{
    return row->form == HAUL__COMPARE || row->form == HAUL__UNARY_TO_BOOL;
}

/* What an integer dtype holds of a value: it wraps around. */
static double wrapped(double v, haul_dtype dtype)
{
    switch (dtype) {
    case HAUL_BOOL: return v != 0;
    case HAUL_U8: return (double)(uint8_t)(int64_t)v;
    case HAUL_I8: return (double)(int8_t)(int64_t)v;
    default: return v;
    }
}

static double expected(const point *p, int64_t i)
{
    haul_dtype dtype = computes_in(p->row, p->dtype, p->f);
    double     b = p->f == FORM_SCALAR ? p->s0 : p->b[i];
    double     want = references[p->index](p->a[i], b, p->s0, p->s1);
    if (p->row->form == HAUL__UNARY && is_of_bits(p->row) && dtype == HAUL_BOOL)
        return p->a[i] == 0;
    return gives_bool(p->row) ? want : haul_dtype_is_float(dtype) ? want : wrapped(want, dtype);
}

/* True if the sign of a zero differs. */
static bool wrong_zero(double got, double want, haul_dtype dtype)
{
    return got == 0 && want == 0 && haul_dtype_is_float(dtype) && signbit(got) != signbit(want);
}

static void compare(const point *p, haul_tensor *y)
{
    haul_dtype dtype = gives_bool(p->row) ? HAUL_BOOL : computes_in(p->row, p->dtype, p->f);
    if (haul_tensor_dtype(y) != dtype) {
        fail_case("the result is %s, not %s", haul_dtype_name(haul_tensor_dtype(y)), haul_dtype_name(dtype));
        return;
    }
    if (haul_tensor_count(y) != p->count || read_values(y, (double *)p->got, p->count)) {
        fail_case("reading the result: %s", haul_error_message());
        return;
    }
    for (int64_t i = 0; i < p->count; i++)
        if (!close_enough(p->got[i], expected(p, i), dtype, 24, 0.25) ||
            wrong_zero(p->got[i], expected(p, i), p->dtype))
            fail_case("element %lld of %s is %.17g, not %.17g (a = %.9g, b = %.9g)", (long long)i, p->row->formula,
                      p->got[i], expected(p, i), p->a[i], p->f == FORM_SCALAR ? p->s0 : p->b[i]);
}

/* ---- writing in place, inside a larger tensor full of sentinels ---- */

#define SENTINEL 77
#define MARGIN   3

static haul_tensor *make_target(const point *p, haul_tensor **whole)
{
    haul_dtype dtype = gives_bool(p->row) ? HAUL_BOOL : computes_in(p->row, p->dtype, p->f);
    haul_set_device(p->device);
    *whole = haul_full(dtype, HAUL_SHAPE(p->count + 2 * MARGIN), dtype == HAUL_BOOL ? 1 : SENTINEL);
    haul_set_device(haul_cpu());
    return haul_view(haul_slice(*whole, 0, MARGIN, MARGIN + p->count, 1), p->shape);
}

static void check_sentinels(const point *p, haul_tensor *whole)
{
    static double all[MAX_ELEMENTS + 2 * MARGIN];
    double        want = haul_tensor_dtype(whole) == HAUL_BOOL ? 1 : SENTINEL;
    if (read_values(whole, all, p->count + 2 * MARGIN)) {
        fail_case("reading the target: %s", haul_error_message());
        return;
    }
    for (int i = 0; i < MARGIN; i++)
        if (all[i] != want || all[p->count + MARGIN + i] != want)
            fail_case("an element outside the target was overwritten");
}

static void run_point(point *p)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *a = make_operand(p->device, p->dtype, p->shape, p->how, p->a);
    haul_tensor *b = is_binary(p->row) ? make_operand(p->device, p->dtype, p->shape, p->how, p->b) : NULL;
    haul_error_clear();
    if (p->f == FORM_INTO) {
        haul_tensor *whole, *target = make_target(p, &whole);
        uint64_t     before = haul_tensor_version(whole);
        if (call_into(p->row, target, a, b, p->s0, p->s1)) {
            fail_case("%s", haul_error_message());
        } else {
            compare(p, target);
            check_sentinels(p, whole);
            if (haul_tensor_version(whole) == before)
                fail_case("the version did not change");
        }
    } else {
        haul_tensor *y = call(p->row, p->f, a, b, p->s0, p->s1);
        if (!haul_tensor_is_valid(y))
            fail_case("%s", haul_error_message());
        else
            compare(p, y);
    }
    haul_scope_pop(scope);
}

/* The first number of a row that takes some: a whole one that the dtype holds where it is a term. */
static double number_for(const haul__row *row, haul_dtype dtype)
{
    static const char *const terms[] = {"haul_rsub", "haul_rpow", "haul_rremainder", "haul_rfloor_div",
                                        "haul_nan_to_num"};
    if (strcmp(row->name, "haul_polygamma") == 0)
        return 2;
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++)
        if (dtype == HAUL_U8 && strcmp(row->name, terms[i]) == 0)
            return 2;
    return -1;
}

static void sample(point *p)
{
    p->count = 1;
    for (int d = 0; d < p->shape.ndim; d++)
        p->count *= p->shape.dims[d];
    sample_values(p->a, p->count, p->dtype, p->row->low, p->row->high, 1);
    sample_values(p->b, p->count, p->dtype, p->row->low, p->row->high, 2);
    for (int64_t i = 0; i < p->count && !haul_dtype_is_float(p->dtype); i++) /* integers have no -0 */
        p->a[i] += 0, p->b[i] += 0;
    /* divisors are not zero: what integers give then is checked by test_conformance_limits.c */
    if (strcmp(p->row->name, "haul_remainder") == 0 || strcmp(p->row->name, "haul_div") == 0 ||
        strcmp(p->row->name, "haul_floor_div") == 0 || strcmp(p->row->name, "haul_trunc_div") == 0 ||
        strcmp(p->row->name, "haul_fmod") == 0)
        for (int64_t i = 0; i < p->count; i++)
            p->b[i] = p->b[i] == 0 ? 1 : p->b[i];
    p->s0 = has_numbers(p->row) ? number_for(p->row, p->dtype) : 2;
    p->s1 = 2;
}

static void values(haul_device *device)
{
    static point p;
    p.device = device;
    for (p.index = 0; p.index < haul__row_count; p.index++)
        for (int t = 0; t < test_dtype_count; t++)
            for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
                for (int how = 0; how < LAYOUT_COUNT; how++)
                    for (int f = 0; f < 3; f++) {
                        p.row = &haul__rows[p.index];
                        p.dtype = test_dtypes[t];
                        p.shape = shapes[s];
                        p.how = (layout)how;
                        p.f = (form)f;
                        bool flat = p.shape.ndim == 0 || p.shape.dims[1] == 0;
                        if (!accepts(p.row, p.dtype) || steps_of_halves(p.row, p.dtype) ||
                            (p.f == FORM_SCALAR && !p.row->call_scalar) || (p.f == FORM_INTO && !p.row->call_into) ||
                            (flat && how != LAYOUT_contiguous) || (p.shape.ndim != 4 && how == LAYOUT_channels_last))
                            continue;
                        if (!begin_case("%s/%s/%s/%s/%dd/%s", p.row->name, form_names[f], haul_dtype_name(p.dtype),
                                        layout_names[how], p.shape.ndim, haul_device_name(device)))
                            continue;
                        sample(&p);
                        run_point(&p);
                    }
}

/* ---- special values ---- */

static const double specials[] = {NAN,   INFINITY, -INFINITY, 0.0, -0.0, 1,  -1,   2,     0.5,    -0.5,  1e30,
                                  -1e30, 1e-30,    1e10,      7,   -7,   88, -104, 1e-40, -1e-40, 5e-324};
#define SPECIALS (int)(sizeof specials / sizeof specials[0])

/* Rows whose intermediate results overflow f32 where the final one does not, or where infinity minus infinity has no
 * agreed value: the formula says what they give, and f32 gives it with f32's range. */
static bool specials_differ(const haul__row *row)
{
    static const char *const rows[] = {
        "haul_tanh_backward", "haul_sigmoid_backward", "haul_silu_backward", "haul_gelu_backward", "haul_sin",
        "haul_cos",           "haul_polygamma",        "haul_nextafter"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(row->name, rows[i]) == 0)
            return true;
    return false;
}

static void special_values(haul_device *device, haul_dtype dtype)
{
    static point p;
    p = (point){.device = device, .dtype = dtype, .shape = HAUL_SHAPE(SPECIALS * SPECIALS), .f = FORM_PLAIN};
    for (p.index = 0; p.index < haul__row_count; p.index++) {
        p.row = &haul__rows[p.index];
        if (specials_differ(p.row) || is_of_bits(p.row) ||
            !begin_case("%s/specials/%s/%s", p.row->name, haul_dtype_name(dtype), haul_device_name(device)))
            continue;
        p.count = SPECIALS * SPECIALS;
        p.s0 = -1;
        p.s1 = 2;
        for (int i = 0; i < p.count; i++) {
            p.a[i] = specials[i / SPECIALS];
            p.b[i] = specials[i % SPECIALS];
            p.a[i] = rounded(p.a[i], dtype);
            p.b[i] = rounded(p.b[i], dtype);
        }
        run_point(&p);
    }
}

/* ---- gradients ---- */

static haul_tensor *apply(haul_tensor *const *in, int count, void *context)
{
    const haul__row *row = context;
    const double     s0 = strcmp(row->name, "haul_polygamma") == 0 ? 1 : 0.5; /* which has whole orders */
    return call(row, FORM_PLAIN, in[0], count > 1 ? in[1] : NULL, s0, 1.5);
}

static haul_tensor *apply_scalar(haul_tensor *const *in, int count, void *context)
{
    (void)count;
    return call(context, FORM_SCALAR, in[0], NULL, 1.5, 0);
}

/* The first gradients, summed: its gradient is the second. */
static haul_tensor *first_gradient(haul_tensor *const *in, int count, void *context)
{
    haul_tensor *y = haul_sum(apply(in, count, context)), *g[2] = {HAUL_NONE, HAUL_NONE};
    if (haul_grad(y, in, count, g, .create_graph = true))
        return NULL;
    /* weights keep it from being constant where the gradients themselves are */
    haul_tensor *sum = haul_sum(haul_mul(in[0], in[0]));
    for (int i = 0; i < count; i++)
        if (g[i] != HAUL_NONE)
            sum = haul_add(sum, haul_sum(haul_mul(g[i], haul_add_scalar(in[i], 3))));
    return sum;
}

static bool has_gradient(const haul__row *row)
{
    return row->gradient[0] && !is_of_bits(row) && row->form != HAUL__COMPARE && row->form != HAUL__UNARY_TO_BOOL;
}

/* Away from where a formula has a kink. */
static void smooth_values(double *out, int64_t n, const haul__row *row, unsigned seed)
{
    sample_values(out, n, HAUL_F64, row->low, row->high, seed);
    for (int64_t i = 0; i < n; i++)
        for (double kink = -2; kink <= 2; kink += 0.5)
            if (fabs(out[i] - kink) < 0.02)
                out[i] += 0.05;
}

static void gradient(const haul__row *row, haul_device *device, haul_function *f, const char *what, int count)
{
    if (!begin_case("%s/%s/f64/%s", row->name, what, haul_device_name(device)))
        return;
    haul_scope *scope = haul_scope_push();
    double      a[6], b[2];
    smooth_values(a, 6, row, 3);
    smooth_values(b, 2, row, 4);
    /* b is broadcast: its gradient is summed */
    haul_tensor *in[2] = {haul_to(haul_from_host(HAUL_F64, HAUL_SHAPE(3, 2), a), device),
                          haul_to(haul_from_host(HAUL_F64, HAUL_SHAPE(2), b), device)};
    haul_error_clear();
    if (haul_grad_check(f, in, count, (void *)row))
        fail_case("%s", haul_error_message());
    haul_scope_pop(scope);
}

/* The gradient is zero where it exists. */
static bool is_piecewise_constant(const haul__row *row)
{
    static const char *const names[] = {"haul_sign",  "haul_floor",     "haul_ceil",      "haul_round",
                                        "haul_trunc", "haul_floor_div", "haul_trunc_div", "haul_rfloor_div"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(row->name, names[i]) == 0)
            return true;
    return false;
}

static void gradients(haul_device *device)
{
    for (int i = 0; i < haul__row_count; i++) {
        const haul__row *row = &haul__rows[i];
        bool             binary = is_binary(row);
        if (!has_gradient(row) || is_piecewise_constant(row))
            continue;
        gradient(row, device, apply, "gradient", binary ? 2 : 1);
        gradient(row, device, first_gradient, "second", binary ? 2 : 1);
        if (row->call_scalar)
            gradient(row, device, apply_scalar, "scalar_gradient", 1);
    }
}

/* ---- errors ---- */

static void expect_error(haul_tensor *y, haul_status status, const char *mentions)
{
    if (haul_tensor_is_valid(y))
        fail_case("no error");
    else if (haul_error_status() != status || !strstr(haul_error_message(), mentions))
        fail_case("the error is %d \"%s\", not one of status %d that mentions \"%s\"", (int)haul_error_status(),
                  haul_error_message(), (int)status, mentions);
    haul_error_clear();
}

static void errors(haul_device *device)
{
    for (int i = 0; i < haul__row_count; i++) {
        const haul__row *row = &haul__rows[i];
        if (!begin_case("%s/errors/%s", row->name, haul_device_name(device)))
            continue;
        haul_scope *scope = haul_scope_push();
        haul_set_device(device);
        haul_dtype   dtype = is_of_bits(row) ? HAUL_I32 : HAUL_F32;
        haul_tensor *x = haul_ones(dtype, HAUL_SHAPE(2, 3)), *odd = haul_ones(dtype, HAUL_SHAPE(4));
        haul_error_clear();
        expect_error(call(row, FORM_PLAIN, NULL, x, 1, 2), HAUL_INVALID_ARGUMENT, row->name);
        expect_error(call(row, FORM_PLAIN, HAUL_NONE, x, 1, 2), HAUL_INVALID_ARGUMENT, row->name);
        if (is_binary(row)) {
            expect_error(call(row, FORM_PLAIN, x, odd, 1, 2), HAUL_SHAPE, row->name);
            expect_error(call(row, FORM_PLAIN, x, NULL, 1, 2), HAUL_INVALID_ARGUMENT, row->name);
        }
        if (row->call_into && call_into(row, odd, x, x, 1, 2) == HAUL_OK)
            fail_case("a target of another shape was accepted");
        haul_error_clear();
        haul_tensor *flags = haul_ones(HAUL_BOOL, HAUL_SHAPE(3));
        if (!accepts(row, HAUL_BOOL) && !has_numbers(row)) /* whole scalars make those i64 */
            expect_error(call(row, FORM_PLAIN, flags, flags, 1, 2), HAUL_DTYPE, "bool");
        if (is_binary(row) && device != haul_cpu()) {
            haul_set_device(haul_cpu());
            haul_tensor *elsewhere = haul_ones(dtype, HAUL_SHAPE(2, 3));
            expect_error(call(row, FORM_PLAIN, x, elsewhere, 1, 2), HAUL_PLACEMENT, "haul_to(");
        }
        haul_scope_pop(scope);
    }
}

int main(void)
{
    haul_scope  *program = haul_scope_push();
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    for (int d = 0; d < count; d++) {
        values(devices[d]);
        special_values(devices[d], HAUL_F16);
        special_values(devices[d], HAUL_BF16);
        special_values(devices[d], HAUL_F32);
        special_values(devices[d], HAUL_F64);
        gradients(devices[d]);
        errors(devices[d]);
        printf("%s done\n", haul_device_name(devices[d]));
        fflush(stdout);
    }
    haul_scope_pop(program);
    return finish_cases("pointwise rows");
}

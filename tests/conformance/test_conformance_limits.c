/* Integers at the limits of their dtypes in every row that takes integers, and numbers next to integers, on every
 * device: exact, or wrapped around. The reference computes in 128 bits. Numbers are compared as real numbers.
 *
 * ctest: cuda; sim-only */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/pointwise/pointwise.h"
#include "support/conformance/conformance.h"

__extension__ typedef __int128 wide;

typedef struct range {
    haul_dtype dtype;
    int64_t    least, most;
} range;

static const range ranges[] = {{HAUL_U8, 0, UINT8_MAX},
                               {HAUL_I8, INT8_MIN, INT8_MAX},
                               {HAUL_I16, INT16_MIN, INT16_MAX},
                               {HAUL_I32, INT32_MIN, INT32_MAX},
                               {HAUL_I64, INT64_MIN, INT64_MAX}};
enum { RANGES = sizeof ranges / sizeof ranges[0] };

/* ---- the reference ---- */

static wide floor_div(wide a, wide b)
{
    wide q;
    if (b == 0)
        return 0;
    q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static wide power(wide a, wide b)
{
    uint64_t y = 1;
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    for (int bit = 63; bit >= 0; bit--) {
        y *= y;
        if (b >> bit & 1)
            y *= (uint64_t)a;
    }
    return (wide)y;
}

typedef wide unary(wide a);
typedef wide binary(wide a, wide b);

#define UNARY(name, value)                                                                                             \
    static wide name##_of(wide a)                                                                                      \
    {                                                                                                                  \
        return value;                                                                                                  \
    }
#define BINARY(name, value)                                                                                            \
    static wide name##_of(wide a, wide b)                                                                              \
    {                                                                                                                  \
        return value;                                                                                                  \
    }
// clang-format off
#define UNARIES(X)                                                                                                     \
    X(neg, -a) X(abs, a < 0 ? -a : a) X(sign, (a > 0) - (a < 0)) X(square, a * a) X(relu, a < 0 ? 0 : a)               \
    X(logical_not, a == 0) X(floor, a) X(ceil, a) X(round, a)
#define BINARIES(X)                                                                                                    \
    X(add, a + b) X(sub, a - b) X(mul, a * b) X(maximum, a > b ? a : b) X(minimum, a < b ? a : b)                      \
    X(floor_div, floor_div(a, b)) X(remainder, b == 0 ? 0 : a - b * floor_div(a, b)) X(pow, power(a, b))               \
    X(eq, a == b) X(ne, a != b) X(lt, a < b) X(le, a <= b) X(gt, a > b) X(ge, a >= b)                                  \
    X(logical_and, a && b) X(logical_or, a || b) X(logical_xor, !a != !b)
// clang-format on
UNARIES(UNARY)
BINARIES(BINARY)

static const struct {
    const char *name;
    unary      *unary;
    binary     *binary;
} references[] = {
#define UNARY_ROW(name, value)  {"haul_" #name, name##_of, NULL},
#define BINARY_ROW(name, value) {"haul_" #name, NULL, name##_of},
    UNARIES(UNARY_ROW) BINARIES(BINARY_ROW)};
enum { REFERENCES = sizeof references / sizeof references[0] };

/* What the dtype keeps of a value. */
static int64_t wrapped(wide v, haul_dtype dtype)
{
    uint64_t bits = (uint64_t)v;
    switch (dtype) {
    case HAUL_BOOL: return v != 0;
    case HAUL_U8: return (uint8_t)bits;
    case HAUL_I8: return (int8_t)bits;
    case HAUL_I16: return (int16_t)bits;
    case HAUL_I32: return (int32_t)bits;
    default: return (int64_t)bits;
    }
}

/* ---- rows at the limits ---- */

enum { VALUES = 12 };

static void values_of(const range *r, int64_t *out)
{
    const int64_t values[VALUES] = {r->least, r->least + 1, r->most, r->most - 1, 0, 1, 2, 3, 7, 62, -1, -7};
    for (int i = 0; i < VALUES; i++)
        out[i] = values[i] < r->least ? 100 - values[i] : values[i];
}

static haul_tensor *on(haul_device *device, haul_dtype dtype, int count, const int64_t *values)
{
    return haul_to(haul_cast(haul_from_host(HAUL_I64, HAUL_SHAPE(count), values), dtype), device);
}

static bool read_integers(haul_tensor *t, int64_t *out, int count)
{
    if (haul_read(haul_cast(t, HAUL_I64), out, (size_t)count * sizeof *out) == HAUL_OK)
        return true;
    fail_case("%s", haul_error_message());
    return false;
}

static void row_at_limits(haul_device *device, const haul__row *row, const range *r, unary *f, binary *g)
{
    int64_t     values[VALUES], a[VALUES * VALUES], b[VALUES * VALUES], got[VALUES * VALUES];
    const int   count = VALUES * VALUES;
    haul_scope *scope = haul_scope_push();
    values_of(r, values);
    for (int i = 0; i < count; i++) {
        a[i] = values[i / VALUES];
        b[i] = values[i % VALUES];
    }
    haul_tensor *x = on(device, r->dtype, count, a), *y = on(device, r->dtype, count, b), *z;
    if (f)
        z = ((haul_tensor * (*)(haul_tensor *)) row->call)(x);
    else
        z = ((haul_tensor * (*)(haul_tensor *, haul_tensor *)) row->call)(x, y);
    if (read_integers(z, got, count))
        for (int i = 0; i < count; i++) {
            int64_t want = wrapped(f ? f(a[i]) : g(a[i], b[i]), haul_tensor_dtype(z));
            if (got[i] != want)
                fail_case("of %lld and %lld it is %lld, not %lld", (long long)a[i], (long long)b[i], (long long)got[i],
                          (long long)want);
        }
    haul_scope_pop(scope);
}

static void rows_at_limits(haul_device *device)
{
    for (int k = 0; k < REFERENCES; k++) {
        const haul__row *row = haul__rows;
        while (strcmp(row->name, references[k].name) != 0)
            row++;
        for (int t = 0; t < RANGES; t++)
            if (begin_case("%s/limits/%s/%s", row->name, haul_dtype_name(ranges[t].dtype), haul_device_name(device)))
                row_at_limits(device, row, &ranges[t], references[k].unary, references[k].binary);
    }
}

/* ---- numbers next to integers ---- */

static const double numbers[] = {0,     -0.0,     0.5,           -0.5,   1,      -1,    2.5,        127,
                                 128,   -129,     255,           256,    300,    32768, 2147483647, 2147483648.0,
                                 3e9,   -3e9,     -2147483648.0, 0x1p53, 0x1p63, 1e19,  -0x1p63,    -1e19,
                                 1e300, INFINITY, -INFINITY,     NAN};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

/* -1, 0 or 1 as x is below s, s or above it; 2 for NaN. */
static int order(int64_t x, double s)
{
    if (s != s)
        return 2;
    if (s >= 0x1p63 || s < -0x1p63)
        return s > 0 ? -1 : 1;
    int64_t whole = (int64_t)s; /* towards zero */
    if (x != whole)
        return x < whole ? -1 : 1;
    return s > (double)whole ? -1 : s < (double)whole ? 1 : 0;
}

static bool holds(const range *r, double s)
{
    return floor(s) == s && order(r->least, s) <= 0 && order(r->most, s) >= 0;
}

typedef haul_tensor *scalar_fn(haul_tensor *a, double s);

static void compare_with(haul_device *device, const range *r, double s)
{
    static scalar_fn *const fns[] = {haul_lt_scalar,          haul_le_scalar,         haul_gt_scalar,
                                     haul_ge_scalar,          haul_eq_scalar,         haul_ne_scalar,
                                     haul_logical_and_scalar, haul_logical_or_scalar, haul_logical_xor_scalar};
    int64_t                 values[VALUES], got[VALUES];
    haul_scope             *scope = haul_scope_push();
    values_of(r, values);
    haul_tensor *x = on(device, r->dtype, VALUES, values);
    for (int f = 0; f < 9; f++) {
        if (!read_integers(fns[f](x, s), got, VALUES))
            continue;
        for (int i = 0; i < VALUES; i++) {
            int        o = order(values[i], s);
            bool       is = values[i] != 0, flag = s != 0;
            const bool want[] = {o == -1, o == -1 || o == 0, o == 1,     o == 1 || o == 0, o == 0,
                                 o != 0,  is && flag,        is || flag, is != flag};
            if (got[i] != want[f])
                fail_case("comparison %d of %lld and %.17g is %lld", f, (long long)values[i], s, (long long)got[i]);
        }
    }
    haul_scope_pop(scope);
}

/* A bound that cannot be a result, or a value that is none of the dtype, is an error; a fraction or NaN gives f32. */
static bool is_expected(haul_tensor *t, haul_dtype dtype, bool refused, double s, const char *what)
{
    bool failed = haul_error_status() != HAUL_OK, right = failed == refused;
    if (failed)
        right = right && haul_error_status() == HAUL_INVALID_ARGUMENT &&
                strstr(haul_error_message(), "is not a value of") && strstr(haul_error_message(), "haul_cast");
    else
        right = right && haul_tensor_dtype(t) == dtype;
    if (!right)
        fail_case("%s with %.17g: %s", what, s, failed ? haul_error_message() : haul_dtype_name(haul_tensor_dtype(t)));
    haul_error_clear();
    return right && !refused;
}

static void bound_with(haul_device *device, const range *r, double s)
{
    int64_t     values[VALUES], got[VALUES];
    haul_scope *scope = haul_scope_push();
    bool        keeps = floor(s) == s; /* infinities too */
    haul_dtype  dtype = keeps ? r->dtype : HAUL_F32;
    bool        high = keeps && order(r->most, s) < 0, low = keeps && order(r->least, s) > 0;
    values_of(r, values);
    haul_tensor *x = on(device, r->dtype, VALUES, values);
    haul_tensor *most = haul_maximum_scalar(x, s);
    if (is_expected(most, dtype, high, s, "maximum") && keeps && read_integers(most, got, VALUES))
        for (int i = 0; i < VALUES; i++)
            if (got[i] != (order(values[i], s) < 0 ? (int64_t)s : values[i]))
                fail_case("maximum of %lld and %.17g is %lld", (long long)values[i], s, (long long)got[i]);
    haul_tensor *least = haul_minimum_scalar(x, s);
    if (is_expected(least, dtype, low, s, "minimum") && keeps && read_integers(least, got, VALUES))
        for (int i = 0; i < VALUES; i++)
            if (got[i] != (order(values[i], s) > 0 ? (int64_t)s : values[i]))
                fail_case("minimum of %lld and %.17g is %lld", (long long)values[i], s, (long long)got[i]);
    haul_tensor *between = haul_clamp(x, -INFINITY, s);
    if (is_expected(between, dtype, low, s, "clamp") && keeps && read_integers(between, got, VALUES))
        for (int i = 0; i < VALUES; i++)
            if (got[i] != (order(values[i], s) > 0 ? (int64_t)s : values[i]))
                fail_case("clamp of %lld to %.17g is %lld", (long long)values[i], s, (long long)got[i]);
    haul_tensor *above = haul_threshold(x, s, 1);
    if (is_expected(above, r->dtype, false, s, "threshold") && read_integers(above, got, VALUES))
        for (int i = 0; i < VALUES; i++)
            if (got[i] != (order(values[i], s) == 1 ? values[i] : 1))
                fail_case("threshold of %lld at %.17g is %lld", (long long)values[i], s, (long long)got[i]);
    haul_scope_pop(scope);
}

static void compute_with(haul_device *device, const range *r, double s)
{
    static const struct {
        const char *name;
        scalar_fn  *fn;
        binary     *reference;
    } fns[] = {{"add", haul_add_scalar, add_of},
               {"sub", haul_sub_scalar, sub_of},
               {"mul", haul_mul_scalar, mul_of},
               {"floor_div", haul_floor_div_scalar, floor_div_of},
               {"remainder", haul_remainder_scalar, remainder_of},
               {"pow", haul_pow_scalar, pow_of}};
    int64_t     values[VALUES], got[VALUES];
    haul_scope *scope = haul_scope_push();
    bool        whole = floor(s) == s && isfinite(s);
    values_of(r, values);
    haul_tensor *x = on(device, r->dtype, VALUES, values);
    for (int f = 0; f < 6; f++) {
        bool power = fns[f].fn == haul_pow_scalar;
        if (power && s < 0)
            continue; /* another error */
        haul_tensor *y = fns[f].fn(x, s);
        if (is_expected(y, whole ? r->dtype : HAUL_F32, whole && !holds(r, s), s, fns[f].name) && whole &&
            read_integers(y, got, VALUES))
            for (int i = 0; i < VALUES; i++)
                if (got[i] != wrapped(fns[f].reference(values[i], (wide)s), r->dtype))
                    fail_case("%s of %lld and %.17g is %lld", fns[f].name, (long long)values[i], s, (long long)got[i]);
    }
    haul_tensor *filled = on(device, r->dtype, VALUES, values);
    haul_status  status = haul_fill_into(filled, s);
    if (status != (holds(r, s) ? HAUL_OK : HAUL_INVALID_ARGUMENT))
        fail_case("filling with %.17g: %s", s, haul_error_message());
    haul_error_clear();
    if (!status && read_integers(filled, got, VALUES) && got[VALUES - 1] != (int64_t)s)
        fail_case("filled with %.17g it holds %lld", s, (long long)got[VALUES - 1]);
    haul_scope_pop(scope);
}

static void next_to_numbers(haul_device *device)
{
    for (int t = 0; t < RANGES; t++)
        for (int i = 0; i < NUMBERS; i++) {
            if (!begin_case("numbers/%g/%s/%s", numbers[i], haul_dtype_name(ranges[t].dtype), haul_device_name(device)))
                continue;
            haul_error_clear();
            compare_with(device, &ranges[t], numbers[i]);
            bound_with(device, &ranges[t], numbers[i]);
            compute_with(device, &ranges[t], numbers[i]);
        }
}

int main(void)
{
    haul_scope  *program = haul_scope_push();
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    for (int d = 0; d < count; d++) {
        rows_at_limits(devices[d]);
        next_to_numbers(devices[d]);
    }
    haul_scope_pop(program);
    return finish_cases("integers at their limits");
}

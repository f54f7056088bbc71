#include "support/conformance/conformance.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const layout_names[] = {
#define X(name) #name,
    LAYOUTS(X)
#undef X
};

const haul_dtype test_dtypes[] = {HAUL_BOOL, HAUL_U8,  HAUL_I8,   HAUL_I16, HAUL_I32,
                                  HAUL_I64,  HAUL_F16, HAUL_BF16, HAUL_F32, HAUL_F64};
const int        test_dtype_count = sizeof test_dtypes / sizeof test_dtypes[0];

/* ---- counting ---- */

static struct {
    long        cases, failed;
    bool        failing; /* the current case has failed already */
    char        name[256];
    const char *filter;
} run;

/* True if the name contains a text of the comma-separated list. */
static bool is_wanted(const char *name, const char *list)
{
    char text[128];
    for (; *list; list += strspn(list, ",")) {
        size_t length = strcspn(list, ",");
        snprintf(text, sizeof text, "%.*s", (int)length, list);
        if (strstr(name, text))
            return true;
        list += length;
    }
    return false;
}

bool begin_case(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run.name, sizeof run.name, format, arguments);
    va_end(arguments);
    run.filter = getenv("HAUL_CASE");
    if (run.filter && !is_wanted(run.name, run.filter))
        return false;
    run.cases++;
    run.failing = false;
    return true;
}

void fail_case(const char *format, ...)
{
    if (run.failing)
        return;
    run.failing = true;
    if (++run.failed > 40)
        return;
    va_list arguments;
    va_start(arguments, format);
    printf("FAILED %s: ", run.name);
    vprintf(format, arguments);
    printf("\n    again: HAUL_CASE=%s\n", run.name);
    va_end(arguments);
}

int finish_cases(const char *what)
{
    printf("%s: %ld cases, %ld failed\n", what, run.cases, run.failed);
    return run.failed || !run.cases;
}

/* ---- devices and values ---- */

int test_devices(haul_device **out, int capacity)
{
    haul_device_report found[32];
    int                n = haul_device_list(found, 32), count = 0;
    const char        *wanted = getenv("HAUL_TEST_DEVICES"); /* a list like "cpu opencl:0", or "sim:h200" */
    for (int i = 0; i < n && count < capacity; i++) {
        if (!found[i].usable || strncmp(found[i].name, "meta", 4) == 0)
            continue;
        if (wanted && !strstr(wanted, found[i].name))
            continue;
        out[count++] = haul_device_get(found[i].name);
    }
    for (const char *sim = wanted ? strstr(wanted, "sim:") : NULL; sim && count < capacity;
         sim = strstr(sim + 1, "sim:")) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(sim, ", "), sim);
        out[count++] = haul_device_get(name);
    }
    return count;
}

haul_device *test_second_device(void)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    for (int i = 0; i < count; i++)
        if (devices[i] != haul_cpu())
            return devices[i];
    return NULL;
}

static unsigned next(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* f16 and bf16: significands of 11 and 8 bits, exponents from -14 and -126 on. */
static double rounded_half(double v, int digits, int least)
{
    int exponent;
    frexp(v, &exponent);
    double unit = ldexp(1, (exponent - 1 < least ? least : exponent - 1) - digits + 1);
    double y = rint(v / unit) * unit;
    return fabs(y) >= ldexp(1, 2 - least) ? copysign(INFINITY, v) : y;
}

double rounded(double v, haul_dtype dtype)
{
    if (dtype == HAUL_F64 || !isfinite(v))
        return v;
    if (dtype == HAUL_F32)
        return (float)v;
    if (dtype == HAUL_F16 || dtype == HAUL_BF16)
        return dtype == HAUL_F16 ? rounded_half(v, 11, -14) : rounded_half(v, 8, -126);
    return rint(v);
}

void sample_values(double *out, int64_t count, haul_dtype dtype, double low, double high, unsigned seed)
{
    unsigned state = seed * 2654435761u + 12345u;
    for (int64_t i = 0; i < count; i++) {
        double v = low + (high - low) * next(&state) / 16777216.0;
        if (dtype == HAUL_BOOL)
            v = v > (low + high) / 2;
        else
            v = rounded(v, dtype);
        if (dtype == HAUL_U8 && v < 0)
            v = -v;
        out[i] = v;
    }
}

/* ---- layouts ---- */

static int64_t count_of(const haul_shape *shape)
{
    int64_t n = 1;
    for (int d = 0; d < shape->ndim; d++)
        n *= shape->dims[d];
    return n;
}

static haul_tensor *dense(haul_device *device, haul_dtype dtype, haul_shape shape, const double *values)
{
    haul_device *before = haul_current_device();
    haul_set_device(haul_cpu());
    haul_tensor *t = haul_cast(haul_from_host(HAUL_F64, shape, values), dtype);
    haul_set_device(before);
    return haul_to(t, device);
}

/* Values of a tensor whose axes are reordered: result[perm(index)] = values[index]. */
static void reorder(const haul_shape *shape, const int *axes, const double *values, double *out, haul_shape *stored)
{
    int64_t index[HAUL_MAX_DIMS] = {0}, n = count_of(shape);
    stored->ndim = shape->ndim;
    for (int d = 0; d < shape->ndim; d++)
        stored->dims[d] = shape->dims[axes[d]];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        for (int d = 0; d < shape->ndim; d++)
            at = at * stored->dims[d] + index[axes[d]];
        out[at] = values[i];
        for (int d = shape->ndim - 1; d >= 0 && ++index[d] == shape->dims[d]; d--)
            index[d] = 0;
    }
}

static haul_tensor *permuted(haul_device *device, haul_dtype dtype, haul_shape shape, const int *axes,
                             const double *values)
{
    double      *stored_values = malloc((size_t)count_of(&shape) * sizeof(double) + 1);
    haul_shape   stored;
    int          back[HAUL_MAX_DIMS];
    haul_tensor *t = NULL;
    if (!stored_values)
        return NULL;
    reorder(&shape, axes, values, stored_values, &stored);
    for (int d = 0; d < shape.ndim; d++)
        back[axes[d]] = d;
    t = haul_permute(dense(device, dtype, stored, stored_values), back, shape.ndim);
    free(stored_values);
    return t;
}

/* Every `step`-th element of a longer last axis, from 1 on. */
static haul_tensor *cut(haul_device *device, haul_dtype dtype, haul_shape shape, int64_t step, const double *values)
{
    int        last = shape.ndim - 1;
    int64_t    width = shape.dims[last], long_width = width * step + 2, n = count_of(&shape);
    haul_shape wide = shape;
    wide.dims[last] = long_width;
    double *all = calloc((size_t)count_of(&wide) + 1, sizeof *all);
    if (!all)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        all[i / width * long_width + 1 + i % width * step] = values[i];
    haul_tensor *t = haul_slice(dense(device, dtype, wide, all), last, 1, 1 + width * step, step);
    free(all);
    return t;
}

static haul_tensor *expanded(haul_device *device, haul_dtype dtype, haul_shape shape, double *values)
{
    haul_shape one = shape;
    one.dims[0] = 1;
    int64_t inner = count_of(&one);
    for (int64_t i = inner; i < count_of(&shape); i++)
        values[i] = values[i % inner];
    return haul_expand(dense(device, dtype, one, values), shape);
}

haul_tensor *make_operand(haul_device *device, haul_dtype dtype, haul_shape shape, layout how, double *values)
{
    if (shape.ndim == 0 || count_of(&shape) == 0)
        return dense(device, dtype, shape, values);
    int axes[HAUL_MAX_DIMS];
    for (int d = 0; d < shape.ndim; d++)
        axes[d] = shape.ndim - 1 - d;
    switch (how) {
    case LAYOUT_transposed: return permuted(device, dtype, shape, axes, values);
    case LAYOUT_sliced: return cut(device, dtype, shape, 1, values);
    case LAYOUT_stepped: return cut(device, dtype, shape, 2, values);
    case LAYOUT_broadcast: return expanded(device, dtype, shape, values);
    case LAYOUT_channels_last:
        if (shape.ndim == 4)
            return permuted(device, dtype, shape, (const int[]){0, 2, 3, 1}, values);
        return dense(device, dtype, shape, values);
    default: return dense(device, dtype, shape, values);
    }
}

haul_status read_values(haul_tensor *t, double *out, int64_t count)
{
    haul_tensor *host = haul_cast(haul_to(haul_detach(t), haul_cpu()), HAUL_F64);
    return haul_read(host, out, (size_t)count * sizeof *out);
}

bool close_enough(double got, double want, haul_dtype dtype, double ulps, double floor)
{
    double exact = want;
    if (haul_dtype_is_float(dtype))
        want = rounded(want, dtype);
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got))
        return want == got;
    if (!haul_dtype_is_float(dtype))
        return want == got;
    if (dtype == HAUL_F16 || dtype == HAUL_BF16) {
        double off = ulps * 0x1p-23 * fmax(fabs(exact), floor);
        return got >= rounded(exact - off, dtype) && got <= rounded(exact + off, dtype);
    }
    double unit = dtype == HAUL_F32 ? 0x1p-23 : 0x1p-52;
    return fabs(got - want) <= ulps * unit * fmax(fabs(want), floor);
}

/* Structured operations: the samples of samples.def on every device x dtype x layout.
 *
 * On the CPU, contiguous, results and gradients are compared with PyTorch's (golden/samples.json, made by
 * tools/golden/samples.py); everything else with the CPU in f64 on the same values. On meta the shape must be the same.
 *
 * ctest: cuda-only; sim-only; labels=slow; sim-labels=slow,once */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/conformance/conformance.h"
#include "support/conformance/samples.h"

/* ---- one run of a sample ---- */

typedef struct outcome {
    haul_shape shape;
    haul_dtype dtype;
    int64_t    count;
    double     y[MAX_ELEMENTS];
    int64_t    grad_count[MAX_INPUTS]; /* 0: no gradient */
    double     grads[MAX_INPUTS][MAX_ELEMENTS];
} outcome;

/* `as` is the dtype whose values are used, `in` the one computed in: f32's values in f64 for the reference. */
static bool run(const sample *s, haul_device *device, haul_dtype as, haul_dtype in, layout how, outcome *out)
{
    static double values[MAX_ELEMENTS];
    haul_scope   *scope = haul_scope_push();
    haul_tensor  *inputs[MAX_INPUTS] = {NULL}, *leaves[MAX_INPUTS];
    bool          differentiate = s->differentiable && haul_dtype_is_float(in) && s->dtypes;
    haul_error_clear();
    for (int i = 0; i < s->count; i++) {
        input_values(&s->inputs[i], i, as, values);
        inputs[i] = leaves[i] =
            make_operand(device, input_dtype(&s->inputs[i], in), input_shape(&s->inputs[i]), how, values);
        if (differentiate && s->inputs[i].kind == 'V')
            inputs[i] = haul_set_requires_grad(haul_detach(leaves[i]), true), leaves[i] = inputs[i];
    }
    haul_set_device(device);
    haul_tensor *y = s->run(inputs);
    out->count = haul_tensor_is_valid(y) ? haul_tensor_count(y) : 0;
    out->shape = haul_tensor_is_valid(y) ? haul_tensor_shape(y) : (haul_shape){.ndim = -1};
    out->dtype = haul_tensor_is_valid(y) ? haul_tensor_dtype(y) : HAUL_DTYPE_NONE;
    bool ok = haul_tensor_is_valid(y) && read_values(y, out->y, out->count) == HAUL_OK;
    if (ok && differentiate) {
        haul_set_device(haul_cpu());
        haul_tensor *w =
            haul_add_scalar(haul_sin(haul_mul_scalar(haul_arange(HAUL_F64, 0, (double)out->count, 1), 1.7)), 0.3);
        w = haul_to(haul_cast(haul_cast(haul_reshape(w, out->shape), as), in), device); /* the same values in both */
        ok = haul_backward(y, .seed = w) == HAUL_OK;
    }
    for (int i = 0; i < s->count && ok; i++) {
        out->grad_count[i] = 0;
        haul_tensor *g = differentiate && s->inputs[i].kind == 'V' ? haul_tensor_grad(leaves[i]) : HAUL_NONE;
        if (g != HAUL_NONE) {
            out->grad_count[i] = haul_tensor_count(g);
            ok = read_values(g, out->grads[i], out->grad_count[i]) == HAUL_OK;
        }
    }
    if (!ok)
        fail_case("%s", haul_error_message());
    haul_scope_pop(scope);
    return ok;
}

/* ---- comparing ---- */

static double largest(const double *values, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(values[i]));
    return most;
}

/* Each element relative to the largest: sums cancel. */
static void compare(const char *what, const double *got, const double *want, int64_t count, haul_dtype dtype,
                    double ulps)
{
    double floor = fmax(largest(want, count), 0.5);
    for (int64_t i = 0; i < count; i++)
        if (!close_enough(got[i], want[i], dtype, ulps, floor))
            fail_case("%s[%lld] is %.17g, not %.17g", what, (long long)i, got[i], want[i]);
}

static bool is_half(haul_dtype dtype)
{
    return dtype == HAUL_F16 || dtype == HAUL_BF16;
}

/* Operations that are composed of others, or whose gradients are, round between them: two ulps of the dtype, counted in
 * those of f32, relative to the largest element. */
#define HALF_ULPS(dtype) (2 * ((dtype) == HAUL_F16 ? 0x1p13 : 0x1p16))

static void compare_outcomes(const sample *s, const outcome *got, const outcome *want, haul_dtype dtype)
{
    if (got->count != want->count || got->shape.ndim != want->shape.ndim) {
        fail_case("the shape differs");
        return;
    }
    haul_dtype result = haul_dtype_is_float(dtype) ? dtype : got->dtype;
    double     ulps = is_half(result) ? HALF_ULPS(result) : 64;
    compare("y", got->y, want->y, got->count, result, ulps);
    for (int i = 0; i < s->count; i++) {
        char name[24];
        snprintf(name, sizeof name, "gradient %d", i);
        if (got->grad_count[i] != want->grad_count[i])
            fail_case("%s has %lld elements, not %lld", name, (long long)got->grad_count[i],
                      (long long)want->grad_count[i]);
        else
            compare(name, got->grads[i], want->grads[i], got->grad_count[i], dtype, ulps);
    }
}

static int64_t numbers(const cJSON *list, double *out)
{
    int64_t      n = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list) if (n < MAX_ELEMENTS) out[n++] = cJSON_IsTrue(item) ? 1 : item->valuedouble;
    return n;
}

static void against_golden(const sample *s, const cJSON *golden, haul_dtype dtype)
{
    static outcome got, want;
    char           key[80];
    snprintf(key, sizeof key, "%s/%s", s->name, haul_dtype_name(dtype));
    if (!begin_case("%s/golden/%s/cpu", s->name, haul_dtype_name(dtype)))
        return;
    const cJSON *entry = cJSON_GetObjectItem(golden, key);
    if (!entry) {
        fail_case("tests/golden/samples.json has no \"%s\"; run tools/golden/samples.py", key);
        return;
    }
    if (!run(s, haul_cpu(), dtype, dtype, LAYOUT_contiguous, &got))
        return;
    memset(&want, 0, sizeof want);
    want.count = numbers(cJSON_GetObjectItem(entry, "y"), want.y);
    const cJSON *shape = cJSON_GetObjectItem(entry, "shape"), *grads = cJSON_GetObjectItem(entry, "grads"), *item;
    cJSON_ArrayForEach(item, shape) want.shape.dims[want.shape.ndim++] = item->valueint;
    for (int d = 0; d < want.shape.ndim; d++)
        if (got.shape.ndim != want.shape.ndim || got.shape.dims[d] != want.shape.dims[d])
            fail_case("dimension %d of the result differs from PyTorch's", d);
    int i = 0;
    cJSON_ArrayForEach(item, grads)
    {
        want.grad_count[i] = numbers(item, want.grads[i]);
        i++;
    }
    compare_outcomes(s, &got, &want, dtype);
}

static void against_cpu(const sample *s, haul_device *device)
{
    static outcome got, want;
    for (int t = 0; t < test_dtype_count; t++)
        for (int how = 0; how < LAYOUT_COUNT; how++) {
            haul_dtype dtype = test_dtypes[t], wide = haul_dtype_is_float(dtype) ? HAUL_F64 : dtype;
            if (!sample_takes(s, dtype) || !begin_case("%s/%s/%s/%s", s->name, haul_dtype_name(dtype),
                                                       layout_names[how], haul_device_name(device)))
                continue;
            if (run(s, haul_cpu(), dtype, wide, (layout)how, &want) && run(s, device, dtype, dtype, (layout)how, &got))
                compare_outcomes(s, &got, &want, dtype);
        }
}

/* ---- meta: the same shapes, without data ---- */

static void on_meta(const sample *s)
{
    static outcome want;
    if (!begin_case("%s/shape/f32/meta", s->name) || !run(s, haul_cpu(), HAUL_F32, HAUL_F32, LAYOUT_contiguous, &want))
        return;
    haul_scope *scope = haul_scope_push();
    haul_set_device(haul_device_get("meta"));
    haul_tensor *inputs[MAX_INPUTS];
    for (int i = 0; i < s->count; i++)
        inputs[i] = haul_empty(input_dtype(&s->inputs[i], HAUL_F32), input_shape(&s->inputs[i]));
    haul_tensor *y = s->run(inputs);
    haul_shape   shape = haul_tensor_is_valid(y) ? haul_tensor_shape(y) : (haul_shape){.ndim = -1};
    if (!haul_tensor_is_valid(y))
        fail_case("%s", haul_error_message());
    else if (shape.ndim != want.shape.ndim || haul_tensor_dtype(y) != want.dtype)
        fail_case("another rank or dtype than on the CPU");
    for (int d = 0; haul_tensor_is_valid(y) && d < want.shape.ndim; d++)
        if (shape.dims[d] != want.shape.dims[d])
            fail_case("dimension %d is %lld, on the CPU %lld", d, (long long)shape.dims[d],
                      (long long)want.shape.dims[d]);
    haul_scope_pop(scope);
}

/* ---- second gradients, on the CPU in f64 ---- */

static haul_tensor *first_gradients(haul_tensor *const *leaves, int count, void *context)
{
    const sample *s = context;
    haul_tensor  *in[MAX_INPUTS], *g[MAX_INPUTS], *sum = NULL;
    static double values[MAX_ELEMENTS];
    int           next = 0;
    for (int i = 0; i < s->count; i++) {
        if (s->inputs[i].kind == 'V') {
            in[i] = leaves[next++];
            continue;
        }
        input_values(&s->inputs[i], i, HAUL_F64, values);
        in[i] = make_operand(haul_cpu(), input_dtype(&s->inputs[i], HAUL_F64), input_shape(&s->inputs[i]),
                             LAYOUT_contiguous, values);
    }
    /* squared, so that the first gradients are not constant */
    haul_tensor *y = haul_sum(haul_square(s->run(in)));
    if (haul_grad(y, leaves, count, g, .create_graph = true))
        return NULL;
    for (int i = 0; i < count; i++)
        if (g[i] != HAUL_NONE) {
            haul_tensor *term = haul_sum(haul_mul(g[i], haul_add_scalar(leaves[i], 2)));
            sum = sum ? haul_add(sum, term) : term;
        }
    return sum;
}

static void second_gradients(const sample *s)
{
    static double values[MAX_ELEMENTS];
    int64_t       elements = 0;
    haul_tensor  *leaves[MAX_INPUTS];
    int           count = 0;
    if (s->differentiable != 1)
        return;
    haul_scope *scope = haul_scope_push();
    for (int i = 0; i < s->count; i++)
        if (s->inputs[i].kind == 'V') {
            elements += input_values(&s->inputs[i], i, HAUL_F64, values);
            leaves[count++] = make_operand(haul_cpu(), HAUL_F64, input_shape(&s->inputs[i]), LAYOUT_contiguous, values);
        }
    /* differences cost two runs for each element */
    if (elements <= 700 && begin_case("%s/second/f64/cpu", s->name)) {
        haul_error_clear();
        if (haul_grad_check(first_gradients, leaves, count, (void *)s, .tolerance = {1e-4, 1e-3}))
            fail_case("%s", haul_error_message());
    }
    haul_scope_pop(scope);
}

static cJSON *read_golden(void)
{
    FILE *f = fopen(HAUL_SOURCE "/tests/golden/samples.json", "rb");
    if (!f)
        return NULL;
    static char text[4 << 20];
    size_t      size = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[size] = 0;
    return cJSON_Parse(text);
}

int main(void)
{
    haul_scope  *program = haul_scope_push();
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    cJSON       *golden = read_golden();
    if (!golden) {
        printf("tests/golden/samples.json cannot be read\n");
        return 1;
    }
    for (int i = 0; i < sample_count; i++) {
        against_golden(&samples[i], golden, HAUL_F64);
        for (int t = 0; t < 3; t++) {
            static const haul_dtype whole[] = {HAUL_I64, HAUL_U8, HAUL_BOOL};
            if (sample_takes(&samples[i], whole[t]))
                against_golden(&samples[i], golden, whole[t]);
        }
        for (int d = 0; d < count; d++)
            against_cpu(&samples[i], devices[d]);
        on_meta(&samples[i]);
        second_gradients(&samples[i]);
    }
    cJSON_Delete(golden);
    haul_scope_pop(program);
    return finish_cases("structured operations");
}

/* Shape rules without computing: every row and every sample on the null backend (support/devices/null.h), in each dtype
 * and layout. Results and gradients have the shape, dtype and strides that they have on the CPU, samples the shape of
 * golden/samples.json, and operations other than views reach the device as commands. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "ops/pointwise/pointwise.h"
#include "support/conformance/conformance.h"
#include "support/conformance/samples.h"
#include "support/devices/null.h"

/* What a tensor looks like. */
typedef struct look {
    bool       there;
    haul_shape shape;
    haul_dtype dtype;
    int64_t    strides[HAUL_MAX_DIMS];
} look;

static look look_at(const haul_tensor *t)
{
    look l = {.there = haul_tensor_is_valid(t)};
    if (l.there) {
        l.shape = t->shape;
        l.dtype = t->dtype;
        memcpy(l.strides, t->strides, sizeof l.strides);
    }
    return l;
}

static void compare(const char *what, const look *got, const look *want)
{
    if (got->there != want->there)
        fail_case("%s is %s", what, got->there ? "there, and should not be" : "missing");
    if (!got->there || !want->there)
        return;
    if (got->dtype != want->dtype || got->shape.ndim != want->shape.ndim)
        fail_case("%s has another dtype or rank than on the CPU", what);
    for (int d = 0; d < want->shape.ndim; d++) {
        if (got->shape.dims[d] != want->shape.dims[d])
            fail_case("dimension %d of %s is %lld, on the CPU %lld", d, what, (long long)got->shape.dims[d],
                      (long long)want->shape.dims[d]);
        if (got->strides[d] != want->strides[d] && want->shape.dims[d] > 1)
            fail_case("stride %d of %s is %lld, on the CPU %lld", d, what, (long long)got->strides[d],
                      (long long)want->strides[d]);
    }
}

/* ---- samples ---- */

typedef struct outcome {
    look y, grads[MAX_INPUTS];
    int  commands; /* of the forward pass, which the null device got */
    bool view;     /* y shares the memory of an input */
} outcome;

static bool run(const sample *s, haul_device *device, haul_dtype dtype, layout how, outcome *out)
{
    static double values[MAX_ELEMENTS];
    haul_tensor  *inputs[MAX_INPUTS];
    bool          differentiate = s->differentiable && haul_dtype_is_float(dtype) && s->dtypes;
    haul_scope   *scope = haul_scope_push();
    memset(out, 0, sizeof *out);
    haul_error_clear();
    for (int i = 0; i < s->count; i++) {
        const input_spec *spec = &s->inputs[i];
        input_values(spec, i, dtype, values);
        inputs[i] = make_operand(device, input_dtype(spec, dtype), input_shape(spec), how, values);
        if (differentiate && spec->kind == 'V')
            inputs[i] = haul_set_requires_grad(haul_detach(inputs[i]), true);
    }
    haul_set_device(device);
    null_forget();
    haul_tensor *y = s->run(inputs);
    out->commands = null_count();
    out->y = look_at(y);
    bool ok = haul_tensor_is_valid(y) && (!differentiate || haul_backward(y, .seed = haul_ones_like(y)) == HAUL_OK);
    haul_set_device(haul_cpu());
    for (int i = 0; i < s->count && ok; i++) {
        out->view = out->view || y->storage == inputs[i]->storage;
        if (differentiate && s->inputs[i].kind == 'V')
            out->grads[i] = look_at(haul_tensor_grad(inputs[i]));
    }
    if (!ok)
        fail_case("on %s: %s", haul_device_name(device), haul_error_message());
    haul_scope_pop(scope);
    return ok;
}

static void against_cpu(const sample *s, haul_device *null)
{
    static outcome got, want;
    for (int t = 0; t < test_dtype_count; t++)
        for (int how = 0; how < LAYOUT_COUNT; how++) {
            haul_dtype dtype = test_dtypes[t];
            if (!sample_takes(s, dtype) ||
                !begin_case("%s/%s/%s/null", s->name, haul_dtype_name(dtype), layout_names[how]) ||
                !run(s, haul_cpu(), dtype, (layout)how, &want) || !run(s, null, dtype, (layout)how, &got))
                continue;
            compare("y", &got.y, &want.y);
            for (int i = 0; i < s->count; i++) {
                char name[24];
                snprintf(name, sizeof name, "gradient %d", i);
                compare(name, &got.grads[i], &want.grads[i]);
            }
            if (!got.commands && !got.view)
                fail_case("no command reached the device");
        }
}

static void against_golden(const sample *s, const cJSON *golden, haul_device *null)
{
    static outcome got;
    char           key[80];
    snprintf(key, sizeof key, "%s/f64", s->name);
    const cJSON *shape = cJSON_GetObjectItem(cJSON_GetObjectItem(golden, key), "shape"), *item;
    if (!begin_case("%s/golden/null", s->name) || !run(s, null, HAUL_F64, LAYOUT_contiguous, &got))
        return;
    if (!shape || cJSON_GetArraySize(shape) != got.y.shape.ndim)
        fail_case("the rank differs from that of tests/golden/samples.json");
    int d = 0;
    cJSON_ArrayForEach(item, shape) if (item->valueint != got.y.shape.dims[d++])
        fail_case("dimension %d of the result differs from tests/golden/samples.json", d - 1);
}

/* ---- rows ---- */

static haul_tensor *call(const haul__row *row, haul_tensor *a, haul_tensor *b)
{
    if (row->form == HAUL__BINARY || row->form == HAUL__COMPARE)
        return ((haul_tensor * (*)(haul_tensor *, haul_tensor *)) row->call)(a, b);
    if (row->form == HAUL__UNARY1)
        return ((haul_tensor * (*)(haul_tensor *, double)) row->call)(a, 0.5);
    if (row->form == HAUL__UNARY2)
        return ((haul_tensor * (*)(haul_tensor *, double, double)) row->call)(a, 0.5, 1.5);
    return ((haul_tensor * (*)(haul_tensor *)) row->call)(a);
}

static bool takes(const haul__row *row, haul_dtype dtype)
{
    const bool is_whole = !haul_dtype_is_float(dtype);
    if (row->dtypes == HAUL__ROW_BITWISE || row->dtypes == HAUL__ROW_INTEGER)
        return is_whole && (dtype != HAUL_BOOL || row->dtypes == HAUL__ROW_BITWISE);
    return dtype != HAUL_BOOL || (row->dtypes != HAUL__ROW_NUMBER && row->dtypes != HAUL__ROW_NUMBER_WIDE);
}

static look look_of_row(const haul__row *row, haul_device *device, haul_dtype dtype, layout how)
{
    double       values[24];
    haul_shape   shape = HAUL_SHAPE(2, 3, 2, 2);
    haul_scope  *scope = haul_scope_push();
    haul_tensor *in[2];
    for (int i = 0; i < 2; i++) {
        sample_values(values, 24, dtype, row->low, row->high, (unsigned)i);
        in[i] = make_operand(device, dtype, shape, how, values);
    }
    haul_error_clear();
    look l = look_at(call(row, in[0], in[1]));
    if (!l.there)
        fail_case("on %s: %s", haul_device_name(device), haul_error_message());
    haul_scope_pop(scope);
    return l;
}

/* The last command is the row's kernel. */
static void row_against_cpu(const haul__row *row, haul_device *null)
{
    for (int t = 0; t < test_dtype_count; t++)
        for (int how = 0; how < LAYOUT_COUNT; how++) {
            haul_dtype dtype = test_dtypes[t];
            if (!takes(row, dtype) ||
                !begin_case("%s/%s/%s/null", row->name, haul_dtype_name(dtype), layout_names[how]))
                continue;
            look want = look_of_row(row, haul_cpu(), dtype, (layout)how);
            null_forget();
            look                got = look_of_row(row, null, dtype, (layout)how);
            const null_command *last = null_count() ? null_get(null_count() - 1) : NULL;
            compare("the result", &got, &want);
            if (!last)
                fail_case("no command reached the device");
            else if (last->kind != HAUL__COMMAND_LAUNCH || strcmp(last->operation, row->name) != 0 ||
                     last->items <= 0 || last->write_count != 1)
                fail_case("the last command, of %s, is not the row's launch", last->operation);
        }
}

static cJSON *read_golden(void)
{
    static char text[4 << 20];
    FILE       *f = fopen(HAUL_SOURCE "/tests/golden/samples.json", "rb");
    if (!f)
        return NULL;
    size_t size = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[size] = 0;
    return cJSON_Parse(text);
}

int main(void)
{
    haul_scope  *program = haul_scope_push();
    haul_device *null = null_device();
    cJSON       *golden = read_golden();
    if (!golden || !haul_device_is_valid(null)) {
        printf("tests/golden/samples.json cannot be read, or there is no null device\n");
        return 1;
    }
    for (int i = 0; i < haul__row_count; i++)
        row_against_cpu(&haul__rows[i], null);
    for (int i = 0; i < sample_count; i++) {
        against_golden(&samples[i], golden, null);
        against_cpu(&samples[i], null);
    }
    cJSON_Delete(golden);
    haul_scope_pop(program);
    return finish_cases("shape rules on the null backend");
}

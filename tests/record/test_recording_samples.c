/* Every structured operation in a followed step: results and gradients have the bits of a step that runs as it is. The
 * values of the operands differ from those with which the step was recorded.
 *
 * ctest: cuda; labels=slow; cuda-labels=slow,once */
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/conformance/conformance.h"
#include "support/conformance/samples.h"

typedef struct call {
    const sample *s;
    haul_device  *device;
    haul_tensor  *inputs[MAX_INPUTS], *seed;
    haul_tensor  *y; /* the result, kept */
    bool          differentiates;
} call;

static haul_status step(void *context)
{
    call       *c = context;
    haul_status status = haul_set_device(c->device);
    for (int i = 0; i < c->s->count && !status; i++)
        if (c->differentiates && c->s->inputs[i].kind == 'V')
            status = haul_set_grad(c->inputs[i], HAUL_NONE);
    haul_tensor *y = c->s->run(c->inputs);
    if (status || haul_tensor_check(y))
        return haul_error_status();
    haul_release(c->y);
    c->y = haul_keep(y);
    return c->differentiates && haul_requires_grad(y) ? haul_backward(y, .seed = c->seed) : HAUL_OK;
}

/* Operands of the sample, with values that `shift` moves around. */
static bool make(call *c, const sample *s, haul_device *device, haul_dtype dtype, layout how, int shift)
{
    static double values[MAX_ELEMENTS], moved[MAX_ELEMENTS];
    for (int i = 0; i < s->count; i++) {
        const int64_t count = input_values(&s->inputs[i], i, dtype, values);
        for (int64_t k = 0; k < count; k++)
            moved[k] = values[(k + shift) % count];
        c->inputs[i] = make_operand(device, input_dtype(&s->inputs[i], dtype), input_shape(&s->inputs[i]), how, moved);
        if (c->differentiates && s->inputs[i].kind == 'V')
            c->inputs[i] = haul_set_requires_grad(haul_detach(c->inputs[i]), true);
        if (haul_tensor_check(c->inputs[i]))
            return false;
    }
    return true;
}

static bool same_bits(haul_tensor *a, haul_tensor *b)
{
    static char x[8 * MAX_ELEMENTS], y[8 * MAX_ELEMENTS];
    if (a == HAUL_NONE || b == HAUL_NONE)
        return a == b;
    const size_t bytes = (size_t)haul_tensor_bytes(a);
    return (size_t)haul_tensor_bytes(b) == bytes && bytes <= sizeof x && !haul_read(a, x, bytes) &&
           !haul_read(b, y, bytes) && !memcmp(x, y, bytes);
}

static void compare(const call *eager, const call *followed, int at)
{
    if (!same_bits(eager->y, followed->y))
        fail_case("the result differs in step %d", at);
    for (int i = 0; i < eager->s->count; i++)
        if (eager->differentiates && eager->s->inputs[i].kind == 'V' &&
            !same_bits(haul_tensor_grad(eager->inputs[i]), haul_tensor_grad(followed->inputs[i])))
            fail_case("gradient %d differs in step %d", i, at);
}

/* The seed has the form of the result. */
static bool make_seed(call *c)
{
    if (step(c))
        return false;
    c->seed = haul_cast(haul_sin(haul_cast(haul_detach(c->y), HAUL_F64)), haul_tensor_dtype(c->y));
    return !haul_tensor_check(c->seed);
}

static void run(const sample *s, haul_device *device, haul_dtype dtype, layout how)
{
    enum { STEPS = 4 };
    haul_scope *scope = haul_scope_push();
    const bool  differentiates = s->differentiable && haul_dtype_is_float(dtype);
    call        eager = {.s = s, .device = device, .y = HAUL_NONE, .differentiates = false}, followed = eager;
    haul_error_clear();
    bool ok = make(&eager, s, device, dtype, how, 0) && make_seed(&eager);
    followed.seed = eager.seed;
    eager.differentiates = followed.differentiates = differentiates;
    haul_recording *r = haul_recording_new(step, &followed, .variants = 2);
    for (int k = 0; k < STEPS && ok; k++) {
        haul_scope *inner = haul_scope_push();
        ok = make(&eager, s, device, dtype, how, k) && make(&followed, s, device, dtype, how, k) && !step(&eager) &&
             !haul_recording_run(r);
        if (ok)
            compare(&eager, &followed, k);
        haul_scope_pop(inner);
    }
    haul_recording_report report = {0};
    if (!ok || haul_recording_report_get(r, &report))
        fail_case("%s", haul_error_message());
    else if (report.followed != STEPS - 1)
        fail_case("%d steps were followed, not %d: %s", (int)report.followed, STEPS - 1, report.reason);
    haul_release(eager.y);
    haul_release(followed.y);
    haul_scope_pop(scope);
}

int main(void)
{
    haul_device *devices[8];
    const int    count = test_devices(devices, 8);
    static const struct {
        haul_dtype dtype;
        layout     how;
    } forms[] = {{HAUL_F32, LAYOUT_contiguous}, {HAUL_F32, LAYOUT_sliced}, {HAUL_BF16, LAYOUT_contiguous}};
    for (int d = 0; d < count; d++)
        for (int i = 0; i < sample_count; i++)
            for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
                if (sample_takes(&samples[i], forms[f].dtype) &&
                    begin_case("%s/followed/%s/%s/%s", samples[i].name, haul_dtype_name(forms[f].dtype),
                               layout_names[forms[f].how], haul_device_name(devices[d])))
                    run(&samples[i], devices[d], forms[f].dtype, forms[f].how);
    return finish_cases("samples in followed steps");
}

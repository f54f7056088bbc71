/* Memory formats and libraries of convolutions: what they are asked, and in which format they get their operands. */
#include <stdlib.h>

#include "backends/implementation.h"
#include "core/tensor.h"
#include "device/device.h"
#include "support/format.h"

/* ---- a library: plain loops behind the CPU's table ---- */

static struct library {
    bool                 wants_last, takes_last, takes_relu;
    int                  calls[3], relus, refusals;
    const void          *weights[3]; /* of the latest call */
    haul__backend        table;
    const haul__backend *own;
} library;

/* The offset of an element of a tensor with `c` channels. */
static int64_t place(bool last, int64_t n, int64_t channel, int64_t y, int64_t x, int64_t c, int64_t h, int64_t w)
{
    return last ? ((n * h + y) * w + x) * c + channel : ((n * c + channel) * h + y) * w + x;
}

static void convolve(const haul__conv2d *c, float *x, float *w, const float *bias, float *y)
{
    haul__conv2d_pass pass = c->pass;
    int64_t           in = c->c_in / c->groups, out = c->c_out / c->groups;
    for (int64_t n = 0; n < c->n; n++)
        for (int64_t k = 0; k < c->c_out; k++)
            for (int64_t o = 0; o < c->out_h * c->out_w; o++) {
                int64_t oy = o / c->out_w, ox = o % c->out_w;
                float  *result = &y[place(c->channels_last, n, k, oy, ox, c->c_out, c->out_h, c->out_w)];
                if (pass == HAUL__CONV2D_FORWARD)
                    *result = bias ? bias[k] : 0;
                for (int64_t t = 0; t < in * c->kh * c->kw; t++) {
                    int64_t i = t / (c->kh * c->kw), ky = t / c->kw % c->kh, kx = t % c->kw;
                    int64_t row = oy * c->stride[0] + ky * c->dilation[0] - c->padding[0];
                    int64_t column = ox * c->stride[1] + kx * c->dilation[1] - c->padding[1];
                    if (row < 0 || row >= c->h || column < 0 || column >= c->w)
                        continue;
                    float *v = &x[place(c->channels_last, n, k / out * in + i, row, column, c->c_in, c->h, c->w)];
                    float *u = &w[place(c->channels_last, k, i, ky, kx, in, c->kh, c->kw)];
                    if (pass == HAUL__CONV2D_FORWARD)
                        *result += *v * *u;
                    else if (pass == HAUL__CONV2D_DATA)
                        *v += *result * *u;
                    else
                        *u += *result * *v;
                }
                if (pass == HAUL__CONV2D_FORWARD && c->relu && *result < 0)
                    *result = 0;
            }
}

static const char *library_refuses(haul_device *device, const void *problem)
{
    const haul__conv2d *c = problem;
    assert_ptr_equal(device, haul_cpu());
    if ((c->channels_last && !library.takes_last) || (c->relu && !library.takes_relu)) {
        library.refusals++;
        return "it was told to";
    }
    return NULL;
}

static haul_status library_run(haul__stream *s, const void *problem)
{
    const haul__conv2d *c = problem;
    float              *x = (float *)c->x->host + c->x_offset, *w = (float *)c->weight->host + c->weight_offset;
    float              *y = (float *)c->y->host + c->y_offset;
    (void)s;
    library.calls[c->pass]++;
    library.relus += c->relu;
    library.weights[c->pass] = w;
    if (c->pass == HAUL__CONV2D_DATA)
        memset(x, 0, (size_t)(c->n * c->c_in * c->h * c->w) * sizeof *x);
    if (c->pass == HAUL__CONV2D_WEIGHT)
        memset(w, 0, (size_t)(c->c_out * c->c_in / c->groups * c->kh * c->kw) * sizeof *w);
    convolve(c, x, w, c->has_bias ? (const float *)c->bias->host + c->bias_offset : NULL, y);
    return HAUL_OK;
}

static bool library_wants(haul_device *device, const void *problem)
{
    const haul__conv2d *c = problem;
    assert_ptr_equal(device, haul_cpu());
    assert_true(c->dtype == HAUL_F32 && c->pass <= HAUL__CONV2D_WEIGHT && !c->x);
    return library.wants_last;
}

static const haul__implementation implementations[] = {
    {HAUL__PROBLEM_CONV2D, HAUL__BY_onednn, .refuses = library_refuses, .run = library_run,
     .wants_channels_last = library_wants},
    {.refuses = NULL},
};

static int library_open(void **state)
{
    (void)state;
    haul_device *cpu = haul_cpu();
    library = (struct library){.own = cpu->backend, .table = *cpu->backend};
    library.table.implementations = implementations;
    library.wants_last = library.takes_last = true;
    cpu->backend = &library.table;
    return 0;
}

static int library_close(void **state)
{
    (void)state;
    haul_cpu()->backend = library.own;
    return 0;
}

/* A result, and the gradients of x, weight and bias. */
static void differentiate(haul_tensor *const *in, bool relu, haul_tensor **out)
{
    haul_tensor *leaves[3];
    for (int i = 0; i < 3; i++)
        leaves[i] = haul_set_requires_grad(haul_detach(in[i]), true);
    out[0] =
        haul_conv2d(leaves[0], leaves[1], .bias = leaves[2], .stride = {2, 1}, .padding = {1, HAUL_ZERO}, .relu = relu);
    haul_tensor *seed = sample_tensor(haul_cpu(), HAUL_F32, haul_tensor_shape(out[0]), 9, NULL);
    assert_int_equal(haul_backward(out[0], .seed = seed), HAUL_OK);
    for (int i = 0; i < 3; i++)
        out[i + 1] = haul_tensor_grad(leaves[i]);
}

static void operands(haul_tensor **in)
{
    in[0] = sample(haul_cpu(), 1);
    in[1] = weight_of(haul_cpu());
    in[2] = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(6), 8, NULL);
}

static void against_own(bool relu, bool last_x, bool last_weight)
{
    haul_tensor *in[3], *want[4], *got[4];
    operands(in);
    haul_cpu()->backend = library.own;
    differentiate(in, relu, want);
    haul_cpu()->backend = &library.table;
    if (last_x)
        in[0] = channels_last(in[0]);
    if (last_weight)
        in[1] = channels_last(in[1]);
    differentiate(in, relu, got);
    for (int i = 0; i < 4; i++)
        assert_equal(got[i], want[i], 1e-4, "what the library computes");
    assert_true(is_only_last(got[0]) == (library.wants_last || last_x || last_weight));
    assert_true(is_only_last(got[1]) == last_x);
    assert_true(is_only_last(got[2]) == last_weight);
}

static void test_memory_format_library__get_what_they_want(void **state)
{
    (void)state;
    for (int i = 0; i < 32; i++) {
        haul_scope *scope = haul_scope_push();
        int         calls = library.calls[HAUL__CONV2D_FORWARD];
        library.wants_last = i & 1;
        library.takes_relu = i & 2;
        against_own(i & 4, i & 8, i & 16);
        for (int pass = 0; pass < 3; pass++)
            assert_int_equal(library.calls[pass], calls + 1);
        haul_scope_pop(scope);
    }
    assert_int_equal(library.relus, 8);
    assert_int_equal(library.refusals, 8); /* relu, where it is not taken */
}

static void test_memory_format_library__may_refuse(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    library.takes_last = false;
    against_own(true, true, false);
    assert_true(library.refusals >= 3);
    for (int pass = 0; pass < 3; pass++)
        assert_int_equal(library.calls[pass], 1); /* row-major, then */
    haul_scope_pop(scope);
}

static void test_memory_format_library__reordered_weights_are_kept(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *in[3], *out[4];
    operands(in);
    differentiate(in, false, out);
    const void *copy = library.weights[HAUL__CONV2D_FORWARD];
    assert_ptr_not_equal(copy, in[1]->storage->buffer.host);
    assert_ptr_equal(library.weights[HAUL__CONV2D_DATA], copy);
    differentiate(in, false, out);
    assert_ptr_equal(library.weights[HAUL__CONV2D_FORWARD], copy);
    /* until it changes */
    haul_tensor *before = haul_clone(out[0]);
    assert_int_equal(haul_mul_scalar_into(in[1], in[1], 2), HAUL_OK);
    differentiate((haul_tensor *[]){in[0], in[1], haul_mul_scalar(in[2], 2)}, false, out);
    assert_equal(out[0], haul_mul_scalar(before, 2), 1e-4, "after a change of the weight");
    /* another tensor in the same memory is another weight */
    haul_tensor *other = haul_flatten(in[1], 0),
                *small = haul_view(haul_slice(other, 0, 9, 9 + 54, 1), HAUL_SHAPE(6, 1, 3, 3));
    haul_tensor *plane = haul_slice(in[0], 1, 0, 1, 1);
    haul_tensor *y = haul_conv2d(plane, small);
    assert_equal(y, haul_conv2d(haul_contiguous(plane), haul_contiguous(small)), 0, "a part of the weight");
    /* used directly where it has the format already */
    haul_tensor *last = channels_last(in[1]);
    differentiate((haul_tensor *[]){in[0], last, in[2]}, false, out);
    assert_ptr_equal(library.weights[HAUL__CONV2D_FORWARD], last->storage->buffer.host);
    haul_scope_pop(scope);
}

int main(void)
{
    unsetenv("HAUL_WITHOUT"); /* these tests are about what it leaves out */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_memory_format_library__get_what_they_want, library_open, library_close),
        cmocka_unit_test_setup_teardown(test_memory_format_library__may_refuse, library_open, library_close),
        cmocka_unit_test_setup_teardown(test_memory_format_library__reordered_weights_are_kept, library_open,
                                        library_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

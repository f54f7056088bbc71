/* Attributes are compared byte by byte, so they depend on the call and on nothing else. Each sample, each function that
 * makes a tensor, and steps of the optimizers run twice, with other garbage on the stack. Each call then has the same
 * attributes in all bytes, as they are given and as infer completes them.
 *
 * ctest: wraps=haul__take_operands,haul__allocate_results */
#include <stdint.h>
#include <stdlib.h>

#include "catalog/catalog.h"
#include "engine/driver.h"
#include "ops/move/bit_cast.h"
#include "support/conformance/conformance.h"
#include "support/conformance/samples.h"
#include "support/devices/optimizers.h"
#include "support/modules.h"

/* ---- what the driver sees ---- */

typedef struct seen {
    const haul__operation *operation;
    bool                   completed;
    unsigned char          bytes[HAUL__MAX_ATTRIBUTES];
} seen;

enum { MOST = 1 << 14 };

static seen  first[MOST], second[MOST];
static int   count;
static seen *now; /* NULL: nothing is noted */

static void note(const haul__call *c, bool completed)
{
    if (!now || !c->operation->attributes_size)
        return;
    assert_true(count < MOST);
    now[count] = (seen){.operation = c->operation, .completed = completed};
    memcpy(now[count++].bytes, c->attributes, c->operation->attributes_size);
}

haul_status __real_haul__take_operands(haul__call *c, haul_tensor *const *operands);
haul_status __wrap_haul__take_operands(haul__call *c, haul_tensor *const *operands);
haul_status __real_haul__allocate_results(haul__call *c);
haul_status __wrap_haul__allocate_results(haul__call *c);

haul_status __wrap_haul__take_operands(haul__call *c, haul_tensor *const *operands)
{
    note(c, false);
    return __real_haul__take_operands(c, operands);
}

haul_status __wrap_haul__allocate_results(haul__call *c)
{
    note(c, true);
    return __real_haul__allocate_results(c);
}

/* ---- two runs ---- */

__attribute__((noinline)) static void leave_garbage(int byte)
{
    unsigned char block[1 << 15];
    memset(block, byte, sizeof block);
    __asm__ volatile("" : : "r"(block) : "memory");
}

/* Makes the calls of one case; `what` is its own. */
typedef void scene(const void *what, int garbage);

static int run(scene *play, const void *what, seen *into, int garbage)
{
    haul_scope *of_run = haul_scope_push();
    count = 0;
    haul_manual_seed(1);
    haul_error_clear();
    now = into;
    play(what, garbage);
    now = NULL;
    haul_scope_pop(of_run);
    return count;
}

static bool covered[1024]; /* entries of the catalog */

static void cover(const haul__operation *operation)
{
    for (int i = 0; i < haul__catalog_count; i++)
        if (haul__catalog[i].operation == operation)
            covered[i] = true;
}

static void compare(const char *name, scene *play, const void *what)
{
    const int calls = run(play, what, first, 0x5a);
    assert_int_equal(run(play, what, second, 0xa5), calls);
    for (int i = 0; i < calls; i++) {
        const seen *a = &first[i], *b = &second[i];
        assert_ptr_equal(a->operation, b->operation);
        cover(a->operation);
        for (size_t at = 0; at < a->operation->attributes_size; at++)
            if (a->bytes[at] != b->bytes[at])
                fail_msg("%s: byte %zu of the attributes of %s %s: %02x, then %02x", name, at, a->operation->name,
                         a->completed ? "after infer" : "as given", a->bytes[at], b->bytes[at]);
    }
}

/* ---- samples: forward, backward, and backward through the gradients ---- */

static void play_sample(const void *what, int garbage)
{
    const sample *s = what;
    static double values[MAX_ELEMENTS];
    haul_tensor  *in[MAX_INPUTS], *by[MAX_INPUTS], *grads[MAX_INPUTS];
    const bool    differentiate = s->differentiable && sample_takes(s, HAUL_F32);
    haul_dtype    dtype = sample_takes(s, HAUL_F32) ? HAUL_F32 : HAUL_I64;
    int           leaves = 0;
    for (int i = 0; i < s->count; i++) {
        const input_spec *spec = &s->inputs[i];
        input_values(spec, i, dtype, values);
        in[i] = make_operand(haul_cpu(), input_dtype(spec, dtype), input_shape(spec), LAYOUT_contiguous, values);
        if (differentiate && spec->kind == 'V')
            by[leaves++] = in[i] = haul_set_requires_grad(haul_detach(in[i]), true);
    }
    leave_garbage(garbage);
    haul_tensor *y = s->run(in);
    if (!differentiate || !leaves)
        return;
    leave_garbage(garbage);
    haul_grad(y, by, leaves, grads, .seed = haul_ones_like(y), .keep = true);
    leave_garbage(garbage);
    haul_grad(y, by, leaves, grads, .seed = haul_set_requires_grad(haul_ones_like(y), true), .create_graph = true);
    for (int i = 0; i < leaves; i++)
        if (haul_tensor_is_valid(grads[i]) && haul__tracks(grads[i])) {
            leave_garbage(garbage);
            haul_backward(grads[i], .seed = haul_ones_like(grads[i]), .keep = true);
        }
}

static void test_attributes__of_samples(void **state)
{
    (void)state;
    for (int i = 0; i < sample_count; i++)
        compare(samples[i].name, play_sample, &samples[i]);
}

/* ---- functions that make, move and convert tensors ---- */

typedef haul_tensor *maker(haul_tensor *x);

#define MAKER(name, expression)                                                                                        \
    static haul_tensor *name(haul_tensor *x)                                                                           \
    {                                                                                                                  \
        (void)x;                                                                                                       \
        return expression;                                                                                             \
    }

static haul_tensor *converted(haul_tensor *x)
{
    haul_tensor *y = haul_empty(HAUL_I32, haul_tensor_shape(x));
    haul_copy_into(y, x);
    haul_fill_into(y, 3);
    haul_zero_into(y);
    return y;
}

MAKER(make_empty, haul_empty(HAUL_F32, HAUL_SHAPE(3, 2)))
MAKER(make_zeros, haul_zeros(HAUL_F32, HAUL_SHAPE(3, 2)))
MAKER(make_ones, haul_ones(HAUL_F32, HAUL_SHAPE(3, 2)))
MAKER(make_full, haul_full(HAUL_F32, HAUL_SHAPE(3, 2), 2))
MAKER(make_scalar, haul_scalar(2))
MAKER(make_like, haul_add(haul_zeros_like(x), haul_add(haul_ones_like(x), haul_full_like(x, 2))))
MAKER(make_arange, haul_arange(HAUL_F32, 0, 2, 0.5))
MAKER(make_arange_i64, haul_arange_i64(0, 7, 2))
MAKER(make_uniform, haul_uniform(HAUL_F32, HAUL_SHAPE(5), -1, 1))
MAKER(make_normal, haul_normal(HAUL_F32, HAUL_SHAPE(5), 0, 1))
MAKER(make_randint, haul_randint(HAUL_I32, HAUL_SHAPE(5), 0, 9))
MAKER(make_exponential, haul_exponential(HAUL_F32, HAUL_SHAPE(5), 2))
MAKER(make_bernoulli_scalar, haul_bernoulli_scalar(HAUL_F32, HAUL_SHAPE(5), 0.5))
MAKER(make_bernoulli, haul_bernoulli(haul_full(HAUL_F32, HAUL_SHAPE(5), 0.5)))
MAKER(make_normal_of, haul_normal_of(x, x))
MAKER(make_poisson, haul_poisson(x))
MAKER(make_gamma, haul_gamma(x))
MAKER(make_multinomial, haul_multinomial(x, 2, true))
MAKER(make_multinomial_distinct, haul_multinomial(x, 2, false))
MAKER(make_bits, haul_random_bits(HAUL_SHAPE(5)))
MAKER(make_permutation, haul_permutation(5))
MAKER(make_dropout, haul_sum(haul_dropout(x, 0.5, true)))
MAKER(make_attention_blocks, haul_attention(haul_expand(haul_select(x, 0, 0), HAUL_SHAPE(1100, 2)), x, x))
MAKER(make_cast, haul_cast(x, HAUL_F64))
MAKER(make_moved, haul_to(x, haul_cpu(), .dtype = HAUL_F64))
MAKER(make_pinned, haul_pin(x, haul_cpu()))
MAKER(make_view, haul_view(x, HAUL_SHAPE(2, -1)))
MAKER(make_expanded, haul_expand(haul_unsqueeze(x, 0), HAUL_SHAPE(4, -1, -1)))
MAKER(make_channels_last, haul_to_memory_format(haul_reshape(x, HAUL_SHAPE(1, 3, 2, 1)), HAUL_CHANNELS_LAST))
MAKER(make_clamped, haul_clamp(x, 0, 1))
MAKER(make_added, haul_add_scalar(x, 1))
MAKER(make_flipped, haul_flip(x, HAUL_AXES(1)))
MAKER(make_bit_cast, haul__bit_cast(x, HAUL_I32))

static void play_maker(const void *what, int garbage)
{
    maker *const *make = what;
    haul_tensor  *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(3, 2)), true);
    leave_garbage(garbage);
    haul_tensor *y = (*make)(x);
    if (!haul_tensor_is_valid(y))
        fail_msg("%s", haul_error_message());
    leave_garbage(garbage);
    if (haul__tracks(y))
        haul_backward(y, .seed = haul_ones_like(y));
}

static void test_attributes__of_tensors_that_are_made(void **state)
{
    static maker *const makers[] = {converted,          make_empty,
                                    make_zeros,         make_ones,
                                    make_full,          make_scalar,
                                    make_like,          make_arange,
                                    make_arange_i64,    make_uniform,
                                    make_normal,        make_randint,
                                    make_exponential,   make_bernoulli_scalar,
                                    make_bernoulli,     make_normal_of,
                                    make_poisson,       make_gamma,
                                    make_multinomial,   make_multinomial_distinct,
                                    make_bits,          make_permutation,
                                    make_dropout,       make_cast,
                                    make_moved,         make_pinned,
                                    make_view,          make_expanded,
                                    make_channels_last, make_clamped,
                                    make_added,         make_flipped,
                                    make_bit_cast,      make_attention_blocks};
    (void)state;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        compare("a tensor that is made", play_maker, &makers[i]);
}

/* ---- optimizers ---- */

typedef haul_optimizer *optimizer_of(haul_module *net);

static haul_optimizer *sgd(haul_module *net)
{
    return haul_sgd(net, 0.1, .momentum = 0.9);
}

static haul_optimizer *adam(haul_module *net)
{
    return haul_adam(net, 0.1);
}

static haul_optimizer *rmsprop(haul_module *net)
{
    return haul_rmsprop(net, 0.1);
}

static void play_optimizer(const void *what, int garbage)
{
    optimizer_of *const *make = what;
    haul_module         *net = haul_nn_linear(3, 2);
    haul_optimizer      *optimizer = (*make)(net);
    haul_grad_scaler    *scaler = haul_grad_scaler_new(optimizer);
    haul_average        *average = haul_average_new(net);
    for (int step = 0; step < 3; step++) {
        haul_tensor *loss = haul_mean(haul_call(net, haul_ones(HAUL_F32, HAUL_SHAPE(4, 3))));
        if (step) {
            haul_backward(haul_grad_scaler_scale(scaler, loss));
            leave_garbage(garbage);
            haul_grad_scaler_step(scaler, optimizer);
            leave_garbage(garbage);
            haul_grad_scaler_update(scaler);
        } else {
            haul_backward(loss);
            haul_clip_grad_norm(net, 1);
            leave_garbage(garbage);
            assert_int_equal(haul_optimizer_step(optimizer), HAUL_OK);
        }
        leave_garbage(garbage);
        haul_average_update(average);
        haul_optimizer_zero_grad(optimizer);
    }
}

static void test_attributes__of_optimizers(void **state)
{
    static optimizer_of *const optimizers[] = {sgd,
                                               adam,
                                               rmsprop,
                                               optimizer_amsgrad,
                                               optimizer_adagrad,
                                               optimizer_adadelta,
                                               optimizer_nadam,
                                               optimizer_radam,
                                               optimizer_lion};
    (void)state;
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        compare("an optimizer", play_optimizer, &optimizers[i]);
}

/* ---- all of them ---- */

/* Runs after the others. */
static void test_attributes__of_all_operations_were_seen(void **state)
{
    (void)state;
    for (int i = 0; i < haul__catalog_count; i++) {
        const haul__operation *operation = haul__catalog[i].operation;
        if (!covered[i] && !operation->pointwise && operation->attributes_size)
            fail_msg("no call of %s was seen: add one", operation->name);
    }
}

/* With a subscriber every call takes the long path through the driver. */
static void ignore(const haul_event *e, void *context)
{
    (void)e;
    (void)context;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_attributes__of_samples, setup, teardown),
        cmocka_unit_test_setup_teardown(test_attributes__of_tensors_that_are_made, setup, teardown),
        cmocka_unit_test_setup_teardown(test_attributes__of_optimizers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_attributes__of_all_operations_were_seen, setup, teardown),
    };
    haul_events_subscribe(ignore, .kinds = HAUL_EVENT_OPERATION);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What the tests of checkpoints share: a training, all that it consists of, and errors. For a test program's one source
 * file. */
#ifndef HAUL_TESTS_CHECKPOINT_H
#define HAUL_TESTS_CHECKPOINT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <string.h>

#include "support/failure.h"

/* A network, its optimizer, and one batch it is trained on. */
typedef struct training {
    haul_module    *net;
    haul_optimizer *optimizer;
} training;

static inline training begin(uint64_t seed, bool adam)
{
    training t;
    haul_manual_seed(seed);
    t.net = HAUL_SEQUENTIAL(haul_nn_linear(6, 5), haul_nn_batch_norm(5), haul_nn_relu(), haul_nn_dropout(0.3),
                            haul_nn_linear(5, 3));
    t.optimizer = adam ? haul_adam(t.net, 0.01) : haul_sgd(t.net, 0.1, .momentum = 0.9);
    assert_non_null(t.optimizer);
    return t;
}

static inline void step(const training *t)
{
    static float   x[4 * 6];
    static int64_t y[4] = {0, 2, 1, 2};
    haul_scope    *scope = haul_scope_push();
    for (int i = 0; i < 24; i++)
        x[i] = (float)((i * 37) % 11) - 5;
    haul_tensor *in = haul_from_host(HAUL_F32, HAUL_SHAPE(4, 6), x),
                *labels = haul_from_host(HAUL_I64, HAUL_SHAPE(4), y);
    haul_tensor *loss = haul_cross_entropy(haul_call(t->net, in), labels);
    haul_optimizer_zero_grad(t->optimizer);
    haul_backward(loss);
    haul_optimizer_step(t->optimizer);
    if (haul_error_status())
        fail_msg("%s", haul_error_message());
    haul_scope_pop(scope);
}

/* All that a training consists of, as bytes. */
typedef struct everything {
    uint8_t           bytes[4096];
    size_t            size;
    haul_random_state random;
    int64_t           steps;
    double            lr;
} everything;

static inline void add(everything *e, const haul_named_tensor *tensors, int count)
{
    for (int i = 0; i < count; i++) {
        assert_true(e->size + haul_tensor_bytes(tensors[i].tensor) <= sizeof e->bytes);
        assert_int_equal(haul_read(tensors[i].tensor, e->bytes + e->size, sizeof e->bytes - e->size), HAUL_OK);
        e->size += haul_tensor_bytes(tensors[i].tensor);
    }
}

static inline everything state_of(const training *t)
{
    haul_named_tensor tensors[64];
    everything        e;
    memset(&e, 0, sizeof e);
    add(&e, tensors, haul_module_tensors(t->net, tensors, 64));
    add(&e, tensors, haul_optimizer_state(t->optimizer, tensors, 64));
    e.random = haul_random_state_get();
    e.steps = haul_optimizer_steps(t->optimizer);
    e.lr = haul_optimizer_get(t->optimizer, 0, "lr");
    return e;
}

static inline void assert_same(const everything *a, const everything *b)
{
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->bytes, b->bytes, a->size);
    assert_memory_equal(&a->random, &b->random, sizeof a->random);
    assert_int_equal(a->steps, b->steps);
    assert_true(a->lr == b->lr);
}

/* Saving or loading was refused with these words, named after the function called. */
static inline void assert_refused(haul_status status, haul_status wanted, const char *operation, const char *words)
{
    if (status != wanted || !strstr(haul_error_message(), words))
        fail_msg("%d: \"%s\", expected \"%s\"", status, haul_error_message(), words);
    assert_string_equal(haul_error_operation(), operation);
    haul_error_clear();
}

static inline haul_status save(haul_module *net, haul_optimizer *optimizer)
{
    return haul_save_checkpoint("x.ckpt", net, optimizer, .position = &(haul_training_position){1, 1});
}

#endif

/* Weights and checkpoints: going on as if nothing had been interrupted, and changing nothing when a file does not fit.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/thread.h"
#include "support/checkpoint.h"

static void test_checkpoint__training_goes_on_to_the_same_bits(void **state)
{
    (void)state;
    for (int adam = 0; adam <= 1; adam++) {
        haul_scope            *scope = haul_scope_push();
        haul_training_position position;
        const haul_text_pair   extra = {"model", "a test"};
        training               whole = begin(1, adam);
        for (int i = 0; i < 3; i++)
            step(&whole);
        haul_optimizer_set(whole.optimizer, 0, "lr", 0.0123456789);
        assert_int_equal(haul_save_checkpoint("run.ckpt", whole.net, whole.optimizer,
                                              .position = &(haul_training_position){2, 345}, .extra = &extra,
                                              .extra_count = 1),
                         HAUL_OK);
        for (int i = 0; i < 3; i++)
            step(&whole);
        everything expected = state_of(&whole);

        training resumed = begin(99, adam); /* other weights, other random numbers */
        if (adam)
            step(&resumed); /* and a state of its own to be replaced */
        if (haul_load_checkpoint("run.ckpt", resumed.net, resumed.optimizer, .position = &position))
            fail_msg("%s", haul_error_message());
        assert_int_equal(position.epoch, 2);
        assert_int_equal(position.batch, 345);
        for (int i = 0; i < 3; i++)
            step(&resumed);
        everything got = state_of(&resumed);
        assert_same(&expected, &got);
        assert_string_equal(haul_safetensors_metadata(haul_open_safetensors("run.ckpt"), "model"), "a test");
        haul_scope_pop(scope);
    }
}

static void test_checkpoint__of_a_training_not_begun(void **state)
{
    (void)state;
    haul_scope            *scope = haul_scope_push();
    haul_training_position position;
    training               fresh = begin(3, false);
    everything             expected = state_of(&fresh);
    assert_int_equal(
        haul_save_checkpoint("new.ckpt", fresh.net, fresh.optimizer, .position = &(haul_training_position){1, 0}),
        HAUL_OK);
    training other = begin(4, false);
    step(&other);
    assert_int_equal(haul_load_checkpoint("new.ckpt", other.net, other.optimizer, .position = &position), HAUL_OK);
    everything got = state_of(&other);
    assert_same(&expected, &got);
    haul_scope_pop(scope);
}

static void test_weights__are_exchanged_by_name(void **state)
{
    (void)state;
    haul_scope      *scope = haul_scope_push();
    training         a = begin(5, false), b = begin(6, false);
    haul_file_tensor entry;
    step(&a);
    assert_int_equal(haul_save_weights("w.safetensors", a.net), HAUL_OK);
    haul_safetensors *file = haul_open_safetensors("w.safetensors");
    assert_int_equal(haul_safetensors_count(file), haul_module_tensors(a.net, NULL, 0));
    assert_int_equal(haul_safetensors_entry(file, 0, &entry), HAUL_OK);
    assert_valid(haul_safetensors_load(file, "0.weight"));
    if (haul_load_weights("w.safetensors", b.net))
        fail_msg("%s", haul_error_message());
    float x[15], y[15];
    assert_int_equal(haul_read(haul_module_parameter(a.net, "4.weight"), x, sizeof x), HAUL_OK);
    assert_int_equal(haul_read(haul_module_parameter(b.net, "4.weight"), y, sizeof y), HAUL_OK);
    assert_memory_equal(x, y, sizeof x);
    haul_scope_pop(scope);
}

static void test_weights__that_do_not_fit_change_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *message;
        haul_status status;
    } expected[] = {
        {"lacks '0.bias', which the module has", HAUL_FORMAT},
        {"holds 'more', which the module lacks", HAUL_FORMAT},
        {"holds '0.weight' as f32[2,3], the module as f32[3,2]", HAUL_SHAPE},
        {"holds '0.weight' as f64[3,2], the module as f32[3,2]", HAUL_DTYPE},
    };
    for (int i = 0; i < 4; i++) {
        haul_scope       *scope = haul_scope_push();
        haul_module      *net = HAUL_SEQUENTIAL(haul_nn_linear(2, 3));
        float             before[6], after[6];
        haul_named_tensor tensors[] = {
            {"0.weight", haul_ones(i == 3 ? HAUL_F64 : HAUL_F32, i == 2 ? HAUL_SHAPE(2, 3) : HAUL_SHAPE(3, 2)), false},
            {"0.bias", haul_ones(HAUL_F32, HAUL_SHAPE(3)), false},
            {"more", haul_ones(HAUL_F32, HAUL_SHAPE(3)), false},
        };
        assert_int_equal(haul_save_safetensors("odd.safetensors", tensors,
                                               i == 0   ? 1
                                               : i == 1 ? 3
                                                        : 2,
                                               NULL, 0),
                         HAUL_OK);
        haul_read(haul_module_parameter(net, "0.weight"), before, sizeof before);
        assert_int_equal(haul_load_weights("odd.safetensors", net), expected[i].status);
        if (!strstr(haul_error_message(), expected[i].message) || !strstr(haul_error_message(), "odd.safetensors"))
            fail_msg("%s", haul_error_message());
        haul_read(haul_module_parameter(net, "0.weight"), after, sizeof after);
        assert_memory_equal(before, after, sizeof before);
        haul_error_clear();
        haul_scope_pop(scope);
    }
}

/* Write a checkpoint's tensors again with other metadata. */
static void forge(const char *from, const char *to, const char *key, const char *value)
{
    haul_named_tensor tensors[64];
    haul_text_pair    texts[32];
    haul_file_tensor  entry;
    haul_safetensors *file = haul_open_safetensors(from);
    int count = haul_safetensors_count(file), texts_count = haul_safetensors_metadata_count(file), kept = 0;
    for (int i = 0; i < count; i++) {
        haul_safetensors_entry(file, i, &entry);
        tensors[i] = (haul_named_tensor){entry.name, haul_safetensors_load(file, entry.name), false};
    }
    for (int i = 0; i < texts_count; i++) {
        haul_safetensors_metadata_entry(file, i, &texts[kept]);
        if (strcmp(texts[kept].key, key) == 0)
            texts[kept].value = value;
        kept += texts[kept].value != NULL;
    }
    assert_int_equal(haul_save_safetensors(to, tensors, count, texts, kept), HAUL_OK);
}

static void test_checkpoint__that_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value; /* NULL: left out */
        haul_status status;
        const char *message;
    } forged[] = {
        {"haul.format", NULL, HAUL_FORMAT, "not a checkpoint of this version"},
        {"haul.format", "checkpoint 999", HAUL_FORMAT, "not a checkpoint of this version"},
        {"haul.optimizers", "2", HAUL_INVALID_ARGUMENT, "written with 2 optimizers, but 1 are given"},
        {"haul.optimizers", "", HAUL_FORMAT, "haul.optimizers is not a number"},
        {"haul.optimizers.0", "adam", HAUL_INVALID_ARGUMENT,
         "written with the optimizer 'adam', but this one is 'sgd'"},
        {"haul.optimizers.0.steps", "x", HAUL_FORMAT, "haul.optimizers.0.steps is not a number"},
        {"haul.schedules", "1", HAUL_INVALID_ARGUMENT, "written with 1 schedules, but 0 are given"},
        {"haul.averages", "3", HAUL_INVALID_ARGUMENT, "written with 3 averages, but 0 are given"},
        {"haul.epoch", NULL, HAUL_FORMAT, "haul.epoch is not a number"},
        {"haul.epoch", "-1", HAUL_FORMAT, "haul.epoch is not a number"},
        {"haul.batch", "1e3", HAUL_FORMAT, "haul.batch is not a number"},
        {"haul.batch", "9223372036854775808", HAUL_FORMAT,
         "haul.batch is 9223372036854775808; at most 9223372036854775807 is expected"},
        {"haul.optimizers.0.steps", "9223372036854775807", HAUL_FORMAT,
         "haul.optimizers.0.steps is 9223372036854775807; at most 9000000000000000 is expected"},
        {"haul.random_seed", "18446744073709551616", HAUL_FORMAT, "haul.random_seed is not a number"},
    };
    haul_scope            *scope = haul_scope_push();
    haul_training_position position = {7, 8};
    training               source = begin(1, false);
    step(&source);
    assert_int_equal(
        haul_save_checkpoint("good.ckpt", source.net, source.optimizer, .position = &(haul_training_position){1, 1}),
        HAUL_OK);
    training t = begin(2, false);
    step(&t);
    everything before = state_of(&t);
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        forge("good.ckpt", "forged.ckpt", forged[i].key, forged[i].value);
        assert_int_equal(haul_load_checkpoint("forged.ckpt", t.net, t.optimizer, .position = &position),
                         forged[i].status);
        if (!strstr(haul_error_message(), forged[i].message) || !strstr(haul_error_message(), "forged.ckpt"))
            fail_msg("%s", haul_error_message());
        haul_error_clear();
        everything after = state_of(&t);
        assert_same(&before, &after);
    }
    /* weights alone do not make a checkpoint; other networks' checkpoints do not fit */
    assert_int_equal(haul_save_weights("w.safetensors", source.net), HAUL_OK);
    assert_int_equal(haul_load_checkpoint("w.safetensors", t.net, t.optimizer, .position = &position), HAUL_FORMAT);
    haul_module    *small = HAUL_SEQUENTIAL(haul_nn_linear(6, 5));
    haul_optimizer *sgd = haul_sgd(small, 0.1, .momentum = 0.9);
    assert_int_equal(haul_load_checkpoint("good.ckpt", small, sgd, .position = &position), HAUL_FORMAT);
    assert_non_null(strstr(haul_error_message(), "which the module lacks"));
    haul_error_clear();
    assert_true(position.epoch == 7 && position.batch == 8);
    haul_scope_pop(scope);
}

static void test_checkpoint__wrong_arguments_are_errors(void **state)
{
    (void)state;
    haul_scope            *scope = haul_scope_push();
    haul_training_position position;
    training               t = begin(1, false);
    const haul_text_pair   taken = {"haul.epoch", "3"};
    assert_int_equal(haul_save_checkpoint("x.ckpt", t.net, t.optimizer, .position = &(haul_training_position){1, 0},
                                          .extra = &taken, .extra_count = 1),
                     HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_save_checkpoint("x.ckpt", t.net, t.optimizer, .position = &(haul_training_position){-1, 0}),
                     HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_int_equal(haul_save_checkpoint("x.ckpt", NULL, t.optimizer, .position = &(haul_training_position){1, 0}),
                     HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_load_checkpoint("x.ckpt", t.net, NULL, .position = &position), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_save_weights(NULL, t.net), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_load_weights("x.ckpt", NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(access("x.ckpt", F_OK), -1);
    haul_error_clear();
    assert_int_equal(haul_load_checkpoint("x.ckpt", t.net, t.optimizer, .position = &position), HAUL_IO);
    haul_error_clear();
    haul_scope_pop(scope);
}

/* Trains, saves and drops, while others do the same with networks of their own. */
static void *train_and_save(void *number)
{
    char        path[32];
    bool        failed = false;
    haul_scope *outer = haul_scope_push();
    snprintf(path, sizeof path, "thread%d.ckpt", *(const int *)number);
    for (int i = 0; i < 20 && !failed; i++) {
        haul_training_position position = {1, i};
        haul_scope            *scope = haul_scope_push();
        haul_module           *net = HAUL_SEQUENTIAL(haul_nn_linear(3, 2));
        haul_optimizer        *adam = haul_adam(net, 0.001);
        haul_backward(haul_sum(haul_call(net, haul_ones(HAUL_F32, HAUL_SHAPE(4, 3)))));
        if (haul_optimizer_step(adam) || haul_save_checkpoint(path, net, adam, .position = &position) ||
            haul_load_checkpoint(path, net, adam, .position = &position) || position.batch != i)
            failed = true;
        haul_scope_pop(scope);
    }
    haul_scope_pop(outer);
    return failed ? number : NULL;
}

static void test_checkpoint__of_several_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    int       numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, train_and_save, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

/* As in PyTorch; they may have been changed in the training. */
static void test_checkpoint__settings_become_those_of_the_file(void **state)
{
    (void)state;
    haul_scope            *scope = haul_scope_push();
    haul_training_position position;
    training               t = begin(1, false), plain = begin(2, false);
    step(&t);
    assert_int_equal(haul_optimizer_set(t.optimizer, 0, "weight_decay", 0.125), HAUL_OK);
    assert_int_equal(save(t.net, t.optimizer), HAUL_OK);
    step(&t);
    everything expected = state_of(&t);
    plain.optimizer = haul_sgd(plain.net, 0.1);
    assert_int_equal(haul_load_checkpoint("x.ckpt", plain.net, plain.optimizer, .position = &position), HAUL_OK);
    assert_true(haul_optimizer_get(plain.optimizer, 0, "weight_decay") == 0.125);
    assert_true(haul_optimizer_get(plain.optimizer, 0, "momentum") == haul_optimizer_get(t.optimizer, 0, "momentum"));
    step(&plain);
    everything got = state_of(&plain);
    assert_same(&expected, &got);
    haul_scope_pop(scope);
}

/* A file that the version before wrote with haul_adam(net, 0.0125). */
static void test_checkpoint__of_the_format_before_is_read(void **state)
{
    (void)state;
    static const char path[] = HAUL_SOURCE "/tests/golden/checkpoint_1.safetensors";
    for (int decoupled = 0; decoupled < 2; decoupled++) {
        haul_scope            *scope = haul_scope_push();
        haul_training_position position;
        haul_named_tensor      saved[8];
        haul_module           *net = HAUL_SEQUENTIAL(haul_nn_linear(3, 2));
        haul_optimizer        *o = decoupled ? haul_adamw(net, 1) : haul_adam(net, 1, .weight_decay = 0.5);
        haul_optimizer        *sgd = haul_sgd(net, 1);
        assert_refused(haul_load_checkpoint(path, net, sgd), HAUL_INVALID_ARGUMENT, "haul_load_checkpoint",
                       "written with the optimizer 'adam', but this one is 'sgd'");
        haul_schedule *cosine = haul_schedule_cosine(o, 10);
        assert_refused(haul_load_checkpoint(path, net, o, .schedules = &cosine, .schedule_count = 1),
                       HAUL_INVALID_ARGUMENT, "haul_load_checkpoint", "written with 0 schedules");
        if (haul_load_checkpoint(path, net, o, .position = &position))
            fail_msg("%s", haul_error_message());
        assert_true(position.epoch == 2 && position.batch == 7);
        assert_int_equal(haul_optimizer_steps(o), 3);
        assert_true(haul_optimizer_get(o, 0, "lr") == 0.0125);
        assert_true(haul_optimizer_get(o, 0, "weight_decay") == (decoupled ? 0.01 : 0.5)); /* as it was made with */
        assert_int_equal(haul_optimizer_state(o, saved, 8), 6);
        assert_true(haul_item(saved[2].tensor) == 3);
        assert_true(fabs(haul_item(haul_select(saved[3].tensor, 0, 1)) - -0.271) < 1e-6); /* bias.exp_avg */
        haul_scope_pop(scope);
    }
}

static void test_checkpoint__errors_name_the_function_and_the_value(void **state)
{
    (void)state;
    haul_scope            *scope = haul_scope_push();
    haul_training_position position;
    training               t = begin(1, false);
    const haul_text_pair   text = {"a", "\xff"};
    assert_refused(haul_save_checkpoint("y", t.net, t.optimizer, .position = &(haul_training_position){-3, 0}),
                   HAUL_INVALID_ARGUMENT, "haul_save_checkpoint", "position.epoch is -3; 0 or more is expected");
    assert_refused(haul_save_checkpoint("y", t.net, t.optimizer, .position = &(haul_training_position){3, -4}),
                   HAUL_INVALID_ARGUMENT, "haul_save_checkpoint", "position.batch is -4; 0 or more is expected");
    assert_refused(haul_save_checkpoint("y", t.net, t.optimizer, .position = &(haul_training_position){3, 4},
                                        .extra = &text, .extra_count = -1),
                   HAUL_INVALID_ARGUMENT, "haul_save_checkpoint", "extra_count is -1; 0 or more is expected");
    assert_refused(haul_save_checkpoint("y", t.net, t.optimizer, .position = &(haul_training_position){3, 4},
                                        .extra = &text, .extra_count = 1),
                   HAUL_INVALID_ARGUMENT, "haul_save_checkpoint", "'a' is not UTF-8");
    assert_refused(haul_save_checkpoint("no/y", t.net, t.optimizer, .position = &(haul_training_position){3, 4}),
                   HAUL_IO, "haul_save_checkpoint", "no/y");
    assert_refused(haul_load_checkpoint("no/y", t.net, t.optimizer, .position = &position), HAUL_IO,
                   "haul_load_checkpoint", "no/y");
    haul_scope_pop(scope);
}

static void test_checkpoint__every_failure_of_loading_changes_nothing(void **state)
{
    (void)state;
    haul_scope            *scope = haul_scope_push();
    haul_training_position position;
    training               source = begin(1, false);
    step(&source);
    everything expected = state_of(&source);
    assert_int_equal(
        haul_save_checkpoint("good.ckpt", source.net, source.optimizer, .position = &(haul_training_position){1, 1}),
        HAUL_OK);
    training t = begin(2, false);
    step(&t);
    everything before = state_of(&t);
    for (int64_t nth = 1;; nth++) {
        int64_t blocks = haul__host_blocks();
        haul__fault_plan(
            HAUL__FAULT_HOST | HAUL__FAULT_DEVICE | HAUL__FAULT_COPY | HAUL__FAULT_LAUNCH | HAUL__FAULT_FILE, nth);
        haul_status status = haul_load_checkpoint("good.ckpt", t.net, t.optimizer, .position = &position);
        haul__fault_plan(0, 0);
        assert_string_equal(haul_error_operation(), status ? "haul_load_checkpoint" : "");
        haul_error_clear();
        everything after = state_of(&t);
        assert_same(status == HAUL_OK ? &expected : &before, &after);
        assert_int_equal(haul__host_blocks(), blocks);
        if (status == HAUL_OK)
            break;
    }
    haul_scope_pop(scope);
}

static void test_checkpoint__every_failure_of_saving_leaves_the_old_file(void **state)
{
    (void)state;
    haul_scope            *scope = haul_scope_push();
    haul_training_position position;
    training               t = begin(1, false), reader = begin(2, false);
    step(&t);
    assert_int_equal(haul_save_checkpoint("kept.ckpt", t.net, t.optimizer, .position = &(haul_training_position){1, 1}),
                     HAUL_OK);
    for (int64_t nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_COPY | HAUL__FAULT_FILE, nth);
        haul_status status =
            haul_save_checkpoint("kept.ckpt", t.net, t.optimizer, .position = &(haul_training_position){2, 2});
        haul__fault_plan(0, 0);
        assert_string_equal(haul_error_operation(), status ? "haul_save_checkpoint" : "");
        haul_error_clear();
        assert_int_equal(access("kept.ckpt.tmp", F_OK), -1);
        assert_int_equal(haul_load_checkpoint("kept.ckpt", reader.net, reader.optimizer, .position = &position),
                         HAUL_OK);
        assert_int_equal(position.epoch, status == HAUL_OK ? 2 : 1);
        if (status == HAUL_OK)
            break;
    }
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint__training_goes_on_to_the_same_bits),
        cmocka_unit_test(test_checkpoint__of_a_training_not_begun),
        cmocka_unit_test(test_weights__are_exchanged_by_name),
        cmocka_unit_test(test_weights__that_do_not_fit_change_nothing),
        cmocka_unit_test(test_checkpoint__that_does_not_fit_changes_nothing),
        cmocka_unit_test(test_checkpoint__wrong_arguments_are_errors),
        cmocka_unit_test(test_checkpoint__of_several_threads),
        cmocka_unit_test(test_checkpoint__settings_become_those_of_the_file),
        cmocka_unit_test(test_checkpoint__of_the_format_before_is_read),
        cmocka_unit_test(test_checkpoint__errors_name_the_function_and_the_value),
        cmocka_unit_test(test_checkpoint__every_failure_of_loading_changes_nothing),
        cmocka_unit_test(test_checkpoint__every_failure_of_saving_leaves_the_old_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

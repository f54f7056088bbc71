/* Early stopping and the best weights: what counts as progress, patience, weights that are kept and restored, both
 * across a checkpoint, and refused calls.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/devices/auto.h"

/* ---- early stopping ---- */

/* Epochs whose metric is the best one are marked; the training ends after the last one. */
static void assert_course(haul_early_stop stop, const double *metrics, const char *marks)
{
    const int64_t count = (int64_t)strlen(marks);
    for (int64_t epoch = 1; epoch <= count; epoch++) {
        if (haul_early_stop_is_due(&stop))
            fail_msg("it ends before epoch %d", (int)epoch);
        if (haul_early_stop_update(&stop, epoch, metrics[epoch - 1]) != (marks[epoch - 1] == '*'))
            fail_msg("epoch %d", (int)epoch);
    }
    assert_true(haul_early_stop_is_due(&stop));
}

static void test_train_stop__counts_epochs_without_progress(void **state)
{
    (void)state;
    assert_course((haul_early_stop){.patience = 2}, (const double[]){3, 2, 2, 1, 1.5, 1.2}, "**.*..");
    assert_course((haul_early_stop){.patience = 1}, (const double[]){3, 4}, "*.");
    assert_course((haul_early_stop){.patience = 2, .rising = true}, (const double[]){0.1, 0.5, 0.4, 0.5}, "**..");
}

static void test_train_stop__min_delta_is_the_least_progress(void **state)
{
    (void)state;
    assert_course((haul_early_stop){.patience = 2, .min_delta = 0.5}, (const double[]){3, 2.75, 2.25, 2, 1.75},
                  "*.*..");
    assert_course((haul_early_stop){.patience = 2, .min_delta = 0.5, .rising = true}, (const double[]){1, 1.5, 1.25},
                  "*..");
}

/* Also if the first one is not finite. */
static void test_train_stop__metrics_that_are_not_finite_are_never_the_best(void **state)
{
    (void)state;
    assert_course((haul_early_stop){.patience = 2}, (const double[]){NAN, 5, -INFINITY, NAN}, ".*..");
    assert_course((haul_early_stop){.patience = 3, .rising = true}, (const double[]){INFINITY, NAN, NAN}, "...");
}

static void test_train_stop__without_patience_never_ends(void **state)
{
    (void)state;
    haul_early_stop stop = {.min_delta = 0};
    for (int64_t epoch = 1; epoch <= 1000; epoch++)
        haul_early_stop_update(&stop, epoch, (double)epoch);
    assert_false(haul_early_stop_is_due(&stop));
    assert_true(stop.best == 1 && stop.best_epoch == 1 && stop.stalled == 999);
}

static void test_train_stop__what_is_refused_changes_nothing(void **state)
{
    (void)state;
    haul_early_stop stop = {.patience = 1, .best_epoch = 1, .best = 2};
    assert_false(haul_early_stop_update(NULL, 1, 0));
    assert_message("stop is NULL");
    assert_false(haul_early_stop_is_due(NULL));
    assert_message("stop is NULL");
    assert_false(haul_early_stop_update(&stop, 0, 0));
    assert_message("epoch is 0");
    stop.min_delta = -1;
    assert_false(haul_early_stop_update(&stop, 2, 0));
    assert_message("min_delta is -1");
    stop.min_delta = NAN;
    assert_false(haul_early_stop_update(&stop, 2, 0));
    assert_message("min_delta is nan");
    assert_true(stop.best == 2 && stop.best_epoch == 1 && !stop.stalled);
}

/* ---- checkpoints ---- */

static void test_train_stop__goes_on_from_a_checkpoint(void **state)
{
    (void)state;
    haul_module    *net = haul_nn_linear(2, 2);
    haul_optimizer *sgd = haul_sgd(net, 0.1);
    haul_early_stop stop = {.patience = 3}, later = {.patience = 5, .min_delta = 0.125, .rising = true};
    haul_early_stop_update(&stop, 1, 0.1);
    haul_early_stop_update(&stop, 2, 0.3);
    haul_early_stop_update(&stop, 3, 0.2);
    assert_int_equal(haul_save_checkpoint("with.checkpoint", net, sgd, .stop = &stop), HAUL_OK);
    assert_int_equal(haul_load_checkpoint("with.checkpoint", net, sgd, .stop = &later), HAUL_OK);
    assert_true(later.best == 0.1 && later.best_epoch == 1 && later.stalled == 2);
    assert_true(later.patience == 5 && later.min_delta == 0.125 && later.rising); /* settings of the program */
    assert_int_equal(haul_load_checkpoint("with.checkpoint", net, sgd), HAUL_OK);
}

static void test_train_stop__checkpoints_that_do_not_fit(void **state)
{
    (void)state;
    haul_module    *net = haul_nn_linear(2, 2);
    haul_optimizer *sgd = haul_sgd(net, 0.1);
    haul_early_stop stop = {.patience = 3, .best_epoch = 4, .best = 1.5, .stalled = 1};
    assert_int_equal(haul_save_checkpoint("without.checkpoint", net, sgd), HAUL_OK);
    assert_int_equal(haul_load_checkpoint("without.checkpoint", net, sgd, .stop = &stop), HAUL_INVALID_ARGUMENT);
    assert_message("without.checkpoint was written without early stopping; leave .stop out");
    assert_true(stop.best == 1.5 && stop.best_epoch == 4 && stop.stalled == 1);
    stop.stalled = -1;
    assert_int_equal(haul_save_checkpoint("without.checkpoint", net, sgd, .stop = &stop), HAUL_INVALID_ARGUMENT);
    assert_message("stop.stalled is -1");
    stop = (haul_early_stop){.best_epoch = INT64_MAX};
    assert_int_equal(haul_save_checkpoint("without.checkpoint", net, sgd, .stop = &stop), HAUL_INVALID_ARGUMENT);
    assert_message("stop.best_epoch is 9223372036854775807");
}

/* The file's numbers are checked before anything changes. */
static void test_train_stop__numbers_that_no_training_has(void **state)
{
    (void)state;
    haul_module    *net = haul_nn_linear(1, 1);
    haul_optimizer *sgd = haul_sgd(net, 0.1);
    const double    wrong[][3] = {{1, -1, 0}, {1, 2, 0.5}, {1, NAN, 0}, {1, 0, 1e300}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        haul_early_stop stop = {.best_epoch = 7};
        assert_int_equal(haul_save_checkpoint("whole.checkpoint", net, sgd, .stop = &stop), HAUL_OK);
        haul_safetensors *file = haul_open_safetensors("whole.checkpoint");
        haul_named_tensor tensors[16];
        haul_file_tensor  entry;
        haul_text_pair    texts[16];
        const int         count = haul_safetensors_count(file), text_count = haul_safetensors_metadata_count(file);
        assert_true(count > 0 && count <= 16 && text_count > 0 && text_count <= 16);
        for (int k = 0; k < count; k++) {
            assert_int_equal(haul_safetensors_entry(file, k, &entry), HAUL_OK);
            haul_tensor *t = strcmp(entry.name, "stop") != 0 ? haul_safetensors_load(file, entry.name)
                                                             : haul_from_host(HAUL_F64, HAUL_SHAPE(3), wrong[i]);
            tensors[k] = (haul_named_tensor){.name = entry.name, .tensor = t};
        }
        for (int k = 0; k < text_count; k++)
            assert_int_equal(haul_safetensors_metadata_entry(file, k, &texts[k]), HAUL_OK);
        assert_int_equal(haul_save_safetensors("wrong.checkpoint", tensors, count, texts, text_count), HAUL_OK);
        assert_int_equal(haul_load_checkpoint("wrong.checkpoint", net, sgd, .stop = &stop), HAUL_FORMAT);
        assert_message("its early stopping has epoch");
        assert_int_equal(stop.best_epoch, 7);
    }
}

/* ---- the best weights ---- */

static haul_tensor *weight_of(haul_module *net)
{
    haul_named_tensor first;
    assert_true(haul_module_tensors(net, &first, 1) > 0);
    return haul_detach(first.tensor);
}

static void fill(haul_module *net, double value)
{
    assert_int_equal(haul_fill_into(weight_of(net), value), HAUL_OK);
}

static double value_of(haul_module *net)
{
    return haul_item(haul_slice(haul_reshape(weight_of(net), HAUL_SHAPE(-1)), 0, 0, 1, 1));
}

static void test_train_stop__keeps_and_restores_the_best_weights(void **state)
{
    (void)state;
    haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(3, 2), haul_nn_batch_norm(2));
    fill(net, 1);
    haul_best_weights *best = haul_best_weights_new(net);
    assert_non_null(best);
    fill(net, 2);
    assert_int_equal(haul_best_weights_restore(best), HAUL_OK);
    assert_true(value_of(net) == 1); /* those at the beginning */
    fill(net, 3);
    assert_int_equal(haul_best_weights_keep(best), HAUL_OK);
    fill(net, 4);
    assert_int_equal(haul_best_weights_restore(best), HAUL_OK);
    assert_true(value_of(net) == 3);
    fill(net, 5);
    assert_int_equal(haul_best_weights_restore(best), HAUL_OK);
    assert_true(value_of(net) == 3); /* they stay kept */
}

/* Running statistics are weights, too. */
static void test_train_stop__buffers_belong_to_the_weights(void **state)
{
    (void)state;
    haul_module       *net = haul_nn_batch_norm(2);
    haul_best_weights *best = haul_best_weights_new(net);
    haul_tensor       *mean = haul_module_buffer(net, "running_mean");
    haul_call(net, haul_full(HAUL_F32, HAUL_SHAPE(4, 2), 8), .mode = HAUL_TRAIN);
    assert_true(haul_item(haul_sum(mean)) > 0);
    assert_int_equal(haul_best_weights_restore(best), HAUL_OK);
    assert_true(haul_item(haul_sum(mean)) == 0);
}

/* Handles of parameters and the optimizer's state stay valid. */
static void test_train_stop__training_goes_on_with_restored_weights(void **state)
{
    (void)state;
    haul_module       *net = haul_nn_linear(2, 1);
    haul_optimizer    *sgd = haul_sgd(net, 0.5);
    haul_best_weights *best = haul_best_weights_new(net);
    haul_tensor       *x = haul_ones(HAUL_F32, HAUL_SHAPE(1, 2));
    fill(net, 1);
    haul_best_weights_keep(best);
    fill(net, 9);
    assert_int_equal(haul_best_weights_restore(best), HAUL_OK);
    assert_int_equal(haul_train_begin(sgd, NULL), HAUL_OK);
    assert_int_equal(haul_train_step(sgd, haul_sum(haul_call(net, x))), HAUL_OK);
    assert_true(value_of(net) == 0.5);
}

/* The copy needs its memory once, and gives it back with the scope. */
static void test_train_stop__memory_of_the_best_weights(void **state)
{
    (void)state;
    haul_module      *net = haul_nn_linear(64, 64);
    haul_device      *device = haul_tensor_device(weight_of(net));
    haul_memory_stats at_first, with, kept, after;
    haul_memory_stats_get(device, &at_first);
    haul_scope        *inner = haul_scope_push();
    haul_best_weights *best = haul_best_weights_new(net);
    haul_memory_stats_get(device, &with);
    assert_true(with.allocated >= at_first.allocated + 64 * 64 * 4);
    haul_best_weights_keep(best);
    haul_memory_stats_get(device, &kept);
    assert_int_equal(kept.allocated, with.allocated);
    haul_scope_pop(inner);
    haul_memory_stats_get(device, &after);
    assert_int_equal(after.allocated, at_first.allocated);
}

static void test_train_stop__best_weights_that_are_refused(void **state)
{
    (void)state;
    haul_module *net = haul_nn_linear(2, 2);
    assert_null(haul_best_weights_new(NULL));
    assert_message("haul_best_weights_new: module is NULL");
    assert_int_equal(haul_best_weights_keep(NULL), HAUL_INVALID_ARGUMENT);
    assert_message("haul_best_weights_keep: best is NULL");
    assert_int_equal(haul_best_weights_restore((haul_best_weights *)(void *)net), HAUL_INVALID_ARGUMENT);
    assert_message("best is a module linear, but a best-weights object is expected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_train_stop__counts_epochs_without_progress, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_stop__min_delta_is_the_least_progress, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_stop__metrics_that_are_not_finite_are_never_the_best, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_train_stop__without_patience_never_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_stop__what_is_refused_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_stop__goes_on_from_a_checkpoint, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_stop__checkpoints_that_do_not_fit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_stop__numbers_that_no_training_has, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_stop__keeps_and_restores_the_best_weights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_stop__buffers_belong_to_the_weights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_stop__training_goes_on_with_restored_weights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_stop__memory_of_the_best_weights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_stop__best_weights_that_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

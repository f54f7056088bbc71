/* Pieces that follow a recording: the bits of those that run as they are in one process, for networks with running
 * statistics, dropout and loss scaling, and after a piece that failed. By itself the program is a group of one rank, on
 * every device; tests/parallel/parallel_launchers.sh starts it on several.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parallel/flat.h"
#include "parallel/parts.h"
#include "parallel/piece.h"
#include "record/follow/recording.h"
#include "support/devices/each.h"

enum {
    FEATURES = 6,
    CLASSES = 3,
    PIECES = 8,
    SIZE = 3,
    EXAMPLES = 20,
    STEPS = 5,
    MOST_VALUES = 1024,
    MOST_TENSORS = 16
};

static haul_device *device;

static void check(haul_status status)
{
    if (status)
        fail_msg("%s", haul_error_message());
}

/* ---- a training ---- */

typedef struct form {
    bool normalises, scales;
    int  shard;
} form;

typedef struct training {
    haul_module      *net;
    haul_optimizer   *optimizer;
    haul_grad_scaler *scaler; /* NULL: none */
    haul_parallel    *parallel;
    haul_recording   *recording;
    haul_tensor      *x, *y;
    int               piece; /* the one under way */
} training;

static int64_t size_of(int piece)
{
    const int64_t left = EXAMPLES - piece * SIZE;
    return left > SIZE ? SIZE : left > 0 ? left : 0;
}

static haul_tensor *sum_of(const training *t)
{
    const int64_t first = t->piece * SIZE, end = first + size_of(t->piece);
    if (first >= end)
        return HAUL_NONE;
    haul_tensor *logits = haul_call(t->net, haul_slice(t->x, 0, first, end, 1));
    return haul_cross_entropy(logits, haul_slice(t->y, 0, first, end, 1), .reduction = HAUL_REDUCE_SUM);
}

static haul_status learn(void *context)
{
    const training *t = context;
    return haul__parallel_differentiate(t->parallel, sum_of(t), (double)size_of(t->piece));
}

/* The same network and data each time. */
static void make(training *t, haul_group *group, form f)
{
    haul_manual_seed(1);
    haul_set_device(device);
    t->piece = 0;
    haul_module *norm = f.normalises ? haul_nn_batch_norm(8) : haul_nn_dropout(0.3);
    t->net = HAUL_SEQUENTIAL(haul_nn_linear(FEATURES, 8), norm, haul_nn_relu(), haul_nn_linear(8, CLASSES));
    t->optimizer = haul_adamw(t->net, 0.01);
    t->scaler = f.scales ? haul_grad_scaler_new(t->optimizer, .init_scale = 1024) : NULL;
    t->parallel =
        haul_parallel_new(t->net, .group = group, .pieces = PIECES, .seed = 3, .scaler = t->scaler, .shard = f.shard);
    t->recording = haul_recording_new(learn, t, .variants = 12);
    t->x = haul_normal(HAUL_F32, HAUL_SHAPE(EXAMPLES, FEATURES), 0, 1);
    t->y = haul_randint(HAUL_I64, HAUL_SHAPE(EXAMPLES), 0, CLASSES);
    check(haul_error_status());
}

static haul_status follow(const training *t)
{
    const char *why = haul__parallel_unfollowed(t->parallel);
    return why ? haul__recording_run_as_it_is(t->recording, why) : haul_recording_run(t->recording);
}

static haul_status make_piece(training *t, int64_t step, bool follows)
{
    haul_scope *inner = haul_scope_push();
    haul_status status = haul_parallel_begin(t->parallel, step);
    if (!status && follows)
        status = haul__parallel_finish(t->parallel, follow(t));
    else if (!status)
        status = haul_parallel_backward(t->parallel, sum_of(t), (double)size_of(t->piece));
    haul_scope_pop(inner);
    return status;
}

/* Until a piece fails. */
static haul_status make_pieces(training *t, int64_t step, bool follows)
{
    const int   first = haul_parallel_first(t->parallel), end = first + haul_parallel_count(t->parallel);
    haul_status status = HAUL_OK;
    for (t->piece = first; t->piece < end && !status; t->piece++)
        status = make_piece(t, step, follows);
    assert_int_equal(haul_parallel_ready(t->parallel), !status);
    return status;
}

static void train(training *t, int first, int end, bool follows)
{
    for (int k = first; k < end; k++) {
        check(make_pieces(t, k, follows));
        check(haul_parallel_step(t->parallel, t->optimizer));
        if (t->scaler)
            check(haul_grad_scaler_update(t->scaler));
        check(haul_optimizer_zero_grad(t->optimizer));
    }
}

/* Parameters and floating buffers, then the loss of the last step. */
static int64_t read_all(const training *t, float *out)
{
    haul_named_tensor all[MOST_TENSORS];
    const int         n = haul_module_tensors(t->net, all, MOST_TENSORS);
    int64_t           count = 0;
    for (int i = 0; i < n; i++) {
        if (haul_tensor_dtype(all[i].tensor) != HAUL_F32)
            continue;
        assert_true(count + haul_tensor_count(all[i].tensor) < MOST_VALUES);
        check(haul_read(all[i].tensor, out + count, (size_t)haul_tensor_count(all[i].tensor) * sizeof *out));
        count += haul_tensor_count(all[i].tensor);
    }
    out[count++] = (float)haul_item(haul_parallel_loss(t->parallel));
    check(haul_error_status());
    return count;
}

static void assert_same(const training *a, const training *b)
{
    float         x[MOST_VALUES], y[MOST_VALUES];
    const int64_t count = read_all(a, x);
    assert_int_equal(read_all(b, y), count);
    assert_memory_equal(x, y, (size_t)count * sizeof *x);
}

static haul_recording_report report_of(const training *t)
{
    haul_recording_report r = {.followed = 0};
    check(haul_recording_report_get(t->recording, &r));
    return r;
}

/* ---- the same bits ---- */

/* With one bucket all pieces but the first one are followed, and with several none is. */
static void assert_followed(const training *t, bool one_bucket)
{
    const haul_recording_report r = report_of(t);
    const int                   all = STEPS * haul_parallel_count(t->parallel);
    assert_int_equal(r.followed, one_bucket ? all - 1 : 0);
    assert_int_equal(r.eager, one_bucket ? 1 : all);
    if (!one_bucket)
        assert_non_null(strstr(r.reason, "the gradients take more than 4 MiB"));
}

static void compare(form f, bool one_bucket)
{
    training one, t;
    haul__flat_bucket_bytes = one_bucket ? 4 << 20 : 64;
    make(&one, haul_group_get("none"), (form){.normalises = f.normalises, .scales = f.scales});
    make(&t, haul_group_get("auto"), f);
    train(&one, 0, STEPS, false);
    train(&t, 0, STEPS, true);
    assert_same(&one, &t);
    assert_followed(&t, one_bucket);
    haul__flat_bucket_bytes = 4 << 20;
}

static void test_parallel_followed__pieces_have_the_bits_of_those_that_run_as_they_are(void **state)
{
    (void)state;
    for (int k = 0; k < 8; k++) {
        haul_scope *inner = haul_scope_push();
        compare((form){.normalises = k & 1, .scales = k & 2}, k & 4);
        haul_scope_pop(inner);
    }
}

static void test_parallel_followed__shards_have_them_too(void **state)
{
    (void)state;
    if (haul_group_size(haul_group_get("auto")) == 1)
        return; /* nothing is divided */
    for (int k = 0; k < 6; k++) {
        haul_scope *inner = haul_scope_push();
        haul__parts_whole = 20;
        compare((form){.normalises = true, .shard = 1 + k / 2}, k & 1);
        haul__parts_whole = 32 << 10;
        haul_scope_pop(inner);
    }
}

/* Steps of both kinds, in turns. */
static void test_parallel_followed__steps_of_both_kinds_mix(void **state)
{
    (void)state;
    training    one, t;
    haul_scope *inner = haul_scope_push();
    make(&one, haul_group_get("none"), (form){.normalises = true});
    make(&t, haul_group_get("auto"), (form){.normalises = true});
    train(&one, 0, 4, false);
    for (int k = 0; k < 4; k++)
        train(&t, k, k + 1, k % 2 == 0);
    assert_same(&one, &t);
    haul_scope_pop(inner);
}

/* ---- failures ---- */

/* Without other ranks the step begins anew. */
static void test_parallel_followed__a_piece_that_fails_begins_the_step_anew(void **state)
{
    (void)state;
    training    one, t;
    haul_scope *inner = haul_scope_push();
    make(&one, haul_group_get("none"), (form){.normalises = true});
    make(&t, haul_group_get("none"), (form){.normalises = true});
    train(&one, 0, STEPS, false);
    train(&t, 0, 2, true);
    haul_tensor *const good = t.y;
    t.y = haul_clone(good);
    check(haul_fill_into(haul_slice(t.y, 0, 4 * SIZE, 4 * SIZE + 1, 1), CLASSES));
    haul_status status = make_pieces(&t, 2, true);
    /* On a device an index is checked later. */
    status = status ? status : haul_device_sync(device);
    assert_int_not_equal(status, HAUL_OK);
    haul_error_clear();
    t.y = good;
    if (!haul_parallel_ready(t.parallel)) {
        train(&t, 2, STEPS, true);
        assert_same(&one, &t);
    }
    haul_scope_pop(inner);
}

static void test_parallel_followed__wrong_calls_are_refused(void **state)
{
    (void)state;
    training    t;
    haul_scope *inner = haul_scope_push();
    make(&t, haul_group_get("none"), (form){.normalises = true});
    assert_int_equal(learn(&t), HAUL_STATE);
    assert_non_null(strstr(haul_error_message(), "no piece was begun"));
    haul_error_clear();
    assert_int_equal(haul__parallel_finish(t.parallel, HAUL_OK), HAUL_STATE);
    haul_error_clear();
    check(haul_parallel_begin(t.parallel, 0));
    assert_int_equal(haul__parallel_differentiate(t.parallel, HAUL_NONE, 3), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul__parallel_finish(t.parallel, HAUL_INVALID_ARGUMENT), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    train(&t, 0, 2, true);
    haul_scope_pop(inner);
}

int main(void)
{
#define T(name) cmocka_unit_test(test_parallel_followed__##name)
    const struct CMUnitTest tests[] = {
        T(pieces_have_the_bits_of_those_that_run_as_they_are),
        T(shards_have_them_too),
        T(steps_of_both_kinds_mix),
        T(a_piece_that_fails_begins_the_step_anew),
        T(wrong_calls_are_refused),
    };
    return run_on_devices(tests, &device);
}

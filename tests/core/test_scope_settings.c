/* Settings that a scope has for itself, so that requests of one process do not disturb each other: the generator that
 * its draws come from, and the number of threads.
 *
 * ctest: cuda; labels=concurrency,threads; processors=2 */
#include "base/alloc.h"
#include "core/pool.h"
#include "support/linalg.h"

#include <pthread.h>
#include <unistd.h>

/* ---- generators ---- */

enum { DRAWN = 37 };

/* One draw of each kind, as f64. */
static haul_tensor *all_draws(void)
{
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(DRAWN));
    haul_tensor *all[] = {haul_uniform(HAUL_F64, HAUL_SHAPE(DRAWN), -1, 1),
                          haul_normal(HAUL_F64, HAUL_SHAPE(DRAWN), 0, 1),
                          haul_cast(haul_randint(HAUL_I64, HAUL_SHAPE(DRAWN), -50, 50), HAUL_F64),
                          haul_cast(haul_random_bits(HAUL_SHAPE(DRAWN)), HAUL_F64),
                          haul_cast(haul_permutation(DRAWN), HAUL_F64),
                          haul_cast(haul_dropout(x, 0.5, true), HAUL_F64)};
    return haul_cat(all, 6, 0);
}

static void read_draws(double *out)
{
    assert_int_equal(read_values(all_draws(), out, 6 * DRAWN), HAUL_OK);
}

static void draws_are_the_generators(haul_device *device)
{
    double want[6 * DRAWN], got[6 * DRAWN];
    haul_set_device(device);
    haul_manual_seed(11);
    read_draws(want);
    haul_random_state after = haul_random_state_get();
    haul_manual_seed(5);
    haul_generator *g = haul_generator_new(11);
    haul_scope     *scope = haul_scope_push();
    assert_int_equal(haul_set_generator(g), HAUL_OK);
    assert_ptr_equal(haul_current_generator(), g);
    read_draws(got);
    assert_memory_equal(got, want, sizeof want);
    assert_true(haul_generator_state_get(g).seed == 11 && haul_generator_state_get(g).offset == after.offset);
    assert_true(haul_random_state_get().seed == 5 && haul_random_state_get().offset == 0);
    haul_scope_pop(scope);
    assert_null(haul_current_generator());
    read_draws(got); /* the process's */
    assert_memory_not_equal(got, want, sizeof want);
    assert_true(haul_random_state_get().offset == after.offset);
    assert_true(haul_generator_state_get(g).offset == after.offset);
}

static void test_scope_settings__draws_are_the_generators(void **state)
{
    (void)state;
    on_devices(draws_are_the_generators);
}

static uint64_t offset_of(haul_generator *g)
{
    return haul_generator_state_get(g).offset;
}

static void draw_one(void)
{
    assert_valid(haul_random_bits(HAUL_SHAPE(4)));
}

static void test_scope_settings__generators_of_nested_scopes(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    haul_generator *a = haul_generator_new(1), *b = haul_generator_new(2);
    haul_manual_seed(0);
    haul_set_generator(a);
    haul_scope *inner = haul_scope_push();
    draw_one(); /* a: of the scope outside */
    haul_set_generator(b);
    draw_one();
    haul_set_generator(a);
    haul_set_generator(b); /* again, after others */
    haul_scope *innermost = haul_scope_push();
    haul_set_generator(NULL);
    draw_one(); /* the process's */
    haul_scope_pop(innermost);
    draw_one();
    haul_scope_pop(inner);
    assert_ptr_equal(haul_current_generator(), a);
    draw_one();
    assert_int_equal(offset_of(a), 2);
    assert_int_equal(offset_of(b), 2);
    assert_int_equal(haul_random_state_get().offset, 1);
    haul_scope_pop(scope);
}

/* The scope that uses a generator holds it, and lets go of it. */
static void test_scope_settings__a_generator_in_use_is_held(void **state)
{
    (void)state;
    haul_scope *warm = haul_scope_push();
    draw_one();
    haul_scope_pop(warm);
    int64_t     before = haul__host_blocks();
    haul_scope *scope = haul_scope_push();
    for (int i = 0; i < 3; i++) {
        haul_generator *g = haul_generator_new((uint64_t)i);
        assert_int_equal(haul_set_generator(g), HAUL_OK);
        assert_int_equal(haul_drop(g), HAUL_OK);
        draw_one();
        assert_int_equal(offset_of(haul_current_generator()), 1);
    }
    haul_scope_pop(scope);
    assert_int_equal(haul__host_blocks(), before);
}

static void test_scope_settings__state_of_a_generator(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    haul_generator *g = haul_generator_new(3);
    haul_set_generator(g);
    haul_uniform(HAUL_F32, HAUL_SHAPE(9), 0, 1);
    haul_random_state here = haul_generator_state_get(g);
    assert_true(here.seed == 3 && here.offset == 3);
    double a = haul_item(haul_normal(HAUL_F64, HAUL_SCALAR_SHAPE, 0, 1));
    assert_int_equal(haul_generator_state_set(g, here), HAUL_OK);
    assert_true(a == haul_item(haul_normal(HAUL_F64, HAUL_SCALAR_SHAPE, 0, 1)));
    here = haul_generator_state_get(g);
    haul_manual_seed(9); /* the process's, whatever is in use */
    assert_failed(haul_uniform(HAUL_I32, HAUL_SHAPE(3), 0, 1));
    assert_true(haul_generator_state_get(g).seed == 3 && offset_of(g) == here.offset);
    haul_scope_pop(scope);
    haul_error_clear();
}

static void test_scope_settings__wrong_generators(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    haul_tensor    *x = haul_ones(HAUL_F32, HAUL_SHAPE(2));
    haul_generator *g = haul_generator_new(1);
    haul_set_generator(g);
    assert_int_equal(haul_set_generator((haul_generator *)x), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "tensor f32[2]"));
    haul_error_clear();
    assert_int_equal(haul_generator_state_set(NULL, (haul_random_state){1, 1}), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_generator_state_get((haul_generator *)x).seed, 0);
    assert_ptr_equal(haul_current_generator(), g);
    haul_error_clear();
    haul_scope_pop(scope);
}

/* A failed operation gives what it took back to the generator it took it from. */
static void test_scope_settings__failures_give_back(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    haul_generator *g = haul_generator_new(6);
    haul_tensor    *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(9)), true);
    haul_manual_seed(6); /* the same seed: it must not be taken for the process's */
    haul_set_generator(g);
    int failures = 0;
    for (int64_t nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_DEVICE, nth);
        haul_tensor *y = haul_dropout(x, 0.5, true);
        bool         reached = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        if (!reached)
            break;
        failures += is_failed(y);
        if (haul_tensor_is_valid(y))
            haul_generator_state_set(g, (haul_random_state){6, 0});
        haul_error_clear();
        assert_int_equal(offset_of(g), 0);
    }
    assert_true(failures > 1);
    assert_int_equal(haul_random_state_get().offset, 0);
    haul_scope_pop(scope);
}

/* The backward pass draws the mask again after the generator's scope is over. */
static void mask_again(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(40, 5)), true), *g;
    haul_scope  *scope = haul_scope_push();
    haul_set_generator(haul_generator_new(77));
    haul_tensor *y = haul_scope_return(scope, haul_dropout(x, 0.25, true));
    assert_int_equal(haul_grad(y, &x, 1, &g, .seed = haul_ones_like(y)), HAUL_OK);
    assert_float_equal(haul_item(haul_max(haul_abs(haul_sub(g, y)))), 0, 0);
    haul_manual_seed(77);
    assert_float_equal(haul_item(haul_max(haul_abs(haul_sub(haul_dropout(x, 0.25, true), y)))), 0, 0);
}

static void test_scope_settings__gradients_draw_the_mask_again(void **state)
{
    (void)state;
    on_devices(mask_again);
}

static void test_scope_settings__layers_begin_with_the_generator(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    haul_manual_seed(4);
    haul_tensor *want = haul_module_parameter(haul_nn_linear(6, 5), "weight");
    haul_set_generator(haul_generator_new(4));
    haul_tensor *got = haul_module_parameter(haul_nn_linear(6, 5), "weight");
    assert_float_equal(haul_item(haul_sum(haul_abs(haul_sub(got, want)))), 0, 0);
    haul_scope_pop(scope);
}

static haul_status draw_in_dry_run(void *context)
{
    haul_generator *g = context;
    haul_status     status = haul_set_generator(g);
    haul_generator_state_set(g, (haul_random_state){1, 1});
    return status ? status : haul_tensor_check(haul_uniform(HAUL_F32, HAUL_SHAPE(100), 0, 1));
}

static void test_scope_settings__a_dry_run_draws_nothing(void **state)
{
    (void)state;
    haul_scope          *scope = haul_scope_push();
    haul_generator      *g = haul_generator_new(8);
    haul_estimate_result r;
    haul_manual_seed(3);
    assert_int_equal(haul_estimate(draw_in_dry_run, g, &r), HAUL_OK);
    haul_estimate_free(&r);
    assert_true(haul_generator_state_get(g).seed == 8 && offset_of(g) == 0);
    assert_int_equal(haul_random_state_get().offset, 0);
    assert_null(haul_current_generator());
    haul_scope_pop(scope);
}

static haul_status draw_normal(void *context)
{
    return haul_normal_into(context, 0, 1);
}

/* Each step moves on from where the generator is. */
static void followed_draws(haul_device *device)
{
    enum { STEPS = 4 };
    haul_recording_report report;
    haul_set_device(device);
    haul_set_grad_enabled(false);
    haul_generator *g = haul_generator_new(7);
    haul_tensor    *noise = haul_zeros(HAUL_F32, HAUL_SHAPE(DRAWN));
    haul_recording *r = haul_recording_new(draw_normal, noise);
    haul_set_generator(g);
    for (uint64_t i = 0; i < STEPS; i++) {
        haul_generator_state_set(g, (haul_random_state){7, i * 1000});
        haul_tensor            *want = haul_normal(HAUL_F32, HAUL_SHAPE(DRAWN), 0, 1);
        const haul_random_state after = haul_generator_state_get(g);
        haul_generator_state_set(g, (haul_random_state){7, i * 1000});
        assert_int_equal(haul_recording_run(r), HAUL_OK);
        assert_int_equal(offset_of(g), after.offset);
        assert_float_equal(haul_item(haul_max(haul_abs(haul_sub(noise, want)))), 0, 0);
    }
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    assert_int_equal(report.followed, STEPS - 1);
}

static void test_scope_settings__followed_steps_draw_from_the_generator(void **state)
{
    (void)state;
    on_devices(followed_draws);
}

/* ---- several threads ---- */

enum { THREADS = 4, ROUNDS = 200 };

static void run_all(void *(*run)(void *))
{
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

static double sum_of_draws(uint64_t seed)
{
    haul_scope *scope = haul_scope_push();
    haul_set_generator(haul_generator_new(seed));
    double sum = 0;
    for (int i = 0; i < 3; i++)
        sum += haul_item(haul_sum(haul_uniform(HAUL_F64, HAUL_SHAPE(50), 0, 1)));
    haul_scope_pop(scope);
    return sum;
}

static double alone[8];

static void *draw_by_seed(void *context)
{
    intptr_t wrong = 0;
    for (intptr_t round = 0; round < ROUNDS; round++) {
        const intptr_t seed = (round + (intptr_t)context) % 8;
        wrong += sum_of_draws((uint64_t)seed) != alone[seed];
    }
    return (void *)wrong;
}

static void test_scope_settings__threads_draw_from_their_own(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++)
        alone[seed] = sum_of_draws(seed);
    run_all(draw_by_seed);
}

static haul_generator *shared;

static void *draw_from_shared(void *context)
{
    (void)context;
    haul_scope *scope = haul_scope_push();
    intptr_t    wrong = haul_set_generator(shared) != HAUL_OK;
    for (int i = 0; i < ROUNDS; i++)
        wrong += !haul_tensor_is_valid(haul_random_bits(HAUL_SHAPE(4)));
    haul_scope_pop(scope);
    return (void *)wrong;
}

/* In no determined order, but no draw is lost or made twice. */
static void test_scope_settings__threads_share_a_generator(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    shared = haul_generator_new(1);
    run_all(draw_from_shared);
    assert_int_equal(offset_of(shared), THREADS * ROUNDS);
    haul_scope_pop(scope);
}

/* What a thread set without a scope goes when the thread ends. */
static void *set_without_scope(void *context)
{
    return (void *)(intptr_t)(context ? 0 : haul_set_generator(shared) != HAUL_OK);
}

static void test_scope_settings__a_generator_without_a_scope(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    shared = haul_generator_new(1);
    run_all(set_without_scope);
    assert_int_equal(atomic_load(&((haul__object *)(void *)shared)->refs), 1);
    haul_scope_pop(scope);
}

/* ---- numbers of threads ---- */

enum { PIECES = 64 };

/* The threads that took part in a job. */
typedef struct crew {
    pthread_mutex_t lock;
    pthread_t       ids[PIECES];
    int             count, done;
} crew;

static void sign_in(void *context, int64_t first, int64_t last)
{
    crew *c = context;
    pthread_mutex_lock(&c->lock);
    int i = 0;
    while (i < c->count && !pthread_equal(c->ids[i], pthread_self()))
        i++;
    c->ids[i] = pthread_self();
    c->count += i == c->count;
    c->done += (int)(last - first);
    pthread_mutex_unlock(&c->lock);
    usleep(50); /* that others have time to come */
}

static int crew_of_job(void)
{
    crew c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    haul__parallel_for(PIECES, 1, sign_in, &c);
    return c.done == PIECES ? c.count : -1;
}

/* Pieces that wait for each other end only if as many threads run them. */
static void meet(void *context, int64_t first, int64_t last)
{
    (void)first, (void)last;
    pthread_barrier_wait(context);
}

static void threads_meet(int threads)
{
    pthread_barrier_t barrier;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, (unsigned)threads), 0);
    haul__parallel_for(threads, 1, meet, &barrier);
    pthread_barrier_destroy(&barrier);
}

static void test_scope_settings__threads_of_a_scope(void **state)
{
    (void)state;
    haul_scope *outer = haul_scope_push();
    assert_int_equal(haul_set_num_threads(4), HAUL_OK);
    for (int threads = 1; threads <= 6; threads++) { /* fewer and more than the process's number */
        haul_scope *scope = haul_scope_push();
        assert_int_equal(haul_set_scope_threads(threads), HAUL_OK);
        assert_int_equal(haul_num_threads(), threads);
        threads_meet(threads);
        for (int i = 0; i < 20; i++) {
            int took_part = crew_of_job();
            assert_true(took_part >= 1 && took_part <= threads);
        }
        haul_scope *inner = haul_scope_push();
        haul_set_scope_threads(0);
        assert_int_equal(haul_num_threads(), 4);
        threads_meet(4);
        haul_scope_pop(inner);
        assert_int_equal(haul_num_threads(), threads);
        haul_scope_pop(scope);
        assert_int_equal(haul_num_threads(), 4);
        assert_true(crew_of_job() <= 4);
    }
    assert_int_equal(haul_set_num_threads(1), HAUL_OK);
    assert_int_equal(crew_of_job(), 1);
    haul_set_scope_threads(3); /* in a process that computes with one */
    threads_meet(3);
    assert_int_equal(haul_set_scope_threads(-1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_set_scope_threads(1025), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_num_threads(), 3);
    haul_error_clear();
    haul_set_num_threads(0);
    haul_scope_pop(outer);
}

/* Sums of products, whose work is cut into pieces. */
static double computed(void)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *a = haul_reshape(haul_arange(HAUL_F32, 0, 60000, 1), HAUL_SHAPE(200, 300));
    haul_tensor *b = haul_sin(haul_matmul(a, haul_transpose(a, 0, 1)));
    double       sum = haul_item(haul_sum(haul_mul(b, haul_softmax(b, 1))));
    haul_scope_pop(scope);
    return sum;
}

static double computed_before;

static void *compute_with_threads(void *context)
{
    intptr_t wrong = 0;
    for (int i = 0; i < 20; i++) {
        haul_scope *scope = haul_scope_push();
        wrong += haul_set_scope_threads(((int)(intptr_t)context + i) % 5) != HAUL_OK;
        wrong += computed() != computed_before;
        haul_scope_pop(scope);
        int took_part = crew_of_job();
        wrong += took_part < 1 || took_part > 3;
    }
    return (void *)wrong;
}

static void test_scope_settings__results_do_not_depend_on_threads(void **state)
{
    (void)state;
    haul_set_num_threads(3);
    computed_before = computed();
    run_all(compute_with_threads);
    haul_set_num_threads(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scope_settings__draws_are_the_generators),
        cmocka_unit_test(test_scope_settings__generators_of_nested_scopes),
        cmocka_unit_test(test_scope_settings__a_generator_in_use_is_held),
        cmocka_unit_test(test_scope_settings__state_of_a_generator),
        cmocka_unit_test(test_scope_settings__wrong_generators),
        cmocka_unit_test(test_scope_settings__failures_give_back),
        cmocka_unit_test(test_scope_settings__gradients_draw_the_mask_again),
        cmocka_unit_test(test_scope_settings__layers_begin_with_the_generator),
        cmocka_unit_test(test_scope_settings__a_dry_run_draws_nothing),
        cmocka_unit_test(test_scope_settings__followed_steps_draw_from_the_generator),
        cmocka_unit_test(test_scope_settings__threads_draw_from_their_own),
        cmocka_unit_test(test_scope_settings__threads_share_a_generator),
        cmocka_unit_test(test_scope_settings__a_generator_without_a_scope),
        cmocka_unit_test(test_scope_settings__threads_of_a_scope),
        cmocka_unit_test(test_scope_settings__results_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests_name("scope_settings", tests, NULL, NULL);
}

/* Calls that work in the child of a fork, and calls that are refused there (docs/guide.md, "Fork").
 *
 * ctest: cuda */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/residency.h"
#include "memory/allocator_state.h"
#include "memory/spill/spill.h"
#include "support/calm.h"

enum { SECONDS = 900 }; /* after which a child that hangs is killed */

/* ---- children ---- */

#define WRONG_UNLESS(condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return #condition;                                                                                         \
    } while (0)

typedef const char *child(void *context); /* NULL, or the fault */

/* With AddressSanitizer, two things are not tried. Its allocator does not watch forks: a lock of it that another thread
 * holds at that moment stays taken in the child. And LeakSanitizer looks for the parent's threads in a child that ends
 * by exit, and may wait for them. */
#ifdef __SANITIZE_ADDRESS__
enum { MAY_EXIT = false, MAY_FORK_WHILE_BUSY = false };
#else
enum { MAY_EXIT = true, MAY_FORK_WHILE_BUSY = true };
#endif

static void run_child(child *run, void *context, bool clean_end)
{
    int status;
    fflush(NULL);
    if (!MAY_FORK_WHILE_BUSY)
        wait_for_other_threads();
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(SECONDS);
        const char *wrong = run(context);
        if (wrong)
            fprintf(stderr, "child: not so: %s (%s)\n", wrong, haul_error_message());
        if (MAY_EXIT && clean_end && !wrong)
            exit(0);
        _exit(wrong ? 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        fail_msg("the child was ended by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void in_child(child *run, void *context)
{
    run_child(run, context, false);
}

static bool last_error_is(haul_status status, const char *text)
{
    return haul_error_status() == status && strstr(haul_error_message(), text);
}

/* ---- the CPU ---- */

enum { MANY = 1 << 18 };

/* The sum of squares of ones, by several threads. */
static double sum_of_many(void)
{
    haul_scope *scope = haul_scope_push();
    double      sum = haul_item(haul_sum(haul_square(haul_ones(HAUL_F32, HAUL_SHAPE(MANY)))));
    haul_scope_pop(scope);
    return sum;
}

static const char *sums_again(void *context)
{
    (void)context;
    WRONG_UNLESS(sum_of_many() == MANY);
    WRONG_UNLESS(haul_set_num_threads(3) == HAUL_OK);
    WRONG_UNLESS(sum_of_many() == MANY);
    return NULL;
}

static void test_fork__operations_use_threads_in_the_child(void **state)
{
    (void)state;
    assert_int_equal(haul_set_num_threads(4), HAUL_OK);
    assert_true(sum_of_many() == MANY);
    in_child(sums_again, NULL);
    assert_true(sum_of_many() == MANY);
    run_child(sums_again, NULL, true);
    assert_true(sum_of_many() == MANY);
}

static const char *forks_again(void *context)
{
    int         status;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(sums_again(context) ? 1 : 0);
    WRONG_UNLESS(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return sums_again(context);
}

static void test_fork__a_child_may_fork(void **state)
{
    (void)state;
    assert_true(sum_of_many() == MANY);
    in_child(forks_again, NULL);
}

typedef struct inherited {
    haul_scope  *scope;
    haul_tensor *t;
} inherited;

static const char *uses_what_it_inherits(void *context)
{
    inherited *i = context;
    WRONG_UNLESS(last_error_is(HAUL_SHAPE, "haul_add"));
    haul_error_clear();
    WRONG_UNLESS(haul_scope_depth() == 1);
    WRONG_UNLESS(haul_item(haul_sum(i->t)) == 6);
    WRONG_UNLESS(haul_drop(i->t) == HAUL_OK);
    WRONG_UNLESS(haul_scope_pop(i->scope) == HAUL_OK);
    WRONG_UNLESS(haul_scope_depth() == 0);
    return NULL;
}

static void test_fork__errors_scopes_and_tensors_are_inherited(void **state)
{
    (void)state;
    inherited i = {.scope = haul_scope_push()};
    i.t = haul_from_host(HAUL_F32, HAUL_SHAPE(3), (float[]){1, 2, 3});
    haul_add(i.t, haul_ones(HAUL_F32, HAUL_SHAPE(2)));
    assert_int_equal(haul_error_status(), HAUL_SHAPE);
    in_child(uses_what_it_inherits, &i);
    haul_error_clear();
    assert_true(haul_item(haul_sum(i.t)) == 6);
    haul_scope_pop(i.scope);
}

/* ---- training ---- */

typedef struct training {
    haul_module    *net;
    haul_optimizer *optimizer;
    haul_loader    *loader;
} training;

static double train_epoch(training *t)
{
    double total = 0;
    if (haul_loader_start(t->loader, 1))
        return -1;
    for (const haul_batch *b; (b = haul_loader_next(t->loader)) != NULL;) {
        haul_scope  *scope = haul_scope_push();
        haul_tensor *loss = haul_bce_with_logits(haul_call(t->net, b->x), b->y);
        haul_backward(loss);
        haul_optimizer_step(t->optimizer);
        haul_optimizer_zero_grad(t->optimizer);
        total += haul_item(loss);
        haul_scope_pop(scope);
    }
    return haul_error_status() ? -1 : total;
}

static const char *drops_the_loader(void *context)
{
    training *t = context;
    WRONG_UNLESS(haul_loader_next(t->loader) == NULL);
    WRONG_UNLESS(last_error_is(HAUL_STATE, "before this process was forked"));
    haul_error_clear();
    WRONG_UNLESS(haul_drop(t->loader) == HAUL_OK);
    return NULL;
}

static const char *trains_on(void *context)
{
    double loss = train_epoch(context);
    WRONG_UNLESS(loss > 0);
    return NULL;
}

static const char *pops_all(void *context)
{
    WRONG_UNLESS(haul_scope_pop(context) == HAUL_OK);
    return NULL;
}

static void test_fork__a_loader_is_dropped_or_begun_again_in_the_child(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    haul_dataset *blobs = haul_blobs(512);
    training      t = {.net = haul_nn_linear(10, 1)};
    t.optimizer = haul_sgd(t.net, 0.01);
    t.loader = haul_loader_new(blobs, .batch = 4, .workers = 3);
    assert_int_equal(haul_loader_start(t.loader, 0), HAUL_OK);
    assert_non_null(haul_loader_next(t.loader));
    in_child(drops_the_loader, &t);
    in_child(trains_on, &t);
    in_child(pops_all, scope);
    int left = 0;
    while (haul_loader_next(t.loader))
        left++;
    assert_int_equal(left, 512 / 4 - 1);
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_true(train_epoch(&t) > 0);
    haul_scope_pop(scope);
}

/* ---- what the library's threads do at that moment ---- */

enum { BUSY_EXAMPLES = 1 << 20, FORKS = 200 };

/* An example for which a loader's worker takes memory, draws random numbers and computes. */
static haul_status read_busily(void *context, haul_example *e)
{
    (void)context;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *t = haul_cast(haul_normal(HAUL_F32, HAUL_SHAPE(64), 0, 1), HAUL_F64);
    haul_status  status = haul_read(haul_cast(t, HAUL_F32), e->fields[0].data, 64 * sizeof(float));
    haul_scope_pop(scope);
    return status;
}

static const char *uses_what_they_use(void *context)
{
    haul_scope *scope = haul_scope_push();
    (void)context;
    for (int64_t n = 1; n <= 1 << 18; n *= 2)
        WRONG_UNLESS(haul_item(haul_sum(haul_cast(haul_ones(HAUL_F32, HAUL_SHAPE(n)), HAUL_F64))) == (double)n);
    WRONG_UNLESS(haul_item(haul_sum(haul_uniform(HAUL_F32, HAUL_SHAPE(64), 0, 1))) < 64);
    haul_memory_stats stats;
    WRONG_UNLESS(haul_memory_stats_get(haul_cpu(), &stats) == HAUL_OK && stats.allocated > 0);
    WRONG_UNLESS(haul_scope_pop(scope) == HAUL_OK);
    return NULL;
}

/* A child finds no lock taken by a thread that it does not have. */
static void test_fork__children_of_a_process_with_busy_threads_do_not_wait(void **state)
{
    (void)state;
    if (!MAY_FORK_WHILE_BUSY)
        skip();
    haul_scope   *scope = haul_scope_push();
    haul_dataset *busy = haul_dataset_new(&(haul_dataset_source){
        .fields = {{.name = "x", .dtype = HAUL_F32, .shape = HAUL_SHAPE(64)}},
        .count = BUSY_EXAMPLES,
        .name = "busy",
        .read = read_busily,
    });
    haul_loader  *loader = haul_loader_new(busy, .batch = 8, .workers = 3);
    assert_int_equal(haul_loader_start(loader, 0), HAUL_OK);
    for (int i = 0; i < FORKS; i++) {
        assert_non_null(haul_loader_next(loader)); /* wakes the workers */
        in_child(uses_what_they_use, NULL);
    }
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul_scope_pop(scope);
}

/* ---- other devices ---- */

/* Of the device to test: that of a stand-in, or OpenCL's. */
static const char *device_name(void)
{
    const char *devices = getenv("HAUL_TEST_DEVICES");
    return devices && strstr(devices, "cuda:0") ? "cuda:0" : "opencl:0";
}

static const char *computes_there(void *context)
{
    haul_scope  *scope = haul_scope_push();
    haul_device *device = haul_device_get(device_name());
    (void)context;
    if (!haul_device_is_valid(device))
        return NULL; /* there is none */
    WRONG_UNLESS(haul_item(haul_sum(haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(5)), device))) == 5);
    haul_scope_pop(scope);
    return NULL;
}

/* The first test: this process has not looked for the device. */
static void test_fork__a_device_may_be_used_first_in_the_child(void **state)
{
    (void)state;
    assert_true(sum_of_many() == MANY);
    in_child(computes_there, NULL);
}

typedef struct elsewhere {
    haul_scope   *scope;
    haul_device  *device;
    haul_tensor  *t;
    haul_loader  *loader;
    haul_dataset *data;
} elsewhere;

static const char *is_refused(void *context)
{
    elsewhere *e = context;
    float      host[5];
#define REFUSED(call)                                                                                                  \
    do {                                                                                                               \
        haul_error_clear();                                                                                            \
        (void)(call);                                                                                                  \
        if (!last_error_is(HAUL_STATE, "before this process was forked"))                                              \
            return #call;                                                                                              \
    } while (0)
    REFUSED(haul_add(e->t, e->t));
    REFUSED(haul_item(haul_sum(e->t)));
    REFUSED(haul_read(e->t, host, sizeof host));
    REFUSED(haul_to(e->t, haul_cpu()));
    REFUSED(haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(5)), e->device));
    REFUSED(haul_fill_into(e->t, 1));
    REFUSED(haul_device_sync(e->device));
    REFUSED(haul_set_device(haul_device_get(device_name())));
    REFUSED(haul_print(e->t));
    REFUSED(haul_loader_new(e->data, .device = e->device));
    REFUSED(haul_loader_next(e->loader));
    haul_error_clear();
    WRONG_UNLESS(!haul_device_is_valid(e->device));
    WRONG_UNLESS(haul_device_list(NULL, 0) > 0);
    WRONG_UNLESS(haul_device_is_valid(haul_device_get("auto")) && haul_device_get("auto") != e->device);
    WRONG_UNLESS(haul_tensor_dim(e->t, 0) == 5);
    WRONG_UNLESS(sum_of_many() == MANY);
    WRONG_UNLESS(haul_drop(e->t) == HAUL_OK);
    WRONG_UNLESS(haul_drop(e->loader) == HAUL_OK);
    WRONG_UNLESS(haul_scope_pop(e->scope) == HAUL_OK);
    WRONG_UNLESS(sum_of_many() == MANY);
    return NULL;
}

static sem_t entered, may_leave;

static void *submits(void *context)
{
    (void)context;
    haul__residency_enter(&(haul__command){0});
    sem_post(&entered);
    sem_wait(&may_leave);
    haul__residency_leave();
    return NULL;
}

static const char *moves_memory(void *context)
{
    (void)context;
    alarm(60);
    WRONG_UNLESS(haul__residency_take());
    haul__residency_stop();
    haul__residency_give();
    return NULL;
}

/* A thread of the parent submits a command while the process forks. */
static void test_fork__memory_may_be_moved_in_the_child(void **state)
{
    pthread_t thread;
    (void)state;
    assert_true(sum_of_many() == MANY);
    assert_int_equal(sem_init(&entered, 0, 0) | sem_init(&may_leave, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, submits, NULL), 0);
    assert_int_equal(sem_wait(&entered), 0);
    in_child(moves_memory, NULL);
    sem_post(&may_leave);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void test_fork__a_device_of_the_parent_is_refused_in_the_child(void **state)
{
    (void)state;
    elsewhere e = {.scope = haul_scope_push(), .device = haul_device_get(device_name())};
    if (!haul_device_is_valid(e.device)) {
        haul_scope_pop(e.scope);
        skip();
    }
    e.t = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(5)), e.device);
    assert_true(haul_item(haul_sum(haul_add(e.t, e.t))) == 10);
    e.data = haul_blobs(64);
    e.loader = haul_loader_new(e.data, .batch = 4, .workers = 2, .device = e.device);
    assert_int_equal(haul_loader_start(e.loader, 0), HAUL_OK);
    assert_non_null(haul_loader_next(e.loader));
    haul_add(e.t, e.t); /* under way while the process forks */
    in_child(is_refused, &e);
    run_child(is_refused, &e, true);
    assert_true(haul_item(haul_sum(haul_add(e.t, e.t))) == 10);
    int left = 0;
    while (haul_loader_next(e.loader))
        left++;
    assert_int_equal(left, 15);
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul_scope_pop(e.scope);
}

static const char *counts_nothing(void *context)
{
    elsewhere               *e = context;
    const haul_memory_stats *stats = &atomic_load(&e->device->allocator)->stats;
    WRONG_UNLESS(haul_drop(e->loader) == HAUL_OK);
    WRONG_UNLESS(haul_scope_pop(e->scope) == HAUL_OK);
    WRONG_UNLESS(stats->allocated >= 0 && stats->spilled == 0);
    return NULL;
}

static void test_fork__a_loader_whose_batches_were_moved_away_is_dropped_in_the_child(void **state)
{
    (void)state;
    elsewhere e = {.scope = haul_scope_push(), .device = haul_device_get(device_name())};
    if (!haul_device_is_valid(e.device)) {
        haul_scope_pop(e.scope);
        skip();
    }
    e.loader = haul_loader_new(haul_blobs(64), .batch = 4, .device = e.device);
    assert_int_equal(haul_loader_start(e.loader, 0), HAUL_OK);
    assert_non_null(haul_loader_next(e.loader));
    assert_int_equal(haul_device_sync(e.device), HAUL_OK);
    assert_int_equal(haul_memory_set_spill(e.device, true), HAUL_OK);
    struct haul__allocator *allocator = atomic_load(&e.device->allocator);
    assert_true(haul__spill(allocator, MANY) > 0);
    assert_true(allocator->stats.spilled > 0);
    in_child(counts_nothing, &e);
    haul_scope_pop(e.scope);
    assert_int_equal(haul_memory_set_spill(e.device, false), HAUL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fork__a_device_may_be_used_first_in_the_child),
        cmocka_unit_test(test_fork__operations_use_threads_in_the_child),
        cmocka_unit_test(test_fork__a_child_may_fork),
        cmocka_unit_test(test_fork__errors_scopes_and_tensors_are_inherited),
        cmocka_unit_test(test_fork__a_loader_is_dropped_or_begun_again_in_the_child),
        cmocka_unit_test(test_fork__children_of_a_process_with_busy_threads_do_not_wait),
        cmocka_unit_test(test_fork__memory_may_be_moved_in_the_child),
        cmocka_unit_test(test_fork__a_device_of_the_parent_is_refused_in_the_child),
        cmocka_unit_test(test_fork__a_loader_whose_batches_were_moved_away_is_dropped_in_the_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Recordings in the child of a fork, and on another thread than the one that made them. */
#include <haul/haul.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/bits.h"

enum { FEATURES = 8, BATCH = 16, STEPS = 8, EARLY = 4 };

typedef struct training {
    haul_module    *net;
    haul_optimizer *optimizer;
    haul_tensor    *x;
} training;

/* Two trainings, the recording of the second one, and its steps from `next` to `end`. */
typedef struct pair {
    training        eager, recorded;
    haul_recording *recording;
    int             next, end;
} pair;

static haul_status step(void *context)
{
    training   *t = context;
    haul_status status = haul_backward(haul_mean(haul_square(haul_call(t->net, t->x))), .once = true);
    if (!status)
        status = haul_optimizer_step(t->optimizer);
    return status ? status : haul_optimizer_zero_grad(t->optimizer);
}

static void make(training *t)
{
    haul_manual_seed(3);
    t->net = HAUL_SEQUENTIAL(haul_nn_linear(FEATURES, FEATURES), haul_nn_relu(), haul_nn_linear(FEATURES, 1));
    t->optimizer = haul_adam(t->net, 0.01);
}

/* The steps up to `end`; false after a difference or an error, which a child and a thread cannot report themselves. */
static bool make_steps(pair *p)
{
    static const char *const layers[] = {"0", "2"};
    bool                     same = true;
    for (; same && p->next < p->end; p->next++) {
        haul_scope *scope = haul_scope_push();
        haul_manual_seed(100 + (uint64_t)p->next);
        p->eager.x = p->recorded.x = haul_normal(HAUL_F32, HAUL_SHAPE(BATCH, FEATURES), 0, 1);
        same = !step(&p->eager) && !haul_recording_run(p->recording);
        for (int layer = 0; same && layer < 2; layer++) {
            haul_tensor *a = haul_module_parameter(haul_module_child(p->eager.net, layers[layer]), "weight");
            haul_tensor *b = haul_module_parameter(haul_module_child(p->recorded.net, layers[layer]), "weight");
            same = haul_item(haul_sum(haul_cast(haul_ne(haul_detach(a), haul_detach(b)), HAUL_F32))) == 0;
        }
        haul_scope_pop(scope);
    }
    return same && !haul_error_status();
}

static bool all_followed(const pair *p)
{
    haul_recording_report report;
    return !haul_recording_report_get(p->recording, &report) && report.followed == p->next - 1;
}

static void begin(pair *p)
{
    *p = (pair){.end = EARLY};
    make(&p->eager);
    make(&p->recorded);
    p->recording = haul_recording_new(step, &p->recorded);
    assert_true(make_steps(p) && all_followed(p));
    p->end = STEPS;
}

static void test_recording_processes__both_go_on_after_a_fork(void **state)
{
    (void)state;
    int         status;
    pair        p;
    haul_scope *scope = haul_scope_push();
    begin(&p);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(make_steps(&p) && all_followed(&p) ? 0 : 1);
    assert_true(make_steps(&p) && all_followed(&p));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    haul_scope_pop(scope);
}

static void *run_steps(void *context)
{
    return make_steps(context) ? context : NULL;
}

static void test_recording_processes__another_thread_may_run_it(void **state)
{
    (void)state;
    void       *done;
    pthread_t   thread;
    pair        p;
    haul_scope *scope = haul_scope_push();
    begin(&p);
    assert_int_equal(pthread_create(&thread, NULL, run_steps, &p), 0);
    assert_int_equal(pthread_join(thread, &done), 0);
    assert_ptr_equal(done, &p);
    assert_true(all_followed(&p));
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recording_processes__both_go_on_after_a_fork),
        cmocka_unit_test(test_recording_processes__another_thread_may_run_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

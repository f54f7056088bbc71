/* Functions of the program that the library calls: they cannot close the scopes of their callers, nor change what the
 * library relies on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <pthread.h>
#include <string.h>

#include "support/failure.h"

static haul_scope *outer;    /* of the caller */
static int         refusals; /* how often it could not be closed */

static void trespass(void)
{
    refusals += haul_scope_pop(outer) == HAUL_STATE;
    refusals += !haul_scope_return(outer, NULL);
    haul_error_clear();
}

/* ---- functions that close the scope of their caller ---- */

static haul_tensor *forward(haul_module *self, haul_args *args)
{
    (void)self;
    trespass();
    return haul_relu(args->x[0]);
}

static haul_status hook(haul_module *module, haul_args *args, void *context)
{
    (void)module, (void)args, (void)context;
    trespass();
    return HAUL_OK;
}

static haul_tensor *function(haul_tensor *const *inputs, int count, void *context)
{
    (void)count;
    if (!context || ++*(int *)context == 2)
        trespass();
    return haul_square(inputs[0]);
}

static haul_status compose(const haul_custom_call *c, haul_tensor *const *x, haul_tensor **y)
{
    (void)c;
    trespass();
    y[0] = haul_exp(x[0]);
    return HAUL_OK;
}

static haul_status compose_well(const haul_custom_call *c, haul_tensor *const *x, haul_tensor **y)
{
    (void)c;
    y[0] = haul_exp(x[0]);
    return HAUL_OK;
}

static haul_status infer(haul_custom_call *c)
{
    trespass();
    c->results[0] = c->operands[0];
    return HAUL_OK;
}

static haul_status host(const haul_custom_call *c)
{
    trespass();
    memcpy(c->results[0].data, c->operands[0].data, (size_t)c->operands[0].count * sizeof(float));
    return HAUL_OK;
}

static haul_status host_well(const haul_custom_call *c)
{
    memcpy(c->results[0].data, c->operands[0].data, (size_t)c->operands[0].count * sizeof(float));
    return HAUL_OK;
}

static void gradient(haul_custom_gradient *g)
{
    trespass();
    g->operands[0] = g->results[0];
}

#define DESCRIPTOR(id, ...)                                                                                            \
    static haul_custom_operation id = {.name = "callbacks_" #id, .operands = {{"x"}}, .results = {{"y"}}, __VA_ARGS__}

DESCRIPTOR(composed, .compose = compose);
DESCRIPTOR(inferred, .infer = infer, .host = host_well);
DESCRIPTOR(hosted, .host = host);
DESCRIPTOR(derived, .compose = compose_well, .gradient = gradient);

static haul_status step(void *context)
{
    (void)context;
    trespass();
    return HAUL_OK;
}

static haul_status read_example(void *context, haul_example *e)
{
    *(float *)e->fields[0].data = (float)e->index;
    if (context)
        trespass();
    return HAUL_OK;
}

static haul_status transform(void *context, haul_example *e)
{
    (void)context, (void)e;
    trespass();
    return HAUL_OK;
}

static haul_status plan(void *context, haul_field *fields, int *count)
{
    (void)context, (void)fields, (void)count;
    trespass();
    return HAUL_OK;
}

static void release(void *context)
{
    (void)context;
    trespass();
}

static haul_status copy_state(void *to, const void *from)
{
    (void)to, (void)from;
    trespass();
    return HAUL_OK;
}

static void take(const haul_event *e, void *context)
{
    (void)e, (void)context;
    trespass();
}

/* ---- what calls them ---- */

static haul_tensor *leaf(void)
{
    return haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(3)), true);
}

static haul_status first(const haul_batch *b)
{
    return b ? HAUL_OK : haul_error_status();
}

static haul_dataset *numbers(void *context)
{
    return haul_dataset_new(&(haul_dataset_source){
        .fields = {{.name = "x", .dtype = HAUL_F32}}, .count = 4, .read = read_example, .context = context});
}

static haul_status load(haul_dataset *d)
{
    haul_loader *l = haul_loader_new(d, .batch = 2);
    haul_status  status = haul_loader_start(l, 0);
    return status ? status : first(haul_loader_next(l));
}

static haul_status with_hook(void)
{
    haul_module *m = haul_nn_relu();
    haul_module_add_hook(m, .after = hook);
    return haul_tensor_check(haul_call(m, leaf()));
}

static haul_status run_again(void)
{
    int          calls = 0;
    haul_tensor *x = leaf(), *y = haul_checkpoint(function, &x, 1, &calls);
    return haul_backward(haul_sum(y));
}

static haul_status checkpoint(void)
{
    haul_tensor *x = leaf();
    return haul_tensor_check(haul_checkpoint(function, &x, 1, NULL));
}

static haul_status grad_check(void)
{
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F64, HAUL_SHAPE(2)), true);
    return haul_grad_check(function, &x, 1, NULL);
}

static haul_status map_with_plan(void)
{
    return haul_dataset_map(numbers(NULL), haul_transform_new(transform, .fields = plan)) ? HAUL_OK
                                                                                          : haul_error_status();
}

static haul_status copy(void)
{
    haul_module *m = haul_module_new("cloned", forward, .state_bytes = 4, .destroy = release, .clone = copy_state);
    return haul_module_clone(m) ? HAUL_OK : haul_error_status();
}

static haul_status estimate(void)
{
    haul_estimate_result r;
    haul_status          status = haul_estimate(step, NULL, &r);
    haul_estimate_free(&r);
    return status;
}

static void expect_refused(haul_status status, const char *what)
{
    if (status != HAUL_STATE || !strstr(haul_error_message(), "closed a scope that it did not open"))
        fail_msg("%s: status %d, %s", what, (int)status, haul_error_message());
    if (!refusals || haul_scope_depth() != 1)
        fail_msg("%s: %d refusals, depth %d", what, refusals, haul_scope_depth());
    refusals = 0;
    haul_error_clear();
}

static void test_callbacks__functions_cannot_close_the_scopes_of_their_callers(void **state)
{
    (void)state;
    outer = haul_scope_push();
    haul_tensor *x = leaf();
    expect_refused(haul_tensor_check(haul_call(haul_module_new("m", forward), x)), "forward");
    expect_refused(with_hook(), "hook");
    expect_refused(checkpoint(), "haul_checkpoint");
    expect_refused(run_again(), "the second run");
    expect_refused(grad_check(), "haul_grad_check");
    expect_refused(haul_tensor_check(haul_apply(&composed, NULL, x)), "compose");
    expect_refused(haul_tensor_check(haul_apply(&inferred, NULL, haul_detach(x))), "infer");
    expect_refused(haul_tensor_check(haul_apply(&hosted, NULL, haul_detach(x))), "host");
    expect_refused(haul_backward(haul_sum(haul_apply(&derived, NULL, x))), "gradient");
    expect_refused(estimate(), "haul_estimate");
    expect_refused(load(numbers(&refusals)), "read");
    expect_refused(load(haul_dataset_map(numbers(NULL), haul_transform_new(transform))), "transform");
    expect_refused(map_with_plan(), "fields of a transform");
    expect_refused(copy(), "clone");
    assert_int_equal(haul_item(haul_sum(x)), 3);
    haul_scope_pop(outer);
}

/* They run while objects end, also those of the scope that they try to close. */
static void test_callbacks__nor_can_functions_that_free_memory(void **state)
{
    (void)state;
    static float values[2];
    outer = haul_scope_push();
    refusals = 0;
    haul_wrap_host(HAUL_F32, HAUL_SHAPE(2), values, release, NULL);
    haul_module_new("m", forward, .state_bytes = 4, .destroy = release);
    haul_transform_new(transform, .close = release);
    assert_int_equal(haul_scope_pop(outer), HAUL_OK);
    assert_int_equal(refusals, 6);
    assert_int_equal(haul_scope_depth(), 0);
}

static void test_callbacks__nor_can_subscribers(void **state)
{
    (void)state;
    outer = haul_scope_push();
    haul_tensor *x = leaf();
    refusals = 0;
    for (int everywhere = 0; everywhere < 2; everywhere++) {
        int64_t id = haul_events_subscribe(take, .kinds = HAUL_EVENT_OPERATION, .everywhere = everywhere);
        assert_valid(haul_relu(x));
        haul_events_unsubscribe(id);
    }
    assert_int_equal(refusals, 8);
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_int_equal(haul_scope_depth(), 1);
    haul_scope_pop(outer);
}

/* Its own scopes are its own, and calls may nest. */
static haul_tensor *nested(haul_module *self, haul_args *args)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *y = args->x[0];
    (void)self;
    if (haul_tensor_count(y) < 5)
        y = haul_call(self, haul_cat((haul_tensor *[]){y, haul_ones(HAUL_F32, HAUL_SHAPE(1))}, 2, 0));
    return haul_scope_return(scope, haul_mul_scalar(y, 1));
}

static void test_callbacks__a_function_closes_its_own_scopes(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_module *m = haul_module_new("nested", nested);
    haul_tensor *y = haul_call(m, haul_ones(HAUL_F32, HAUL_SHAPE(1)));
    assert_valid(y);
    assert_int_equal(haul_tensor_count(y), 5);
    assert_int_equal(haul_scope_pop(scope), HAUL_OK);
}

/* ---- subscribers ---- */

static jmp_buf back;
static int     labels;

static void leave(const haul_event *e, void *context)
{
    (void)e;
    if (pthread_equal(pthread_self(), *(const pthread_t *)context))
        longjmp(back, 1);
    labels++;
}

static void *label_apart(void *context)
{
    haul_label_begin("apart");
    haul_label_end();
    return context;
}

/* A call whose subscriber is left loses what it had allocated for itself. */
#if defined(__SANITIZE_ADDRESS__)
void __lsan_disable(void);
void __lsan_enable(void);
#define LOSING(call) (__lsan_disable(), (call))
#define LEFT_TWICE() (__lsan_enable(), __lsan_enable())
#else
#define LOSING(call) (call)
#define LEFT_TWICE() ((void)0)
#endif

static void test_callbacks__a_subscriber_that_is_left_keeps_no_thread_waiting(void **state)
{
    (void)state;
    const pthread_t here = pthread_self();
    pthread_t       other;
    const int64_t   id =
        haul_events_subscribe(leave, .kinds = HAUL_EVENT_LABEL_BEGIN, .context = (void *)&here, .everywhere = true);
    labels = 0;
    if (!setjmp(back)) {
        LOSING(haul_label_begin("here"));
        fail_msg("the subscriber was not called");
    }
    assert_int_equal(pthread_create(&other, NULL, label_apart, NULL), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(labels, 1);
    if (!setjmp(back)) { /* this thread hears events again */
        LOSING(haul_label_begin("here"));
        fail_msg("the subscriber was not called again");
    }
    LEFT_TWICE();
    assert_int_equal(haul_events_unsubscribe(id), HAUL_OK);
    haul_label_begin("here");
    assert_int_equal(haul_label_end(), HAUL_OK);
    assert_int_equal(haul_scope_depth(), 0);
}

typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    int             inside;
} meeting;

/* Returns once two threads are in here. */
static void meet(const haul_event *e, void *context)
{
    meeting *m = context;
    (void)e;
    pthread_mutex_lock(&m->lock);
    m->inside++;
    pthread_cond_broadcast(&m->changed);
    while (m->inside < 2)
        pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

static void test_callbacks__threads_call_a_subscriber_at_the_same_time(void **state)
{
    (void)state;
    meeting       m = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t     other;
    const int64_t id = haul_events_subscribe(meet, .kinds = HAUL_EVENT_LABEL_BEGIN, .context = &m, .everywhere = true);
    assert_int_equal(pthread_create(&other, NULL, label_apart, NULL), 0);
    haul_label_begin("here");
    assert_int_equal(pthread_join(other, NULL), 0);
    haul_label_end();
    assert_int_equal(m.inside, 2);
    assert_int_equal(haul_events_unsubscribe(id), HAUL_OK);
}

typedef struct seen {
    int events, recording, good;
} seen;

/* A graph of its own. */
static void differentiate(const haul_event *e, void *context)
{
    seen        *s = context;
    haul_tensor *x = leaf();
    (void)e;
    s->events++;
    s->recording += haul_grad_enabled();
    s->good += haul_backward(haul_sum(haul_square(x))) == HAUL_OK && haul_item(haul_sum(haul_tensor_grad(x))) == 6;
}

static haul_tensor *square_again(haul_tensor *const *inputs, int count, void *context)
{
    (void)count, (void)context;
    return haul_square(inputs[0]);
}

static void work(void)
{
    haul_module    *net = haul_nn_linear(3, 3);
    haul_optimizer *sgd = haul_sgd(net, 0.1);
    haul_tensor    *y = haul_softmax(haul_call(net, haul_ones(HAUL_F32, HAUL_SHAPE(3, 3))), -1);
    y = haul_checkpoint(square_again, &y, 1, NULL);
    assert_int_equal(haul_backward(haul_sum(haul_square(y))), HAUL_OK);
    assert_int_equal(haul_optimizer_step(sgd), HAUL_OK);
}

static void test_callbacks__a_subscriber_has_the_settings_of_the_program(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    for (int recording = 0; recording < 2; recording++) {
        seen          s = {.events = 0};
        haul_tensor  *x = haul_ones(HAUL_F32, HAUL_SHAPE(3, 3));
        const bool    before = haul_set_grad_enabled(recording);
        const int64_t id = haul_events_subscribe(differentiate, .context = &s);
        if (recording)
            work();
        else
            assert_valid(haul_softmax(haul_matmul(x, x), -1));
        haul_events_unsubscribe(id);
        haul_set_grad_enabled(before);
        assert_true(s.events > 10);
        assert_int_equal(s.recording, recording ? s.events : 0);
        assert_int_equal(s.good, recording ? s.events : 0);
    }
    haul_scope_pop(scope);
    haul_error_clear();
}

/* ---- examples ---- */

typedef struct lie {
    const char *words;
    int         number;
} lie;

static haul_loader *own_loader;

static haul_status read_lie(void *context, haul_example *e)
{
    const lie   *l = context;
    static float elsewhere[4];
    float       *y = haul_example_resize(e, 1, HAUL_F32, HAUL_SHAPE(2));
    y[0] = y[1] = 1;
    switch (l->number) {
    case 0: e->fields[1].shape.dims[0] = (int64_t)1 << 30; break;
    case 1: e->fields[1].shape.dims[0] = 1; break;
    case 2: e->fields[1].shape.ndim = 77; break;
    case 3: e->fields[0].shape.ndim = 1; break;
    case 4: e->fields[1].data = elsewhere; break;
    case 5: e->fields[0].data = NULL; break;
    case 6: e->fields[1].dtype = HAUL_F64; break;
    case 7: e->count = 99; break;
    case 8: e->haul__memory = NULL; break;
    case 9: e->fields[1].name = NULL; break;
    case 10: return first(haul_loader_next(own_loader));
    case 11: return haul_loader_start(own_loader, 1);
    }
    return HAUL_OK;
}

static haul_status read_well(void *context, haul_example *e)
{
    (void)context;
    return haul_example_resize(e, 1, HAUL_F32, HAUL_SHAPE(2)) ? HAUL_OK : haul_error_status();
}

static haul_dataset *varying(haul_example_function *read, void *context)
{
    return haul_dataset_new(&(haul_dataset_source){
        .fields = {{.name = "x", .dtype = HAUL_F32}, {.name = "y", .dtype = HAUL_F32, .shape = {1, {-1}}}},
        .count = 4,
        .name = "lies",
        .read = read,
        .context = context});
}

static void expect_lie(haul_dataset *d, const lie *l, int workers)
{
    haul_error_clear();
    own_loader = haul_loader_new(d, .batch = 2, .workers = workers);
    assert_int_equal(haul_loader_start(own_loader, 0), HAUL_OK);
    assert_null(haul_loader_next(own_loader));
    if (!strstr(haul_error_message(), l->words))
        fail_msg("lie %d, %d workers: \"%s\" does not say \"%s\"", l->number, workers, haul_error_message(), l->words);
    haul_drop(own_loader);
}

static void test_callbacks__examples_change_only_by_resizing(void **state)
{
    (void)state;
    static const lie lies[] = {{"y of example 0 of lies is f32[1073741824], but its memory is for f32[2]", 0},
                               {"y of example 0 of lies is f32[1], but its memory is for f32[2]", 1},
                               {"its memory is for f32[2]", 2},
                               {"its memory is for f32[]", 3},
                               {"the data of y of example 0 of lies points to other memory", 4},
                               {"the data of x of example 0 of lies points to other memory", 5},
                               {"y of example 0 of lies is f64[2], but its memory is for f32[2]", 6},
                               {"example 0 of lies has 99 fields; 2 were declared", 7},
                               {"haul__memory of example 0 of lies was changed", 8},
                               {"the name of y of example 0 of lies was changed", 9},
                               {"haul_loader_next: the loader is making a batch", 10},
                               {"haul_loader_start: the loader is making a batch", 11}};
    haul_scope      *scope = haul_scope_push();
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        for (int workers = 0; workers < 3; workers += 2) {
            expect_lie(varying(read_lie, (void *)&lies[i]), &lies[i], workers);
            expect_lie(
                haul_dataset_map(varying(read_well, NULL), haul_transform_new(read_lie, .context = (void *)&lies[i])),
                &lies[i], workers);
        }
    haul_scope_pop(scope);
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_callbacks__functions_cannot_close_the_scopes_of_their_callers),
        cmocka_unit_test(test_callbacks__nor_can_functions_that_free_memory),
        cmocka_unit_test(test_callbacks__nor_can_subscribers),
        cmocka_unit_test(test_callbacks__a_function_closes_its_own_scopes),
        cmocka_unit_test(test_callbacks__a_subscriber_that_is_left_keeps_no_thread_waiting),
        cmocka_unit_test(test_callbacks__threads_call_a_subscriber_at_the_same_time),
        cmocka_unit_test(test_callbacks__a_subscriber_has_the_settings_of_the_program),
        cmocka_unit_test(test_callbacks__examples_change_only_by_resizing),
    };
    return cmocka_run_group_tests_name("callbacks", tests, NULL, NULL);
}

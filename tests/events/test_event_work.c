/* What events say of operations, of gradients and of the work that consists of operations.
 * ctest: cuda; env=POCL_DEVICES=pthread pthread */
#include <string.h>

#include "support/record.h"

static const kept *find(const record *r, haul_event_kind kind, const char *operation, const char *text)
{
    assert_in_range(r->count, 1, KEPT);
    for (int i = 0; i < r->count; i++)
        if (r->events[i].e.kind == kind && !strcmp(r->events[i].operation, operation) &&
            (!text || !strcmp(r->events[i].text, text)))
            return &r->events[i];
    fail_msg("there is no %s of %s %s", haul_event_kind_name(kind), operation, text ? text : "");
    return NULL;
}

/* ---- operations ---- */

static void test_event_work__operations_tell_what_they_computed(void **state)
{
    static record r;
    (void)state;
    for (int d = 0; d < device_count; d++) {
        haul_tensor *a = haul_to(iota(8, 16), devices[d]), *b = haul_to(iota(16, 4), devices[d]);
        int64_t      id = listen_to(&r, HAUL_EVENT_OPERATION_END);
        haul_tensor *c = haul_matmul(a, b), *e = haul_exp(c), *v = haul_transpose(c, 0, 1);
        assert_failed(haul_matmul(a, a));
        stop(id);
        haul_error_clear();
        const kept *product = find(&r, HAUL_EVENT_OPERATION_END, "haul_matmul", NULL);
        assert_ptr_equal(product->e.device, devices[d]);
        assert_true(product->e.flops == 2. * 8 * 16 * 4);
        assert_int_equal(product->e.bytes, 4 * (8 * 16 + 16 * 4 + 8 * 4));
        assert_int_equal(product->x_count, 2);
        assert_ptr_equal(product->x[0], a);
        assert_ptr_equal(product->x[1], b);
        assert_int_equal(product->y_count, 1);
        assert_ptr_equal(product->y[0], c);
        assert_int_equal(product->e.node, 0);
        const kept *row = find(&r, HAUL_EVENT_OPERATION_END, "haul_exp", NULL);
        assert_true(row->e.flops > 0);
        assert_int_equal(row->e.bytes, 2 * 4 * 8 * 4);
        assert_ptr_equal(row->y[0], e);
        const kept *view = find(&r, HAUL_EVENT_OPERATION_END, "haul_transpose", NULL);
        assert_true(view->e.flops == 0 && view->e.bytes == 0);
        assert_ptr_equal(view->y[0], v);
        const kept *failed = &r.events[r.count - 1];
        assert_string_equal(failed->operation, "haul_matmul");
        assert_int_equal(failed->x_count + failed->y_count, 0);
        assert_true(failed->e.flops == 0);
    }
}

static void test_event_work__many_operands_are_cut(void **state)
{
    static record r;
    haul_tensor  *parts[20];
    (void)state;
    for (int i = 0; i < 20; i++)
        parts[i] = iota(1, 3);
    int64_t id = listen_to(&r, HAUL_EVENT_OPERATION_END);
    assert_valid(haul_cat(parts, 20, 0));
    stop(id);
    const kept *joined = find(&r, HAUL_EVENT_OPERATION_END, "haul_cat", NULL);
    assert_int_equal(joined->x_count, 16);
    assert_ptr_equal(joined->x[15], parts[15]);
}

/* ---- commands ---- */

static void test_event_work__commands_name_their_kernels(void **state)
{
    static record r;
    (void)state;
    for (int d = 0; d < device_count; d++) {
        haul_tensor *x = haul_to(iota(4, 8), devices[d]);
        int64_t      id = listen_to(&r, HAUL_EVENT_COMMAND_DONE);
        assert_valid(haul_exp(x));
        haul_device_sync(devices[d]);
        stop(id);
        const kept *exp = find(&r, HAUL_EVENT_COMMAND_DONE, "haul_exp", "launch");
        assert_string_equal(exp->kernel, "exp_f32");
        assert_true(exp->e.submitted > 0 && exp->e.submitted <= exp->e.time);
    }
}

/* ---- gradients ---- */

static haul_module *network(haul_device *device)
{
    haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(16, 8), haul_nn_relu(), haul_nn_linear(8, 1));
    assert_int_equal(haul_module_to(net, device), HAUL_OK);
    return net;
}

static void test_event_work__gradients_name_the_module_and_the_node(void **state)
{
    static record r;
    (void)state;
    for (int d = 0; d < device_count; d++) {
        haul_module *net = network(devices[d]);
        haul_tensor *x = haul_to(iota(4, 16), devices[d]);
        int64_t      id = listen_to(&r, HAUL_EVENT_OPERATION_END | HAUL_EVENT_WORK);
        haul_tensor *loss = haul_mean(haul_call(net, x));
        assert_int_equal(haul_backward(loss), HAUL_OK);
        stop(id);
        const kept *pass = find(&r, HAUL_EVENT_WORK_END, "haul_backward", "backward pass");
        assert_string_equal(pass->origin, "");
        assert_true(pass->e.duration > 0);
        const char *const layers[] = {"2", "0"}; /* the pass goes backwards */
        int               seen = 0;
        for (int i = 0; i < r.count; i++) {
            const kept *k = &r.events[i];
            if (k->e.kind != HAUL_EVENT_WORK_END || strcmp(k->operation, "haul_linear") != 0)
                continue;
            assert_in_range(seen, 0, 1);
            assert_string_equal(k->text, "gradient");
            assert_string_equal(k->origin, layers[seen++]);
            assert_int_equal(k->e.depth, pass->e.depth + 1);
            bool made = false;
            for (int m = 0; m < i; m++)
                made = made || (r.events[m].e.node == k->e.node && !strcmp(r.events[m].operation, "haul_linear") &&
                                r.events[m].e.kind == HAUL_EVENT_OPERATION_END);
            assert_true(made && k->e.node > 0);
        }
        assert_int_equal(seen, 2);
        assert_string_equal(find(&r, HAUL_EVENT_OPERATION_END, "haul_linear_backward", NULL)->origin, "2");
    }
}

/* ---- other work ---- */

static void test_event_work__steps_and_batches(void **state)
{
    static record r;
    (void)state;
    haul_module    *net = HAUL_SEQUENTIAL(haul_nn_linear(10, 1));
    haul_optimizer *sgd = haul_sgd(net, 0.1);
    haul_loader    *loader = haul_loader_new(haul_blobs(8), .batch = 8);
    int64_t         id = listen_to(&r, HAUL_EVENT_WORK);
    assert_int_equal(haul_loader_start(loader, 0), HAUL_OK);
    const haul_batch *b = haul_loader_next(loader);
    assert_non_null(b);
    assert_int_equal(haul_backward(haul_mean(haul_call(net, b->x))), HAUL_OK);
    assert_int_equal(haul_optimizer_step(sgd), HAUL_OK);
    stop(id);
    const kept *next_batch = find(&r, HAUL_EVENT_WORK_END, "haul_loader_next", "next batch");
    const kept *made = find(&r, HAUL_EVENT_WORK_END, "haul_loader_next", "batch made");
    assert_int_equal(next_batch->e.depth, 0);
    assert_int_equal(made->e.depth, 1); /* without workers the thread makes it itself */
    assert_true(made->e.duration <= next_batch->e.duration);
    assert_int_equal(find(&r, HAUL_EVENT_WORK_END, "haul_optimizer_step", "optimizer step")->e.depth, 0);
    assert_int_equal(count_of(&r, HAUL_EVENT_WORK_BEGIN), count_of(&r, HAUL_EVENT_WORK_END));
}

/* ---- copies ---- */

static void test_event_work__copies_say_where_they_lie(void **state)
{
    static record r;
    (void)state;
    for (int d = 1; d < device_count; d++) {
        haul_tensor *x = iota(4, 8);
        float        values[32];
        int64_t      id = listen_to(&r, HAUL_EVENT_COPY);
        haul_tensor *y = haul_to(x, devices[d]);
        assert_int_equal(haul_read(y, values, sizeof values), HAUL_OK);
        stop(id);
        const kept *up = find(&r, HAUL_EVENT_COPY_TO_DEVICE, "haul_to", NULL);
        const kept *down = find(&r, HAUL_EVENT_COPY_TO_HOST, "haul_read", NULL);
        assert_ptr_equal(up->e.host, x->storage->buffer.host);
        assert_true(up->e.settled);
        assert_ptr_equal(down->e.host, values);
        assert_true(up->e.storage > 0);
        assert_int_equal(up->e.storage, down->e.storage);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EVENT_TEST(test_event_work__operations_tell_what_they_computed),
        EVENT_TEST(test_event_work__many_operands_are_cut),
        EVENT_TEST(test_event_work__commands_name_their_kernels),
        EVENT_TEST(test_event_work__gradients_name_the_module_and_the_node),
        EVENT_TEST(test_event_work__steps_and_batches),
        EVENT_TEST(test_event_work__copies_say_where_they_lie),
    };
    return run_moves("event_work", tests, sizeof tests / sizeof *tests);
}

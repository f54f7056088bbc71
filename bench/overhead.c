/* What an operation costs on the CPU apart from its arithmetic: single operations on a few elements, and training steps
 * of networks from tiny to large. bench/against compares them with another commit's, so this file uses only functions
 * that have long been public. */
#include "support/bench.h"

static haul_tensor    *a, *b, *weight, *bias;
static haul_module    *net;
static haul_optimizer *optimizer;

static bool open_numbers(const bench_case *c)
{
    (void)c;
    a = haul_full(HAUL_F32, HAUL_SHAPE(1, 1), 1);
    b = haul_full(HAUL_F32, HAUL_SHAPE(1, 1), 2);
    return !haul_error_status();
}

static bool open_recorded(const bench_case *c)
{
    return open_numbers(c) && haul_requires_grad(haul_set_requires_grad(a, true));
}

static bool open_row(const bench_case *c)
{
    (void)c;
    a = haul_uniform(HAUL_F32, HAUL_SHAPE(1, 10), -1, 1);
    weight = haul_uniform(HAUL_F32, HAUL_SHAPE(16, 10), -1, 1);
    bias = haul_uniform(HAUL_F32, HAUL_SHAPE(16), -1, 1);
    return !haul_error_status();
}

static bool run_into(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        haul_add_into(a, a, b);
    return !haul_error_status();
}

/* The operation of the case, with its result dropped at once. */
static bool run_dropped(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        haul_drop(c->op(a));
    return !haul_error_status();
}

static haul_tensor *add_b(haul_tensor *x)
{
    return haul_add(x, b);
}

static haul_tensor *softmax(haul_tensor *x)
{
    return haul_softmax(x, -1);
}

static haul_tensor *reshape(haul_tensor *x)
{
    return haul_reshape(x, HAUL_SHAPE(2, 5));
}

static haul_tensor *linear(haul_tensor *x)
{
    return haul_linear(x, weight, .bias = bias);
}

/* ---- training steps; the case's size is the batch ---- */

static bool open_net(const char *model)
{
    haul_manual_seed(0);
    net = haul_model_new(model);
    optimizer = haul_sgd(net, 0.01, .momentum = 0.9);
    return !haul_error_status();
}

static bool open_dense(const bench_case *c)
{
    if (!open_net("dense"))
        return false;
    a = haul_uniform(HAUL_F32, HAUL_SHAPE(c->size, 10), -1, 1);
    b = haul_uniform(HAUL_F32, HAUL_SHAPE(c->size, 1), -1, 1);
    return !haul_error_status();
}

static bool open_pictures(const bench_case *c)
{
    if (!open_net(c->context))
        return false;
    a = haul_uniform(HAUL_F32, HAUL_SHAPE(c->size, 3, 32, 32), -1, 1);
    b = haul_randint(HAUL_I64, HAUL_SHAPE(c->size), 0, 10);
    return !haul_error_status();
}

/* Older commits, with which this file is compared, have no events, or no ledger. */
#ifdef HAUL_EVENTS_H
static int64_t listener;

static void hear(const haul_event *e, void *context)
{
    (void)e;
    (void)context;
}

static bool open_heard(const bench_case *c)
{
    listener = haul_events_subscribe(hear, .everywhere = true);
    return listener && open_pictures(c);
}

static void close_heard(void)
{
    haul_events_unsubscribe(listener);
}
#endif

#ifdef HAUL_LEDGER_H
static haul_ledger *ledger;

static bool open_ledger(void)
{
    ledger = haul_ledger_begin(.everywhere = false);
    return ledger != NULL;
}

static bool open_numbers_counted(const bench_case *c)
{
    return open_ledger() && open_numbers(c);
}

static bool open_pictures_counted(const bench_case *c)
{
    return open_ledger() && open_pictures(c);
}

static void close_ledger(void)
{
    haul_ledger_end(ledger);
}
#endif

static haul_tensor *squared_error(haul_tensor *y)
{
    return haul_mse_loss(y, b);
}

static haul_tensor *cross_entropy(haul_tensor *y)
{
    return haul_cross_entropy(y, b);
}

/* The operation of the case is the loss. */
static bool run_steps(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++) {
        haul_scope *scope = haul_scope_push();
        haul_optimizer_zero_grad(optimizer);
        haul_backward(c->op(haul_call(net, a)));
        haul_optimizer_step(optimizer);
        haul_scope_pop(scope);
    }
    return !haul_error_status();
}

/* Steps that are followed: measured in turns with the same as they run by themselves. */
#ifdef HAUL_RECORDING_H
static haul_recording *recording;
static haul_tensor *(*loss_of)(haul_tensor *y);

static haul_status step(void *context)
{
    (void)context;
    haul_optimizer_zero_grad(optimizer);
    haul_backward(loss_of(haul_call(net, a)));
    return haul_optimizer_step(optimizer);
}

static bool open_followed(const bench_case *c)
{
    loss_of = c->op;
    if (!(c->context ? open_pictures(c) : open_dense(c)))
        return false;
    recording = haul_recording_new(step, NULL);
    return recording && !haul_recording_run(recording);
}

static bool run_followed(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        if (haul_recording_run(recording))
            return false;
    return true;
}
#endif

#define CASE(label, opening, running, what) .name = label, .unit = "ns", .open = opening, .run = running, .op = what
#define PICTURES(label, model, n, count)                                                                               \
    {                                                                                                                  \
        CASE(label, open_pictures, run_steps, cross_entropy), .context = model, .size = n, .threads = count            \
    }

static const bench_case cases[] = {
    {CASE("add 1x1", open_numbers, run_dropped, add_b), .threads = 1},
    {CASE("add_into 1x1", open_numbers, run_into, NULL), .threads = 1},
    {CASE("add 1x1, recorded", open_recorded, run_dropped, add_b), .threads = 1},
    {CASE("softmax 1x10", open_row, run_dropped, softmax), .peers = "torch:softmax 1x10", .threads = 1},
    {CASE("reshape, a view", open_row, run_dropped, reshape), .peers = "torch:reshape 1x10", .threads = 1},
    {CASE("linear 1x10 to 16", open_row, run_dropped, linear), .peers = "torch:linear 1x10", .threads = 1},
    {CASE("dense step, batch 32", open_dense, run_steps, squared_error),
     .peers = "torch:train dense,torch:train dense fused", .size = 32, .threads = 1},
    PICTURES("N3 step, batch 64", "simplecnn", 64, 1),
#ifdef HAUL_RECORDING_H
    {CASE("dense step, followed", open_followed, run_followed, squared_error), .peers = "dense step, batch 32",
     .size = 32, .threads = 1},
    {CASE("N3 step, followed", open_followed, run_followed, cross_entropy), .peers = "N3 step, batch 64",
     .context = "simplecnn", .size = 64, .threads = 1},
#endif
#ifdef HAUL_EVENTS_H
    {CASE("N3 step, all events heard", open_heard, run_steps, cross_entropy), .close = close_heard,
     .context = "simplecnn", .size = 64, .threads = 1},
#endif
#ifdef HAUL_LEDGER_H
    /* What a ledger costs: each is measured in turns with the same without one. */
    {CASE("add 1x1 with a ledger", open_numbers_counted, run_dropped, add_b), .close = close_ledger,
     .peers = "add 1x1 without a ledger", .threads = 1},
    {CASE("add 1x1 without a ledger", open_numbers, run_dropped, add_b), .threads = 1},
    {CASE("N3 step with a ledger", open_pictures_counted, run_steps, cross_entropy), .close = close_ledger,
     .peers = "N3 step without a ledger", .context = "simplecnn", .size = 64, .threads = 1},
    PICTURES("N3 step without a ledger", "simplecnn", 64, 1),
#endif
    PICTURES("N3 step, 2 threads", "simplecnn", 64, 2),
    PICTURES("resnet18 step, batch 8", "resnet18", 8, 1),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}

/* Every allocation, copy, compile and launch of a training step is made to fail in turn: an error comes back, nothing
 * leaks, and everything from before is unchanged.
 *
 * ctest: cuda; labels=slow; env=HAUL_CACHE_DIR=none */
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/thread.h"
#include "support/conformance/conformance.h"

#define CLASSES     3
#define BATCH       4
#define MAX_TENSORS 16
#define MAX_VALUES  512

typedef struct fixture {
    haul_device    *device;
    haul_module    *net;
    haul_optimizer *optimizer;
} fixture;

static haul_module *make_net(void)
{
    return HAUL_SEQUENTIAL(haul_nn_conv2d(2, 3, 3, .padding = {1, 1}), haul_nn_batch_norm(3), haul_nn_relu(),
                           haul_nn_max_pool2d(2), haul_nn_flatten(1), haul_nn_dropout(0.25),
                           haul_nn_linear(12, CLASSES));
}

/* A whole training step, with all it takes made inside its scope. */
static haul_status train_step(const fixture *f)
{
    static const float   pixels[BATCH * 2 * 4 * 4] = {0.5f, -1, 2};
    static const int64_t labels[BATCH] = {0, 1, 2, 0};
    haul_scope          *step = haul_scope_push();
    if (!step)
        return haul_error_status();
    haul_set_device(haul_cpu());
    haul_tensor *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(BATCH, 2, 4, 4), pixels), f->device);
    haul_tensor *y = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(BATCH), labels), f->device);
    haul_tensor *loss = haul_cross_entropy(haul_call(f->net, x), y);
    haul_status  status = haul_optimizer_zero_grad(f->optimizer);
    if (!status)
        status = haul_backward(loss);
    if (!status) {
        double value = haul_item(loss);
        status = value == value ? HAUL_OK : haul_error_status();
    }
    if (!status)
        status = haul_optimizer_step(f->optimizer);
    haul_scope_pop(step);
    return status;
}

typedef struct snapshot {
    int    count;
    double values[MAX_TENSORS][MAX_VALUES];
} snapshot;

static bool take(const fixture *f, snapshot *out)
{
    haul_named_tensor tensors[MAX_TENSORS];
    haul_scope       *scope = haul_scope_push();
    out->count = haul_module_tensors(f->net, tensors, MAX_TENSORS);
    bool ok = out->count > 0;
    for (int i = 0; ok && i < out->count; i++)
        if (!tensors[i].is_buffer)
            ok = read_values(tensors[i].tensor, out->values[i], haul_tensor_count(tensors[i].tensor)) == HAUL_OK;
    haul_scope_pop(scope);
    return ok;
}

typedef struct level {
    int64_t host, device, cpu;
} level;

/* Live memory, without blocks that allocators keep for reuse: some failures make them give it back. */
static level measure(haul_device *device)
{
    haul_memory_stats stats = {0}, cpu = {0};
    haul_memory_release_cached(device);
    haul_memory_release_cached(haul_cpu());
    haul_memory_stats_get(device, &stats);
    haul_memory_stats_get(haul_cpu(), &cpu);
    return (level){haul__host_blocks(), stats.live_blocks, cpu.live_blocks};
}

/* Caches (of kernels, of events) may grow the first times; compiling fills one every time. */
enum { ATTEMPTS = 3 };

static bool leaks(haul__fault kind, int attempt, level start, level end)
{
    bool host = attempt == ATTEMPTS - 1 && kind != HAUL__FAULT_COMPILE && end.host > start.host;
    return host || end.device > start.device || end.cpu > start.cpu;
}

/* Fail the nth call of `kind` in one step. False when the step had fewer. */
static bool fail_once(const fixture *f, haul__fault kind, const char *what, int64_t nth, int attempt)
{
    static snapshot before, after;
    take(f, &before);
    haul_optimizer_zero_grad(f->optimizer);
    level start = measure(f->device);
    haul_error_clear();
    haul__fault_plan((unsigned)kind, nth);
    haul_status status = train_step(f);
    bool        reached = haul__fault_count() >= nth;
    haul__fault_plan(0, 0);
    if (!reached)
        return false;
    if (status == HAUL_OK) /* a cache may do without, but then the result must be whole */
        return true;
    if (haul_error_status() == HAUL_OK || !haul_error_message()[0])
        fail_case("%s %lld failed without an error", what, (long long)nth);
    haul_optimizer_zero_grad(f->optimizer);
    level end = measure(f->device);
    if (leaks(kind, attempt, start, end))
        fail_case("after %s %lld failed (%s) %lld host blocks, %lld device blocks and %lld cpu blocks more are alive",
                  what, (long long)nth, haul_error_message(), (long long)(end.host - start.host),
                  (long long)(end.device - start.device), (long long)(end.cpu - start.cpu));
    if (kind != HAUL__FAULT_LAUNCH && kind != HAUL__FAULT_COPY && take(f, &after) &&
        memcmp(&before, &after, sizeof before) != 0)
        fail_case("after %s %lld failed (%s) parameters have changed", what, (long long)nth, haul_error_message());
    return true;
}

static bool fail_nth(const fixture *f, haul__fault kind, const char *what, int64_t nth)
{
    for (int attempt = 0; attempt < ATTEMPTS; attempt++)
        if (!fail_once(f, kind, what, nth, attempt))
            return false;
    return true;
}

static void fail_each(const fixture *f, haul__fault kind, const char *what)
{
    if (!begin_case("faults/%s/%s", what, haul_device_name(f->device)))
        return;
    int64_t nth = 1;
    while (nth < 5000 && fail_nth(f, kind, what, nth))
        nth++;
    printf("%s: %lld points of failure (%s)\n", haul_device_name(f->device), (long long)nth - 1, what);
    if (nth == 1 && kind != HAUL__FAULT_COMPILE)
        fail_case("a step has no such call: the fault point is not asked");
    haul_error_clear();
    if (train_step(f))
        fail_case("the step does not recover: %s", haul_error_message());
}

static void on_device(haul_device *device)
{
    haul_scope *scope = haul_scope_push();
    haul_set_device(device);
    fixture f = {.device = device, .net = make_net()};
    f.optimizer = haul_sgd(f.net, 0.1, .momentum = 0.9);
    if (!f.optimizer) {
        begin_case("faults/setup/%s", haul_device_name(device));
        fail_case("%s", haul_error_message());
    } else {
        fail_each(&f, HAUL__FAULT_COMPILE, "compile"); /* first: kernels are compiled once */
        train_step(&f);
        train_step(&f);
        fail_each(&f, HAUL__FAULT_HOST, "host allocation");
        haul_memory_release_cached(device);
        fail_each(&f, HAUL__FAULT_DEVICE, "device allocation");
        fail_each(&f, HAUL__FAULT_COPY, "copy");
        fail_each(&f, HAUL__FAULT_LAUNCH, "launch");
    }
    haul_scope_pop(scope);
}

int main(void)
{
    haul_scope  *program = haul_scope_push();
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    for (int d = 0; d < count; d++)
        on_device(devices[d]);
    haul_scope_pop(program);
    return finish_cases("faults");
}

/* haul train --estimate: what a step of the training would take, from a dry run of the third one. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "trainer.h"

typedef struct estimate {
    trainer             *trainer;
    const haul_batch    *batch;
    int64_t              examples; /* in a batch */
    haul_estimate_result step;     /* the third: those before it make gradients and the optimizer's state */
    int64_t              parameters, parameter_bytes;
} estimate;

/* ---- the dry run ---- */

static haul_status make_step(void *context)
{
    estimate *e = context;

    return trainer_step(e->trainer, e->batch);
}

/* The first batch of an epoch: later ones may be smaller. */
static haul_status take_batch(estimate *e)
{
    haul_loader *loader = e->trainer->loader;

    e->batch = haul_loader_start(loader, 1) ? NULL : haul_loader_next(loader);
    if (!e->batch)
        return haul_error_status();
    e->examples = e->batch->size;
    return HAUL_OK;
}

static haul_status count_parameters(estimate *e)
{
    haul_module       *net = e->trainer->net;
    int                count = haul_module_tensors(net, NULL, 0);
    haul_named_tensor *all = count >= 0 ? calloc((size_t)count + 1, sizeof *all) : NULL;

    e->parameters = haul_module_parameter_count(net);
    if (count >= 0 && !all)
        return haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    if (count >= 0)
        count = haul_module_tensors(net, all, count);
    for (int i = 0; i < count; i++)
        if (!all[i].is_buffer)
            e->parameter_bytes += (int64_t)haul_tensor_bytes(all[i].tensor);
    free(all);
    return count < 0 || e->parameters < 0 ? haul_error_status() : HAUL_OK;
}

static haul_status prepare_and_step(void *context)
{
    estimate   *e = context;
    haul_status status = trainer_build(e->trainer);

    if (status)
        return status;
    status = count_parameters(e);
    for (int i = 0; i < 2 && !status; i++) {
        status = take_batch(e);
        if (!status)
            status = make_step(e);
    }
    if (!status)
        status = take_batch(e);
    return status ? status : haul_estimate(make_step, e, &e->step);
}

/* ---- telling ---- */

static int64_t peak_on(const haul_estimate_result *r, const haul_device *device)
{
    for (int i = 0; i < r->device_count; i++)
        if (r->devices[i].device == device)
            return r->devices[i].peak_bytes;
    return 0;
}

static bool print_json(const estimate *e)
{
    cJSON *event = json_event("estimate");

    json_text(event, "device", haul_device_name(e->trainer->device));
    json_number(event, "flops", e->step.flops);
    json_number(event, "bytes_touched", (double)e->step.bytes_touched);
    json_number(event, "peak_bytes", (double)peak_on(&e->step, e->trainer->device));
    json_number(event, "parameter_bytes", (double)e->parameter_bytes);
    json_number(event, "operations", (double)e->step.operation_count);
    return json_print(event);
}

/* "1.23 GFLOP". */
static void print_flops(double flops, int width)
{
    static const char *const units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
    int                      unit = 0;

    for (; flops >= 1000 && unit < 5; unit++)
        flops /= 1000;
    printf("%*.*f %-5s", width, unit ? 2 : 0, flops, units[unit]);
}

/* Calls of one operation with results of one shape. */
typedef struct kind {
    const haul_estimate_operation *first;
    int64_t                        calls, bytes;
    double                         flops;
} kind;

static bool same_kind(const haul_estimate_operation *a, const haul_estimate_operation *b)
{
    if (strcmp(a->name, b->name) != 0 || a->shape.ndim != b->shape.ndim)
        return false;
    return !memcmp(a->shape.dims, b->shape.dims, (size_t)a->shape.ndim * sizeof *a->shape.dims);
}

static int by_cost(const void *a, const void *b)
{
    const kind *x = a, *y = b;

    if (x->flops != y->flops)
        return (x->flops < y->flops) - (x->flops > y->flops);
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* Into `kinds`, which has room for all operations; how many there are, the most expensive first. */
static size_t gather_kinds(kind *kinds, const haul_estimate_result *r)
{
    size_t count = 0;

    for (int64_t i = 0; i < r->operation_count; i++) {
        const haul_estimate_operation *o = &r->operations[i];
        size_t                         k = 0;
        while (k < count && !same_kind(kinds[k].first, o))
            k++;
        if (k == count)
            kinds[count++] = (kind){.first = o};
        kinds[k].calls++;
        kinds[k].flops += o->flops;
        kinds[k].bytes += o->bytes;
    }
    qsort(kinds, count, sizeof *kinds, by_cost);
    return count;
}

static bool print_kinds(const haul_estimate_result *r)
{
    enum { MOST_SHOWN = 8 };
    kind *kinds = calloc((size_t)r->operation_count + 1, sizeof *kinds);

    if (!kinds) {
        complain("memory is exhausted");
        return false;
    }
    size_t count = gather_kinds(kinds, r);

    printf("\n%-27s %-15s %5s %13s %5s %10s\n", "most expensive operations", "result", "calls", "arithmetic", "",
           "memory");
    for (size_t i = 0; i < count && i < MOST_SHOWN; i++) {
        const kind *k = &kinds[i];
        printf("%-27s %-15s %5lld ", k->first->name, text_shape(&k->first->shape), (long long)k->calls);
        print_flops(k->flops, 7);
        printf(" %4.0f%% %10s\n", r->flops > 0 ? 100 * k->flops / r->flops : 0, text_bytes(k->bytes));
    }
    free(kinds);
    return true;
}

static bool print_text(const estimate *e)
{
    const train_options        *options = e->trainer->options;
    const haul_estimate_result *r = &e->step;

    printf("one training step of %s on %s, batches of %s, %s, %s\n", options->model,
           haul_device_name(e->trainer->device), text_count(e->examples), options->optimizer, options->precision);
    printf("  peak memory    %s on %s\n", text_bytes(peak_on(r, e->trainer->device)),
           haul_device_name(e->trainer->device));
    printf("  parameters     %s (%s)\n", text_count(e->parameters), text_bytes(e->parameter_bytes));
    printf("  arithmetic     ");
    print_flops(r->flops, 0);
    printf(" (floating point operations)\n");
    printf("  memory         %s read and written by %s operations\n", text_bytes(r->bytes_touched),
           text_count(r->operation_count));
    if (!print_kinds(r))
        return false;
    printf("\nnothing was allocated, computed or saved; leave --estimate out to train\n");
    return true;
}

int trainer_estimate(trainer *t)
{
    estimate             e = {.trainer = t};
    haul_estimate_result all;

    if (!trainer_open_data(t))
        return EXIT_FAILED;
    if (haul_estimate(prepare_and_step, &e, &all))
        return complain_error();
    bool told = t->options->json ? print_json(&e) : print_text(&e);
    haul_estimate_free(&all);
    haul_estimate_free(&e.step);
    return told ? EXIT_OK : EXIT_FAILED;
}

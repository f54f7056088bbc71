/* haul train --estimate: what a step of the training would take. */
#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"
#include "cli/train/log/form.h"
#include "cli/train/log/summary.h"
#include "cli/train/trainer.h"
#include "plan/fit.h"
#include "plan/spill_cost.h"

/* With --spill on, if it is needed. What a stage spills is not known. */
static bool find_spill(trainer *t, haul__spill_cost *out)
{
    if (!t->options->spill || trainer_is_within_limit(t))
        return false;
    haul__spill_cost_of(&t->expected.spill, t->device, out);
    return true;
}

static bool print_json(trainer *t, const haul__fit_result *d)
{
    cJSON           *event = json_event("estimate");
    haul__spill_cost spill;
    json_text(event, "device", haul_device_name(t->device));
    json_number(event, "batch", (double)d->examples);
    json_number(event, "flops", d->step.flops);
    json_number(event, "bytes_touched", (double)d->step.bytes_touched);
    json_number(event, "peak_bytes", (double)haul__fit_step_peak(d, t->device));
    json_number(event, "training_peak_bytes", (double)d->peak);
    json_number(event, "limit_bytes", (double)(d->limit + d->overhead));
    if (train_options_recompute(t->options))
        json_segments(event, "recompute", &d->segments);
    if (find_spill(t, &spill)) {
        const haul__fit_spill *s = &spill.spill;
        json_bool(event, "spill_fits", s->fits);
        json_number(event, "spilled_bytes", (double)s->bytes);
        json_number(event, "spilled_to_file_bytes", (double)s->to_file);
        json_number(event, "returned_bytes", (double)s->back_bytes);
        json_number(event, "spill_host_bytes", (double)s->host_peak);
        json_number(event, "spill_file_bytes", (double)s->file_peak);
        json_number(event, "spill_missing_bytes", (double)s->missing);
        json_number(event, "spill_seconds", spill.seconds);
    }
    json_number(event, "parameter_bytes", (double)d->layers.parameter_bytes);
    json_number(event, "operations", (double)d->step.operation_count);
    return json_print(event);
}

/* ---- the most expensive operations ---- */

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

/* Columns that a narrow terminal has no room for are left out. */
static void print_kind(const char *name, const char *result, const char *calls, const char *flops, const char *share,
                       const char *memory)
{
    enum { NAME = 27, SHORT_NAME = 18, ALL = 79, WITHOUT_MEMORY = 68, WITHOUT_RESULT = 52 };
    int room = output_room();
    print_fitted(name, room >= WITHOUT_RESULT ? NAME : SHORT_NAME);
    if (room >= WITHOUT_MEMORY)
        printf(" %-15s", result);
    if (room >= WITHOUT_RESULT)
        printf(" %5s", calls);
    printf(" %12s %5s", flops, share);
    if (room >= ALL)
        printf(" %10s", memory);
    putchar('\n');
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

    putchar('\n');
    set_style(STYLE_DIM);
    print_kind("most expensive operations", "result", "calls", "arithmetic", "", "memory");
    set_style(STYLE_PLAIN);
    for (size_t i = 0; i < count && i < MOST_SHOWN; i++) {
        const kind *k = &kinds[i];
        char        share[16];
        snprintf(share, sizeof share, "%.0f %%", r->flops > 0 ? 100 * k->flops / r->flops : 0);
        print_kind(k->first->name, text_shape(&k->first->shape), text_count(k->calls), text_flops(k->flops), share,
                   text_bytes(k->bytes));
    }
    free(kinds);
    return true;
}

/* ---- the whole ---- */

static void print_spill(trainer *t)
{
    haul__spill_cost spill;
    char             text[256];
    if (!find_spill(t, &spill))
        return;
    printf("spill   ");
    if (spill.spill.fits)
        spill_cost_text(text, sizeof text, &spill);
    else if (spill.spill.missing)
        snprintf(text, sizeof text, "%s have no place in host memory or a file", text_bytes(spill.spill.missing));
    else
        snprintf(text, sizeof text, "an operation of the step does not fit");
    print_wrapped(text, 8, 8);
}

static bool print_text(trainer *t, const haul__fit_result *d)
{
    const train_options *options = t->options;
    char                 text[256];
    snprintf(text, sizeof text, "one training step of %s on %s, batch %s, %s, %s", options->model,
             haul_device_name(t->device), text_count(d->examples), options->optimizer, options->precision);
    print_wrapped(text, 0, 2);
    summary_print(d, t->device);
    summary_print_parts(d);
    print_spill(t);
    snprintf(text, sizeof text, "%s read and written by %s operations", text_bytes(d->step.bytes_touched),
             text_count(d->step.operation_count));
    printf("traffic ");
    print_wrapped(text, 8, 8);
    if (!print_kinds(&d->step))
        return false;
    putchar('\n');
    print_wrapped("Nothing was allocated, computed or saved. Leave out --estimate to train.", 0, 0);
    return output_works();
}

int trainer_estimate(trainer *t)
{
    t->position = (haul_training_position){.epoch = 1};
    if (!trainer_open_data(t))
        return EXIT_FAILED;
    int code = trainer_expect(t);
    if (code >= 0)
        return code;
    const haul__fit_result *d = &t->expected;
    if (!(t->options->json ? print_json(t, d) : print_text(t, d)))
        return EXIT_FAILED;
    return trainer_fits(t) ? EXIT_OK : trainer_tell_memory(t, false);
}

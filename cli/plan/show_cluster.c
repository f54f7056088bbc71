/* A plan for many devices, for people. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/numbers.h"
#include "cli/plan/cluster.h"
#include "cli/shared/cli.h"
#include "cli/shared/terminal.h"

enum { LABEL = 20, COLUMN = 12 };

static void print_title(const cluster *c)
{
    const haul__cluster_request *r = &c->request;
    const train_options         *o = c->training->options;
    char                         title[500];
    snprintf(
        title, sizeof title,
        "one training step of %s, batch %s, %s, %s, on up to %s device%s, each %s of %s, %s on a host; network %s, "
        "exchange by %s in buckets of %s; predicted%s",
        o->model, text_count(r->batch), o->optimizer, o->precision, text_count(r->devices), r->devices == 1 ? "" : "s",
        c->machine->devices[r->device].name, c->machine->described ? c->machine->name : "this computer",
        text_count(r->per_host), c->options->network, r->direct ? "nccl" : "mpi", text_bytes(r->bucket),
        c->machine->described ? ", by data sheets" : "");
    print_wrapped(title, 0, 2);
    putchar('\n');
}

static void print_choice(const cluster *c)
{
    const haul__cluster_plan *p = c->best;
    char                      text[300];
    snprintf(text, sizeof text,
             "Best: %s device%s on %s host%s: %s replica%s of %s stage%s, shard %d, %s micro-batch%s of %s example%s "
             "for each replica.",
             text_count(p->devices), p->devices == 1 ? "" : "s", text_count(p->hosts), p->hosts == 1 ? "" : "s",
             text_count(p->layout.replicas), p->layout.replicas == 1 ? "" : "s", text_count(p->layout.stages),
             p->layout.stages == 1 ? "" : "s", p->layout.shard, text_count(p->layout.parts),
             p->layout.parts == 1 ? "" : "es", text_count(p->examples), p->examples == 1 ? "" : "s");
    print_wrapped(text, 0, 2);
    putchar('\n');
}

static void print_line(const char *label, const char *value)
{
    printf("%-*s%*s\n", LABEL, label, COLUMN, value);
}

static void print_time(const cluster *c, const char *label, int64_t ps)
{
    print_line(label, ps ? text_ps_like(ps, c->best->step_ps) : "-");
}

static void print_figures(const cluster *c)
{
    const haul__cluster_plan *p = c->best;
    char                      percent[16];
    snprintf(percent, sizeof percent, "%.0f %%", 100 * cluster_efficiency(c, p));
    print_time(c, "step", p->step_ps);
    print_time(c, "  computing", p->compute_ps);
    print_time(c, "  communication", p->exposed_ps);
    print_time(c, "  bubble", p->bubble_ps);
    print_time(c, "exchange", p->exchange_ps);
    print_line("examples/s", text_count((int64_t)cluster_speed(c, p)));
    print_line("efficiency", percent);
    print_line("sent by a device", text_bytes(p->sent_bytes));
    print_line("peak of a device", text_bytes(p->peak_bytes));
    print_line("  parameters", text_bytes(p->parameter_bytes));
    print_line("  gradients", text_bytes(p->gradient_bytes));
    print_line("  state", text_bytes(p->state_bytes));
    print_line("  activations", text_bytes(p->passing_bytes));
}

/* For a machine that was measured: profiles were made on it, or can be. */
static void print_learnt(const cluster *c)
{
    const haul__cluster_plan *p = c->best;
    char                      text[300];
    if (c->machine->described)
        return;
    snprintf(text, sizeof text,
             "Of %s operations of a micro-batch, profiles measured the times of %s; haul train --profile 4 with "
             "micro-batches of %s example%s measures them.",
             text_count(p->operations), text_count(p->learnt), text_count(p->examples), p->examples == 1 ? "" : "s");
    putchar('\n');
    print_wrapped(text, 0, 0);
}

static void print_stages(const cluster *c)
{
    const haul__cluster_stage *stages = c->stages;
    size_t                     widest = strlen("modules");
    const int                  count = stages ? c->best->layout.stages : 0;
    if (!count)
        return;
    for (int s = 0; s < count; s++)
        widest = (size_t)larger((int64_t)widest, (int64_t)(strlen(stages[s].first) + strlen(stages[s].last) + 4));
    set_style(STYLE_DIM);
    printf("\nstage  %-*s     forward    backward  parameters        peak\n", (int)widest, "modules");
    set_style(STYLE_PLAIN);
    for (int s = 0; s < count; s++) {
        const haul__cluster_stage *x = &stages[s];
        const bool                 one = !strcmp(x->first, x->last);
        char                       modules[2 * HAUL__CLUSTER_PATH + 5];
        snprintf(modules, sizeof modules, "%s%s%s", x->first, one ? "" : " to ", one ? "" : x->last);
        printf("%-5d  %-*s %11s %11s %11s %11s\n", s, (int)widest, modules,
               text_ps_like(x->forward_ps, c->best->step_ps), text_ps_like(x->backward_ps, c->best->step_ps),
               text_bytes(x->parameter_bytes), text_bytes(x->peak_bytes));
    }
}

static void print_layout(const haul__cluster_plan *p)
{
    printf("%8s %6d %5d %13s", text_count(p->layout.replicas), p->layout.stages, p->layout.shard,
           text_count(p->layout.parts));
}

#define LAYOUT_HEADER "replicas stages shard micro-batches"

enum { TABLE = 80 /* columns; narrower terminals have sentences */ };

static bool is_narrow(void)
{
    return output_room() < TABLE;
}

/* "8 replicas, 4 stages, shard 1, 16 micro-batches: 20.88 ms, 54 %" after `start` */
static void HAUL_PRINTF(3, 4) print_sentence(const char *start, const haul__cluster_plan *p, const char *format, ...)
{
    char    end[200], text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(end, sizeof end, format, arguments);
    va_end(arguments);
    snprintf(text, sizeof text, "%s%s replica%s, %d stage%s, shard %d, %s micro-batch%s: %s", start,
             text_count(p->layout.replicas), p->layout.replicas == 1 ? "" : "s", p->layout.stages,
             p->layout.stages == 1 ? "" : "s", p->layout.shard, text_count(p->layout.parts),
             p->layout.parts == 1 ? "" : "es", end);
    print_wrapped(text, 0, 2);
}

static void print_fewer_sentences(const cluster *c, const haul__cluster_plan *const *plans, const int *devices,
                                  int count)
{
    putchar('\n');
    for (int i = 0; i < count; i++) {
        char start[60];
        snprintf(start, sizeof start, "up to %s device%s: ", text_count(devices[i]), devices[i] == 1 ? "" : "s");
        if (plans[i])
            print_sentence(start, plans[i], "%s, efficiency %.0f %%, peak %s", text_ps(plans[i]->step_ps),
                           100 * cluster_efficiency(c, plans[i]), text_bytes(plans[i]->peak_bytes));
        else
            printf("%snothing fits\n", start);
    }
}

static void print_fewer(const cluster *c)
{
    const haul__cluster_plan *plans[CLUSTER_FEWER];
    int                       devices[CLUSTER_FEWER];
    const int                 count = cluster_fewer(c, plans, devices);
    if (is_narrow()) {
        print_fewer_sentences(c, plans, devices, count);
        return;
    }
    set_style(STYLE_DIM);
    printf("\nup to    " LAYOUT_HEADER "        step  efficiency        peak\n");
    set_style(STYLE_PLAIN);
    for (int i = 0; i < count; i++) {
        printf("%-8s ", text_count(devices[i]));
        if (!plans[i]) {
            puts("nothing fits");
            continue;
        }
        print_layout(plans[i]);
        printf("%12s %9.0f %% %11s\n", text_ps(plans[i]->step_ps), 100 * cluster_efficiency(c, plans[i]),
               text_bytes(plans[i]->peak_bytes));
    }
}

static void print_others(const cluster *c)
{
    cluster_other others[CLUSTER_OTHERS];
    const int     count = cluster_others(c, others);
    if (!count)
        return;
    if (is_narrow()) {
        printf("\nnot chosen:\n");
        for (int i = 0; i < count; i++)
            print_sentence("", others[i].plan, "%s, %s", text_ps_like(others[i].plan->step_ps, c->best->step_ps),
                           others[i].why);
        return;
    }
    set_style(STYLE_DIM);
    printf("\n" LAYOUT_HEADER "        step  why not\n");
    set_style(STYLE_PLAIN);
    for (int i = 0; i < count; i++) {
        print_layout(others[i].plan);
        printf("%12s  %s\n", text_ps_like(others[i].plan->step_ps, c->best->step_ps), others[i].why);
    }
}

/* The command in one line, so that it can be copied. */
static void print_next(const cluster *c)
{
    char *line = cluster_command(c);
    putchar('\n');
    if (line)
        printf("next       %s\n", line);
    print_wrapped(line ? "This is a prediction: nothing ran."
                       : "This is a prediction: nothing ran. haul train has replicas or stages, not both: --only "
                         "stages=1 and --only replicas=1 plan what it runs.",
                  0, 2);
    free(line);
}

bool show_cluster(const cluster *c)
{
    print_title(c);
    print_choice(c);
    print_figures(c);
    print_learnt(c);
    print_stages(c);
    print_fewer(c);
    print_others(c);
    print_next(c);
    return output_works();
}

/* What haul plan --allow chose, for people. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/plan/allowance.h"
#include "cli/plan/show.h"
#include "cli/shared/cli.h"
#include "cli/shared/terminal.h"

const char *allowance_words(const allowance *a, char *out, size_t size)
{
    return a->split ? "" : haul__chosen_sentence(&a->chosen, out, size);
}

static void print_segments(const allowance *a)
{
    char text[900];
    if (*haul__segments_names(&a->chosen.keep.segments, text, sizeof text))
        print_labelled_format("recompute", "%s", text);
}

static void print_techniques(const allowance *a)
{
    const haul__chosen *c = &a->chosen;
    if (a->split) {
        print_labelled_format("split", "%s",
                              c->keep.peak ? "operations run on both devices" : "all operations run on the CPU");
        return;
    }
    if (!c->used)
        print_labelled_format("keep", "everything fits as it is");
    if (c->accumulate > 1)
        print_labelled_format("accumulate", "%s mini-batches of %s", text_count(c->accumulate),
                              text_count(c->batch / c->accumulate));
    if (c->bf16)
        print_labelled_format("bf16", "matrix products and convolutions");
    if (c->offload)
        print_labelled_format("offload", "the optimizer's state, %s, to host memory",
                              text_bytes(c->hosted - c->keep.moved));
    print_segments(a);
    if (c->used & HAUL__ALLOW_SPILL) {
        char tensors[80] = "";
        if (!c->by_use)
            snprintf(tensors, sizeof tensors, " in %s tensors", text_count(c->keep.schedule.count));
        print_labelled_format("spill", "%s%s to host memory and back in each step%s; costs at most %s",
                              text_bytes(c->moved), tensors, c->by_use ? ", what is used latest" : "",
                              text_ps(c->spill_ps));
    }
}

/* The command in one line, so that it can be copied. */
static void print_next(const allowance *a)
{
    char *line = allowance_command(a);
    if (line)
        printf("next       %s\n", line);
    free(line);
}

/* " (4.8 % less)"; "" for less than a tenth of a per cent. */
static const char *gap_text(double gap, char *out, size_t size)
{
    *out = 0;
    if (gap >= 0.001)
        snprintf(out, size, " (%.1f %% less)", 100 * gap);
    return out;
}

bool show_allowance(const allowance *a)
{
    char                      text[300];
    const train_options      *o = a->t->options;
    const haul__plan_request *p = &a->request->plan;
    const haul__chosen       *c = &a->chosen;
    snprintf(text, sizeof text, "one training step of %s, batch %s, %s, within %s on %s", o->model,
             text_count(c->batch), o->optimizer, text_bytes(a->limit), p->names[1]);
    print_wrapped(text, 0, 2);
    print_techniques(a);
    print_labelled_format("step", "%s; without a limit %s", text_ps(c->ps), text_ps_like(c->free_ps, c->ps));
    print_labelled_format("bound", "%s%s: no allowed way takes less, by the model", text_ps_like(c->bound, c->ps),
                          gap_text(plan_gap(c->ps, c->bound), text, sizeof text));
    print_labelled_format("peak", "%s on %s; without a limit %s", text_bytes(c->keep.peak), p->names[1],
                          text_bytes(c->free_peak));
    print_next(a);
    if (*allowance_words(a, text, sizeof text)) {
        putchar('\n');
        print_wrapped(text, 0, 0);
    }
    return output_works();
}

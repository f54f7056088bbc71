/* What findings say. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/plain.h"
#include "device/device.h"
#include "observe/audit/audit.h"

typedef struct phrases {
    const char *device;      /* "opencl:0" */
    char        tensor[128]; /* "the tensor 'x'", "data" */
    char        times[40];   /* "once", "8 times" */
    const char *second;      /* another place */
    const char *operation;
} phrases;

static phrases phrases_of(const haul_profile *p, const haul__suspect *s, const haul_finding *f)
{
    HAUL__ASSERT(f->count_per_step >= 0);
    const char *tensor = haul__profile_text(p, s->tensor);
    phrases     w = {.device = s->device ? haul_device_name(s->device) : "",
                     .second = haul__profile_text(p, s->second),
                     .operation = haul__profile_text(p, s->operation)};
    snprintf(w.tensor, sizeof w.tensor, *tensor ? "'%s'" : "data", tensor);
    if (f->count_per_step == 1)
        snprintf(w.times, sizeof w.times, "once");
    else
        snprintf(w.times, sizeof w.times, "%lld times", (long long)f->count_per_step);
    return w;
}

static void say_return(const phrases *w, haul_finding *f, bool computed)
{
    snprintf(f->what, sizeof f->what, "In each step %s leaves %s %s, %s, and goes back%s%s.", w->tensor, w->device,
             w->times, computed ? "is computed with on the CPU" : "stays as it is", *w->second ? " at " : "",
             w->second);
    if (computed)
        snprintf(f->fix, sizeof f->fix,
                 "/* compute where the data are: leave both moves out */\n"
                 "haul_tensor *y = haul_exp(x); /* x is on %s, and so is y */",
                 w->device);
    else
        snprintf(f->fix, sizeof f->fix,
                 "/* use x again, which is still on %s, instead of the tensor that came back */\n"
                 "haul_tensor *y = haul_relu(x);",
                 w->device);
}

/* Where a network is split: a layer is on the CPU, and its input is not. */
static void say_border(const phrases *w, const char *layer, haul_finding *f)
{
    snprintf(f->what, sizeof f->what,
             "In each step the host waits for %s %s: the layer '%s' is on the CPU, and %s is not.", w->device, w->times,
             layer, w->tensor);
    snprintf(f->fix, sizeof f->fix,
             "/* compute the layer where its input is: the border moves behind it */\n"
             "haul_module_place(layer, haul_device_get(\"%s\")); /* '%s' */",
             w->device, layer);
}

static void say_wait(const phrases *w, haul_finding *f)
{
    snprintf(f->what, sizeof f->what, "In each step the host waits for %s %s, in %s.", w->device, w->times,
             w->operation);
    snprintf(f->fix, sizeof f->fix,
             "haul_add_into(total, total, haul_detach(loss)); /* in each step: stays on %s */\n"
             "double mean = haul_item(total) / steps;         /* once, after the loop */",
             w->device);
}

static void say_pageable(const phrases *w, haul_finding *f, bool down)
{
    snprintf(f->what, sizeof f->what, "In each step %s goes %s %s %s through memory that is not pinned.", w->tensor,
             down ? "from" : "to", w->device, w->times);
    if (down)
        snprintf(f->fix, sizeof f->fix,
                 "haul_tensor *y = haul_to(x, haul_cpu()); /* into pinned memory, instead of an array of your own */");
    else
        snprintf(f->fix, sizeof f->fix,
                 "haul_tensor *pinned = haul_pin(x, device); /* once; or let a loader make the batches */\n"
                 "haul_tensor *y = haul_to(pinned, device);");
}

static void say_unchanged(const phrases *w, haul_finding *f)
{
    snprintf(f->what, sizeof f->what, "In each step %s is sent to %s %s, with the same bytes as before.", w->tensor,
             w->device, w->times);
    snprintf(f->fix, sizeof f->fix,
             "haul_tensor *kept = haul_to(x, device); /* once, before the loop; use it in each step */");
}

static void say_small(const phrases *w, haul_finding *f, bool down)
{
    snprintf(f->what, sizeof f->what, "In each step %lld small copies go %s %s, where one would do.",
             (long long)f->count_per_step, down ? "from" : "to", w->device);
    snprintf(f->fix, sizeof f->fix,
             "haul_tensor *all = haul_to(haul_cat(parts, count, 0), %s); /* one copy of all parts */\n"
             "haul_tensor *part = haul_slice(all, 0, first, first + rows, 1); /* a view of one of them */",
             down ? "haul_cpu()" : "device");
}

static void say_side(const phrases *w, haul_finding *f, bool down)
{
    snprintf(f->what, sizeof f->what,
             "In each step %s goes %s %s %s in a dtype that is larger than the one on the other side of a cast.",
             w->tensor, down ? "from" : "to", w->device, w->times);
    snprintf(f->fix, sizeof f->fix,
             "/* cast where it makes the copy smaller: before it to the smaller dtype, or after it to the larger */\n"
             "haul_tensor *y = haul_to(x, %s, .dtype = dtype); /* haul_to chooses the side */",
             down ? "haul_cpu()" : "device");
}

/* The threads that made batches, apart from the main one. */
static int count_workers(const haul_profile *p)
{
    int workers = 0;
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        bool                       known = m->thread == p->thread || m->kind != HAUL_EVENT_WORK_END ||
                     strcmp(haul__profile_text(p, m->text), "batch made") != 0;
        for (size_t k = 0; k < i && !known; k++)
            known = p->events[k].thread == m->thread && p->events[k].text == m->text;
        workers += !known;
    }
    return workers;
}

static void say_loader(const haul_profile *p, haul_finding *f)
{
    const int workers = count_workers(p);
    snprintf(f->what, sizeof f->what, "Each step waits for its batch: %s.",
             workers ? "the loader's workers prepare batches more slowly than they are used"
                     : "the loader has no workers, so the main thread makes them");
    snprintf(f->fix, sizeof f->fix, "haul_loader *loader = haul_loader_new(data, .batch = n, .workers = %d);",
             workers ? 2 * workers : 2);
}

static void say_host(const phrases *w, haul_finding *f, bool gap)
{
    snprintf(f->what, sizeof f->what,
             gap ? "%s has no work for a part of each step: the program does something else before this call."
                 : "%s has no work for a part of each step: the host takes longer to submit it than the device to do "
                   "it.",
             w->device);
    snprintf(f->fix, sizeof f->fix,
             gap ? "/* move that work to another thread, or after the commands of the next step were submitted */"
                 : "haul_loader *loader = haul_loader_new(data, .batch = 4 * n); /* more work for each command */");
}

static void say_compilation(const haul_profile *p, const phrases *w, haul_finding *f)
{
    const haul__steps *s = &p->analysis->steps;
    char               where[48] = "step 1";
    if (s->compiling != 1 || !s->warm_up[0])
        snprintf(where, sizeof where, "%zu of the %zu steps", s->compiling, haul__step_count(p));
    haul__snprintf(f->what, sizeof f->what,
                   "%.3g s of kernel compilation in %s: %d kernel%s for %s. Other findings leave the warm-up out.",
                   (double)s->compile_ns / 1e9, where, s->kernels, s->kernels == 1 ? "" : "s", w->device);
    snprintf(f->fix, sizeof f->fix,
             "step(); /* a warm-up, which compiles the kernels */\n"
             "haul_profile *profile = haul_profile_begin();");
}

/* Of copies that the program did not ask for: the plan's price, and how to get another plan. */
static void say_planned(haul_finding *f)
{
    const size_t used = strlen(f->what);
    HAUL__ASSERT(0 < used && used < sizeof f->what);
    haul__snprintf(f->what + used, sizeof f->what - used, " HAUL_PLACE_AUTO asks for it, and counts %.3g ms.",
                   f->planned_ms_per_step);
    snprintf(f->fix, sizeof f->fix,
             "/* other places cost more by the plan; where copies take longer than it counts, measure them with\n"
             " * `haul calibrate` and plan again */\n"
             "haul_plan *plan = haul_plan_new(step, context, .module = net);\n"
             "haul_status status = haul_plan_apply(plan, net);");
}

void haul__finding_text(const haul_profile *p, const haul__suspect *s, haul_finding *f)
{
    HAUL__ASSERT(f->kind == s->kind && (s->device || s->kind == HAUL_FINDING_LOADER_BOUND));
    const phrases w = phrases_of(p, s, f);
    switch (f->kind) {
    case HAUL_FINDING_PING_PONG: say_return(&w, f, false); break;
    case HAUL_FINDING_CPU_ISLAND: say_return(&w, f, true); break;
    case HAUL_FINDING_WAIT_PER_STEP:
        if (s->layer)
            say_border(&w, haul__profile_text(p, s->layer), f);
        else
            say_wait(&w, f);
        break;
    case HAUL_FINDING_PAGEABLE: say_pageable(&w, f, s->down); break;
    case HAUL_FINDING_UNCHANGED: say_unchanged(&w, f); break;
    case HAUL_FINDING_MANY_SMALL: say_small(&w, f, s->down); break;
    case HAUL_FINDING_WRONG_SIDE: say_side(&w, f, s->down); break;
    case HAUL_FINDING_LOADER_BOUND: say_loader(p, f); break;
    case HAUL_FINDING_HOST_BOUND: say_host(&w, f, s->call_site != 0); break;
    case HAUL_FINDING_COMPILATION: say_compilation(p, &w, f); break;
    case HAUL_FINDING_END: break;
    }
    if (s->planned)
        say_planned(f);
}

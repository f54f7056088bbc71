#include "cli/train/place/choose.h"

#include <math.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "cli/shared/progress.h"
#include "cli/train/place/trial.h"
#include "cli/train/planner.h"
#include "plan/place/options.h"

/* A plan must be so much better than the best single device. Predictions may be wrong by so much. */
#define NOISE       0.03
#define UNCERTAINTY 1.5

typedef struct choosing {
    trainer        *t;
    haul_plan      *plan;
    haul__plan_way *single, *planned; /* the fastest device, and the plan; NULL: it is not tried */
    progress_bar    bar;
} choosing;

/* ---- among which devices ---- */

/* Plans know only whole training steps in all memory of the devices. */
const char *choose_excluded(const train_options *o)
{
    const struct {
        bool        given;
        const char *name;
    } options[] = {{strcmp(o->device, "auto") != 0, "--device"},
                   {o->place != NULL, "--place"},
                   {o->plan != NULL, "--plan"},
                   {o->memory_limit != NULL, "--memory-limit"},
                   {o->spill, "--spill"},
                   {o->recompute != NULL, "--recompute"},
                   {o->accumulate > 1, "--accumulate"},
                   {!o->batch, "--batch auto"},
                   {o->estimate, "--estimate"},
                   {o->resume, "--resume"}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].given)
            return options[i].name;
    return NULL;
}

/* "cpu,cuda:0"; NULL: nothing is chosen. */
static const char *devices_of(const trainer *t, char *out, size_t size)
{
    const train_options *o = t->options;
    if (o->devices)
        return o->devices;
    if (choose_excluded(o))
        return NULL;
    haul_device *device = haul_device_get("auto");
    if (device == haul_cpu() || !haul_device_is_valid(device))
        return NULL;
    snprintf(out, size, "cpu,%s", haul_device_name(device));
    return out;
}

bool choose_is_decided(const trainer *t)
{
    char list[80];
    return !devices_of(t, list, sizeof list);
}

/* ---- the plan ---- */

/* For --devices, those that were not measured are, which takes seconds. */
static haul_status find_plan(choosing *c, const char *devices)
{
    static const char  operation[] = "haul train";
    haul__plan_request request;
    progress_say(&c->bar, "Planning");
    haul_status status =
        haul__plan_choose(&(haul_plan_options){.devices = devices, .stages = c->t->options->pipeline > 1},
                          c->t->options->devices, NULL, operation, &request);
    if (status)
        return status;
    c->plan = planner_place(c->t->planner, c->t->options->batch, &request, operation);
    return c->plan ? HAUL_OK : haul_error_status();
}

/* ---- trying ---- */

static bool is_shorter(double a, double b)
{
    return a < (1 - NOISE) * b;
}

/* Which ways are tried: those that may be the fastest, and the plan if it is better than one device by the model, which
 * knows nothing of devices that work at the same time. */
static int find_wanted(const choosing *c, bool wanted[HAUL__PLAN_CANDIDATES])
{
    const haul_plan      *p = c->plan;
    const haul__plan_way *best = NULL;
    int                   count = 0;
    for (int i = 0; i < haul__plan_way_count(p); i++)
        if (!*p->ways[i].why_not && p->ways[i].device >= 0 && (!best || p->ways[i].figures.ps < best->figures.ps))
            best = &p->ways[i];
    for (int i = 0; i < haul__plan_way_count(p); i++) {
        const haul__plan_way *w = &p->ways[i];
        const double          ps = (double)w->figures.ps, least = best ? (double)best->figures.ps : INFINITY;
        wanted[i] =
            !*w->why_not && (w->device < 0 ? p->request.stages || is_shorter(ps, least) : ps <= UNCERTAINTY * least);
        count += wanted[i];
    }
    return count;
}

/* Waits while the candidates are tried are not those of the training. */
static bool try_ways(choosing *c)
{
    bool wanted[HAUL__PLAN_CANDIDATES];
    bool fine = true;
    progress_say(&c->bar, "Timing steps");
    haul_sync_report(false);
    if (find_wanted(c, wanted) > 1)
        fine = trial_measure(c->t, c->plan, wanted);
    haul_sync_report(c->t->options->sync_report);
    trainer_count_anew(c->t);
    for (int i = 0; i < haul__plan_way_count(c->plan); i++) {
        haul__plan_way *w = &c->plan->ways[i];
        if (wanted[i] && w->device < 0)
            c->planned = w;
        else if (wanted[i] && (!c->single || w->measured < c->single->measured))
            c->single = w;
    }
    return fine;
}

/* ---- the choice ---- */

/* "57 of 60 operations on cuda:0; 3 on cpu take 1.2 of 8.3 ms" */
static size_t describe_split(const haul_plan *p, char *out, size_t size)
{
    int     count[HAUL__PLACE_DEVICES] = {0}, most = 0, all = 0;
    int64_t ps[HAUL__PLACE_DEVICES] = {0};
    for (size_t i = 0; i < p->graph.operation_count; i++) {
        const haul__place_operation *o = &p->graph.operations[i];
        const int                    device = haul__plan_device_of(p, o);
        count[device] += haul__place_takes_time(o);
        all += haul__place_takes_time(o);
        ps[device] += o->cost[device];
    }
    for (int d = 1; d < haul__plan_device_count(p); d++)
        most = count[d] >= count[most] ? d : most;
    size_t used = (size_t)snprintf(out, size, "%d of %d operations on %s", count[most], all, p->request.names[most]);
    for (int d = 0; d < haul__plan_device_count(p) && used < size; d++)
        if (d != most && (count[d] || haul__plan_device_count(p) == 2))
            used += (size_t)snprintf(out + used, size - used, "; %d on %s take %s of %s", count[d], p->request.names[d],
                                     text_ps(ps[d]), text_ps(p->best->cost));
    return used;
}

static void describe(choosing *c, bool split)
{
    char        *out = c->t->chosen;
    const size_t size = sizeof c->t->chosen;
    const double single = c->single ? c->single->measured : NAN, planned = c->planned ? c->planned->measured : NAN;
    size_t       used = split ? describe_split(c->plan, out, size) : (size_t)snprintf(out, size, "%s", c->single->name);
    const double own = split ? planned : single, other = split ? single : planned;
    if (!isnan(own) && used < size)
        used += (size_t)snprintf(out + used, size - used, "; %s a step in a short run", text_seconds(own));
    else if (!split && used < size)
        used += (size_t)snprintf(out + used, size - used, "; %s a step as predicted", text_ps(c->single->figures.ps));
    if (!isnan(other) && used < size)
        used += (size_t)snprintf(out + used, size - used, ", %s %s", text_seconds(other),
                                 split ? c->single->name : "split as planned");
    if (used < size)
        snprintf(out + used, size - used, ". haul plan explains; another run may choose differently, %s",
                 split ? "--plan FILE does not" : "--device does not");
}

static bool take(choosing *c)
{
    trainer   *t = c->t;
    const bool split = c->planned && (!c->single || isnan(c->planned->measured) ||
                                      is_shorter(c->planned->measured, c->single->measured));
    describe(c, split);
    if (split) {
        t->places.plan = c->plan;
        c->plan = NULL;
        return place_list_modules(&t->places);
    }
    t->options->pipeline = 1;
    t->device = device_use(c->plan->request.names[c->single->device]);
    if (t->device)
        t->options->device = haul_device_name(t->device);
    return t->device != NULL;
}

/* ---- the whole ---- */

/* Where nothing can be planned, the training runs on the device that auto names. */
static bool give_up(trainer *t)
{
    if (t->options->devices) {
        complain_error();
        return false;
    }
    if (haul_error_status() == HAUL_STATE)
        snprintf(t->chosen, sizeof t->chosen, "without a plan: devices were not measured; haul calibrate does that");
    haul_error_clear();
    t->device = device_use("auto");
    return t->device != NULL;
}

bool choose_devices(trainer *t)
{
    choosing    c = {.t = t};
    char        list[80];
    const char *devices = devices_of(t, list, sizeof list);
    if (!devices)
        return true;
    t->device = device_use("cpu"); /* where the program is recorded */
    if (!t->device || !planner_open(t))
        return false;
    progress_init(&c.bar, !t->options->quiet && !t->options->json);
    bool fine = !find_plan(&c, devices);
    if (!fine) {
        progress_clear();
        fine = give_up(t);
    } else {
        fine = try_ways(&c);
        progress_clear();
        fine = fine && take(&c);
    }
    haul__object_release(c.plan);
    planner_free(t->planner); /* it is for one device */
    t->planner = NULL;
    return fine;
}

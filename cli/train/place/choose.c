#include "cli/train/place/choose.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/shared/cli.h"
#include "cli/shared/progress.h"
#include "cli/train/place/trial.h"
#include "cli/train/planner.h"
#include "plan/place/options.h"
#include "record/work.h"

/* A plan must be so much better than the best single device. Predictions may be wrong by so much. */
#define NOISE       0.03
#define UNCERTAINTY 1.5
/* A plan is made again if the operations of a device differ by a larger share of their predicted times. */
#define TOLERANCE 0.2

typedef struct choosing {
    trainer        *t;
    haul_plan      *plan;
    haul__plan_way *single, *planned; /* the fastest device, and the plan; NULL: it is not tried */
    haul__machine  *learnt;           /* that of the plan with the measured times of operations; NULL: none were */
    char            device[HAUL__MACHINE_NAME]; /* of `off` */
    double          off; /* how much operations of a device differ from its prediction, as a share of it */
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
                   {o->pieces > 0, "--pieces"},
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

static const char operation[] = "haul train";

/* For --devices, those that were not measured are, which takes seconds. */
static haul_status find_request(const choosing *c, const char *devices, haul__plan_request *out)
{
    const train_options *o = c->t->options;
    return haul__plan_choose(&(haul_plan_options){.devices = devices, .machine = o->machine, .stages = o->pipeline > 1},
                             o->devices, NULL, operation, out);
}

static haul_status find_plan(choosing *c, const char *devices)
{
    haul__plan_request request;
    progress_say(&c->bar, "Planning");
    haul_status status = find_request(c, devices, &request);
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
 * knows nothing of micro-batches. */
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
    if (find_wanted(c, wanted) > 1) {
        c->learnt = haul__malloc(sizeof *c->learnt);
        if (c->learnt)
            *c->learnt = *c->plan->request.machine;
        fine = trial_measure(c->t, c->plan, wanted, c->learnt);
    }
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

/* ---- planning again ---- */

/* The times of the operations of one device that were measured: the sum of their differences from the predicted ones,
 * as a share of these. */
static double difference(const choosing *c, int device)
{
    const haul_plan    *p = c->plan;
    const haul_program *program = &p->program;
    const int           number = p->request.devices[device];
    double              predicted = 0, sum = 0;
    for (int64_t i = 0; i < program->operation_count; i++) {
        const haul__machine_work    w = haul__program_work_of(program, &program->operations[i]);
        const haul__machine_learnt *l = w.commands ? haul__machine_learnt_of(c->learnt, number, &w) : NULL;
        const double                ps = l ? (double)haul__machine_time(p->request.machine, number, &w) : 0;
        predicted += ps;
        sum += l ? fabs((double)l->ps - ps) : 0;
    }
    return predicted > 0 ? sum / predicted : 0;
}

static void compare_times(choosing *c)
{
    for (int d = 0; d < haul__plan_device_count(c->plan); d++) {
        const double now = difference(c, d);
        if (now <= c->off)
            continue;
        c->off = now;
        snprintf(c->device, sizeof c->device, "%s", c->plan->request.names[d]);
    }
}

/* The second plan takes the place of the first one. What the devices take alone is known from the trials of the first.
 */
static void take_second(choosing *c, haul_plan *second, haul__plan_way *planned)
{
    haul__plan_way *single = NULL;
    for (int i = 0; i < haul__plan_way_count(second); i++) {
        haul__plan_way *w = &second->ways[i];
        if (c->single && w->device == c->single->device) {
            w->measured = c->single->measured;
            single = w;
        }
    }
    haul__object_release(c->plan);
    c->plan = second;
    c->planned = planned;
    c->single = single;
}

/* Tries it, and keeps it if its steps are shorter than those of the first plan. */
static bool try_second(choosing *c, haul_plan *second)
{
    bool            wanted[HAUL__PLAN_CANDIDATES] = {false};
    haul__plan_way *planned = NULL;
    for (int i = 0; i < haul__plan_way_count(second); i++)
        if (second->ways[i].device < 0 && !*second->ways[i].why_not) {
            planned = &second->ways[i];
            wanted[i] = true;
        }
    if (!planned || !trial_measure(c->t, second, wanted, NULL)) {
        haul__object_release(second);
        return planned == NULL;
    }
    if (!c->planned || planned->measured < c->planned->measured)
        take_second(c, second, planned);
    else
        haul__object_release(second);
    return true;
}

/* Plans once more with the measured times of operations, if they differ much from the predicted ones. */
static bool plan_again(choosing *c, const char *devices)
{
    haul__plan_request request;
    if (c->learnt)
        compare_times(c);
    if (c->off <= TOLERANCE)
        return true;
    progress_say(&c->bar, "Planning again");
    if (find_request(c, devices, &request)) {
        complain_error();
        return false;
    }
    *request.machine = *c->learnt;
    haul_plan *second = planner_place(c->t->planner, c->t->options->batch, &request, operation);
    if (!second) {
        complain_error();
        return false;
    }
    haul_sync_report(false);
    const bool fine = try_second(c, second);
    haul_sync_report(c->t->options->sync_report);
    trainer_count_anew(c->t);
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
                                     text_ps_like(ps[d], p->best->cost), text_ps(p->best->cost));
    return used;
}

static void describe(choosing *c, bool split)
{
    char        *out = c->t->chosen;
    const size_t size = sizeof c->t->chosen;
    const double single = c->single ? c->single->measured : NAN, planned = c->planned ? c->planned->measured : NAN;
    size_t       used = split ? describe_split(c->plan, out, size) : (size_t)snprintf(out, size, "%s", c->single->name);
    const double own = split ? planned : single, other = split ? single : planned, longest = fmax(own, other);
    if (!isnan(own) && used < size)
        used +=
            (size_t)snprintf(out + used, size - used, "; %s a step in a short run", text_seconds_like(own, longest));
    else if (!split && used < size)
        used += (size_t)snprintf(out + used, size - used, "; %s a step as predicted", text_ps(c->single->figures.ps));
    if (!isnan(other) && used < size)
        used += (size_t)snprintf(out + used, size - used, ", %s %s", text_seconds_like(other, longest),
                                 split ? c->single->name : "split as planned");
    if (c->off > TOLERANCE && used < size)
        used += (size_t)snprintf(out + used, size - used,
                                 "; planned again, since operations on %s differ by %.0f %% from what was predicted",
                                 c->device, 100 * c->off);
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
        fine = try_ways(&c) && plan_again(&c, devices);
        progress_clear();
        fine = fine && take(&c);
    }
    haul__object_release(c.plan);
    haul__free(c.learnt);
    planner_free(t->planner); /* it is for one device */
    t->planner = NULL;
    return fine;
}

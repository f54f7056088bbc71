#include "cli/plan/allow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "base/text/list.h"
#include "cli/options/memory_limit.h"
#include "cli/plan/allowance.h"
#include "cli/shared/cli.h"

/* ---- options ---- */

static void complain_of_names(const char *name, size_t length)
{
    char names[100] = "";
    for (int i = 0; haul__technique_name(i); i++)
        haul__list_add(names, sizeof names, "%s", haul__technique_name(i));
    complain("--allow has '%.*s'; expected are some of %s", (int)length, name, names);
}

/* The bit of the technique; 0: none has that name. */
static unsigned technique_of(const char *name, size_t length)
{
    for (int i = 0; haul__technique_name(i); i++)
        if (strlen(haul__technique_name(i)) == length && !strncmp(name, haul__technique_name(i), length))
            return 1U << i;
    return 0;
}

bool allow_parse(const char *list, unsigned *out)
{
    *out = 0;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t   length = strcspn(at, ",");
        const unsigned technique = technique_of(at, length);
        if (!technique) {
            complain_of_names(at, length);
            return false;
        }
        *out |= technique;
    }
    return true;
}

const char *allow_device(const study_request *r, const char *machine)
{
    static char name[HAUL__MACHINE_NAME + 16];
    for (int i = 0; machine && haul__machine_shipped(i); i++)
        if (!strcmp(machine, haul__machine_shipped(i))) {
            snprintf(name, sizeof name, "sim:%s:%d", machine, r->plan.devices[1] - 1);
            return name;
        }
    return machine ? "cpu" : r->plan.names[1];
}

/* ---- planning ---- */

static haul_status record(void *context, const haul__choose_way *way, haul__segments *segments, haul__fit_step *out)
{
    const allowance *a = context;
    return haul__fit_record(planner_vary(a->t->planner, way), way->batch, segments, out);
}

static haul_status spill(void *context, const haul__choose_way *way, int64_t limit, haul__fit_result *out)
{
    const allowance *a = context;
    return planner_spill(a->t->planner, way, limit, out);
}

/* As the options have it. */
static haul_status record_plain(void *context, haul__segments *segments, haul__fit_step *out)
{
    const allowance     *a = context;
    const train_options *o = a->t->options;
    return record(context, &(haul__choose_way){.batch = o->batch, .parts = o->accumulate}, segments, out);
}

/* A percentage is of the device's peak without a limit. A size has what the driver takes in it, as for haul train. */
static haul_status find_limit(allowance *a, haul__choose_request *r)
{
    const haul__plan_request *p = &a->request->plan;
    haul_memory_stats         memory = {.overhead = 0};
    if (!haul_memory_stats_get(a->t->device, &memory))
        a->overhead = memory.overhead;
    a->limit = p->limit[1] ? p->limit[1] : p->machine->devices[p->devices[1]].memory_bytes;
    if (p->percent[1] > 0) {
        haul__keep        free;
        const haul_status status = haul__keep_find(&(haul__keep_request){.record = record_plain,
                                                                         .context = a,
                                                                         .limit = INT64_MAX / 2,
                                                                         .machine = r->machine,
                                                                         .number = r->number},
                                                   &free);
        if (status)
            return status;
        a->limit = (int64_t)(p->percent[1] / 100 * (double)free.free_peak) + a->overhead;
        haul__keep_free(&free);
    }
    r->limit = larger(a->limit - a->overhead, 1);
    return HAUL_OK;
}

/* The placement takes the place of the other plan. The bound holds for both. */
static void use_split(allowance *a)
{
    haul__chosen          *c = &a->chosen;
    const haul__placement *best = a->split->best;
    haul__keep_free(&c->keep);
    c->fits = true;
    c->used = HAUL__ALLOW_SPLIT;
    c->accumulate = 1;
    c->bf16 = c->offload = false;
    c->moved = c->spill_ps = 0;
    c->ps = best->cost;
    c->bound = smaller(best->proof.bound, c->bound);
    c->keep.peak = best->peaks[1].bytes;
}

/* The placement counts if it is faster, or if nothing else fits. */
static haul_status try_split(allowance *a)
{
    haul__plan_request request = a->request->plan;
    request.limit[1] = larger(a->limit - a->overhead, 1);
    request.percent[1] = 0;
    a->request->plan.machine = NULL; /* the plan takes it over */
    a->split = planner_place(a->t->planner, a->chosen.batch, &request, "haul plan");
    if (!a->split && haul_error_status() != HAUL_OUT_OF_MEMORY)
        return haul_error_status();
    haul_error_clear();
    if (a->split) /* ways are compared by their sums, to which the bound belongs */
        haul__plan_take_cheapest(a->split);
    if (a->split && a->chosen.fits && a->split->best->cost >= a->chosen.ps) {
        haul__object_release(a->split);
        a->split = NULL;
    }
    if (a->split)
        use_split(a);
    return HAUL_OK;
}

static haul_status choose(allowance *a)
{
    const haul__plan_request *p = &a->request->plan;
    haul__choose_request      r = {.record = record,
                                   .spill = spill,
                                   .context = a,
                                   .allowed = a->allowed,
                                   .batch = a->t->options->batch,
                                   .most_batch = smaller(haul_dataset_count(a->t->data), (int64_t)MOST_BATCH),
                                   .parts = a->t->options->accumulate,
                                   .host_limit = p->limit[0],
                                   .machine = p->machine,
                                   .number = p->devices[1]};
    haul_status               status = find_limit(a, &r);
    if (!status)
        status = haul__choose(&r, &a->chosen);
    if (!status && a->allowed & HAUL__ALLOW_SPLIT && a->chosen.batch)
        status = try_split(a);
    return status;
}

/* ---- the result ---- */

/* Of the training that spills by itself, after what lists of moves need. */
static const char *spilling_text(haul__spills spills)
{
    if (spills == HAUL__SPILLS_NO_HOST)
        return ", and what the training that spills by itself moves does not fit in host memory";
    return spills == HAUL__SPILLS_TOO_LARGE ? ", and in a dry run the training that spills by itself does not fit"
                                            : "; the training that spills by itself was not tried";
}

static int refuse(const allowance *a)
{
    const haul__chosen *c = &a->chosen;
    complain("nothing that is allowed fits in %s on %s: with batch %s the best way found needs %s",
             text_bytes(a->limit), a->request->plan.names[1], text_count(c->batch), text_bytes(c->keep.peak));
    if (c->largest)
        complain_more("The largest batch that fits is --batch %" PRId64 ".", c->largest);
    else if (c->batch > 1)
        complain_more("No smaller batch fits.");
    complain_more("Batch %s fits with --memory-limit %s=%" PRId64 ".", text_count(c->batch), a->request->plan.names[1],
                  c->keep.peak + a->overhead);
    if (a->limit - a->overhead < c->least && a->allowed & HAUL__ALLOW_SPILL)
        complain_more("By the model no list of moves needs less than %s%s.", text_bytes(c->least),
                      spilling_text(c->spills));
    else if (a->limit - a->overhead < c->least)
        complain_more("That nothing fits is proven: by the model no allowed way needs less than %s.",
                      text_bytes(c->least));
    return EXIT_MEMORY;
}

/* -1, or an exit code after a complaint. */
static int check(const allowance *a)
{
    const train_options      *o = a->t->options;
    const haul__plan_request *p = &a->request->plan;
    if (p->percent[0] > 0) {
        complain("--memory-limit %s=%g%% is for what --allow spill puts into host memory, so a share has no meaning; a "
                 "size is expected, for example %s=8G",
                 p->names[0], p->percent[0], p->names[0]);
        return EXIT_USAGE;
    }
    if (!memory_limit_suits_batch(p->percent[1], o->batch))
        return EXIT_USAGE;
    if (o->resume && a->allowed & ~(unsigned)(HAUL__ALLOW_RECOMPUTE | HAUL__ALLOW_SPILL | HAUL__ALLOW_OFFLOAD)) {
        complain("a run that goes on may change only --allow recompute,spill,offload; the rest needs another run: haul "
                 "plan --run %s",
                 o->run);
        return EXIT_USAGE;
    }
    return -1;
}

int allow_show(const one_training *t, study_request *request, unsigned allowed, bool json)
{
    allowance a = {.t = t, .request = request, .allowed = allowed, .spilled = t->options->spill};
    int       code = check(&a);
    if (code >= 0)
        return code;
    t->options->spill = false; /* the plan says whether it spills */
    code = EXIT_FAILED;
    if (choose(&a)) {
        code = haul_error_status() == HAUL_OUT_OF_MEMORY ? EXIT_MEMORY : EXIT_FAILED;
        complain_error();
    } else if (a.chosen.fits) {
        code = (json ? show_allowance_json(&a) : show_allowance(&a)) ? EXIT_OK : EXIT_FAILED;
    } else {
        code = json && !show_allowance_json(&a) ? EXIT_FAILED : refuse(&a);
    }
    haul__chosen_free(&a.chosen);
    haul__object_release(a.split);
    return code;
}

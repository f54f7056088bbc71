#include "cli/train/pieces/stages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/shared/cli.h"
#include "cli/train/planner.h"
#include "core/error.h"
#include "group/group.h"
#include "parallel/flat.h"
#include "plan/cluster/cluster.h"
#include "plan/here.h"

#define NAME "haul train"

/* ---- options ---- */

const char *stages_conflict(const train_options *o)
{
    const struct {
        bool        given;
        const char *name;
    } others[] = {{o->shard > 0, "--shard"}, {o->place != NULL, "--place"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].given)
            return others[i].name;
    return NULL;
}

bool stages_suit(const train_options *o)
{
    const char *other = o->stages ? stages_conflict(o) : NULL;
    if (o->cuts && !o->stages && !o->resume) {
        complain("--cuts is for --stages");
        return false;
    }
    if (other)
        complain("--stages does not work with %s; leave one of them out", other);
    return !other;
}

bool stages_suit_ranks(train_options *o, int ranks, bool silent)
{
    if (o->stages == 1 || (ranks == 1 && o->resume))
        o->stages = 0;
    if (o->estimate && o->stages && !o->pieces)
        o->pieces = 8;
    if (!o->stages || o->stages == ranks || o->estimate)
        return true;
    if (!silent)
        complain("--stages %" PRId64 " needs %" PRId64
                 " ranks, and there %s %d: start as many, or give another number; "
                 "--stages 0 gives each rank the whole network",
                 o->stages, o->stages, ranks == 1 ? "is" : "are", ranks);
    return false;
}

/* ---- cuts ---- */

typedef struct cutting {
    const trainer *t;
    int            stages;
    haul__cut     *out;
} cutting;

static haul_status find_cut(void *context)
{
    const cutting       *c = context;
    const train_options *o = c->t->options;
    haul_module         *net = network_new(o->model, &o->sizes, &c->t->data.spec);
    return net ? haul__cut_make(c->out, net, c->stages, NULL, NAME) : haul_error_status();
}

haul_status stages_find_cut(const trainer *t, int stages, haul__cut *out)
{
    cutting              c = {t, stages, out};
    haul_estimate_result all;
    *out = (haul__cut){.units = NULL};
    haul_scope *scope = haul_scope_push();
    haul_status status = scope ? haul_estimate(find_cut, &c, &all) : haul_error_status();
    if (!status)
        haul_estimate_free(&all);
    if (scope)
        haul_scope_pop(scope);
    return status;
}

static haul_status record(void *context, int64_t examples, haul_program *out)
{
    const trainer *t = context;
    return planner_record_whole(t->planner, examples, out);
}

/* This computer, if it was measured. Otherwise one of data sheets: which stage takes how long is about the same. */
static haul_status find_machine(const trainer *t, haul__machine **out)
{
    haul_device *device = t->device;
    if (!haul__machine_here(NAME, &device, 1, HAUL__HERE_CACHED, out))
        return HAUL_OK;
    haul_error_clear();
    return haul__machine_load(NAME, "h200", out);
}

static haul__cluster_stage *plan_stages(trainer *t, const haul__machine *m, const haul__cut *cut, const char **paths)
{
    const train_options        *o = t->options;
    const int                   stages = (int)o->stages, pieces = (int)o->pieces;
    const haul__cluster_request request = {.record = record,
                                           .context = t,
                                           .paths = {paths, cut->count},
                                           .machine = m,
                                           .device = t->device != haul_cpu() && m->device_count > 1,
                                           .devices = stages,
                                           .per_host = stages,
                                           .batch = o->batch,
                                           .bucket = haul__flat_bucket_bytes};
    const haul__cluster_plan    plan = {
           .layout = {.stages = stages, .replicas = 1, .parts = pieces}, .devices = stages, .examples = o->batch / pieces};
    for (int u = 0; u < cut->count; u++)
        paths[u] = cut->units[u].path;
    return haul__cluster_stages(&request, &plan);
}

static haul_status write_cuts(const haul__cluster_stage *stages, int count, char *out, size_t size)
{
    size_t used = 0;
    for (int s = 1; s < count && used < size; s++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", s > 1 ? "," : "", stages[s].first);
    return used < size ? HAUL_OK
                       : haul__fail(HAUL_UNSUPPORTED, NAME, "stages",
                                    "the names of the modules with which stages begin have more than %zu bytes; give "
                                    "--cuts",
                                    size - 1);
}

static haul_status plan_cuts(trainer *t)
{
    haul__machine *machine = NULL;
    haul__cut      cut;
    haul_status    status = stages_find_cut(t, (int)t->options->stages, &cut);
    if (!status)
        status = find_machine(t, &machine);
    const char **paths = status ? NULL : calloc((size_t)cut.count, sizeof *paths);
    if (!status && !paths)
        status = haul__fail_memory(NAME, (size_t)cut.count * sizeof *paths);
    haul__cluster_stage *stages = status ? NULL : plan_stages(t, machine, &cut, paths);
    if (!status)
        status = stages ? write_cuts(stages, cut.stages, t->chosen_cuts, sizeof t->chosen_cuts) : haul_error_status();
    haul__free(stages);
    free(paths);
    haul__free(machine);
    haul__cut_free(&cut);
    return status;
}

haul_status stages_choose(trainer *t)
{
    const train_options   *o = t->options;
    const haul__group_call call = {.name = NAME, .what = "where stages begin"};
    haul_status            status = HAUL_OK;
    t->cuts = o->stages && !o->estimate ? o->cuts : NULL;
    if (!o->stages || o->estimate || o->cuts)
        return HAUL_OK;
    if (!t->ranks.silent)
        status = plan_cuts(t);
    t->cuts = t->chosen_cuts;
    return status ? status
                  : haul__work_wait(
                        haul__group_broadcast_begin(t->ranks.group, &call, t->chosen_cuts, sizeof t->chosen_cuts, 0));
}

/* Where haul train can cut the network of a plan for many devices, and the command that trains by this plan. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan/cluster.h"
#include "cli/shared/cli.h"
#include "cli/train/pieces/stages.h"

/* ---- where it can be cut ---- */

bool cluster_find_paths(cluster *c)
{
    static const char *const whole[] = {""};
    const train_options     *o = c->training->options;
    const char              *other = stages_conflict(o);
    if (other)
        snprintf(c->why_whole, sizeof c->why_whole, "--stages of haul train does not work with %s", other);
    else if (stages_find_cut(c->training->trainer, 1, &c->cut) == HAUL_UNSUPPORTED)
        snprintf(c->why_whole, sizeof c->why_whole, "haul train cannot cut %s into stages", o->model);
    else if (haul_error_status())
        return !complain_error();
    haul_error_clear();
    c->request.paths = (haul__units_paths){whole, 1};
    if (*c->why_whole)
        return true;
    c->paths = calloc((size_t)c->cut.count, sizeof *c->paths);
    if (!c->paths)
        return !complain("memory is exhausted");
    for (int i = 0; i < c->cut.count; i++)
        c->paths[i] = c->cut.units[i].path;
    c->request.paths = (haul__units_paths){c->paths, c->cut.count};
    return true;
}

/* ---- the command ---- */

static void put(char *out, size_t size, const char *format, ...)
{
    const size_t used = strlen(out);
    va_list      values;
    va_start(values, format);
    vsnprintf(out + used, size - used, format, values);
    va_end(values);
}

/* What the plan decides on. A run's file may have other numbers, which zeros replace. */
static void put_plan(const cluster *c, char *out, size_t size)
{
    const haul__layout  *l = &c->best->layout;
    const train_options *o = c->training->options;
    const bool           stored = c->training->config != NULL;
    const int            pieces = l->replicas * l->parts > 1 ? l->replicas * l->parts : 0;
    if (!c->request.device)
        put(out, size, " --device cpu");
    put(out, size, " --batch %" PRId64, c->request.batch);
    if (pieces || c->best->devices > 1 || stored)
        put(out, size, " --pieces %d", c->best->devices > 1 && !pieces ? 1 : pieces);
    if (l->shard || o->shard)
        put(out, size, " --shard %d", l->shard);
    if (l->stages > 1 || o->stages)
        put(out, size, " --stages %d", l->stages > 1 ? l->stages : 0);
    for (int s = 1; s < l->stages; s++)
        put(out, size, "%s%s", s > 1 ? "," : " --cuts ", c->stages[s].first);
}

char *cluster_command(const cluster *c)
{
    static const char *const without[] = {"device",       "devices",    "place", "plan",       "batch",
                                          "pieces",       "stages",     "cuts",  "shard",      "group",
                                          "memory-limit", "estimate",   "spill", "spill-host", "spill-folder",
                                          "spill-file",   "accumulate", NULL};
    const haul__layout      *l = &c->best->layout;
    const size_t             room = 300 + (size_t)l->stages * (HAUL__CLUSTER_PATH + 1);
    char                    *given = NULL, *out = NULL;
    if (l->stages > 1 && l->replicas > 1)
        return NULL;
    given = one_step_words(c->training, without);
    if (given)
        out = calloc(strlen(given) + room, 1);
    if (out) {
        if (c->best->devices > 1)
            put(out, room, "mpirun -n %d ", c->best->devices);
        put(out, strlen(given) + room, "haul train%s", given);
        put_plan(c, out, strlen(given) + room);
    }
    free(given);
    return out;
}

#include "cli/train/pieces/stages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "parallel/cut.h"

/* ---- options ---- */

const char *stages_conflict(const train_options *o)
{
    const struct {
        bool        given;
        const char *name;
    } others[] = {{o->shard > 0, "--shard"},
                  {train_options_recompute(o), "--recompute auto"},
                  {o->spill, "--spill"},
                  {o->place != NULL, "--place"},
                  {!strcmp(o->offload, "optimizer"), "--offload optimizer"}};
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

static bool is_within(const char *path, const char *unit)
{
    const size_t length = strlen(unit);
    return strncmp(path, unit, length) == 0 && (path[length] == '.' || path[length] == '\0');
}

/* The arithmetic of a unit's layers in a forward pass. */
static int64_t cost_of(const haul__layers *layers, const char *unit)
{
    double flops = 0;
    for (size_t i = 0; i < layers->count; i++)
        if (layers->items[i].is_leaf && is_within(layers->items[i].path, unit))
            flops += layers->items[i].flops;
    return (int64_t)flops;
}

static void write_cuts(const haul__cut *cut, char *out, size_t size)
{
    size_t used = 0;
    *out = '\0';
    for (int s = 1; s < cut->stages && used < size; s++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", s > 1 ? "," : "", cut->units[cut->first[s]].path);
}

haul_status stages_choose(trainer *t)
{
    const train_options *o = t->options;
    haul__cut            cut;
    t->cuts = o->stages && !o->estimate ? o->cuts : NULL;
    if (!o->stages || o->estimate || o->cuts || !t->expected.layers.count)
        return HAUL_OK;
    haul_status status = haul__cut_make(&cut, t->net, (int)o->stages, NULL, "haul train");
    if (status)
        return status;
    for (int u = 0; u < cut.count; u++)
        cut.units[u].cost = cost_of(&t->expected.layers, cut.units[u].path);
    status = haul__cut_evenly(&cut, "haul train");
    if (!status) {
        write_cuts(&cut, t->chosen_cuts, sizeof t->chosen_cuts);
        t->cuts = t->chosen_cuts;
    }
    haul__cut_free(&cut);
    return status;
}

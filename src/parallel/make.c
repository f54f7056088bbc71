/* Data parallel training: its options, and what all ranks must have in common. */
#include <haul/parallel.h>
#include <haul/random.h>
#include <haul/scope.h>
#include <inttypes.h>

#include "base/assert.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "core/object.h"
#include "core/scope.h"
#include "group/group.h"
#include "memory/dry_run/dry_run.h"
#include "nn/tensors.h"
#include "optim/optimizer.h"
#include "parallel/state.h"

#define NEW "haul_parallel_new"

enum { MOST_SHARDS = 3 };

static void destroy(void *object)
{
    haul_parallel *p = object;
    haul__shards_free(&p->shards);
    haul__pipe_free(p->pipe);
    haul__buckets_free(&p->buckets);
    haul__flat_free(&p->flat);
    haul__object_release(p->loss);
    haul__object_release(p->generator);
    haul__object_release(p->scaler);
    haul__object_release(p->module);
    haul__object_release(p->group);
    haul__object_free(&p->object, sizeof *p);
}

static const haul__class parallel_class = {.name = "data parallel training", .destroy = destroy};

haul_status haul__parallel_check(const haul_parallel *p, const char *operation)
{
    return haul__check_object(p, &parallel_class, operation, "parallel");
}

/* stages: 0 if each rank has the whole network. */
static haul_status check_pieces(int pieces, const haul_group *group, int stages)
{
    const int ranks = stages ? 1 : haul_group_size(group);
    if (pieces >= 1 && pieces <= HAUL_MAX_PIECES && (pieces & (pieces - 1)) == 0 && ranks <= pieces)
        return HAUL_OK;
    if (ranks > pieces && pieces >= 1)
        return haul__fail(HAUL_INVALID_ARGUMENT, NEW, "pieces",
                          "the group has %d ranks, but .pieces is %d: each rank needs a piece; start fewer ranks, or "
                          "use more pieces",
                          ranks, pieces);
    return haul__fail(HAUL_INVALID_ARGUMENT, NEW, "pieces",
                      ".pieces is %d; a power of two from 1 to %d is expected, for example 8", pieces, HAUL_MAX_PIECES);
}

static haul_status check_shard(int shard)
{
    if (shard >= 0 && shard <= MOST_SHARDS)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, NEW, "shard",
                      ".shard is %d; 0 is expected, or 1 to divide the optimizer's state among the ranks, 2 to divide "
                      "the gradients, too, or 3 to divide the parameters, too",
                      shard);
}

/* The number of stages, or 0 if there are none. */
static int stages_of(const haul_parallel_options *o)
{
    return o->stages > 1 ? o->stages : 0;
}

static haul_status check_stages(const haul_parallel_options *o, const haul_group *group)
{
    const int ranks = haul_group_size(group);
    if (o->stages < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, NEW, "stages", ".stages is %d; 0 or more is expected", o->stages);
    if (o->cuts && !stages_of(o))
        return haul__fail(HAUL_INVALID_ARGUMENT, NEW, "cuts", ".cuts is for several .stages");
    if (!stages_of(o))
        return HAUL_OK;
    if (o->shard)
        return haul__fail(
            HAUL_INVALID_ARGUMENT, NEW, "shard",
            ".shard is %d, but ranks that are stages have nothing in common that they could divide; leave "
            "one of .shard and .stages out",
            o->shard);
    return ranks == o->stages ? HAUL_OK
                              : haul__fail(HAUL_UNSUPPORTED, NEW, "stages",
                                           ".stages is %d, but the group has %d rank%s: each stage needs a rank, and "
                                           "replicas of stages are not supported; start %d ranks",
                                           o->stages, ranks, ranks == 1 ? "" : "s", o->stages);
}

/* With one rank there is nothing to divide. */
static haul_status make_shards(haul_parallel *p, int shard)
{
    return shard && p->tree.ranks > 1 ? haul__shards_init(&p->shards, shard, &p->flat, p->group) : HAUL_OK;
}

/* The generator belongs to the object alone. */
static haul_status make_generator(haul_parallel *p)
{
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    p->generator = haul_generator_new(p->seed);
    haul__object_keep(p->generator);
    haul_scope_pop(scope);
    return p->generator ? HAUL_OK : haul_error_status();
}

/* All ranks have the same pieces, seed, scaling and tensors. */
static haul_status agree(const haul_parallel *p)
{
    const haul__flat        *all = p->pipe ? &p->pipe->all : &p->flat;
    const haul__group_call   call = {.name = NEW};
    static const char *const shards[] = {"", ", .shard 1", ", .shard 2", ", .shard 3"};
    char                     text[200], stages[40] = "";
    HAUL__ASSERT(0 <= p->shards.stage && p->shards.stage < (int)(sizeof shards / sizeof *shards));
    if (p->tree.ranks == 1 && !p->pipe)
        return HAUL_OK;
    if (p->pipe)
        haul__snprintf(stages, sizeof stages, ", %d stages %08x", p->pipe->stages,
                       (unsigned)haul__cut_hash(&p->pipe->cut));
    haul__snprintf(text, sizeof text,
                   "%d pieces, seed %" PRIu64 "%s%s, %d parameters and %d buffers of %" PRId64
                   " numbers in %s, names, shapes and dtypes %08x",
                   p->pieces, p->seed, p->scaler ? ", loss scaling" : "", p->pipe ? stages : shards[p->shards.stage],
                   all->parameters, all->floats + all->integers, all->total, haul_dtype_name(all->dtype),
                   (unsigned)haul__flat_hash(all));
    return haul__group_agree(p->group, &call, text);
}

/* In a dry run one rank computes all stages: it gets no activations of others. */
static haul_status make_parts(haul_parallel *p, const haul_parallel_options *o)
{
    const bool  apart = stages_of(o) && !p->dry;
    haul_status status = HAUL_OK;
    if (apart && !(p->pipe = haul__pipe_new(p->module, p->group, o->stages, o->cuts)))
        return haul_error_status();
    status = apart ? haul__pipe_own(p->pipe, &p->flat) : haul__flat_init(&p->flat, p->module, NEW);
    if (!status)
        status = haul__buckets_init(&p->buckets, &p->flat, p->group, &p->tree);
    if (!status)
        status = apart ? haul__shards_init_apart(&p->shards, &p->pipe->all, p->pipe->owners, p->group)
                       : make_shards(p, o->shard);
    return status;
}

haul_parallel *haul_parallel_new_with(const haul_parallel_options *options)
{
    if (!options) {
        haul__fail_null(NEW, "options");
        return NULL;
    }
    const int   pieces = options->pieces ? options->pieces : 8;
    haul_group *group = options->group ? options->group : haul_group_get("auto");
    if (!group) {
        haul__fail_within(NEW);
        return NULL;
    }
    if (haul__check_module(options->module, NEW) || haul__group_check(group, NEW) || check_stages(options, group) ||
        check_pieces(pieces, group, stages_of(options)) || check_shard(options->shard) ||
        (options->scaler && haul__check_grad_scaler(options->scaler, NEW)))
        return NULL;
    haul_parallel *p = haul__object_new_zeroed(sizeof *p, &parallel_class);
    if (!p) {
        haul__fail_memory(NEW, sizeof *p);
        return NULL;
    }
    p->module = options->module;
    p->scaler = options->scaler;
    haul__object_keep(p->module);
    haul__object_keep(p->scaler);
    p->seed = options->seed;
    p->pieces = pieces;
    p->group = group;
    haul__object_keep(group);
    p->tree = (haul__tree){.pieces = pieces, .ranks = stages_of(options) ? 1 : haul_group_size(group)};
    const int number = stages_of(options) ? 0 : haul_group_rank(group);
    p->first = haul__tree_first(&p->tree, number);
    p->count = haul__tree_first(&p->tree, number + 1) - p->first;
    HAUL__ASSERT(p->count > 0 && p->first >= 0 && p->first + p->count <= pieces);
    p->dry = haul__is_dry();
    if (!make_parts(p, options) && !make_generator(p) && !agree(p))
        return haul__own(p, NEW);
    haul__object_release(p);
    return NULL;
}

int haul_parallel_first(const haul_parallel *parallel)
{
    return haul__parallel_check(parallel, "haul_parallel_first") ? -1 : parallel->first;
}

int haul_parallel_count(const haul_parallel *parallel)
{
    return haul__parallel_check(parallel, "haul_parallel_count") ? -1 : parallel->count;
}

bool haul_parallel_ready(const haul_parallel *parallel)
{
    return !haul__parallel_check(parallel, "haul_parallel_ready") && parallel->ready;
}

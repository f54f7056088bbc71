#include "cli/plan/cluster.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numbers.h"
#include "cli/options/memory_limit.h"
#include "cli/plan/hosts.h"
#include "cli/shared/cli.h"
#include "machine/picoseconds.h"
#include "parallel/flat.h"
#include "plan/cluster/exchange.h"
#include "plan/here.h"

/* ---- options ---- */

/* A number of --only. False if the text is none of this name, or not from low to high and, but for the shard, a power
 * of two. */
static bool take_number(const char *text, size_t length, const char *name, int low, int high, int *out)
{
    const size_t prefix = strlen(name);
    char        *end;
    if (length <= prefix + 1 || strncmp(text, name, prefix) != 0 || text[prefix] != '=' || text[prefix + 1] < '0' ||
        text[prefix + 1] > '9')
        return false;
    const long number = strtol(text + prefix + 1, &end, 10);
    if (end != text + length || number < low || number > high || (low && number & (number - 1)))
        return false;
    *out = (int)number;
    return true;
}

static bool parse_only(const char *list, haul__layout *out)
{
    *out = (haul__layout){.shard = -1};
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t length = strcspn(at, ",");
        if (take_number(at, length, "stages", 1, HAUL__CLUSTER_STAGES, &out->stages) ||
            take_number(at, length, "replicas", 1, HAUL__CLUSTER_DEVICES, &out->replicas) ||
            take_number(at, length, "micro-batches", 1, HAUL__CLUSTER_PIECES, &out->parts) ||
            take_number(at, length, "shard", 0, HAUL__CLUSTER_SHARDS - 1, &out->shard))
            continue;
        complain("--only has '%.*s'; some of stages=S, replicas=R, micro-batches=M and shard=0 to 3 are expected, with "
                 "powers of two: S up to %d, R up to %d, M up to %d",
                 (int)length, at, HAUL__CLUSTER_STAGES, HAUL__CLUSTER_DEVICES, HAUL__CLUSTER_PIECES);
        return false;
    }
    return true;
}

/* Whether gradients leave device memory directly. */
static bool choose_group(const cluster_options *o, const haul__machine *m, int device, bool *direct)
{
    const bool can = device && haul__exchange_peer(m, device);
    *direct = can && strcmp(o->group, "mpi") != 0;
    if (can || strcmp(o->group, "nccl") != 0)
        return true;
    complain("--group nccl: %s has no link between two GPUs; --group mpi exchanges through host memory", m->name);
    return false;
}

static bool read_sizes(cluster *c)
{
    const cluster_options *o = c->options;
    int64_t                limit = 0;
    c->request.bucket = haul__flat_bucket_bytes;
    if ((o->bucket && !size_parse("bucket", o->bucket, &c->request.bucket)) ||
        (o->limit && !size_parse("memory-limit", o->limit, &limit)))
        return false;
    if (c->request.bucket < 1) {
        complain("--bucket %s: a size is expected, for example 25M", o->bucket);
        return false;
    }
    c->limit = limit ? limit : c->machine->devices[c->request.device].memory_bytes;
    return true;
}

int cluster_read(cluster *c)
{
    const cluster_options *o = c->options;
    haul__cluster_request *r = &c->request;
    if (!hosts_network_parse(o->network, &r->rate, &r->latency_ns) || !parse_only(o->only, &r->only))
        return EXIT_USAGE;
    if (haul__machine_choose("haul plan", o->machine, &c->machine))
        return complain_error();
    r->machine = c->machine;
    r->device = hosts_device_of(c->machine);
    r->devices = (int)o->ranks;
    r->per_host = (int)smaller(o->per_host, o->ranks);
    return choose_group(o, c->machine, r->device, &r->direct) && read_sizes(c) ? -1 : EXIT_USAGE;
}

void cluster_free(cluster *c)
{
    haul__cluster_free(&c->plans);
    haul__cut_free(&c->cut);
    free(c->paths);
    haul__free(c->stages);
    haul__free(c->machine);
}

/* ---- the plan and its rivals ---- */

static const haul__layout any = {.shard = -1};

double cluster_speed(const cluster *c, const haul__cluster_plan *p)
{
    return (double)c->request.batch / ((double)p->step_ps * 1e-12);
}

double cluster_efficiency(const cluster *c, const haul__cluster_plan *p)
{
    return (double)c->one_ps / ((double)p->step_ps * p->devices);
}

/* The part of the step that grows most. */
static void explain(const cluster *c, const haul__cluster_plan *p, cluster_other *out)
{
    const haul__cluster_plan *best = c->best;
    const struct {
        int64_t     more;
        const char *what;
    } parts[] = {{p->compute_ps - best->compute_ps, "computing"},
                 {p->exposed_ps - best->exposed_ps, "communication"},
                 {p->bubble_ps - best->bubble_ps, "bubble"}};
    size_t most = 0;
    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++)
        most = parts[i].more > parts[most].more ? i : most;
    out->plan = p;
    if (p->peak_bytes > c->limit)
        snprintf(out->why, sizeof out->why, "needs %s of %s", text_bytes(p->peak_bytes), text_bytes(c->limit));
    else if (p->step_ps <= best->step_ps + best->step_ps / 100)
        snprintf(out->why, sizeof out->why, "within 1 %%, not simpler");
    else
        snprintf(out->why, sizeof out->why, "%s more %s", text_ps_like(parts[most].more, best->step_ps),
                 parts[most].what);
}

static void add_other(const cluster *c, const haul__layout *of, cluster_other *out, int *count)
{
    const haul__cluster_plan *p = haul__cluster_best(&c->plans, c->request.devices, c->limit, of);
    if (!p)
        p = haul__cluster_best(&c->plans, c->request.devices, INT64_MAX, of);
    for (int i = 0; i < *count && p; i++)
        p = out[i].plan == p ? NULL : p;
    if (p && p != c->best && *count < CLUSTER_OTHERS)
        explain(c, p, &out[(*count)++]);
}

int cluster_others(const cluster *c, cluster_other out[CLUSTER_OTHERS])
{
    int count = 0;
    for (int stages = 1; stages <= HAUL__CLUSTER_STAGES; stages *= 2)
        add_other(c, &(haul__layout){.stages = stages, .shard = -1}, out, &count);
    for (int shard = 0; shard < HAUL__CLUSTER_SHARDS; shard++)
        add_other(c, &(haul__layout){.stages = c->best->layout.stages, .shard = shard}, out, &count);
    return count;
}

int cluster_fewer(const cluster *c, const haul__cluster_plan *out[CLUSTER_FEWER], int devices[CLUSTER_FEWER])
{
    int count = 0;
    for (int n = c->request.devices; n && count < CLUSTER_FEWER; n /= 2) {
        devices[count] = n;
        out[count++] = haul__cluster_best(&c->plans, n, c->limit, &any);
    }
    return count;
}

/* ---- what would fit ---- */

/* Another number of devices, or another batch. False: no plan fits. */
static bool fits_with(const cluster *c, int devices, int64_t batch)
{
    haul__cluster_request r = c->request;
    haul__cluster_plans   plans;
    r.devices = devices;
    r.batch = batch;
    r.per_host = (int)smaller(c->options->per_host, devices);
    const bool fits = !haul__cluster_find(&r, &plans) && haul__cluster_best(&plans, devices, c->limit, &any);
    haul__cluster_free(&plans);
    haul_error_clear();
    return fits;
}

static int refuse(const cluster *c)
{
    const haul__cluster_plan *p = haul__cluster_least(&c->plans, c->request.devices);
    int                       more = c->request.devices;
    int64_t                   batch = c->request.batch / 2;
    complain("no plan fits into the %s of a device: with batch %s each of %s device%s needs %s at least (stages=%d,"
             "replicas=%d,micro-batches=%d,shard=%d)",
             text_bytes(c->limit), text_count(c->request.batch), text_count(p->devices), p->devices == 1 ? "" : "s",
             text_bytes(p->peak_bytes), p->layout.stages, p->layout.replicas, p->layout.parts, p->layout.shard);
    complain_more("It fits with --memory-limit %" PRId64 ".", p->peak_bytes);
    bool fits = false;
    while (more < HAUL__CLUSTER_DEVICES && !fits) {
        more = (int)smaller(2 * more, HAUL__CLUSTER_DEVICES);
        fits = fits_with(c, more, c->request.batch);
    }
    if (fits)
        complain_more("It also fits with --ranks %d.", more);
    while (batch && !fits_with(c, c->request.devices, batch))
        batch /= 2;
    if (batch)
        complain_more("It also fits with --batch %" PRId64 ".", batch);
    return EXIT_MEMORY;
}

/* ---- why there is no plan ---- */

static void find_cause(const cluster *c, char *out, size_t size)
{
    const haul__cluster_request *r = &c->request;
    const int                    stages = (int)larger(r->only.stages, 1), most = c->plans.most_stages;
    const int                    replicas = (int)larger(r->only.replicas, r->only.shard > 0 ? 2 : 1);
    const int64_t                pieces = replicas * larger(r->only.parts, 1);
    if (stages > 1 && *c->why_whole)
        snprintf(out, size, "%s", c->why_whole);
    else if (r->only.shard > 0 && r->only.replicas == 1)
        snprintf(out, size, "a shard divides among replicas, so two or more are expected");
    else if (stages * replicas > r->devices)
        snprintf(out, size, "that needs --ranks %d", stages * replicas);
    else if (!haul__cluster_suits_hosts(r, stages))
        snprintf(out, size, "%d stages neither divide hosts of %d devices nor fill them", stages, r->per_host);
    else if (most && stages > most)
        snprintf(out, size, "the network can be cut into %d stage%s", most, most == 1 ? "" : "s");
    else if (pieces > HAUL__CLUSTER_PIECES)
        snprintf(out, size, "replicas times micro-batches are %s, and can be %s", text_count(pieces),
                 text_count(HAUL__CLUSTER_PIECES));
    else if (r->batch % pieces)
        snprintf(out, size, "replicas times micro-batches are %s, which do not divide --batch %s", text_count(pieces),
                 text_count(r->batch));
    else
        snprintf(out, size,
                 "--batch %s divided by replicas times micro-batches, powers of two, is more than the %s examples of "
                 "the data",
                 text_count(r->batch), text_count(r->most));
}

static int refuse_all(const cluster *c)
{
    const char *only = c->options->only;
    char        cause[200];
    find_cause(c, cause, sizeof cause);
    complain("no plan%s%s: %s", only ? " with --only " : "", only ? only : "", cause);
    return EXIT_USAGE;
}

/* ---- the command ---- */

static haul_status record(void *context, int64_t examples, haul_program *out)
{
    const one_training *t = context;
    return planner_record_whole(t->planner, examples, out);
}

int cluster_show(cluster *c, const one_training *t, bool json)
{
    haul__cluster_request *r = &c->request;
    one_training           training = *t;
    c->training = t;
    r->record = record;
    r->context = &training;
    r->batch = t->options->batch;
    r->most = haul_dataset_count(t->data);
    r->limit = c->limit;
    if (!cluster_find_paths(c))
        return EXIT_FAILED;
    if (haul__cluster_find(r, &c->plans))
        return complain_error();
    if (!c->plans.count)
        return refuse_all(c);
    c->best = haul__cluster_best(&c->plans, r->devices, c->limit, &any);
    if (!c->best)
        return refuse(c);
    const haul__cluster_plan *one = haul__cluster_best(&c->plans, 1, c->limit, &any);
    if (!one)
        one = haul__cluster_best(&c->plans, 1, INT64_MAX, &any);
    c->one_ps = one ? one->step_ps : haul__ps_times(c->best->compute_ps, c->best->devices);
    if (c->best->layout.stages > 1 && !(c->stages = haul__cluster_stages(r, c->best)))
        return complain_error();
    return (json ? show_cluster_json(c) : show_cluster(c)) ? EXIT_OK : EXIT_FAILED;
}

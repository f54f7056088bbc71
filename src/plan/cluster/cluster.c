#include "plan/cluster/cluster.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "machine/picoseconds.h"
#include "plan/cluster/exchange.h"
#include "plan/cluster/stage.h"
#include "plan/place/step.h"

#define OPERATION "haul plan"

enum { FETCHED = 8 << 20 /* bytes of other ranks' parameters that are there at a time */, NEARLY = 100 };

/* The search, at the micro-batch and the stages that it has come to. */
typedef struct search {
    const haul__cluster_request *request;
    haul__cluster_plans         *out;
    size_t                       room;
    haul__units                  units;
    int64_t                      examples;
    int64_t                      operations, learnt; /* as in a plan */
    haul__stage                  cut[HAUL__CLUSTER_STAGES];
    haul__stage                  stages[HAUL__CLUSTER_STAGES]; /* the same of the layout */
    int                          sharers;                      /* ranks of a host */
} search;

/* ---- the exchange of a stage ---- */

static haul__exchange exchange_of(const haul__cluster_request *r, const haul__layout *l)
{
    HAUL__ASSERT(l->stages >= 1 && l->replicas >= 1);
    const int near = (int)smaller(larger(r->per_host / l->stages, 1), l->replicas);
    return (haul__exchange){.machine = r->machine,
                            .device = r->device,
                            .ranks = l->replicas,
                            .near = near,
                            .groups = (int)smaller(l->stages, r->per_host),
                            .rate = r->rate,
                            .latency_ns = r->latency_ns,
                            .direct = r->direct && l->shard < 3};
}

static int64_t bucket_ps(const haul__exchange *x, const haul__layout *l, int64_t bytes)
{
    const int64_t summed = haul__ps_add(haul__exchange_staging(x, bytes), haul__exchange_sum(x, bytes, 1));
    return l->shard < 2 ? haul__ps_add(summed, haul__exchange_gather(x, bytes)) : summed;
}

/* Exchanges the gradients of the stage in buckets. Returns when the last one is there. */
static int64_t exchange_gradients(const search *f, const haul__exchange *x, const haul__layout *l, const haul__stage *s,
                                  haul__cluster_plan *out)
{
    const haul__units *u = &f->units;
    const bool         overlaps = !haul__exchange_takes_cores(x);
    int64_t            passed = 0, filled = 0, free_at = 0, exchanged = 0;
    int                operation = 0, left = 0;
    for (int i = 0; i < u->gradient_count; i++)
        left += u->gradients[i].unit >= s->first && u->gradients[i].unit < s->end;
    for (int i = 0; i < u->gradient_count; i++) {
        const haul__unit_gradient *g = &u->gradients[i];
        if (g->unit < s->first || g->unit >= s->end)
            continue;
        for (; operation <= g->operation; operation++)
            if (u->phase[operation] == HAUL__UNIT_BACKWARD && u->of[operation] >= s->first &&
                u->of[operation] < s->end && u->graph.operations[operation].call >= 0)
                passed = haul__ps_add(passed, haul__units_time(u, operation));
        filled += g->bytes;
        if (--left > 0 && filled < f->request->bucket)
            continue;
        const int64_t takes = bucket_ps(x, l, filled);
        const int64_t ready = haul__ps_add(s->last_ps, haul__stage_shared(f->request, passed, f->sharers));
        free_at = haul__ps_add(larger(free_at, overlaps ? ready : s->done_ps), takes);
        exchanged = haul__ps_add(exchanged, takes);
        out->sent_bytes += haul__exchange_sent(x, filled) * (l->shard < 2 ? 2 : 1);
        filled = 0;
    }
    HAUL__ASSERT(left == 0 && filled == 0); /* the last gradient ends a bucket */
    out->exchange_ps = exchanged;
    return free_at;
}

/* ---- a stage ---- */

/* The part of the whole that the rank with the largest parameter has. */
static int64_t owned(const haul__stage *s, const haul__layout *l, int64_t whole)
{
    const int64_t part = haul__ceil_div(whole, l->replicas);
    return l->shard && s->sum.parameters
               ? larger(part, (int64_t)((double)whole / (double)s->sum.parameters * (double)s->sum.largest))
               : whole;
}

/* Behind the passes: the update, and the metrics, which a pipeline computes of each micro-batch. */
static int64_t updating(const haul__stage *s, const haul__layout *l)
{
    const int64_t times = l->stages > 1 ? l->parts : 1, metrics = s->sum.metrics_ps;
    return haul__ps_add(owned(s, l, s->update_ps - metrics), haul__ps_times(metrics, times));
}

/* A binary counter of sums: one for each bit of the number of micro-batches that one device adds up. A stage adds each
 * gradient by itself, so that the last sum takes the place of others. */
static int64_t sums_of(const haul__layout *l)
{
    int64_t sums = l->stages > 1 ? l->replicas > 1 : 1;
    if (l->stages == 1 && l->parts == 1)
        return l->replicas > 1;
    for (int parts = l->parts; parts > 1; parts /= 2)
        sums++;
    return sums;
}

/* Micro-batches whose activations the stage keeps: one more than there are stages after it. */
static int64_t kept(const search *f, const haul__stage *s, const haul__layout *l)
{
    const int64_t number = s - f->stages;
    HAUL__ASSERT(0 <= number && number < l->stages);
    return l->stages > 1 ? smaller(l->parts, l->stages - number) : 1;
}

static void find_memory(const search *f, const haul__stage *s, const haul__layout *l, haul__cluster_plan *out)
{
    const int64_t buckets = 2 * smaller(larger(f->request->bucket, s->sum.largest), s->sum.gradients);
    out->parameter_bytes = s->sum.parameters;
    if (l->shard == 3)
        out->parameter_bytes =
            smaller(owned(s, l, s->sum.parameters) + larger(FETCHED, s->sum.largest), s->sum.parameters);
    out->state_bytes = owned(s, l, s->sum.state);
    out->gradient_bytes = s->sum.gradients * (1 + sums_of(l));
    if (l->shard >= 2)
        out->gradient_bytes = l->parts == 1 ? smaller(owned(s, l, s->sum.gradients) + buckets, out->gradient_bytes)
                                            : s->sum.gradients * sums_of(l) + owned(s, l, s->sum.gradients);
    out->passing_bytes = s->memory.peak + (kept(f, s, l) - 1) * s->memory.saved;
    HAUL__ASSERT(out->parameter_bytes <= s->sum.parameters);
    out->peak_bytes = out->parameter_bytes + out->state_bytes + out->gradient_bytes + out->passing_bytes + s->sum.other;
}

/* Each pass gets the parameters of other ranks from their owners, with a request for each of them. */
static int64_t fetching(const haul__exchange *x, const haul__stage *s)
{
    return haul__ps_add(
        haul__ps_add(haul__exchange_latency(x, 2 * s->sum.count), haul__exchange_staging(x, s->sum.parameters)),
        haul__exchange_gather(x, s->sum.parameters));
}

/* From the end of its passes to the end of its step. The plan gets what this stage sends and needs. */
static int64_t end_of(const search *f, const haul__exchange *x, const haul__layout *l, const haul__stage *s,
                      haul__cluster_plan *out)
{
    HAUL__ASSERT(l->parts > 0 && l->replicas > 0);
    int64_t end = s->done_ps;
    out->sent_bytes = s->sent_bytes * l->parts;
    if (l->replicas > 1)
        end = larger(end, exchange_gradients(f, x, l, s, out));
    end = haul__ps_add(end, updating(s, l));
    if (l->shard == 1 || l->shard == 2) {
        const int64_t gather =
            haul__ps_add(haul__exchange_staging(x, s->sum.parameters), haul__exchange_gather(x, s->sum.parameters));
        out->exchange_ps = haul__ps_add(out->exchange_ps, gather);
        out->sent_bytes += haul__exchange_sent(x, s->sum.parameters);
        end = haul__ps_add(end, gather);
    }
    if (l->shard == 3) {
        out->exchange_ps = haul__ps_add(out->exchange_ps, haul__ps_times(s->fetch_ps, 2 * l->parts));
        out->sent_bytes += 2 * l->parts * haul__exchange_sent(x, s->sum.parameters);
    }
    find_memory(f, s, l, out);
    return end;
}

/* ---- a layout ---- */

static int64_t computing(const haul__stage *s, const haul__layout *l)
{
    return haul__ps_add(haul__ps_times(haul__ps_add(s->forward_ps, s->backward_ps), l->parts),
                        haul__ps_add(haul__ps_times(s->add_ps, l->parts - 1), updating(s, l)));
}

/* What the stages make of the step if exchanges take no time. */
static void run_alone(const search *f, const haul__layout *l, int64_t *end, int64_t *compute)
{
    haul__stage stages[HAUL__CLUSTER_STAGES];
    double      sum = 0;
    for (int s = 0; s < l->stages; s++)
        stages[s] = f->stages[s];
    haul__stages_run(stages, l->stages, l->parts, false);
    for (int s = 0; s < l->stages; s++) {
        *end = larger(*end, haul__ps_add(stages[s].done_ps, updating(&stages[s], l)));
        sum += (double)computing(&stages[s], l) / l->stages;
    }
    HAUL__ASSERT(*end >= 0 && sum >= 0);
    *compute = smaller((int64_t)sum, *end);
}

static void describe(const search *f, int stage, const haul__cluster_plan *of, haul__cluster_stage *out)
{
    const haul__stage *s = &f->stages[stage];
    haul__snprintf(out->first, sizeof out->first, "%s", f->units.items[s->first].name);
    haul__snprintf(out->last, sizeof out->last, "%s", f->units.items[s->end - 1].name);
    out->forward_ps = s->forward_ps;
    out->backward_ps = s->backward_ps;
    out->parameter_bytes = of->parameter_bytes;
    out->peak_bytes = of->peak_bytes;
}

/* each: NULL, or for each stage. */
static void predict(search *f, haul__cluster_plan *out, haul__cluster_stage *each)
{
    const haul__layout  *l = &out->layout;
    const haul__exchange x = exchange_of(f->request, l);
    int64_t              alone = 0;
    HAUL__ASSERT(0 < l->stages && l->stages <= HAUL__CLUSTER_STAGES);
    f->sharers = (int)smaller(f->request->per_host, out->devices);
    for (int s = 0; s < l->stages; s++) {
        f->stages[s] = f->cut[s];
        haul__stage_share(&f->stages[s], f->request, f->sharers);
    }
    run_alone(f, l, &alone, &out->compute_ps);
    for (int s = 0; s < l->stages; s++)
        f->stages[s].fetch_ps = l->shard == 3 ? fetching(&x, &f->stages[s]) : 0;
    haul__stages_run(f->stages, l->stages, l->parts, l->shard == 3);
    for (int s = 0; s < l->stages; s++) {
        haul__cluster_plan of = {.layout = *l};
        out->step_ps = larger(out->step_ps, end_of(f, &x, l, &f->stages[s], &of));
        out->exchange_ps = larger(out->exchange_ps, of.exchange_ps);
        out->sent_bytes = larger(out->sent_bytes, of.sent_bytes);
        if (each)
            describe(f, s, &of, &each[s]);
        if (of.peak_bytes <= out->peak_bytes)
            continue;
        out->peak_bytes = of.peak_bytes;
        out->parameter_bytes = of.parameter_bytes;
        out->gradient_bytes = of.gradient_bytes;
        out->state_bytes = of.state_bytes;
        out->passing_bytes = of.passing_bytes;
    }
    HAUL__ASSERT(alone >= out->compute_ps && out->compute_ps >= 0);
    out->bubble_ps = alone - out->compute_ps;
    out->exposed_ps = larger(out->step_ps - alone, 0);
}

/* ---- the search ---- */

static bool is_wanted(const search *f, const haul__layout *l)
{
    const haul__layout *o = &f->request->only;
    return (!o->stages || o->stages == l->stages) && (!o->replicas || o->replicas == l->replicas) &&
           (!o->parts || o->parts == l->parts) && (o->shard < 0 || o->shard == l->shard) &&
           (l->replicas > 1 || !l->shard);
}

static haul_status add_plan(search *f, haul__layout layout)
{
    haul__cluster_plans *p = f->out;
    haul__cluster_plan   plan = {
          .layout = layout, .examples = f->examples, .operations = f->operations, .learnt = f->learnt};
    if (!is_wanted(f, &layout))
        return HAUL_OK;
    if (!haul__grow(&p->items, &f->room, (size_t)p->count + 1, sizeof *p->items))
        return haul__fail_memory(OPERATION, f->room * sizeof *p->items);
    plan.devices = layout.stages * layout.replicas;
    plan.hosts = (int)haul__ceil_div(plan.devices, f->request->per_host);
    HAUL__ASSERT(plan.devices <= f->request->devices && layout.parts >= 1);
    predict(f, &plan, NULL);
    HAUL__ASSERT((size_t)p->count < f->room);
    p->items[p->count++] = plan;
    return HAUL_OK;
}

/* Replicas of as many micro-batches as divide the batch. */
static haul_status add_layouts(search *f, int stages)
{
    const haul__cluster_request *r = f->request;
    haul_status                  status = HAUL_OK;
    for (int64_t replicas = 1; replicas * stages <= r->devices && !status; replicas *= 2) {
        const int64_t parts = r->batch / f->examples / replicas;
        if (parts * replicas * f->examples != r->batch || parts * replicas > HAUL__CLUSTER_PIECES)
            continue;
        for (int shard = 0; shard < HAUL__CLUSTER_SHARDS && !status; shard++)
            status = add_plan(f, (haul__layout){stages, (int)replicas, shard, (int)parts});
    }
    return status;
}

bool haul__cluster_suits_hosts(const haul__cluster_request *r, int stages)
{
    return r->per_host % stages == 0 || stages % r->per_host == 0;
}

/* Micro-batches of that size, with all numbers of stages. */
static haul_status add_examples(search *f)
{
    const haul__cluster_request *r = f->request;
    const int   most = (int)smaller(smaller(r->devices, HAUL__CLUSTER_STAGES), haul__units_most_stages(&f->units));
    haul_status status = HAUL_OK;
    for (int stages = 1; stages <= most && !status; stages *= 2) {
        if (!haul__cluster_suits_hosts(r, stages) || (r->only.stages && r->only.stages != stages))
            continue;
        status = haul__stages_cut(&f->units, r, stages, f->cut);
        if (!status)
            status = add_layouts(f, stages);
    }
    return status;
}

static haul_status search_program(search *f, const haul_program *program)
{
    const haul__cluster_request *r = f->request;
    haul_status                  status = haul__units_find(program, r->machine, r->device, &r->paths, &f->units);
    f->operations = haul__place_timed(program);
    f->learnt = haul__place_learnt(program, r->machine, r->device);
    HAUL__ASSERT(f->learnt <= f->operations);
    if (!status)
        status = add_examples(f);
    f->out->most_stages = haul__units_most_stages(&f->units);
    f->out->gradient_bytes = 0;
    for (int i = 0; i < f->units.gradient_count; i++)
        f->out->gradient_bytes += f->units.gradients[i].bytes;
    haul__units_free(&f->units);
    return status;
}

static haul_status check(const haul__cluster_request *r)
{
    if (r->devices >= 1 && r->devices <= HAUL__CLUSTER_DEVICES && r->per_host >= 1 && r->per_host <= r->devices &&
        r->batch >= 1 && r->rate >= 1 && r->latency_ns >= 0 && r->bucket >= 1)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, OPERATION, "devices",
                      "there are %d devices, %d on each host; from 1 to %d devices are expected", r->devices,
                      r->per_host, HAUL__CLUSTER_DEVICES);
}

/* Larger micro-batches need more memory for all but the sums of gradients, of which there are fewer. True if a plan
 * with larger ones than those from `first` on may fit, or need less than all so far. */
static bool more_may_fit(const search *f, int first)
{
    const haul__cluster_plan *least = haul__cluster_least(f->out, f->request->devices);
    bool                      may = false;
    for (int i = first; i < f->out->count; i++) {
        const haul__cluster_plan *p = &f->out->items[i];
        may = may || p->peak_bytes - p->gradient_bytes <= larger(f->request->limit, least->peak_bytes);
    }
    return may;
}

/* The numbers of micro-batches of all replicas that divide the batch, the largest first, so that micro-batches grow. A
 * network may refuse small ones, as batch normalisation refuses single examples. */
static haul_status search_pieces(search *f)
{
    const haul__cluster_request *r = f->request;
    const int64_t                wanted = (int64_t)larger(r->only.replicas, 1) * larger(r->only.parts, 1);
    haul_status                  status = HAUL_OK, refused = HAUL_OK;
    bool                         goes_on = true;
    for (int64_t pieces = HAUL__CLUSTER_PIECES; !status && goes_on && pieces >= wanted; pieces /= 2) {
        const int    first = f->out->count;
        haul_program program = {.operation_count = 0};
        f->examples = r->batch / pieces;
        if (r->batch % pieces || f->examples > r->most)
            continue;
        HAUL__ASSERT(f->examples >= 1 && f->examples * pieces == r->batch);
        refused = r->record(r->context, f->examples, &program);
        status = refused ? HAUL_OK : search_program(f, &program);
        haul_program_free(&program);
        goes_on = f->out->count == first || more_may_fit(f, first);
    }
    if (refused && !f->out->count)
        return refused;
    if (!status)
        haul_error_clear();
    return status;
}

haul_status haul__cluster_find(const haul__cluster_request *request, haul__cluster_plans *out)
{
    search *f = haul__calloc(1, sizeof *f);
    *out = (haul__cluster_plans){.count = 0};
    haul_status status = f ? check(request) : haul__fail_memory(OPERATION, sizeof *f);
    if (!status) {
        f->request = request;
        f->out = out;
        status = search_pieces(f);
    }
    haul__free(f);
    return status;
}

void haul__cluster_free(haul__cluster_plans *plans)
{
    haul__free(plans->items);
    *plans = (haul__cluster_plans){.count = 0};
}

static haul_status divide(search *f, const haul_program *program, const haul__cluster_plan *as,
                          haul__cluster_stage *out)
{
    const haul__cluster_request *r = f->request;
    haul__cluster_plan           plan = {.layout = as->layout, .examples = as->examples, .devices = as->devices};
    haul_status                  status = haul__units_find(program, r->machine, r->device, &r->paths, &f->units);
    const int                    most = status ? 0 : haul__units_most_stages(&f->units);
    if (!status && plan.layout.stages > most)
        status = haul__fail(HAUL_INVALID_ARGUMENT, OPERATION, "stages",
                            "there are %d stages, and at most %d are possible: each needs a module that is trained",
                            plan.layout.stages, most);
    if (!status)
        status = haul__stages_cut(&f->units, r, plan.layout.stages, f->cut);
    if (!status)
        predict(f, &plan, out);
    haul__units_free(&f->units);
    return status;
}

haul__cluster_stage *haul__cluster_stages(const haul__cluster_request *request, const haul__cluster_plan *plan)
{
    search              *f = haul__calloc(1, sizeof *f);
    const size_t         count = (size_t)plan->layout.stages;
    haul__cluster_stage *out = haul__calloc(count, sizeof *out);
    HAUL__ASSERT(count > 0);
    haul_program program = {.operation_count = 0};
    haul_status  status = f && out ? HAUL_OK : haul__fail_memory(OPERATION, count * sizeof *out);
    if (!status) {
        f->request = request;
        status = request->record(request->context, plan->examples, &program);
    }
    if (!status)
        status = divide(f, &program, plan, out);
    haul_program_free(&program);
    haul__free(f);
    if (!status)
        return out;
    haul__free(out);
    return NULL;
}

/* ---- the choice ---- */

static bool is_simpler(const haul__cluster_plan *a, const haul__cluster_plan *b)
{
    const int of_a[] = {a->devices, a->layout.stages, a->layout.shard, a->layout.parts},
              of_b[] = {b->devices, b->layout.stages, b->layout.shard, b->layout.parts};
    for (size_t i = 0; i < sizeof of_a / sizeof *of_a; i++)
        if (of_a[i] != of_b[i])
            return of_a[i] < of_b[i];
    return false;
}

const haul__cluster_plan *haul__cluster_best(const haul__cluster_plans *plans, int devices, int64_t limit,
                                             const haul__layout *of)
{
    const haul__cluster_plan *best = NULL;
    int64_t                   least = HAUL__MACHINE_MOST_PS;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < plans->count; i++) {
            const haul__cluster_plan *p = &plans->items[i];
            if (p->devices > devices || p->peak_bytes > limit || (of->stages && of->stages != p->layout.stages) ||
                (of->shard >= 0 && of->shard != p->layout.shard))
                continue;
            if (!pass)
                least = smaller(least, p->step_ps);
            else if (p->step_ps <= haul__ps_add(least, least / NEARLY) && (!best || is_simpler(p, best)))
                best = p;
        }
    return best;
}

const haul__cluster_plan *haul__cluster_least(const haul__cluster_plans *plans, int devices)
{
    const haul__cluster_plan *least = NULL;
    for (int i = 0; i < plans->count; i++) {
        const haul__cluster_plan *p = &plans->items[i];
        if (p->devices <= devices && (!least || p->peak_bytes < least->peak_bytes))
            least = p;
    }
    return least;
}

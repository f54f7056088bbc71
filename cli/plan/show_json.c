/* A plan as JSON, and its certificate. */
#include <math.h>

#include "cli/plan/show.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"

static void put_peaks(const study *s, cJSON *object, const int64_t *bytes)
{
    cJSON *peaks = json_object(object, "peak_bytes");
    for (int d = 0; d < haul__plan_device_count(s->plan); d++)
        json_number(peaks, s->plan->request.names[d], (double)bytes[d]);
}

static cJSON *candidate_json(const study *s, const haul__plan_way *c)
{
    cJSON *object = cJSON_CreateObject();
    json_text(object, "name", study_candidate_name(c, "best"));
    json_number(object, "step_ms", plan_ms(c->figures.sum));
    json_number(object, "makespan_ms", plan_ms(c->figures.ps));
    json_number(object, "measured_ms", c->measured * 1e3);
    put_peaks(s, object, c->figures.peak);
    json_number(object, "link_bytes", (double)c->figures.copied_bytes);
    json_number(object, "copies", c->figures.copies);
    json_number(object, "wait_ms", plan_ms(c->figures.waits));
    json_text(object, "bits_of", haul__plan_bits(s->plan, c->placement));
    json_bool(object, "fits", !*c->why_not);
    if (*c->why_not)
        json_text(object, "why_not", c->why_not);
    return object;
}

/* NULL when memory is exhausted, which json_push notes. */
static cJSON *operation_json(const study *s, const haul__place_operation *o, const char *reason)
{
    char      why_text[500];
    const int device = haul__plan_device_of(s->plan, o);
    cJSON    *object = cJSON_CreateObject();
    json_text(object, "name", o->name);
    json_text(object, "module", o->module);
    json_text(object, "device", s->plan->request.names[device]);
    json_number(object, "ms", plan_ms(o->cost[device]));
    snprintf(why_text, sizeof why_text, "%s%s%s stays on %s: %s", o->name, *o->module ? " of " : "", o->module,
             s->plan->request.names[device], reason);
    json_text(object, "why", why_text);
    return object;
}

static bool put_operations(const study *s, cJSON *object)
{
    const haul_plan *p = s->plan;
    cJSON           *array = json_array(object, "operations");
    if (haul__plan_explain(s->plan, "haul plan")) {
        complain_error();
        return false;
    }
    for (size_t i = 0; i < p->graph.operation_count; i++)
        if (p->graph.operations[i].call >= 0)
            json_push(array, operation_json(s, &p->graph.operations[i], p->reasons[i]));
    return true;
}

static void put_edges(const study *s, cJSON *object)
{
    cJSON *array = json_array(object, "edges");
    for (size_t i = 0; i < s->edge_count; i++) {
        const plan_edge *e = &s->edges[i];
        cJSON           *edge = cJSON_CreateObject();
        json_text(edge, "from", s->rows[e->from].label);
        json_text(edge, "to", s->rows[e->to].label);
        json_number(edge, "bytes", (double)e->bytes);
        json_number(edge, "copied_bytes", (double)e->copied);
        json_push(array, edge);
    }
}

static void put_batch(cJSON *object, const char *name, int64_t batch)
{
    json_number(object, name, batch ? (double)batch : NAN);
}

static void put_learnt(const study *s, cJSON *object)
{
    json_number(object, "timed_operations", (double)s->timed);
    cJSON *learnt = json_object(object, "learnt_operations");
    for (int d = 0; d < haul__plan_device_count(s->plan); d++)
        json_number(learnt, s->plan->request.names[d], (double)s->learnt[d]);
}

static void put_whole(const study *s, cJSON *object)
{
    const int64_t cost = s->plan->best->cost, bound = s->plan->best->proof.bound;
    json_text(json_object(object, "model"), "cost", "additive");
    json_text(object, "machine", s->plan->request.machine->name);
    json_bool(object, "described", s->plan->request.machine->described);
    cJSON *devices = json_array(object, "devices"), *single = json_object(object, "single");
    for (int d = 0; d < haul__plan_device_count(s->plan); d++) {
        json_push(devices, cJSON_CreateString(s->plan->request.names[d]));
        json_number(single, s->plan->request.names[d], plan_ms(s->plan->single[d].cost));
    }
    json_number(object, "step_ms", plan_ms(cost));
    json_number(object, "makespan_ms", plan_ms(study_makespan(s)));
    cJSON *work = json_object(object, "work_ms");
    for (int d = 0; d < haul__plan_device_count(s->plan); d++)
        json_number(work, s->plan->request.names[d], plan_ms(study_work_of(s, d)));
    json_number(object, "bound_ms", plan_ms(bound));
    json_number(object, "gap", plan_gap(cost, bound));
    int64_t peaks[HAUL__PLACE_DEVICES];
    for (int d = 0; d < haul__plan_device_count(s->plan); d++)
        peaks[d] = s->plan->best->peaks[d].bytes;
    put_peaks(s, object, peaks);
    if (!s->plan->request.machine->described)
        put_learnt(s, object);
    cJSON *needs = json_object(object, "one_device_bytes");
    for (int i = 0; i < HAUL__PLACE_ROLES; i++)
        json_number(needs, study_role_name(i), (double)s->plan->needs[i]);
    cJSON *batches = json_object(object, "pays_from_batch");
    put_batch(batches, "something", s->pays_some);
    put_batch(batches, "everything", s->pays_all);
}

bool show_plan_json(const study *s)
{
    cJSON *object = cJSON_CreateObject();
    put_whole(s, object);
    cJSON *candidates = json_array(object, "candidates");
    for (int i = 0; i < haul__plan_way_count(s->plan); i++)
        json_push(candidates, candidate_json(s, &s->plan->ways[i]));
    if (!put_operations(s, object)) {
        cJSON_Delete(object);
        return false;
    }
    put_edges(s, object);
    return json_print(object);
}

/* ---- the certificate ---- */

bool write_certificate(const study *s, const char *path)
{
    const bool written = !haul_plan_save(s->plan, path);
    if (!written)
        complain_error();
    return written;
}

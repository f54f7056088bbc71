/* A plan as JSON, and its certificate. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/plan/show.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "files/file.h"
#include "plan/place/certificate.h"

static double ms_of(int64_t ps)
{
    return (double)ps * 1e-9;
}

static void put_peaks(const study *s, cJSON *object, const haul__placement *p)
{
    cJSON *peaks = json_object(object, "peak_bytes");
    for (int d = 0; d < HAUL__PLACE_DEVICES; d++)
        json_number(peaks, s->devices[d], (double)p->peaks[d].bytes);
}

static cJSON *candidate_json(const study *s, const candidate *c)
{
    cJSON *object = cJSON_CreateObject();
    json_text(object, "name", study_candidate_name(s, c, "best"));
    json_number(object, "step_ms", ms_of(c->placement->cost));
    json_number(object, "measured_ms", c->seconds * 1e3);
    put_peaks(s, object, c->placement);
    json_number(object, "link_bytes", (double)c->link_bytes);
    json_number(object, "copies", c->copies);
    json_bool(object, "fits", c->fits);
    if (!c->fits)
        json_text(object, "why_not", "its peak is above a limit");
    return object;
}

/* NULL when memory is exhausted, which json_push notes. */
static cJSON *operation_json(const study *s, const haul__place_operation *o, uint8_t *members)
{
    char            reason[300], why_text[500];
    const int       device = study_device_of(s, o);
    cJSON          *object = cJSON_CreateObject();
    haul__place_why why;
    memset(members, 0, s->graph.group_count);
    members[o->group] = 1;
    json_text(object, "name", o->name);
    json_text(object, "module", o->module);
    json_text(object, "device", s->devices[device]);
    json_number(object, "ms", ms_of(o->cost[device]));
    if (haul__place_explain(&s->graph, s->best.device, members, &why)) {
        cJSON_Delete(object);
        return NULL;
    }
    study_reason(s, device, &why, reason, sizeof reason);
    snprintf(why_text, sizeof why_text, "%s%s%s stays on %s: %s", o->name, *o->module ? " of " : "", o->module,
             s->devices[device], reason);
    json_text(object, "why", why_text);
    return object;
}

static bool put_operations(const study *s, cJSON *object)
{
    cJSON   *array = json_array(object, "operations");
    uint8_t *members = haul__malloc(s->graph.group_count + 1);
    if (!members) {
        complain("memory is exhausted");
        return false;
    }
    for (size_t i = 0; i < s->graph.operation_count; i++)
        if (s->graph.operations[i].call >= 0)
            json_push(array, operation_json(s, &s->graph.operations[i], members));
    haul__free(members);
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
    for (int d = 0; d < HAUL__PLACE_DEVICES; d++)
        json_number(learnt, s->devices[d], (double)s->learnt[d]);
}

static void put_whole(const study *s, cJSON *object)
{
    const int64_t cost = s->best.cost, bound = s->best.proof.bound;
    json_text(json_object(object, "model"), "cost", "additive");
    json_text(object, "machine", s->request->machine->name);
    json_bool(object, "described", s->request->machine->described);
    cJSON *devices = json_array(object, "devices"), *single = json_object(object, "single");
    for (int d = 0; d < HAUL__PLACE_DEVICES; d++) {
        json_push(devices, cJSON_CreateString(s->devices[d]));
        json_number(single, s->devices[d], ms_of(s->single[d].cost));
    }
    json_number(object, "step_ms", ms_of(cost));
    json_number(object, "bound_ms", ms_of(bound));
    json_number(object, "gap", cost ? (double)(cost - bound) / (double)cost : 0);
    put_peaks(s, object, &s->best);
    if (!s->request->machine->described)
        put_learnt(s, object);
    cJSON *needs = json_object(object, "one_device_bytes");
    for (int i = 0; i < HAUL__PLACE_ROLES; i++)
        json_number(needs, study_role_name(i), (double)s->needs[i]);
    cJSON *batches = json_object(object, "pays_from_batch");
    put_batch(batches, "something", s->pays_some);
    put_batch(batches, "everything", s->pays_all);
}

bool show_plan_json(const study *s)
{
    cJSON *object = cJSON_CreateObject();
    put_whole(s, object);
    cJSON *candidates = json_array(object, "candidates");
    for (int i = 0; i < MOST_CANDIDATES; i++)
        json_push(candidates, candidate_json(s, &s->candidates[i]));
    if (!put_operations(s, object)) {
        cJSON_Delete(object);
        return false;
    }
    put_edges(s, object);
    return json_print(object);
}

/* ---- the certificate ---- */

/* Writes the text with a newline, which takes the place of the NUL. */
static haul_status write_line(const char *path, char *text)
{
    const size_t length = strlen(text);
    text[length] = '\n';
    return haul__file_write_all(path, "haul plan", text, length + 1);
}

bool write_certificate(const study *s, const char *path)
{
    char program[17], machine[17];
    snprintf(program, sizeof program, "%016" PRIx64, haul__place_digest(&s->program));
    snprintf(machine, sizeof machine, "%016" PRIx64, haul__machine_digest(s->request->machine));
    const haul__certificate c = {&s->graph, &s->best, program, machine, {s->devices[0], s->devices[1]}};
    char                   *text = haul__certificate_text(&c);
    const bool              written = text && !write_line(path, text);
    if (!written)
        complain_error();
    haul__free(text);
    return written;
}

/* A plan for many devices, for programs. */
#include <stdlib.h>

#include "cli/plan/cluster.h"
#include "cli/shared/json.h"

static double ms(int64_t ps)
{
    return (double)ps * 1e-9;
}

static void fill(cJSON *out, const cluster *c, const haul__cluster_plan *p)
{
    json_number(out, "devices", p->devices);
    json_number(out, "hosts", p->hosts);
    json_number(out, "stages", p->layout.stages);
    json_number(out, "replicas", p->layout.replicas);
    json_number(out, "shard", p->layout.shard);
    json_number(out, "micro_batches", p->layout.parts);
    json_number(out, "micro_batch", (double)p->examples);
    json_number(out, "operations", (double)p->operations);
    json_number(out, "learnt_operations", (double)p->learnt);
    json_number(out, "step_ms", ms(p->step_ps));
    json_number(out, "compute_ms", ms(p->compute_ps));
    json_number(out, "exposed_ms", ms(p->exposed_ps));
    json_number(out, "bubble_ms", ms(p->bubble_ps));
    json_number(out, "exchange_ms", ms(p->exchange_ps));
    json_number(out, "examples_per_second", cluster_speed(c, p));
    json_number(out, "efficiency", cluster_efficiency(c, p));
    json_number(out, "sent_bytes", (double)p->sent_bytes);
    json_number(out, "peak_bytes", (double)p->peak_bytes);
    json_number(out, "parameter_bytes", (double)p->parameter_bytes);
    json_number(out, "gradient_bytes", (double)p->gradient_bytes);
    json_number(out, "state_bytes", (double)p->state_bytes);
    json_number(out, "activation_bytes", (double)p->passing_bytes);
    json_bool(out, "fits", p->peak_bytes <= c->limit);
}

static void add_stages(cJSON *object, const cluster *c)
{
    const int count = c->stages ? c->best->layout.stages : 0;
    cJSON    *list = count ? json_array(object, "modules") : NULL;
    for (int s = 0; s < count; s++) {
        const haul__cluster_stage *x = &c->stages[s];
        cJSON                     *item = cJSON_CreateObject();
        json_text(item, "first", x->first);
        json_text(item, "last", x->last);
        json_number(item, "forward_ms", ms(x->forward_ps));
        json_number(item, "backward_ms", ms(x->backward_ps));
        json_number(item, "parameter_bytes", (double)x->parameter_bytes);
        json_number(item, "peak_bytes", (double)x->peak_bytes);
        json_push(list, item);
    }
}

static void add_fewer(cJSON *object, const cluster *c)
{
    const haul__cluster_plan *plans[CLUSTER_FEWER];
    int                       devices[CLUSTER_FEWER];
    const int                 count = cluster_fewer(c, plans, devices);
    cJSON                    *list = json_array(object, "fewer");
    for (int i = 0; i < count; i++) {
        cJSON *item = cJSON_CreateObject();
        json_number(item, "most_devices", devices[i]);
        if (plans[i])
            fill(item, c, plans[i]);
        else
            json_bool(item, "fits", false);
        json_push(list, item);
    }
}

static void add_others(cJSON *object, const cluster *c)
{
    cluster_other others[CLUSTER_OTHERS];
    const int     count = cluster_others(c, others);
    cJSON        *list = json_array(object, "others");
    for (int i = 0; i < count; i++) {
        cJSON *item = cJSON_CreateObject();
        fill(item, c, others[i].plan);
        json_text(item, "why_not", others[i].why);
        json_push(list, item);
    }
}

bool show_cluster_json(const cluster *c)
{
    const haul__cluster_request *r = &c->request;
    cJSON                       *object = cJSON_CreateObject();
    json_text(object, "model", c->training->options->model);
    json_number(object, "batch", (double)r->batch);
    json_text(object, "machine", c->machine->name);
    json_bool(object, "described", c->machine->described);
    json_text(object, "device", c->machine->devices[r->device].name);
    json_number(object, "ranks", r->devices);
    json_number(object, "per_host", r->per_host);
    json_number(object, "network_bytes_per_second", (double)r->rate);
    json_number(object, "network_latency_ns", (double)r->latency_ns);
    json_text(object, "group", r->direct ? "nccl" : "mpi");
    json_number(object, "bucket_bytes", (double)r->bucket);
    json_number(object, "limit_bytes", (double)c->limit);
    json_number(object, "network_gradient_bytes", (double)c->plans.gradient_bytes);
    json_number(object, "layouts", c->plans.count);
    fill(json_object(object, "plan"), c, c->best);
    add_stages(object, c);
    add_fewer(object, c);
    add_others(object, c);
    char *next = cluster_command(c);
    if (next)
        json_text(object, "next", next);
    free(next);
    return json_print(object);
}

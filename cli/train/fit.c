#include "cli/train/fit.h"

#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "cli/train/trainer.h"

typedef struct making {
    trainer          *trainer;
    const haul_batch *batch;
    dry_run          *out;
    haul_program     *program; /* of dry_run_record */
    bool              failed;  /* memory did not suffice for the layers */
} making;

/* ---- layers ---- */

static layer *find_layer(const dry_run *d, const char *path)
{
    for (size_t i = 0; i < d->layer_count; i++)
        if (!strcmp(d->layers[i].path, path))
            return &d->layers[i];
    return NULL;
}

static bool add_layer(dry_run *d, const haul_call_event *event)
{
    if (d->layer_count == d->layer_room) {
        size_t room = d->layer_room ? 2 * d->layer_room : 64;
        layer *grown = realloc(d->layers, room * sizeof *grown);
        if (!grown)
            return false;
        d->layers = grown;
        d->layer_room = room;
    }
    layer *l = &d->layers[d->layer_count++];
    *l = (layer){.depth = event->depth, .is_leaf = true};
    snprintf(l->path, sizeof l->path, "%s", event->path);
    snprintf(l->kind, sizeof l->kind, "%s", haul_module_kind(event->module));
    return true;
}

/* The layers of calls that are under way are the last ones of lesser depths. */
static void mark_parent(dry_run *d, int depth)
{
    for (size_t i = d->layer_count; i-- > 0;)
        if (d->layers[i].depth < depth) {
            d->layers[i].is_leaf = false;
            return;
        }
}

static void on_call(const haul_call_event *event, void *context)
{
    making *m = context;
    layer  *known = find_layer(m->out, event->path);
    if (!event->done) {
        if (!known)
            m->failed = !add_layer(m->out, event) || m->failed;
        mark_parent(m->out, event->depth);
    } else if (known && !known->output.ndim && event->y->count) {
        known->output = haul_tensor_shape(event->y->tensors[0]);
    }
}

/* Is the name that of the layer, or of a part of it? */
static bool belongs_to(const char *name, const layer *l)
{
    size_t length = strlen(l->path);
    return !length || (!strncmp(name, l->path, length) && (!name[length] || name[length] == '.'));
}

static void count_flops(dry_run *d)
{
    for (int64_t i = 0; i < d->step.operation_count; i++) {
        const haul_estimate_operation *o = &d->step.operations[i];
        for (size_t k = 0; k < d->layer_count && *o->module; k++)
            if (belongs_to(o->module, &d->layers[k]))
                d->layers[k].flops += o->flops;
    }
}

static haul_status count_parameters(dry_run *d, haul_module *net)
{
    int                count = haul_module_tensors(net, NULL, 0);
    haul_named_tensor *all = count >= 0 ? calloc((size_t)count + 1, sizeof *all) : NULL;
    d->parameters = haul_module_parameter_count(net);
    if (count >= 0 && !all)
        return haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    if (count >= 0)
        count = haul_module_tensors(net, all, count);
    for (int i = 0; i < count; i++) {
        if (all[i].is_buffer)
            continue;
        d->parameter_bytes += (int64_t)haul_tensor_bytes(all[i].tensor);
        for (size_t k = 0; k < d->layer_count; k++)
            if (belongs_to(all[i].name, &d->layers[k]))
                d->layers[k].parameters += haul_tensor_count(all[i].tensor);
    }
    free(all);
    return count < 0 || d->parameters < 0 ? haul_error_status() : HAUL_OK;
}

/* ---- steps ---- */

/* With --accumulate, the mini-batch that needs most: others came before it, and the parameters are updated. */
static haul_status make_step(void *context)
{
    making              *m = context;
    const int64_t        accumulate = m->trainer->options->accumulate;
    const haul_step_part part = {.first = accumulate == 1, .last = true, .weight = 1 / (double)accumulate};
    return trainer_step(m->trainer, m->batch, &part);
}

/* The first batch of an epoch: later ones may be smaller. */
static haul_status take_batch(making *m)
{
    haul_loader *loader = m->trainer->loader;
    m->batch = haul_loader_start(loader, 1) ? NULL : haul_loader_next(loader);
    if (!m->batch)
        return haul_error_status();
    m->out->examples = m->batch->size;
    return HAUL_OK;
}

static haul_status watched_step(making *m)
{
    haul_status status = take_batch(m);
    haul_watch_calls(on_call, m);
    if (!status)
        status = make_step(m);
    haul_watch_calls(NULL, NULL);
    if (!status && m->failed)
        status = haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    return status ? status : count_parameters(m->out, m->trainer->net);
}

/* The third step, and what a training keeps beside it. */
static haul_status estimate_step(making *m)
{
    haul_status status = take_batch(m);
    if (!status)
        status = make_step(m);
    if (!status)
        status = take_batch(m);
    if (!status)
        status = trainer_hold_best(m->trainer);
    return status ? status : haul_estimate(make_step, m, &m->out->step);
}

/* ---- what else a training does ---- */

/* From the end of an epoch to the first step of the next one, which finds casts that measuring has left. */
static haul_status pass_epoch(void *context)
{
    making     *m = context;
    haul_status status = trainer_try_measuring(m->trainer);
    if (!status)
        status = trainer_try_saving(m->trainer);
    return status ? status : make_step(m);
}

const haul_estimate_device *dry_run_device(const haul_estimate_result *r, const haul_device *device)
{
    for (int i = 0; i < r->device_count; i++)
        if (r->devices[i].device == device)
            return &r->devices[i];
    return NULL;
}

static int64_t peak_in(const haul_estimate_result *r, const haul_device *device)
{
    const haul_estimate_device *d = dry_run_device(r, device);
    return d ? d->peak_bytes : 0;
}

static haul_status estimate_epoch(making *m)
{
    dry_run    *d = m->out;
    haul_status status = haul_estimate(pass_epoch, m, &d->epoch);
    d->plain_peak = d->peak = peak_in(&d->epoch, m->trainer->device);
    d->limit = memory_limit_bytes(&m->trainer->plans.limit, d->plain_peak);
    d->overhead = m->trainer->plans.limit.overhead;
    return status;
}

/* ---- spilling ---- */

/* Mini-batches take turns in the memory of the loader, which may be away. An epoch follows on the other. */
static haul_status make_steps(void *context)
{
    making      *m = context;
    haul_loader *loader = m->trainer->loader;
    haul_status  status = haul_loader_start(loader, 1);
    for (int i = 0; i < SPILLED_STEPS && !status; i++) {
        m->batch = haul_loader_next(loader);
        if (!m->batch && !haul_error_status() && !haul_loader_start(loader, 1))
            m->batch = haul_loader_next(loader);
        status = m->batch ? make_step(m) : haul_error_status();
    }
    return status;
}

/* Within the limit a step moves nothing. */
static haul_status estimate_spilling(making *m)
{
    dry_run    *d = m->out;
    const bool  is_within = d->limit && d->peak <= d->limit;
    haul_status status = is_within ? HAUL_OK : haul_estimate(make_steps, m, &d->steps);
    if (status)
        return status;
    const haul_estimate_device *steps = dry_run_device(&d->steps, m->trainer->device),
                               *epoch = dry_run_device(&d->epoch, m->trainer->device);
    d->spill.fits = is_within || (steps && steps->fits && epoch && epoch->fits);
    if (steps) {
        d->spill.bytes = steps->spilled_bytes / SPILLED_STEPS;
        d->spill.back_bytes = steps->returned_bytes / SPILLED_STEPS;
    }
    return HAUL_OK;
}

/* ---- recomputation ---- */

static haul_status measure_parts(const network_parts *p, int64_t *peak, void *context)
{
    making              *m = context;
    haul_estimate_result r;
    haul_status          status = trainer_apply_parts(m->trainer, p);
    if (!status)
        status = haul_estimate(pass_epoch, m, &r);
    if (status)
        return status;
    *peak = peak_in(&r, m->trainer->device);
    haul_estimate_free(&r);
    return HAUL_OK;
}

static haul_status choose_parts(making *m)
{
    dry_run    *d = m->out;
    haul_status status = parts_find(m->trainer->net, &d->parts);
    if (status || (d->limit && d->plain_peak <= d->limit))
        return status;
    status = parts_choose(&d->parts, d->limit, measure_parts, m, &d->peak);
    if (!status)
        status = trainer_apply_parts(m->trainer, &d->parts);
    if (status)
        return status;
    haul_estimate_free(&d->step);
    haul_estimate_free(&d->epoch);
    status = haul_estimate(make_step, m, &d->step);
    return status ? status : haul_estimate(pass_epoch, m, &d->epoch);
}

/* ---- the whole ---- */

static haul_status run_training(void *context)
{
    making     *m = context;
    haul_status status = trainer_build(m->trainer);
    if (!status)
        status = watched_step(m);
    if (!status)
        status = estimate_step(m);
    if (!status)
        count_flops(m->out);
    if (!status)
        status = estimate_epoch(m);
    if (!status && trainer_recomputes(m->trainer))
        status = choose_parts(m);
    return status || !m->trainer->plans_spill ? status : estimate_spilling(m);
}

haul_status dry_run_try(trainer *t, dry_run *out)
{
    making               m = {.trainer = t, .out = out};
    haul_estimate_result all;
    *out = (dry_run){0};
    t->recomputes = false;
    haul_status status = haul_estimate(run_training, &m, &all);
    t->best_weights = NULL;
    const haul_estimate_device *d = dry_run_device(&all, t->device);
    out->start = d ? d->start_bytes : 0;
    haul_estimate_free(&all);
    if (status)
        dry_run_free(out);
    return status;
}

/* ---- the step as a program ---- */

static haul_status record_third(void *context)
{
    making     *m = context;
    haul_status status = trainer_build(m->trainer);
    if (!status)
        status = trainer_apply_parts(m->trainer, &m->trainer->expected.parts);
    for (int i = 0; i < 2 && !status; i++) {
        status = take_batch(m);
        status = status ? status : make_step(m);
    }
    if (!status)
        status = take_batch(m);
    return status ? status : haul_program_record(make_step, m, m->program);
}

haul_status dry_run_record(trainer *t, haul_program *out)
{
    dry_run              ignored = {0};
    making               m = {.trainer = t, .out = &ignored, .program = out};
    haul_estimate_result all;
    *out = (haul_program){.operation_count = 0};
    const haul_status status = haul_estimate(record_third, &m, &all);
    haul_estimate_free(&all);
    return status;
}

/* Turns spilling on. What is allocated now does not move, so the device gets the training's limit in addition to it. */
static haul_status begin_spilling(const trainer *t, int64_t limit, haul_memory_stats *before)
{
    haul_status status = haul_memory_stats_get(t->device, before);
    if (!status)
        status = haul_memory_set_spill(t->device, true);
    return status ? status : haul_memory_set_tensor_limit(t->device, limit + before->allocated - t->expected.start);
}

static void end_spilling(const trainer *t, const haul_memory_stats *before)
{
    if (before->limit)
        trainer_set_limit(t);
    else
        haul_memory_set_limit(t->device, 0);
    if (!t->options->spill)
        haul_memory_set_spill(t->device, false);
}

haul_status dry_run_try_within(trainer *t, int64_t limit, dry_run *out)
{
    const trainer kept = *t;
    t->plans.limit = (memory_limit){.bytes = limit};
    haul_status status = dry_run_try(t, out);
    *t = kept; /* the dry run has built a training of its own */
    return status;
}

haul_status dry_run_try_spilling(trainer *t, int64_t limit, dry_run *out)
{
    haul_memory_stats before = {0};
    haul_status       status = begin_spilling(t, limit, &before);
    t->plans_spill = true;
    if (!status)
        status = dry_run_try_within(t, limit, out);
    t->plans_spill = false;
    end_spilling(t, &before);
    return status;
}

bool dry_run_make(trainer *t, dry_run *out)
{
    if (!dry_run_try(t, out))
        return true;
    complain_error();
    return false;
}

int64_t dry_run_peak(const dry_run *d, const haul_device *device)
{
    return peak_in(&d->step, device);
}

int64_t dry_run_room(const haul_device *device)
{
    haul_device_properties p = {0};
    return haul_device_describe(device, &p) ? 0 : p.memory_bytes;
}

void dry_run_free(dry_run *d)
{
    haul_estimate_free(&d->step);
    haul_estimate_free(&d->epoch);
    haul_estimate_free(&d->steps);
    free(d->layers);
    *d = (dry_run){0};
}

#include "cli/train/planner.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "cli/shared/cli.h"
#include "cli/train/init.h"
#include "cli/train/trainer.h"
#include "record/follow/recording.h"

struct planner {
    trainer       *of;
    trainer        trial; /* the copy that was built last, and its options */
    train_options  options;
    haul__training training;
    haul__training varied;    /* of planner_vary, */
    const char    *precision; /* with these options */
    const char    *offload;
    bool           whole; /* the next copy makes no micro-batches and pieces */
};

static haul_status build_with(planner *p, int64_t batch, const char *precision, const char *offload, bool follows,
                              haul__training_objects *out)
{
    p->options = *p->of->options;
    p->options.batch = batch;
    p->options.precision = precision;
    p->options.offload = offload;
    if (p->whole) {
        p->options.pipeline = 1;
        p->options.pieces = 0;
    }
    p->trial = *p->of;
    p->trial.options = &p->options;
    p->trial.follows = follows;
    haul_status status = trainer_build(&p->trial);
    *out = (haul__training_objects){.net = p->trial.net, .loader = p->trial.loader};
    return status;
}

static haul_status build(void *context, int64_t batch, bool follows, haul__training_objects *out)
{
    planner *p = context;
    return build_with(p, batch, p->of->options->precision, p->of->options->offload, follows, out);
}

static haul_status build_varied(void *context, int64_t batch, bool follows, haul__training_objects *out)
{
    planner *p = context;
    return build_with(p, batch, p->precision, p->offload, follows, out);
}

static haul_status load(void *context)
{
    planner *p = context;
    return init_load(&p->trial);
}

static haul_status step(void *context, const haul_batch *batch, const haul_step_part *part)
{
    planner *p = context;
    return trainer_step(&p->trial, batch, part);
}

static haul_status follow(void *context, const haul_batch *batch, const haul_step_part *part)
{
    planner *p = context;
    return trainer_follow(&p->trial, batch, part);
}

static void forget(void *context)
{
    planner *p = context;
    if (p->trial.recording)
        haul__recording_forget(p->trial.recording);
}

static haul_status hold(void *context)
{
    planner *p = context;
    return trainer_hold_best(&p->trial);
}

static haul_status end_epoch(void *context)
{
    planner    *p = context;
    haul_status status = trainer_try_measuring(&p->trial);
    return status ? status : trainer_try_saving(&p->trial);
}

bool planner_open(trainer *t)
{
    if (t->planner)
        return true;
    planner *p = calloc(1, sizeof *p);
    if (!p) {
        complain("memory is exhausted");
        return false;
    }
    p->of = t;
    p->training = (haul__training){.device = t->device,
                                   .accumulate = t->options->accumulate,
                                   .pieces = t->options->pieces,
                                   .follows = !t->options->eager,
                                   .goes_on = t->options->resume,
                                   .context = p,
                                   .build = build,
                                   .load = load,
                                   .step = step,
                                   .follow = follow,
                                   .forget = forget,
                                   .hold = hold,
                                   .end_epoch = end_epoch};
    t->planner = p;
    return true;
}

const haul__training *planner_vary(planner *p, const haul__choose_way *way)
{
    p->varied = p->training;
    p->varied.accumulate = way->parts;
    p->varied.build = build_varied;
    p->precision = way->bf16 ? "bf16" : p->of->options->precision;
    p->offload = way->offload ? "optimizer" : p->of->options->offload;
    return &p->varied;
}

void planner_free(planner *p)
{
    free(p);
}

static haul__fit_request request_of(const planner *p, const haul__training_limit *limit)
{
    return (haul__fit_request){.batch = p->of->options->batch,
                               .limit = *limit,
                               .recompute = train_options_recompute(p->of->options),
                               .start = p->of->expected.start};
}

haul_status planner_fit(planner *p, const haul__training_limit *limit, haul__fit_result *out)
{
    const haul__fit_request request = request_of(p, limit);
    return haul__fit(&p->training, &request, out);
}

haul_status planner_choose_segments(planner *p)
{
    return train_options_recompute(p->of->options) ? planner_fit(p, &p->of->plans.limit, &p->of->expected) : HAUL_OK;
}

haul_status planner_fit_spilling(planner *p, int64_t limit, haul__fit_result *out)
{
    const haul__fit_request request = request_of(p, &(haul__training_limit){.bytes = limit});
    return haul__fit_spilling(&p->training, &request, out);
}

haul_status planner_spill(planner *p, const haul__choose_way *way, int64_t limit, haul__fit_result *out)
{
    haul__fit_request request = request_of(p, &(haul__training_limit){.bytes = limit});
    request.batch = way->batch;
    request.recompute = false;
    return haul__fit_spilling(planner_vary(p, way), &request, out);
}

bool planner_spill_cost(planner *p, int64_t limit, haul__spill_cost *out)
{
    const haul__fit_request request = request_of(p, &(haul__training_limit){.bytes = limit});
    return haul__spill_cost_find(&p->training, &request, out);
}

haul_status planner_record(planner *p, int64_t batch, bool moves, haul_program *out)
{
    haul__training training = p->training;
    if (p->whole)
        training.pieces = 0;
    return haul__fit_program(&training, batch, &p->of->expected.segments, moves, out);
}

haul_status planner_record_whole(planner *p, int64_t batch, haul_program *out)
{
    p->whole = true;
    const haul_status status = planner_record(p, batch, false, out);
    p->whole = false;
    return status;
}

haul_plan *planner_place(planner *p, int64_t batch, haul__plan_request *request, const char *operation)
{
    haul_program program;
    request->ahead = true;
    if (!planner_record(p, batch, false, &program))
        return haul__plan_new(&program, request, operation);
    haul__free(request->machine);
    request->machine = NULL;
    return NULL;
}

haul__batch_request planner_batches(planner *p, int64_t limit)
{
    return (haul__batch_request){.training = &p->training,
                                 .limit = limit,
                                 .start = p->of->expected.start,
                                 .spill = p->of->options->spill,
                                 .recompute = train_options_recompute(p->of->options)};
}

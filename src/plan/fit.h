/* What a step of a training takes, and its layers, from a dry run: nothing is allocated, computed or read. */
#ifndef HAUL_PLAN_FIT_H
#define HAUL_PLAN_FIT_H

#include <haul/estimate.h>
#include <haul/program.h>

#include "plan/available.h"
#include "plan/layers.h"
#include "plan/recompute.h"
#include "plan/training.h"
#include "record/residency.h"

enum { HAUL__SPILLED_STEPS = 12 };

/* What a device that spills would do. */
typedef struct haul__fit_spill {
    bool    fits;                 /* the training fits: its operations in the limit, and the rest in the tiers */
    int64_t bytes, back_bytes;    /* that a step moves away, and back */
    int64_t to_file;              /* of `bytes`: to the file */
    int64_t host_peak, file_peak; /* the most bytes that are in host memory, and in the file */
    int64_t missing;              /* the most for which neither has room */
    int64_t over;                 /* the most that one operation needs, above the limit; 0: none does */
    char    over_operation[48];   /* "haul_conv2d" */
    char    over_module[80];      /* "layer1.0.conv1"; "" outside of modules and in gradients */
} haul__fit_spill;

typedef struct haul__fit_request {
    int64_t              batch; /* examples in a mini-batch */
    haul__training_limit limit;
    bool                 recompute; /* choose the segments that run again, for the fastest step within the limit */
    int64_t              start;     /* of haul__fit_spilling: what the training found in use on the device, in bytes */
} haul__fit_request;

typedef struct haul__fit_result {
    int64_t              examples;   /* in the mini-batch, which has fewer than .batch if the data does */
    haul_estimate_result first;      /* the first two: one makes the optimizer's state, the other is recorded */
    haul_estimate_result step;       /* the third: its memory, and what its last mini-batch computes */
    haul__segments       segments;   /* of a request with .recompute: those that run again in this step are on */
    int64_t              limit;      /* what the limit leaves for tensors, in bytes; 0: none */
    int64_t              overhead;   /* the rest of it: what the device takes for other things */
    int64_t              start;      /* bytes that were in use on the device before */
    int64_t              loading;    /* the most that the device holds while weights are loaded; 0: none are */
    int64_t              begin_peak; /* of the first step, which is not followed, in bytes */
    int64_t              plain_peak; /* the most that the training needs without recomputation, in bytes */
    int64_t              peak;       /* the same with `segments` */
    bool                 follows;    /* it follows its steps */
    const char          *unfollowed; /* why it does not, although it would; NULL: it does, or would not */
    haul_estimate_result epoch;      /* from the end of an epoch to the first step of the next one */
    haul_estimate_result steps;      /* HAUL__SPILLED_STEPS steps one after the other, if they spill */
    haul__fit_spill      spill;      /* of haul__fit_spilling */
    haul__layers         layers;
} haul__fit_result;

/* Finds out what a training takes, by one dry run. With .recompute, if it does not fit, the planner of memory proposes
 * segments by the program of a step of that run, and steps with them are made in the same run until a choice fits that
 * fits without none of its segments. If followed steps do not fit, or the training adds up gradients, steps as they are
 * are tried in it, too. On failure there is nothing to free. */
haul_status haul__fit(const haul__training *t, const haul__fit_request *r, haul__fit_result *out);

/* The same on a device that spills beyond the limit, which must be one in bytes: also finds out whether that suffices.
 * Fails with HAUL_UNSUPPORTED if the device cannot spill. Its settings are as before. */
haul_status haul__fit_spilling(const haul__training *t, const haul__fit_request *r, haul__fit_result *out);

/* The third step as a program, with these segments of the network running again. moves: as a followed step computes it
 * (record/program.h). On failure there is nothing to free. */
haul_status haul__fit_program(const haul__training *t, int64_t batch, const haul__segments *segments, bool moves,
                              haul_program *out);

/* The third step as a program, as it is, and the memory of the training's device in it. All zero is empty. */
typedef struct haul__fit_step {
    haul_program    program;
    haul__residency residency;
    int            *segment; /* of each operation: the segment of the network that it is of; -1: none */
} haul__fit_step;

/* With these segments running again; with none, they become those of the network, all off. On failure there is nothing
 * to free. */
haul_status haul__fit_record(const haul__training *t, int64_t batch, haul__segments *segments, haul__fit_step *out);
void        haul__fit_step_free(haul__fit_step *s);

/* Makes .segment of a step whose program is there. */
haul_status haul__fit_step_find_segments(haul__fit_step *s, const haul__segments *segments, haul_module *net);

/* The step for the planner of memory, which is valid as long as this one. The training's peak differs from that of the
 * recorded step: it may be followed, or the first step needs more. So the planner's limit is as far from its peak as
 * the training's. */
haul_status haul__fit_step_plan(const haul__fit_step *s, const haul__fit_result *fit, const haul_device *device,
                                haul__memory_step *out);

/* What an estimate says of a device; NULL: nothing. */
const haul_estimate_device *haul__fit_device(const haul_estimate_result *r, const haul_device *device);

int64_t haul__fit_step_peak(const haul__fit_result *fit, const haul_device *device); /* bytes */
void    haul__fit_free(haul__fit_result *fit);

#endif

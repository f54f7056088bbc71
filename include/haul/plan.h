/* Plans: where each operation of a training step should run, of the CPU and up to eight other devices, with the
 * reasons.
 *
 *     typedef struct training {
 *         haul_module    *net;
 *         haul_optimizer *sgd;
 *         haul_tensor    *x, *y;
 *     } training;
 *
 *     static haul_status step(void *context)
 *     {
 *         training *t = context;
 *         haul_optimizer_zero_grad(t->sgd);
 *         haul_backward(haul_cross_entropy(haul_call(t->net, t->x), t->y));
 *         return haul_optimizer_step(t->sgd);
 *     }
 *
 *     static haul_status run_as_planned(training *t)
 *     {
 *         haul_plan *plan = haul_plan_new(step, t, .module = t->net, .devices = "cpu,cuda:0");
 *         haul_status status = haul_plan_apply(plan, t->net);
 *         return status ? status : step(t);
 *     }
 *
 * A plan is made by dry runs of the step: nothing is computed or allocated. Times are those of a machine
 * (docs/guide.md, Machines). The placement whose operations and copies have the smallest sum is found first. On the CPU
 * and one other device it is the cheapest one; with more devices, and with memory limits, it is the best one that a
 * search finds. It comes with a lower bound for the sums of all placements and the proof of it, which haul_plan_save
 * writes and `haul plan --verify` checks. Devices and links work at the same time, so a step can take less than the
 * sum: a second search looks for the shortest step, and its placement becomes the plan if it is more than 3 % shorter.
 */
#ifndef HAUL_PLAN_H
#define HAUL_PLAN_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/error.h>
#include <haul/estimate.h>
#include <haul/nn.h>

HAUL_BEGIN

/* A plan, which a scope owns. */
typedef struct haul_plan haul_plan;

/* The most devices of a plan: the CPU and eight others. */
enum { HAUL_PLAN_DEVICES = 9 };

/* The most memory that a plan may use on a device. */
typedef struct haul_plan_limit {
    const char *device;  /* one of the plan's devices; NULL: each one but the CPU */
    int64_t     bytes;   /* 0: `percent` counts */
    double      percent; /* of what the step needs if everything runs on this device */
} haul_plan_limit;

/* Modules that stay on a device. */
typedef struct haul_plan_pin {
    const char *pattern; /* as of a shell, for the path of a module or of one around it: "conv*" */
    const char *device;  /* one of the plan's devices */
} haul_plan_pin;

/* The options of haul_plan_new. */
typedef struct HAUL__DESIGNATED haul_plan_options {
    haul_module *module; /* the network of the step, if the peaks of its candidates are wanted exactly; or NULL */
    /* the CPU and up to eight other devices, "cpu,cuda:0,cuda:1"; NULL: the first two of the machine or of this
     * computer. Simulated devices, which have virtual times, and others are not in one plan */
    const char *devices;
    /* the name of a machine that `haul devices --machines` lists, or a file; NULL: the machine of the simulated
     * devices, or this computer as haul calibrate has measured it */
    const char            *machine;
    const haul_plan_limit *limits;      /* devices without a limit have the machine's memory */
    int                    limit_count; /* the number of `limits` */
    const haul_plan_pin   *pins;        /* modules that stay on a device */
    int                    pin_count;   /* the number of `pins` */
    /* the network in stages of about the same time: consecutive modules on each device but the CPU, in their order. For
     * steps that make one backward pass over several micro-batches, in which all devices work at the same time; the
     * plan is then not the cheapest one under the model */
    bool stages;
} haul_plan_options;

/* Plan the step: haul_plan_new(step, context, .module = net, .devices = "cpu,cuda:0"). The function is called several
 * times in dry runs, by the rules of haul_estimate. It must be a whole step, without the program's loop around it.
 *
 * Fails with HAUL_OUT_OF_MEMORY if no placement fits the limits, with HAUL_STATE if a device was not measured, and with
 * HAUL_INVALID_ARGUMENT for devices, limits and pins that cannot be. */
#define haul_plan_new(step, context, ...)                                                                              \
    haul_plan_new_with(step, context, HAUL__OPTIONS(haul_plan_options, __VA_ARGS__))
HAUL_API haul_plan *haul_plan_new_with(haul_estimate_function *step, void *context, const haul_plan_options *options);

/* One operation of the step and its place. Texts live as long as the plan. */
typedef struct haul_plan_row {
    const char *operation; /* "haul_conv2d" */
    const char *module; /* path of the module, or of the module whose gradient or update it is; "" outside of modules */
    const char *device; /* where it runs */
    double      ms;     /* its time there */
    const char *why;    /* "0.3 ms here, 0.1 ms on cuda:0, but its input would cost 0.6 ms to move" */
} haul_plan_row;

/* The operations in the order of the step. Fills at most `capacity` rows of `out`, which may be NULL for 0, and returns
 * how many there are; -1 on failure. */
HAUL_API int haul_plan_rows(haul_plan *plan, haul_plan_row *out, int capacity);

/* A way to run the step: as planned, or everything on one device. Texts live as long as the plan. */
typedef struct haul_plan_candidate {
    const char *name;         /* "plan", "all on cpu", "all on cuda:0" */
    double      step_ms;      /* the time of a step, in which devices and links work at the same time */
    double      sum_ms;       /* the time of its operations and copies, if they followed each other */
    int64_t     copied_bytes; /* over the link in a step */
    int         copies;       /* in a step */
    /* the highest use of memory of each device, in the order of the plan's devices; 0 for the others */
    int64_t     peak_bytes[HAUL_PLAN_DEVICES];
    double      wait_ms; /* in which operations of a step wait for copies */
    const char *bits_of; /* the device on which everything would give bit-identical results; "": none */
    bool        fits;    /* the limits are kept */
    const char *why_not; /* "" if it fits */
} haul_plan_candidate;

/* The candidates, those that fit first, then the fastest. Fills at most `capacity` of `out`, which may be NULL for 0,
 * and returns how many there are; -1 on failure.
 *
 * If the devices can be used and the plan was made with the network, each candidate was tried in a dry run: `step_ms`
 * is that of the operations and copies that it made, and the peaks are those of haul_memory_stats.peak_allocated,
 * memory from before included. Otherwise both are the model's, whose peaks count what the operations use. */
HAUL_API int haul_plan_candidates(haul_plan *plan, haul_plan_candidate *out, int capacity);

/* Put the plan into force on the calling thread until the scope is popped: parameters, buffers and gradients of the
 * network move to where the plan has them, and the placement policy becomes HAUL_PLACE_AUTO, so operations run where
 * the plan says, those of backward passes too. Operations that the plan lacks run where most of their bytes are. The
 * gradients of parameters are with these, and the optimizer's state follows them with the next step. Parameters stay
 * where they are when the scope is popped.
 *
 * Fails, and changes nothing, if a device of the plan cannot be used or has no room, in dry runs, and in steps that are
 * recorded or followed. */
HAUL_API haul_status haul_plan_apply(haul_plan *plan, haul_module *net);

/* Write the plan with its proof to a file, the certificate that `haul plan --verify` checks and `haul train --plan`
 * follows, or read one. A file of another kind, or with a wrong proof, is refused with HAUL_FORMAT. */
HAUL_API haul_status haul_plan_save(haul_plan *plan, const char *path);
HAUL_API haul_plan  *haul_plan_load(const char *path);

HAUL_END

#endif

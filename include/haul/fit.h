/* Fitting: the fastest way to make a training step within a memory limit, found before anything is allocated.
 *
 *     typedef struct training {
 *         haul_module    *net;
 *         haul_optimizer *sgd;
 *     } training;
 *
 *     static haul_status step(void *context, int64_t batch)
 *     {
 *         training    *t = context;
 *         haul_tensor *x = haul_empty(HAUL_F32, HAUL_SHAPE(batch, 3, 32, 32));
 *         haul_tensor *y = haul_empty(HAUL_I64, HAUL_SHAPE(batch));
 *         haul_optimizer_zero_grad(t->sgd);
 *         haul_backward(haul_cross_entropy(haul_call(t->net, x), y));
 *         return haul_optimizer_step(t->sgd);
 *     }
 *
 *     static void fit(training *t)
 *     {
 *         haul_fit_result r;
 *         if (!haul_fit(step, t, &r, .module = t->net, .memory_limit = 500000000, .allow = HAUL_FIT_RECOMPUTE))
 *             printf("batch %lld, %.1f ms; %s\n", (long long)r.batch, r.step_ms, r.words);
 *     }
 *
 * The step is called several times in dry runs: nothing is computed or allocated. Its program says which tensors live
 * from the forward to the backward pass, and when. For each of them a planner chooses between keeping it, spilling it
 * to host memory, and computing it again. Times are those of the device's machine (docs/guide.md, Machines). */
#ifndef HAUL_FIT_H
#define HAUL_FIT_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/error.h>
#include <haul/nn.h>
#include <haul/train.h>

HAUL_BEGIN

/* What a plan may do, and what it does; bits. */
typedef enum haul_fit_technique {
    HAUL_FIT_RECOMPUTE = 2,  /* segments of the network run again in the backward pass (haul_module_recompute) */
    HAUL_FIT_SPILL = 4,      /* tensors go to host memory between two uses; the plan only says what that would take */
    HAUL_FIT_ACCUMULATE = 8, /* the step has several mini-batches, whose gradients add up; needs .part */
    HAUL_FIT_BF16 = 16       /* autocast to bf16 is on while the step runs */
} haul_fit_technique;

/* A whole step with so many examples, without the program's loop around it. Returns HAUL_OK or its error. */
typedef haul_status haul_fit_step(void *context, int64_t batch);

/* One mini-batch of a step, with so many examples: haul_train_begin, the loss, and haul_train_step, with this part.
 * Returns HAUL_OK or its error. */
typedef haul_status haul_fit_part(void *context, int64_t batch, const haul_step_part *part);

/* The options of haul_fit. */
typedef struct HAUL__DESIGNATED haul_fit_options {
    haul_module   *module;       /* the network, whose segments may run again; NULL: none do */
    haul_device   *device;       /* the device that the limit is for; NULL: the thread's current device */
    int64_t        memory_limit; /* bytes in use on the device, memory from before included; 0: its whole memory */
    int64_t        host_limit;   /* bytes of host memory that spilled tensors may take; 0: any */
    unsigned       allow;        /* techniques */
    int64_t        batch;        /* examples in a step; 0: the batch that trains most examples in a second */
    int64_t        most_batch;   /* the largest batch that is tried for 0; 0: 65536 */
    bool           apply;        /* the module's segments run again as planned from now on, and no others */
    haul_fit_part *part; /* called instead of the step, whose mini-batches may be smaller then; NULL: the step is */
} haul_fit_options;

/* The result of haul_fit; nothing is to be freed. */
typedef struct haul_fit_result {
    int64_t  batch;                /* examples in a step */
    int64_t  accumulate;           /* mini-batches in a step, which have as many examples each; 1: the step is one */
    unsigned used;                 /* techniques */
    double   step_ms;              /* time of a step */
    double   bound_ms;             /* no allowed way that keeps the limit takes less, by the model */
    int64_t  peak_bytes;           /* highest use of the device's memory, memory from before included */
    int64_t  spilled_bytes;        /* bytes that go to host memory in a step */
    double   spill_most_ms;        /* most by which spilling makes a step longer: its copies, if nothing hid them */
    double   unlimited_step_ms;    /* time of a step without a limit, in its own precision */
    int64_t  unlimited_peak_bytes; /* highest use of the device's memory then */
    int      recomputed_count;     /* segments that run again */
    char     recomputed[512];      /* their names, "layer1.0, layer1.1" */
    char     words[256];           /* "388.2 MiB more would save 12.1 ms; 97.1 MiB less would cost 3.4 ms" */
} haul_fit_result;

/* Find the fastest way to make the step within the limit: haul_fit(step, context, &result, .module = net, ...).
 *
 * Fails with HAUL_OUT_OF_MEMORY if nothing that is allowed fits: the message names the need and the largest batch that
 * fits, and *out has the way that comes closest. Fails with HAUL_INVALID_ARGUMENT for invalid options, among them
 * HAUL_FIT_ACCUMULATE without .part, and with the step's error. The step may be NULL if .part is given. Operations are
 * not divided among devices (haul_plan_new does that). Afterwards no segments of the module run again but those of
 * .apply. Spilling is left out for the CPU. */
#define haul_fit(step, context, out, ...)                                                                              \
    haul_fit_with(step, context, out, HAUL__OPTIONS(haul_fit_options, __VA_ARGS__))
HAUL_API haul_status haul_fit_with(haul_fit_step *step, void *context, haul_fit_result *out,
                                   const haul_fit_options *options);

HAUL_END

#endif

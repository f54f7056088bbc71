/* Recordings: training steps that are recorded once, and then only compared and computed.
 *
 * A recording calls the step function of the program for each step, as the program would. The first call runs as it is.
 * Later, the step is recorded in a dry run (haul/estimate.h): what it calls, with which tensors, and where its memory
 * goes in one arena. From then on the step is followed: each call is compared with the recorded one, which takes about
 * a tenth of the time of a call, and nothing is computed. When the function returns, the recorded operations run, on
 * the step's own tensors, with its own learning rates, step counts and random numbers. The results are the same, bit
 * for bit, as without a recording.
 *
 *     typedef struct training {
 *         haul_module      *net;
 *         haul_optimizer   *sgd;
 *         haul_tensor      *sum;
 *         const haul_batch *batch;
 *     } training;
 *
 *     static haul_status step(void *context)
 *     {
 *         training    *t = context;
 *         haul_tensor *loss = haul_cross_entropy(haul_call(t->net, t->batch->x), t->batch->y);
 *         haul_backward(loss);
 *         haul_optimizer_step(t->sgd);
 *         haul_add_into(t->sum, t->sum, haul_detach(loss));
 *         return haul_optimizer_zero_grad(t->sgd);
 *     }
 *
 *     static haul_status train_epoch(haul_loader *loader, training *t)
 *     {
 *         haul_recording *r = haul_recording_new(step, t);
 *         haul_loader_start(loader, 1);
 *         while ((t->batch = haul_loader_next(loader)))
 *             if (haul_recording_run(r))
 *                 break;
 *         return haul_error_status();
 *     }
 *
 * If a call differs, nothing has been computed yet. The step is then called again and runs without following, or is
 * recorded as another variant: a last batch that is smaller, a branch, a layer that was frozen. So a change in the
 * program is never missed; it costs time. */
#ifndef HAUL_RECORDING_H
#define HAUL_RECORDING_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* A recording, which a scope owns. */
typedef struct haul_recording haul_recording;

/* A step of the program. Returns HAUL_OK or its error. */
typedef haul_status haul_step_function(void *context);

/* The options of haul_recording_new. */
typedef struct HAUL__DESIGNATED haul_recording_options {
    void *context;  /* passed to the function */
    int   variants; /* how many forms of the step are kept, from 1 to 64; 0 stands for 4 */
    /* a step that cannot be followed is an error, after the first step of each variant */
    bool strict;
    /* What a followed step allocates, on the host or a device, is an error that names the call and the bytes. The first
     * three followed steps of each variant may allocate. */
    bool frozen;
    /* Memory for the arena of the tensor's device, in the place of memory that the recording allocates; NULL: none. */
    haul_tensor *arena;
} haul_recording_options;

/* A recording of function(context), whose first run is yet to come:
 *
 *     haul_recording_new(step, &training)
 *     haul_recording_new(step, &training, .variants = 8)
 *
 * Rules for the function:
 *
 * - It may be called several times for one step: effects outside of tensors, gradients, optimizers, loss scalers and
 *   averages may happen twice.
 * - It runs in a scope of its own. haul_keep lets a tensor outlive it; gradients do so anyway.
 * - It cannot read values, make tensors from host memory, draw the next batch, set a learning rate or step a schedule:
 *   move that behind haul_recording_run. A step that does so runs without following.
 * - The compose and gradient functions of custom operations run again in each followed step, in which their calls are
 *   compared, too. So the same rules hold for them.
 * - While a subscriber watches operations, for example a profile, every step runs without following, and so does a step
 *   of a frozen recording on a device that spills. On a device that spills there is no arena: a followed step allocates
 *   its memory, and the memory that is used latest is spilled first.
 *
 * Subscribers to events get of a followed step the commands that it submits, with operation, kernel and module, in the
 * order of a step that runs as it is, but for what moves: fused operations, and updates that come early; waits and
 * copies; modules' calls and labels while the function is called, again each time it is called; and no memory, once it
 * allocates nothing. Commands come when the function has returned, so their label is that around haul_recording_run.
 * The work of backward passes has no events.
 *
 * What operations without a gradient make of parameters and buffers that the step does not write, for example casts of
 * frozen weights, is made once, and again when their elements change. The recording holds a reference to their memory.
 *
 * A step that runs without following has the memory of the arenas. In a dry run (haul/estimate.h) a recording that was
 * made in it does what it would do, so that haul_estimate counts the memory of followed steps, too; other recordings
 * call their function.
 *
 * With .frozen = true, a tensor of the last step that the program still holds is an error in the next one, because that
 * needs other memory for its own. What a library allocates for itself within a call is not counted: oneDNN allocates
 * small structures.
 *
 * .arena is a row-major tensor that begins at the start of its memory, of any dtype, for example
 * haul_empty(HAUL_U8, HAUL_SHAPE(bytes)), or haul_wrap_host of memory at a multiple of 64 bytes. haul_recording_report
 * has the bytes that the variants so far need. If it is too small for a step, that runs without following, and the
 * reason has the bytes that are missing. The recording keeps a reference to the tensor. Its elements have no meaning,
 * and the program may not use them before the recording is released.
 *
 * Fails for a function that is NULL, and for an arena that is not as above. Returns NULL on failure, with the error
 * recorded. */
#define haul_recording_new(function, ...)                                                                              \
    haul_recording_new_with(function, HAUL__OPTIONS(haul_recording_options, .context = __VA_ARGS__))
HAUL_API haul_recording *haul_recording_new_with(haul_step_function *function, const haul_recording_options *options);

/* Make one step. Returns what the function, or an operation of it, returns. A failed step leaves parameters, gradients,
 * optimizers and random numbers as a failed step without a recording does, but for one case: on the CPU large
 * parameters are updated before the backward pass has ended, and if a call after that finds no host memory twice, they
 * stay updated. One thread uses a recording at a time. */
HAUL_API haul_status haul_recording_run(haul_recording *recording);

/* What the runs of a recording did. */
typedef struct haul_recording_report {
    int64_t followed;    /* steps that were followed */
    int64_t eager;       /* steps that ran as they are */
    int     variants;    /* forms of the step that are kept */
    int64_t operations;  /* operations that a step of the variant that was used last computes */
    int64_t arena_bytes; /* size of the arenas of all variants; 0 after a step that ran as it is */
    char    reason[256]; /* why the last step that ran as it is was not followed; "" if there was none */
} haul_recording_report;

/* Report on the runs so far. */
HAUL_API haul_status haul_recording_report_get(const haul_recording *recording, haul_recording_report *out);

HAUL_END

#endif

/* Training loops: steps of an optimizer with gradient accumulation, early stopping, the best weights, and checkpoints.
 *
 *     haul_accumulation plan = {.examples = haul_dataset_count(dataset), .batch = 16, .accumulate = 4};
 *     haul_loader      *loader = haul_loader_new(dataset, .batch = 16, .shuffle = true);
 *     haul_loader_start(loader, 1);
 *     for (const haul_batch *b; (b = haul_loader_next(loader));) {
 *         haul_scope    *inner = haul_scope_push();
 *         haul_step_part part;
 *         haul_accumulation_part(&plan, b->index, &part);
 *         haul_train_begin(adam, &part);
 *         haul_train_step(adam, haul_cross_entropy(haul_call(net, b->x), b->y), .part = &part);
 *         haul_scope_pop(inner);
 *     }
 *
 * Every fourth mini-batch ends a step with the gradient of the mean loss of 64 examples. */
#ifndef HAUL_TRAIN_H
#define HAUL_TRAIN_H

#include <haul/average.h>
#include <haul/base.h>
#include <haul/error.h>
#include <haul/io.h>
#include <haul/nn.h>
#include <haul/optim.h>
#include <haul/random.h>
#include <haul/schedule.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* ---- Steps ---- */

/* What one mini-batch is in a step of an optimizer. A step may have several mini-batches, whose gradients add up. A
 * mini-batch that is a whole step is {.first = true, .last = true, .weight = 1}. */
typedef struct haul_step_part {
    bool   first, last; /* first: the gradients begin anew; last: the parameters are updated */
    double weight;      /* its share of the step's examples, above 0 and at most 1 */
} haul_step_part;

/* How the mini-batches of an epoch form steps: PyTorch Lightning's accumulate_grad_batches. The last mini-batch of an
 * epoch may have fewer examples than the others, and the last step fewer mini-batches. With a loader that leaves out an
 * incomplete last batch (.drop_last), `examples` counts only those that it gives. */
typedef struct haul_accumulation {
    int64_t examples;   /* examples in an epoch */
    int64_t batch;      /* examples in a mini-batch */
    int64_t accumulate; /* mini-batches in a step; 1: each mini-batch is a step */
} haul_accumulation;

/* Find the part that a mini-batch has in its step. Weighted by its share of the examples, each mini-batch gives what it
 * would give to the mean loss of the whole step, also where the last ones are smaller. On failure *out is all zeros,
 * which haul_train_begin and haul_train_step refuse.
 *
 * - index: the mini-batch's number in its epoch, from 0, as in haul_batch.index */
HAUL_API haul_status haul_accumulation_part(const haul_accumulation *accumulation, int64_t index, haul_step_part *out);

/* The number of steps in an epoch, as for the length of a schedule; -1 on failure. */
HAUL_API int64_t haul_accumulation_steps(const haul_accumulation *accumulation);

/* Begin with a mini-batch. Call it before the forward pass: if the part is the first of its step, the gradients of the
 * step before are removed (haul_optimizer_zero_grad), so that the forward pass can use their memory.
 *
 * - part: NULL means a whole step */
HAUL_API haul_status haul_train_begin(haul_optimizer *optimizer, const haul_step_part *part);

/* Finish a mini-batch: haul_train_step(adam, loss). It adds the gradients of the loss times the part's weight to those
 * of the parameters, and makes the optimizer's step if the part is the last one. Nothing in it waits for the device.
 *
 * - The loss is the mean over the examples of the mini-batch. Its graph is freed (haul_backward).
 * - With .clip_norm, gradients are clipped before the step, all parts together (haul_clip_grad_norm).
 * - With .scaler, the loss is scaled, and the scaler makes the step and is updated after it (haul_grad_scaler_step).
 * The scaler must have no other optimizer then, because an update follows the steps of all optimizers.
 * - Gradients of several parts equal those of one large mini-batch up to rounding, unless a layer mixes examples or
 *   draws random numbers, like batch normalisation and dropout.
 *
 * If it fails, some gradients may have changed: begin again with a first part. */
typedef struct HAUL__DESIGNATED haul_train_step_options {
    haul_tensor *loss; /* the mean loss of the mini-batch, a scalar; positional */
    HAUL__GUARD(part)
    const haul_step_part *part;      /* the part of the step; default a whole step */
    haul_grad_scaler     *scaler;    /* loss scaling */
    double                clip_norm; /* the largest 2-norm of all gradients together; default no limit */
} haul_train_step_options;
#define haul_train_step(optimizer, ...)                                                                                \
    haul_train_step_with(optimizer, HAUL__OPTIONS(haul_train_step_options, .loss = __VA_ARGS__))
HAUL_API haul_status haul_train_step_with(haul_optimizer *optimizer, const haul_train_step_options *options);

/* ---- Early stopping and the best weights ---- */

/* Early stopping: the best value of a metric, for example the loss of a validation, and the epochs without progress
 * since then. The settings are those of EarlyStopping in Keras and PyTorch Lightning. The struct holds no memory.
 *
 *     haul_early_stop    stop = {.patience = 3};
 *     haul_best_weights *best = haul_best_weights_new(net);
 *     for (int64_t epoch = 1; epoch <= 100 && !haul_early_stop_is_due(&stop); epoch++) {
 *         train(x, y);
 *         if (haul_early_stop_update(&stop, epoch, validate()))
 *             haul_best_weights_keep(best);
 *     }
 *     haul_best_weights_restore(best); */
typedef struct haul_early_stop {
    int64_t patience;   /* epochs without progress after which the training is to end; 0: it never is */
    double  min_delta;  /* the least progress that counts: a metric is better if it is below best - min_delta */
    bool    rising;     /* larger metrics are better: above best + min_delta */
    int64_t best_epoch; /* the epoch of the best metric; 0: none yet */
    double  best;       /* the best metric */
    int64_t stalled;    /* epochs since then */
} haul_early_stop;

/* Count an epoch. Returns true if its metric is the best one so far. A metric that is not finite never is. Returns
 * false with an error, and changes nothing, if an argument is wrong.
 *
 * - epoch: the number of the epoch, from 1
 * - metric: the value that was measured after the epoch */
HAUL_API bool haul_early_stop_update(haul_early_stop *stop, int64_t epoch, double metric);

/* True if there was no progress for `patience` epochs. */
HAUL_API bool haul_early_stop_is_due(const haul_early_stop *stop);

/* A copy of a module's weights: its parameters and buffers, on their devices. Belongs to a scope and holds the module.
 * A program that wants the best weights in a file calls haul_save_weights instead. */
typedef struct haul_best_weights haul_best_weights;

/* Make a copy of the weights as they are now. */
HAUL_API haul_best_weights *haul_best_weights_new(haul_module *module);

/* Copy the module's weights into the copy, which needs no further memory. */
HAUL_API haul_status haul_best_weights_keep(haul_best_weights *best);

/* Copy the weights that were kept last into the module. They stay kept. */
HAUL_API haul_status haul_best_weights_restore(haul_best_weights *best);

/* ---- Checkpoints ---- */

/* How far a training has come. */
typedef struct haul_training_position {
    int64_t epoch; /* the epoch, from 1 */
    int64_t batch; /* batches of that epoch that were trained on */
} haul_training_position;

/* Save or load a checkpoint: a safetensors file with the weights of a module, the state and all settings of its
 * optimizers, the state of schedules and averages, the random state, and the position in the training. Continuing from
 * it is bit-identical to never having stopped:
 *
 *     haul_save_checkpoint("run.checkpoint", net, adam, .position = &position);
 *     haul_load_checkpoint("run.checkpoint", net, adam, .position = &position);
 *
 * Both calls take the same options. Loading sets everything. It needs the same module, and optimizers, schedules and
 * averages of the same kinds in the same order, and changes nothing when it fails. Settings of the optimizers, for
 * example momentum, become those of the file; haul_optimizer_set changes them afterwards. Files of earlier versions,
 * with one optimizer, are read; of the settings they have only the learning rate.
 *
 * .stop is early stopping that the program counts with a haul_early_stop. Loading sets its best metric, its epoch and
 * the epochs since then; patience and the other settings stay those of the program. It fails if the file has none.
 *
 * Saving fails if state would be lost, that is if
 *
 * - an optimizer of the list has parameters that the module does not hold
 * - another optimizer has made steps with parameters of the module
 * - a schedule belongs to another optimizer
 * - an optimizer has a second gradient scaler in use
 * - averages are swapped in
 *
 * Loading fails if the file has the state of a scaler that the optimizer does not have. */
typedef struct HAUL__DESIGNATED haul_checkpoint_options {
    haul_module    *module;    /* the module; positional */
    haul_optimizer *optimizer; /* the optimizer; NULL: only those of .optimizers; positional */
    HAUL__GUARD(position)
    haul_training_position *position;        /* how far the training has come: saving reads it, loading writes it */
    haul_optimizer *const  *optimizers;      /* further optimizers */
    int                     optimizer_count; /* the number of .optimizers */
    haul_schedule *const   *schedules;       /* schedules */
    int                     schedule_count;  /* the number of .schedules */
    haul_average *const    *averages;        /* averages */
    int                     average_count;   /* the number of .averages */
    haul_early_stop        *stop;            /* early stopping: saving reads it, loading writes it */
    const haul_text_pair   *extra;           /* saving only: further texts, whose keys do not begin with "haul." */
    int                     extra_count;     /* the number of .extra */
} haul_checkpoint_options;
#define haul_save_checkpoint(path, module_, ...)                                                                       \
    haul_save_checkpoint_with(path, HAUL__OPTIONS(haul_checkpoint_options, .module = module_, .optimizer = __VA_ARGS__))
#define haul_load_checkpoint(path, module_, ...)                                                                       \
    haul_load_checkpoint_with(path, HAUL__OPTIONS(haul_checkpoint_options, .module = module_, .optimizer = __VA_ARGS__))
HAUL_API haul_status haul_save_checkpoint_with(const char *path, const haul_checkpoint_options *options);
HAUL_API haul_status haul_load_checkpoint_with(const char *path, const haul_checkpoint_options *options);

HAUL_END

#endif

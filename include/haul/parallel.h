/* Data parallel training: each step has a global batch, which is cut into a fixed number of pieces.
 *
 *     haul_parallel *p = haul_parallel_new(net, .pieces = 8);
 *     haul_loader   *loader = haul_loader_new(dataset, .batch = 32, .shuffle = true, .pieces = 8,
 *                                             .first_piece = haul_parallel_first(p),
 *                                             .piece_count = haul_parallel_count(p));
 *     int64_t step = 0;
 *     haul_loader_start(loader, 1);
 *     for (const haul_batch *b; (b = haul_loader_next(loader));) {
 *         haul_scope *inner = haul_scope_push();
 *         haul_parallel_begin(p, step);
 *         haul_tensor *sum = b->size ? haul_cross_entropy(haul_call(net, b->x), b->y, .reduction = HAUL_REDUCE_SUM)
 *                                    : HAUL_NONE;
 *         haul_parallel_backward(p, sum, (double)b->size);
 *         if (haul_parallel_ready(p)) {
 *             haul_optimizer_step(adam);
 *             step++; // numbers of steps do not repeat in a training, also in later epochs
 *         }
 *         haul_scope_pop(inner);
 *     }
 *
 * The gradient of a step is that of the mean loss of its global batch: the sums of losses of the pieces are
 * differentiated one after the other, their gradients are added in a binary tree over the pieces, and the sum is
 * divided once by the sum of the weights. The tree and its roundings depend on the number of pieces alone, so a
 * training is bit-identical however its pieces are divided among processes: started by mpirun, the same program
 * computes its pieces on all ranks (group.h). */
#ifndef HAUL_PARALLEL_H
#define HAUL_PARALLEL_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/group.h>
#include <haul/nn.h>
#include <haul/optim.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* Data parallel training of a module. It belongs to a scope and holds the module. */
typedef struct haul_parallel haul_parallel;

/* The most pieces that a global batch may have. */
#define HAUL_MAX_PIECES 4096

/* Make it for a module that is on its devices already:
 *
 * - Gradients are those of the parameters that require one now. If that changes, make another one.
 * - Sums of gradients are f32, or f64 if a parameter is f64, on the device of the first parameter.
 * - The pieces are divided among the ranks of .group. All ranks make it, with the same options, and then begin the same
 *   steps. Before the first step the module's parameters and buffers become those of rank 0.
 *
 * Fails with HAUL_INVALID_ARGUMENT if no parameter requires a gradient, if .pieces is not a power of two or less than
 * the ranks, if .shard is not 0 to 3, and, naming the difference, if the options or modules of the ranks differ. Fails
 * with HAUL_UNSUPPORTED if .stages is neither 0, 1 nor the number of ranks, or the module cannot be cut
 * (haul_parallel_call), and if .shard is 3 and the group of several ranks is "nccl" or "local": use the group "mpi", or
 * .shard = 2.
 */
typedef struct HAUL__DESIGNATED haul_parallel_options {
    haul_module *module; /* the module; positional */
    HAUL__GUARD(group)
    haul_group       *group;  /* whose ranks divide the pieces; default haul_group_get("auto") */
    int               pieces; /* pieces of a global batch, a power of two; default 8 */
    uint64_t          seed;   /* seed of the random numbers of all pieces */
    haul_grad_scaler *scaler; /* loss scaling: losses are scaled before they are differentiated */
    int               shard;  /* 0: each rank has the whole state of the optimizer; 1: a part of it; 2: of the gradients
                               * of a step, too; 3: of the parameters, too; default 0 */
    int         stages;       /* of the network, one on each rank: as many as the group has ranks; 0 or 1: none */
    const char *cuts; /* "layer2,layer3.1": the modules with which the stages after the first one begin; default:
                       * so that the stage with the most bytes of parameters has as few as possible */
} haul_parallel_options;
#define haul_parallel_new(...) haul_parallel_new_with(HAUL__OPTIONS(haul_parallel_options, .module = __VA_ARGS__))
HAUL_API haul_parallel *haul_parallel_new_with(const haul_parallel_options *options);

/* The pieces of each global batch that are this rank's: the number of the first one, and how many follow each other
 * from there. -1 on failure. */
HAUL_API int haul_parallel_first(const haul_parallel *parallel);
HAUL_API int haul_parallel_count(const haul_parallel *parallel);

/* Begin this rank's next piece. Call it before the forward pass, in the scope of the piece:
 *
 * - The gradients of the parameters are removed.
 * - The thread draws random numbers from a generator of the piece, for example for dropout. It depends on the seed, the
 *   step and the number of the piece. Popping the scope restores the generator before.
 *
 * Fails with HAUL_STATE if the step before has pieces left.
 *
 * - step: the number of the step, at least 0, and another one for each step of the training */
HAUL_API haul_status haul_parallel_begin(haul_parallel *parallel, int64_t step);

/* Call the module with the examples of a piece, or outside of pieces, for example to evaluate. Without .stages it is
 * haul_call(module, x).
 *
 * With .stages each rank has consecutive modules of the network, a stage (GPipe, Huang et al. 2019). It computes this
 * part of every piece: it gets the activations from the rank before, and sends its own to the rank after it.
 * haul_parallel_backward sends their gradients back. It makes the backward pass of an earlier piece while later stages
 * compute, in the order of PipeDream's 1F1B, and with the last piece those that are left. From the first
 * haul_parallel_begin on, a rank has the parameters that require a gradient, their gradients and their optimizer state
 * of its stage alone; using another one of these parameters is an error. Buffers, and parameters that require no
 * gradient, stay on all ranks. Weights, buffers and losses are bit-identical to those of one rank with as many pieces.
 *
 * - All ranks call it for the same pieces, once in each that has examples. x is the input on rank 0, and ignored on the
 *   others. All ranks pass the same weights to haul_parallel_backward.
 * - Only the last rank gets the result. The others get HAUL_NONE, and pass HAUL_NONE to haul_parallel_backward.
 * - The module calls its children in order, as haul_nn_sequential does, and is cut between two of them. Sequences in
 *   it are opened. Each stage needs a parameter that requires a gradient. A parameter that two stages share is refused.
 * - .pieces is the number of micro-batches. All pieces are those of every rank: haul_parallel_first is 0.
 * - Steps are made by haul_parallel_step. haul_clip_grad_norm and haul_grad_scaler_unscale are collectives, as with
 *   .shard = 2, and haul_parallel_gather brings all parameters, buffers and states to rank 0.
 * - Draws of random numbers, for example by dropout, follow those of the stage before.
 * - A step that fails on one rank fails on all, with its error. The training cannot go on then: start the program
 *   again, from a checkpoint.
 * - In a dry run one rank computes the whole network. */
HAUL_API haul_tensor *haul_parallel_call(haul_parallel *parallel, haul_tensor *x);

/* Finish a piece: differentiate the sum of its losses, and add its gradients to those of the pieces before. The graph
 * is freed. A rank's last piece of a step reduces, and waits for the other ranks: afterwards the parameters have the
 * gradient of the mean loss of the whole step, and haul_parallel_ready is true. Clip gradients then, and make the
 * optimizer's step, as without pieces.
 *
 * - A parameter that a piece does not use has a gradient of zeros there.
 * - Buffers of the module begin each piece with the values that they had before the step. After the step floating ones,
 *   for example running statistics, are the mean of their values after each piece, in a tree as well; a piece without
 *   examples leaves them. Integer ones change as the first piece changed them. Buffers of other dtypes stay.
 * - A gradient that is not finite makes the sum so, and a scaler then skips the step everywhere.
 * - If it fails, the other ranks fail in the same step, with the same error. Without other ranks the step begins anew:
 *   its buffers are as before, and its pieces are to be repeated.
 *
 * sum_of_losses: a scalar, the sum over the examples of the piece; HAUL_NONE for a piece without examples
 * weight: what the sum is divided by to get the mean, for example the number of examples, or of tokens that count; at
 * least 0 */
HAUL_API haul_status haul_parallel_backward(haul_parallel *parallel, haul_tensor *sum_of_losses, double weight);

/* True from the last piece of a step until the first one of the next: the gradients are reduced. False on failure. */
HAUL_API bool haul_parallel_ready(const haul_parallel *parallel);

/* Make the optimizer's step with the gradients of the step that is ready: haul_grad_scaler_step if there is a scaler,
 * else haul_optimizer_step.
 *
 * With .shard = 1 the state of the optimizer is divided among the ranks (ZeRO, stage 1; Rajbhandari et al. 2020): each
 * parameter has one owner, which keeps its state and updates it, and then all ranks get all parameters. Parameters are
 * bit-identical to those without shards. They are not cut, so the largest one limits how even the parts are. All ranks
 * call this function, with optimizers of the same parameters and settings, and it is the only one that makes steps.
 * State of other ranks' parameters, which a checkpoint has brought, is freed. Each rank sends its parameters to the
 * others, in addition to the gradients. Clip gradients before this call. With a scaler, call haul_grad_scaler_unscale
 * before that.
 *
 * With .shard = 2 the gradients of a step are divided, too (ZeRO, stage 2): when haul_parallel_ready is true, a rank
 * has the gradients of its own parameters, and the others have none (haul_tensor_grad: HAUL_NONE). Sums go to the
 * owners only, so a step sends as many bytes as with .shard = 0. haul_clip_grad_norm and haul_grad_scaler_unscale are
 * collectives then, which all ranks call for the same parameters; their results are those of all gradients. A rank with
 * several pieces adds up their gradients before they travel, and has memory for all of them until its last piece.
 *
 * With .shard = 3 each rank keeps only its own parameters between uses (ZeRO, stage 3). All ranks have the small ones,
 * of up to 32 KiB. From the first haul_parallel_begin on, a rank has no memory for other ranks' parameters. An
 * operation or an access of the host fetches a parameter from its owner, whose group thread answers while its program
 * computes. Up to 8 MiB of fetched parameters are kept, or the operands of one operation if they are larger. Memory
 * that the host uses, for example by haul_map, stays until the next step. So ranks may use different parameters, and
 * differently often. A parameter is used by one thread at a time.
 *
 * - If a program changes parameters by itself, for example by loading a checkpoint, all ranks make the same changes,
 *   and then begin a step or call haul_parallel_gather. Changes that the owner does not make are lost.
 * - After haul_parallel is freed, a rank keeps what it has then. Any other parameter fails with HAUL_STATE. Others may
 * still get this rank's parameters, which stay as long as these ranks train.
 *
 * Fails with HAUL_STATE unless haul_parallel_ready is true, and as haul_optimizer_step or haul_grad_scaler_step does.
 * If it fails on one of several ranks, the others fail with its error. */
HAUL_API haul_status haul_parallel_step(haul_parallel *parallel, haul_optimizer *optimizer);

/* Bring the optimizer's whole state to rank 0, so that it can save a checkpoint; with .shard = 3 or .stages all
 * parameters, too. All ranks call it. The other ranks' parts stay as they are; what rank 0 gets is in host memory,
 * until the next step frees it. The checkpoint is one file that any number of ranks continues from, with and without
 * shards: all of them load it. Without .shard and .stages it does nothing.
 *
 * optimizer: NULL: the parameters alone */
HAUL_API haul_status haul_parallel_gather(haul_parallel *parallel, haul_optimizer *optimizer);

/* The mean loss of the step that is ready, without dimensions: the sum of all its losses divided by the sum of their
 * weights. Does not wait for the device. Fails with HAUL_STATE before. */
HAUL_API haul_tensor *haul_parallel_loss(haul_parallel *parallel);

HAUL_END

#endif

/* Process groups: several processes, the ranks, that compute together. Threads of one process, each with a device, can
 * be ranks, too (haul_group_run).
 *
 * A launcher starts the processes, on one machine or on several ones:
 *
 *     mpirun -n 4 ./program
 *
 * Each process is a rank, a number from 0 to the size of the group less 1. haul_group_get finds the others. An MPI
 * library moves the bytes between ranks; Haul opens it at run time, whichever it is, and needs none for one rank.
 *
 * A group is for data parallel training (haul/parallel.h), for operations that sum and exchange tensors
 * (haul_all_reduce), and for messages between two ranks (haul_send). All of these but messages, haul_group_barrier and
 * the functions of haul/parallel.h are collectives: all ranks of a group call them, in the same order and with operands
 * of equal shapes and dtypes. They are numbered. Where the ranks call different ones, each gets an error that names two
 * ranks and their calls. Sums are made in the order of a fixed tree by Haul's own code, so they are bit-identical on
 * all ranks, and with every MPI library and network.
 *
 * A rank that does not reach a collective within the group's limit ends the group: the other ranks get an error that
 * names the rank, its host, its process and the collective. A group on which a collective has failed cannot be used any
 * more. If a rank was lost, the job cannot go on: two seconds after the error, or when the program exits if that is
 * sooner, the library writes the error to standard error, ends all ranks of the job, and then its own process. This is
 * the only case in which the library ends a process. Ranks that are threads are an exception: their collectives fail,
 * and the process goes on. */
#ifndef HAUL_GROUP_H
#define HAUL_GROUP_H

#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* A group of ranks. Those of haul_group_get live as long as the process, or until the function of a rank that is a
 * thread returns; those of haul_group_split belong to a scope. */
typedef struct haul_group haul_group;

/* Options of haul_group_get.
 *
 * - name: positional: which group
 *   - "auto": if a launcher has started several processes (OMPI_COMM_WORLD_SIZE, PMI_SIZE, SLURM_NTASKS), "nccl" where
 *     the current device of each is a GPU of NVIDIA of its own, and else "mpi"; without a launcher "none"
 *   - "mpi": the processes that the MPI library finds. `$HAUL_MPI` names the library: `HAUL_MPI=libmpich.so.12`
 *   - "nccl": the same ones, and NCCL moves sums of tensors from GPU to GPU: between the ranks' current devices
 *   - "none": this process alone
 *   - "local:cpu,opencl:0": the devices that haul_group_run was called with, in a thread that it has started. In these
 *     threads "auto" is this group, too
 * - limit: how many seconds a collective waits for a rank. Default: the variable `$HAUL_GROUP_LIMIT`, else
 *   300. It holds for all groups of the process */
typedef struct HAUL__DESIGNATED haul_group_options {
    const char *name;
    HAUL__GUARD(limit)
    double limit;
} haul_group_options;

/* The group of that name. All ranks call it. It is the same group each time.
 *
 * Errors:
 *
 * - `HAUL_INVALID_ARGUMENT`: an unknown name
 * - `HAUL_STATE`: a group "local:...", and this thread is not one of its ranks
 * - `HAUL_UNSUPPORTED`: MPI or NCCL cannot be opened (the message names the package), or a rank has no GPU of its own
 * - `HAUL_BACKEND`: MPI or NCCL cannot start
 * - `HAUL_STATE`: the library finds fewer processes than the launcher started: they belong to different MPIs
 * - `HAUL_STATE`: the process is the child of a fork */
#define haul_group_get(...) haul_group_get_with(HAUL__OPTIONS(haul_group_options, .name = __VA_ARGS__))
HAUL_API haul_group *haul_group_get_with(const haul_group_options *options);

/* What a rank does, in the thread that haul_group_run has started for it. Returns HAUL_OK or its error.
 *
 * - group: the group of all ranks as this rank sees it. Only this thread uses it, and groups split from it. It ends
 *   when the function returns
 * - context: the pointer that haul_group_run got; all ranks get the same one, so what it points to needs a lock if a
 *   rank changes it */
typedef haul_status haul_rank_function(haul_group *group, void *context);

/* Run a function in several threads, which are the ranks of a group: one for each device of this process that the name
 * lists. No MPI library is needed. Returns when all threads have ended.
 *
 *     static haul_status sum_ranks(haul_group *group, void *context)
 *     {
 *         haul_tensor *x = haul_full(HAUL_F32, HAUL_SHAPE(3), haul_group_rank(group));
 *         return haul_print(haul_all_reduce(x, group));
 *     }
 *
 *     haul_group_run("local:cuda:0,cuda:1", sum_ranks, NULL);
 *
 * Each rank makes its own module, optimizer and loader, as a process does. In the function:
 *
 * - A scope is open, which owns what the rank makes. Tensors of one rank are not for the others.
 * - The rank's device is the current device. A device may be listed several times: its ranks share it.
 * - The thread draws random numbers from a generator of its own, which begins as the caller's is now. So all ranks draw
 *   the same numbers. Seed before the call: haul_manual_seed within the function seeds the process's generator.
 * - The other settings of the thread are the defaults. Signals go to the program's own threads.
 * - Collectives make progress only while the rank is in a collective or waits for one, and not while it computes.
 *
 * All promises of collectives hold: sums are bit-identical to those of ranks that are processes. A rank that fails ends
 * the others: what they wait for fails, and the error names the rank and its device. So does a rank whose function
 * returns early, as soon as others wait for it. The process goes on in either case. haul_parallel_new takes .shard = 0
 * to 2 with this group.
 *
 * Returns HAUL_OK if all functions did. Else it fails with the error of a rank that has failed, and names the rank.
 * Errors of its own:
 *
 * - `HAUL_INVALID_ARGUMENT`: the name does not begin with "local:", or lists more than 64 devices
 * - `HAUL_DEVICE`: a device that cannot be used
 * - `HAUL_STATE`: a thread cannot start
 * - `HAUL_UNSUPPORTED`: in a dry run or a recorded step
 *
 * - name: "local:" and names of devices, separated by commas
 * - function, context: what each thread runs */
HAUL_API haul_status haul_group_run(const char *name, haul_rank_function *function, void *context);

/* The number of this process within the group, and how many ranks the group has; -1 on failure. */
HAUL_API int haul_group_rank(const haul_group *group);
HAUL_API int haul_group_size(const haul_group *group);

/* Divide a group: the ranks that pass the same color are a new group. Its ranks are numbered in the order of `key`, and
 * of their ranks in `group` where keys are equal. All ranks of `group` call it. A color is at least 0. The connections
 * of a new group are kept until the process ends, so divide groups a few times, not in each step. */
HAUL_API haul_group *haul_group_split(haul_group *group, int color, int key);

/* What a group is made of. Texts live as long as the process.
 *
 * - kind: "mpi", "nccl", "local" or "none"
 * - library: the library's file, "libmpi.so.40" or "libnccl.so.2"; "" without one
 * - family: whose interface it has: "Open MPI", "MPICH", "MPI ABI" or "NCCL"; "" without one
 * - version: as the library describes itself; "" without one
 * - rank, size: of this process or thread, and of the group
 * - limit: seconds that a collective waits for a rank
 * - collectives: how many collectives this rank has begun in the group
 * - sent_bytes: elements that this rank has sent to other ranks, in bytes, since the group exists */
typedef struct haul_group_properties {
    const char *kind, *library, *family, *version;
    int         rank, size;
    double      limit;
    int64_t     collectives, sent_bytes;
} haul_group_properties;

/* Fill *out with the properties of a group. */
HAUL_API haul_status haul_group_describe(const haul_group *group, haul_group_properties *out);

/* One rank of a group: its process, and the name of its host. */
typedef struct haul_group_member {
    int  rank;     /* its number in the group */
    int  process;  /* the number of its process on its host */
    char host[64]; /* the host's name */
} haul_group_member;

/* Fill *out with a rank of the group. Fails for a rank that the group does not have. */
HAUL_API haul_status haul_group_member_get(const haul_group *group, int rank, haul_group_member *out);

/* Wait until all ranks of the group have called this function. */
HAUL_API haul_status haul_group_barrier(haul_group *group);

/* ---- Collectives of tensors ----
 * Operations on tensors of all ranks, which have equal shapes and dtypes. All ranks of the group call them, in the same
 * order; each waits for the others. Results are new tensors on the device of x. Data of other devices than the CPU goes
 * through host memory, except for sums of a group "nccl".
 *
 * They are differentiable, as in torch.distributed.nn.functional: gradients are those of the sum of all ranks' losses.
 * Backward passes make collectives, too, so all ranks differentiate the same graph. x must require a gradient on all
 * ranks or on none.
 *
 * Sums are made in a fixed binary tree over the ranks, and are bit-identical on all of them; those of f16 and bf16 are
 * made in f32. Sums take f16, bf16, f32, f64, i32 and i64; the others take every dtype. The functions fail with
 * HAUL_INVALID_ARGUMENT, naming two ranks and their calls, if the ranks differ. */

/* The sum of the ranks' x: y = x0 + x1 + ... on each rank. Its gradient is the sum of the ranks' gradients. */
HAUL_API haul_tensor *haul_all_reduce(haul_tensor *x, haul_group *group);

/* The x of the rank `root`, on each rank. On the root its gradient is the sum of the ranks' gradients, elsewhere it is
 * zeros. */
HAUL_API haul_tensor *haul_broadcast(haul_tensor *x, int root, haul_group *group);

/* The ranks' x, one after the other along an axis, in the order of ranks: from [2, 3] on each of 4 ranks [8, 3] with
 * axis 0. x has at least one dimension. Its gradient is haul_reduce_scatter of the gradient. */
HAUL_API haul_tensor *haul_all_gather(haul_tensor *x, int axis, haul_group *group);

/* The sum of the ranks' x, of which each rank gets its part along an axis: from [8, 3] on each of 4 ranks [2, 3] with
 * axis 0. The size of the axis is a multiple of the number of ranks. Its gradient is haul_all_gather of the gradient.
 */
HAUL_API haul_tensor *haul_reduce_scatter(haul_tensor *x, int axis, haul_group *group);

/* ---- Messages ----
 * A tensor goes from one rank to another one. Only these two make calls: the k-th haul_send of a rank to another one
 * belongs to the k-th haul_receive there from this rank. Each rank calls them where it wants to, but a receive waits
 * for its send. Messages have no tags; those of groups made by haul_group_split are apart.
 *
 *     haul_group *group = haul_group_get("auto");
 *     if (haul_group_rank(group) == 0) {
 *         haul_tensor *sent = haul_send(haul_call(net, x), 1, group);
 *         haul_backward(sent);
 *     } else {
 *         haul_tensor *like = haul_set_requires_grad(haul_zeros(HAUL_F32, HAUL_SHAPE(8, 3)), true);
 *         haul_tensor *y = haul_call(net, haul_receive(like, 0, group));
 *         haul_backward(haul_sum(y));
 *     }
 *
 * x and like must have equal shapes and dtypes, and both or neither must require a gradient. A receive that gets
 * another message than it expects fails with HAUL_INVALID_ARGUMENT and prints both; a sender that fails lets the
 * receive fail with its error. A rank cannot use a group any more after a message has failed there, and receives of
 * other ranks from this rank fail. If no message comes within the group's limit, the group ends as it does for
 * collectives.
 *
 * Data goes through host memory, with groups "nccl" as well. A tensor without elements is not sent. A rank may send to
 * itself, and must do so before it receives. Functions of haul_checkpoint cannot send or receive.
 *
 * The gradient of a message is a message back: backward passes of both ranks make it, so both must reach it. Messages
 * from one rank to another one are numbered, and a gradient names the number of its message. So passes that compute the
 * gradients in another order than they were sent in fail. The newest call of a pass comes first: one pass for several
 * messages, with the sum of what haul_send returned, works if the other rank makes one pass for all of them, too. With
 * haul_grad, `like` must be among the inputs. The gradient of a message cannot be differentiated again. */

/* Sends x, a copy of its elements, and returns without waiting for the receiver. The result is 0, a tensor without
 * dimensions of x's dtype, or of f32 if that is not a float. It is part of the graph: a backward pass that begins at
 * it, or at a sum of it and a loss, waits for the gradient of the receiver, and gives it to x. The gradient of the
 * result itself does not matter. */
HAUL_API haul_tensor *haul_send(haul_tensor *x, int to, haul_group *group);

/* Waits for the tensor that the rank `from` sends. The result has the shape, dtype and device of `like`, whose elements
 * are not read: haul_expand of one element will do. It requires a gradient if `like` does, and its gradient goes back
 * to the sender; `like` itself gets none. */
HAUL_API haul_tensor *haul_receive(haul_tensor *like, int from, haul_group *group);

HAUL_END

#endif

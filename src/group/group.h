/* Collectives on memory, for the layers above.
 *
 * A collective is a *work*: it is begun, runs in order with the other works of its group, and is waited for. Between
 * the two the caller's thread is free, and the buffers belong to the work. Works of groups with several ranks run on
 * the group thread, the only one that calls the MPI library (group/thread.h).
 *
 * All ranks of a group begin the same works in the same order, with the same name and the same text about the data:
 * "f32[64,10]", "bucket 3 of step 41". Both are compared before anything moves, and ranks that differ get an error. */
#ifndef HAUL_GROUP_GROUP_H
#define HAUL_GROUP_GROUP_H

#include <haul/group.h>

#include "core/object.h"
#include "core/tensor.h"
#include "group/tree.h"

typedef struct haul__work haul__work;

/* A collective as its errors name it. `name` lives as long as the process; `what` is copied, and may be NULL. */
typedef struct haul__group_call {
    const char *name; /* the public function */
    const char *what; /* shapes, dtypes, roots: equal on all ranks */
} haul__group_call;

/* HAUL_OK if `group` is a group of this process that can be used. */
haul_status haul__group_check(const haul_group *group, const char *operation);
haul_status haul__group_check_rank(const haul_group *group, int rank, const char *operation, const char *argument);

/* Writes "rank 2 (host node7, process 4711)", as errors name a rank of the group. */
void haul__group_describe_rank(const haul_group *group, int rank, char *out, size_t size);

/* A number for a group, which attributes of operations have in the place of a pointer; and the group of a number, or
 * NULL, with the error recorded, if it has ended. */
int64_t     haul__group_number(const haul_group *group);
haul_group *haul__group_of_number(int64_t number, const char *operation);

/* What this process has done in all groups since it began, for statistics. */
typedef struct haul__group_count {
    int64_t collectives, sent_bytes;
    int64_t exchange_ns, hidden_ns; /* as haul__group_exchanged counts them */
} haul__group_count;
haul__group_count haul__group_counts(void);

/* Counts the time of a step in which exchanges of gradients were under way, and its part during the backward pass. */
void haul__group_exchanged(haul_group *group, int64_t exchange_ns, int64_t hidden_ns);
/* These times of this process's rank in the group. The other counts are 0. */
haul__group_count haul__group_exchange_time(const haul_group *group);

/* The rank of this process among those that its launcher started, and how many they are. Where threads of this process
 * are ranks, -1 and how many. Otherwise -1 and 0: until haul_group_get has found the ranks, and in the child of a
 * fork. */
typedef struct haul__group_world {
    int rank, size;
} haul__group_world;
haul__group_world haul__group_world_now(void);
/* A thread of this process has become a rank, 1, or is none any more, -1. */
void haul__group_threads(int change);

/* ---- works ---- */

/* Waits for a work and frees it. `work` may be NULL, the result of a call that failed: then the recorded error is
 * returned. In a dry run nothing is moved. */
haul_status haul__work_wait(haul__work *work);
/* The same, and says when the work began and when it was over, by haul__now_ns; 0 and 0 in a dry run. */
haul_status haul__work_wait_timed(haul__work *work, int64_t *begin, int64_t *end);
/* True if waiting would return at once. */
bool haul__work_is_done(const haul__work *work);

/* Each of these returns NULL on failure, with the error recorded. Byte counts are arrays of one number for each rank.
 * Portions are in the order of ranks, without gaps. */

/* Portion r of `all` is what rank r has; the caller has filled in its own. */
haul__work *haul__group_gather_begin(haul_group *group, const haul__group_call *call, void *all, const int64_t *bytes);
/* Portion r of `out` goes to rank r; portion r of `in` comes from rank r. `most`, equal on all ranks, is at least the
 * sum of what any rank sends, and of what any rank receives. */
haul__work *haul__group_exchange_begin(haul_group *group, const haul__group_call *call, const void *out,
                                       const int64_t *out_bytes, void *in, const int64_t *in_bytes, int64_t most);
haul__work *haul__group_broadcast_begin(haul_group *group, const haul__group_call *call, void *data, int64_t bytes,
                                        int root);
/* The library's own sum of f32, up to HAUL__GROUP_MESSAGE bytes, to compare the one above with: haul bench group. */
haul__work *haul__group_library_sum_begin(haul_group *group, const haul__group_call *call, float *data, int64_t count);
/* Between two ranks; not collectives. A send takes a copy of the data, so it does not wait for the other
 * rank. */
haul_status haul__group_send(haul_group *group, const haul__group_call *call, const void *data, int64_t bytes, int to);
haul__work *haul__group_receive_begin(haul_group *group, const haul__group_call *call, void *data, int64_t bytes,
                                      int from);

/* The sum over the pieces of `tree`, whose `ranks` is the size of the group. sums[i] has the sum of the rank's node i
 * (haul__tree_nodes), `count` elements of f32, f64, i32 or i64 each. The result is in sums[0]; the values of
 * the other arrays are undefined afterwards. The array `sums` itself is copied. */
haul__work *haul__group_sum_begin(haul_group *group, const haul__group_call *call, const haul__tree *tree,
                                  haul_dtype dtype, void *const *sums, int64_t count);

/* The same for tensors, which are row-major and on one device. On a device other than the CPU they are copied to host
 * memory when this is called, and the result is copied to sums[0] by haul__work_wait. */
haul__work *haul__group_sum_tensors_begin(haul_group *group, const haul__group_call *call, const haul__tree *tree,
                                          haul_tensor *const *sums);

/* The same, but each rank gets a part of the sum only, and less is sent: rank r the elements from bounds[r] to
 * bounds[r + 1] of sums[0]. The values of the others are undefined afterwards. bounds: one more than the ranks, equal
 * on all ranks, from 0 to the number of elements, none less than the one before; it is copied. */
haul__work *haul__group_sum_parts_begin(haul_group *group, const haul__group_call *call, const haul__tree *tree,
                                        haul_tensor *const *sums, const int64_t *bounds);

/* ---- small collectives, which wait ---- */

/* Portion r of `all`, `bytes` each, is what rank r has; the caller has filled in its own. */
haul_status haul__group_gather_equal(haul_group *group, const haul__group_call *call, void *all, size_t bytes);
/* numbers[k * pieces + piece], for each piece of this rank: on return those of all pieces are there. */
haul_status haul__group_share_numbers(haul_group *group, const haul__group_call *call, const haul__tree *tree,
                                      double *numbers, int rows);
/* The same, and adds each row in the order of the tree: totals[k]. */
haul_status haul__group_sum_numbers(haul_group *group, const haul__group_call *call, const haul__tree *tree,
                                    double *numbers, int rows, double *totals);
/* *bits becomes the union of all ranks' bits. */
haul_status haul__group_or(haul_group *group, const haul__group_call *call, uint64_t *bits);
/* Fails with HAUL_INVALID_ARGUMENT on all ranks, and names both texts, unless all have the same text: options, sizes,
 * anything that must agree. Texts are compared up to 500 bytes. */
haul_status haul__group_agree(haul_group *group, const haul__group_call *call, const char *text);

/* Passes the calling thread's recorded error to the other ranks, whose next collective of the group fails with it. The
 * error stays recorded. For a rank that cannot take part in a collective because something failed before. If all ranks
 * pass an error, each keeps its own, and the group can go on. */
void haul__group_pass_error(haul_group *group, const char *operation);

#endif

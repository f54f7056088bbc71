/* A chain on a device that compiles kernel text: a few generated kernels in the place of its operations' own.
 *
 * Compiling takes longer than many runs of a small chain. So the operations run one by one until a kernel would have
 * saved haul__chain_patience bytes. If the compiler refuses the kernel, or memory is exhausted, they go on one by one.
 */
#ifndef HAUL_RECORD_FOLLOW_DEVICE_CHAIN_H
#define HAUL_RECORD_FOLLOW_DEVICE_CHAIN_H

#include "record/follow/chain_text.h"
#include "record/follow/variant.h"

/* The parts from `first` on, of the chain, that one kernel computes; one part has its own kernel. */
typedef struct haul__chain_group {
    int                 first, count;
    const haul__kernel *kernel; /* NULL: its own */
    haul__chain_kernel  call;   /* without text */
} haul__chain_group;

typedef struct haul__device_chain {
    int                count;
    haul__chain_call  *parts;
    haul__chain_group *groups; /* NULL: there are none yet */
    int                group_count;
    int64_t            waited;  /* bytes that kernels would have saved so far */
    bool               refused; /* there will be none */
} haul__device_chain;

/* Bytes that a chain would have saved when its kernels are compiled; a launch counts as HAUL__LAUNCH_BYTES. Tests
 * change it. */
enum { HAUL__LAUNCH_BYTES = 128 << 10 };
extern int64_t haul__chain_patience;

haul__device_chain *haul__device_chain_new(int count); /* NULL, without an error, if memory is exhausted */
void                haul__device_chain_free(haul__device_chain *chain); /* NULL is ignored */

/* Counts a run, and returns true if it is time to make the kernels. `first` is the first call of the chain. */
bool haul__device_chain_pays(haul__device_chain *chain, const haul__variant *v, size_t first);

/* Learns what the call at `at`, which has begun, launches. */
haul_status haul__device_chain_learn(haul__device_chain *chain, int at, haul__call *c);

/* Makes the kernels, after all calls are learnt. */
haul_status haul__device_chain_compile(haul__device_chain *chain, const haul__variant *v, size_t first);

/* Submits the kernel of a group. */
haul_status haul__device_chain_launch(const haul__device_chain *chain, const haul__chain_group *group,
                                      const char *operation);

#endif

/* Convolutions by cuDNN's graph interface. A problem becomes a graph of operations, for which the library proposes
 * engines. Those that keep Haul's promises (bit-identical results every time, f32 sums) become plans, which are kept
 * and run. */
#ifndef HAUL_BACKENDS_CUDA_CUDNN_CUDNN_H
#define HAUL_BACKENDS_CUDA_CUDNN_CUDNN_H

#include "backends/cuda/cuda.h"
#include "backends/cuda/cudnn/api.h"

extern haul__cudnn_functions haul__cudnn; /* filled by haul__cuda_load_cudnn */

/* cudnn.c: opened once per process; returns false, with the reason in `why`, if there is no cuDNN 9. */
bool   haul__cuda_load_cudnn(char *why, size_t why_size);
size_t haul__cudnn_version(void); /* 91900 for 9.19.0 */

/* What HAUL_CUDNN, a list of words, asks for: "autotune", "nondeterministic". It is read once per process. */
bool haul__cudnn_autotunes(void);
bool haul__cudnn_any_order(void); /* for sums: the bits need not repeat */

/* A convolution without its buffers: plans are made for it and found by it (all words are compared). */
typedef struct haul__cudnn_problem {
    int64_t pass, dtype, n, c_in, h, w, c_out, kh, kw, out_h, out_w;
    int64_t stride[2], padding[2], dilation[2], groups;
    int64_t channels_last, bias, relu;
    int64_t tf32;      /* tensor cores may round f32 factors */
    int64_t any_order; /* engines may add in an order that changes from run to run */
} haul__cudnn_problem;

/* All buffers begin at multiples of this many bytes, which a GPU loads at once. */
enum { HAUL__CUDNN_ALIGNMENT = 16 };

/* The numbers by which a plan refers to its buffers. */
enum { HAUL__CUDNN_X = 1, HAUL__CUDNN_WEIGHT, HAUL__CUDNN_Y, HAUL__CUDNN_BIAS };

/* What plans are made for: the GPU of a handle or, without a handle, a GPU that is only described (cuDNN 9.8 and later;
 * tests ask the real library in this way on machines without a GPU). */
typedef struct haul__cudnn_target {
    cudnnHandle_t            handle;
    cudnnBackendDescriptor_t properties;
} haul__cudnn_target;

/* graph.c: makes descriptors. If the library refuses, functions return false or NULL and record no error: another
 * implementation is used. */
cudnnBackendDescriptor_t haul__cudnn_make(cudnnBackendDescriptorType_t type);
bool haul__cudnn_set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     int64_t count, const void *values);
bool haul__cudnn_set_descriptor(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                cudnnBackendDescriptor_t value);
/* Returns *d if everything succeeded so far and it can be finalized; else destroys it and returns NULL. */
cudnnBackendDescriptor_t haul__cudnn_finish(cudnnBackendDescriptor_t d, bool good);
void                     haul__cudnn_drop(cudnnBackendDescriptor_t d); /* NULL is ignored */
/* The graph of a problem: a convolution, then its bias, then relu. */
cudnnBackendDescriptor_t haul__cudnn_graph(const haul__cudnn_target *target, const haul__cudnn_problem *problem);

/* plan.c: an engine with its settings, ready to run. */
#define HAUL__CUDNN_MAX_KNOBS 64
typedef struct haul__cudnn_choice {
    int64_t engine; /* the library's number for it, valid for this version */
    int64_t knob_count;
    int64_t knobs[HAUL__CUDNN_MAX_KNOBS][2]; /* type, value */
} haul__cudnn_choice;

typedef struct haul__cudnn_plan {
    cudnnBackendDescriptor_t config, plan;
    int64_t                  workspace; /* bytes that it needs while it runs */
} haul__cudnn_plan;

/* Writes up to `most` plans that need at most `workspace` bytes, the highest-ranked first; returns how many there
 * are. */
int  haul__cudnn_propose(const haul__cudnn_target *target, const haul__cudnn_problem *problem, int64_t workspace,
                         haul__cudnn_plan *out, int most);
void haul__cudnn_plan_drop(haul__cudnn_plan *plan);
/* The choice that a plan stands for, and the plan for a choice; false if the library fails or refuses. */
bool haul__cudnn_describe(const haul__cudnn_plan *plan, haul__cudnn_choice *out);
bool haul__cudnn_rebuild(const haul__cudnn_target *target, const haul__cudnn_problem *problem,
                         const haul__cudnn_choice *choice, int64_t workspace, haul__cudnn_plan *out);
/* Enqueues it: buffers by number, 0 for those it does not have. */
cudnnStatus_t haul__cudnn_run(const haul__cudnn_target *target, const haul__cudnn_plan *plan,
                              const CUdeviceptr buffers[HAUL__CUDNN_BIAS + 1], CUdeviceptr workspace);

/* conv2d.c: "cuDNN 9.19.0", or the missing library. */
void haul__cudnn_version_text(haul_device *device, char *out, size_t size);

#endif

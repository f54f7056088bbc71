/* Step programs: a training step, or any other part of a program, as a value.
 *
 * haul_program_record calls a function in a dry run (haul/estimate.h) and lists what it does: the calls of operations
 * in their order, the tensors that they read and write, and the memory behind these tensors. Nothing is computed or
 * allocated. From the lifetimes of that memory it plans one arena for each device: an offset for each store, so that
 * two stores overlap only if no command needs both.
 *
 *     static haul_status step(void *context)
 *     {
 *         haul_module *net = context;
 *         haul_tensor *x = haul_empty(HAUL_F32, HAUL_SHAPE(64, 3, 32, 32));
 *         haul_tensor *y = haul_empty(HAUL_I64, HAUL_SHAPE(64));
 *         return haul_backward(haul_cross_entropy(haul_call(net, x), y));
 *     }
 *
 *     haul_program p;
 *     if (!haul_program_record(step, haul_model_new("simplecnn"), &p))
 *         for (int64_t i = 0; i < p.operation_count; i++)
 *             printf("%s %s\n", p.operations[i].name, p.operations[i].module);
 *     haul_program_free(&p); */
#ifndef HAUL_PROGRAM_H
#define HAUL_PROGRAM_H

#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/estimate.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* Where the memory of a store comes from. */
typedef enum haul_store_kind {
    HAUL_STORE_OUTSIDE, /* it existed before the function was called: parameters, optimizer state, data */
    HAUL_STORE_INSIDE,  /* the function allocated it for a tensor */
    HAUL_STORE_SCRATCH  /* one operation allocated it and freed it before it returned */
} haul_store_kind;

/* Memory on one device. Views share a store. */
typedef struct haul_program_store {
    haul_store_kind kind;        /* where it comes from */
    haul_device    *device;      /* its device; the CPU for pinned host memory */
    bool            pinned;      /* pinned host memory; it is in no arena */
    bool            outlives;    /* inside, and still in use after the function has returned: a gradient of a leaf */
    int64_t         bytes;       /* bytes of its elements */
    int64_t         block_bytes; /* bytes of the allocator's block without an arena; 0 for a store from outside */
    const char     *origin;      /* the operation that allocated it; "" for a store from outside */
    char            module[80];  /* path of the module that was called then, or whose gradient was computed */
    const char     *role;        /* what it is used for, as in haul_memory_by_role; lives as long as the process */
    int64_t         first, last; /* the first and the last operation that has it as an operand, a result or scratch
                                  * memory; -1: none does */
    int64_t offset;              /* bytes from the start of its device's arena; -1: it is in no arena */
    bool    within;              /* it has no memory, because only the operations of one fused command use it */
} haul_program_store;

/* A tensor as an operation found or made it. */
typedef struct haul_program_value {
    int64_t    store;                  /* index of its store; -1: the operand is HAUL_NONE, or the result is left out */
    bool       written;                /* the operation changes it: a result, or an operand that is written in place */
    haul_dtype dtype;                  /* dtype of its elements */
    haul_shape shape;                  /* its shape */
    int64_t    strides[HAUL_MAX_DIMS]; /* elements between neighbours along each dimension */
    int64_t    offset;                 /* elements before its first one in the store */
} haul_program_value;

/* One call of an operation. Views are listed, too. An operation that is composed of others, for example
 * haul_bce_with_logits, appears as these. Conversions of its operands come before an operation. */
typedef struct haul_program_operation {
    const char *name; /* "haul_conv2d"; lives as long as the process */
    char module[80];  /* path of the module that is called, or whose gradient is computed: "layer1.0.conv1"; or "" */
    const char  *section;   /* "backward pass", "optimizer step", or "" */
    const char  *composite; /* the composite operation that it is a part of, the outermost one; or "" */
    haul_device *device;    /* where it computes */
    double       flops;     /* floating point operations, as in haul_estimate_operation */
    int64_t      bytes;     /* bytes read and written */
    int64_t      value;     /* index of its first operand in `values`; its results follow its operands */
    int          operand_count, result_count; /* numbers of operands and of results */
    int          view_of;                     /* the operand whose store its result shares; -1: it makes a store */
    int          command_count;               /* commands that it submits */
    int64_t      fused;                       /* the first operation of the fused command that computes it in a followed
                                               * step; -1: it is not fused */
    const char *unfused;                      /* why a pointwise operation is not fused; else "" */
    int64_t     assembled;   /* the first operation of the machine code that computes it in the fused command; -1: its
                              * kernel does */
    const char *unassembled; /* why no machine code computes a fused operation on the CPU; else "" */
} haul_program_operation;

/* Memory of one device, without stores from outside and without pinned host memory. */
typedef struct haul_program_memory {
    haul_device *device;           /* the device */
    int64_t      arena_bytes;      /* size of an arena that holds all stores at their offsets */
    int64_t      least_bytes;      /* the most bytes that are needed at one time; no arena is smaller */
    int64_t      eager_peak_bytes; /* highest use of the allocator's blocks when the function runs without an arena */
} haul_program_memory;

/* The result of haul_program_record. The caller must free it with haul_program_free. */
typedef struct haul_program {
    int64_t                 operation_count; /* the number of `operations` */
    haul_program_operation *operations;      /* the operations, in the order of the calls */
    int64_t                 value_count;     /* the number of `values` */
    haul_program_value     *values;          /* operands and results, in the order of the operations */
    int64_t                 store_count;     /* the number of `stores` */
    haul_program_store     *stores;          /* the stores, in the order of their first use or allocation */
    int                     memory_count;    /* the number of `memory` */
    haul_program_memory    *memory;          /* the devices on which stores were allocated */
} haul_program;

/* Call function(context) in a dry run and list what it does. Returns what the function returns; if that is not HAUL_OK,
 * *out is empty.
 *
 * - The rules of haul_estimate hold: no values exist, and tensors, gradients, optimizers and random numbers are as
 *   before afterwards.
 * - In a function that haul_estimate calls, it lists a part of that dry run. What the dry run made before is then from
 *   outside. So a program can build a network and make a first step without memory, and record the second one.
 * - Two stores share bytes of the arena only if the last operation of one comes before the first operation of the
 *   other; or if they share all bytes, and the last operation of one is elementwise and has the other as its result.
 *   Here the operations of a fused command count as one.
 * - The memory is that of a followed step (haul/recording.h), in which pointwise operations, and reductions at their
 *   end, are fused on the CPU. docs/guide.md says how the environment turns that off. */
HAUL_API haul_status haul_program_record(haul_estimate_function *function, void *context, haul_program *out);

/* Free what the program holds; it is empty afterwards. NULL and empty programs are ignored. */
HAUL_API void haul_program_free(haul_program *program);

HAUL_END

#endif

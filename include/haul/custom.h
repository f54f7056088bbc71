/* Operations of your own, from outside the library.
 *
 * An operation is a descriptor: a static struct that names operands and results, and has functions which say what the
 * results are, compute them and differentiate them. From the first call on it is an operation like any other: the list
 * of operation.h has it, events, estimates and errors name it, operands are brought to one device and dtype for it, and
 * gradients flow through it.
 *
 *     typedef struct power_attributes {
 *         double exponent;
 *     } power_attributes;
 *
 *     static haul_status compose(const haul_custom_call *c, haul_tensor *const *x, haul_tensor **y)
 *     {
 *         const power_attributes *a = c->attributes;
 *         y[0] = haul_pow_scalar(haul_abs(x[0]), a->exponent);
 *         return HAUL_OK;
 *     }
 *
 *     static haul_custom_operation power = {
 *         .name = "my_power",
 *         .operands = {{"x"}},
 *         .results = {{"y"}},
 *         .attributes_size = sizeof(power_attributes),
 *         .compose = compose,
 *     };
 *
 *     haul_tensor *my_power(haul_tensor *x, double exponent)
 *     {
 *         return haul_apply(&power, (&(power_attributes){exponent}), x);
 *     }
 *
 * It is computed in one of three ways:
 *   - `compose` calls other operations. It works on every device, and is differentiated through these.
 *   - `host` is a C function over host memory, for the CPU.
 *   - `kernel` is a text that is compiled for every device (kernel.h). On the CPU it runs in pieces on all threads.
 * With `host` as well, that function computes on the CPU.
 *
 * All functions run within a call of the operation: they may be called by several threads at once, keep no pointer that
 * they are given, and report an error with haul_error_set. In an error's text the name of the operation comes first. */
#ifndef HAUL_CUSTOM_H
#define HAUL_CUSTOM_H

#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* Most operands, results and bytes of attributes of one operation; most buffers, sizes and numbers of a kernel. */
enum {
    HAUL_CUSTOM_OPERANDS = 6,
    HAUL_CUSTOM_RESULTS = 3,
    HAUL_CUSTOM_ATTRIBUTES = 256,
    HAUL_KERNEL_BUFFERS = 6,
    HAUL_KERNEL_SIZES = 8,
    HAUL_KERNEL_NUMBERS = 8
};

/* Sets of dtypes: HAUL_DTYPE_BIT(HAUL_F32) | HAUL_DTYPE_BIT(HAUL_F64). */
#define HAUL_DTYPE_BIT(dtype) (1u << (dtype))
#define HAUL_FLOATING_DTYPES                                                                                           \
    (HAUL_DTYPE_BIT(HAUL_F16) | HAUL_DTYPE_BIT(HAUL_BF16) | HAUL_DTYPE_BIT(HAUL_F32) | HAUL_DTYPE_BIT(HAUL_F64))
#define HAUL_INTEGER_DTYPES                                                                                            \
    (HAUL_DTYPE_BIT(HAUL_U8) | HAUL_DTYPE_BIT(HAUL_I8) | HAUL_DTYPE_BIT(HAUL_I16) | HAUL_DTYPE_BIT(HAUL_I32) |         \
     HAUL_DTYPE_BIT(HAUL_I64))

/* ---- calls ---- */

/* An operand or a result as the functions see it. */
typedef struct haul_custom_array {
    haul_dtype dtype; /* HAUL_DTYPE_NONE: an operand that is HAUL_NONE */
    haul_shape shape;
    int64_t    count; /* elements; of a result it is set after `infer` */
    void      *data;  /* in `host` the elements, row-major without gaps; NULL in other functions and for absent ones */
} haul_custom_array;

typedef struct haul_custom_call {
    const char       *name;       /* the operation's */
    void             *attributes; /* this call's copy: `infer` may complete it; NULL if the operation has none */
    int               operand_count, result_count;
    haul_custom_array operands[HAUL_CUSTOM_OPERANDS];
    haul_custom_array results[HAUL_CUSTOM_RESULTS];
} haul_custom_call;

/* What a launch of the kernel passes to it. */
typedef struct haul_kernel_launch {
    int64_t items;                        /* work items; set to the elements of result 0 before */
    int64_t sizes[HAUL_KERNEL_SIZES];     /* SIZE(k) in the kernel; 0 before */
    double  numbers[HAUL_KERNEL_NUMBERS]; /* NUMBER(k) in the kernel, as an A; as .numbers says before, else 0 */
} haul_kernel_launch;

typedef struct haul_custom_cost {
    double  flops;
    int64_t bytes; /* read and written */
} haul_custom_cost;

/* The gradient of one call, for the function `gradient`. Entries of absent operands, of those that are not saved, and
 * of results for which no gradient arrived are HAUL_NONE. */
typedef struct haul_custom_gradient {
    const char  *name;
    const void  *attributes; /* as `infer` left them */
    int          operand_count, result_count;
    haul_tensor *results[HAUL_CUSTOM_RESULTS];       /* the gradients of the results */
    haul_tensor *saved[HAUL_CUSTOM_OPERANDS];        /* operands that have .saved */
    haul_tensor *saved_results[HAUL_CUSTOM_RESULTS]; /* results that have .saved */
    haul_shape   shapes[HAUL_CUSTOM_OPERANDS];       /* of the operands */
    bool         wanted[HAUL_CUSTOM_OPERANDS];       /* does a gradient flow to this operand? */
    bool         differentiated; /* will the gradient be differentiated? If not, it may use operations without one */
    haul_tensor *operands[HAUL_CUSTOM_OPERANDS]; /* to be set where it is wanted; HAUL_NONE, as they begin, is zero */
} haul_custom_gradient;

/* ---- kernels ---- */

/* Does work items [first, last) of a launch on the CPU. */
typedef void haul_kernel_function(void *const *buffers, const void *params, int64_t first, int64_t last);

typedef struct haul_kernel_buffer {
    const char *type, *name; /* "const T", "x" */
} haul_kernel_buffer;

/* A kernel: its text, and what the program's compiler made of it. HAUL_KERNEL2 to HAUL_KERNEL6 of kernel.h make it. */
typedef struct haul_kernel {
    const char           *name, *file;
    int                   line;
    int                   buffer_count;
    haul_kernel_buffer    buffers[HAUL_KERNEL_BUFFERS];
    const char           *text;
    haul_kernel_function *f16, *bf16, *f32, *f64;
} haul_kernel;

/* ---- descriptors ---- */

typedef struct haul_custom_operand {
    const char *name; /* positional */
    HAUL__GUARD
    bool     optional; /* may be HAUL_NONE, and may be left out of a call behind the last one that is given */
    bool     saved;    /* kept for the gradient */
    uint32_t dtypes;   /* a set of its own: it is not cast and does not take part in `rule`; 0: none */
} haul_custom_operand;

typedef struct haul_custom_result {
    const char *name; /* positional */
    HAUL__GUARD
    bool saved; /* kept for the gradient */
} haul_custom_result;

/* What happens to the dtypes of the operands that have no set of their own. */
typedef enum haul_custom_rule {
    HAUL_CUSTOM_FLOATED,  /* cast to the dtype that they promote to, where integers and bool count as f32 */
    HAUL_CUSTOM_PROMOTED, /* cast to the dtype that they promote to */
    HAUL_CUSTOM_AS_GIVEN  /* nothing */
} haul_custom_rule;

/* What autocast does with them. */
typedef enum haul_custom_autocast {
    HAUL_CUSTOM_KEEP,  /* nothing */
    HAUL_CUSTOM_LOWER, /* floats, f64 excepted, are cast to its dtype */
    HAUL_CUSTOM_WIDE   /* f16 and bf16 are cast to f32 */
} haul_custom_autocast;

/* Everything that is not given is 0. Names are copied when the operation is registered; functions, and a kernel's too,
 * must stay as long as the operation is used and a graph has it: do not unload what holds them. */
typedef struct HAUL__DESIGNATED haul_custom_operation {
    const char         *name;                           /* "my_swish": letters, digits, _ . and :, not "haul_..." */
    haul_custom_operand operands[HAUL_CUSTOM_OPERANDS]; /* at least one; the first without a name ends them */
    haul_custom_result  results[HAUL_CUSTOM_RESULTS];   /* the same */
    /* Bytes of a struct, which calls and the graph copy: it has no pointers to what may be gone when the gradient runs.
     * 0: as many as `numbers` are. */
    size_t               attributes_size;
    uint32_t             dtypes; /* accepted after `rule`; 0: all, of an operation with a kernel the floating ones */
    haul_custom_rule     rule;
    haul_custom_autocast autocast;
    /* Check operands and attributes, and set dtype and shape of each result. It gets no elements, so it works on meta
     * and in estimates. NULL: results are like the first operand. With `compose` it is not needed; if it is there,
     * the results that were composed must be as it says. */
    haul_status (*infer)(haul_custom_call *call);
    /* Set each result to a tensor that operations made of the operands. */
    haul_status (*compose)(const haul_custom_call *call, haul_tensor *const *operands, haul_tensor **results);
    /* Read operands[i].data and write every element of results[i].data. */
    haul_status (*host)(const haul_custom_call *call);
    const haul_kernel *kernel;  /* its buffers are the results and then the operands, with types that fit */
    int                numbers; /* the attributes begin with so many doubles, which are NUMBER(0) and those behind it */
    /* What the kernel is launched with. NULL: as many items as result 0 has elements, and no sizes. */
    haul_status (*launch)(const haul_custom_call *call, haul_kernel_launch *launch);
    /* Set gradient->operands[i], for those wanted at least, to a tensor of the operand's shape or one that is summed to
     * it as broadcasting asks. Written in operations, so that it can be differentiated again. NULL: an operand that
     * requires a gradient is refused, unless no result is floating or `compose` is differentiated. */
    void (*gradient)(haul_custom_gradient *gradient);
    /* For estimates. NULL: `flops` for each element of the largest operand or result, and all their bytes once. */
    haul_custom_cost (*cost)(const haul_custom_call *call);
    double flops;
    void  *haul__registered; /* private */
} haul_custom_operation;

/* Put the operation on the list of operation.h, under a name that no other has. The first call of an operation does it
 * by itself. Nothing happens for one that is registered. Any thread may register at any time. An operation is never
 * taken off the list again; what is changed in the struct afterwards has no effect. Refuses, with the reason, a
 * descriptor that cannot work. */
HAUL_API haul_status haul_custom_register(haul_custom_operation *operation);

/* haul_apply(&power, &attributes, x, y): apply an operation to operands and return its first result, or a failed
 * tensor. `attributes`, of attributes_size bytes, are copied; NULL for an operation that has none. A literal with
 * commas needs parentheses, (&(power_attributes){2, 3}). Optional operands at the end may be left out.
 * haul_apply_into(out, &power, &attributes, x, y) writes the only result into `out`, which has its shape, dtype and
 * device. */
#define haul_apply(operation, attributes, ...)                                                                         \
    haul_apply_list(operation, attributes, HAUL__TENSORS(__VA_ARGS__), HAUL__COUNT(haul_tensor *, __VA_ARGS__))
#define haul_apply_into(out, operation, attributes, ...)                                                               \
    haul_apply_list_into(out, operation, attributes, HAUL__TENSORS(__VA_ARGS__),                                       \
                         HAUL__COUNT(haul_tensor *, __VA_ARGS__))
HAUL_API haul_tensor *haul_apply_list(haul_custom_operation *operation, const void *attributes,
                                      haul_tensor *const *operands, int count);
HAUL_API haul_status  haul_apply_list_into(haul_tensor *out, haul_custom_operation *operation, const void *attributes,
                                           haul_tensor *const *operands, int count);

/* The same for an operation with several results: all of them, to `results`. On failure each is a failed tensor. */
HAUL_API haul_status haul_apply_all(haul_custom_operation *operation, const void *attributes,
                                    haul_tensor *const *operands, int count, haul_tensor **results);

/* Private: operands as an array that lives until the end of the expression (C++) or block (C). */
#ifdef __cplusplus
extern "C++" {
template <int count> struct haul__tensors {
    haul_tensor *of[count];
};
}
#define HAUL__TENSORS(...) (haul__tensors<HAUL__COUNT(haul_tensor *, __VA_ARGS__)>{{__VA_ARGS__}}.of)
#else
#define HAUL__TENSORS(...) ((haul_tensor *const[]){__VA_ARGS__})
#endif

HAUL_END

#endif

/* Custom operations: operations written outside the library.
 *
 * An operation is a descriptor: a static struct that names operands and results, and has functions that describe the
 * results, compute them and differentiate them. From its first call on it is an operation like any other: it is in the
 * list of operation.h; events, estimates and errors name it; operands are brought to one device and dtype for it; and
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
 * There are three ways to compute it:
 *
 * - `compose` calls other operations. It works on every device, and is differentiated through these.
 * - `host` is a C function over host memory, for the CPU.
 * - `kernel` is a text that is compiled for every device (kernel.h). On the CPU all threads run it in pieces. If `host`
 *   is given as well, that function computes on the CPU.
 *
 * All functions run within a call of the operation. Several threads may call them at the same time. They must keep no
 * pointer that they are given, and report an error with haul_error_set; the text of the error begins with the name of
 * the operation. */
#ifndef HAUL_CUSTOM_H
#define HAUL_CUSTOM_H

#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* Sizes of the arrays below.
 *
 * - HAUL_CUSTOM_OPERANDS: the maximum number of operands of an operation
 * - HAUL_CUSTOM_RESULTS: the maximum number of results
 * - HAUL_CUSTOM_ATTRIBUTES: the maximum size of the attributes in bytes
 * - HAUL_KERNEL_BUFFERS: the maximum number of buffers of a kernel
 * - HAUL_KERNEL_SIZES: the maximum number of sizes of a kernel
 * - HAUL_KERNEL_NUMBERS: the maximum number of numbers of a kernel */
enum {
    HAUL_CUSTOM_OPERANDS = 6,
    HAUL_CUSTOM_RESULTS = 3,
    HAUL_CUSTOM_ATTRIBUTES = 256,
    HAUL_KERNEL_BUFFERS = 6,
    HAUL_KERNEL_SIZES = 8,
    HAUL_KERNEL_NUMBERS = 8
};

/* Sets of dtypes: HAUL_DTYPE_BIT(HAUL_F32) | HAUL_DTYPE_BIT(HAUL_F64), all floating dtypes, all integer dtypes. */
#define HAUL_DTYPE_BIT(dtype) (1u << (dtype))
#define HAUL_FLOATING_DTYPES                                                                                           \
    (HAUL_DTYPE_BIT(HAUL_F16) | HAUL_DTYPE_BIT(HAUL_BF16) | HAUL_DTYPE_BIT(HAUL_F32) | HAUL_DTYPE_BIT(HAUL_F64))
#define HAUL_INTEGER_DTYPES                                                                                            \
    (HAUL_DTYPE_BIT(HAUL_U8) | HAUL_DTYPE_BIT(HAUL_I8) | HAUL_DTYPE_BIT(HAUL_I16) | HAUL_DTYPE_BIT(HAUL_I32) |         \
     HAUL_DTYPE_BIT(HAUL_I64))

/* ---- Calls: what the functions of an operation get ---- */

/* An operand or a result, as the functions of the operation see it. */
typedef struct haul_custom_array {
    haul_dtype dtype; /* the dtype; HAUL_DTYPE_NONE for an operand that is HAUL_NONE */
    haul_shape shape; /* the shape */
    int64_t    count; /* the number of elements; of a result it is set after `infer` */
    /* in `host` the elements, row-major without gaps; NULL in other functions and for absent operands */
    void *data;
} haul_custom_array;

/* A call of the operation. */
typedef struct haul_custom_call {
    const char *name; /* the name of the operation */
    /* this call's copy of the attributes, which `infer` may complete; NULL if the operation has none */
    void *attributes;
    /* operand_count: the number of operands; result_count: the number of results */
    int               operand_count, result_count;
    haul_custom_array operands[HAUL_CUSTOM_OPERANDS]; /* the operands */
    haul_custom_array results[HAUL_CUSTOM_RESULTS];   /* the results */
} haul_custom_call;

/* What a launch of the kernel passes to it, for the function `launch`. */
typedef struct haul_kernel_launch {
    int64_t items;                    /* the number of work items; at first the number of elements of result 0 */
    int64_t sizes[HAUL_KERNEL_SIZES]; /* SIZE(k) in the kernel; at first 0 */
    /* NUMBER(k) in the kernel, converted to A; at first as .numbers says, else 0 */
    double numbers[HAUL_KERNEL_NUMBERS];
} haul_kernel_launch;

/* What a call costs, for estimates. */
typedef struct haul_custom_cost {
    double  flops; /* floating point operations */
    int64_t bytes; /* bytes read and written */
} haul_custom_cost;

/* The gradient of one call, for the function `gradient`. Entries of absent operands, of operands and results that are
 * not saved, and of results for which no gradient arrived are HAUL_NONE. */
typedef struct haul_custom_gradient {
    const char *name;       /* the name of the operation */
    const void *attributes; /* the attributes, as `infer` left them */
    /* operand_count: the number of operands; result_count: the number of results */
    int          operand_count, result_count;
    haul_tensor *results[HAUL_CUSTOM_RESULTS];       /* the gradients of the results */
    haul_tensor *saved[HAUL_CUSTOM_OPERANDS];        /* operands that have .saved */
    haul_tensor *saved_results[HAUL_CUSTOM_RESULTS]; /* results that have .saved */
    haul_shape   shapes[HAUL_CUSTOM_OPERANDS];       /* the shapes of the operands */
    bool         wanted[HAUL_CUSTOM_OPERANDS];       /* a gradient of this operand is needed */
    bool differentiated; /* the gradient will be differentiated. If not, it may use operations without a gradient */
    /* the gradients of the operands: to be set where `wanted`; HAUL_NONE, as at first, means zero */
    haul_tensor *operands[HAUL_CUSTOM_OPERANDS];
} haul_custom_gradient;

/* ---- Kernels ---- */

/* A compiled kernel for one dtype on the CPU: does work items [first, last) of a launch. */
typedef void haul_kernel_function(void *const *buffers, const void *params, int64_t first, int64_t last);

/* A buffer of a kernel. */
typedef struct haul_kernel_buffer {
    const char *type, *name; /* type: its type, "const T"; name: its name, "x" */
} haul_kernel_buffer;

/* A kernel: its text, and what the program's compiler made of it. The macros HAUL_KERNEL2 to HAUL_KERNEL6 of kernel.h
 * define it. */
typedef struct haul_kernel {
    const char        *name, *file;  /* name: its name, at most 56 letters; file: the file that defines it */
    int                line;         /* the line of `file` */
    int                buffer_count; /* the number of `buffers` */
    haul_kernel_buffer buffers[HAUL_KERNEL_BUFFERS]; /* its buffers: results, then operands */
    const char        *text;                         /* its text, for the compilers of other devices */
    /* f16: compiled for f16; bf16: compiled for bf16; f32: compiled for f32; f64: compiled for f64 */
    haul_kernel_function *f16, *bf16, *f32, *f64;
} haul_kernel;

/* ---- Descriptors ---- */

/* An operand of a custom operation: {"x"}, {"bias", .optional = true}. */
typedef struct haul_custom_operand {
    const char *name; /* its name; positional */
    HAUL__GUARD(optional)
    bool optional; /* may be HAUL_NONE, and may be omitted from the end of a call */
    bool saved;    /* kept for the gradient */
    /* a set of dtypes of its own: the operand is not cast and does not take part in `rule`; 0 for none */
    uint32_t dtypes;
} haul_custom_operand;

/* A result of a custom operation: {"y"}, {"y", .saved = true}. In a result of HAUL_BOOL, any byte but 0 that `host` or
 * the kernel writes is true. */
typedef struct haul_custom_result {
    const char *name; /* its name; positional */
    HAUL__GUARD(saved)
    bool saved; /* kept for the gradient */
} haul_custom_result;

/* How the operands that have no dtypes of their own are converted. */
typedef enum haul_custom_rule {
    HAUL_CUSTOM_FLOATED,  /* they are cast to the dtype to which they promote, where integers and bool count as f32 */
    HAUL_CUSTOM_PROMOTED, /* they are cast to the dtype to which they promote */
    HAUL_CUSTOM_AS_GIVEN  /* they stay as they are */
} haul_custom_rule;

/* What autocast does with these operands. */
typedef enum haul_custom_autocast {
    HAUL_CUSTOM_KEEP,  /* they stay as they are */
    HAUL_CUSTOM_LOWER, /* floats other than f64 are cast to the dtype of autocast */
    HAUL_CUSTOM_WIDE   /* f16 and bf16 are cast to f32 */
} haul_custom_autocast;

/* The descriptor of an operation. Members that are omitted are 0. Names are copied when the operation is registered.
 * Functions, and those of a kernel, must stay as long as the operation is used and a graph has it: do not unload the
 * library that holds them. The rules of scope.h for functions of the program hold for them. */
typedef struct HAUL__DESIGNATED haul_custom_operation {
    const char         *name; /* its name, "my_swish": letters, digits, _ . and :, not "haul_..." */
    haul_custom_operand operands[HAUL_CUSTOM_OPERANDS]; /* at least one; the first without a name ends them */
    haul_custom_result  results[HAUL_CUSTOM_RESULTS];   /* at least one; the first without a name ends them */
    /* size of the struct of attributes, which calls and the graph copy: it must hold no pointers to anything that may
     * be gone when the gradient runs; default the size of `numbers` doubles */
    size_t attributes_size;
    /* the dtypes accepted after `rule`; default all, and for an operation with a kernel the floating ones */
    uint32_t             dtypes;
    haul_custom_rule     rule;     /* how operands are converted */
    haul_custom_autocast autocast; /* what autocast does */
    /* checks operands and attributes, and sets dtype and shape of each result. It gets no elements, so it works on
     * "meta" and in estimates. NULL: results are like the first operand. With `compose` it is not needed; if it is
     * given, the composed results must be as it says */
    haul_status (*infer)(haul_custom_call *call);
    /* sets each result to a tensor that operations made of the operands */
    haul_status (*compose)(const haul_custom_call *call, haul_tensor *const *operands, haul_tensor **results);
    /* reads operands[i].data and writes every element of results[i].data */
    haul_status (*host)(const haul_custom_call *call);
    const haul_kernel *kernel; /* the kernel; its buffers are the results and then the operands, with types that fit */
    /* the attributes begin with this many doubles, which are NUMBER(0), NUMBER(1) and so on */
    int numbers;
    /* sets what the kernel is launched with. NULL: as many items as result 0 has elements, and no sizes */
    haul_status (*launch)(const haul_custom_call *call, haul_kernel_launch *launch);
    /* sets gradient->operands[i], at least for those that are wanted, to a tensor of the operand's shape, or to one
     * that is summed to it as broadcasting requires. It calls operations, so that it can be differentiated again. NULL:
     * an operand that requires a gradient is refused, unless no result is floating or `compose` is differentiated */
    void (*gradient)(haul_custom_gradient *gradient);
    /* the cost of a call, for estimates. NULL: `flops` for each element of the largest operand or result, and all their
     * bytes once */
    haul_custom_cost (*cost)(const haul_custom_call *call);
    double flops;            /* floating point operations for each element, if `cost` is NULL */
    void  *haul__registered; /* private */
} haul_custom_operation;

/* Put an operation on the list of operation.h, under a name that no other operation has. The first call of an operation
 * does this by itself; for one that is registered nothing happens. Any thread may register at any time. An operation is
 * never removed from the list, and later changes of the struct have no effect. Fails, with the reason, for a descriptor
 * that cannot work. */
HAUL_API haul_status haul_custom_register(haul_custom_operation *operation);

/* Apply an operation to operands: haul_apply(&power, &attributes, x, y). Returns its first result, or a failed tensor.
 * haul_apply_into writes the only result into `out`, which must have its shape, dtype and device.
 *
 * - operation: the descriptor
 * - attributes: attributes_size bytes, which are copied; NULL if the operation has none. A literal with commas needs
 *   parentheses: (&(power_attributes){2, 3})
 *
 * Optional operands at the end may be omitted. */
#define haul_apply(operation, attributes, ...)                                                                         \
    haul_apply_list(operation, attributes, HAUL__TENSORS(__VA_ARGS__), HAUL__COUNT(haul_tensor *, __VA_ARGS__))
#define haul_apply_into(out, operation, attributes, ...)                                                               \
    haul_apply_list_into(out, operation, attributes, HAUL__TENSORS(__VA_ARGS__),                                       \
                         HAUL__COUNT(haul_tensor *, __VA_ARGS__))
HAUL_API haul_tensor *haul_apply_list(haul_custom_operation *operation, const void *attributes,
                                      haul_tensor *const *operands, int count);
HAUL_API haul_status  haul_apply_list_into(haul_tensor *out, haul_custom_operation *operation, const void *attributes,
                                           haul_tensor *const *operands, int count);

/* Apply an operation with several results: all of them go to `results`. On failure each is a failed tensor.
 *
 * - operation, attributes: as for haul_apply
 * - operands, count: the operands and their number */
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

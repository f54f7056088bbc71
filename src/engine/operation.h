/* An operation as a value: what it takes and gives, how it is computed and differentiated, and what it costs.
 *
 * A descriptor is a static haul__operation, defined with HAUL__OPERATION. The driver (apply.c) applies it: it checks
 * the operands, brings them to one device, dtype and layout, lets `infer` describe the results, allocates them, lets
 * `compute` submit commands, and records the graph. `infer` never reads data, so it works on meta and without memory.
 *
 *     HAUL__OPERATION(softmax) = {
 *         .name = "haul_softmax",
 *         .operands = {{"x"}},
 *         .results = {{"y", .saved_for = HAUL__FOR_ALL}},
 *         .dtypes = HAUL__ALL, .rule = HAUL__FLOATED, .autocast = HAUL__WIDE,
 *         .attributes_size = HAUL__ATTRIBUTES(softmax_attributes),
 *         .infer = infer, .compute = compute, .gradient = gradient,
 *     };
 *
 *     haul_tensor *haul_softmax(haul_tensor *x, int axis)
 *     {
 *         return HAUL__APPLY(softmax, &(softmax_attributes){.axis = axis}, x);
 *     }
 */
#ifndef HAUL_ENGINE_OPERATION_H
#define HAUL_ENGINE_OPERATION_H

#include <haul/haul.h>

#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "core/thread.h"
#include "device/device.h"

enum { HAUL__MAX_OPERANDS = 6, HAUL__MAX_RESULTS = 3, HAUL__MAX_ATTRIBUTES = 256 };

/* The number of operands that fit a call without another allocation. */
enum { HAUL__OWN_OPERANDS = 48 };

_Static_assert((int)HAUL__MAX_OPERANDS + (int)HAUL__MAX_RESULTS <= (int)HAUL__MAX_BUFFERS + 1, "a launch takes them");

/* The size of an attributes struct; does not compile if the struct does not fit a call. Attributes are compared byte by
 * byte, so the struct has no padding (tests/tree/attribute_padding.py), and whoever fills it in sets every byte. Holes
 * are filled by members named `reserved`, which are 0; a shape is a haul__attribute_shape (engine/attribute_shape.h).
 */
#define HAUL__ATTRIBUTES(type) (sizeof(type) + 0 * sizeof(char[sizeof(type) <= HAUL__MAX_ATTRIBUTES ? 1 : -1]))

typedef struct haul__operation haul__operation;
typedef struct haul__call      haul__call;

/* engine/implementation.h */
typedef struct haul__implementations haul__implementations;

/* ---- descriptors ---- */

/* Sets of dtypes. */
#define HAUL__ONLY(dtype) (1u << (dtype))
#define HAUL__FLOATS      (HAUL__ONLY(HAUL_F16) | HAUL__ONLY(HAUL_BF16) | HAUL__ONLY(HAUL_F32) | HAUL__ONLY(HAUL_F64))
#define HAUL__INTEGERS                                                                                                 \
    (HAUL__ONLY(HAUL_U8) | HAUL__ONLY(HAUL_I8) | HAUL__ONLY(HAUL_I16) | HAUL__ONLY(HAUL_I32) | HAUL__ONLY(HAUL_I64))
#define HAUL__NUMBERS  (HAUL__FLOATS | HAUL__INTEGERS)
#define HAUL__ALL      (HAUL__NUMBERS | HAUL__ONLY(HAUL_BOOL))
#define HAUL__UNSIGNED (HAUL__ONLY(HAUL_U16) | HAUL__ONLY(HAUL_U32) | HAUL__ONLY(HAUL_U64)) /* but not u8 */
#define HAUL__EVERY    (HAUL__ALL | HAUL__UNSIGNED)

/* How an operand must be laid out in memory. The driver copies an operand that is not. */
typedef enum haul__layout_rule {
    HAUL__ROW_MAJOR,    /* row-major, dense */
    HAUL__BATCH_FORMAT, /* [N, C, ...], dense: channels-last if its channels are innermost, else row-major */
    HAUL__ANY_STRIDES   /* any layout */
} haul__layout_rule;

/* Which gradients read a saved tensor: a bit for each operand. Only tensors that a wanted gradient reads are saved. */
enum { HAUL__FOR_0 = 1, HAUL__FOR_1 = 2, HAUL__FOR_2 = 4, HAUL__FOR_3 = 8, HAUL__FOR_ALL = 0xff };

typedef struct haul__operand {
    const char *name;
    bool        optional; /* may be HAUL_NONE */
    bool        written;  /* changed in place: it keeps its device and layout, its version is increased, and it may
                           * not be part of a graph */
    haul__layout_rule layout;
    uint32_t          accepts; /* the dtypes it accepts, outside the operation's rule; 0: it follows the rule */
    haul_dtype        becomes; /* with `accepts`: it is cast to this dtype; HAUL_DTYPE_NONE: it is not cast */
    uint8_t           saved_for;
} haul__operand;

typedef struct haul__result_spec {
    const char *name;
    bool        hidden;   /* only for the gradient: NULL if nothing is recorded, and never returned to the user */
    bool        at_start; /* `compute` requires the result to begin at the start of its storage, which a given target
                           * may not */
    uint8_t saved_for;
} haul__result_spec;

/* What happens to the dtypes of operands that follow the rule. */
typedef enum haul__dtype_rule {
    HAUL__AS_GIVEN, /* nothing */
    HAUL__PROMOTED, /* they are cast to the dtype they promote to */
    HAUL__FLOATED   /* the same, with integers and bool as f32 */
} haul__dtype_rule;

/* What autocast does with these operands. */
typedef enum haul__autocast_rule {
    HAUL__KEEP,       /* nothing */
    HAUL__LOWER,      /* it casts floats to its dtype */
    HAUL__WIDE,       /* it casts f16 and bf16 to f32 */
    HAUL__WIDE_RESULT /* it makes the results f32 for f16 and bf16 operands: infer calls haul__wide_result */
} haul__autocast_rule;

typedef struct haul__cost {
    double  flops;
    int64_t bytes; /* bytes read and written */
} haul__cost;

/* A call of an operation's gradient function. */
typedef struct haul__gradient {
    const haul__operation *operation;
    const void            *attributes;
    haul__node            *node;
    int                    count;                      /* number of operands */
    haul_tensor           *results[HAUL__MAX_RESULTS]; /* gradients of the results; HAUL_NONE where none arrived */
    haul_tensor          **operands;                   /* set by the function; they start as HAUL_NONE, which means
                                                        * that none flows */
    haul_tensor *saved[HAUL__MAX_OPERANDS];            /* saved operands; HAUL_NONE where one is absent or not saved */
    haul_tensor *saved_results[HAUL__MAX_RESULTS];
} haul__gradient;

struct haul__operation {
    const char       *name; /* the public function, "haul_softmax" */
    haul__operand     operands[HAUL__MAX_OPERANDS];
    haul__result_spec results[HAUL__MAX_RESULTS];
    uint32_t          dtypes; /* allowed dtypes of the operands after the rule was applied, or of the results if
                               * there are no operands; 0: HAUL__ALL, and every dtype for views */
    haul__dtype_rule    rule;
    haul__autocast_rule autocast;
    int                 repeat;      /* the described operands repeat in groups of this many; 0: they do not */
    bool                elementwise; /* a result may overwrite an operand of its layout, and may have any strides */
    bool                pointwise;   /* elementwise by `kernel`, which takes pointwise_params: has a short path */
    bool                to_bool;     /* with `pointwise`: results are bool */
    int                 kernel;
    bool                view; /* the result is a view of the only operand, which may have any strides and dtype,
                               * or a copy if infer describes no view: has a short path */
    bool any_device;          /* operands keep their devices: infer sets the call's device */
    bool not_recorded;        /* results never require a gradient, even if operands do */
    bool varies;              /* attributes may be others each time without changing operands, results or commands but
                               * for their params: settings of optimizers */
    bool   is_custom;         /* its functions are the program's (engine/custom) */
    bool   between_ranks;     /* all ranks make the call together, and its results depend on the operands of all */
    size_t attributes_size;
    size_t random_at;  /* where attributes have a haul_random_state that infer completes; 0: they have none */
    size_t blocks_at;  /* where they have the number of blocks, an int64_t, that infer takes from the generator;
                        * 0: it takes none */
    const void *extra; /* private to the file: the differences between operations of a family */
    /* Replaces the rule: returns the dtype to which operands that follow the rule are cast, or HAUL_DTYPE_NONE with the
     * error recorded. Not called if they share a floating dtype, which is kept. NULL: the rule decides. */
    haul_dtype (*common_dtype)(const haul__call *c);
    /* Checks the operands and attributes, completes the attributes (axis -1 becomes the last), and describes each
     * result with one of the haul__describe functions. */
    haul_status (*infer)(haul__call *c);
    /* Releases what infer acquired, because the call failed later or was only a query. NULL: it acquires nothing. */
    void (*give_back)(haul__call *c);
    /* Submits the commands. NULL: there are none, because results are views. Not called on meta. */
    haul_status (*compute)(haul__call *c);
    /* The implementations that `compute` chooses from, through haul__implement. NULL: there is only one. */
    const haul__implementations *implementations;
    /* Replaces both for a composite operation: sets c->results by calling operations. Without `gradient` those
     * operations are recorded individually. */
    haul_status (*compose)(haul__call *c);
    /* Sets at least the wanted g->operands[i]; NULL means a failure whose error is recorded. Written in operations, so
     * that it can be differentiated again. A gradient may have the call's broadcast shape, dtype or device: the caller
     * sums, casts and moves it to match the operand. NULL: the results are not differentiable functions of the
     * operands. */
    void (*gradient)(haul__gradient *g);
    /* In the place of `gradient`, for nodes that stand for a part of a program (autograd/recompute.h): computes the
     * results again and records their graph, to which their gradients then go. The innermost scope gets the results. */
    haul_status (*again)(const haul__node *node, haul_tensor **results);
    /* Computes the cost without reading data. NULL: `flops` for each element of the largest operand or result, and
     * every byte of operands and results once. */
    haul__cost (*cost)(const haul__call *c);
    double flops;
};

/* Defines a descriptor. The build collects these lines into the list of all operations. */
#define HAUL__OPERATION(id) const haul__operation haul__operation_##id

/* ---- calls ---- */

/* A call of an operation. */
struct haul__call {
    const haul__operation *operation;
    haul_device           *device; /* where it computes and where results are; set by the driver, or by infer for
                                    * operands on any device */
    int                 count;     /* number of operands */
    int                 result_count;
    haul_tensor *const *inputs;              /* operands as they are in the graph */
    haul_tensor       **operands;            /* the same operands in the required layouts */
    haul_tensor *results[HAUL__MAX_RESULTS]; /* handles without storage until infer has described them; NULL for a
                                              * hidden result that is not read, and for one that is left out */
    bool     into;                           /* the results have targets: autocast does not change dtypes */
    bool     records;                        /* a gradient flows through an operand and is recorded */
    bool     inferred;                       /* infer has succeeded */
    bool     fits;                           /* all operands have the layout that the descriptor requires */
    uint32_t wanted;                         /* operands to which a gradient flows; bit 31 stands for operand 31 and all
                                              * later ones */
    uint64_t     writes;                     /* operands that are changed in place; infer may clear bits */
    uint64_t     wrote;                      /* those that are already changed if a later part of compute fails */
    uint32_t     saves, saves_results;       /* operands and results that will be saved; infer may clear bits */
    int          view_of;                    /* the operand whose storage result 0 shares; -1: none */
    haul_device *target;  /* where given targets are; NULL: there are none. Only policies that place each operation
                           * read it */
    haul_device *partner; /* a device to or from which results on the CPU will be copied, so that pinned memory pays;
                           * or NULL */
    haul__object
        *reason; /* why HAUL_PLACE_AUTO chose the device, which results get (engine/placement/reason.h); else NULL */
    _Alignas(16) unsigned char attributes[HAUL__MAX_ATTRIBUTES];
    haul_tensor *own_inputs[HAUL__OWN_OPERANDS], *own_operands[HAUL__OWN_OPERANDS];
};

/* The attributes of a call, with the type whose size the operation gives in attributes_size. */
static inline void *haul__attributes(haul__call *c)
{
    return c->attributes;
}

static inline const void *haul__attributes_of(const haul__call *c)
{
    return c->attributes;
}

/* Applies an operation to operands and stores the results, fresh tensors that the innermost scope owns, in `results`,
 * which must have room for those that are not hidden. Fails for a missing or failed operand. A failure changes
 * nothing. */
haul_status haul__apply(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                        int count, haul_tensor **results);
/* The same for one result; returns a failed tensor on failure. */
haul_tensor *haul__apply1(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                          int count);
/* The same with given targets, one for each result that is not hidden, which must have the results' shapes, dtypes and
 * device. */
haul_status haul__apply_into(haul_tensor *const *outs, const haul__operation *operation, const void *attributes,
                             haul_tensor *const *operands, int count);

#define HAUL__OPERANDS(...)                                                                                            \
    (haul_tensor *const[]){__VA_ARGS__}, (int)(sizeof((haul_tensor *[]){__VA_ARGS__}) / sizeof(haul_tensor *))
#define HAUL__APPLY(id, attributes, ...) haul__apply1(&haul__operation_##id, attributes, HAUL__OPERANDS(__VA_ARGS__))
#define HAUL__APPLY_INTO(out, id, attributes, ...)                                                                     \
    haul__apply_into(&(haul_tensor *){out}, &haul__operation_##id, attributes, HAUL__OPERANDS(__VA_ARGS__))
/* Defines haul_ID from what apply takes. PARAMETERS is a list in parentheses; the operands come last. */
#define HAUL__ALL_OF(...) __VA_ARGS__
#define HAUL__FUNCTION(id, attributes, PARAMETERS, ...)                                                                \
    haul_tensor *haul_##id(HAUL__ALL_OF PARAMETERS)                                                                    \
    {                                                                                                                  \
        return HAUL__APPLY(id, attributes, __VA_ARGS__);                                                               \
    }
/* Defines haul_ID_into, too. */
#define HAUL__FUNCTIONS(id, attributes, PARAMETERS, ...)                                                               \
    HAUL__FUNCTION(id, attributes, PARAMETERS, __VA_ARGS__)                                                            \
    haul_status haul_##id##_into(haul_tensor *out, HAUL__ALL_OF PARAMETERS)                                            \
    {                                                                                                                  \
        return HAUL__APPLY_INTO(out, id, attributes, __VA_ARGS__);                                                     \
    }
/* Defines haul_ID_with. The last parameter is the options, o; the initializer of the attributes, which have this TYPE,
 * and the operands are expressions of it. */
#define HAUL__FUNCTION_WITH(id, TYPE, attributes, PARAMETERS, ...)                                                     \
    haul_tensor *haul_##id##_with(HAUL__ALL_OF PARAMETERS)                                                             \
    {                                                                                                                  \
        if (!o)                                                                                                        \
            return haul__no_options(&haul__operation_##id);                                                            \
        TYPE haul__of_call = attributes;                                                                               \
        return HAUL__APPLY(id, &haul__of_call, __VA_ARGS__);                                                           \
    }
/* Defines haul_ID_into_with, too. */
#define HAUL__FUNCTIONS_WITH(id, TYPE, attributes, PARAMETERS, ...)                                                    \
    HAUL__FUNCTION_WITH(id, TYPE, attributes, PARAMETERS, __VA_ARGS__)                                                 \
    haul_status haul_##id##_into_with(haul_tensor *out, HAUL__ALL_OF PARAMETERS)                                       \
    {                                                                                                                  \
        if (!o)                                                                                                        \
            return haul__fail_null(haul__operation_##id.name, "options");                                              \
        TYPE haul__of_call = attributes;                                                                               \
        return HAUL__APPLY_INTO(out, id, &haul__of_call, __VA_ARGS__);                                                 \
    }
/* Applies an operation without results, or one whose results are not needed by themselves. */
#define HAUL__APPLY_STATUS(id, attributes, ...)                                                                        \
    haul__apply(&haul__operation_##id, attributes, HAUL__OPERANDS(__VA_ARGS__), NULL)

/* Records that the options of a public function are NULL. */
haul_tensor *haul__no_options(const haul__operation *operation);

/* What a call costs; call it after infer. */
haul__cost haul__cost_of(const haul__call *c);

/* For `cost`: counts the bytes of each operand and result once, and of written operands twice. */
int64_t haul__call_bytes(const haul__call *c);

/* ---- for infer ---- */

/* Describes result i: its dtype, its shape, and its layout: row-major; or with the dimensions in memory in the order of
 * `like`, which has as many; or with given dense strides. Does nothing for a hidden result that is not wanted. Fails
 * for shapes that are too large. */
haul_status haul__describe(haul__call *c, int i, haul_dtype dtype, const haul_shape *shape);
haul_status haul__describe_like(haul__call *c, int i, haul_dtype dtype, const haul_shape *shape,
                                const haul_tensor *like);
haul_status haul__describe_strided(haul__call *c, int i, haul_dtype dtype, const haul_shape *shape,
                                   const int64_t *strides);
/* [N, C, ...] channels-last or row-major. */
haul_status haul__describe_format(haul__call *c, int i, haul_dtype dtype, const haul_shape *shape, bool channels_last);
/* Result 0 is a view of an operand's storage; strides NULL: row-major; the offset is in elements. */
haul_status haul__describe_view(haul__call *c, int operand, const haul_shape *shape, const int64_t *strides,
                                int64_t offset);
/* Result i, which is not described, is left out: the caller gets HAUL_NONE. */
void haul__leave_out(haul__call *c, int i);
/* The dtype of the results of a WIDE_RESULT operation on x. */
haul_dtype haul__wide_result(const haul__call *c, const haul_tensor *x);

/* An axis of operand i, made non-negative; the error names the operation. The axis of a 0-d operand is 0, and has one
 * element: 0 and -1 are valid for it. */
haul_status haul__call_axis(const haul__call *c, int i, int *axis);
/* The same for an operation that changes the length of the axis, or takes a part of it: 0-d operands are refused. */
haul_status haul__call_proper_axis(const haul__call *c, int i, int *axis);
/* Several axes of operand 0, each at most once: sets `chosen` for them, or for all axes if count is 0. */
haul_status haul__call_axes(const haul__call *c, const int *axes, int count, bool chosen[HAUL_MAX_DIMS]);

/* True if the channels of [N, C, ...] are innermost in memory, in a tensor that is not row-major as well. */
bool haul__wants_channels_last(const haul_tensor *t);

/* Errors with the usual wording: "x has shape [2,3], but `wanted`", "x is i32, but `wanted`". */
haul_status haul__refuse_shape(const haul__call *c, int operand, const char *wanted);
haul_status haul__refuse_dtype(const haul__call *c, int operand, const char *wanted);

/* What a dtype and that of operand i promote to, by haul_dtype_promote or the operation's rule. HAUL_DTYPE_NONE, with
 * the error recorded, if no dtype has the values of both. */
haul_dtype haul__promote(const haul__call *c, haul_dtype dtype, int i);

/* True if operand i is present. */
static inline bool haul__has(const haul__call *c, int i)
{
    return !haul__is_none(c->operands[i]);
}

/* ---- for compute ---- */

/* A temporary on the call's device with unset elements: row-major, or with given dense strides. Returns NULL on
 * failure. */
haul_tensor *haul__temporary(const haul__call *c, haul_dtype dtype, const haul_shape *shape);
haul_tensor *haul__temporary_strided(const haul__call *c, haul_dtype dtype, const haul_shape *shape,
                                     const int64_t *strides);
/* A temporary view of t's storage. */
haul_tensor *haul__view_as(const haul__call *c, haul_tensor *t, const haul_shape *shape, const int64_t *strides,
                           int64_t offset);
/* x itself if it already has the form, else a temporary copy: with these strides; [N, C, ...] channels-last or
 * row-major; with the dimensions in memory in the order of `like`, which has as many; or of a dtype, then row-major.
 * Returns NULL on failure. */
haul_tensor *haul__as_strided(const haul__call *c, haul_tensor *x, const int64_t *strides);
haul_tensor *haul__as_format(const haul__call *c, haul_tensor *x, bool channels_last);
haul_tensor *haul__as_like(const haul__call *c, haul_tensor *x, const haul_tensor *like);
haul_tensor *haul__as_dtype(const haul__call *c, haul_tensor *x, haul_dtype dtype);

/* The kernel, compiled on first use. If the driver finds no memory for its code, the cache is emptied and the
 * compilation repeated once. Returns NULL on failure. */
const haul__kernel *haul__kernel_for(haul_device *device, int id, haul_dtype dtype);

/* A launch: kernel `kernel`, compiled for `dtype`, with the buffers of `outs`, which it writes, and then of `ins`. The
 * params begin with the number of work items and carry the offsets of the buffers in elements. With `checks` the kernel
 * checks indices: it gets one more buffer, after the others (backends/index_check.h). Then the call fails for an index
 * out of range on a synchronous device, and a later function that waits on other devices. A thread takes at least
 * `grain` items. */
typedef struct haul__launch {
    int                 kernel;
    haul_dtype          dtype;
    haul_tensor *const *outs, *const *ins;
    int         out_count, in_count;
    const void *params;
    size_t      params_size;
    bool        checks;
    int64_t     items, grain;
} haul__launch;

/* Members of a launch: its tensors, and its params with the number of items. */
#define HAUL__OUT(...)      .outs = (haul_tensor *[]){__VA_ARGS__}, .out_count = HAUL__COUNT_OF(__VA_ARGS__)
#define HAUL__IN(...)       .ins = (haul_tensor *[]){__VA_ARGS__}, .in_count = HAUL__COUNT_OF(__VA_ARGS__)
#define HAUL__COUNT_OF(...) ((int)(sizeof((haul_tensor *[]){__VA_ARGS__}) / sizeof(haul_tensor *)))
#define HAUL__PARAMS(p)     .params = &(p), .params_size = sizeof(p), .items = (p).items

/* Launches a kernel, for example haul__launch_kernel(c, HAUL__K_remap, y->dtype, HAUL__OUT(y), HAUL__IN(x),
 * HAUL__PARAMS(p), .grain = 4096). It does nothing for 0 items. */
#define haul__launch_kernel(c, ...) haul__launch_for((c), &(haul__launch){__VA_ARGS__})
haul_status haul__launch_for(const haul__call *c, const haul__launch *launch);

/* A call of an implementation of the backend, `by`. `run` calls it with the command's buffers, which the functions
 * below take out of the command: those of `outs` and then of `ins`. Buffers that the params name are not used. */
typedef struct haul__library {
    const haul__implementation *by;
    haul_status (*run)(haul__stream *stream, const haul__command *command);
    const void         *params;
    size_t              params_size;
    haul_tensor *const *outs, *const *ins;
    int      out_count, in_count;
    size_t   scratch_bytes;
    int64_t *refused; /* set to the bytes of scratch memory that there was no memory for, if any */
} haul__library;

/* If there is no memory for the scratch, the call is made without it. If the library found no memory of its own, the
 * call is made again after the cache was emptied. Returns HAUL_UNSUPPORTED, without recording an error, if the
 * implementation cannot compute it. */
haul_status haul__call_library(const haul__call *c, const haul__library *library);

enum { HAUL__MAX_LIBRARY_OUTPUTS = 5, HAUL__MAX_LIBRARY_INPUTS = 6 };

static inline const haul__buffer *haul__library_output(const haul__command *command, int i)
{
    return &command->buffers[i].storage->buffer;
}

/* NULL after the last. */
static inline const haul__buffer *haul__library_input(const haul__command *command, int i)
{
    int at = command->write_count + i;
    return at < command->buffer_count ? &command->buffers[at].storage->buffer : NULL;
}

/* The storage of the scratch memory of a call with one result; NULL if there is none. */
static inline const haul__storage *haul__library_scratch(const haul__command *command)
{
    return command->write_count > 1 ? command->buffers[1].storage : NULL;
}

/* ---- for gradients ---- */

/* True if a gradient flows to operand i. */
bool haul__wanted(const haul__gradient *g, int i);
/* True if the gradient will be differentiated itself. Then it must consist of differentiable operations. */
bool haul__differentiated(const haul__gradient *g);
/* The shape, dtype and device of operand i. */
const haul_shape *haul__operand_shape(const haul__gradient *g, int i);
haul_dtype        haul__operand_dtype(const haul__gradient *g, int i);

#endif

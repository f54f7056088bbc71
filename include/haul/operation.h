/* Listing operations: what each operation takes and gives, as data.
 *
 *     for (int i = 0; i < haul_operation_count(); i++) {
 *         haul_operation_info info;
 *         if (!haul_operation_describe(i, &info))
 *             puts(info.name);
 *     }
 *
 * The list has the operations that programs call, and those that only gradients use, for example haul_softmax_backward.
 * Functions with options appear under the name of their macro: haul_linear_with is "haul_linear". The library's own
 * operations are the same in every run of one version of it. Behind them come the operations that the program
 * registered (custom.h), in the order in which it did so: the list only grows at its end, and the index of an operation
 * never changes.
 *
 * Any thread may ask at any time, even while another one registers operations. */
#ifndef HAUL_OPERATION_H
#define HAUL_OPERATION_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/dtype.h>
#include <haul/error.h>

HAUL_BEGIN

/* Sizes of the arrays in haul_operation_info.
 *
 * - HAUL_OPERATION_MAX_OPERANDS: the maximum number of operands
 * - HAUL_OPERATION_MAX_RESULTS: the maximum number of results */
enum { HAUL_OPERATION_MAX_OPERANDS = 8, HAUL_OPERATION_MAX_RESULTS = 4 };

/* An operand of an operation. */
typedef struct haul_operation_operand {
    const char *name;     /* its name, "weight" */
    bool        optional; /* it may be HAUL_NONE */
    bool        written;  /* it is changed in place */
} haul_operation_operand;

/* What an operation takes and gives. Texts live as long as the process. */
typedef struct haul_operation_info {
    const char            *name;          /* its name, "haul_softmax" */
    int                    operand_count; /* the number of operands: tensors only, not attributes like an axis */
    haul_operation_operand operands[HAUL_OPERATION_MAX_OPERANDS]; /* the operands */
    int                    result_count; /* the number of new tensors; 0 if an operand is written instead */
    const char            *results[HAUL_OPERATION_MAX_RESULTS]; /* the names of the results */
    /* the number of `dtypes`. A call whose operands all have one of these dtypes is accepted; mixtures promote if the
     * operation promotes. Operands that have dtypes of their own, for example an index, do not count; if all have, the
     * first one counts. For operations without operands these are dtypes of the results */
    int        dtype_count;
    haul_dtype dtypes[HAUL_DTYPE_END]; /* the dtypes */
    bool       differentiable;         /* gradients flow from results to operands */
    bool       variadic; /* true if each operand is any number of tensors: those that haul_cat joins, or one for each
                            parameter that haul_sgd changes */
    bool has_into;       /* true if there is a form that writes into a given tensor, like haul_softmax_into */
} haul_operation_info;

/* The number of operations. */
HAUL_API int haul_operation_count(void);

/* Fill *out with the description of an operation. The library's operations come first, in the order of their names;
 * those that the program registered follow. Fails with HAUL_INVALID_ARGUMENT for another index, and leaves *out
 * unchanged.
 *
 * - index: 0 to haul_operation_count() - 1 */
HAUL_API haul_status haul_operation_describe(int index, haul_operation_info *out);

/* The index of the operation with this name, "haul_softmax". Returns -1 if there is none, without recording an error.
 */
HAUL_API int haul_operation_find(const char *name);

/* The maximum number of implementations of an operation. */
enum { HAUL_OPERATION_MAX_IMPLEMENTATIONS = 24 };

/* The names of the implementations of an operation on a device, in order of preference. The first one that accepts a
 * call computes it, and an event of the kind HAUL_EVENT_IMPLEMENTATION says which one that was. Returns how many there
 * are, -1 on failure, and fills at most `capacity` entries of `names`, which may be NULL. The names live as long as the
 * process.
 *
 * - Matrix products and convolutions have "winograd", "products", "depthwise", "onednn", "panels", "pixels", "direct",
 *   "tiles", "cublaslt", "cudnn", "kernel_teams" and "kernel_tiles", as far as the device and its libraries have them,
 *   and last "kernel", the reference. Those that `$HAUL_WITHOUT` names are not listed. For some shapes an
 *   implementation is asked after the next one of the list, which is faster then.
 * - haul_eigh and haul_svd have "lapack" on CPUs with a LAPACK library, and "kernel".
 * - Operations that the program registered have "kernel" or "operations", or "host" for a function over host memory,
 *   which only the CPU has.
 * - Other operations have one: "kernel", or "view" if results share memory with operands and nothing is computed, or
 *   "operations" if the operation calls others. Operations that copy between devices are "kernel", too.
 * - The device "meta" computes nothing and has none. */
HAUL_API int haul_operation_implementations(int index, haul_device *device, const char **names, int capacity);

HAUL_END

#endif

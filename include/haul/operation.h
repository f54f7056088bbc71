/* The list of all operations, and what each takes and gives.
 *
 *     for (int i = 0; i < haul_operation_count(); i++) {
 *         haul_operation_info info;
 *         if (!haul_operation_describe(i, &info))
 *             puts(info.name);
 *     }
 *
 * The list has the operations that programs call, and those that only gradients use, "haul_softmax_backward". Functions
 * that take options appear under the name of their macro: haul_linear_with is "haul_linear". The library's own
 * are the same in every run of one version of it. Behind them come the operations that the program registered
 * (custom.h), in the order in which it did: the list grows then, by one operation at its end, and no index that was
 * valid before changes its meaning. Any thread may ask at any time, also while another one registers: a count is what
 * it was at some moment of the call. */
#ifndef HAUL_OPERATION_H
#define HAUL_OPERATION_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/dtype.h>
#include <haul/error.h>

HAUL_BEGIN

enum { HAUL_OPERATION_MAX_OPERANDS = 8, HAUL_OPERATION_MAX_RESULTS = 4 };

typedef struct haul_operation_operand {
    const char *name;     /* "weight" */
    bool        optional; /* may be HAUL_NONE */
    bool        written;  /* changed in place */
} haul_operation_operand;

/* One operation. Its texts live as long as the process. */
typedef struct haul_operation_info {
    const char            *name;          /* "haul_softmax" */
    int                    operand_count; /* tensors only: attributes such as an axis are not listed */
    haul_operation_operand operands[HAUL_OPERATION_MAX_OPERANDS];
    int                    result_count; /* fresh tensors; 0 where an operand is written instead */
    const char            *results[HAUL_OPERATION_MAX_RESULTS];
    /* A call whose operands all have one of these dtypes is accepted; mixtures promote where the operation promotes.
     * Operands that have dtypes of their own, such as an index, do not count; where all have, the first one counts.
     * Without operands these are dtypes of the results. */
    int        dtype_count;
    haul_dtype dtypes[HAUL_DTYPE_END];
    bool       differentiable; /* gradients flow from results to operands */
    bool       variadic;       /* each operand is any number of tensors: those that haul_cat joins, or one for each
                                  parameter that haul_sgd changes */
    bool has_into;             /* there is a form that writes into a given tensor, haul_softmax_into */
} haul_operation_info;

/* How many operations there are. */
HAUL_API int haul_operation_count(void);

/* Describes operation `index`, 0 to haul_operation_count() - 1: the library's in the order of their names, then those
 * that the program registered. Refuses any other index with
 * HAUL_INVALID_ARGUMENT, and leaves *out alone then. */
HAUL_API haul_status haul_operation_describe(int index, haul_operation_info *out);

/* The index of the operation with this name, "haul_softmax"; -1 if there is none, without recording an error. */
HAUL_API int haul_operation_find(const char *name);

/* The names of the ways in which operation `index` can be computed on a device, in order of preference: the first that
 * takes a call computes it, and an event of the kind IMPLEMENTATION (events.h) says which that was. Returns how many
 * there are, at most HAUL_OPERATION_MAX_IMPLEMENTATIONS, and writes the first `capacity` of them to `names`, which may
 * be NULL; -1 on failure. The names live as long as the process.
 *
 *   - Matrix products and convolutions have "onednn", "direct", "tiles", "cublaslt", "cudnn", "kernel_teams",
 *     "kernel_tiles", as far as the device and its libraries have them, and "kernel", the reference, last. Those that
 *     the environment variable HAUL_WITHOUT names are not listed.
 *   - Those that the program registered have "kernel" or "operations", or "host" for a function over host memory, which
 *     devices other than the CPU do not have.
 *   - Other operations have one: "kernel", or "view" where results share memory with operands and nothing is computed,
 *     or "operations" where the operation calls others. Operations that copy between devices are "kernel", too.
 *   - The device "meta" computes nothing and has none. */
enum { HAUL_OPERATION_MAX_IMPLEMENTATIONS = 8 };
HAUL_API int haul_operation_implementations(int index, haul_device *device, const char **names, int capacity);

HAUL_END

#endif

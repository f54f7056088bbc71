/* The formulas of pointwise kernels, for kernels that are generated for a chain (record/follow/device_chain.h), and
 * which calls have one. */
#ifndef HAUL_RECORD_FORMULA_H
#define HAUL_RECORD_FORMULA_H

#include "engine/operation.h"

typedef enum haul__formula_form {
    HAUL__FORMULA_NONE,
    HAUL__FORMULA_X,       /* of x and the scalars s0 and s1 */
    HAUL__FORMULA_AB,      /* of a and b */
    HAUL__FORMULA_A,       /* of a; b is the scalar s0 */
    HAUL__FORMULA_CAB,     /* of c, a and b, its operands in this order, and of s0 */
    HAUL__FORMULA_CHOOSES, /* an element of the second or of the third operand */
    HAUL__FORMULA_FILLS,   /* an element, or a scalar where the mask is what the other scalar is */
    HAUL__FORMULA_CASTS
} haul__formula_form;

typedef struct haul__formula {
    haul__formula_form form;
    bool               to_bool;
    bool               is_own; /* of an operation that is not a row of pointwise.def */
    const char        *text;   /* C of kernel text; NULL for the last three forms */
} haul__formula;

/* The formula of a kernel; its form is NONE if it has none. */
const haul__formula *haul__formula_of(int kernel);

/* Why a call with results of dtype `to`, whose first operand has dtype `from`, has no formula on the device; NULL: it
 * has one. `*computes` becomes the dtype that kernels with its formula are compiled for, which is that of all calls of
 * a chain; HAUL_DTYPE_NONE: any dtype. */
const char *haul__formula_refusal(const haul_device *device, const haul__operation *operation, haul_dtype from,
                                  haul_dtype to, haul_dtype *computes);

#endif

/* Reductions over any axes: the passes, and what the operations made of them share. */
#ifndef HAUL_OPS_REDUCE_H
#define HAUL_OPS_REDUCE_H

#include "engine/operation.h"

/* ---- passes, for compute ---- */

/* What a pass does with the elements that give one of the result. */
typedef struct haul__reduction haul__reduction;
struct haul__reduction {
    int                    kernel;
    bool                   adds; /* in the dtype of sums, and can be finished */
    const haul__reduction *then; /* puts partial results together; NULL: the same one */
};

extern const haul__reduction haul__reduce_sum, haul__reduce_max, haul__reduce_min, haul__reduce_prod, haul__reduce_any,
    haul__reduce_all;
/* Of floats: the sum of |x|, of x^2, of x - first, of (x - first - centre)^2, of exp(x - centre); the largest |x|. */
extern const haul__reduction haul__reduce_abs, haul__reduce_squares, haul__reduce_offsets, haul__reduce_deviations,
    haul__reduce_exponentials, haul__reduce_max_abs;

/* What is done to a sum s in the end: nothing; s / divisor; the square root of that; log(s) + centre. */
typedef struct haul__finish {
    enum { HAUL__FINISH_NONE, HAUL__FINISH_DIVIDE, HAUL__FINISH_ROOT, HAUL__FINISH_LOG } what;
    double       divisor;
    haul_tensor *centre; /* row-major, a number of the dtype of sums for each element of the result; or NULL */
} haul__finish;

#define HAUL__AS_IT_IS   ((haul__finish){.what = HAUL__FINISH_NONE})
#define HAUL__DIVIDED(d) ((haul__finish){HAUL__FINISH_DIVIDE, .divisor = (d)})

/* out = the reduction of x over the axes where `reduced`; row-major, whatever shape out has. */
haul_status haul__reduce(const haul__call *c, const haul__reduction *how, haul_tensor *out, haul_tensor *x,
                         const bool *reduced, haul__finish finish);

/* out, which is 0-d, becomes the mean of all elements of x, summed in x's dtype and rounded to out's. NaN of no
 * elements. */
haul_status haul__mean_of_all(const haul__call *c, haul_tensor *out, haul_tensor *x);

/* The same for their sum, divided by `divisor` unless that is 0; 0 of no elements. */
haul_status haul__sum_of_all(const haul__call *c, haul_tensor *out, haul_tensor *x, double divisor);

/* out [n] becomes the sum of the rows of x [m, n]. */
haul_status haul__sum_of_rows(const haul__call *c, haul_tensor *out, haul_tensor *x);

/* ---- operations ---- */

typedef struct haul__reduce_attributes {
    int        axes[HAUL_MAX_DIMS], count; /* as given */
    bool       keepdim;
    bool       reduced[HAUL_MAX_DIMS];
    haul_shape kept;   /* the result's shape with the reduced axes as ones */
    int64_t    each;   /* elements that give one of the result */
    double     number; /* the operation's own */
} haul__reduce_attributes;

/* What the options of a reduction say. */
haul__reduce_attributes haul__reduce_attributes_of(const haul_axes *axes, bool keepdim, double number);

/* For infer: completes the attributes and describes the result, of this dtype. */
haul_status haul__reduce_infer(haul__call *c, haul_dtype dtype);

/* For gradients: sum, mean ... of x over the same axes, which are kept with size 1. */
haul_tensor *haul__reduce_again(const haul__gradient *g, const haul__operation *operation, haul_tensor *x);

/* Sum g down to `shape`, undoing broadcasting. NULL is a failure that is handed on. */
haul_tensor *haul__sum_to(haul_tensor *g, const haul_shape *shape);

extern const haul__operation haul__operation_sum, haul__operation_mean, haul__operation_prod;

#endif

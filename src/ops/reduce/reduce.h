/* Reductions over any axes: the passes, and declarations shared by the operations made of them. */
#ifndef HAUL_OPS_REDUCE_REDUCE_H
#define HAUL_OPS_REDUCE_REDUCE_H

#include "engine/attribute_shape.h"
#include "engine/collect.h"
#include "engine/operation.h"
#include "ops/reduce/steps_kernel.h"

/* ---- passes, for compute ---- */

/* How a pass combines the elements of one output. */
typedef struct haul__reduction haul__reduction;
struct haul__reduction {
    int                    kernel;
    bool                   adds;  /* in the dtype of sums, may have a final step */
    int                    mends; /* HAUL__MENDS_NOTHING or another of steps_kernel.h */
    const haul__reduction *then;  /* combines partial results; NULL: the same one */
};

extern const haul__reduction haul__reduce_sum, haul__reduce_max, haul__reduce_min, haul__reduce_prod, haul__reduce_any,
    haul__reduce_all;
/* For floats: the sum of |x|, of x^2, of x - first, of (x - first - 2 centre)^2, of exp(x - centre); the largest |x|.
 */
extern const haul__reduction haul__reduce_abs, haul__reduce_squares, haul__reduce_offsets, haul__reduce_deviations,
    haul__reduce_exponentials, haul__reduce_max_abs;

/* The final step for a sum. */
typedef struct haul__finish {
    int          what; /* HAUL__FINISH_NONE or another of steps_kernel.h */
    double       divisor;
    haul_tensor *centre; /* row-major, a number of the dtype of sums for each element of the result; or NULL */
} haul__finish;

#define HAUL__AS_IT_IS   ((haul__finish){.what = HAUL__FINISH_NONE})
#define HAUL__DIVIDED(d) ((haul__finish){HAUL__FINISH_DIVIDE, .divisor = (d)})

/* out = the reduction of x over the axes where `reduced`; row-major, whatever out's shape is. */
haul_status haul__reduce(const haul__call *c, const haul__reduction *how, haul_tensor *out, haul_tensor *x,
                         const bool *reduced, haul__finish finish);

/* out, which is 0-d, becomes the mean of all elements of x, summed in x's dtype and rounded to out's; NaN without
 * elements. */
haul_status haul__mean_of_all(const haul__call *c, haul_tensor *out, haul_tensor *x);

/* The same for their sum, divided by `divisor` unless that is 0; 0 without elements. */
haul_status haul__sum_of_all(const haul__call *c, haul_tensor *out, haul_tensor *x, double divisor);

/* out [n] becomes the sum of the rows of x [m, n]. */
haul_status haul__sum_of_rows(const haul__call *c, haul_tensor *out, haul_tensor *x);

/* ---- in tiles: rows are reduced while they are in the caches (record/follow/chain.h) ---- */

/* True for operations that haul__reduce_tile knows: sum, mean, max and min. */
bool haul__reduce_has_tiles(const haul__operation *operation);

/* How many elements of x, which is dense and row-major, a work item of the first pass reduces: those of item i begin at
 * i times that number. 0: the operation cannot take x in tiles. `*passes`: 1, or 2 if the first pass leaves partial
 * results. */
int64_t haul__reduce_tile(const haul__operation *operation, const void *attributes, const haul_tensor *x, int *passes);

/* Runs the first pass over items first .. last - 1. Element i of the operand is x[shift + i]; with a negative shift, x
 * has only the elements from -shift on. */
void haul__reduce_run_tile(const haul__collected_pass *pass, void *out, void *x, int64_t shift, int64_t first,
                           int64_t last);

/* ---- operations ---- */

typedef struct haul__reduce_attributes {
    int                   axes[HAUL_MAX_DIMS], count; /* as the user passed them */
    bool                  keepdim;
    bool                  reduced[HAUL_MAX_DIMS];
    bool                  reserved[3];
    haul__attribute_shape kept;   /* the result's shape with the reduced axes as ones */
    int64_t               each;   /* elements that are combined into one of the result */
    double                number; /* private to the operation */
} haul__reduce_attributes;

/* The result's shape with the reduced axes as ones, after infer. */
haul_shape haul__reduce_kept(const haul__reduce_attributes *a);

/* The fields that options of reductions share. */
haul__reduce_attributes haul__reduce_attributes_of(const haul_axes *axes, bool keepdim, double number);

/* For infer: completes the attributes and describes the result, with this dtype. */
haul_status haul__reduce_infer(haul__call *c, haul_dtype dtype);

/* For gradients: sum, mean ... of x over the same axes, which are kept with size 1. */
haul_tensor *haul__reduce_again(const haul__gradient *g, const haul__operation *operation, haul_tensor *x);

/* Sums g down to `shape`, undoing broadcasting. NULL, a failure, is passed on. */
haul_tensor *haul__sum_to(haul_tensor *g, const haul_shape *shape);

extern const haul__operation haul__operation_sum, haul__operation_mean, haul__operation_max, haul__operation_min,
    haul__operation_prod;

#endif

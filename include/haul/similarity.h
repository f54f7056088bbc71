/* Similarity: lengths of vectors, and distances and angles between them.
 *
 * Operands are promoted; integers and bool become f32 first. Within autocast f16 and bf16 become f32, too. f16 and bf16
 * are computed in f32, and the result is rounded once. */
#ifndef HAUL_SIMILARITY_H
#define HAUL_SIMILARITY_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

typedef struct HAUL__DESIGNATED haul_normalize_options {
    int axis; /* the axis of the vectors; positional; PyTorch's default is 1 */
    HAUL__GUARD(p)
    double p;   /* the exponent of haul_norm; default 2; HAUL_ZERO for zero */
    double eps; /* the least divisor; default 1e-12; HAUL_ZERO for zero */
} haul_normalize_options;

/* x divided by the norms of its vectors along an axis, x / max(norm, eps): haul_normalize(x, 1). The result has the
 * shape of x. */
#define haul_normalize(x, ...) haul_normalize_with(x, HAUL__OPTIONS(haul_normalize_options, .axis = __VA_ARGS__))
HAUL_API haul_tensor *haul_normalize_with(haul_tensor *x, const haul_normalize_options *o);

typedef struct HAUL__DESIGNATED haul_cosine_similarity_options {
    int axis; /* the axis of the vectors, in the broadcast shape; positional; PyTorch's default is 1 */
    HAUL__GUARD(eps)
    double eps; /* the least norm by which a vector is divided; default 1e-8; HAUL_ZERO for zero */
} haul_cosine_similarity_options;

/* The cosine of the angle between the vectors of a and b along an axis, sum(a b) / (max(|a|, eps) max(|b|, eps)):
 * haul_cosine_similarity(a, b, 1). a and b broadcast. The result is without the axis. */
#define haul_cosine_similarity(a, b, ...)                                                                              \
    haul_cosine_similarity_with(a, b, HAUL__OPTIONS(haul_cosine_similarity_options, .axis = __VA_ARGS__))
HAUL_API haul_tensor *haul_cosine_similarity_with(haul_tensor *a, haul_tensor *b,
                                                  const haul_cosine_similarity_options *o);

typedef struct HAUL__DESIGNATED haul_cdist_options {
    haul_tensor *b; /* [..., R, M]; positional */
    HAUL__GUARD(p)
    double p; /* the exponent of haul_norm, at least 0; default 2; HAUL_ZERO for zero */
} haul_cdist_options;

/* The distance of each row of a from each row of b, haul_norm of their difference: haul_cdist(a, b). The result is
 * [..., P, R]; the dimensions before the rows broadcast. The gradient is 0 where two rows are equal. All differences
 * are in memory at once, P R M elements for each batch.
 *
 * - a: [..., P, M] */
#define haul_cdist(a, ...) haul_cdist_with(a, HAUL__OPTIONS(haul_cdist_options, .b = __VA_ARGS__))
HAUL_API haul_tensor *haul_cdist_with(haul_tensor *a, const haul_cdist_options *o);

HAUL_END

#endif

/* Losses: how far a result is from its target.
 *
 * Losses are operations as those of ops.h. Options follow the positional arguments: haul_cross_entropy(logits, y,
 * .reduction = HAUL_REDUCE_SUM). Without options a loss is the mean over its elements or rows, a tensor without
 * dimensions. */
#ifndef HAUL_LOSS_H
#define HAUL_LOSS_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* What a loss does with the losses of its elements or rows. */
typedef enum haul_reduction {
    HAUL_REDUCE_MEAN,       /* their mean, without dimensions; NaN if there are none */
    HAUL_REDUCE_SUM,        /* their sum, without dimensions */
    HAUL_REDUCE_NONE,       /* nothing: the result has a loss for each element or row */
    HAUL_REDUCE_BATCH_MEAN, /* their sum divided by x's first dimension, without dimensions; haul_kl_div only */
} haul_reduction;

/* ---- Losses of classes ----
 * logits are [N, C], [N, C, ...] (for pixels [N, C, H, W]) or [C]. y holds the classes as indices, of an integer dtype
 * and of the logits' shape without C: [N], [N, ...] or no dimensions. With HAUL_REDUCE_NONE the loss has y's shape.
 *
 * No index is ignored unless .ignore_index says so; in PyTorch the default is -100. Rows of the ignored index have no
 * loss, no weight and no gradient, so the mean is NaN if all rows are ignored. Any other index out of range is an
 * error, as for haul_index_select; on devices other than the CPU its logit counts as 0, and so does its weight, if
 * weights are given. */
typedef struct HAUL__DESIGNATED haul_cross_entropy_options {
    haul_tensor *y; /* class indices or, for haul_cross_entropy, probabilities; positional */
    HAUL__GUARD(weight)
    haul_tensor   *weight;          /* [C], a factor for each class; not differentiable */
    int64_t        ignore_index;    /* rows of this class are ignored; default none; HAUL_ZERO for class 0 */
    double         label_smoothing; /* s in [0, 1]: the target is 1 - s for y, plus s / C for every class; default 0 */
    haul_reduction reduction;       /* what to do with the losses of elements or rows; default HAUL_REDUCE_MEAN */
} haul_cross_entropy_options;

/* Cross entropy of logits and classes: haul_cross_entropy(logits, y). The loss of a row is weight[y]
 * (log(sum(exp(logits))) - logits[y]), and the mean divides by the sum of the rows' weights.
 *
 * If y has a floating dtype and the shape of the logits, it holds probabilities of the classes: the loss of a row is
 * -sum(weight y log_softmax(logits)), the mean divides by the number of rows, and .ignore_index is refused. */
#define haul_cross_entropy(logits, ...)                                                                                \
    haul_cross_entropy_with(logits, HAUL__OPTIONS(haul_cross_entropy_options, .y = __VA_ARGS__))
HAUL_API haul_tensor *haul_cross_entropy_with(haul_tensor *logits, const haul_cross_entropy_options *o);

typedef struct HAUL__DESIGNATED haul_nll_loss_options {
    haul_tensor *y; /* class indices; positional */
    HAUL__GUARD(weight)
    haul_tensor   *weight;       /* [C], a factor for each class; not differentiable */
    int64_t        ignore_index; /* rows of this class are ignored; default none; HAUL_ZERO for class 0 */
    haul_reduction reduction;    /* what to do with the losses of elements or rows; default HAUL_REDUCE_MEAN */
} haul_nll_loss_options;

/* The negative log-likelihood, -weight[y] log_p[y] for each row: cross entropy after haul_log_softmax.
 *
 * - log_p: logarithms of the probabilities of the classes, in the shapes of logits */
#define haul_nll_loss(log_p, ...) haul_nll_loss_with(log_p, HAUL__OPTIONS(haul_nll_loss_options, .y = __VA_ARGS__))
HAUL_API haul_tensor *haul_nll_loss_with(haul_tensor *log_p, const haul_nll_loss_options *o);

typedef struct HAUL__DESIGNATED haul_ctc_loss_options {
    haul_tensor *targets; /* labels of an integer dtype: [N, S], or [all labels] with one example after the other;
                           * [S] without N; positional */
    HAUL__GUARD(input_lengths)
    /* Of integer dtypes. input_lengths: [N], the frames of each example; default T. target_lengths: [N], its labels;
     * default S, and needed if the examples are one after the other */
    haul_tensor   *input_lengths, *target_lengths;
    int64_t        blank;         /* the class of the blank; default 0 */
    bool           zero_infinity; /* an infinite loss, of more labels than frames have room for, counts as 0 */
    haul_reduction reduction;     /* what to do with the losses of examples; default HAUL_REDUCE_MEAN */
} haul_ctc_loss_options;

/* The negative logarithm of the probability that frames give a sequence of labels, summed over all alignments with
 * blanks (connectionist temporal classification; Graves, Fernandez, Gomez, Schmidhuber 2006): haul_ctc_loss(log_p,
 * targets, .input_lengths = a, .target_lengths = b). The mean divides each loss by its number of labels, at least 1,
 * and then by N.
 *
 * The gradient is the derivative with respect to log_p, which may be any numbers. PyTorch adds exp(log_p) to it, which
 * makes no difference behind haul_log_softmax. It cannot be differentiated again: .create_graph fails with HAUL_GRAPH.
 * PyTorch 2.15 has no derivative of this gradient either, and fails in the second backward pass. The gradient of an
 * infinite loss is 0; PyTorch's is NaN without .zero_infinity. The result has no dimensions; with HAUL_REDUCE_NONE it
 * is [N]. f16 and bf16 are computed in f32. A label or a length out of range is an error, as for haul_gather.
 *
 * - log_p: logarithms of the probabilities of the classes, [T, N, C] for T frames, or [T, C] without N; then the
 *   lengths, if any, have no dimensions */
#define haul_ctc_loss(log_p, ...)                                                                                      \
    haul_ctc_loss_with(log_p, HAUL__OPTIONS(haul_ctc_loss_options, .targets = __VA_ARGS__))
HAUL_API haul_tensor *haul_ctc_loss_with(haul_tensor *log_p, const haul_ctc_loss_options *o);

/* ---- Losses of pairs of elements ----
 * x and target have the same shape; with HAUL_REDUCE_NONE the loss has it, too. Operands are promoted; integers and
 * bool become f32 first. Gradients flow to both x and target. */
typedef struct HAUL__DESIGNATED haul_loss_options {
    haul_tensor *target; /* of x's shape; positional */
    HAUL__GUARD(reduction)
    haul_reduction reduction; /* what to do with the losses of elements or rows; default HAUL_REDUCE_MEAN */
} haul_loss_options;

/* The mean squared error: (x - target)^2. */
#define haul_mse_loss(x, ...) haul_mse_loss_with(x, HAUL__OPTIONS(haul_loss_options, .target = __VA_ARGS__))
HAUL_API haul_tensor *haul_mse_loss_with(haul_tensor *x, const haul_loss_options *o);

/* The mean absolute error: |x - target|. The gradient is 0 where they are equal. */
#define haul_l1_loss(x, ...) haul_l1_loss_with(x, HAUL__OPTIONS(haul_loss_options, .target = __VA_ARGS__))
HAUL_API haul_tensor *haul_l1_loss_with(haul_tensor *x, const haul_loss_options *o);

typedef struct HAUL__DESIGNATED haul_smooth_l1_loss_options {
    haul_tensor *target; /* of x's shape; positional */
    HAUL__GUARD(reduction)
    haul_reduction reduction; /* what to do with the losses of elements or rows; default HAUL_REDUCE_MEAN */
    double         beta;      /* where the parabola ends, above 0; default 1; HAUL_ZERO gives haul_l1_loss */
} haul_smooth_l1_loss_options;

/* The smooth L1 loss (Girshick 2015): d^2 / (2 beta) if d = |x - target| is below beta, else d - beta / 2. */
#define haul_smooth_l1_loss(x, ...)                                                                                    \
    haul_smooth_l1_loss_with(x, HAUL__OPTIONS(haul_smooth_l1_loss_options, .target = __VA_ARGS__))
HAUL_API haul_tensor *haul_smooth_l1_loss_with(haul_tensor *x, const haul_smooth_l1_loss_options *o);

typedef struct HAUL__DESIGNATED haul_huber_loss_options {
    haul_tensor *target; /* of x's shape; positional */
    HAUL__GUARD(reduction)
    haul_reduction reduction; /* what to do with the losses of elements or rows; default HAUL_REDUCE_MEAN */
    double         delta;     /* where the parabola ends, above 0; default 1 */
} haul_huber_loss_options;

/* The Huber loss (Huber 1964): d^2 / 2 if d = |x - target| is at most delta, else delta (d - delta / 2). */
#define haul_huber_loss(x, ...) haul_huber_loss_with(x, HAUL__OPTIONS(haul_huber_loss_options, .target = __VA_ARGS__))
HAUL_API haul_tensor *haul_huber_loss_with(haul_tensor *x, const haul_huber_loss_options *o);

typedef struct HAUL__DESIGNATED haul_kl_div_options {
    haul_tensor *target; /* of log_p's shape: probabilities, or with .log_target their logarithms; positional */
    HAUL__GUARD(reduction)
    haul_reduction reduction;  /* default HAUL_REDUCE_MEAN; HAUL_REDUCE_BATCH_MEAN is the mean over distributions */
    bool           log_target; /* `target` holds logarithms */
} haul_kl_div_options;

/* The Kullback-Leibler divergence of the target from log_p: for each element target (log(target) - log_p), and 0 where
 * the target is 0. As in PyTorch, the default mean is over all elements.
 *
 * - log_p: logarithms of probabilities */
#define haul_kl_div(log_p, ...) haul_kl_div_with(log_p, HAUL__OPTIONS(haul_kl_div_options, .target = __VA_ARGS__))
HAUL_API haul_tensor *haul_kl_div_with(haul_tensor *log_p, const haul_kl_div_options *o);

/* Binary cross-entropy of probabilities: -(target log(p) + (1 - target) log(1 - p)), with logarithms of at least -100,
 * as in PyTorch. haul_bce_with_logits is more exact.
 *
 * - p: probabilities */
#define haul_bce_loss(p, ...) haul_bce_loss_with(p, HAUL__OPTIONS(haul_loss_options, .target = __VA_ARGS__))
HAUL_API haul_tensor *haul_bce_loss_with(haul_tensor *p, const haul_loss_options *o);

typedef struct HAUL__DESIGNATED haul_bce_with_logits_options {
    haul_tensor *target; /* in [0, 1], of the shape of the logits; positional */
    HAUL__GUARD(weight)
    haul_tensor *weight; /* a factor for each element; broadcasts to the shape of the logits */
    /* a factor for the target's part; broadcasts to the shape of the logits, as [C] to [N, C] */
    haul_tensor   *pos_weight;
    haul_reduction reduction; /* what to do with the losses of elements or rows; default HAUL_REDUCE_MEAN */
} haul_bce_with_logits_options;

/* Binary cross-entropy of logits: weight (pos_weight target log(1 + exp(-x)) + (1 - target) log(1 + exp(x))), computed
 * without overflow. An infinite logit gives 0 if it agrees with the target (1 for infinity, 0 for -infinity), else
 * infinity. The mean divides by the number of elements. */
#define haul_bce_with_logits(logits, ...)                                                                              \
    haul_bce_with_logits_with(logits, HAUL__OPTIONS(haul_bce_with_logits_options, .target = __VA_ARGS__))
HAUL_API haul_tensor *haul_bce_with_logits_with(haul_tensor *logits, const haul_bce_with_logits_options *o);

/* ---- Losses of margins ----
 * A loss is 0 where scores differ by at least a margin, or distances. Operands are promoted; integers and bool become
 * f32 first. Names, defaults and formulas are PyTorch's. */
typedef struct HAUL__DESIGNATED haul_triplet_margin_loss_options {
    haul_tensor *negative; /* vectors that should be far, of the anchor's shape; positional */
    HAUL__GUARD(margin)
    double         margin;    /* by how much the second distance should exceed the first; default 1; HAUL_ZERO for 0 */
    double         p;         /* the exponent of haul_norm, at least 0; default 2; HAUL_ZERO for zero */
    double         eps;       /* added to each element of a difference; default 1e-6; HAUL_ZERO for zero */
    bool           swap;      /* take the distance of positive from negative if it is less than that of the anchor */
    haul_reduction reduction; /* what to do with the losses of rows; default HAUL_REDUCE_MEAN */
} haul_triplet_margin_loss_options;

/* The triplet loss (Balntas et al. 2016): max(d(anchor, positive) - d(anchor, negative) + margin, 0), where d(a, b) is
 * the norm of a - b + eps over the last axis: haul_triplet_margin_loss(anchor, positive, negative). With
 * HAUL_REDUCE_NONE the loss is without the last axis.
 *
 * - anchor: [..., D]
 * - positive: vectors that should be near, of the anchor's shape */
#define haul_triplet_margin_loss(anchor, positive, ...)                                                                \
    haul_triplet_margin_loss_with(anchor, positive,                                                                    \
                                  HAUL__OPTIONS(haul_triplet_margin_loss_options, .negative = __VA_ARGS__))
HAUL_API haul_tensor *haul_triplet_margin_loss_with(haul_tensor *anchor, haul_tensor *positive,
                                                    const haul_triplet_margin_loss_options *o);

typedef struct HAUL__DESIGNATED haul_cosine_embedding_loss_options {
    haul_tensor *target; /* [N], or no dimensions for [D]: 1 for similar vectors, -1 for others; positional */
    HAUL__GUARD(margin)
    double         margin;    /* the cosine up to which other vectors have no loss; default 0 */
    haul_reduction reduction; /* what to do with the losses of rows; default HAUL_REDUCE_MEAN */
} haul_cosine_embedding_loss_options;

/* The loss of the cosine of two vectors: 1 - cos(a, b) where the target is 1, max(cos(a, b) - margin, 0) where it is
 * -1, and 0 elsewhere: haul_cosine_embedding_loss(a, b, target). As in PyTorch, 1e-12 is added to the squares of the
 * lengths.
 *
 * - a: [N, D] or [D]
 * - b: of a's shape */
#define haul_cosine_embedding_loss(a, b, ...)                                                                          \
    haul_cosine_embedding_loss_with(a, b, HAUL__OPTIONS(haul_cosine_embedding_loss_options, .target = __VA_ARGS__))
HAUL_API haul_tensor *haul_cosine_embedding_loss_with(haul_tensor *a, haul_tensor *b,
                                                      const haul_cosine_embedding_loss_options *o);

typedef struct HAUL__DESIGNATED haul_hinge_embedding_loss_options {
    haul_tensor *target; /* of x's shape: 1 or -1; positional */
    HAUL__GUARD(margin)
    double         margin;    /* the distance from which the loss is 0; default 1; HAUL_ZERO for zero */
    haul_reduction reduction; /* what to do with the losses of elements; default HAUL_REDUCE_MEAN */
} haul_hinge_embedding_loss_options;

/* The hinge loss of distances x: x where the target is 1, max(margin - x, 0) where it is -1. Any other target gives the
 * sum of both, as in PyTorch. */
#define haul_hinge_embedding_loss(x, ...)                                                                              \
    haul_hinge_embedding_loss_with(x, HAUL__OPTIONS(haul_hinge_embedding_loss_options, .target = __VA_ARGS__))
HAUL_API haul_tensor *haul_hinge_embedding_loss_with(haul_tensor *x, const haul_hinge_embedding_loss_options *o);

typedef struct HAUL__DESIGNATED haul_margin_ranking_loss_options {
    haul_tensor *target; /* of a's shape: 1 where a should be larger, -1 where b should; positional */
    HAUL__GUARD(margin)
    double         margin;    /* the difference from which the loss is 0; default 0 */
    haul_reduction reduction; /* what to do with the losses of elements; default HAUL_REDUCE_MEAN */
} haul_margin_ranking_loss_options;

/* The loss of a ranking: max(-target (a - b) + margin, 0), as in haul_margin_ranking_loss(a, b, target).
 *
 * - a, b: scores, of one shape */
#define haul_margin_ranking_loss(a, b, ...)                                                                            \
    haul_margin_ranking_loss_with(a, b, HAUL__OPTIONS(haul_margin_ranking_loss_options, .target = __VA_ARGS__))
HAUL_API haul_tensor *haul_margin_ranking_loss_with(haul_tensor *a, haul_tensor *b,
                                                    const haul_margin_ranking_loss_options *o);

typedef struct HAUL__DESIGNATED haul_multi_margin_loss_options {
    haul_tensor *y; /* class indices, [N], or no dimensions for [C]; positional */
    HAUL__GUARD(p)
    int            p;         /* the exponent, 1 or 2; default 1 */
    double         margin;    /* default 1; HAUL_ZERO for zero */
    haul_tensor   *weight;    /* [C], a factor for each class */
    haul_reduction reduction; /* what to do with the losses of rows; default HAUL_REDUCE_MEAN */
} haul_multi_margin_loss_options;

/* The hinge loss of classes: the sum over all classes j but y of weight[y] max(margin - x[y] + x[j], 0)^p, divided by
 * C. The mean divides by the number of rows. An index out of range is an error, as for haul_gather.
 *
 * - x: scores of the classes, [N, C] or [C] */
#define haul_multi_margin_loss(x, ...)                                                                                 \
    haul_multi_margin_loss_with(x, HAUL__OPTIONS(haul_multi_margin_loss_options, .y = __VA_ARGS__))
HAUL_API haul_tensor *haul_multi_margin_loss_with(haul_tensor *x, const haul_multi_margin_loss_options *o);

/* ---- Negative logarithms of likelihoods ----
 * Operands are promoted; integers and bool become f32 first. Gradients flow to all operands. */
typedef struct HAUL__DESIGNATED haul_poisson_nll_loss_options {
    haul_tensor *target; /* counts, of x's shape; positional */
    HAUL__GUARD(no_log)
    bool           no_log;    /* x holds rates rather than their logarithms: log_input=False in PyTorch */
    bool           full;      /* add Stirling's approximation of log(target!) where the target is above 1 */
    double         eps;       /* with .no_log, added to x within the logarithm; default 1e-8; HAUL_ZERO for zero */
    haul_reduction reduction; /* what to do with the losses of elements; default HAUL_REDUCE_MEAN */
} haul_poisson_nll_loss_options;

/* Counts with a Poisson distribution: exp(x) - target x; with .no_log, x - target log(x + eps). With .full, target
 * log(target) - target + log(2 pi target) / 2 is added where the target is above 1. */
#define haul_poisson_nll_loss(x, ...)                                                                                  \
    haul_poisson_nll_loss_with(x, HAUL__OPTIONS(haul_poisson_nll_loss_options, .target = __VA_ARGS__))
HAUL_API haul_tensor *haul_poisson_nll_loss_with(haul_tensor *x, const haul_poisson_nll_loss_options *o);

typedef struct HAUL__DESIGNATED haul_gaussian_nll_loss_options {
    haul_tensor *var; /* variances, of x's shape, or with a last dimension of 1, or without it; positional */
    HAUL__GUARD(full)
    bool           full;      /* add log(2 pi) / 2 */
    double         eps;       /* the least variance, above 0; default 1e-6 */
    haul_reduction reduction; /* what to do with the losses of elements; default HAUL_REDUCE_MEAN */
} haul_gaussian_nll_loss_options;

/* Values with a normal distribution: (log(v) + (x - target)^2 / v) / 2, where v = max(var, eps) and x is the mean:
 * haul_gaussian_nll_loss(x, target, var). As in PyTorch, the gradient of var is that of v, also where it is below eps.
 * Negative variances count as eps; in PyTorch they are an error.
 *
 * - target: of x's shape */
#define haul_gaussian_nll_loss(x, target, ...)                                                                         \
    haul_gaussian_nll_loss_with(x, target, HAUL__OPTIONS(haul_gaussian_nll_loss_options, .var = __VA_ARGS__))
HAUL_API haul_tensor *haul_gaussian_nll_loss_with(haul_tensor *x, haul_tensor *target,
                                                  const haul_gaussian_nll_loss_options *o);

HAUL_END

#endif

/* Indexing and order: picking elements by index, and sorting.
 *
 * Indices have any integer dtype and count from 0. An index out of range fails with HAUL_INVALID_ARGUMENT. On the CPU
 * the call itself fails. On other devices the next call that gives values to the host or waits for the device fails;
 * the element counts as 0, and its gradient is dropped. Memory outside an operand is never read or written.
 *
 * Where several elements are added to one, they are added in the order of the indices, on every device. */
#ifndef HAUL_INDEXING_H
#define HAUL_INDEXING_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* ---- Indexing in one call ----
 *
 *     haul_index(x, HAUL_ALL, HAUL_NEW, HAUL_RANGE(0, -1, 2), 3)   is   x[:, None, 0:-1:2, 3]   in Python
 *
 * The items choose elements along each axis of x, from the first on; axes without an item are taken whole. An item is
 *
 * - HAUL_ALL: the whole axis; HAUL_REST: all axes for which there are no other items, once at most
 * - HAUL_NEW: a new axis of size 1
 * - HAUL_RANGE(start, stop, step): elements start, start + step, ... before stop, with Python's rules; HAUL_OPEN as
 *   start or stop means from or to the end. With a step below 0 the elements are copied
 * - a number: that index, without the axis; negative ones count from the end
 * - a tensor of an integer dtype: these indices, which count from 0; the axis becomes the axes of the tensor. Several
 *   tensors broadcast and point together; their axes come where the first one was, or first of all if the tensors are
 *   not neighbours
 * - a tensor of dtype bool: a mask for as many axes as it has; they become one axis, of the elements where the mask is
 *   true. Their number is waited for, as by haul_nonzero
 *
 * Without tensors and backward ranges the result is a view. There are at most HAUL_INDEX_MOST items. */
/* The maximum number of items. */
enum { HAUL_INDEX_MOST = 12 /* items of a call */ };
/* The kind of an item. */
typedef enum haul_index_kind {
    HAUL_INDEX_NONE,  /* nothing: an item that was left out, which is an error */
    HAUL_INDEX_ALL,   /* HAUL_ALL */
    HAUL_INDEX_REST,  /* HAUL_REST */
    HAUL_INDEX_NEW,   /* HAUL_NEW */
    HAUL_INDEX_RANGE, /* HAUL_RANGE */
    HAUL_INDEX_AT,    /* a number */
    HAUL_INDEX_BY     /* a tensor */
} haul_index_kind;

/* An item. Other languages fill the struct in. */
typedef struct haul_index_item {
    haul_index_kind kind;              /* what it is */
    int64_t         start, stop, step; /* of a range; start is the number of HAUL_INDEX_AT */
    haul_tensor    *by;                /* the tensor of HAUL_INDEX_BY */
} haul_index_item;

/* The items of a call. */
typedef struct haul_index_items {
    int             count;                  /* how many `items` there are */
    haul_index_item items[HAUL_INDEX_MOST]; /* the items */
} haul_index_items;

/* The start or stop of a range that begins or ends with the axis: HAUL_RANGE(HAUL_OPEN, HAUL_OPEN, -1) is [::-1]. */
#define HAUL_OPEN INT64_MIN

/* Items of haul_index. */
#define HAUL_ALL  haul__index_item(HAUL_INDEX_ALL, 0, 0, 0, 0)
#define HAUL_REST haul__index_item(HAUL_INDEX_REST, 0, 0, 0, 0)
#define HAUL_NEW  haul__index_item(HAUL_INDEX_NEW, 0, 0, 0, 0)
/* The elements start, start + step, ... before stop, for haul_index. */
#define HAUL_RANGE(start, stop, step) haul__index_item(HAUL_INDEX_RANGE, start, stop, step, 0)

/* The elements that items say. */
#define haul_index(x, ...) haul_index_with(x, HAUL__INDEX_ITEMS(__VA_ARGS__))
HAUL_API haul_tensor *haul_index_with(haul_tensor *x, const haul_index_items *items);

/* A copy of x in which values are put where items say, or added there: haul_index_put(x, values, mask). If an element
 * is named several times, haul_index_put takes the last value, and haul_index_put_add adds all, in their order, on
 * every device. x and values promote. A number for a mask of x's shape needs no wait.
 *
 * - values: of a shape that broadcasts to the shape of haul_index(x, items) */
#define haul_index_put(x, values, ...)     haul_index_put_with(x, values, HAUL__INDEX_ITEMS(__VA_ARGS__))
#define haul_index_put_add(x, values, ...) haul_index_put_add_with(x, values, HAUL__INDEX_ITEMS(__VA_ARGS__))
HAUL_API haul_tensor *haul_index_put_with(haul_tensor *x, haul_tensor *values, const haul_index_items *items);
HAUL_API haul_tensor *haul_index_put_add_with(haul_tensor *x, haul_tensor *values, const haul_index_items *items);

/* Private: items from the arguments of a macro. */
static inline haul_index_item haul__index_item(haul_index_kind kind, int64_t start, int64_t stop, int64_t step,
                                               haul_tensor *by)
{
    haul_index_item item;
    item.kind = kind;
    item.start = start;
    item.stop = stop;
    item.step = step;
    item.by = by;
    return item;
}
#define HAUL__INDEX_ITEMS(...)                                                                                         \
    HAUL__OPTIONS(haul_index_items, HAUL__COUNT(haul_index_item, HAUL__ITEMS(__VA_ARGS__)), {HAUL__ITEMS(__VA_ARGS__)})
#define HAUL__ITEMS(...)                                                                                               \
    HAUL__ITEMS_OF(__VA_ARGS__, HAUL__12, HAUL__11, HAUL__10, HAUL__9, HAUL__8, HAUL__7, HAUL__6, HAUL__5, HAUL__4,    \
                   HAUL__3, HAUL__2, HAUL__1, )                                                                        \
    (__VA_ARGS__)
#define HAUL__ITEMS_OF(a, b, c, d, e, f, g, h, i, j, k, l, each, ...) each
#define HAUL__1(a)                                                    HAUL__ITEM(a)
#define HAUL__2(a, ...)                                               HAUL__ITEM(a), HAUL__1(__VA_ARGS__)
#define HAUL__3(a, ...)                                               HAUL__ITEM(a), HAUL__2(__VA_ARGS__)
#define HAUL__4(a, ...)                                               HAUL__ITEM(a), HAUL__3(__VA_ARGS__)
#define HAUL__5(a, ...)                                               HAUL__ITEM(a), HAUL__4(__VA_ARGS__)
#define HAUL__6(a, ...)                                               HAUL__ITEM(a), HAUL__5(__VA_ARGS__)
#define HAUL__7(a, ...)                                               HAUL__ITEM(a), HAUL__6(__VA_ARGS__)
#define HAUL__8(a, ...)                                               HAUL__ITEM(a), HAUL__7(__VA_ARGS__)
#define HAUL__9(a, ...)                                               HAUL__ITEM(a), HAUL__8(__VA_ARGS__)
#define HAUL__10(a, ...)                                              HAUL__ITEM(a), HAUL__9(__VA_ARGS__)
#define HAUL__11(a, ...)                                              HAUL__ITEM(a), HAUL__10(__VA_ARGS__)
#define HAUL__12(a, ...)                                              HAUL__ITEM(a), HAUL__11(__VA_ARGS__)
#ifdef __cplusplus
extern "C++" {
static inline haul_index_item haul__as_item(haul_index_item item)
{
    return item;
}
static inline haul_index_item haul__as_item(haul_tensor *by)
{
    return haul__index_item(HAUL_INDEX_BY, 0, 0, 0, by);
}
template <typename T> haul_index_item haul__as_item(T number)
{
    return haul__index_item(HAUL_INDEX_AT, static_cast<int64_t>(number), 0, 0, 0);
}
}
#define HAUL__ITEM(a) haul__as_item(a)
#else
static inline haul_index_item haul__item_of_item(haul_index_item item)
{
    return item;
}
static inline haul_index_item haul__item_of_tensor(haul_tensor *by)
{
    return haul__index_item(HAUL_INDEX_BY, 0, 0, 0, by);
}
static inline haul_index_item haul__item_of_number(int64_t number)
{
    return haul__index_item(HAUL_INDEX_AT, number, 0, 0, 0);
}
#define HAUL__ITEM(a)                                                                                                  \
    _Generic((a), haul_index_item                                                                                      \
             : haul__item_of_item, haul_tensor *                                                                       \
             : haul__item_of_tensor, default                                                                           \
             : haul__item_of_number)(a)
#endif

/* ---- Picking and adding by index ---- */

/* The elements of x at some indices of an axis: x[..., index[i], ...]. haul_index_select(x, 0, index) picks rows. A
 * view of any layout is read where the indices point; only one with fewer elements than the result is copied first.
 *
 * - index: [n], of an integer dtype; [1] for a 0-d x, whose result is 0-d */
HAUL_API haul_tensor *haul_index_select(haul_tensor *x, int axis, haul_tensor *index);
HAUL_API haul_status  haul_index_select_into(haul_tensor *out, haul_tensor *x, int axis, haul_tensor *index);

/* One element of x for each index. For axis 1 of three, y[i][j][k] = x[i][index[i][j][k]][k]. The result has the shape
 * of `index`.
 *
 * - index: of an integer dtype, with as many dimensions as x; except along the axis, none is larger than x's */
HAUL_API haul_tensor *haul_gather(haul_tensor *x, int axis, haul_tensor *index);
HAUL_API haul_status  haul_gather_into(haul_tensor *out, haul_tensor *x, int axis, haul_tensor *index);

/* x plus the elements of `source`, each added where its index points. For axis 1 of three, y[i][index[i][j][k]][k] +=
 * source[i][j][k]. x and source promote.
 *
 * - index: as for haul_gather
 * - source: of the shape of `index` */
HAUL_API haul_tensor *haul_scatter_add(haul_tensor *x, int axis, haul_tensor *index, haul_tensor *source);
HAUL_API haul_status  haul_scatter_add_into(haul_tensor *out, haul_tensor *x, int axis, haul_tensor *index,
                                            haul_tensor *source);

/* x with the elements of `source` in the places where indices point: for axis 1 of three, y[i][index[i][j][k]][k] =
 * source[i][j][k]. If indices are equal, the last one wins, on every device. x and source promote.
 *
 * - index: as for haul_gather
 * - source: of the shape of `index` */
HAUL_API haul_tensor *haul_scatter(haul_tensor *x, int axis, haul_tensor *index, haul_tensor *source);
HAUL_API haul_status  haul_scatter_into(haul_tensor *out, haul_tensor *x, int axis, haul_tensor *index,
                                        haul_tensor *source);

/* How haul_scatter_reduce combines elements. */
typedef enum haul_scatter_how {
    HAUL_SCATTER_SUM,  /* their sum, as haul_scatter_add */
    HAUL_SCATTER_MEAN, /* their mean; floating dtypes only */
    HAUL_SCATTER_PROD, /* their product */
    HAUL_SCATTER_MAX,  /* the largest; NaN if there is one */
    HAUL_SCATTER_MIN   /* the smallest; NaN if there is one */
} haul_scatter_how;

typedef struct HAUL__DESIGNATED haul_scatter_reduce_options {
    haul_scatter_how how; /* how elements are combined; positional */
    HAUL__GUARD(exclude_self)
    bool exclude_self; /* x's own elements do not count where others go; default false */
} haul_scatter_reduce_options;

/* x with the elements of `source` combined with those where indices point: haul_scatter_reduce(x, 0, index, source,
 * HAUL_SCATTER_MAX). Equal extremes share their gradient equally.
 *
 * - index, source: as for haul_scatter */
#define haul_scatter_reduce(x, axis, index, source, ...)                                                               \
    haul_scatter_reduce_with(x, axis, index, source, HAUL__OPTIONS(haul_scatter_reduce_options, .how = __VA_ARGS__))
HAUL_API haul_tensor *haul_scatter_reduce_with(haul_tensor *x, int axis, haul_tensor *index, haul_tensor *source,
                                               const haul_scatter_reduce_options *options);

/* x with parts of `source` along an axis added, put in place of x's, or replaced by a number, where indices point:
 * y[.., index[i], ..] += source[.., i, ..], and so on. Of equal indices haul_index_copy takes the last one. x and
 * source promote.
 *
 * - index: [n], of an integer dtype
 * - source: of x's shape, with size n along the axis */
HAUL_API haul_tensor *haul_index_add(haul_tensor *x, int axis, haul_tensor *index, haul_tensor *source);
HAUL_API haul_tensor *haul_index_copy(haul_tensor *x, int axis, haul_tensor *index, haul_tensor *source);
HAUL_API haul_tensor *haul_index_fill(haul_tensor *x, int axis, haul_tensor *index, double value);

typedef struct HAUL__DESIGNATED haul_embedding_options {
    haul_tensor *index; /* of an integer dtype and any shape; positional */
    HAUL__GUARD(padding_idx)
    /* this row gets no gradient; negative ones count from the end; default none; HAUL_ZERO for row 0 */
    int64_t padding_idx;
} haul_embedding_options;

/* Rows of a table: haul_embedding(weight, index, .padding_idx = HAUL_ZERO). The result has the shape of `index` and one
 * more dimension, `size`, at the end.
 *
 * - weight: [rows, size] */
#define haul_embedding(weight, ...)                                                                                    \
    haul_embedding_with(weight, HAUL__OPTIONS(haul_embedding_options, .index = __VA_ARGS__))
#define haul_embedding_into(out, weight, ...)                                                                          \
    haul_embedding_into_with(out, weight, HAUL__OPTIONS(haul_embedding_options, .index = __VA_ARGS__))
HAUL_API haul_tensor *haul_embedding_with(haul_tensor *weight, const haul_embedding_options *options);
HAUL_API haul_status  haul_embedding_into_with(haul_tensor *out, haul_tensor *weight,
                                               const haul_embedding_options *options);

/* For each index a row of zeros with a 1 at the index, as i64. The result has the shape of `index` and one more
 * dimension, `classes`, at the end. */
HAUL_API haul_tensor *haul_one_hot(haul_tensor *index, int64_t classes);

/* ---- Sorting and extremes ---- */

/* The largest, or smallest, element along an axis and its index (i64), the first of equals. NaN counts as the largest
 * for haul_max_with_indices and as the smallest for haul_min_with_indices. On failure both results are failed tensors.
 *
 * Gradients flow through *values, to the elements at the indices; haul_max and haul_min share them among equals
 * instead.
 *
 * - keepdim: keep the axis, with size 1
 * - values, indices: get the results */
HAUL_API haul_status haul_max_with_indices(haul_tensor *x, int axis, bool keepdim, haul_tensor **values,
                                           haul_tensor **indices);
HAUL_API haul_status haul_min_with_indices(haul_tensor *x, int axis, bool keepdim, haul_tensor **values,
                                           haul_tensor **indices);

/* The elements along an axis in order, and their indices (i64). Equal elements keep their order. NaN counts as the
 * largest. Gradients flow through *values. On failure both results are failed tensors.
 *
 * - descending: the largest first
 * - values, indices: get the results */
HAUL_API haul_status haul_sort(haul_tensor *x, int axis, bool descending, haul_tensor **values, haul_tensor **indices);

/* The indices that haul_sort gives, alone.
 *
 * - descending: the largest first */
HAUL_API haul_tensor *haul_argsort(haul_tensor *x, int axis, bool descending);

/* The k largest elements along an axis, or the k smallest, best first, and their indices (i64). Of equal elements the
 * first comes first. NaN counts as the largest. Gradients flow through *values. On failure both results are failed
 * tensors.
 *
 * - k: from 0 to the length of the axis; 1 for a 0-d x
 * - largest: the largest elements; false for the smallest
 * - values, indices: get the results */
HAUL_API haul_status haul_topk(haul_tensor *x, int64_t k, int axis, bool largest, haul_tensor **values,
                               haul_tensor **indices);

/* ---- Masks, distinct elements, counts ----
 * The shapes of some results depend on values: haul_nonzero has a row for each element that is not 0. On devices other
 * than the CPU these functions wait for the number of elements, once, and copy its 8 bytes to the host; events, ledgers
 * and budgets count that (sync.h, transfer.h).
 *
 * With .size the result has that fixed size, and nothing waits: elements beyond it are left out, and missing ones have
 * the value that the function documents. Only this form works on meta, in dry runs and in recorded steps, which know no
 * values; without .size the error says so. */

typedef struct HAUL__DESIGNATED haul_nonzero_options {
    haul_tensor *x; /* the operand, of any dtype; positional */
    HAUL__GUARD(size)
    int64_t size; /* a fixed number of rows; default all, after a wait */
    int64_t fill; /* the indices in rows that are not needed; default -1 */
} haul_nonzero_options;

/* The indices of the elements of x that are not 0, in row-major order, as i64. The result is [n, dimensions of x]:
 * haul_select(haul_nonzero(x), 1, 0) are the indices along axis 0. NaN is not 0. */
#define haul_nonzero(...) haul_nonzero_with(HAUL__OPTIONS(haul_nonzero_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_nonzero_with(const haul_nonzero_options *options);

typedef struct HAUL__DESIGNATED haul_masked_select_options {
    haul_tensor *mask; /* which elements, of dtype bool; positional */
    HAUL__GUARD(size)
    int64_t size; /* a fixed number of elements, the rest of which are 0; default all, after a wait */
} haul_masked_select_options;

/* The elements of x where a mask is true, in row-major order: [n]. x and mask broadcast. */
#define haul_masked_select(x, ...)                                                                                     \
    haul_masked_select_with(x, HAUL__OPTIONS(haul_masked_select_options, .mask = __VA_ARGS__))
HAUL_API haul_tensor *haul_masked_select_with(haul_tensor *x, const haul_masked_select_options *options);

/* x with the elements of `source`, one after the other, where a mask is true. x and mask broadcast; x and source
 * promote. Nothing waits.
 *
 * - mask: of dtype bool
 * - source: of any shape. Fails with HAUL_INVALID_ARGUMENT if it has fewer elements than the mask has true ones; on
 *   devices other than the CPU the next call fails that gives values to the host, as for an index out of range */
HAUL_API haul_tensor *haul_masked_scatter(haul_tensor *x, haul_tensor *mask, haul_tensor *source);

typedef struct HAUL__DESIGNATED haul_unique_options {
    haul_tensor *x; /* the operand; positional */
    HAUL__GUARD(consecutive)
    bool          consecutive; /* join equal neighbours only, and do not sort; default false */
    int64_t       size;        /* a fixed number of values; default all, after a wait */
    haul_tensor **inverse;     /* gets for each element of x the place of its value, i64 of x's shape; default none */
    haul_tensor **counts;      /* gets how often each value occurs, i64; default none */
} haul_unique_options;

/* The distinct elements of x, [n], in ascending order: haul_unique(x, .counts = &counts). Each NaN is distinct, and
 * NaNs are last. With .size, missing values repeat the last one and have the count 0. On failure the other results are
 * failed tensors, too. */
#define haul_unique(...) haul_unique_with(HAUL__OPTIONS(haul_unique_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_unique_with(const haul_unique_options *options);

typedef struct HAUL__DESIGNATED haul_repeat_interleave_counts_options {
    haul_tensor *counts; /* how often each element of the axis is repeated, [n] of an integer dtype; positional */
    HAUL__GUARD(size)
    int64_t size; /* the length of the axis in the result: copies beyond it are dropped, missing ones are 0; HAUL_ZERO
                   * for 0; default the sum of counts, for which the call waits */
} haul_repeat_interleave_counts_options;

/* Each element along an axis repeated as often as `counts` says: [5, 6, 7] becomes [5, 5, 7] for counts [2, 0, 1].
 * haul_repeat_interleave takes one number for all elements. A negative count fails with HAUL_INVALID_ARGUMENT; with
 * .size it counts as 0.
 *
 * - x: of any dtype, with at least one dimension */
#define haul_repeat_interleave_counts(x, axis, ...)                                                                    \
    haul_repeat_interleave_counts_with(x, axis,                                                                        \
                                       HAUL__OPTIONS(haul_repeat_interleave_counts_options, .counts = __VA_ARGS__))
HAUL_API haul_tensor *haul_repeat_interleave_counts_with(haul_tensor *x, int axis,
                                                         const haul_repeat_interleave_counts_options *options);

/* For each element of x whether it occurs in `of`, as bool, in x's shape. NaN occurs nowhere. x and `of` promote.
 *
 * - of: of any shape */
HAUL_API haul_tensor *haul_isin(haul_tensor *x, haul_tensor *of);

/* Where values would have to be inserted to keep rows sorted, as i64 in the shape of `values`: the number of elements
 * that are less, or with `right` less or equal. NaN is the largest element. `sorted` and `values` promote.
 *
 * - sorted: [.., n], ascending along the last axis; one row for all values, or one for each row of values
 * - values: [.., m] with the other sizes of `sorted`; any shape if `sorted` has one dimension
 * - right: after equal elements instead of before them */
HAUL_API haul_tensor *haul_searchsorted(haul_tensor *sorted, haul_tensor *values, bool right);

/* The number of each element's bin: haul_searchsorted(edges, x, right).
 *
 * - edges: [n], ascending */
HAUL_API haul_tensor *haul_bucketize(haul_tensor *x, haul_tensor *edges, bool right);

typedef struct HAUL__DESIGNATED haul_bincount_options {
    haul_tensor *x; /* numbers from 0 on, of an integer dtype and any shape; positional */
    HAUL__GUARD(weights)
    haul_tensor *weights;   /* add up these instead of counting; of a floating dtype and the shape of x; default none */
    int64_t      minlength; /* the result has at least this many elements; default 0 */
    int64_t      size;      /* a fixed number of elements, which x must be below; default max(x) + 1, after a wait */
} haul_bincount_options;

/* How often each number occurs in x: element k is the count of k, as i64, or with .weights the sum of their weights. A
 * negative number is an error, as an index out of range is. */
#define haul_bincount(...) haul_bincount_with(HAUL__OPTIONS(haul_bincount_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_bincount_with(const haul_bincount_options *options);

typedef struct HAUL__DESIGNATED haul_histogram_options {
    haul_tensor *x; /* the operand, of any shape; positional */
    HAUL__GUARD(bins)
    int64_t       bins;       /* how many bins of equal width there are; default 100 */
    double        low, high;  /* the first and the last edge; default the smallest and the largest element */
    haul_tensor  *edges;      /* [n + 1], ascending: n bins of any width, instead of the others; default none */
    haul_tensor **made_edges; /* gets the edges, [n + 1]; default none */
} haul_histogram_options;

/* How many elements of x are in each bin: haul_histogram(x, .bins = 10), as i64. Bin k has the elements from edge k up
 * to, but without, edge k + 1; the last bin has its last edge, too. Elements outside and NaN are in no bin. If all
 * elements are equal, the edges are from one less to one more; if the smallest or the largest element is not finite,
 * the counts are 0. Nothing waits. Integers, f16 and bf16 count as f32. */
#define haul_histogram(...) haul_histogram_with(HAUL__OPTIONS(haul_histogram_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_histogram_with(const haul_histogram_options *options);

HAUL_END

#endif

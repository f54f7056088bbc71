/* Parts and sums of datasets: datasets that read the examples of others. An example's random numbers are those of the
 * dataset that the loader reads. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/shape.h"
#include "data/dataset.h"
#include "data/random.h"

#define SUBSET "haul_dataset_subset"
#define SPLIT  "haul_dataset_split"
#define CONCAT "haul_dataset_concat"

static haul_status check_known(const haul_dataset *dataset, const char *operation)
{
    if (haul__check_dataset(dataset, operation))
        return haul_error_status();
    if (dataset->count != HAUL_UNKNOWN)
        return HAUL_OK;
    return haul__fail(HAUL_UNSUPPORTED, operation, "dataset",
                      "the count of %s is unknown, so its examples can only be read in order", dataset->name);
}

/* ---- subsets ---- */

typedef struct subset {
    haul_dataset *dataset;
    int64_t       indices[];
} subset;

static haul_dataset *choose_subset(const void *context, int64_t *index)
{
    const subset *s = context;
    HAUL__ASSERT(*index >= 0);
    *index = s->indices[*index];
    return s->dataset;
}

static void close_subset(void *context)
{
    subset *s = context;
    haul__object_release(s->dataset);
    haul__free(s);
}

/* The indices are checked already. */
static haul_dataset *make_subset(haul_dataset *dataset, const int64_t *indices, int64_t count, const char *operation)
{
    HAUL__ASSERT(count >= 0);
    int64_t bytes;
    if (!haul__mul_size(count, (int64_t)sizeof *indices, &bytes) ||
        !haul__add_size(bytes, (int64_t)sizeof(subset), &bytes)) {
        haul__fail_memory(operation, SIZE_MAX);
        return NULL;
    }
    subset *s = haul__malloc((size_t)bytes);
    if (!s) {
        haul__fail_memory(operation, (size_t)bytes);
        return NULL;
    }
    s->dataset = dataset;
    haul__object_keep(dataset);
    if (count)
        memcpy(s->indices, indices, (size_t)count * sizeof *indices);
    return haul__dataset_of(dataset, count, choose_subset, close_subset, s, operation);
}

haul_dataset *haul_dataset_subset(haul_dataset *dataset, const int64_t *indices, int64_t count)
{
    if (check_known(dataset, SUBSET))
        return NULL;
    if (count < 0 || (count && !indices)) {
        if (count < 0)
            haul__fail(HAUL_INVALID_ARGUMENT, SUBSET, "count", "%lld indices", (long long)count);
        else
            haul__fail_null(SUBSET, "indices");
        return NULL;
    }
    for (int64_t i = 0; i < count; i++)
        if (indices[i] < 0 || indices[i] >= dataset->count) {
            haul__fail(HAUL_INVALID_ARGUMENT, SUBSET, "indices", "indices[%lld] is %lld, but %s has %lld examples",
                       (long long)i, (long long)indices[i], dataset->name, (long long)dataset->count);
            return NULL;
        }
    return make_subset(dataset, indices, count, SUBSET);
}

/* ---- splits ---- */

static int given_fractions(const double *values)
{
    int count = HAUL_MAX_PARTS;
    while (count && values[count - 1] == 0)
        count--;
    return count;
}

static int given_counts(const int64_t *values)
{
    int count = HAUL_MAX_PARTS;
    while (count && values[count - 1] == 0)
        count--;
    return count;
}

static haul_status sizes_of_fractions(const double *fractions, int parts, int64_t all, int64_t *sizes)
{
    double  sum = 0;
    int64_t left = all;
    for (int i = 0; i < parts; i++) {
        if (!(fractions[i] >= 0 && fractions[i] <= 1))
            return haul__fail(HAUL_INVALID_ARGUMENT, SPLIT, "fractions", "fraction %d is %g; it must be from 0 to 1", i,
                              fractions[i]);
        sum += fractions[i];
        sizes[i] = (int64_t)((double)all * fractions[i]);
        sizes[i] = sizes[i] > left ? left : sizes[i];
        left -= sizes[i];
    }
    if (fabs(sum - 1) > 1e-9)
        return haul__fail(HAUL_INVALID_ARGUMENT, SPLIT, "fractions", "the fractions add up to %.12g instead of 1", sum);
    HAUL__ASSERT(left >= 0);
    for (int i = 0; left > 0; i = (i + 1) % parts)
        if (fractions[i] > 0) {
            sizes[i]++;
            left--;
        }
    return HAUL_OK;
}

static haul_status sizes_of_counts(const int64_t *counts, int parts, int64_t all, int64_t *sizes)
{
    int64_t sum = 0;
    for (int i = 0; i < parts; i++) {
        if (counts[i] < 0 || !haul__add_size(sum, counts[i], &sum))
            return haul__fail(HAUL_INVALID_ARGUMENT, SPLIT, "counts", "count %d is %lld", i, (long long)counts[i]);
        sizes[i] = counts[i];
    }
    if (sum != all)
        return haul__fail(HAUL_INVALID_ARGUMENT, SPLIT, "counts",
                          "the counts add up to %lld, but the dataset has %lld examples", (long long)sum,
                          (long long)all);
    return HAUL_OK;
}

static haul_status part_sizes(const haul_dataset_split_options *o, int *parts, int64_t *sizes)
{
    int fractions = given_fractions(o->fractions), counts = given_counts(o->counts);
    if (!fractions == !counts)
        return haul__fail(HAUL_INVALID_ARGUMENT, SPLIT, "fractions",
                          fractions ? ".fractions and .counts are both given"
                                    : "neither .fractions nor .counts is given");
    *parts = fractions ? fractions : counts;
    return fractions ? sizes_of_fractions(o->fractions, fractions, o->dataset->count, sizes)
                     : sizes_of_counts(o->counts, counts, o->dataset->count, sizes);
}

static haul_status make_parts(haul_dataset **parts, const haul_dataset_split_options *o, int count,
                              const int64_t *sizes)
{
    int64_t       all = o->dataset->count, first = 0;
    haul_dataset *made[HAUL_MAX_PARTS] = {NULL};
    int64_t      *order = haul__calloc((size_t)all + 1, sizeof *order);
    haul_status   status = order ? HAUL_OK : haul__fail_memory(SPLIT, (size_t)all * sizeof *order);
    for (int64_t i = 0; i < all && status == HAUL_OK; i++)
        order[i] = i;
    if (status == HAUL_OK && !o->in_order)
        haul__shuffle(order, all, o->seed, HAUL__FOR_SPLIT, 0);
    for (int i = 0; i < count && status == HAUL_OK; first += sizes[i++])
        if (!(made[i] = make_subset(o->dataset, order + first, sizes[i], SPLIT)))
            status = haul_error_status();
    HAUL__ASSERT(status || first == all); /* each example is in one part */
    haul__free(order);
    for (int i = 0; i < count; i++)
        if (status == HAUL_OK)
            parts[i] = made[i];
        else if (made[i])
            haul_drop(made[i]);
    return status;
}

haul_status haul_dataset_split_with(haul_dataset **parts, const haul_dataset_split_options *options)
{
    int         count = 0;
    int64_t     sizes[HAUL_MAX_PARTS];
    haul_status status;
    if (!parts || !options)
        return haul__fail_null(SPLIT, parts ? "options" : "parts");
    if ((status = check_known(options->dataset, SPLIT)) || (status = part_sizes(options, &count, sizes)))
        return status;
    return make_parts(parts, options, count, sizes);
}

/* ---- sums ---- */

typedef struct sum {
    int           count;
    haul_dataset *datasets[];
} sum;

static haul_dataset *choose_addend(const void *context, int64_t *index)
{
    const sum *s = context;
    int        i = 0;
    while (*index >= s->datasets[i]->count)
        *index -= s->datasets[i++]->count;
    HAUL__ASSERT(0 <= *index && i < s->count);
    return s->datasets[i];
}

static void close_sum(void *context)
{
    sum *s = context;
    for (int i = 0; i < s->count; i++)
        haul__object_release(s->datasets[i]);
    haul__free(s);
}

static bool same_field(const haul_field *a, const haul_field *b)
{
    if (strcmp(a->name, b->name) != 0 || a->dtype != b->dtype || a->shape.ndim != b->shape.ndim ||
        a->classes != b->classes || a->padding != b->padding)
        return false;
    for (int d = 0; d < a->shape.ndim; d++)
        if (a->shape.dims[d] != b->shape.dims[d])
            return false;
    for (int i = 0; i < a->classes; i++)
        if (strcmp(a->class_names[i], b->class_names[i]) != 0)
            return false;
    return true;
}

static haul_status check_alike(const haul_dataset *a, const haul_dataset *b, int index)
{
    char text[2][80];
    if (a->fields->count != b->fields->count)
        return haul__fail(HAUL_INVALID_ARGUMENT, CONCAT, "datasets", "dataset 0 has %d fields, dataset %d has %d",
                          a->fields->count, index, b->fields->count);
    for (int f = 0; f < a->fields->count; f++) {
        const haul_field *x = &a->fields->items[f], *y = &b->fields->items[f];
        if (!same_field(x, y))
            return haul__fail(
                HAUL_INVALID_ARGUMENT, CONCAT, "datasets",
                "field %d is %s %s%s with %d classes in dataset 0, and %s %s%s with %d classes in dataset "
                "%d; names, dtypes, shapes, padding and class names must be equal",
                f, x->name, haul_dtype_name(x->dtype), haul__shape_text(&x->shape, text[0], 80), x->classes, y->name,
                haul_dtype_name(y->dtype), haul__shape_text(&y->shape, text[1], 80), y->classes, index);
    }
    return HAUL_OK;
}

haul_dataset *haul_dataset_concat_list(haul_dataset *const *datasets, int count)
{
    int64_t all = 0;
    if (!datasets || count < 1) {
        haul__fail(HAUL_INVALID_ARGUMENT, CONCAT, "datasets", "datasets is empty; pass at least one");
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        if (check_known(datasets[i], CONCAT) || check_alike(datasets[0], datasets[i], i))
            return NULL;
        if (!haul__add_size(all, datasets[i]->count, &all)) {
            haul__fail(HAUL_INVALID_ARGUMENT, CONCAT, "datasets", "there are more examples than can be counted");
            return NULL;
        }
    }
    sum *s = haul__malloc(sizeof *s + (size_t)count * sizeof(haul_dataset *));
    if (!s) {
        haul__fail_memory(CONCAT, (size_t)count * sizeof(haul_dataset *));
        return NULL;
    }
    s->count = count;
    for (int i = 0; i < count; i++) {
        s->datasets[i] = datasets[i];
        haul__object_keep(datasets[i]);
    }
    return haul__dataset_of(datasets[0], all, choose_addend, close_sum, s, CONCAT);
}

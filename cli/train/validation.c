#include "cli/train/validation.h"

#include <math.h>
#include <stdlib.h>

#include "cli/model/source.h"
#include "cli/shared/cli.h"

static haul_status no_memory(void)
{
    return haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
}

/* ---- classes ---- */

/* The classes of a mini-batch: the class index, or which side of 0.5 another target is on. */
static haul_status read_classes(haul_tensor *y, int64_t count, int64_t *out)
{
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    if (haul_tensor_dtype(y) != HAUL_I64)
        y = haul_cast(haul_gt_scalar(y, 0.5), HAUL_I64);
    haul_status status = haul_read(haul_reshape(y, HAUL_SHAPE(count)), out, (size_t)count * sizeof *out);
    haul_scope_pop(scope);
    return status;
}

static haul_status read_all_classes(haul_dataset *all, int64_t *classes)
{
    enum { BATCH = 256 };
    haul_scope  *scope = haul_scope_push();
    haul_loader *loader = scope ? haul_loader_new(all, .batch = BATCH, .device = haul_cpu()) : NULL;
    haul_status  status = loader ? haul_loader_start(loader, 0) : haul_error_status();
    for (int64_t at = 0; !status;) {
        const haul_batch *batch = haul_loader_next(loader);
        if (!batch) {
            status = haul_error_status();
            break;
        }
        status = read_classes(batch->y, batch->size, classes + at);
        at += batch->size;
    }
    haul_scope_pop(scope);
    return status;
}

typedef struct placed {
    int64_t class, index;
} placed;

static int by_class(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    if (x->class != y->class)
        return (x->class > y->class) - (x->class < y->class);
    return (x->index > y->index) - (x->index < y->index);
}

/* The indices of all examples, those of a class after each other. */
static haul_status group_by_class(haul_dataset *all, int64_t *order, int64_t count)
{
    placed     *items = calloc((size_t)count, sizeof *items);
    haul_status status = items ? read_all_classes(all, order) : no_memory();
    for (int64_t i = 0; i < count && !status; i++)
        items[i] = (placed){order[i], i};
    if (!status)
        qsort(items, (size_t)count, sizeof *items, by_class);
    for (int64_t i = 0; i < count && !status; i++)
        order[i] = items[i].index;
    free(items);
    return status;
}

/* True if there is one target for each example. */
static bool has_classes(const data_spec *spec)
{
    int64_t targets = 1;
    for (int i = 0; i < spec->y.shape.ndim; i++)
        targets *= spec->y.shape.dims[i];
    return targets == 1;
}

static haul_status list_by_class(haul_dataset *all, bool sorted, int64_t *order, int64_t count)
{
    data_spec   spec;
    haul_status status = source_spec(all, &spec);
    if (!status && !sorted && has_classes(&spec))
        return group_by_class(all, order, count);
    for (int64_t i = 0; i < count && !status; i++)
        order[i] = i;
    return status;
}

/* ---- the choice ---- */

/* Where section k of `wanted` equal ones begins. */
static int64_t section_begin(int64_t k, int64_t wanted, int64_t count)
{
    return k == wanted ? count : whole_number((double)k * ((double)count / (double)wanted));
}

/* One example at random of each section of the list: as the list is sorted by class, each class keeps its share. The
 * random numbers of epoch -1 belong to no epoch of the training. */
static void choose(const int64_t *order, int64_t count, int64_t wanted, uint64_t seed, bool *chosen)
{
    for (int64_t k = 0; k < wanted; k++) {
        haul_draws draws = haul_draws_new(seed, -1, k);
        int64_t    begin = section_begin(k, wanted, count), end = section_begin(k + 1, wanted, count);
        chosen[order[begin + (int64_t)haul_draw_below(&draws, (uint64_t)(end - begin))]] = true;
    }
}

static haul_status make_parts(haul_dataset *all, const bool *chosen, int64_t *indices, int64_t count, int64_t wanted,
                              haul_dataset *parts[2])
{
    int64_t at[2] = {0, count - wanted};
    for (int64_t i = 0; i < count; i++)
        indices[at[chosen[i]]++] = i;
    parts[0] = haul_dataset_subset(all, indices, count - wanted);
    parts[1] = haul_dataset_subset(all, indices + (count - wanted), wanted);
    return parts[0] && parts[1] ? HAUL_OK : haul_error_status();
}

haul_status validation_split(haul_dataset *all, double fraction, uint64_t seed, bool sorted_by_class,
                             haul_dataset *parts[2])
{
    int64_t count = haul_dataset_count(all), wanted = whole_number(round(fraction * (double)count));
    if (count < 2)
        return haul_error_set(HAUL_INVALID_ARGUMENT, NULL, NULL,
                              "%s has too few examples to keep some for validation; leave --validation out",
                              haul_dataset_name(all));
    wanted = wanted < 1 ? 1 : wanted > count - 1 ? count - 1 : wanted;
    int64_t    *order = calloc((size_t)count, sizeof *order);
    bool       *chosen = calloc((size_t)count, sizeof *chosen);
    haul_status status = order && chosen ? list_by_class(all, sorted_by_class, order, count) : no_memory();
    if (!status) {
        choose(order, count, wanted, seed, chosen);
        status = make_parts(all, chosen, order, count, wanted, parts);
    }
    free(order);
    free(chosen);
    return status;
}

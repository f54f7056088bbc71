/* Small collectives, which wait: numbers of pieces, equal portions, flags, options that must agree, and errors. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "group/work.h"

/* ---- numbers ---- */

/* The rows of each rank's pieces, as they travel: rank after rank, row after row. */
static void pack(const haul__tree *tree, int rank, double *numbers, int rows, double *packed, bool unpack)
{
    const int from = haul__tree_first(tree, rank), count = haul__tree_first(tree, rank + 1) - from;
    double   *portion = packed + (int64_t)from * rows;
    HAUL__ASSERT(0 <= rank && rank < tree->ranks && count > 0);
    for (int k = 0; k < rows; k++) {
        double *row = numbers + (int64_t)k * tree->pieces + from, *part = portion + (int64_t)k * count;
        memcpy(unpack ? row : part, unpack ? part : row, (size_t)count * sizeof *row);
    }
}

static haul_status gather_packed(haul_group *group, const haul__group_call *call, const haul__tree *tree,
                                 double *packed, int rows)
{
    int64_t *bytes = haul__calloc((size_t)tree->ranks, sizeof *bytes);
    if (!bytes)
        return haul__fail_memory(call->name, (size_t)tree->ranks * sizeof *bytes);
    HAUL__ASSERT(rows > 0 && tree->pieces >= tree->ranks);
    for (int r = 0; r < tree->ranks; r++)
        bytes[r] =
            (haul__tree_first(tree, r + 1) - haul__tree_first(tree, r)) * (int64_t)rows * (int64_t)sizeof *packed;
    haul_status status = haul__work_wait(haul__group_gather_begin(group, call, packed, bytes));
    haul__free(bytes);
    return status;
}

haul_status haul__group_share_numbers(haul_group *group, const haul__group_call *call, const haul__tree *tree,
                                      double *numbers, int rows)
{
    if (haul__group_check(group, call->name))
        return haul_error_status();
    if (tree->ranks != group->size || tree->pieces < tree->ranks)
        return haul__fail(HAUL_INVALID_ARGUMENT, call->name, "pieces",
                          "%d pieces do not fit a group of %d ranks: each rank needs at least one", tree->pieces,
                          group->size);
    double *packed = haul__calloc((size_t)tree->pieces, (size_t)rows * sizeof *packed);
    if (!packed)
        return haul__fail_memory(call->name, (size_t)tree->pieces * (size_t)rows * sizeof *packed);
    pack(tree, group->rank, numbers, rows, packed, false);
    haul_status status = gather_packed(group, call, tree, packed, rows);
    for (int r = 0; !status && r < tree->ranks; r++)
        pack(tree, r, numbers, rows, packed, true);
    haul__free(packed);
    return status;
}

static double sum_in_order(const double *pieces, haul__tree_node node)
{
    if (node.to - node.from == 1)
        return pieces[node.from];
    const int    middle = haul__tree_middle(node);
    const double first = sum_in_order(pieces, (haul__tree_node){node.from, middle});
    return first + sum_in_order(pieces, (haul__tree_node){middle, node.to});
}

haul_status haul__group_sum_numbers(haul_group *group, const haul__group_call *call, const haul__tree *tree,
                                    double *numbers, int rows, double *totals)
{
    if (haul__group_share_numbers(group, call, tree, numbers, rows))
        return haul_error_status();
    for (int k = 0; k < rows; k++)
        totals[k] = sum_in_order(numbers + (int64_t)k * tree->pieces, (haul__tree_node){0, tree->pieces});
    return HAUL_OK;
}

/* ---- portions of equal size ---- */

haul_status haul__group_gather_equal(haul_group *group, const haul__group_call *call, void *all, size_t bytes)
{
    if (haul__group_check(group, call->name))
        return haul_error_status();
    const size_t size = (size_t)group->size;
    int64_t     *counts = haul__calloc(size, sizeof *counts);
    if (!counts)
        return haul__fail_memory(call->name, size * sizeof *counts);
    HAUL__ASSERT(group->rank >= 0 && group->rank < group->size);
    for (size_t r = 0; r < size; r++)
        counts[r] = (int64_t)bytes;
    haul_status status = haul__work_wait(haul__group_gather_begin(group, call, all, counts));
    haul__free(counts);
    return status;
}

/* ---- flags and texts ---- */

haul_status haul__group_or(haul_group *group, const haul__group_call *call, uint64_t *bits)
{
    if (haul__group_check(group, call->name))
        return haul_error_status();
    uint64_t *all = haul__calloc((size_t)group->size, sizeof *all);
    if (!all)
        return haul__fail_memory(call->name, (size_t)group->size * sizeof *all);
    all[group->rank] = *bits;
    haul_status status = haul__group_gather_equal(group, call, all, sizeof *all);
    for (int r = 0; !status && r < group->size; r++)
        *bits |= all[r];
    haul__free(all);
    return status;
}

enum { AGREED = 500 };

static haul_status fail_differing(const haul_group *group, const haul__group_call *call, int rank, const char *first,
                                  const char *other)
{
    char one[128], two[128];
    haul__group_describe_rank(group, 0, one, sizeof one);
    haul__group_describe_rank(group, rank, two, sizeof two);
    return haul__fail(HAUL_INVALID_ARGUMENT, call->name, NULL,
                      "the ranks differ: %s has %.150s, but %s has %.150s; they must be equal", one, first, two, other);
}

haul_status haul__group_agree(haul_group *group, const haul__group_call *call, const char *text)
{
    if (haul__group_check(group, call->name))
        return haul_error_status();
    char *room = haul__calloc((size_t)group->size, AGREED);
    if (!room)
        return haul__fail_memory(call->name, (size_t)group->size * AGREED);
    haul__snprintf(room + (size_t)group->rank * AGREED, AGREED, "%s", text);
    haul_status status = haul__group_gather_equal(group, call, room, AGREED);
    for (int r = 1; !status && !haul__is_dry() && r < group->size; r++) {
        char *other = room + (size_t)r * AGREED;
        other[AGREED - 1] = room[AGREED - 1] = '\0';
        if (strcmp(other, room) != 0)
            status = fail_differing(group, call, r, room, other);
    }
    haul__free(room);
    return status;
}

/* ---- errors ---- */

static haul_status nothing_next(haul__work *w)
{
    return haul__work_over(w);
}

void haul__group_pass_error(haul_group *group, const char *operation)
{
    haul__error_record error, *copy = haul__malloc(sizeof *copy);
    haul__error_save(&error);
    if (copy && group && group->size > 1 && error.status && !haul__is_trial()) {
        const haul__group_call call = {.name = operation};
        haul__work            *w = haul__work_new(group, &call);
        if (w) {
            HAUL__ASSERT(!w->error && w->collective);
            *copy = error;
            w->error = copy;
            copy = NULL;
            w->next = nothing_next;
            haul__work *begun = haul__work_start(w);
            if (begun)
                haul__work_wait(begun);
        }
    }
    haul__free(copy);
    haul__error_restore(&error);
}

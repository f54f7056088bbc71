#include "parallel/sums.h"

#include <haul/ops.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/object.h"

/* Both halves of a node of the tree. */
static bool are_halves(const haul__piece_sum *left, const haul__piece_sum *right)
{
    return left->count == right->count && left->first + left->count == right->first &&
           left->first % (2 * left->count) == 0;
}

/* Adds the last two sums if they are halves; *more is then true. */
static haul_status join(haul__piece_sums *sums, bool *more)
{
    *more = sums->count > 1 && are_halves(&sums->nodes[sums->count - 2], &sums->nodes[sums->count - 1]);
    if (!*more)
        return HAUL_OK;
    haul__piece_sum *left = &sums->nodes[sums->count - 2], *right = left + 1;
    haul_status      status = haul_add_into(left->sum, left->sum, right->sum);
    haul__object_release(right->sum);
    left->count *= 2;
    sums->count--;
    return status;
}

haul_status haul__piece_sums_add(haul__piece_sums *sums, haul_tensor *sum, int first, int count)
{
    haul_status status = HAUL_OK;
    bool        more = true;
    HAUL__ASSERT(sums->count < HAUL__PIECE_SUMS);
    sums->nodes[sums->count++] = (haul__piece_sum){.sum = sum, .first = first, .count = count};
    while (more && !status)
        status = join(sums, &more);
    return status;
}

void haul__piece_sums_clear(haul__piece_sums *sums)
{
    for (int i = 0; i < sums->count; i++)
        haul__object_release(sums->nodes[i].sum);
    sums->count = 0;
}

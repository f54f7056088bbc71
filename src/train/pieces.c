/* The pieces of a global batch: which mini-batches form a step, and the share of each. */
#include "train/pieces.h"

#include <haul/train.h>
#include <inttypes.h>

#include "base/assert.h"
#include "core/error.h"

static haul_status check(const haul_accumulation *a, const char *operation)
{
    if (!a)
        return haul__fail_null(operation, "accumulation");
    const struct {
        const char *name;
        int64_t     value;
    } members[] = {{"examples", a->examples}, {"batch", a->batch}, {"accumulate", a->accumulate}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (members[i].value < 1)
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, "accumulation",
                              "accumulation.%s is %" PRId64 "; 1 or more is expected", members[i].name,
                              members[i].value);
    return HAUL_OK;
}

static int64_t at_most(int64_t value, int64_t most)
{
    return value < most ? value : most;
}

/* Products of a and b that are above `most` may not fit into int64_t. */
static int64_t product_at_most(int64_t a, int64_t b, int64_t most)
{
    return a > most / b ? most : a * b;
}

haul_status haul_accumulation_part(const haul_accumulation *accumulation, int64_t index, haul_step_part *out)
{
    static const char operation[] = "haul_accumulation_part";
    if (!out)
        return haul__fail_null(operation, "out");
    *out = (haul_step_part){.weight = 0};
    if (check(accumulation, operation))
        return haul_error_status();
    const int64_t batch = accumulation->batch, n = accumulation->accumulate;
    const int64_t batches = haul__step_count(accumulation->examples, batch);
    if (index < 0 || index >= batches)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "index",
                          "index is %" PRId64 ", but the epoch has %" PRId64 " mini-batches; 0 to %" PRId64
                          " is expected",
                          index, batches, batches - 1);
    const int64_t rest = accumulation->examples - (index - index % n) * batch; /* from the step's first one on */
    const int64_t own = at_most(batch, accumulation->examples - index * batch);
    HAUL__ASSERT(own > 0 && own <= batch && own <= rest);
    *out = (haul_step_part){.first = index % n == 0,
                            .last = (index + 1) % n == 0 || index + 1 == batches,
                            .weight = (double)own / (double)product_at_most(n, batch, rest)};
    HAUL__ASSERT(out->weight > 0 && out->weight <= 1);
    return HAUL_OK;
}

int64_t haul_accumulation_steps(const haul_accumulation *accumulation)
{
    if (check(accumulation, "haul_accumulation_steps"))
        return -1;
    return haul__step_count(haul__step_count(accumulation->examples, accumulation->batch), accumulation->accumulate);
}

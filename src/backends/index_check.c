/* The table of checks of indices and matrices, and their errors. */
#include "backends/index_check.h"

#include <stdio.h>

#include "core/error.h"

typedef enum target {
    AXIS,
    CLASSES,
    BINS,
    SOURCE,
    LENGTHS,
    PROBABILITY,
    DEVIATION,
    RATE,
    SHAPE_OF_GAMMA,
    WEIGHTS,
    SINGULAR,
    RANK,
    POSITIVE
} target;

typedef struct check {
    const char *operation, *operand;
    target      of;
} check;

static const check checks[] = {
    [HAUL__CHECK_NONE] = {"a kernel", "index", AXIS}, /* no kernel wrote this record */
#define HAUL__INDEX_CHECK(id, operand, of) [HAUL__CHECK_##id] = {"haul_" #id, operand, of},
#include "backends/index_checks.def"
#undef HAUL__INDEX_CHECK
};

enum { AXIS_SHIFT = 16 };

uint32_t haul__index_check(haul__index_check_id id, int axis)
{
    return (uint32_t)id | (uint32_t)axis << AXIS_SHIFT;
}

static long long get(const uint32_t *words)
{
    return (long long)(words[0] | (uint64_t)words[1] << 32);
}

/* A matrix that cannot be factored: what it is, and what helps. */
static haul_status fail_matrix(const check *c, long long matrix, long long column, long long count)
{
    static const char *const is[] = {
        [SINGULAR] = "is singular", [RANK] = "has not full rank", [POSITIVE] = "is not positive definite"};
    static const char *const helps[] = {
        [SINGULAR] =
            "haul_lstsq solves tall systems, and a small multiple of the identity added to the matrix makes it "
            "regular",
        [RANK] = "leave out columns that depend on others, or add a small multiple of the identity",
        [POSITIVE] = "see whether it is symmetric and has no NaN, or add a small multiple of the identity",
    };
    char which[64] = "the matrix";
    if (count > 1)
        snprintf(which, sizeof which, "matrix %lld of %lld (from 0)", matrix, count);
    return haul__fail(HAUL_INVALID_ARGUMENT, c->operation, c->operand, "%s in %s %s: column %lld has no %s pivot; %s",
                      which, c->operand, is[c->of], column, c->of == POSITIVE ? "positive" : "nonzero", helps[c->of]);
}

/* A parameter with which nothing can be drawn. */
static haul_status fail_draw(const check *c, long long position, long long needed)
{
    static const char *const expected[] = {
        [PROBABILITY] = "a probability between 0 and 1",
        [DEVIATION] = "a number from 0 on",
        [RATE] = "a finite number from 0 on",
        [SHAPE_OF_GAMMA] = "a finite number above 0",
    };
    if (c->of == WEIGHTS)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation, c->operand,
                          "row %lld of %s cannot be drawn from: its weights must be finite and not negative, and at "
                          "least %lld of them above 0",
                          position, c->operand, needed);
    return haul__fail(HAUL_INVALID_ARGUMENT, c->operation, c->operand, "%s[%lld] is not %s", c->operand, position,
                      expected[c->of]);
}

haul_status haul__index_fail(const uint32_t record[FAULT_WORDS])
{
    uint32_t     id = record[FAULT_CHECK] & ((1u << AXIS_SHIFT) - 1);
    const check *c = &checks[id < HAUL__CHECK_COUNT ? id : HAUL__CHECK_NONE];
    long long    bound = get(record + FAULT_BOUND);
    const char  *plural = bound == 1 ? "" : "s";
    char         text[96];
    if (c->of >= SINGULAR)
        return fail_matrix(c, get(record + FAULT_POSITION), -1 - get(record + FAULT_VALUE), bound);
    if (c->of >= PROBABILITY)
        return fail_draw(c, get(record + FAULT_POSITION), bound);
    if (c->of == SOURCE) /* counted, not read */
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation, c->operand,
                          "%s has %lld true elements, but source has %lld", c->operand, get(record + FAULT_POSITION),
                          bound);
    if (c->of == LENGTHS) {
        const char *operand = record[FAULT_CHECK] >> AXIS_SHIFT ? "target_lengths" : "input_lengths";
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_ctc_loss", operand, "%s[%lld] is %lld; 0 to %lld is expected",
                          operand, get(record + FAULT_POSITION), get(record + FAULT_VALUE), bound - 1);
    }
    if (c->of == BINS)
        snprintf(text, sizeof text, "there are %lld counts, of numbers from 0 on", bound);
    else if (c->of == CLASSES)
        snprintf(text, sizeof text, "there %s %lld class%s", bound == 1 ? "is" : "are", bound, bound == 1 ? "" : "es");
    else
        snprintf(text, sizeof text, "axis %d has %lld element%s", (int)(record[FAULT_CHECK] >> AXIS_SHIFT), bound,
                 plural);
    return haul__fail(HAUL_INVALID_ARGUMENT, c->operation, c->operand, "%s[%lld] is %lld, but %s", c->operand,
                      get(record + FAULT_POSITION), get(record + FAULT_VALUE), text);
}

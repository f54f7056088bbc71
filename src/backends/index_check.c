/* The table of checks of indices and matrices, and their errors. */
#include "backends/index_check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "core/error.h"

typedef enum target {
    AXIS,
    CLASSES,
    BINS,
    PLACES,
    SOURCE,
    LENGTHS,
    PROBABILITY,
    DEVIATION,
    RATE,
    SHAPE_OF_GAMMA,
    WEIGHTS,
    SINGULAR,
    RANK,
    POSITIVE,
    CONVERGED
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

/* A word: the check, the axis, and the number of the caller; 0: none. */
enum { AXIS_SHIFT = 8, CALLER_SHIFT = 16, CALLERS = 1024 };
_Static_assert(HAUL__CHECK_COUNT <= 1 << AXIS_SHIFT, "a word has no room for the number of a check");

_Thread_local const char *haul__index_caller;

/* By their numbers, from 1 on. A name is added once and stays. */
static const char *_Atomic callers[CALLERS];

/* The number of a name; 0 if there are too many. */
static uint32_t number_of(const char *name)
{
    for (uint32_t i = 1; name && i < CALLERS; i++) {
        const char *there = atomic_load_explicit(&callers[i], memory_order_relaxed);
        if (!there && atomic_compare_exchange_strong(&callers[i], &there, name))
            there = name;
        if (there == name)
            return i;
    }
    return 0;
}

uint32_t haul__index_check(haul__index_check_id id, int axis)
{
    HAUL__ASSERT(id < HAUL__CHECK_COUNT && 0 <= axis && axis < 1 << (CALLER_SHIFT - AXIS_SHIFT));
    return (uint32_t)id | (uint32_t)axis << AXIS_SHIFT | number_of(haul__index_caller) << CALLER_SHIFT;
}

static int axis_of(const uint32_t record[FAULT_WORDS])
{
    return record[FAULT_CHECK] >> AXIS_SHIFT & ((1u << (CALLER_SHIFT - AXIS_SHIFT)) - 1);
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
    if (c->of == CONVERGED)
        return haul__fail(HAUL_BACKEND, c->operation, c->operand,
                          "the device's library did not converge for %s in %s (info %lld); with "
                          "HAUL_WITHOUT=cusolver the CPU computes large matrices",
                          which, c->operand, column);
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

/* The check that the record notes. A caller may have words of its own for an index along an axis. */
static const check *check_of(const uint32_t record[FAULT_WORDS], const char *caller)
{
    const uint32_t id = record[FAULT_CHECK] & ((1u << AXIS_SHIFT) - 1);
    const check   *noted = &checks[id < HAUL__CHECK_COUNT ? id : HAUL__CHECK_NONE];
    for (int i = 1; caller && noted->of == AXIS && i < HAUL__CHECK_COUNT; i++)
        if (strcmp(checks[i].operation, caller) == 0)
            return &checks[i];
    return noted;
}

static haul_status fail(const uint32_t record[FAULT_WORDS], const check *c)
{
    long long   bound = get(record + FAULT_BOUND);
    const char *plural = bound == 1 ? "" : "s";
    char        text[96];
    if (c->of >= SINGULAR)
        return fail_matrix(c, get(record + FAULT_POSITION), -1 - get(record + FAULT_VALUE), bound);
    if (c->of >= PROBABILITY)
        return fail_draw(c, get(record + FAULT_POSITION), bound);
    if (c->of == SOURCE) /* counted, not read */
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation, c->operand,
                          "%s has %lld true elements, but source has %lld", c->operand, get(record + FAULT_POSITION),
                          bound);
    if (c->of == LENGTHS) {
        const char *operand = axis_of(record) ? "target_lengths" : "input_lengths";
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_ctc_loss", operand, "%s[%lld] is %lld; 0 to %lld is expected",
                          operand, get(record + FAULT_POSITION), get(record + FAULT_VALUE), bound - 1);
    }
    if (c->of == BINS)
        snprintf(text, sizeof text, "there are %lld counts, of numbers from 0 on", bound);
    else if (c->of == PLACES)
        snprintf(text, sizeof text, "a channel of the result has %lld element%s", bound, plural);
    else if (c->of == CLASSES)
        snprintf(text, sizeof text, "there %s %lld class%s", bound == 1 ? "is" : "are", bound, bound == 1 ? "" : "es");
    else
        snprintf(text, sizeof text, "axis %d has %lld element%s", axis_of(record), bound, plural);
    return haul__fail(HAUL_INVALID_ARGUMENT, c->operation, c->operand, "%s[%lld] is %lld, but %s", c->operand,
                      get(record + FAULT_POSITION), get(record + FAULT_VALUE), text);
}

haul_status haul__index_fail(const uint32_t record[FAULT_WORDS])
{
    const uint32_t number = record[FAULT_CHECK] >> CALLER_SHIFT;
    const char    *caller = number < CALLERS ? atomic_load(&callers[number]) : NULL;
    fail(record, check_of(record, caller));
    return caller ? haul__fail_within(caller) : haul_error_status();
}

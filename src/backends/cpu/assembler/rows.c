#include "backends/cpu/assembler/rows.h"

#include <string.h>

#include "kernels/kernels.h"

#define A    HAUL__IS_A
#define B    HAUL__IS_B
#define C    HAUL__IS_C
#define S0   HAUL__IS_S0
#define S1   HAUL__IS_S1
#define ZERO HAUL__IS_ZERO
#define ONE  HAUL__IS_ONE
#define SIGN HAUL__IS_SIGN
#define R    HAUL__IS_R
#define T0   HAUL__IS_T0
#define T1   HAUL__IS_T1

#define DO(op, to, ...)                                                                                                \
    {                                                                                                                  \
        HAUL__OP_##op, to, __VA_ARGS__                                                                                 \
    }
#define TEST(relation, to, a, b)                                                                                       \
    {                                                                                                                  \
        HAUL__OP_COMPARE, to, a, b, HAUL__##relation                                                                   \
    }
#define ROUNDED(to, how)                                                                                               \
    {                                                                                                                  \
        HAUL__OP_ROUND, to, .b = A, .extra = HAUL__##how                                                               \
    }
#define IF(mask, to, then, other)                                                                                      \
    {                                                                                                                  \
        HAUL__OP_CHOOSE, to, other, then, mask                                                                         \
    }

#define ROW(name, ...)                                                                                                 \
    {                                                                                                                  \
        HAUL__K_##name, .steps = { __VA_ARGS__ }                                                                       \
    }
#define ROWS(name, ...)                                                                                                \
    ROW(name, __VA_ARGS__),                                                                                            \
    {                                                                                                                  \
        HAUL__K_##name##_scalar, .by_scalar = true, .steps = { __VA_ARGS__ }                                           \
    }
#define RELATION(name, relation)                                                                                       \
    {HAUL__K_##name, .bools = HAUL__BOOL_R, .steps = {TEST(relation, R, A, B)}},                                       \
    {                                                                                                                  \
        HAUL__K_##name##_scalar, .bools = HAUL__BOOL_R, .by_scalar = true, .steps = { TEST(relation, R, A, B) }        \
    }

// clang-format off
static const haul__asm_row rows[] = {
    ROW(neg,        DO(XOR, R, A, SIGN)),
    ROW(abs,        DO(AND_NOT, R, SIGN, A)),
    ROW(sign,       TEST(LT, T0, A, ZERO), DO(AND, T0, T0, ONE), TEST(GT, T1, A, ZERO), DO(AND, T1, T1, ONE),
                    DO(SUB, T1, T1, T0), TEST(UNORDERED, T0, A, A), IF(T0, R, A, T1)),
    ROW(square,     DO(MUL, R, A, A)),
    ROW(reciprocal, DO(DIV, R, ONE, A)),
    ROW(sqrt,       DO(SQRT, R, .b = A)),
    ROW(rsqrt,      DO(SQRT, T0, .b = A), DO(DIV, R, ONE, T0)),
    ROW(relu,       DO(MAX, R, ZERO, A)), /* the second one of two zeros and NaNs */
    ROW(floor,      ROUNDED(R, DOWN)),
    ROW(ceil,       ROUNDED(R, UP)),
    ROW(round,      ROUNDED(R, NEAREST)),
    ROW(trunc,      ROUNDED(R, TO_ZERO)),
    ROW(softsign,   DO(AND_NOT, T0, SIGN, A), DO(ADD, T0, ONE, T0), DO(DIV, R, A, T0)),
    ROW(affine,     DO(MUL, T0, A, S0), DO(ADD, R, T0, S1)),
    ROW(leaky_relu, DO(MUL, T0, A, S0), TEST(GT, T1, A, ZERO), IF(T1, R, A, T0)),
    ROW(threshold,  TEST(GT, T0, A, S0), TEST(UNORDERED, T1, A, A), DO(OR, T0, T0, T1), IF(T0, R, A, S1)),
    ROW(rsub,       DO(SUB, R, S0, A)),
    ROW(rdiv,       DO(DIV, R, S0, A)),
    {HAUL__K_clamp, .when = HAUL__ASM_ORDERED, .steps = {DO(MAX, T0, S0, A), DO(MIN, R, S1, T0)}},

    ROWS(add,       DO(ADD, R, A, B)),
    ROWS(sub,       DO(SUB, R, A, B)),
    ROWS(mul,       DO(MUL, R, A, B)),
    ROWS(div,       DO(DIV, R, A, B)),
    ROWS(maximum,   DO(MAX, T0, A, B), TEST(UNORDERED, T1, A, A), IF(T1, R, A, T0)),
    ROWS(minimum,   DO(MIN, T0, A, B), TEST(UNORDERED, T1, A, A), IF(T1, R, A, T0)),

    ROW(relu_backward,    TEST(GT, T0, B, ZERO), DO(AND, R, T0, A)),
    ROW(tanh_backward,    DO(MUL, T0, B, B), DO(SUB, T0, ONE, T0), DO(MUL, R, A, T0)),
    ROW(sigmoid_backward, DO(SUB, T0, ONE, B), DO(MUL, T0, B, T0), DO(MUL, R, A, T0)),
    ROW(prelu_elements,   DO(MUL, T0, A, B), TEST(GT, T1, A, ZERO), IF(T1, R, A, T0)),

    RELATION(eq, EQ),
    RELATION(ne, NE),
    RELATION(lt, LT),
    RELATION(le, LE),
    RELATION(gt, GT),
    RELATION(ge, GE),
    {HAUL__K_isnan,       .bools = HAUL__BOOL_R, .steps = {TEST(UNORDERED, R, A, A)}},
    {HAUL__K_logical_not, .bools = HAUL__BOOL_R, .steps = {TEST(EQ, R, A, ZERO)}},
    {HAUL__K_isfinite,    .bools = HAUL__BOOL_R, .steps = {DO(SUB, T0, A, A), TEST(EQ, R, T0, ZERO)}},

    {HAUL__K_where,       .bools = HAUL__BOOL_A, .steps = {IF(A, R, B, C)}},
    {HAUL__K_masked_fill, .bools = HAUL__BOOL_B, .when = HAUL__ASM_ON_TRUE,  .steps = {IF(B, R, S0, A)}},
    {HAUL__K_masked_fill, .bools = HAUL__BOOL_B, .when = HAUL__ASM_ON_FALSE, .steps = {IF(B, R, A, S0)}},
    {HAUL__K_cast_bool,   .bools = HAUL__BOOL_A, .steps = {DO(AND, R, A, ONE)}},
    {HAUL__K_cast_f32,    .bools = HAUL__BOOL_R, .steps = {TEST(NE, R, A, ZERO)}},
};
// clang-format on

static float number(uint64_t scalar)
{
    const uint32_t bits = (uint32_t)scalar;
    float          out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

static bool holds(haul__asm_when when, const uint64_t *scalars)
{
    switch (when) {
    case HAUL__ASM_ORDERED: return number(scalars[0]) <= number(scalars[1]);
    case HAUL__ASM_ON_TRUE: return scalars[1] == 1;
    case HAUL__ASM_ON_FALSE: return scalars[1] == 0;
    default: return true;
    }
}

const haul__asm_row *haul__asm_row_of(int kernel, const uint64_t *scalars)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].kernel == kernel && holds(rows[i].when, scalars))
            return &rows[i];
    return NULL;
}

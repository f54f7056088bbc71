#include "record/formula.h"

#include <string.h>

#include "device/device.h"
#include "kernels/kernels.h"

// clang-format off
static const haul__formula formulas[HAUL__KERNEL_COUNT] = {
#define HAUL_UNARY(name, dtypes, formula, saves, gx, low, high)  [HAUL__K_##name] = {HAUL__FORMULA_X, .text = #formula},
#define HAUL_UNARY1(name, dtypes, formula, saves, gx, low, high) [HAUL__K_##name] = {HAUL__FORMULA_X, .text = #formula},
#define HAUL_UNARY2(name, dtypes, formula, saves, gx, low, high) [HAUL__K_##name] = {HAUL__FORMULA_X, .text = #formula},
#define HAUL_UNARY_TO_BOOL(name, dtypes, formula, low, high)     [HAUL__K_##name] = {HAUL__FORMULA_X, true, .text = #formula},
#define HAUL_BINARY(name, dtypes, formula, saves, ga, gb, low, high)                                                   \
    [HAUL__K_##name] = {HAUL__FORMULA_AB, .text = #formula},                                                            \
    [HAUL__K_##name##_scalar] = {HAUL__FORMULA_A, .text = #formula},
#define HAUL_COMPARE(name, formula)                                                                                    \
    [HAUL__K_##name] = {HAUL__FORMULA_AB, true, .text = #formula},                                                             \
    [HAUL__K_##name##_scalar] = {HAUL__FORMULA_A, true, .text = #formula},
#define HAUL_INTERNAL(name, dtypes, formula, saves, ga, gb, low, high)                                                 \
    [HAUL__K_##name] = {HAUL__FORMULA_AB, .text = #formula},
#include <haul/pointwise.def>
#undef HAUL_UNARY
#undef HAUL_UNARY1
#undef HAUL_UNARY2
#undef HAUL_UNARY_TO_BOOL
#undef HAUL_BINARY
#undef HAUL_COMPARE
#undef HAUL_INTERNAL
    /* as ops/pointwise/three.c has them */
    [HAUL__K_clamp_between]  = {HAUL__FORMULA_CAB, .is_own = true,
        .text = "a > b || b != b ? b : c < a || a != a ? a : c > b ? b : c"},
    [HAUL__K_lerp]           = {HAUL__FORMULA_CAB, .is_own = true,
        .text = "M_ABS(b) < LIT(0.5) ? c + b * (a - c) : a - (a - c) * (LIT(1.0) - b)"},
    [HAUL__K_lerp_scalar]    = {HAUL__FORMULA_CAB, .is_own = true,
        .text = "M_ABS(s0) < LIT(0.5) ? c + s0 * (a - c) : a - (a - c) * (LIT(1.0) - s0)"},
    [HAUL__K_addcmul]        = {HAUL__FORMULA_CAB, .is_own = true, .text = "c + s0 * a * b"},
    [HAUL__K_addcdiv]        = {HAUL__FORMULA_CAB, .is_own = true, .text = "c + s0 * a / b"},
    [HAUL__K_where] = {HAUL__FORMULA_CHOOSES},
    [HAUL__K_masked_fill] = {HAUL__FORMULA_FILLS},
    [HAUL__K_cast_bool] = {HAUL__FORMULA_CASTS},
    [HAUL__K_cast_u8] = {HAUL__FORMULA_CASTS},
    [HAUL__K_cast_i8] = {HAUL__FORMULA_CASTS},
    [HAUL__K_cast_i16] = {HAUL__FORMULA_CASTS},
    [HAUL__K_cast_i32] = {HAUL__FORMULA_CASTS},
    [HAUL__K_cast_i64] = {HAUL__FORMULA_CASTS},
    [HAUL__K_cast_f16] = {HAUL__FORMULA_CASTS},
    [HAUL__K_cast_bf16] = {HAUL__FORMULA_CASTS},
    [HAUL__K_cast_f32] = {HAUL__FORMULA_CASTS},
};

/* Rows whose kernel takes a faster formula for elements that are not far. */
static const bool has_near[HAUL__KERNEL_COUNT] = {
#define HAUL_NEAR(name, is_far, formula) [HAUL__K_##name] = true,
#define HAUL_LEAN(name)
#include "kernels/near.def"
#undef HAUL_NEAR
#undef HAUL_LEAN
};
// clang-format on

const haul__formula *haul__formula_of(int kernel)
{
    return &formulas[kernel < HAUL__KERNEL_COUNT ? kernel : 0];
}

/* f16 and bf16 are f32 between a load and a store. */
static haul_dtype computed_as(haul_dtype dtype)
{
    return dtype == HAUL_F16 || dtype == HAUL_BF16 ? HAUL_F32 : dtype;
}

static const char *refuse_cast(haul_dtype from, haul_dtype to, haul_dtype *computes)
{
    const bool is_float = computed_as(from) == HAUL_F32, is_whole = !haul_dtype_is_float(from);
    *computes = HAUL_F32;
    if ((is_float && (computed_as(to) == HAUL_F32 || to == HAUL_BOOL)) || (is_whole && to == HAUL_F32))
        return NULL;
    return "conversions between its dtypes have a kernel of their own";
}

static bool moves_elements(const haul__operation *o)
{
    static const char *const names[] = {"haul_where", "haul_where_scalar", "haul_where_backward", "haul_masked_fill"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(o->name, names[i]) == 0)
            return true;
    return false;
}

const char *haul__formula_refusal(const haul_device *device, const haul__operation *o, haul_dtype from, haul_dtype to,
                                  haul_dtype *computes)
{
    if (strcmp(o->name, "haul_cast") == 0)
        return refuse_cast(from, to, computes);
    *computes = HAUL_DTYPE_NONE;
    if (moves_elements(o))
        return NULL;
    if (o->kernel >= HAUL__KERNEL_COUNT || formulas[o->kernel].form == HAUL__FORMULA_NONE ||
        (!o->pointwise && !formulas[o->kernel].is_own))
        return "its kernel is not a formula of pointwise.def";
    if (has_near[o->kernel] && !device->strided)
        return "its kernel takes two formulas, which is faster on a processor";
    if (o->kernel == HAUL__K_nextafter && computed_as(from) != from)
        return "its kernel is not a formula of pointwise.def";
    *computes = computed_as(from);
    return NULL;
}

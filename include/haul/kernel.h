/* Custom kernels: one text for the CPU, OpenCL and CUDA.
 *
 * For C files that define kernels. haul.h does not include this header, because its words are short names without a
 * prefix.
 *
 *     HAUL_KERNEL2(my_swish, T, y, const T, x, {
 *         const A beta = NUMBER(0);
 *         FOR_ITEMS(i) {
 *             const A v = LOAD(x, i);
 *             STORE(y, i, v / (LIT(1.0) + M_EXP(-beta * v)));
 *         }
 *     });
 *
 * The program's compiler compiles the text for each floating dtype. The text is also kept as a string, which the
 * compilers of OpenCL and CUDA get at run time. If it does not compile there, their message is in the error of the
 * call.
 *
 * The text is C in the subset that all of these compilers read. Not allowed are library calls, doubles other than F64,
 * recursion, function pointers, preprocessor directives, and macros of the program, which the other compilers do not
 * see.
 *
 * The program's compiler makes the CPU's form, so its flags decide the speed there. The library's own kernels are
 * compiled with `-O3 -fno-math-errno -fno-trapping-math`, without which compilers do not vectorise loops over M_EXP and
 * others, and with `-ffp-contract=off -march=x86-64-v3`, or `x86-64-v4` for CPUs with AVX-512. Without `-march`, M_EXP
 * and others call a function for each fused multiply-add and are slow. With `-ffp-contract=off` and without
 * `-ffast-math`, results are bit-identical to those on other devices. */
// clang-format off
#ifndef HAUL_KERNEL_H
#define HAUL_KERNEL_H

#include <haul/custom.h>

/* Kernels are C. C++ takes them from a C file: extern "C" const haul_kernel *swish_kernel(void). */
#ifndef __cplusplus
#ifdef __GNUC__
#pragma GCC system_header
#endif

/* ---- the library's own texts, once with A as F32 and once as F64 ---- */

/* Names with a form for f32 and one for f64, which HAUL__FORM selects. It is defined anew below. */
#define HAUL__FORM(name) haul__f32_##name
#define T                HAUL__FORM(T)
#define A                HAUL__FORM(A)
#define ACC              HAUL__FORM(ACC)
#define V                HAUL__FORM(V)
#define F16_TO_F32       HAUL__FORM(F16_TO_F32)
#define F32_TO_F16       HAUL__FORM(F32_TO_F16)
#define BF16_TO_F32      HAUL__FORM(BF16_TO_F32)
#define F32_TO_BF16      HAUL__FORM(F32_TO_BF16)
#define SCALAR           HAUL__FORM(SCALAR)
#define NARROW           HAUL__FORM(NARROW)
#define M_MAX            HAUL__FORM(M_MAX)
#define M_MIN            HAUL__FORM(M_MIN)
#define M_SIGN           HAUL__FORM(M_SIGN)
#define M_EXP            HAUL__FORM(M_EXP)
#define M_LOG            HAUL__FORM(M_LOG)
#define M_TANH           HAUL__FORM(M_TANH)
#define M_ERF            HAUL__FORM(M_ERF)
#define M_SIN            HAUL__FORM(M_SIN)
#define M_COS            HAUL__FORM(M_COS)
#define M_SILU           HAUL__FORM(M_SILU)
#define M_ABS            HAUL__FORM(M_ABS)
#define M_SQRT           HAUL__FORM(M_SQRT)
#define M_FLOOR          HAUL__FORM(M_FLOOR)
#define M_CEIL           HAUL__FORM(M_CEIL)
#define M_RINT           HAUL__FORM(M_RINT)
#define M_EXPM1          HAUL__FORM(M_EXPM1)
#define M_LOG1P          HAUL__FORM(M_LOG1P)
#define M_POW            HAUL__FORM(M_POW)
#define M_FMA            HAUL__FORM(M_FMA)
#define ABS_OF           HAUL__FORM(ABS_OF)
#define SIGNED           HAUL__FORM(SIGNED)
#define EXP_WHOLE        HAUL__FORM(EXP_WHOLE)
#define EXP_REST         HAUL__FORM(EXP_REST)
#define LESSER_BITS      HAUL__FORM(LESSER_BITS)
#define EXP_TIMES        HAUL__FORM(EXP_TIMES)
#define EXP_POWER        HAUL__FORM(EXP_POWER)
#define EXP_IS_FAR       HAUL__FORM(EXP_IS_FAR)
#define LOG_IS_FAR       HAUL__FORM(LOG_IS_FAR)
#define GELU_IS_FAR      HAUL__FORM(GELU_IS_FAR)
#define TRIG_IS_FAR      HAUL__FORM(TRIG_IS_FAR)
#define SIN_OF_NEAR      HAUL__FORM(SIN_OF_NEAR)
#define COS_OF_NEAR      HAUL__FORM(COS_OF_NEAR)
#define PHI_FACTORS      HAUL__FORM(PHI_FACTORS)
#define EXP_NEAR         HAUL__FORM(EXP_NEAR)
#define EXP_BELOW        HAUL__FORM(EXP_BELOW)
#define EXP_OF_NEAR      HAUL__FORM(EXP_OF_NEAR)
#define LOG_NEAR         HAUL__FORM(LOG_NEAR)
#define LOG_OF_NORMAL    HAUL__FORM(LOG_OF_NORMAL)
#define LOG1P_UNIT       HAUL__FORM(LOG1P_UNIT)
#define TRIG_NEAR        HAUL__FORM(TRIG_NEAR)
#define TRIG_OF_NEAR     HAUL__FORM(TRIG_OF_NEAR)
#define TRIG_OF_FAR      HAUL__FORM(TRIG_OF_FAR)
#define PHI_BELOW        HAUL__FORM(PHI_BELOW)
#define GELU_OF_NEAR     HAUL__FORM(GELU_OF_NEAR)
#define two_over_pi      HAUL__FORM(two_over_pi)
#define M_SIGMOID        HAUL__FORM(M_SIGMOID)
#define M_SOFTPLUS       HAUL__FORM(M_SOFTPLUS)
#define M_SILU_BACKWARD  HAUL__FORM(M_SILU_BACKWARD)
#define M_GELU           HAUL__FORM(M_GELU)
#define M_GELU_BACKWARD  HAUL__FORM(M_GELU_BACKWARD)
#define M_BCE            HAUL__FORM(M_BCE)
#define M_FMOD           HAUL__FORM(M_FMOD)
#define M_MOD            HAUL__FORM(M_MOD)
#define M_FLOOR_DIV      HAUL__FORM(M_FLOOR_DIV)
#define M_TRUNC          HAUL__FORM(M_TRUNC)
#define M_TRUNC_DIV      HAUL__FORM(M_TRUNC_DIV)
#define M_COPYSIGN       HAUL__FORM(M_COPYSIGN)
#define M_SIGNBIT        HAUL__FORM(M_SIGNBIT)
#define M_EXP2           HAUL__FORM(M_EXP2)
#define LOG_IN_BASE      HAUL__FORM(LOG_IN_BASE)
#define M_LOG2           HAUL__FORM(M_LOG2)
#define M_LOG10          HAUL__FORM(M_LOG10)
#define LOG1P_POSITIVE   HAUL__FORM(LOG1P_POSITIVE)
#define EXP_HALF         HAUL__FORM(EXP_HALF)
#define M_SINH           HAUL__FORM(M_SINH)
#define M_COSH           HAUL__FORM(M_COSH)
#define M_ASINH          HAUL__FORM(M_ASINH)
#define M_ACOSH          HAUL__FORM(M_ACOSH)
#define M_ATANH          HAUL__FORM(M_ATANH)
#define ASIN_NEAR        HAUL__FORM(ASIN_NEAR)
#define M_ASIN           HAUL__FORM(M_ASIN)
#define M_ACOS           HAUL__FORM(M_ACOS)
#define ATAN_NEAR        HAUL__FORM(ATAN_NEAR)
#define M_ATAN           HAUL__FORM(M_ATAN)
#define M_ATAN2          HAUL__FORM(M_ATAN2)
#define TAN_NEAR         HAUL__FORM(TAN_NEAR)
#define TAN_OF_NEAR      HAUL__FORM(TAN_OF_NEAR)
#define M_TAN            HAUL__FORM(M_TAN)
#define M_HYPOT          HAUL__FORM(M_HYPOT)
#define PHI_NEAR         HAUL__FORM(PHI_NEAR)
#define M_ERFC           HAUL__FORM(M_ERFC)
#define M_ERFINV         HAUL__FORM(M_ERFINV)
#define LGAMMA_NEAR      HAUL__FORM(LGAMMA_NEAR)
#define STIRLING         HAUL__FORM(STIRLING)
#define LGAMMA_POSITIVE  HAUL__FORM(LGAMMA_POSITIVE)
#define M_LGAMMA         HAUL__FORM(M_LGAMMA)
#define ZETA_POSITIVE    HAUL__FORM(ZETA_POSITIVE)
#define M_DIGAMMA        HAUL__FORM(M_DIGAMMA)
#define M_POLYGAMMA      HAUL__FORM(M_POLYGAMMA)
#define M_NEXTAFTER      HAUL__FORM(M_NEXTAFTER)
#define M_LOGADDEXP      HAUL__FORM(M_LOGADDEXP)
#define M_XLOGY          HAUL__FORM(M_XLOGY)
#define M_SOFTPLUS_BETA  HAUL__FORM(M_SOFTPLUS_BETA)
#define M_GELU_TANH      HAUL__FORM(M_GELU_TANH)
#define SUM_OF           HAUL__FORM(SUM_OF)
#define least            HAUL__FORM(least)
#define NEIGHBOURS       HAUL__FORM(NEIGHBOURS)
#define PUT_I64          HAUL__FORM(PUT_I64)
#define CHECKED_INDEX    HAUL__FORM(CHECKED_INDEX)

#define HAUL_KERNEL_DTYPE_f32 1
#include "kernel/constants.h"
#include "kernel/types.h"
/* after the types */
#include "kernel/prelude.h"
/* after the prelude */
#include "kernel/common.h"

#undef HAUL_KERNEL_DTYPE_f32
#undef HAUL__FORM
#undef M1
#undef IS_HALF
#undef IS_BITS
#undef IS_FLOAT
#undef A_IS_F32
#undef LIT
#undef LOAD
#undef STORE
#define HAUL__FORM(name)      haul__f64_##name
#define M1(function)          function
#define HAUL_KERNEL_DTYPE_f64 1
#include "kernel/common.h"

/* ---- the words of a kernel, in which A is a type of its function's ---- */

#undef HAUL_KERNEL_DTYPE_f64
#undef HAUL__FORM
#undef T
#undef A
#undef ACC
#undef V
#undef F16_TO_F32
#undef BF16_TO_F32
#undef F32_TO_F16
#undef F32_TO_BF16
#undef least
#undef NEIGHBOURS
#undef PUT_I64
#undef CHECKED_INDEX
#undef ABS_OF
#undef SIGNED
#undef EXP_WHOLE
#undef EXP_REST
#undef LESSER_BITS
#undef EXP_TIMES
#undef EXP_POWER
#undef EXP_IS_FAR
#undef LOG_IS_FAR
#undef GELU_IS_FAR
#undef TRIG_IS_FAR
#undef SIN_OF_NEAR
#undef COS_OF_NEAR
#undef PHI_FACTORS
#undef EXP_OF_NEAR
#undef LOG_OF_NORMAL
#undef GELU_OF_NEAR
#undef EXP_NEAR
#undef EXP_BELOW
#undef LOG_NEAR
#undef LOG1P_UNIT
#undef TRIG_NEAR
#undef TRIG_OF_NEAR
#undef TRIG_OF_FAR
#undef PHI_BELOW
#undef LOG_IN_BASE
#undef LOG1P_POSITIVE
#undef EXP_HALF
#undef ASIN_NEAR
#undef ATAN_NEAR
#undef TAN_NEAR
#undef TAN_OF_NEAR
#undef PHI_NEAR
#undef LGAMMA_NEAR
#undef STIRLING
#undef LGAMMA_POSITIVE
#undef ZETA_POSITIVE
#undef two_over_pi
#undef M1
#undef IS_HALF
#undef IS_FLOAT
#undef A_IS_F32
#undef LIT
#undef SCALAR
#undef LOAD
#undef STORE
#undef NARROW
#define HAUL__OF(f32_form, f64_form) _Generic((A)0, F32 : f32_form, F64 : f64_form)
#define HAUL__FORM(name)             HAUL__OF(haul__f32_##name, haul__f64_##name)
#define M1(function)                 HAUL__OF(function##f, function)
#define LIT(x)                       HAUL__OF(x##f, x)
#define SCALAR(bits)                 HAUL__OF(BITS_F32((U32)(bits)), BITS_F64(bits))
#include "kernel/custom.h"

/* Elements of f16 and bf16 are U16; haul_half says which of the two. */
#define HAUL__HALF_LOAD(x)  (haul_half == 1 ? haul__f32_F16_TO_F32((U16)(x)) : haul__f32_BF16_TO_F32((U16)(x)))
#define HAUL__HALF_STORE(v) (haul_half == 1 ? haul__f32_F32_TO_F16((F32)(v)) : haul__f32_F32_TO_BF16((F32)(v)))
#define LOAD(x, i)          (haul_half ? (A)HAUL__HALF_LOAD((x)[i]) : (A)(x)[i])
#define STORE(y, i, v)                                                                                                 \
    do {                                                                                                               \
        if (haul_half)                                                                                                 \
            (y)[i] = (T)HAUL__HALF_STORE(v);                                                                           \
        else                                                                                                           \
            (y)[i] = (T)(v);                                                                                           \
    } while (0)

/* ---- Words of kernel text ----
 *
 * - `T`, `A`, `ACC`: the type of an element; the type to compute in, and the type of sums. A and ACC are F32 for f16,
 *   bf16 and f32, and F64 for f64
 * - `LOAD(x, i)`: element i of a buffer of T, as an A
 * - `STORE(y, i, v)`: set element i of a buffer of T to v, rounded once; a statement
 * - `LIT(0.5)`: a literal of type A
 * - `NUMBER(k)`, `SIZE(k)`: number k, an A, and size k, an I64, as the descriptor's function `launch` set them
 * - `GIVEN(x)`: true if the optional operand x is there; otherwise its buffer must not be read
 * - `FOR_ITEMS(i) { }`: runs over the work items of this call. Each item is done once, by one thread, in any order: it
 *   must write only elements that no other item writes, and read none that another one writes
 * - `U8`, `I8` ... `I64`, `F32`, `F64`: types of a fixed size
 * - `GLOBAL`: stands before pointers to elements, as in GLOBAL const T *row = x + i * n
 * - M_EXP M_LOG M_TANH M_ERF M_SIGMOID M_SILU M_SOFTPLUS M_GELU M_SQRT M_ABS M_POW M_SIN M_COS M_EXPM1 M_LOG1P M_FLOOR
 *   M_CEIL M_RINT M_SIGN M_MIN M_MAX M_FMOD M_MOD M_FLOOR_DIV M_EXP2 M_LOG2 M_LOG10 M_TAN M_ASIN M_ACOS M_ATAN M_ATAN2
 *   M_SINH M_COSH M_ASINH M_ACOSH M_ATANH M_HYPOT M_TRUNC M_TRUNC_DIV M_COPYSIGN M_SIGNBIT M_ERFC M_ERFINV M_LGAMMA
 *   M_DIGAMMA M_POLYGAMMA M_LOGADDEXP M_XLOGY M_GELU_TANH: functions of A, as the operations of these names. In f32 all
 *   but M_POW, M_EXPM1, M_LOG1P and M_POLYGAMMA are bit-identical on every device
 *
 * In a kernel whose items are rows, each row has SUM_LANES lanes, which add up parts of it. On CUDA each lane is a
 * thread, elsewhere a turn of a loop; the sums are the same.
 *
 * - `FOR_ROWS(i) { }`: FOR_ITEMS for a kernel of rows
 * - `LANE_VALUES(A, s)`: declares a value for each lane, OF_LANE(s, l)
 * - `EACH_LANE(l, n) { }`: runs over the lanes below n, which is at most SUM_LANES
 * - `LANE_TREE(A, s, SUM_OF)`: adds up the values of all lanes, in pairs; M_MAX and M_MIN work in the place of SUM_OF,
 *   too. OF_FIRST_LANE(s) is the result then
 * - `IS_FIRST_LANE`: around code that runs once for a row */

/* ---- Macros that define kernels ---- */

#undef FOR_ITEMS
#undef VECTOR_LOOP
#undef KERNEL1
#undef KERNEL2
#undef KERNEL3
#undef KERNEL4
#undef KERNEL5
#undef KERNEL6
#undef CAT
#undef CAT_
#undef HAUL_NAME
#undef BUFFER
#undef COMMA
#if defined(__GNUC__) && !defined(__clang__)
#define VECTOR_LOOP _Pragma("GCC ivdep")
#else
#define VECTOR_LOOP
#endif
#define FOR_ITEMS(i) VECTOR_LOOP for (I64 i = haul_first; i < haul_last; i++)

#define HAUL__UNUSED    __attribute__((unused))
#define HAUL__LIST(...) {__VA_ARGS__}
#define HAUL__TAKE(k, type, b)                                                                                         \
    enum { haul_at_##b = k };                                                                                          \
    type *b HAUL__UNUSED = (type *)haul_buffers[k] + (p.at[k] < 0 ? 0 : p.at[k]);

/* The kernel's function for one dtype. */
#define HAUL__COMPILE(name, dtype, element, sum, half, take, ...)                                                      \
    static void haul__##name##_##dtype(void *const *haul_buffers, const void *haul_params, I64 haul_first,             \
                                       I64 haul_last)                                                                  \
    {                                                                                                                  \
        typedef element T HAUL__UNUSED;                                                                                \
        typedef sum A     HAUL__UNUSED;                                                                                \
        typedef sum ACC   HAUL__UNUSED;                                                                                \
        enum { haul_half = half };                                                                                     \
        const haul_kernel_params p = *(const haul_kernel_params *)haul_params;                                         \
        take __VA_ARGS__                                                                                               \
    }
#define HAUL__KERNEL(kernel, count, buffers, take, string, ...)                                                        \
    HAUL__COMPILE(kernel, f16, U16, F32, 1, take, __VA_ARGS__)                                                         \
    HAUL__COMPILE(kernel, bf16, U16, F32, 2, take, __VA_ARGS__)                                                        \
    HAUL__COMPILE(kernel, f32, F32, F32, 0, take, __VA_ARGS__)                                                         \
    HAUL__COMPILE(kernel, f64, F64, F64, 0, take, __VA_ARGS__)                                                         \
    static const haul_kernel kernel HAUL__UNUSED = {                                                                   \
        #kernel, __FILE__, __LINE__, count, HAUL__LIST buffers, string,                                                \
        haul__##kernel##_f16, haul__##kernel##_bf16, haul__##kernel##_f32, haul__##kernel##_f64}

/* Define a kernel: `static const haul_kernel name`, for .kernel of a descriptor (custom.h). HAUL_KERNEL3 has three
 * buffers, and so on.
 *
 * - name: the name of the kernel, at most 56 letters
 * - T0, T1, T2, T3, T4, T5: the types of the buffers, "T" or "const T" or a type of a fixed size
 * - b0, b1, b2, b3, b4, b5: the names of the buffers: the operation's results and then its operands, row-major and
 *   without gaps
 * - ...: the text, in braces */
#define HAUL_KERNEL2(name, T0, b0, T1, b1, ...)                                                                        \
    HAUL__KERNEL(name, 2, ({#T0, #b0}, {#T1, #b1}),                                                                    \
                 HAUL__TAKE(0, T0, b0) HAUL__TAKE(1, T1, b1),                                                          \
                 #__VA_ARGS__, __VA_ARGS__)
#define HAUL_KERNEL3(name, T0, b0, T1, b1, T2, b2, ...)                                                                \
    HAUL__KERNEL(name, 3, ({#T0, #b0}, {#T1, #b1}, {#T2, #b2}),                                                        \
                 HAUL__TAKE(0, T0, b0) HAUL__TAKE(1, T1, b1) HAUL__TAKE(2, T2, b2),                                    \
                 #__VA_ARGS__, __VA_ARGS__)
#define HAUL_KERNEL4(name, T0, b0, T1, b1, T2, b2, T3, b3, ...)                                                        \
    HAUL__KERNEL(name, 4, ({#T0, #b0}, {#T1, #b1}, {#T2, #b2}, {#T3, #b3}),                                            \
                 HAUL__TAKE(0, T0, b0) HAUL__TAKE(1, T1, b1) HAUL__TAKE(2, T2, b2) HAUL__TAKE(3, T3, b3),              \
                 #__VA_ARGS__, __VA_ARGS__)
#define HAUL_KERNEL5(name, T0, b0, T1, b1, T2, b2, T3, b3, T4, b4, ...)                                                \
    HAUL__KERNEL(name, 5, ({#T0, #b0}, {#T1, #b1}, {#T2, #b2}, {#T3, #b3}, {#T4, #b4}),                                \
                 HAUL__TAKE(0, T0, b0) HAUL__TAKE(1, T1, b1) HAUL__TAKE(2, T2, b2) HAUL__TAKE(3, T3, b3)               \
                 HAUL__TAKE(4, T4, b4),                                                                                \
                 #__VA_ARGS__, __VA_ARGS__)
#define HAUL_KERNEL6(name, T0, b0, T1, b1, T2, b2, T3, b3, T4, b4, T5, b5, ...)                                        \
    HAUL__KERNEL(name, 6, ({#T0, #b0}, {#T1, #b1}, {#T2, #b2}, {#T3, #b3}, {#T4, #b4}, {#T5, #b5}),                    \
                 HAUL__TAKE(0, T0, b0) HAUL__TAKE(1, T1, b1) HAUL__TAKE(2, T2, b2) HAUL__TAKE(3, T3, b3)               \
                 HAUL__TAKE(4, T4, b4) HAUL__TAKE(5, T5, b5),                                                          \
                 #__VA_ARGS__, __VA_ARGS__)

#endif
#endif

/* How kernels on GPUs find elements: integer division, for which they have no instruction, and the elements of a
 * pointwise work item. CUDA's prelude and the text behind it are read as C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <math.h>
#include <string.h>

#include "device/device.h"

#define __device__
#define __forceinline__           inline
#define __umulhi(a, b)            ((unsigned)((unsigned long long)(a) * (b) >> 32))
#define __shfl_sync(m, s, l)      (s)
#define __shfl_down_sync(m, s, w) (s)
#define atomicCAS(at, old, value) __sync_val_compare_and_swap(at, old, value)
static const struct {
    unsigned x;
} threadIdx __attribute__((unused)), blockDim __attribute__((unused)), gridDim __attribute__((unused));
static unsigned __float_as_uint(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static float __uint_as_float(unsigned bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static long long __double_as_longlong(double x)
{
    long long bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static double __longlong_as_double(long long bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define HAUL_KERNEL           1
#define HAUL_KERNEL_DTYPE_f32 1
#define HAUL_KERNEL_SUFFIX    f32
/* before the prelude, as in kernel text */
#include "kernels/constants.h"
/* the prelude */
#include "backends/cuda/prelude.h"
/* the types of the prelude serve the host's side too */
#define HAUL_KERNELS_TYPES_H
#include "kernels/common.h"
/* after the types */
#include "engine/layout/layout.h"

static uint64_t state = 1;

/* Numbers of every length. */
static int64_t random_number(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state ^ state >> 29) >> (1 + (state >> 58) % 63));
}

static void test_division__quotients_of_any_length(void **unused)
{
    (void)unused;
    for (int i = 0; i < 200000; i++) {
        int64_t a = random_number(), b = random_number();
        b += b == 0;
        assert_int_equal(QUOTIENT(a, b), a / b);
        assert_int_equal(REMAINDER(a, b), a % b);
    }
    for (int64_t b = 1; b > 0 && b < INT64_MAX / 2; b *= 2)
        for (int64_t a = b - 1; a <= b + 1; a++) {
            assert_int_equal(QUOTIENT(a, b), a / b);
            assert_int_equal(QUOTIENT(INT64_MAX, b), INT64_MAX / b);
            assert_int_equal(QUOTIENT(INT64_MAX, b + 1), INT64_MAX / (b + 1));
        }
    assert_int_equal(QUOTIENT(INT64_MAX, INT64_MAX), 1);
}

/* Positions before an edge: the result is not used, but it ends soon. */
static void test_division__negative_numbers_give_nothing(void **unused)
{
    (void)unused;
    assert_int_equal(QUOTIENT(-1, 3), 0);
    assert_int_equal(QUOTIENT(INT64_MIN, 1), 0);
}

/* ---- pointwise work items ---- */

enum { MOST = 4096 };

static struct haul_device gpu = {.properties = {.kind = HAUL_KIND_GPU}, .strided = true};

/* A tensor without data, enough for haul__layout. */
static haul_tensor operand(haul_shape shape, const int64_t *strides, int64_t offset)
{
    haul_tensor t = {.shape = shape, .offset = offset, .count = 1, .dtype = HAUL_F32};
    int64_t     dense = 1;
    t.contiguous = true;
    for (int d = shape.ndim - 1; d >= 0; d--) {
        t.count *= shape.dims[d];
        t.strides[d] = strides[d];
        t.contiguous = t.contiguous && strides[d] == dense;
        dense *= shape.dims[d];
    }
    return t;
}

/* Every element of the result is met once, with the operands' elements that belong to it. */
static void check_items(const pointwise_params *params, const haul_tensor *const *operands, int count)
{
    static unsigned char   met[MOST];
    const pointwise_params p = *params;
    int64_t                elements = operands[0]->count, total = 0;
    memset(met, 0, sizeof met);
    for (I64 i = 0; i < p.items; i++) {
        I64       at[4];
        const int n = pointwise_pack(&p, i, count, at);
        assert_true(n >= 1 && n <= p.pack);
        for (int j = 0; j < n; j++, total++) {
            int64_t place[4], index[HAUL_MAX_DIMS], rest;
            for (int k = 0; k < count; k++)
                place[k] = at[k] + j * p.strides[k].of[p.ndim - 1];
            /* the result is dense: its position gives the index */
            rest = place[0] - operands[0]->offset;
            assert_true(rest >= 0 && rest < elements && !met[rest]);
            met[rest] = 1;
            for (int d = operands[0]->shape.ndim - 1; d >= 0; d--) {
                index[d] = rest % operands[0]->shape.dims[d];
                rest /= operands[0]->shape.dims[d];
            }
            for (int k = 1; k < count; k++) {
                int64_t expected = operands[k]->offset;
                for (int d = 0; d < operands[k]->shape.ndim; d++)
                    expected += index[d] * operands[k]->strides[d];
                assert_int_equal(place[k], expected);
            }
            if (p.pack > 1 && n == p.pack && j == 0)
                for (int k = 0; k < count; k++)
                    assert_true(p.strides[k].of[p.ndim - 1] == 0 || place[k] % p.pack == 0);
        }
    }
    assert_int_equal(total, elements);
}

static void test_pointwise__items_cover_the_result_in_every_layout(void **unused)
{
    static const struct {
        haul_shape shape;
        int64_t    strides[3][4];
        int64_t    offsets[3];
        int        pack;
    } cases[] = {
        {{1, {1003}}, {{1}, {1}, {1}}, {0, 0, 0}, 4},               /* dense, with a rest */
        {{1, {1003}}, {{1}, {1}, {1}}, {0, 1, 0}, 1},               /* behind the first element */
        {{1, {1003}}, {{1}, {1}, {0}}, {4, 8, 3}, 4},               /* with one element */
        {{1, {1000}}, {{1}, {3}, {1}}, {0, 0, 0}, 1},               /* every third */
        {{2, {12, 20}}, {{20, 1}, {20, 1}, {0, 1}}, {0, 0, 0}, 4},  /* a row for all rows */
        {{2, {12, 20}}, {{20, 1}, {20, 1}, {1, 0}}, {0, 0, 5}, 4},  /* a column for all columns */
        {{2, {12, 21}}, {{21, 1}, {21, 1}, {0, 1}}, {0, 0, 0}, 1},  /* rows that are not whole */
        {{2, {12, 20}}, {{20, 1}, {24, 1}, {20, 1}}, {0, 4, 0}, 4}, /* part of a larger one */
        {{2, {12, 20}}, {{20, 1}, {22, 1}, {20, 1}}, {0, 4, 0}, 1}, /* not aligned */
        {{2, {12, 20}}, {{20, 1}, {1, 12}, {20, 1}}, {0, 0, 0}, 1}, /* transposed */
        {{4, {3, 5, 7, 8}}, {{280, 56, 8, 1}, {280, 1, 40, 5}, {0, 8, 0, 0}}, {0, 2, 1}, 1}, /* channels-last, bias */
        {{4, {3, 5, 7, 8}}, {{280, 56, 8, 1}, {280, 56, 8, 1}, {0, 8, 0, 0}}, {0, 8, 1}, 4},
        {{3, {7, 11, 13}}, {{143, 13, 1}, {1, 7, 77}, {0, 0, 1}}, {0, 0, 0}, 1},
    };
    (void)unused;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        haul_tensor        tensors[3];
        haul_tensor       *operands[3];
        const haul_tensor *constant[3];
        pointwise_params   p;
        for (int k = 0; k < 3; k++) {
            tensors[k] = operand(cases[c].shape, cases[c].strides[k], cases[c].offsets[k]);
            operands[k] = &tensors[k];
            constant[k] = &tensors[k];
        }
        assert_true(tensors[0].count <= MOST);
        haul__layout(&p, &cases[c].shape, operands, 3);
        haul__layout_packs(&p, &gpu, HAUL_F32, 3);
        assert_int_equal(p.pack, cases[c].pack);
        assert_true(p.narrow);
        check_items(&p, constant, 3);
        p.narrow = 0; /* as for tensors that are larger */
        check_items(&p, constant, 3);
    }
}

static void test_pointwise__larger_tensors_take_64_bits(void **unused)
{
    haul_shape       shape = HAUL_SHAPE(65536, 65536);
    haul_tensor      y = operand(shape, (const int64_t[]){65536, 1}, 0), x = operand(shape, (const int64_t[]){0, 1}, 0);
    pointwise_params p;
    (void)unused;
    haul__layout(&p, &shape, (haul_tensor *[]){&y, &x}, 2);
    haul__layout_packs(&p, &gpu, HAUL_F16, 2);
    assert_false(p.narrow);
    assert_int_equal(p.pack, 8);
    assert_int_equal(p.items, (int64_t)65536 * 65536 / 8);
    I64 at[4];
    assert_int_equal(pointwise_pack(&p, p.items - 1, 2, at), 8);
    assert_int_equal(at[0], (int64_t)65536 * 65536 - 8);
    assert_int_equal(at[1], 65536 - 8);
}

static void test_pointwise__divisions_by_multiplication(void **unused)
{
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        int64_t          d = random_number() % 70000 + 1, n = random_number() % INT32_MAX;
        haul_shape       shape = HAUL_SHAPE(30000, d);
        haul_tensor      y = operand(shape, (const int64_t[]){d, 1}, 0), x = operand(shape, (const int64_t[]){1, 0}, 0);
        pointwise_params p;
        haul__layout(&p, &shape, (haul_tensor *[]){&y, &x}, 2);
        haul__layout_packs(&p, &gpu, HAUL_F32, 2);
        if (p.ndim == 2) {
            assert_true(p.narrow);
            for (int64_t near = -1; near <= 1; near++) {
                U32 m = (U32)(near == 0 ? n : n / d * d + (near + 1) / 2 * (d - 1));
                assert_int_equal((MULHI32(m, p.factors[1]) + m) >> p.shifts[1], m / (U32)d);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_division__quotients_of_any_length),
        cmocka_unit_test(test_division__negative_numbers_give_nothing),
        cmocka_unit_test(test_pointwise__items_cover_the_result_in_every_layout),
        cmocka_unit_test(test_pointwise__larger_tensors_take_64_bits),
        cmocka_unit_test(test_pointwise__divisions_by_multiplication),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

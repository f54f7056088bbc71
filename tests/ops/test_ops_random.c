/* Random numbers: Philox against a plain version of it and the published vectors, the same on every device; numbers
 * made of its words; the generator's state; dropout.
 *
 * ctest: cuda; labels=threads; cuda-labels=none */
#include "base/alloc.h"
#include "support/linalg.h"

/* ---- Philox 4x32-10 as the paper writes it ---- */

static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53 * c[0], b = (uint64_t)0xCD9E8D57 * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1],
                            (uint32_t)a};
        memcpy(c, next, sizeof c);
        k[0] += 0x9E3779B9;
        k[1] += 0xBB67AE85;
    }
    memcpy(out, c, sizeof c);
}

/* Word i of a draw. */
static uint32_t word(uint64_t seed, uint64_t offset, int64_t i)
{
    uint64_t counter = offset + (uint64_t)i / 4;
    uint32_t out[4];
    philox((uint32_t[]){(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0},
           (uint32_t[]){(uint32_t)seed, (uint32_t)(seed >> 32)}, out);
    return out[i % 4];
}

static void test_random__published_vectors(void **state)
{
    (void)state;
    /* Random123's kat_vectors for philox4x32, 10 rounds */
    static const uint32_t in[3][6] = {
        {0, 0, 0, 0, 0, 0},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0},
    };
    static const uint32_t want[3][4] = {
        {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        philox(in[i], in[i] + 4, out);
        assert_memory_equal(out, want[i], sizeof out);
    }
}

enum { MANY = 1003 }; /* no multiple of anything */

static void words(haul_device *device)
{
    static const haul_random_state starts[] = {
        {0, 0}, {42, 7}, {UINT64_C(0x123456789abcdef0), 0xfffffff0}, {1, UINT64_MAX}};
    haul_set_device(device);
    for (int s = 0; s < 4; s++) {
        haul_random_state_set(starts[s]);
        uint32_t got[MANY];
        assert_int_equal(haul_read(haul_random_bits(HAUL_SHAPE(MANY)), got, sizeof got), HAUL_OK);
        for (int i = 0; i < MANY; i++)
            assert_int_equal(got[i], word(starts[s].seed, starts[s].offset, i));
        assert_int_equal(haul_random_state_get().seed, starts[s].seed);
        assert_true(haul_random_state_get().offset == starts[s].offset + (MANY + 3) / 4);
    }
    haul_random_state_set((haul_random_state){0, 0});
    uint32_t first[4];
    assert_int_equal(haul_read(haul_random_bits(HAUL_SHAPE(4)), first, sizeof first), HAUL_OK);
    assert_memory_equal(first, ((const uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}), sizeof first);
}

static void test_random__words_are_those_of_philox(void **state)
{
    (void)state;
    on_devices(words);
}

/* ---- numbers made of the words ---- */

static void uniforms(haul_device *device)
{
    haul_set_device(device);
    haul_random_state_set((haul_random_state){3, 11});
    float got[MANY];
    assert_int_equal(haul_read(haul_uniform(HAUL_F32, HAUL_SHAPE(MANY), 0, 1), got, sizeof got), HAUL_OK);
    for (int i = 0; i < MANY; i++)
        assert_true(got[i] == (float)(word(3, 11, i) >> 8) / 16777216.0f);
    assert_true(haul_random_state_get().offset == 11 + (MANY + 3) / 4);
    haul_random_state_set((haul_random_state){3, 11});
    double wide[MANY];
    assert_int_equal(haul_read(haul_uniform(HAUL_F64, HAUL_SHAPE(MANY), -1, 3), wide, sizeof wide), HAUL_OK);
    for (int i = 0; i < MANY; i++) {
        uint64_t bits = (uint64_t)word(3, 11, 2 * i) << 21 | word(3, 11, 2 * i + 1) >> 11;
        assert_true(wide[i] == -1 + (double)bits / 9007199254740992.0 * 4);
    }
    assert_true(haul_random_state_get().offset == 11 + (2 * MANY + 3) / 4);
}

static void test_random__uniforms_from_24_and_53_bits(void **state)
{
    (void)state;
    on_devices(uniforms);
}

/* Where low + u (high - low) rounds to high. */
static void half_open(haul_device *device)
{
    haul_set_device(device);
    haul_manual_seed(5);
    haul_tensor *x = haul_uniform(HAUL_F32, HAUL_SHAPE(200000), 1000, 1000.0003);
    assert_true(haul_item(haul_max(x)) < (double)(1000.0f + 0.0003f));
    assert_true(haul_item(haul_min(x)) >= 1000);
    assert_float_equal(haul_item(haul_uniform(HAUL_F32, HAUL_SCALAR_SHAPE, 2, 2)), 2, 0);
}

static void test_random__uniforms_stay_below_high(void **state)
{
    (void)state;
    on_devices(half_open);
}

static double ulps(double got, double want, bool wide)
{
    double unit = wide ? fabs(nextafter(want, INFINITY) - want)
                       : (double)(nextafterf(fabsf((float)want), INFINITY) - fabsf((float)want));
    return fabs(got - want) / unit;
}

/* Box and Muller with the host's library, in long double. */
static void normals(haul_device *device)
{
    const long double turn = 6.283185307179586476925286766559L;
    haul_set_device(device);
    haul_random_state_set((haul_random_state){9, 1});
    float got[MANY];
    assert_int_equal(haul_read(haul_normal(HAUL_F32, HAUL_SHAPE(MANY), 0, 1), got, sizeof got), HAUL_OK);
    for (int i = 0; i < MANY; i++) {
        float       u = (float)word(9, 1, i & ~1) * 2.3283064365386963e-10f + 1.1641532182693481e-10f;
        long double r = sqrtl(-2 * logl(u)), a = turn * ((float)(word(9, 1, i | 1) >> 8) / 16777216.0f);
        double      want = (double)(r * (i & 1 ? sinl(a) : cosl(a)));
        if (ulps(got[i], want, false) > 4)
            fail_msg("normal %d is %.9g, not %.9g, on %s", i, got[i], want, haul_device_name(device));
    }
    haul_random_state_set((haul_random_state){9, 1});
    double wide[MANY];
    assert_int_equal(haul_read(haul_normal(HAUL_F64, HAUL_SHAPE(MANY), 0, 1), wide, sizeof wide), HAUL_OK);
    for (int i = 0; i < MANY; i++) {
        double u[2];
        for (int k = 0; k < 2; k++) {
            int64_t at = 4 * (i / 2) + 2 * k;
            u[k] = (double)((uint64_t)word(9, 1, at) << 21 | word(9, 1, at + 1) >> 11);
        }
        long double r = sqrtl(-2 * logl((u[0] + 1) / 9007199254740992.0L)), a = turn * (u[1] / 9007199254740992.0L);
        double      want = (double)(r * (i & 1 ? sinl(a) : cosl(a)));
        if (ulps(wide[i], want, true) > 4)
            fail_msg("normal %d is %.17g, not %.17g, on %s", i, wide[i], want, haul_device_name(device));
    }
}

static void test_random__normals_within_4_ulp(void **state)
{
    (void)state;
    on_devices(normals);
}

static void moments(haul_device *device)
{
    haul_set_device(device);
    haul_manual_seed(1);
    haul_tensor *x = haul_normal(HAUL_F64, HAUL_SHAPE(400000), 2, 3),
                *d = haul_mul_scalar(haul_sub_scalar(x, 2), 1.0 / 3);
    assert_float_equal(haul_item(haul_mean(d)), 0, 0.01);
    assert_float_equal(haul_item(haul_mean(haul_square(d))), 1, 0.02);
    assert_float_equal(haul_item(haul_mean(haul_mul(d, haul_square(d)))), 0, 0.03);
    assert_float_equal(haul_item(haul_mean(haul_square(haul_square(d)))), 3, 0.1);
    assert_float_equal(haul_item(haul_normal(HAUL_F32, HAUL_SCALAR_SHAPE, 5, 0)), 5, 0);
}

static void test_random__moments_of_normals(void **state)
{
    (void)state;
    on_devices(moments);
}

static void integers(haul_device *device)
{
    haul_set_device(device);
    haul_random_state_set((haul_random_state){77, 0});
    int64_t got[MANY];
    assert_int_equal(haul_read(haul_randint(HAUL_I64, HAUL_SHAPE(MANY), -3, 10), got, sizeof got), HAUL_OK);
    int seen[13] = {0};
    for (int i = 0; i < MANY; i++) {
        /* the upper half of bits x 13, from two halves that do not overflow */
        uint64_t bits = (uint64_t)word(77, 0, 2 * i) << 32 | word(77, 0, 2 * i + 1);
        uint64_t high = ((bits >> 32) * 13 + ((bits & 0xffffffff) * 13 >> 32)) >> 32;
        assert_int_equal(got[i], -3 + (int64_t)high);
        seen[got[i] + 3]++;
    }
    for (int k = 0; k < 13; k++)
        assert_in_range(seen[k], 45, 115); /* 77 each, give or take four deviations */
    assert_int_equal(haul_read(haul_randint(HAUL_I64, HAUL_SHAPE(MANY), INT64_MIN, INT64_MAX), got, sizeof got),
                     HAUL_OK);
    int negative = 0;
    for (int i = 0; i < MANY; i++)
        negative += got[i] < 0;
    assert_in_range(negative, 420, 580);
    haul_tensor *bytes = haul_randint(HAUL_U8, HAUL_SHAPE(5000), 0, 256);
    assert_int_equal(haul_item_i64(haul_max(bytes)), 255);
    assert_int_equal(haul_item_i64(haul_min(bytes)), 0);
    haul_tensor *floats = haul_randint(HAUL_F32, HAUL_SHAPE(100), 4, 6);
    assert_float_equal(haul_item(haul_max(floats)), 5, 0);
}

static void test_random__integers(void **state)
{
    (void)state;
    on_devices(integers);
}

static void permutations(haul_device *device)
{
    static int64_t first[5000];
    int64_t        order[5000];
    bool           seen[5000] = {false};
    haul_set_device(device);
    haul_manual_seed(4);
    haul_tensor *p = haul_permutation(5000);
    assert_ptr_equal(haul_tensor_device(p), device);
    assert_int_equal(haul_read(p, order, sizeof order), HAUL_OK);
    int fixed = 0;
    for (int i = 0; i < 5000; i++) {
        assert_in_range(order[i], 0, 4999);
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
        fixed += order[i] == i;
    }
    assert_in_range(fixed, 0, 8); /* one is expected */
    if (device == haul_cpu())
        memcpy(first, order, sizeof order);
    assert_memory_equal(order, first, sizeof order);
    assert_int_equal(haul_read(haul_permutation(5000), order, sizeof order), HAUL_OK);
    assert_memory_not_equal(order, first, sizeof order);
    assert_int_equal(haul_tensor_count(haul_permutation(0)), 0);
    assert_int_equal(haul_item_i64(haul_permutation(1)), 0);
}

static void test_random__permutations(void **state)
{
    (void)state;
    on_devices(permutations);
}

/* ---- devices and threads ---- */

static haul_tensor *draws(void *context)
{
    (void)context;
    haul_manual_seed(123);
    haul_tensor *u = haul_uniform(HAUL_F32, HAUL_SHAPE(70000), -2, 5),
                *n = haul_normal(HAUL_F32, HAUL_SHAPE(70001), 1, 2);
    return haul_cat((haul_tensor *[]){u, n}, 2, 0);
}

static void test_random__same_bits_for_threads_and_devices(void **state)
{
    (void)state;
    static float first[140001], other[140001];
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    assert_same_for_threads(draws, NULL);
    for (int i = 0; i < count; i++) {
        haul_scope *scope = haul_scope_push();
        haul_set_device(devices[i]);
        assert_int_equal(haul_read(draws(NULL), i ? other : first, sizeof first), HAUL_OK);
        if (i)
            assert_memory_equal(other, first, sizeof first);
        haul_scope_pop(scope);
    }
}

static void test_random__state(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    haul_manual_seed(8);
    haul_uniform(HAUL_F32, HAUL_SHAPE(3), 0, 1);
    haul_random_state kept = haul_random_state_get();
    assert_true(kept.seed == 8 && kept.offset == 1);
    double a = haul_item(haul_normal(HAUL_F32, HAUL_SCALAR_SHAPE, 0, 1));
    assert_true(a != haul_item(haul_normal(HAUL_F32, HAUL_SCALAR_SHAPE, 0, 1)));
    haul_random_state_set(kept);
    assert_true(a == haul_item(haul_normal(HAUL_F32, HAUL_SCALAR_SHAPE, 0, 1)));
    /* a draw that fails uses nothing up */
    kept = haul_random_state_get();
    assert_refused(haul_uniform(HAUL_I32, HAUL_SHAPE(3), 0, 1), HAUL_DTYPE, "haul_randint");
    assert_refused(haul_uniform(HAUL_F32, HAUL_SHAPE(-3), 0, 1), HAUL_SHAPE, "haul_uniform");
    assert_true(haul_random_state_get().offset == kept.offset);
    haul_scope_pop(scope);
}

static void test_random__errors(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_refused(haul_uniform(HAUL_F32, HAUL_SHAPE(1), 1, 0), HAUL_INVALID_ARGUMENT, "[1, 0)");
    assert_refused(haul_uniform(HAUL_F32, HAUL_SHAPE(1), NAN, 0), HAUL_INVALID_ARGUMENT, "finite");
    assert_refused(haul_normal(HAUL_F32, HAUL_SHAPE(1), 0, -1), HAUL_INVALID_ARGUMENT, "deviation -1");
    assert_refused(haul_randint(HAUL_U8, HAUL_SHAPE(1), 0, 257), HAUL_INVALID_ARGUMENT, "more than the dtype");
    assert_refused(haul_randint(HAUL_I32, HAUL_SHAPE(1), 3, 3), HAUL_INVALID_ARGUMENT, "[3, 3) is empty");
    assert_refused(haul_randint(HAUL_BOOL, HAUL_SHAPE(1), 0, 1), HAUL_DTYPE, "bool");
    assert_refused(haul_permutation(-1), HAUL_INVALID_ARGUMENT, "-1 elements");
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2));
    assert_refused(haul_dropout(x, 1.5, true), HAUL_INVALID_ARGUMENT, "p is 1.5");
    assert_refused(haul_dropout(haul_cast(x, HAUL_I32), 0.5, true), HAUL_DTYPE, "floating");
    haul_scope_pop(scope);
}

/* ---- dropout ---- */

static void dropout(haul_device *device)
{
    haul_set_device(device);
    haul_random_state_set((haul_random_state){6, 2});
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(17, 59)), true), *g;
    haul_tensor *y = haul_dropout(x, 0.25, true);
    double       want[MANY];
    for (int i = 0; i < MANY; i++)
        want[i] = word(6, 2, i) < 0x40000000 ? 0 : (double)(float)(1 / 0.75);
    assert_close(y, want, MANY, 0, "dropout");
    haul_uniform(HAUL_F32, HAUL_SHAPE(100), 0, 1); /* the gradient draws its own words again, wherever the state is */
    assert_int_equal(haul_grad(y, &x, 1, &g, .seed = haul_ones_like(y)), HAUL_OK);
    assert_close(g, want, MANY, 0, "its gradient");
    double again[MANY];
    assert_int_equal(read_values(haul_dropout(x, 0.25, true), again, MANY), HAUL_OK);
    assert_memory_not_equal(again, want, sizeof want);
    assert_float_equal(haul_item(haul_sum(haul_dropout(x, 1, true))), 0, 0);
    assert_float_equal(haul_item(haul_sum(haul_dropout(x, 0, true))), MANY, 0);
    assert_float_equal(haul_item(haul_sum(haul_dropout(x, 0.9, false))), MANY, 0);
}

static void test_random__dropout_draws_its_mask_again(void **state)
{
    (void)state;
    on_devices(dropout);
}

/* ---- into given tensors ---- */

static void assert_same_values(haul_tensor *a, haul_tensor *b)
{
    assert_true(haul_item(haul_max(haul_abs(haul_sub(haul_cast(a, HAUL_F64), haul_cast(b, HAUL_F64))))) == 0);
}

/* The same numbers as in a tensor of their own, also in the middle of another one or across its rows. */
static void into(haul_device *device)
{
    haul_set_device(device);
    haul_shape        shape = HAUL_SHAPE(5, 7);
    haul_tensor      *want[3], *out[3];
    haul_random_state start = {7, 3}, end;
    haul_random_state_set(start);
    want[0] = haul_uniform(HAUL_F32, shape, -1, 2);
    want[1] = haul_normal(HAUL_F64, shape, 1, 3);
    want[2] = haul_randint(HAUL_I16, shape, -9, 9);
    end = haul_random_state_get();
    out[0] = haul_slice(haul_zeros(HAUL_F32, HAUL_SHAPE(9, 7)), 0, 2, 7, 1);
    out[1] = haul_transpose(haul_zeros(HAUL_F64, HAUL_SHAPE(7, 5)), 0, 1);
    out[2] = haul_zeros(HAUL_I16, shape);
    haul_set_device(haul_cpu()); /* out's device counts, not this one */
    haul_random_state_set(start);
    assert_int_equal(haul_uniform_into(out[0], -1, 2), HAUL_OK);
    assert_int_equal(haul_normal_into(out[1], 1, 3), HAUL_OK);
    assert_int_equal(haul_randint_into(out[2], -9, 9), HAUL_OK);
    assert_true(haul_random_state_get().offset == end.offset);
    for (int i = 0; i < 3; i++)
        assert_same_values(out[i], want[i]);
    haul_tensor *x = haul_to(haul_ones(HAUL_F32, shape), device), *y;
    haul_random_state_set(start);
    y = haul_dropout(x, 0.5, true);
    haul_random_state_set(start);
    assert_int_equal(haul_dropout_into(out[0], x, 0.5, true), HAUL_OK);
    assert_same_values(out[0], y);
    haul_random_state_set(start);
    assert_int_equal(haul_dropout_into(x, x, 0.5, true), HAUL_OK);
    assert_same_values(x, y);
    assert_int_equal(haul_dropout_into(out[0], x, 0.5, false), HAUL_OK);
    assert_same_values(out[0], x);
}

static void test_random__into(void **state)
{
    (void)state;
    on_devices(into);
}

/* A draw into what cannot take it, or without memory for it, uses nothing up. */
static void test_random__failures_give_back(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(9)), true);
    haul_tensor *wide = haul_expand(haul_ones(HAUL_F32, HAUL_SHAPE(1)), HAUL_SHAPE(9));
    haul_random_state_set((haul_random_state){6, 5});
    assert_int_equal(haul_uniform_into(NULL, 0, 1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_uniform_into(wide, 0, 1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_normal_into(x, 0, 1), HAUL_GRAPH);
    assert_int_equal(haul_randint_into(haul_zeros(HAUL_BOOL, HAUL_SHAPE(3)), 0, 4), HAUL_DTYPE);
    assert_int_equal(haul_dropout_into(wide, haul_detach(x), 0.5, true), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    int failures = 0;
    for (int64_t nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_DEVICE, nth);
        haul_tensor *y = haul_dropout(x, 0.5, true);
        bool         reached = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        if (!reached)
            break;
        haul_error_clear();
        failures += is_failed(y);
        if (haul_tensor_is_valid(y))
            haul_random_state_set((haul_random_state){6, 5});
        assert_true(haul_random_state_get().offset == 5);
    }
    assert_true(failures > 1);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random__published_vectors),
        cmocka_unit_test(test_random__words_are_those_of_philox),
        cmocka_unit_test(test_random__uniforms_from_24_and_53_bits),
        cmocka_unit_test(test_random__uniforms_stay_below_high),
        cmocka_unit_test(test_random__normals_within_4_ulp),
        cmocka_unit_test(test_random__moments_of_normals),
        cmocka_unit_test(test_random__integers),
        cmocka_unit_test(test_random__permutations),
        cmocka_unit_test(test_random__same_bits_for_threads_and_devices),
        cmocka_unit_test(test_random__state),
        cmocka_unit_test(test_random__errors),
        cmocka_unit_test(test_random__dropout_draws_its_mask_again),
        cmocka_unit_test(test_random__into),
        cmocka_unit_test(test_random__failures_give_back),
    };
    return cmocka_run_group_tests_name("ops_random", tests, NULL, NULL);
}

/* The CPU's Winograd convolutions of numbers that differ much: each result is near its own sum, whatever its neighbours
 * are, in all passes and at each instruction level. An infinity or NaN reaches the results that depend on it, and no
 * others. Neither the number of threads nor other pictures of the call change bits. */
#include <float.h>
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/winograd.h"

/* The bound of include/haul/conv.h: the error of a result in relation to its sum of magnitudes. */
#define BOUND 0x1p-11

/* ---- comparison ---- */

/* The largest error of a level's results, in relation to their sums of magnitudes. */
static double worst;

static double largest(const memory *m)
{
    double most = 0;
    for (int64_t i = 0; i < m->count; i++)
        most = fmax(most, fabs((double)m->values[i]));
    return most;
}

static bool is_near(const problem *p, int64_t i, float got, double least)
{
    sum          s = sum_of(p, i);
    const double bias = bias_of(p, i), want = s.value + bias;
    if (!isfinite(s.value))
        return isnan(s.value) ? isnan(got) || (p->c.relu && got == 0)
                              : got == (p->c.relu && s.value < 0 ? 0 : (float)s.value);
    if (s.magnitude > FLT_MAX) /* plain sums overflow, too */
        return true;
    s.magnitude = fmax(s.magnitude, least);
    const double error = fabs((double)got - (p->c.relu && want < 0 ? 0 : want));
    if (s.magnitude > 0 && error / (s.magnitude + fabs(bias)) > worst)
        worst = error / (s.magnitude + fabs(bias));
    return error <= BOUND * s.magnitude + 0x1p-23 * fabs(bias);
}

/* All elements, or of long sums some of them. In the gradient of the weights of sparse pictures, a channel may have no
 * number where others have one: errors are those of one product of the largest numbers. */
static bool compare(const problem *p, const memory *got, const char *what, bool sparse)
{
    const double  least = sparse && p->c.pass == HAUL__CONV2D_WEIGHT ? largest(&p->x) * largest(&p->y) : 0;
    const int64_t each = p->c.pass == HAUL__CONV2D_WEIGHT ? 5 : 2;
    for (int64_t i = below(each); i < got->count; i += 1 + below(each)) {
        char text[160];
        if (is_near(p, i, got->values[i], least))
            continue;
        snprintf(text, sizeof text, "%s: element %lld is %.9g, not %.9g, with magnitudes of %g", what, (long long)i,
                 (double)got->values[i], sum_of(p, i).value + bias_of(p, i), sum_of(p, i).magnitude);
        return complain(p, text);
    }
    return true;
}

/* ---- numbers ---- */

static float power_of_10(int64_t low, int64_t high)
{
    return (float)pow(10, (double)(low + below(high - low + 1)));
}

static float *any(const memory *m)
{
    return &m->values[below(m->count)];
}

static void scale(const memory *m, float factor)
{
    for (int64_t i = 0; i < m->count; i++)
        m->values[i] *= factor;
}

/* The memory that is read like pictures: the input, or for some the gradient of the result. */
static const memory *pictures(const problem *p)
{
    return p->c.pass == HAUL__CONV2D_FORWARD || (p->c.pass == HAUL__CONV2D_WEIGHT && below(2)) ? &p->x : &p->y;
}

/* A few large numbers in one channel each. */
static void put_outliers(problem *p)
{
    for (int64_t i = 1 + below(3); i > 0; i--)
        *any(pictures(p)) = power_of_10(0, 30) * (below(2) ? 1 : -1);
}

/* One pixel that is large in all channels. */
static void put_pixel(problem *p)
{
    const memory *m = pictures(p);
    const int64_t plane = m == &p->x ? p->c.h * p->c.w : p->c.out_h * p->c.out_w;
    const float   factor = power_of_10(1, 30);
    for (int64_t i = below(plane); i < m->count; i += plane)
        m->values[i] *= factor;
}

/* Only some pixels are not zero or small. */
static void thin_out(problem *p)
{
    const memory *m = pictures(p);
    const int64_t plane = m == &p->x ? p->c.h * p->c.w : p->c.out_h * p->c.out_w;
    const float   rest = below(2) ? 0 : power_of_10(-30, -1);
    for (int64_t pixel = 0; pixel < plane; pixel++)
        for (int64_t i = pixel; below(8) && i < m->count; i += plane)
            m->values[i] *= rest;
}

/* Rows from one on are larger. */
static void put_edge(problem *p)
{
    const memory *m = pictures(p);
    const int64_t plane = m == &p->x ? p->c.h * p->c.w : p->c.out_h * p->c.out_w, from = below(plane);
    const float   factor = power_of_10(0, 30);
    for (int64_t i = 0; i < m->count; i++)
        m->values[i] *= i % plane >= from ? factor : 1;
}

/* One tap of all weights, or of those of one channel of the result, is larger. */
static void put_tap(problem *p)
{
    const bool    data = p->c.pass == HAUL__CONV2D_DATA, all = below(2);
    const int64_t tap = below(9), channel = below(data ? p->c.c_in : p->c.c_out);
    const float   factor = power_of_10(1, 12);
    for (int64_t i = 0; i < p->weight.count; i++) {
        const int64_t of = data ? i / 9 % p->c.c_in : i / 9 / p->c.c_in;
        p->weight.values[i] *= i % 9 == tap && (all || of == channel) ? factor : 1;
    }
    put_outliers(p);
}

/* Numbers near both ends of what f32 holds. */
static void put_ends(problem *p)
{
    const float factor = below(2) ? power_of_10(25, 34) : power_of_10(-25, -15);
    scale(pictures(p), factor);
}

static void put_infinity(problem *p)
{
    for (int64_t i = 1 + below(2); i > 0; i--)
        *any(pictures(p)) = below(3) ? (below(2) ? INFINITY : -INFINITY) : NAN;
}

static const struct numbers {
    const char *name;
    void (*put)(problem *p);
    bool sparse;
} numbers[] = {{"outliers", put_outliers, false}, {"a large pixel", put_pixel, false}, {"thin", thin_out, true},
               {"an edge", put_edge, false},      {"a large tap", put_tap, false},     {"ends", put_ends, false},
               {"infinity", put_infinity, false}};

/* No number is much smaller than the others of its channel: a product with zero has no error of its own. */
static void fill_up(const memory *m)
{
    for (int64_t i = 0; i < m->count; i++)
        if (fabsf(m->values[i]) < 0.1F)
            m->values[i] = 0.1F;
}

/* ---- levels ---- */

static bool check_one(haul__conv2d_pass pass, const struct numbers *of)
{
    problem p = make_problem(pass, 1 + below(3), 16 + below(20), 16 + below(20), 1 + below(14), 1 + below(14));
    bool    fine = p.x.values && p.weight.values && p.bias.values && p.y.values;
    if (fine && fills_tiles(&p)) {
        fill_up(&p.x);
        fill_up(&p.y);
        of->put(&p);
        fine = has_same_bits(&p) && compare(&p, result_of(&p), of->name, of->sparse);
    }
    free_problem(&p);
    return fine;
}

static bool check_level(void)
{
    for (int pass = 0; pass < 3; pass++)
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            worst = 0;
            for (int round = 0; round < 25; round++)
                if (!check_one((haul__conv2d_pass)pass, &numbers[i]))
                    return false;
            fprintf(stderr, "%s, pass %d, %s: the largest error is 2^%.1f of the magnitudes\n", haul__cpu_level(), pass,
                    numbers[i].name, log2(worst));
        }
    return true;
}

static void test_cpu_winograd_bound__every_level(void **unused)
{
    (void)unused;
    assert_true(run_at_every_level(check_level));
}

/* ---- weights ---- */

/* Infinite weights reach their own channel of the result, where they meet a pixel. */
static void test_cpu_winograd_bound__infinite_weight(void **unused)
{
    problem p = make_problem(HAUL__CONV2D_FORWARD, 2, 32, 32, 9, 9);
    (void)unused;
    p.weight.values[(5 * 32 + 7) * 9 + 2] = INFINITY;
    p.c.relu = false;
    assert_true(has_same_bits(&p) && compare(&p, result_of(&p), "an infinite weight", false));
    free_problem(&p);
}

/* Small numbers three pixels away from large ones, in the public interface. */
static void test_cpu_winograd_bound__small_next_to_large(void **unused)
{
    static const double large[] = {16, 255, 65504, 1e8, 1e30};
    (void)unused;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        haul_scope  *scope = haul_scope_push();
        haul_tensor *x = haul_full(HAUL_F32, HAUL_SHAPE(1, 32, 16, 16), 1e-3);
        haul_tensor *w = haul_full(HAUL_F32, HAUL_SHAPE(32, 32, 3, 3), 1.0 / 32);
        assert_int_equal(haul_fill_into(haul_slice(haul_slice(x, 2, 0, 1, 1), 3, 0, 1, 1), large[i]), HAUL_OK);
        haul_tensor *y = haul_conv2d(x, w, .padding = {1, 1});
        haul_tensor *far = haul_select(haul_select(haul_select(haul_select(y, 3, 3), 2, 3), 1, 0), 0, 0);
        assert_float_equal(haul_item(far), 9e-3, 1e-7);
        haul_scope_pop(scope);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_winograd_bound__every_level),
        cmocka_unit_test(test_cpu_winograd_bound__infinite_weight),
        cmocka_unit_test(test_cpu_winograd_bound__small_next_to_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The CPU's Winograd convolutions against plain loops, over random shapes, channels at the edges of vectors and panels,
 * paddings, bias and relu, all passes, each instruction level: values, accuracy, and that neither the number of threads
 * nor that of the pictures in a call changes bits. */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/winograd.h"

/* Sums of squares of errors. */
typedef struct errors {
    double got, plain;
} errors;

/* ---- comparison ---- */

/* Some elements, among them the first and the last: errors of single elements grow with the sum's magnitudes. */
static bool compare(const problem *p, const memory *got, errors *e)
{
    for (int64_t i = 0; i < got->count; i += i + 60 < got->count ? 1 + below(got->count / 2000 + 1) : 1) {
        char   text[100];
        sum    s = sum_of(p, i);
        double want = s.value + bias_of(p, i);
        want = p->c.relu && want < 0 ? 0 : want;
        if (!(fabs(got->values[i] - want) <= (s.magnitude + 1) * 0x1p-23 * 20)) {
            snprintf(text, sizeof text, "element %lld is %.9g, not %.9g", (long long)i, got->values[i], want);
            return complain(p, text);
        }
        if (p->c.has_bias || p->c.relu)
            continue;
        e->got += (got->values[i] - want) * (got->values[i] - want);
        e->plain += (s.plain - s.value) * (s.plain - s.value);
    }
    return true;
}

static bool check_random(haul__conv2d_pass pass, int64_t n, int64_t in, int64_t out, int64_t h, int64_t w, errors *e)
{
    problem p = make_problem(pass, n, in, out, h, w);
    bool    fine = p.x.values && p.weight.values && p.bias.values && p.y.values;
    if (fine && fills_tiles(&p))
        fine = has_same_bits(&p) && compare(&p, result_of(&p), e);
    free_problem(&p);
    return fine;
}

/* Sizes at all edges, and some for each way in which the work is cut: many tiles, many channels, pictures of more tiles
 * than a task takes, gradients in several parts, more channels than a panel is deep. */
static bool check_level(void)
{
    static const int64_t shapes[][5] = {{40, 32, 34, 8, 8}, {3, 64, 32, 40, 44}, {1, 48, 40, 90, 60},
                                        {2, 96, 300, 4, 4}, {5, 40, 260, 7, 7},  {1, 600, 40, 6, 8},
                                        {1, 40, 530, 5, 3}, {9, 33, 65, 16, 12}, {2, 520, 512, 4, 4}};
    errors               all = {0};
    for (int pass = 0; pass < 3; pass++) {
        errors e = {0};
        for (int i = 0; i < 60; i++)
            if (!check_random((haul__conv2d_pass)pass, 1 + below(4), 16 + below(50), 16 + below(50), 1 + below(14),
                              1 + below(21), &e))
                return false;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const int64_t *s = shapes[i];
            if (!check_random((haul__conv2d_pass)pass, s[0], s[1], s[2], s[3], s[4], &e))
                return false;
        }
        fprintf(stderr, "%s, pass %d: the rms error is %.2f times that of plain sums in f32\n", haul__cpu_level(), pass,
                sqrt(e.got / e.plain));
        /* Less would be the error of plain sums: the transforms must compute ordinary numbers. */
        if (pass != HAUL__CONV2D_WEIGHT && sqrt(e.got / e.plain) < 1.2)
            return false;
        all.got += e.got;
        all.plain += e.plain;
    }
    return sqrt(all.got / all.plain) < 3;
}

static void test_cpu_winograd__every_level(void **unused)
{
    (void)unused;
    assert_true(run_at_every_level(check_level));
}

/* ---- what it refuses ---- */

static void assert_refused(const haul__conv2d *c, const char *why)
{
    const char *text = haul__cpu_winograd_refuses(haul_cpu(), c);
    if (!text || !strstr(text, why))
        fail_msg("\"%s\" was expected, not \"%s\"", why, text ? text : "it takes it");
}

static void test_cpu_winograd__reasons(void **unused)
{
    problem      p = make_problem(HAUL__CONV2D_FORWARD, 1, 32, 32, 8, 8);
    haul__conv2d c = p.c;
    (void)unused;
    assert_null(haul__cpu_winograd_refuses(haul_cpu(), &c));
    assert_null(haul__cpu_winograd_refuses(haul_cpu(), NULL));
#define REFUSED(change, why)                                                                                           \
    do {                                                                                                               \
        c = p.c;                                                                                                       \
        c.change;                                                                                                      \
        assert_refused(&c, why);                                                                                       \
    } while (0)
    REFUSED(channels_last = true, "row-major");
    REFUSED(dtype = HAUL_F64, "f32 only");
    REFUSED(kw = 5, "3x3");
    REFUSED(stride[0] = 2, "stride");
    REFUSED(dilation[1] = 2, "dilation");
    REFUSED(groups = 2, "groups");
    REFUSED(padding[1] = 3, "padding");
    REFUSED(c_in = 15, "channels");
    REFUSED(c_out = 15, "channels");
    REFUSED(out_h = 1, "empty");
    REFUSED(n = 0, "empty");
    free_problem(&p);
}

/* Without scratch memory it says so, and what comes after it computes. */
static void test_cpu_winograd__without_memory(void **unused)
{
    problem p = make_problem(HAUL__CONV2D_FORWARD, 1, 32, 32, 8, 8);
    (void)unused;
    assert_int_equal(haul__cpu_winograd(NULL, &p.c), HAUL_UNSUPPORTED);
    assert_int_equal(haul_error_status(), HAUL_OK);
    free_problem(&p);
}

/* A result of one or two panels has one or two tasks, whatever the number of threads. */
static void test_cpu_winograd__few_tasks_take_little_memory(void **unused)
{
    (void)unused;
    for (int pass = 0; pass < 2; pass++) {
        problem p = make_problem((haul__conv2d_pass)pass, 1, 16, 16, 8, 8);
        assert_int_equal(haul_set_num_threads(2), HAUL_OK);
        const size_t bytes = haul__cpu_winograd_scratch(haul_cpu(), &p.c);
        assert_int_equal(haul_set_num_threads(64), HAUL_OK);
        assert_int_equal(haul__cpu_winograd_scratch(haul_cpu(), &p.c), bytes);
        assert_int_equal(haul_set_num_threads(0), HAUL_OK);
        free_problem(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_winograd__every_level),
        cmocka_unit_test(test_cpu_winograd__reasons),
        cmocka_unit_test(test_cpu_winograd__without_memory),
        cmocka_unit_test(test_cpu_winograd__few_tasks_take_little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The CPU's Winograd convolutions against plain loops, over random shapes, channels at the edges of vectors and panels,
 * paddings, bias and relu, all passes, each instruction level: values, accuracy, and that neither the number of threads
 * nor that of the pictures in a call changes bits.
 * */
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

#include "backends/cpu/cpu.h"
#include "backends/cpu/level.h"
#include "support/conv2d.h"
#include "support/random.h"

/* ---- random problems ---- */

static problem make_problem(haul__conv2d_pass pass, int64_t n, int64_t in, int64_t out, int64_t h, int64_t w)
{
    problem p = {.c = {.pass = pass, .dtype = HAUL_F32, .n = n, .c_in = in, .h = h, .w = w, .c_out = out}};
    p.c.kh = p.c.kw = 3;
    p.c.groups = 1;
    for (int i = 0; i < 2; i++) {
        p.c.padding[i] = (i ? w : h) < 3 ? 1 + below(2) : below(3);
        p.c.stride[i] = p.c.dilation[i] = 1;
    }
    p.c.out_h = h + 2 * p.c.padding[0] - 2;
    p.c.out_w = w + 2 * p.c.padding[1] - 2;
    p.c.has_bias = pass != HAUL__CONV2D_WEIGHT && below(2);
    p.c.relu = pass == HAUL__CONV2D_FORWARD && below(3) == 0;
    make_operands(&p);
    return p;
}

static haul_status run(problem *p)
{
    haul__buffer scratch = {0};
    name_operands(p);
    p->c.scratch_bytes = haul__cpu_winograd_scratch(haul_cpu(), &p->c);
    scratch.host = aligned_alloc(64, (p->c.scratch_bytes + 63) / 64 * 64);
    p->c.scratch = &scratch;
    memset(scratch.host, 0x7f, p->c.scratch_bytes); /* large numbers: what is not written must not be read */
    haul_status status = haul__cpu_winograd(NULL, &p->c);
    free(scratch.host);
    return status;
}

/* ---- plain loops ---- */

/* Sums of squares of errors. */
typedef struct errors {
    double got, plain;
} errors;

typedef struct sum {
    double value, magnitude;
    float  plain;
} sum;

static void add(sum *s, float a, float b)
{
    s->value += (double)a * (double)b;
    s->magnitude += fabs((double)a * (double)b);
    s->plain += a * b;
}

/* The element of a [., channels, h, w] that may be outside; 0 there. */
static float at(const memory *m, int64_t picture, int64_t h, int64_t w, int64_t y, int64_t x)
{
    return y < 0 || y >= h || x < 0 || x >= w ? 0 : m->values[(picture * h + y) * w + x];
}

static sum forward_sum(const problem *p, int64_t i)
{
    const haul__conv2d *c = &p->c;
    int64_t             x = i % c->out_w, y = i / c->out_w % c->out_h, out = i / (c->out_w * c->out_h) % c->c_out;
    int64_t             n = i / (c->out_w * c->out_h * c->c_out);
    sum                 s = {0};
    for (int64_t in = 0; in < c->c_in; in++)
        for (int tap = 0; tap < 9; tap++)
            add(&s, p->weight.values[(out * c->c_in + in) * 9 + tap],
                at(&p->x, n * c->c_in + in, c->h, c->w, y + tap / 3 - c->padding[0], x + tap % 3 - c->padding[1]));
    return s;
}

static sum data_sum(const problem *p, int64_t i)
{
    const haul__conv2d *c = &p->c;
    int64_t             x = i % c->w, y = i / c->w % c->h, in = i / (c->w * c->h) % c->c_in;
    int64_t             n = i / (c->w * c->h * c->c_in);
    sum                 s = {0};
    for (int64_t out = 0; out < c->c_out; out++)
        for (int tap = 0; tap < 9; tap++)
            add(&s, p->weight.values[(out * c->c_in + in) * 9 + tap],
                at(&p->y, n * c->c_out + out, c->out_h, c->out_w, y - tap / 3 + c->padding[0],
                   x - tap % 3 + c->padding[1]));
    return s;
}

static sum weight_sum(const problem *p, int64_t i)
{
    const haul__conv2d *c = &p->c;
    int64_t             tap = i % 9, in = i / 9 % c->c_in, out = i / (9 * c->c_in);
    sum                 s = {0};
    for (int64_t n = 0; n < c->n; n++)
        for (int64_t y = 0; y < c->out_h; y++)
            for (int64_t x = 0; x < c->out_w; x++)
                add(&s, p->y.values[((n * c->c_out + out) * c->out_h + y) * c->out_w + x],
                    at(&p->x, n * c->c_in + in, c->h, c->w, y + tap / 3 - c->padding[0], x + tap % 3 - c->padding[1]));
    return s;
}

/* The channel of the result's element, for the bias. */
static int64_t channel_of(const problem *p, int64_t i)
{
    const haul__conv2d *c = &p->c;
    return c->pass == HAUL__CONV2D_FORWARD ? i / (c->out_w * c->out_h) % c->c_out : i / (c->w * c->h) % c->c_in;
}

/* ---- comparison; without assertions, because it runs in children ---- */

static bool complain(const problem *p, const char *what)
{
    static const char *const passes[] = {"forward", "data", "weight"};
    const haul__conv2d      *c = &p->c;
    fprintf(stderr, "%s of [%lld,%lld,%lld,%lld] to %lld channels, padding %lld %lld%s%s: %s\n", passes[c->pass],
            (long long)c->n, (long long)c->c_in, (long long)c->h, (long long)c->w, (long long)c->c_out,
            (long long)c->padding[0], (long long)c->padding[1], c->has_bias ? ", bias" : "", c->relu ? ", relu" : "",
            what);
    return false;
}

/* Some elements, among them the first and the last: errors of single elements grow with the sum's magnitudes. */
static bool compare(const problem *p, const memory *got, errors *e)
{
    sum (*sum_of)(const problem *p, int64_t i) = p->c.pass == HAUL__CONV2D_FORWARD ? forward_sum
                                                 : p->c.pass == HAUL__CONV2D_DATA  ? data_sum
                                                                                   : weight_sum;
    for (int64_t i = 0; i < got->count; i += i + 60 < got->count ? 1 + below(got->count / 2000 + 1) : 1) {
        char   text[100];
        sum    s = sum_of(p, i);
        double bias = p->c.has_bias ? p->bias.values[channel_of(p, i)] : 0, want = s.value + bias;
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

/* The first picture alone has the same bits. */
static bool compare_one(problem *p, const float *all)
{
    memory *result = result_of(p);
    int64_t count = result->count / p->c.n, n = p->c.n;
    if (p->c.pass == HAUL__CONV2D_WEIGHT)
        return true;
    p->c.n = 1;
    haul_status status = run(p);
    p->c.n = n;
    if (status || memcmp(result->values, all, (size_t)count * sizeof(float)) != 0)
        return complain(p, "one picture alone has other bits");
    return true;
}

static bool check(problem *p, errors *e)
{
    memory *result = result_of(p);
    size_t  bytes = (size_t)result->count * sizeof(float);
    float  *first = malloc(bytes);
    bool    fine = first && !haul__cpu_winograd_refuses(haul_cpu(), &p->c);
    if (!fine)
        complain(p, "it is refused");
    for (int threads = 1; fine && threads <= 3; threads++) {
        haul_set_num_threads(threads);
        fine = run(p) == HAUL_OK;
        if (threads == 1)
            memcpy(first, result->values, bytes);
        if (!fine || memcmp(first, result->values, bytes) != 0)
            fine = complain(p, "it failed, or another number of threads gives other bits");
    }
    fine = fine && compare(p, result, e) && compare_one(p, first);
    free(first);
    return fine;
}

static bool check_random(haul__conv2d_pass pass, int64_t n, int64_t in, int64_t out, int64_t h, int64_t w, errors *e)
{
    problem p = make_problem(pass, n, in, out, h, w);
    bool    fine = p.x.values && p.weight.values && p.bias.values && p.y.values;
    int64_t result_h = pass == HAUL__CONV2D_DATA ? h : p.c.out_h, result_w = pass == HAUL__CONV2D_DATA ? w : p.c.out_w;
    if (2 * result_h * result_w >= (result_h + 3) / 4 * 4 * ((result_w + 3) / 4 * 4))
        fine = fine && check(&p, e);
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
        all.got += e.got;
        all.plain += e.plain;
    }
    return sqrt(all.got / all.plain) < 3;
}

/* In a process that uses the level; 77 if it cannot. */
static int at_level(const char *level)
{
    fflush(NULL);
    const pid_t child = fork();
    int         status = 0;
    assert_true(child >= 0);
    if (child == 0) {
        setenv("HAUL_CPU_LEVEL", level, 1);
        if (!haul_device_is_valid(haul_cpu()) || !strstr(haul__cpu_level(), level))
            _exit(77);
        _exit(check_level() ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Before anything else uses the CPU, since a process chooses its level once. */
static void test_cpu_winograd__every_level(void **unused)
{
    static const char *const levels[] = {"base", "v3", "v4"};
    (void)unused;
    for (int i = 0; i < 3; i++) {
        int result = at_level(levels[i]);
        if (result != 77)
            assert_int_equal(result, 0);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_winograd__every_level),
        cmocka_unit_test(test_cpu_winograd__reasons),
        cmocka_unit_test(test_cpu_winograd__without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

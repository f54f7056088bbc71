/* The CPU's convolutions with a weight for each channel against the register tiles of direct.c, over random shapes,
 * strides, paddings, dilations and values, each instruction level: bit-identical results, whatever the number of
 * threads and of the images in a call. */
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

#include "backends/cpu/conv2d/plane_copies.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/level.h"
#include "support/conv2d.h"
#include "support/random.h"

static int64_t output_size(const haul__conv2d *c, int axis)
{
    int64_t size = axis ? c->w : c->h, taps = axis ? c->kw : c->kh;
    int64_t rest = size + 2 * c->padding[axis] - c->dilation[axis] * (taps - 1) - 1;
    return rest < 0 ? 0 : rest / c->stride[axis] + 1;
}

static bool run(problem *p, haul_status (*how)(haul__stream *s, const void *problem))
{
    name_operands(p);
    memset(p->y.values, 0x7f, (size_t)p->y.count * sizeof(float)); /* elements that are not written are large */
    return how(NULL, &p->c) == HAUL_OK;
}

static bool complain(const haul__conv2d *c, const char *what)
{
    fprintf(stderr,
            "%s, n %lld, channels %lld, size %lld x %lld, weight %lld x %lld, stride %lld x %lld, padding %lld x %lld, "
            "dilation %lld x %lld: %s\n",
            haul__cpu_level(), (long long)c->n, (long long)c->groups, (long long)c->h, (long long)c->w,
            (long long)c->kh, (long long)c->kw, (long long)c->stride[0], (long long)c->stride[1],
            (long long)c->padding[0], (long long)c->padding[1], (long long)c->dilation[0], (long long)c->dilation[1],
            what);
    return false;
}

static bool has_bits(problem *p, const float *want, const char *what)
{
    bool same = run(p, haul__cpu_conv2d_depthwise);
    for (int64_t i = 0; same && i < p->c.n * p->c.groups * p->c.out_h * p->c.out_w; i++)
        same = !memcmp(p->y.values + i, want + i, sizeof(float)) || (isnan(p->y.values[i]) && isnan(want[i]));
    return same || complain(&p->c, what);
}

/* Numbers that padding makes NaN, and zeros with a sign. */
static void make_special(memory *m)
{
    static const float values[] = {INFINITY, NAN, -0.0f, 0.0f};
    m->values[below(m->count)] = values[below(4)];
}

static bool check(problem *p)
{
    float *want = malloc((size_t)p->y.count * sizeof *want);
    bool   fine = (want && run(p, haul__cpu_conv2d_direct)) || complain(&p->c, "tiles failed");
    if (fine)
        memcpy(want, p->y.values, (size_t)p->y.count * sizeof *want);
    fine = fine && (!haul__cpu_conv2d_depthwise_refuses(haul_cpu(), &p->c) || complain(&p->c, "it is refused"));
    for (int threads = 1; fine && threads <= 3; threads++) {
        haul_set_num_threads(threads);
        fine = has_bits(p, want, "the sums differ from those of tiles");
    }
    p->c.n = 1;
    fine = fine && has_bits(p, want, "one image alone has different bits");
    free(want);
    return fine;
}

static bool check_shape(const haul__conv2d *c)
{
    problem p = {.c = *c};
    bool    fine = true;
    p.c.dtype = HAUL_F32;
    p.c.c_in = p.c.c_out = p.c.groups;
    p.c.out_h = output_size(&p.c, 0);
    p.c.out_w = output_size(&p.c, 1);
    p.c.has_bias = below(2);
    if (p.c.out_h && p.c.out_w) {
        make_operands(&p);
        for (int i = 0; i < 2 && !below(3); i++)
            make_special(i ? &p.x : &p.weight);
        fine = p.x.values && p.weight.values && p.bias.values && p.y.values && check(&p);
    }
    free_problem(&p);
    return fine;
}

static bool check_random(void)
{
    haul__conv2d c = {
        .n = 1 + below(4), .h = 1 + below(40), .w = 1 + below(40), .kh = 1 + below(6), .kw = 1 + below(6)};
    c.groups = 1 + below(9);
    for (int i = 0; i < 2; i++) {
        c.stride[i] = 1 + below(below(4) ? 2 : HAUL__MOST_STEP);
        c.padding[i] = below(4);
        c.dilation[i] = below(3) ? 1 : 1 + below(3);
    }
    return check_shape(&c);
}

/* Layers of networks; several bands, the last with fewer rows; rows longer than a band; the most taps. */
static const haul__conv2d shapes[] = {
    {.n = 2, .groups = 3, .h = 112, .w = 112, .kh = 3, .kw = 3, .stride = {1, 1}, .padding = {1, 1}},
    {.n = 1, .groups = 3, .h = 113, .w = 112, .kh = 3, .kw = 3, .stride = {2, 2}, .padding = {1, 1}},
    {.n = 2, .groups = 9, .h = 28, .w = 28, .kh = 5, .kw = 5, .stride = {2, 2}, .padding = {2, 2}},
    {.n = 2, .groups = 17, .h = 7, .w = 7, .kh = 7, .kw = 7, .stride = {1, 1}, .padding = {3, 3}},
    {.n = 1, .groups = 2, .h = 9, .w = 4000, .kh = 3, .kw = 3, .stride = {1, 1}, .padding = {1, 1}},
    {.n = 1, .groups = 2, .h = 1, .w = 9000, .kh = 1, .kw = 31, .stride = {1, 2}, .padding = {0, 15}},
    {.n = 1, .groups = 1, .h = 40, .w = 40, .kh = 8, .kw = 32, .stride = {1, 1}, .padding = {0, 0}},
    {.n = 1, .groups = 2, .h = 3, .w = 3, .kh = 1, .kw = 1, .stride = {3, 3}, .padding = {4, 4}},
};

static bool check_level(void)
{
    for (int i = 0; i < 300; i++)
        if (!check_random())
            return false;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        haul__conv2d c = shapes[i];
        c.dilation[0] = c.dilation[1] = 1;
        if (!check_shape(&c))
            return false;
    }
    return true;
}

/* Before anything else uses the CPU, since a process chooses its level once. */
static void test_cpu_conv2d_depthwise__every_level(void **unused)
{
    static const char *const levels[] = {"base", "v3", "v4"};
    (void)unused;
    for (int i = 0; i < 3; i++) {
        fflush(NULL);
        const pid_t child = fork();
        int         status = 0;
        assert_true(child >= 0);
        if (child == 0) {
            setenv("HAUL_CPU_LEVEL", levels[i], 1);
            if (!haul_device_is_valid(haul_cpu()) || !strstr(haul__cpu_level(), levels[i]) ||
                !haul__cpu_planes_for_f32())
                _exit(77);
            _exit(check_level() ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 0);
    }
}

static void test_cpu_conv2d_depthwise__refuses(void **unused)
{
    const haul__conv2d c = {.dtype = HAUL_F32,
                            .n = 1,
                            .c_in = 8,
                            .h = 32,
                            .w = 32,
                            .c_out = 8,
                            .kh = 3,
                            .kw = 3,
                            .out_h = 30,
                            .out_w = 30,
                            .stride = {1, 1},
                            .dilation = {1, 1},
                            .groups = 8};
    haul__conv2d       few = c, more = c, far = c, long_sums = c, wide = c, gradient = c;
    (void)unused;
    few.groups = 4;
    more.c_out = 16;
    far.stride[1] = HAUL__MOST_STEP + 1;
    long_sums.kh = long_sums.kw = 17;
    wide.dtype = HAUL_F64;
    gradient.pass = HAUL__CONV2D_DATA;
    assert_null(haul__cpu_conv2d_depthwise_refuses(haul_cpu(), NULL));
    assert_null(haul__cpu_conv2d_depthwise_refuses(haul_cpu(), &c));
    assert_string_equal(haul__cpu_conv2d_depthwise_refuses(haul_cpu(), &few),
                        "it takes as many groups as channels only");
    assert_string_equal(haul__cpu_conv2d_depthwise_refuses(haul_cpu(), &more),
                        "it takes as many groups as channels only");
    assert_string_equal(haul__cpu_conv2d_depthwise_refuses(haul_cpu(), &far), "it takes a stride of up to 8 only");
    assert_string_equal(haul__cpu_conv2d_depthwise_refuses(haul_cpu(), &long_sums), "it takes up to 256 taps only");
    assert_string_equal(haul__cpu_conv2d_depthwise_refuses(haul_cpu(), &wide), "it takes f32 only");
    assert_string_equal(haul__cpu_conv2d_depthwise_refuses(haul_cpu(), &gradient), "it computes no gradients");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_conv2d_depthwise__every_level),
        cmocka_unit_test(test_cpu_conv2d_depthwise__refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The CPU's convolutions by packed panels against plain loops, over random shapes, strides, paddings, dilations and
 * groups, all passes, each instruction level: values, and that neither the number of threads, nor that of the images in
 * a call, nor vectors of another length change bits.
 * ctest: labels=slow */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/cpu/conv2d/plane_copies.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/level.h"
#include "support/conv2d.h"
#include "support/random.h"

/* ---- problems ---- */

static int64_t output_size(int64_t size, int64_t taps, int64_t stride, int64_t padding, int64_t dilation)
{
    int64_t rest = size + 2 * padding - dilation * (taps - 1) - 1;
    return rest < 0 ? 0 : rest / stride + 1;
}

static bool complete(problem *p, haul__conv2d_pass pass)
{
    haul__conv2d *c = &p->c;
    c->pass = pass;
    c->dtype = HAUL_F32;
    c->out_h = output_size(c->h, c->kh, c->stride[0], c->padding[0], c->dilation[0]);
    c->out_w = output_size(c->w, c->kw, c->stride[1], c->padding[1], c->dilation[1]);
    c->has_bias = pass != HAUL__CONV2D_WEIGHT && below(2);
    if (!c->out_h || !c->out_w)
        return false;
    make_operands(p);
    return p->x.values && p->weight.values && p->bias.values && p->y.values;
}

static haul_status run(problem *p, haul_status (*how)(haul__stream *s, const void *problem))
{
    memory *result = result_of(p);
    name_operands(p);
    memset(result->values, 0x7f, (size_t)result->count * sizeof(float)); /* elements that are not written are large */
    return how(NULL, &p->c);
}

static bool complain(const problem *p, const char *what)
{
    const haul__conv2d *c = &p->c;
    fprintf(stderr,
            "%s, pass %d, n %lld, channels %lld and %lld in %lld groups, size %lld x %lld, weight %lld x %lld, stride "
            "%lld x %lld, padding %lld x %lld, dilation %lld x %lld: %s\n",
            haul__cpu_level(), (int)c->pass, (long long)c->n, (long long)c->c_in, (long long)c->c_out,
            (long long)c->groups, (long long)c->h, (long long)c->w, (long long)c->kh, (long long)c->kw,
            (long long)c->stride[0], (long long)c->stride[1], (long long)c->padding[0], (long long)c->padding[1],
            (long long)c->dilation[0], (long long)c->dilation[1], what);
    return false;
}

/* ---- plain loops ---- */

typedef struct sum {
    double value, magnitude;
} sum;

/* Adds to the sum of each element of the result all products that belong to it. */
static void add_products(const problem *p, sum *sums)
{
    const haul__conv2d *c = &p->c;
    int64_t             in = c->c_in / c->groups, out = c->c_out / c->groups, taps = c->kh * c->kw;
    for (int64_t i = 0; i < p->y.count; i++) {
        int64_t ox = i % c->out_w, oy = i / c->out_w % c->out_h, o = i / c->out_w / c->out_h % c->c_out;
        int64_t n = i / c->out_w / c->out_h / c->c_out;
        for (int64_t k = 0; k < in * taps; k++) {
            int64_t y = oy * c->stride[0] + k % taps / c->kw * c->dilation[0] - c->padding[0];
            int64_t x = ox * c->stride[1] + k % c->kw * c->dilation[1] - c->padding[1];
            if (y < 0 || y >= c->h || x < 0 || x >= c->w)
                continue;
            int64_t at = ((n * c->c_in + o / out * in + k / taps) * c->h + y) * c->w + x, tap = o * in * taps + k;
            double  a = c->pass == HAUL__CONV2D_FORWARD ? p->x.values[at] : p->y.values[i];
            double  b = c->pass == HAUL__CONV2D_WEIGHT ? p->x.values[at] : p->weight.values[tap];
            sum    *to = sums + (c->pass == HAUL__CONV2D_FORWARD ? i : c->pass == HAUL__CONV2D_DATA ? at : tap);
            to->value += a * b;
            to->magnitude += fabs(a * b);
        }
    }
}

static bool compare(const problem *p, const float *got, int64_t count, const sum *sums)
{
    const haul__conv2d *c = &p->c;
    bool                forward = c->pass == HAUL__CONV2D_FORWARD;
    int64_t             plane = forward ? c->out_h * c->out_w : c->h * c->w, channels = forward ? c->c_out : c->c_in;
    for (int64_t i = 0; i < count; i++) {
        char   text[100];
        double want = sums[i].value + (c->has_bias ? p->bias.values[i / plane % channels] : 0);
        if (fabs(got[i] - want) <= (sums[i].magnitude + 2) * 0x1p-23 * 20)
            continue;
        snprintf(text, sizeof text, "element %lld is %.9g, not %.9g", (long long)i, got[i], want);
        return complain(p, text);
    }
    return true;
}

/* ---- checks ---- */

static bool has_bits(problem *p, const float *want, int64_t count,
                     haul_status (*how)(haul__stream *s, const void *problem), const char *what)
{
    return (run(p, how) == HAUL_OK && !memcmp(result_of(p)->values, want, (size_t)count * sizeof(float))) ||
           complain(p, what);
}

/* The bits of all results, whose hash must be that of other levels. */
static void mix(uint64_t *hash, const float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        *hash = (*hash ^ bits) * UINT64_C(1099511628211);
    }
}

static bool check(problem *p, uint64_t *hash)
{
    memory *result = result_of(p);
    int64_t count = result->count, n = p->c.n;
    sum    *sums = calloc((size_t)count, sizeof *sums);
    float  *first = malloc((size_t)count * sizeof *first);
    bool    fine = sums && first;
    if (!fine)
        goto out;
    add_products(p, sums);
    haul_set_num_threads(1);
    fine = run(p, haul__cpu_conv2d_panels) == HAUL_OK || complain(p, "it failed");
    memcpy(first, result->values, (size_t)count * sizeof *first);
    fine = fine && compare(p, first, count, sums);
    for (int threads = 2; fine && threads <= 7; threads += threads == 3 ? 4 : 1) {
        haul_set_num_threads(threads);
        fine = has_bits(p, first, count, haul__cpu_conv2d_panels, "another number of threads gives different bits");
    }
    if (!haul__cpu_conv2d_pixels_refuse(haul_cpu(), &p->c))
        fine = fine && has_bits(p, first, count, haul__cpu_conv2d_pixels, "pixels as rows give different bits");
    if (p->c.pass != HAUL__CONV2D_WEIGHT) {
        p->c.n = 1;
        fine = fine && has_bits(p, first, count / n, haul__cpu_conv2d_panels, "one image alone has different bits");
        p->c.n = n;
    }
    mix(hash, first, count);
out:
    free(first);
    free(sums);
    return fine;
}

static bool check_shape(const haul__conv2d *c, uint64_t *hash)
{
    bool fine = true;
    for (int pass = 0; pass < 3 && fine; pass++) {
        problem p = {.c = *c};
        if (complete(&p, (haul__conv2d_pass)pass))
            fine = check(&p, hash);
        free_problem(&p);
    }
    return fine;
}

static bool check_random(uint64_t *hash)
{
    int64_t      groups = below(4) ? 1 : 1 + below(3);
    haul__conv2d c = {.n = 1 + below(5),
                      .c_in = groups * (1 + below(36)),
                      .c_out = groups * (1 + below(36)),
                      .h = 1 + below(14),
                      .w = 1 + below(21),
                      .kh = 1 + below(4),
                      .kw = 1 + below(4),
                      .groups = groups};
    for (int i = 0; i < 2; i++) {
        c.stride[i] = 1 + below(below(4) ? 3 : HAUL__MOST_STEP);
        c.padding[i] = below(4);
        c.dilation[i] = below(3) ? 1 : 1 + below(3);
    }
    return check_shape(&c, hash);
}

/* Several images in a panel; one in several bands, and pixels in several parts; rows of whole vectors and of odd
 * lengths; more taps than a part of k, and fewer than a stride; more rows than a block; padding beyond the image;
 * channels that levels cut into other numbers of chunks. */
static const haul__conv2d shapes[] = {
    {.n = 20, .c_in = 40, .c_out = 100, .h = 4, .w = 4, .kh = 3, .kw = 3, .stride = {2, 2}, .padding = {1, 1}},
    {.n = 9, .c_in = 70, .c_out = 33, .h = 9, .w = 9, .kh = 3, .kw = 3, .stride = {2, 2}, .padding = {1, 1}},
    {.n = 1, .c_in = 16, .c_out = 128, .h = 70, .w = 71, .kh = 3, .kw = 3, .stride = {2, 2}, .padding = {1, 1}},
    {.n = 3, .c_in = 32, .c_out = 97, .h = 32, .w = 32, .kh = 3, .kw = 3, .stride = {2, 2}, .padding = {1, 1}},
    {.n = 2, .c_in = 8, .c_out = 16, .h = 3, .w = 140, .kh = 3, .kw = 3, .stride = {2, 2}, .padding = {1, 1}},
    {.n = 5, .c_in = 64, .c_out = 96, .h = 14, .w = 14, .kh = 1, .kw = 1, .stride = {2, 2}},
    {.n = 18, .c_in = 65, .c_out = 40, .h = 8, .w = 16, .kh = 1, .kw = 1, .stride = {2, 2}},
    {.n = 17, .c_in = 30, .c_out = 16, .h = 12, .w = 18, .kh = 3, .kw = 3, .stride = {2, 2}, .padding = {0, 1}},
    {.n = 2, .c_in = 5, .c_out = 9, .h = 9, .w = 12, .kh = 2, .kw = 1, .stride = {3, 4}, .padding = {1, 0}},
    {.n = 2, .c_in = 3, .c_out = 20, .h = 40, .w = 41, .kh = 7, .kw = 7, .stride = {2, 2}, .padding = {3, 3}},
    {.n = 2, .c_in = 16, .c_out = 40, .h = 2, .w = 2, .kh = 1, .kw = 1, .stride = {3, 3}, .padding = {4, 4}},
    {.n = 1, .c_in = 300, .c_out = 260, .h = 5, .w = 5, .kh = 2, .kw = 2, .stride = {2, 2}},
    {.n = 2, .c_in = 4, .c_out = 5, .h = 20, .w = 17, .kh = 9, .kw = 8, .stride = {2, 1}, .padding = {4, 0}},
    {.n = 32, .c_in = 20, .c_out = 18, .h = 32, .w = 32, .kh = 3, .kw = 3, .stride = {2, 2}, .padding = {1, 1}},
    {.n = 1, .c_in = 4, .c_out = 6, .h = 1, .w = 1200, .kh = 1, .kw = 3, .stride = {1, 2}, .padding = {0, 1}},
};

static bool check_level(uint64_t *hash)
{
    for (int i = 0; i < 150; i++)
        if (!check_random(hash))
            return false;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        haul__conv2d c = shapes[i];
        c.groups = 1;
        c.dilation[0] = c.dilation[1] = 1;
        if (!check_shape(&c, hash))
            return false;
    }
    return true;
}

/* In a process that uses the level; 77 if it cannot. `hash` is in memory that processes share. */
static int at_level(const char *level, uint64_t *hash)
{
    fflush(NULL);
    const pid_t child = fork();
    int         status = 0;
    assert_true(child >= 0);
    if (child == 0) {
        setenv("HAUL_CPU_LEVEL", level, 1);
        if (!haul_device_is_valid(haul_cpu()) || !strstr(haul__cpu_level(), level) || !haul__cpu_planes_for_f32())
            _exit(77);
        _exit(check_level(hash) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Before anything else uses the CPU, since a process chooses its level once. The first level has no fused
 * multiply-adds, so that its bits are others. */
static void test_cpu_conv2d_panels__every_level(void **unused)
{
    static const char *const levels[] = {"base", "v3", "v4"};
    uint64_t                *hashes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int                      results[3];
    (void)unused;
    assert_true(hashes != MAP_FAILED);
    for (int i = 0; i < 3; i++) {
        results[i] = at_level(levels[i], hashes + i);
        assert_true(results[i] == 77 || results[i] == 0);
    }
    if (!results[1] && !results[2])
        assert_true(hashes[1] == hashes[2]);
    munmap(hashes, 4096);
}

/* ---- shapes computed by panels ---- */

static void test_cpu_conv2d_panels__choice(void **unused)
{
    haul__conv2d c = {.dtype = HAUL_F32,
                      .n = 32,
                      .c_in = 64,
                      .h = 32,
                      .w = 32,
                      .c_out = 128,
                      .kh = 3,
                      .kw = 3,
                      .out_h = 16,
                      .out_w = 16,
                      .stride = {2, 2},
                      .padding = {1, 1},
                      .dilation = {1, 1},
                      .groups = 1};
    haul__conv2d same = c, wide = c, few = c;
    (void)unused;
    if (!haul__cpu_planes_for_f32())
        skip();
    same.stride[0] = same.stride[1] = 1;
    wide.dtype = HAUL_F64;
    few.c_in = 3;
    for (int pass = 0; pass < 3; pass++) {
        c.pass = same.pass = wide.pass = few.pass = (haul__conv2d_pass)pass;
        assert_null(haul__cpu_conv2d_panels_refuse(haul_cpu(), &c));
        assert_true(haul__cpu_conv2d_onednn_is_slower(haul_cpu(), &c));
        assert_non_null(haul__cpu_conv2d_panels_refuse(haul_cpu(), &same));
        assert_string_equal(haul__cpu_conv2d_panels_refuse(haul_cpu(), &wide), "it takes f32 only");
        assert_false(haul__cpu_conv2d_onednn_is_slower(haul_cpu(), &few));
    }
    assert_string_equal(haul__cpu_conv2d_panels_refuse(haul_cpu(), &few),
                        "the channels of x would fill less than half of its vectors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_conv2d_panels__every_level),
        cmocka_unit_test(test_cpu_conv2d_panels__choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

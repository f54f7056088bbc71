/* Problems for tests that call the CPU's Winograd convolutions directly, and the plain sums of their results. */
#ifndef TEST_SUPPORT_WINOGRAD_H
#define TEST_SUPPORT_WINOGRAD_H

#include <haul/haul.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/level.h"
#include "support/conv2d.h"
#include "support/random.h"

static inline problem make_problem(haul__conv2d_pass pass, int64_t n, int64_t in, int64_t out, int64_t h, int64_t w)
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

/* True if at least half of its tiles are full, as the implementation requires. */
static inline bool fills_tiles(const problem *p)
{
    bool    data = p->c.pass == HAUL__CONV2D_DATA;
    int64_t h = data ? p->c.h : p->c.out_h, w = data ? p->c.w : p->c.out_w;
    return 2 * h * w >= (h + 3) / 4 * 4 * ((w + 3) / 4 * 4);
}

static inline haul_status run_winograd(problem *p)
{
    haul__buffer scratch = {0};
    name_operands(p);
    p->c.scratch_bytes = haul__cpu_winograd_scratch(haul_cpu(), &p->c);
    scratch.host = aligned_alloc(64, (p->c.scratch_bytes + 63) / 64 * 64);
    if (!scratch.host)
        return HAUL_OUT_OF_MEMORY;
    p->c.scratch = &scratch;
    memset(scratch.host, 0x7f, p->c.scratch_bytes); /* large numbers: elements that are not written must not be read */
    haul_status status = haul__cpu_winograd(NULL, &p->c);
    free(scratch.host);
    return status;
}

/* ---- plain sums ---- */

typedef struct sum {
    double value, magnitude;
    float  plain;
} sum;

/* Adds w times the element of a [., channels, h, w] at row y and column x, if it is inside. */
static inline void add(sum *s, float w, const memory *m, int64_t plane, const int64_t size[2], int64_t y, int64_t x)
{
    if (y < 0 || y >= size[0] || x < 0 || x >= size[1])
        return;
    float value = m->values[(plane * size[0] + y) * size[1] + x];
    s->value += (double)w * (double)value;
    s->magnitude += fabs((double)w * (double)value);
    s->plain += w * value;
}

static inline sum forward_sum(const problem *p, int64_t i)
{
    const haul__conv2d *c = &p->c;
    const int64_t       size[2] = {c->h, c->w};
    int64_t             x = i % c->out_w, y = i / c->out_w % c->out_h, out = i / (c->out_w * c->out_h) % c->c_out;
    int64_t             n = i / (c->out_w * c->out_h * c->c_out);
    sum                 s = {0};
    for (int64_t in = 0; in < c->c_in; in++)
        for (int tap = 0; tap < 9; tap++)
            add(&s, p->weight.values[(out * c->c_in + in) * 9 + tap], &p->x, n * c->c_in + in, size,
                y + tap / 3 - c->padding[0], x + tap % 3 - c->padding[1]);
    return s;
}

static inline sum data_sum(const problem *p, int64_t i)
{
    const haul__conv2d *c = &p->c;
    const int64_t       size[2] = {c->out_h, c->out_w};
    int64_t             x = i % c->w, y = i / c->w % c->h, in = i / (c->w * c->h) % c->c_in;
    int64_t             n = i / (c->w * c->h * c->c_in);
    sum                 s = {0};
    for (int64_t out = 0; out < c->c_out; out++)
        for (int tap = 0; tap < 9; tap++)
            add(&s, p->weight.values[(out * c->c_in + in) * 9 + tap], &p->y, n * c->c_out + out, size,
                y - tap / 3 + c->padding[0], x - tap % 3 + c->padding[1]);
    return s;
}

static inline sum weight_sum(const problem *p, int64_t i)
{
    const haul__conv2d *c = &p->c;
    const int64_t       size[2] = {c->h, c->w};
    int64_t             tap = i % 9, in = i / 9 % c->c_in, out = i / (9 * c->c_in);
    sum                 s = {0};
    for (int64_t n = 0; n < c->n; n++)
        for (int64_t y = 0; y < c->out_h; y++)
            for (int64_t x = 0; x < c->out_w; x++)
                add(&s, p->y.values[((n * c->c_out + out) * c->out_h + y) * c->out_w + x], &p->x, n * c->c_in + in,
                    size, y + tap / 3 - c->padding[0], x + tap % 3 - c->padding[1]);
    return s;
}

static inline sum sum_of(const problem *p, int64_t i)
{
    static sum (*const sums[])(const problem *, int64_t) = {forward_sum, data_sum, weight_sum};
    return sums[p->c.pass](p, i);
}

/* The bias of the result's element. */
static inline double bias_of(const problem *p, int64_t i)
{
    const haul__conv2d *c = &p->c;
    if (!c->has_bias)
        return 0;
    return p->bias
        .values[c->pass == HAUL__CONV2D_FORWARD ? i / (c->out_w * c->out_h) % c->c_out : i / (c->w * c->h) % c->c_in];
}

/* ---- checks without assertions, because they run in children ---- */

static inline bool complain(const problem *p, const char *what)
{
    static const char *const passes[] = {"forward", "data", "weight"};
    const haul__conv2d      *c = &p->c;
    fprintf(stderr, "%s of [%lld,%lld,%lld,%lld] to %lld channels, padding %lld %lld%s%s: %s\n", passes[c->pass],
            (long long)c->n, (long long)c->c_in, (long long)c->h, (long long)c->w, (long long)c->c_out,
            (long long)c->padding[0], (long long)c->padding[1], c->has_bias ? ", bias" : "", c->relu ? ", relu" : "",
            what);
    return false;
}

/* Computes it with 1 to 3 threads, which must give bit-identical results, and then the first picture alone. Leaves the
 * result of all pictures. */
static inline bool has_same_bits(problem *p)
{
    memory *result = result_of(p);
    size_t  bytes = (size_t)result->count * sizeof(float);
    int64_t n = p->c.n;
    float  *first = malloc(bytes);
    bool    fine = first && !haul__cpu_winograd_refuses(haul_cpu(), &p->c);
    if (!fine)
        complain(p, "it is refused");
    for (int threads = 1; fine && threads <= 3; threads++) {
        haul_set_num_threads(threads);
        fine = run_winograd(p) == HAUL_OK;
        if (threads == 1)
            memcpy(first, result->values, bytes);
        if (!fine || memcmp(first, result->values, bytes) != 0)
            fine = complain(p, "it failed, or another number of threads gives different bits");
    }
    p->c.n = 1;
    if (fine && p->c.pass != HAUL__CONV2D_WEIGHT &&
        (run_winograd(p) || memcmp(result->values, first, bytes / (size_t)n) != 0))
        fine = complain(p, "one picture alone has different bits");
    p->c.n = n;
    free(first);
    return fine;
}

/* Runs the check in a process that uses the level, because a process chooses its level once. 77 without the level. */
static inline int run_at_level(const char *level, bool (*check)(void))
{
    fflush(NULL);
    const pid_t child = fork();
    int         status = 1;
    if (child == 0) {
        setenv("HAUL_CPU_LEVEL", level, 1);
        if (!haul_device_is_valid(haul_cpu()) || !strstr(haul__cpu_level(), level))
            _exit(77);
        _exit(check() ? 0 : 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 1;
    return WEXITSTATUS(status);
}

/* Before anything else uses the CPU. */
static inline bool run_at_every_level(bool (*check)(void))
{
    static const char *const levels[] = {"base", "v3", "v4"};
    for (int i = 0; i < 3; i++) {
        int result = run_at_level(levels[i], check);
        if (result && result != 77)
            return false;
    }
    return true;
}

#endif

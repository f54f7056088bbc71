/* Operations on a few elements: what a call costs. */
#include "support/bench.h"

static haul_tensor *a, *b;

static bool open_tiny(const bench_case *c)
{
    (void)c;
    a = haul_full(HAUL_F32, HAUL_SHAPE(1, 1), 1);
    b = haul_full(HAUL_F32, HAUL_SHAPE(1, 1), 2);
    return !haul_error_status();
}

static bool open_recorded(const bench_case *c)
{
    return open_tiny(c) && haul_requires_grad(haul_set_requires_grad(a, true));
}

static bool open_row(const bench_case *c)
{
    (void)c;
    a = haul_uniform(HAUL_F32, HAUL_SHAPE(1, 10), -1, 1);
    return !haul_error_status();
}

/* A scope for every thousand results. */
static bool run_tiny_in_scopes(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times;) {
        haul_scope *scope = haul_scope_push();
        for (int64_t end = i + 1000 < times ? i + 1000 : times; i < end; i++)
            haul_add(a, b);
        haul_scope_pop(scope);
    }
    return !haul_error_status();
}

static bool run_dropped(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        haul_drop(c->op(a));
    return !haul_error_status();
}

static bool run_tiny_into(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        haul_add_into(a, a, b);
    return !haul_error_status();
}

static haul_tensor *add(haul_tensor *x)
{
    return haul_add(x, b);
}

/* Of a size that the allocator has at hand after the first time. */
static haul_tensor *empty(haul_tensor *x)
{
    (void)x;
    return haul_empty(HAUL_F32, HAUL_SHAPE(512, 512));
}

static haul_tensor *view(haul_tensor *x)
{
    return haul_view(x, HAUL_SHAPE(2, 5));
}

#define TINY(label, opening, running, what, who)                                                                       \
    {                                                                                                                  \
        .name = label, .unit = "ns", .peers = who, .open = opening, .run = running, .op = what                         \
    }

static const bench_case cases[] = {
    TINY("add 1x1, scopes of 1000", open_tiny, run_tiny_in_scopes, NULL, "torch:add 1x1,torch:add 1x1 script"),
    TINY("add 1x1, each dropped", open_tiny, run_dropped, add, "torch:add 1x1,torch:add 1x1 script"),
    TINY("add 1x1, in place", open_tiny, run_tiny_into, NULL, "torch:add_ 1x1"),
    TINY("add 1x1, with graph", open_recorded, run_dropped, add, "torch:add 1x1 graph"),
    TINY("empty 1 MiB, each dropped", open_tiny, run_dropped, empty, "torch:empty 1 MiB"),
    TINY("view 1x10 as 2x5", open_row, run_dropped, view, "torch:view 1x10"),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}

/* Picking by index, running sums and sorting, forward and backward. */
#include "support/bench.h"

/* The operands: x [rows, columns], and indices into its rows (embedding) or into each of them (gather). */
typedef struct sizes {
    int64_t rows, columns, count;
} sizes;

static haul_tensor *x, *at, *seed;

static bool open_plain(const bench_case *c)
{
    const sizes *s = c->context;
    x = haul_normal(HAUL_F32, HAUL_SHAPE(s->rows, s->columns), 0, 1);
    return !haul_error_status();
}

static bool open_indices(haul_shape shape, int64_t below, haul_shape result)
{
    haul_set_requires_grad(x, true);
    at = haul_cast(haul_uniform(HAUL_F64, shape, 0, (double)below), HAUL_I64);
    seed = haul_ones(HAUL_F32, result);
    return !haul_error_status();
}

static bool open_embedding(const bench_case *c)
{
    const sizes *s = c->context;
    return open_plain(c) && open_indices(HAUL_SHAPE(s->count), s->rows, HAUL_SHAPE(s->count, s->columns));
}

static bool open_gather(const bench_case *c)
{
    const sizes *s = c->context;
    haul_shape   shape = HAUL_SHAPE(s->rows, s->count);
    return open_plain(c) && open_indices(shape, s->columns, shape);
}

static haul_tensor *embedding(haul_tensor *table)
{
    return haul_embedding(table, at);
}

static haul_tensor *index_select(haul_tensor *rows)
{
    return haul_index_select(rows, 0, at);
}

static haul_tensor *gather(haul_tensor *rows)
{
    return haul_gather(rows, 1, at);
}

static haul_tensor *scatter_add(haul_tensor *rows)
{
    return haul_scatter_add(rows, 1, at, seed);
}

static haul_tensor *cumsum_rows(haul_tensor *rows)
{
    return haul_cumsum(rows, 1);
}

static haul_tensor *cumsum_columns(haul_tensor *rows)
{
    return haul_cumsum(rows, 0);
}

static haul_tensor *sort(haul_tensor *rows)
{
    haul_tensor *values, *indices;
    return haul_sort(rows, 1, false, &values, &indices) ? NULL : values;
}

static haul_tensor *sort_columns(haul_tensor *rows)
{
    haul_tensor *values, *indices;
    return haul_sort(rows, 0, false, &values, &indices) ? NULL : values;
}

static haul_tensor *max_with_indices(haul_tensor *rows)
{
    haul_tensor *values, *indices;
    return haul_max_with_indices(rows, 1, false, &values, &indices) ? NULL : values;
}

static bool run_forward(const bench_case *c, int64_t times)
{
    haul_tensor *plain = haul_detach(x);
    for (int64_t i = 0; i < times; i++) {
        haul_scope *scope = haul_scope_push();
        c->op(plain);
        haul_scope_pop(scope);
    }
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

static bool run_both(const bench_case *c, int64_t times)
{
    haul_tensor *g;
    for (int64_t i = 0; i < times; i++) {
        haul_scope *scope = haul_scope_push();
        haul_grad(c->op(x), &x, 1, &g, .seed = seed);
        haul_scope_pop(scope);
    }
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

#define CASE(label, what, opens, runs, m, n, k)                                                                        \
    {                                                                                                                  \
        .name = label, .unit = "us", .peers = "torch:" label, .open = opens, .run = runs, .op = what,                  \
        .context = &(const sizes)                                                                                      \
        {                                                                                                              \
            m, n, k                                                                                                    \
        }                                                                                                              \
    }

static const bench_case cases[] = {
    CASE("embedding 10000 128 2048", embedding, open_embedding, run_forward, 10000, 128, 2048),
    CASE("embedding_grad 10000 128 2048", embedding, open_embedding, run_both, 10000, 128, 2048),
    CASE("embedding_grad 100 64 8192", embedding, open_embedding, run_both, 100, 64, 8192),
    CASE("embedding_grad 100000 64 64", embedding, open_embedding, run_both, 100000, 64, 64),
    CASE("index_select 10000 128 2048", index_select, open_embedding, run_forward, 10000, 128, 2048),
    CASE("index_select_grad 10000 128 2048", index_select, open_embedding, run_both, 10000, 128, 2048),
    CASE("gather 1024 1024 1", gather, open_gather, run_forward, 1024, 1024, 1),
    CASE("gather 1024 1024 512", gather, open_gather, run_forward, 1024, 1024, 512),
    CASE("gather_grad 1024 1024 512", gather, open_gather, run_both, 1024, 1024, 512),
    CASE("scatter_add 1024 1024 512", scatter_add, open_gather, run_forward, 1024, 1024, 512),
    CASE("scatter_add 1 1000000 1000000", scatter_add, open_gather, run_forward, 1, 1000000, 1000000),
    CASE("cumsum_rows 1024 1024", cumsum_rows, open_plain, run_forward, 1024, 1024, 0),
    CASE("cumsum_rows 1 4000000", cumsum_rows, open_plain, run_forward, 1, 4000000, 0),
    CASE("cumsum_columns 1024 1024", cumsum_columns, open_plain, run_forward, 1024, 1024, 0),
    CASE("max_with_indices 1024 1024", max_with_indices, open_plain, run_forward, 1024, 1024, 0),
    CASE("sort 4096 16", sort, open_plain, run_forward, 4096, 16, 0),
    CASE("sort 1024 1000", sort, open_plain, run_forward, 1024, 1000, 0),
    CASE("sort 1 1000000", sort, open_plain, run_forward, 1, 1000000, 0),
    CASE("sort_columns 1000 100", sort_columns, open_plain, run_forward, 1000, 100, 0),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}

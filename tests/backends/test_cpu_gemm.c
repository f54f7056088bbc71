/* The CPU's matrix products against a plain loop in double, over random sizes at the edges of tiles, panels and parts
 * of k, with every layout, bias, accumulation and batches that repeat an operand.
 * ctest: labels=slow */
#include <haul/haul.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/halves.h"
#include "backends/cpu/gemm/panels.h"
#include "backends/cpu/level.h"
#include "base/alloc.h"
#include "base/half.h"
#include "support/conformance/conformance.h"
#include "support/random.h"

/* ---- random problems ---- */

/* Memory of one operand, as elements and as doubles. */
typedef struct memory {
    haul__buffer buffer;
    haul_tensor *tensor;
    void        *exact;
    double      *values;
    int64_t      count;
} memory;

static memory make_memory(haul_dtype dtype, int64_t count)
{
    memory m = {.count = count, .values = calloc((size_t)count + 1, sizeof *m.values)};
    assert_non_null(m.values);
    for (int64_t i = 0; i < count; i++)
        m.values[i] = (double)(below(2001) - 1000) / 1000;
    m.tensor = haul_cast(haul_from_host(HAUL_F64, HAUL_SHAPE(count), m.values), dtype);
    assert_int_equal(read_values(m.tensor, m.values, count), HAUL_OK);
    m.buffer = m.tensor->storage->buffer;
    return m;
}

/* In a block of its own that ends with the last element, so that a sanitizer sees reads behind it. */
static memory make_exact(haul_dtype dtype, int64_t count)
{
    memory m = make_memory(dtype, count);
    size_t bytes = (size_t)count * haul__dtype_size(dtype);
    m.exact = malloc(bytes);
    assert_non_null(m.exact);
    memcpy(m.exact, m.buffer.host, bytes);
    m.buffer.host = m.exact;
    return m;
}

static void free_memory(memory *m)
{
    free(m->values);
    free(m->exact);
}

/* A matrix [rows, columns] in one of four layouts; returns how many elements it spans. */
static int64_t lay_out(int64_t rows, int64_t columns, int64_t *row, int64_t *column)
{
    int64_t gap = below(2) * below(20), pick = below(8);
    if (pick < 3) {
        *row = columns + gap;
        *column = 1;
    } else if (pick < 7) {
        *row = 1;
        *column = rows + gap;
    } else {
        *row = 2 * columns + gap;
        *column = 2;
    }
    return (rows > 0 ? (rows - 1) * *row : 0) + (columns > 0 ? (columns - 1) * *column : 0) + 1;
}

/* Sums of squares of errors: of the results, and of a plain loop in f32. */
typedef struct errors {
    double got, plain;
} errors;

typedef struct problem {
    haul__gemm g;
    memory     a, b, c, bias;
} problem;

/* Half of the batches of an even size become groups of two matrices. Those of A and B are further apart than one stride
 * says, and the rows of C hold both. */
static void group(haul__gemm *g)
{
    if (g->batch % 2 || below(2))
        return;
    g->inner = 2;
    g->a_outer = 2 * g->a_batch + below(9);
    g->b_outer = 2 * g->b_batch + below(9);
    g->c_batch = g->n;
    g->c_row += g->n;
    g->c_outer = g->m * g->c_row;
}

static problem random_problem(haul_dtype dtype, int64_t m, int64_t n, int64_t k, int64_t batch)
{
    problem     p = {.g = {.dtype = dtype, .m = m, .n = n, .k = k, .batch = batch}};
    haul__gemm *g = &p.g;
    int64_t     a = lay_out(m, k, &g->a_row, &g->a_col), b = lay_out(k, n, &g->b_row, &g->b_col);
    g->a_batch = below(3) ? a : 0;
    g->b_batch = below(3) ? b : 0;
    g->c_row = n + below(2) * below(9);
    g->c_batch = m * g->c_row;
    g->a_offset = below(5);
    g->b_offset = below(5);
    g->c_offset = 3 + below(5);
    g->accumulate = below(3) == 0;
    group(g);
    p.a = make_exact(dtype, g->a_offset + haul__gemm_matrix(g, batch - 1, g->a_batch, g->a_outer) + a);
    p.b = make_exact(dtype, g->b_offset + haul__gemm_matrix(g, batch - 1, g->b_batch, g->b_outer) + b);
    p.c = make_memory(dtype, g->c_offset + g->m * g->c_row * (batch + 1) + 8);
    p.bias = make_exact(dtype, n + 1);
    g->bias_offset = 1;
    return p;
}

static void free_problem(problem *p)
{
    free_memory(&p->a);
    free_memory(&p->b);
    free_memory(&p->c);
    free_memory(&p->bias);
}

static haul_status run_with(problem *p, haul__buffer *scratch)
{
    p->g.a = &p->a.buffer;
    p->g.b = &p->b.buffer;
    p->g.c = &p->c.buffer;
    p->g.scratch = scratch;
    return haul__cpu_gemm(NULL, &p->g);
}

static haul_status run(problem *p)
{
    haul__buffer scratch = {0};
    haul_status  status;
    p->g.bias = p->g.bias ? &p->bias.buffer : NULL;
    p->g.scratch_bytes = haul__cpu_gemm_scratch(haul_cpu(), &p->g);
    scratch.host = p->g.scratch_bytes ? aligned_alloc(64, (p->g.scratch_bytes + 63) / 64 * 64) : NULL;
    assert_true(!p->g.scratch_bytes || scratch.host);
    status = run_with(p, scratch.host ? &scratch : NULL);
    free(scratch.host);
    return status;
}

static size_t bytes_of(const problem *p)
{
    return (size_t)p->c.count * haul__dtype_size(p->g.dtype);
}

/* ---- comparison ---- */

static void describe(const problem *p, char *text, size_t size)
{
    const haul__gemm *g = &p->g;
    snprintf(text, size, "%s %lld of %lldx%lldx%lld, a %lld %lld, b %lld %lld%s%s", haul_dtype_name(g->dtype),
             (long long)g->batch, (long long)g->m, (long long)g->n, (long long)g->k, (long long)g->a_row,
             (long long)g->a_col, (long long)g->b_row, (long long)g->b_col, g->bias ? ", bias" : "",
             g->inner        ? ", in groups"
             : g->accumulate ? ", added"
                             : "");
}

/* How far a result may be from the sum in double: rounding of the result, and of as many sums as there are. */
static double allowed(haul_dtype dtype, double value, double magnitude, int64_t k)
{
    double sum = dtype == HAUL_F64 ? 0x1p-52 : 0x1p-23, result = sum;
    if (dtype == HAUL_F16)
        result = 0x1p-10;
    if (dtype == HAUL_BF16)
        result = 0x1p-7;
    return fabs(value) * result + magnitude * sum * sqrt((double)k + 4) * 2 + (dtype == HAUL_F16 ? 1e-7 : 0);
}

static int64_t place_in_c(const haul__gemm *g, int64_t z, int64_t i, int64_t j)
{
    return g->c_offset + haul__gemm_matrix(g, z, g->c_batch, g->c_outer) + i * g->c_row + j;
}

static void compare_element(const problem *p, const double *got, int64_t z, int64_t i, int64_t j, errors *e)
{
    const haul__gemm *g = &p->g;
    const double     *a = p->a.values + g->a_offset + haul__gemm_matrix(g, z, g->a_batch, g->a_outer) + i * g->a_row;
    const double     *b = p->b.values + g->b_offset + haul__gemm_matrix(g, z, g->b_batch, g->b_outer) + j * g->b_col;
    int64_t           at = place_in_c(g, z, i, j);
    double            value = 0, magnitude = 0;
    float             plain = 0;
    for (int64_t k = 0; k < g->k; k++) {
        double product = a[k * g->a_col] * b[k * g->b_row];
        value += product;
        magnitude += fabs(product);
        plain += (float)a[k * g->a_col] * (float)b[k * g->b_row];
    }
    e->plain += (plain - value) * (plain - value);
    double sum = value,
           extra = (g->bias ? p->bias.values[g->bias_offset + j] : 0) + (g->accumulate ? p->c.values[at] : 0);
    value += extra;
    if (!(fabs(got[at] - value) <= allowed(g->dtype, value, magnitude + fabs(extra) + 1, g->k))) {
        char text[200];
        describe(p, text, sizeof text);
        fail_msg("%s: element %lld %lld %lld is %.9g, not %.9g", text, (long long)z, (long long)i, (long long)j,
                 got[at], value);
    }
    if (!extra)
        e->got += (got[at] - sum) * (got[at] - sum);
    else
        e->got += (plain - sum) * (plain - sum); /* the rounding of the extra terms is not the product's */
}

/* The products of the problem for one, two and three threads are bit-identical and are right; elements between rows of
 * C stay. */
static void check(problem *p, errors *e)
{
    haul_scope *scope = haul_scope_push();
    size_t      bytes = bytes_of(p);
    char       *before = malloc(bytes), *first = malloc(bytes);
    double     *got = calloc((size_t)p->c.count, sizeof *got);
    assert_true(before && first && got);
    memcpy(before, p->c.buffer.host, bytes);
    for (int threads = 1; threads <= 3; threads++) {
        memcpy(p->c.buffer.host, before, bytes);
        haul_set_num_threads(threads);
        assert_int_equal(run(p), HAUL_OK);
        if (threads == 1)
            memcpy(first, p->c.buffer.host, bytes);
        if (memcmp(first, p->c.buffer.host, bytes) != 0) {
            char text[200];
            describe(p, text, sizeof text);
            fail_msg("%s: %d threads give different bits", text, threads);
        }
    }
    haul_set_num_threads(0);
    assert_int_equal(read_values(p->c.tensor, got, p->c.count), HAUL_OK);
    const haul__gemm *g = &p->g;
    for (int64_t z = 0; z < g->batch; z++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++)
                compare_element(p, got, z, i, j, e);
    for (int64_t z = 0; z < g->batch; z++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++)
                got[place_in_c(g, z, i, j)] = p->c.values[place_in_c(g, z, i, j)];
    for (int64_t at = 0; at < p->c.count; at++)
        if (got[at] != p->c.values[at])
            fail_msg("an element between rows of C changed");
    free(before);
    free(first);
    free(got);
    haul_scope_pop(scope);
}

static void check_random(haul_dtype dtype, int64_t m, int64_t n, int64_t k, int64_t batch, errors *e)
{
    haul_scope *scope = haul_scope_push();
    problem     p = random_problem(dtype, m, n, k, batch);
    p.g.bias = below(3) == 0 ? &p.bias.buffer : NULL;
    check(&p, e);
    free_problem(&p);
    haul_scope_pop(scope);
}

/* The rms error of products in f32 is that of a plain loop, or less. */
static void assert_accurate(const errors *e)
{
    if (!(sqrt(e->got) <= 2 * sqrt(e->plain)))
        fail_msg("the rms error is %.3g times that of a plain loop", sqrt(e->got / e->plain));
}

static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_F16, HAUL_BF16};

static void test_cpu_gemm__random_sizes(void **unused)
{
    errors f32 = {0}, others = {0};
    (void)unused;
    for (int i = 0; i < 2400; i++) {
        haul_dtype dtype = dtypes[i % 6 < 3 ? 0 : i % 6 - 2];
        int64_t    m = 1 + below(130), n = 1 + below(130), k = below(12) ? below(130) : 0;
        check_random(dtype, m, n, k, below(6) ? 1 : 1 + below(4), dtype == HAUL_F32 ? &f32 : &others);
    }
    assert_accurate(&f32);
}

static void test_cpu_gemm__parts_of_k(void **unused)
{
    static const int64_t lengths[] = {511, 512, 513, 1023, 1024, 1025, 1030, 1600};
    errors               f32 = {0}, others = {0};
    (void)unused;
    for (int i = 0; i < 96; i++) {
        haul_dtype dtype = dtypes[i % 4];
        check_random(dtype, 1 + below(60), 1 + below(70), lengths[i / 4 % 8], 1 + below(2),
                     dtype == HAUL_F32 ? &f32 : &others);
    }
    assert_accurate(&f32);
}

/* So many rows that B is packed once, and so many columns that panels are packed in groups. */
static void test_cpu_gemm__many_rows_and_columns(void **unused)
{
    static const int64_t sizes[][3] = {{600, 90, 130}, {530, 33, 530},  {1030, 70, 90},  {530, 4200, 3},
                                       {65, 400, 300}, {70, 1100, 520}, {600, 3000, 30}, {200, 170, 150},
                                       {20, 900, 600}, {3, 300, 700},   {16, 70, 700}};
    errors               f32 = {0}, others = {0};
    (void)unused;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int i = 0; i < 8; i++)
            check_random(dtypes[i % 4], sizes[s][0], sizes[s][1], sizes[s][2], 1, i % 4 ? &others : &f32);
    assert_accurate(&f32);
}

/* Matrices times vectors, in both orders. */
static void test_cpu_gemm__vectors(void **unused)
{
    errors f32 = {0}, others = {0};
    (void)unused;
    for (int i = 0; i < 400; i++) {
        int64_t    one = below(2), size = 1 + below(600);
        haul_dtype dtype = dtypes[i % 4];
        check_random(dtype, one ? 1 : size, one ? size : 1, below(600), 1 + below(2),
                     dtype == HAUL_F32 ? &f32 : &others);
    }
    assert_accurate(&f32);
}

/* ---- layouts do not change bits ---- */

/* A row-major and transposed, at the same values: the sums are the same chains. */
static void test_cpu_gemm__layouts_give_the_same_bits(void **unused)
{
    static const int64_t sizes[][3] = {{40, 50, 60}, {130, 200, 90}, {300, 70, 600}, {600, 100, 80}};
    (void)unused;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int d = 0; d < 4; d++) {
            haul_scope  *scope = haul_scope_push();
            int64_t      m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            haul_tensor *a = haul_cast(haul_uniform(HAUL_F32, HAUL_SHAPE(m, k), -1, 1), dtypes[d]);
            haul_tensor *b = haul_cast(haul_uniform(HAUL_F32, HAUL_SHAPE(k, n), -1, 1), dtypes[d]);
            haul_tensor *at = haul_transpose(haul_contiguous(haul_transpose(a, 0, 1)), 0, 1);
            haul_tensor *bt = haul_transpose(haul_contiguous(haul_transpose(b, 0, 1)), 0, 1);
            haul_tensor *y[] = {haul_matmul(a, b), haul_matmul(at, b), haul_matmul(a, bt), haul_matmul(at, bt)};
            for (int i = 0; i < 4; i++) {
                assert_true(haul_tensor_is_valid(y[i]));
                assert_memory_equal(y[i]->storage->buffer.host, y[0]->storage->buffer.host,
                                    (size_t)(m * n) * haul__dtype_size(dtypes[d]));
            }
            haul_scope_pop(scope);
        }
}

/* ---- instruction levels ---- */

/* Rows of B that the first tile copies, and the sums of all tiles, against a strip whose panel was packed before. */
static void check_copies(const haul__cpu_panels *panels, haul__cpu_strip s, const float *b, int64_t b_row)
{
    static float    copied[70 * 64], c[64 * 70];
    const float    *panel = s.b, *expected = s.c;
    haul__cpu_strip copying = s;
    memset(copied, 0, sizeof copied);
    copying.b = b;
    copying.b_row = b_row;
    copying.c = c;
    panels->multiply_copying(&copying, copied);
    panels->multiply(&s);
    assert_memory_equal(copied, panel, (size_t)(s.k * panels->width) * sizeof(float));
    for (int64_t row = 0; row < s.m; row++)
        assert_memory_equal(c + row * s.c_row, expected + row * s.c_row, (size_t)s.n * sizeof(float));
}

/* Tiles of a level, packed and in place, against a plain loop. The functions above run at the best level only. */
static void check_level(const haul__cpu_panels *panels)
{
    float a[64 * 70], b[70 * 64], c[64 * 70], packed_a[80 * 70], panel[70 * 64];
    int   copies = 0;
    for (int i = 0; i < 2000; i++) {
        int64_t m = 1 + below(60), n = below(3) ? 1 + below(panels->width) : panels->width, k = below(70);
        int64_t turned = below(2), packs = below(2);
        for (int64_t j = 0; j < m * k; j++)
            a[j] = (float)(below(2001) - 1000) / 1000;
        for (int64_t j = 0; j < n * k; j++)
            b[j] = (float)(below(2001) - 1000) / 1000;
        for (int64_t j = 0; j < 64 * 70; j++)
            c[j] = 7;
        int64_t a_row = turned ? 1 : k, a_column = turned ? m : 1, c_row = n + below(6), b_turned = below(2);
        int64_t b_row = b_turned ? 1 : n, b_column = b_turned ? k : 1, tile = panels->rows * k;
        panels->pack_b(panel, b, b_row, b_column, k, n);
        panels->pack_a(packed_a, tile, a, a_row, a_column, m, k);
        haul__cpu_strip s = {.m = m,
                             .n = n,
                             .k = k,
                             .a = packs && k ? packed_a : a,
                             .a_row = a_row,
                             .a_column = a_column,
                             .a_tile = packs ? tile : 0,
                             .b = panel,
                             .b_row = panels->width,
                             .c = c,
                             .c_row = c_row};
        if (panels->multiply_copying && n == panels->width && m >= 2 * panels->rows && !b_turned) {
            check_copies(panels, s, b, b_row);
            copies++;
        }
        panels->multiply(&s);
        s.accumulate = true;
        panels->multiply(&s);
        for (int64_t at = 0; at < m * c_row; at++) {
            int64_t row = at / c_row, column = at % c_row;
            double  sum = column < n ? 0 : 7;
            for (int64_t l = 0; l < k && column < n; l++)
                sum += 2.0 * a[row * a_row + l * a_column] * b[l * b_row + column * b_column];
            if (!(fabs(c[at] - sum) < 1e-4))
                fail_msg("%lldx%lldx%lld: element %lld %lld is %g, not %g", (long long)m, (long long)n, (long long)k,
                         (long long)row, (long long)column, c[at], sum);
        }
    }
    assert_true(!panels->multiply_copying || copies > 100);
}

#ifdef HAUL_HAVE_LEVEL_v4
/* A matrix of bf16 for panels of pairs: its values are those of `exact`. */
typedef struct half_matrix {
    uint16_t in[96 * 300];
    double   exact[96 * 300];
    int64_t  row, column;
} half_matrix;

static void fill_halves(half_matrix *h, int64_t rows, int64_t columns)
{
    lay_out(rows, columns, &h->row, &h->column);
    for (int i = 0; i < 96 * 300; i++) {
        h->in[i] = haul__half_encode(HAUL_BF16, (double)(below(2001) - 1000) / 1000);
        h->exact[i] = haul__half_decode(HAUL_BF16, h->in[i]);
    }
}

static double sum_of_pairs(const half_matrix *a, const half_matrix *b, int64_t row, int64_t column, int64_t k)
{
    double sum = 0;
    for (int64_t l = 0; l < k; l++)
        sum += a->exact[row * a->row + l * a->column] * b->exact[l * b->row + column * b->column];
    return sum;
}

/* Tiles for bf16, packed, against a plain loop. C is [m, c_row]; elements behind its n columns stay. */
static void check_pairs(const haul__cpu_panels *panels)
{
    static half_matrix a, b;
    static uint32_t    packed_a[128 * 80], panel[80 * 64];
    static float       c[96 * 70];
    for (int i = 0; i < 1500; i++) {
        int64_t m = 1 + below(90), n = 1 + below(panels->width), k = 1 + below(130), c_row = n + below(6);
        int64_t pairs = (k + panels->step - 1) / panels->step * panels->step / 2, tile = panels->rows * pairs;
        fill_halves(&a, m, k);
        fill_halves(&b, k, n);
        for (int64_t j = 0; j < 96 * 70; j++)
            c[j] = 7;
        memset(packed_a, 0xff, sizeof packed_a); /* NaN: a sum must not read elements outside of rows */
        memset(panel, 0xff, sizeof panel);
        panels->pack_a(packed_a, tile, a.in, a.row, a.column, m, k);
        panels->pack_b(panel, b.in, b.row, b.column, k, n);
        haul__cpu_strip s = {.m = m, .n = n, .k = pairs, .a = packed_a, .a_tile = tile, .b = panel, .c = c};
        s.b_row = panels->width;
        s.c_row = c_row;
        panels->multiply(&s);
        s.accumulate = true;
        panels->multiply(&s);
        for (int64_t at = 0; at < m * c_row; at++) {
            int64_t row = at / c_row, column = at % c_row;
            double  sum = column < n ? 2 * sum_of_pairs(&a, &b, row, column, k) : 7;
            if (!(fabs(c[at] - sum) < 1e-4))
                fail_msg("%lldx%lldx%lld: element %lld %lld is %g, not %g", (long long)m, (long long)n, (long long)k,
                         (long long)row, (long long)column, c[at], sum);
        }
    }
}

#endif

/* Each set of instructions for bf16 that the processor has. */
static void test_cpu_gemm__instructions_for_bf16(void **unused)
{
    (void)unused;
#ifdef HAUL_HAVE_LEVEL_v4
    if (haul__cpu_has_bf16_pairs())
        check_pairs(&haul__cpu_panels_bf16_v4);
    if (haul__cpu_has_bf16_tiles())
        check_pairs(&haul__cpu_panels_amx_v4);
#endif
    if (!haul__cpu_has_bf16_pairs())
        skip();
}

static void test_cpu_gemm__every_level(void **unused)
{
    (void)unused;
#ifdef HAUL_HAVE_LEVEL_base
    if (haul__cpu_runs(HAUL__CPU_BASE))
        check_level(&haul__cpu_panels_f32_base);
#endif
#ifdef HAUL_HAVE_LEVEL_v3
    if (haul__cpu_runs(HAUL__CPU_V3))
        check_level(&haul__cpu_panels_f32_v3);
#endif
#ifdef HAUL_HAVE_LEVEL_v4
    if (haul__cpu_runs(HAUL__CPU_V4))
        check_level(&haul__cpu_panels_f32_v4);
#endif
    check_level(haul__cpu_panels_for(HAUL_F32));
}

/* ---- conversions ---- */

/* Rows of every length around a vector's, against conversions of single values: all halves, and floats around them. */
static void test_cpu_gemm__conversions_of_halves(void **unused)
{
    static const haul_dtype halves[] = {HAUL_F16, HAUL_BF16};
    static uint16_t         in[65536], out[37];
    static float            wide[65536], values[37];
    (void)unused;
    for (int d = 0; d < 2; d++) {
        const haul__cpu_halves *h = haul__cpu_halves_for(halves[d]);
        for (int i = 0; i < 65536; i++)
            in[i] = (uint16_t)i;
        h->widen(wide, 65536, &(haul__cpu_matrix){in, 1, 65536, 65536, 1});
        for (int i = 0; i < 65536; i++) {
            float want = (float)haul__half_decode(halves[d], in[i]);
            assert_true(isnan(want) ? isnan(wide[i]) : memcmp(&want, &wide[i], 4) == 0);
        }
        for (int i = 0; i < 60000; i++) {
            int count = 1 + i % 37;
            for (int j = 0; j < count; j++) {
                uint32_t bits;
                memcpy(&bits, &wide[below(65536)], 4);
                bits += (uint32_t)(below(3) ? below(9) - 4 : below(1 << 16));
                memcpy(&values[j], &bits, 4);
            }
            h->narrow(out, values, count);
            for (int j = 0; j < count; j++)
                if (!isnan(values[j]))
                    assert_int_equal(out[j], haul__half_encode(halves[d], values[j]));
                else
                    assert_true(isnan(haul__half_decode(halves[d], out[j])));
        }
    }
}

/* ---- memory ---- */

/* A thread that has no scratch memory yet gets none. */
static void *fail_for_a_thread(void *unused)
{
    (void)unused;
    haul_scope *scope = haul_scope_push();
    problem     p = random_problem(HAUL_F32, 100, 90, 80, 1);
    p.g.a_col = p.g.a_row == 1 ? p.g.a_col : 1;
    haul_set_scope_threads(1);
    haul__fault_plan(HAUL__FAULT_HOST, 1);
    haul_status status = run_with(&p, NULL);
    haul__fault_plan(0, 0);
    haul_error_clear();
    free_problem(&p);
    haul_scope_pop(scope);
    return status == HAUL_OUT_OF_MEMORY ? &random_state : NULL;
}

static void test_cpu_gemm__without_memory_of_a_thread(void **unused)
{
    pthread_t thread;
    void     *result = NULL;
    (void)unused;
    assert_int_equal(pthread_create(&thread, NULL, fail_for_a_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_non_null(result);
}

/* B is packed by each thread if there is no memory to pack it once. For dozens of threads it would not be. */
static void test_cpu_gemm__without_memory_to_share(void **unused)
{
    (void)unused;
    haul_scope *scope = haul_scope_push();
    haul_set_num_threads(2);
    problem p = random_problem(HAUL_F32, 600, 100, 90, 1);
    size_t  bytes = bytes_of(&p);
    char   *before = malloc(bytes), *first = malloc(bytes);
    assert_true(before && first);
    assert_true(haul__cpu_gemm_scratch(haul_cpu(), &p.g) > 0);
    memcpy(before, p.c.buffer.host, bytes);
    assert_int_equal(run(&p), HAUL_OK);
    memcpy(first, p.c.buffer.host, bytes);
    memcpy(p.c.buffer.host, before, bytes);
    assert_int_equal(run_with(&p, NULL), HAUL_OK);
    assert_memory_equal(first, p.c.buffer.host, bytes);
    haul_set_num_threads(0);
    free(before);
    free(first);
    free_problem(&p);
    haul_scope_pop(scope);
}

static void test_cpu_gemm__without_scratch_memory(void **unused)
{
    (void)unused;
    haul_scope *scope = haul_scope_push();
    problem     p = random_problem(HAUL_F16, 40, 50, 600, 1);
    assert_true(haul__cpu_gemm_scratch(haul_cpu(), &p.g) > 0);
    assert_int_equal(run_with(&p, NULL), HAUL_OUT_OF_MEMORY);
    haul_error_clear();
    free_problem(&p);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_gemm__random_sizes),
        cmocka_unit_test(test_cpu_gemm__parts_of_k),
        cmocka_unit_test(test_cpu_gemm__many_rows_and_columns),
        cmocka_unit_test(test_cpu_gemm__vectors),
        cmocka_unit_test(test_cpu_gemm__layouts_give_the_same_bits),
        cmocka_unit_test(test_cpu_gemm__instructions_for_bf16),
        cmocka_unit_test(test_cpu_gemm__every_level),
        cmocka_unit_test(test_cpu_gemm__conversions_of_halves),
        cmocka_unit_test(test_cpu_gemm__without_memory_of_a_thread),
        cmocka_unit_test(test_cpu_gemm__without_memory_to_share),
        cmocka_unit_test(test_cpu_gemm__without_scratch_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Copies between the CPU and devices that work in host memory, which their kernels do: the right bytes for any layouts
 * and dtypes, one command and one copy each, no wait, and what happens where a kernel cannot reach the memory.
 * ctest: env=POCL_DEVICES=pthread pthread; labels=threads */
#include <stdio.h>
#include <sys/mman.h>

#include "support/moves.h"
#include "support/random.h"

/* Part of a matrix: some of the rows and columns, perhaps turned around. */
typedef struct form {
    int64_t rows, columns, row_step, column_step, row, column; /* the steps, and the first row and column */
    bool    turned;
} form;

static form draw_form(bool large)
{
    form f = {.rows = large ? 1024 + below(9) : 1 + below(20), .columns = large ? 1024 + below(9) : 1 + below(70)};
    f.row_step = 1 + below(2);
    f.column_step = 1 + below(3);
    f.row = below(4);
    f.column = below(20);
    f.turned = below(3) == 0;
    return f;
}

/* The matrix of which it is a part, with values that are out of range for some dtypes. */
static haul_tensor *make_base(const form *f, haul_dtype dtype)
{
    haul_tensor *numbers = iota(f->row + f->rows * f->row_step, f->column + f->columns * f->column_step);
    haul_tensor *x = haul_cast(haul_mul_scalar(haul_sin(haul_add_scalar(numbers, (double)below(1000))), 300), dtype);
    assert_valid(x);
    return x;
}

static haul_tensor *part_of(haul_tensor *base, const form *f)
{
    haul_tensor *x = haul_slice(base, 0, f->row, base->shape.dims[0], f->row_step);
    x = haul_slice(x, 1, f->column, base->shape.dims[1], f->column_step);
    x = f->turned ? haul_transpose(x, 0, 1) : x;
    assert_valid(x);
    return x;
}

static void assert_same(haul_tensor *a, haul_tensor *b)
{
    const size_t size = haul_tensor_bytes(b);
    char        *of_a = malloc(size), *of_b = malloc(size);
    assert_true(of_a && of_b);
    assert_int_equal(haul_tensor_dtype(a), haul_tensor_dtype(b));
    assert_int_equal(haul_read(a, of_a, size), HAUL_OK);
    assert_int_equal(haul_read(b, of_b, size), HAUL_OK);
    assert_memory_equal(of_a, of_b, size);
    free(of_a);
    free(of_b);
}

/* A fresh tensor, and a part of one that is there, whose other elements stay. */
static void check(haul_device *from, haul_device *to, bool large)
{
    haul_scope      *inner = haul_scope_push();
    const form       f = draw_form(large);
    const haul_dtype before = test_dtypes[below(test_dtype_count)], after = test_dtypes[below(test_dtype_count)];
    haul_tensor     *base = make_base(&f, before), *x = part_of(haul_to(base, from), &f);
    haul_tensor     *expected = haul_cast(part_of(base, &f), after);
    haul_tensor     *moved = haul_to(x, to, .dtype = after);
    assert_valid(moved);
    assert_same(moved, expected);
    form g = draw_form(false);
    g.rows = f.turned == g.turned ? f.rows : f.columns;
    g.columns = f.turned == g.turned ? f.columns : f.rows;
    haul_tensor *there = make_base(&g, after), *copy = haul_to(haul_clone(there), to);
    assert_int_equal(haul_copy_into(part_of(there, &g), expected), HAUL_OK);
    assert_int_equal(haul_copy_into(part_of(copy, &g), x), HAUL_OK);
    assert_same(copy, there);
    haul_scope_pop(inner);
}

static void test_direct__any_layout_and_dtypes(void **state)
{
    (void)state;
    for (int i = 0; i < 320; i++) {
        haul_device *d = devices[1 + below(device_count > 1 ? device_count - 1 : 1)];
        if (device_count > 1 && below(2))
            check(haul_cpu(), d, i % 32 == 0);
        else if (device_count > 1)
            check(d, haul_cpu(), i % 32 == 0);
    }
}

/* ---- one command ---- */

typedef struct seen {
    int     commands, kernels, copies;
    int64_t bytes;
    char    conversion[32];

} seen;

static void see(const haul_event *e, void *context)
{
    seen *s = context;
    if (e->kind == HAUL_EVENT_COMMAND_SUBMITTED) {
        s->commands++;
        s->kernels += *e->kernel && strcmp(e->text, "copy") == 0;
        return;
    }
    s->copies++;
    s->bytes += e->bytes;
    snprintf(s->conversion, sizeof s->conversion, "%s", e->problem);
}

static seen watch_move(haul_tensor *x, haul_device *to, haul_dtype dtype)
{
    seen          s = {0};
    const int64_t waits = haul_sync_count();
    const int64_t id =
        haul_events_subscribe(see, .kinds = HAUL_EVENT_COPY | HAUL_EVENT_COMMAND_SUBMITTED, .context = &s);
    assert_true(id > 0);
    assert_valid(haul_to(x, to, .dtype = dtype));
    assert_int_equal(haul_events_unsubscribe(id), HAUL_OK);
    assert_int_equal(haul_sync_count(), waits);
    return s;
}

static void test_direct__one_command_one_copy_no_wait(void **state)
{
    (void)state;
    for (int d = 1; d < device_count; d++) {
        if (!haul__device_reaches_host(devices[d]))
            continue;
        haul_tensor *here = haul_zeros(HAUL_I32, HAUL_SHAPE(1024, 1024)), *there = haul_to(here, devices[d]);
        haul_tensor *rows = haul_slice(there, 0, 0, 1024, 2), *columns = haul_slice(here, 1, 0, 1024, 2);
        assert_valid(haul_to(haul_zeros(HAUL_I32, HAUL_SHAPE(4, 4)), devices[d], .dtype = HAUL_F32));
        assert_int_equal(haul_device_sync(devices[d]), HAUL_OK);
        const seen up = watch_move(here, devices[d], HAUL_F32), down = watch_move(there, haul_cpu(), HAUL_F32);
        const seen gathered = watch_move(rows, haul_cpu(), HAUL_I32), small = watch_move(columns, devices[d], HAUL_U8);
        const seen dense = watch_move(here, devices[d], HAUL_I32), back = watch_move(there, haul_cpu(), HAUL_I32);
        const seen short_one = watch_move(haul_slice(here, 0, 0, 1023, 1), devices[d], HAUL_I32);
        assert_true(dense.commands == 1 && dense.kernels == 1 && dense.copies == 1 && dense.bytes == 4 << 20);
        assert_true(back.commands == 1 && back.kernels == 1 && back.copies == 1 && back.bytes == 4 << 20);
        assert_true(short_one.commands == 1 && short_one.kernels == 0 && short_one.bytes == 1023 << 12);
        assert_true(up.commands == 1 && up.kernels == 1 && up.copies == 1 && up.bytes == 4 << 20);
        assert_true(down.commands == 1 && down.kernels == 1 && down.copies == 1 && down.bytes == 4 << 20);
        assert_string_equal(up.conversion, "i32 to f32");
        assert_string_equal(down.conversion, "i32 to f32");
        assert_true(gathered.commands == 1 && gathered.kernels == 1 && gathered.bytes == 2 << 20);
        assert_string_equal(gathered.conversion, "");
        assert_true(small.kernels == 0 && small.copies == 1 && small.bytes == 512 << 10); /* gathered on the CPU */
    }
}

/* Those of a NaN, too. */
static void test_direct__dense_copies_keep_every_bit(void **state)
{
    enum { BYTES = 4 << 20 };
    uint32_t *bits = malloc(BYTES);
    (void)state;
    assert_non_null(bits);
    for (int t = 0; t < test_dtype_count; t++) {
        const haul_dtype dtype = test_dtypes[t];
        for (int i = 0; i < BYTES / 4; i++)
            bits[i] = dtype == HAUL_BOOL ? 0x00010001u << 8 * below(2) : (uint32_t)(below(65536) << 16 | below(65536));
        const haul_shape shape = HAUL_SHAPE(BYTES / (int64_t)haul__dtype_size(dtype));
        haul_tensor     *x = haul_clone(haul_wrap_host(dtype, shape, bits, NULL, NULL));
        for (int d = 1; d < device_count; d++)
            assert_same(haul_to(haul_to(x, devices[d]), haul_cpu()), x);
    }
    free(bits);
}

/* ---- what a kernel cannot reach ---- */

static void test_direct__a_refused_copy_changes_nothing(void **state)
{
    (void)state;
    for (int d = 1; d < device_count; d++) {
        haul_tensor *x = haul_to(haul_slice(iota(600, 1024), 0, 0, 600, 2), devices[d]);
        haul_tensor *out = haul_zeros(HAUL_I32, HAUL_SHAPE(300, 1024));
        haul_tensor *zeros = haul_clone(out);
        haul_transfer_stats_reset();
        haul__fault_plan(HAUL__FAULT_COPY, 1);
        assert_int_not_equal(haul_copy_into(out, x), HAUL_OK);
        assert_error(HAUL_BACKEND, "fault injected");
        haul__fault_plan(0, 0);
        assert_int_equal(ledger().d2h_count, 0);
        assert_same(out, zeros);
    }
}

/* More memory than a buffer of the driver may have, and memory at an odd address, whose other elements stay. */
static void test_direct__memory_of_the_program(void **state)
{
    enum { ROWS = 300, COLUMNS = 1000 };
    const int64_t all = (int64_t)1 << 38; /* 1 TiB of f32, of which the system has to provide some pages */
    float        *wide =
        mmap(NULL, (size_t)all * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *odd = calloc(2 * ROWS * COLUMNS * 4 + 8, 1);
    (void)state;
    assert_true(wide != MAP_FAILED && odd);
    for (int64_t i = 0; i < 2 * ROWS * COLUMNS; i++)
        wide[i] = (float)(i % 1021);
    memcpy(odd + 4, wide, 2 * ROWS * COLUMNS * 4);
    for (int d = 1; d < device_count; d++) {
        haul_tensor *x = haul_wrap_host(HAUL_F32, HAUL_SHAPE(all / COLUMNS, COLUMNS), wide, NULL, NULL);
        haul_tensor *y = haul_wrap_host(HAUL_F32, HAUL_SHAPE(2 * ROWS, COLUMNS), odd + 4, NULL, NULL);
        haul_tensor *from_x = haul_slice(x, 0, 0, 2 * ROWS, 2), *from_y = haul_slice(y, 0, 0, 2 * ROWS, 2);
        haul_tensor *up = haul_to(from_x, devices[d]);
        assert_valid(up);
        assert_same(up, from_y);
        assert_same(haul_to(from_y, devices[d]), from_x);
        assert_int_equal(haul_copy_into(haul_slice(x, 0, 1, 2 * ROWS, 2), up), HAUL_OK);
        assert_int_equal(haul_copy_into(haul_slice(y, 0, 1, 2 * ROWS, 2), up), HAUL_OK);
        assert_same(haul_slice(x, 0, 1, 2 * ROWS, 2), from_y);
        assert_same(y, haul_slice(x, 0, 0, 2 * ROWS, 1));
    }
    haul_scope_pop(scope);
    scope = haul_scope_push();
    munmap(wide, (size_t)all * 4);
    free(odd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_direct__any_layout_and_dtypes),       TEST(test_direct__one_command_one_copy_no_wait),
        TEST(test_direct__dense_copies_keep_every_bit), TEST(test_direct__a_refused_copy_changes_nothing),
        TEST(test_direct__memory_of_the_program),
    };
    return run_moves("transfer_direct", tests, sizeof tests / sizeof tests[0]);
}

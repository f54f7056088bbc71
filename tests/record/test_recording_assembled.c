/* Machine code for chains of f32 rows: it has the bits of the rows' kernels, and its memory is never writable and
 * executable at the same time. HAUL_ASSEMBLED_PROGRAMS: how many random programs are made. */
#ifdef __linux__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/assembler/assemble.h"
#include "ops/pointwise/pointwise.h"
#include "support/bits.h"
#include "support/devices/fusion.h"
#include "support/devices/program.h"

enum { KEPT = 4 };

/* A step that keeps results. */
typedef struct kept_step {
    haul_tensor *results[KEPT];
    int          count;
} kept_step;

static void keep(kept_step *s, haul_tensor *t)
{
    s->results[s->count++] = haul_keep(t);
}

static void release(kept_step *s)
{
    for (int i = 0; i < s->count; i++)
        haul_release(s->results[i]);
    s->count = 0;
}

/* ---- memory of the process ---- */

/* Under valgrind all memory is: then these tests show bits and accesses alone. */
static bool all_is_executable;

typedef struct executable {
    long anonymous, writable; /* bytes that no file is behind, and all that is writable, too */
} executable;

static executable read_maps(void)
{
    executable found = {0};
    FILE      *maps = fopen("/proc/self/maps", "r");
    char       line[512];
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to, inode;
        char          rights[5], path[8] = "";
        if (sscanf(line, "%lx-%lx %4s %*s %*s %lu %7s", &from, &to, rights, &inode, path) < 4 || rights[2] != 'x')
            continue;
        found.writable += rights[1] == 'w' ? (long)(to - from) : 0;
        found.anonymous += !inode && !*path ? (long)(to - from) : 0;
    }
    if (maps)
        fclose(maps);
    return found;
}

/* Bytes of code that this process made. */
static long executable_bytes(void)
{
    const executable found = read_maps();
    assert_true(all_is_executable || !found.writable);
    return all_is_executable ? 0 : found.anonymous;
}

static bool shows_code(void)
{
    return haul__asm_is_on() && !all_is_executable;
}

/* ---- rows ---- */

typedef haul_tensor *unary_fn(haul_tensor *);
typedef haul_tensor *unary1_fn(haul_tensor *, double);
typedef haul_tensor *unary2_fn(haul_tensor *, double, double);
typedef haul_tensor *binary_fn(haul_tensor *, haul_tensor *);

typedef struct row_step {
    kept_step        kept;
    const haul__row *row;
    bool             by_scalar;
    double           s0, s1;
    haul_tensor     *a, *b;
} row_step;

static haul_tensor *call_row(const row_step *s)
{
    switch (s->row->form) {
    case HAUL__UNARY1: return ((unary1_fn *)s->row->call)(s->a, s->s0);
    case HAUL__UNARY2: return ((unary2_fn *)s->row->call)(s->a, s->s0, s->s1);
    case HAUL__BINARY:
    case HAUL__COMPARE:
        if (s->by_scalar)
            return ((unary1_fn *)s->row->call_scalar)(s->a, s->s0);
        return ((binary_fn *)s->row->call)(s->a, s->b);
    default: return ((unary_fn *)s->row->call)(s->a);
    }
}

static haul_status step_of_row(void *context)
{
    row_step *s = context;
    release(&s->kept);
    haul_tensor *y = call_row(s);
    keep(&s->kept, y);
    keep(&s->kept, haul_neg(haul_tensor_dtype(y) == HAUL_F32 ? y : haul_cast(y, HAUL_F32)));
    return haul_error_status();
}

static const float special[] = {
    0.0f,     -0.0f,   1.0f,     -1.0f, 0.5f,          -0.5f,    2.5f,       -2.5f, 1e-45f,      -1e-45f,
    1.1e-38f, -1e-38f, 1.2e-38f, 3e38f, -3.402823e38f, INFINITY, -INFINITY,  NAN,   1e-20f,      8388609.0f,
    0.75f,    3.0f,    -3.0f,    1.5f,  1e10f,         -1e10f,   0.3333333f, -7.0f, 16777216.0f,
};
enum { SPECIAL = sizeof special / sizeof *special, PAIRS = SPECIAL * SPECIAL };

/* All pairs. */
static haul_tensor *special_values(bool second)
{
    float values[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        values[i] = special[second ? i / SPECIAL : i % SPECIAL];
    return haul_from_host(HAUL_F32, HAUL_SHAPE(PAIRS), values);
}

/* The program has its code, or says why there is none. */
static void expect_foreseen(row_step *s, bool has_code)
{
    haul_program p;
    int64_t      coded = 0;
    assert_int_equal(haul_program_record(step_of_row, s, &p), HAUL_OK);
    for (int64_t i = 0; i < p.operation_count; i++) {
        const haul_program_operation *o = &p.operations[i];
        coded += o->assembled >= 0;
        assert_int_equal(o->fused >= 0, o->assembled >= 0 || *o->unassembled);
    }
    haul_program_free(&p);
    if (!all_is_executable && (coded > 0) != has_code)
        fail_msg("%s: %lld operations have code in the program", s->row->name, (long long)coded);
}

/* True if code was made for it. */
static bool row_has_same_bits(row_step *s)
{
    haul_scope     *scope = haul_scope_push();
    row_step        other = *s;
    haul_recording *r = haul_recording_new(step_of_row, &other, .strict = true);
    const long      before = executable_bytes();
    assert_int_equal(step_of_row(s), HAUL_OK);
    for (int i = 0; i < 3; i++)
        if (haul_recording_run(r))
            fail_msg("%s: %s", s->row->name, haul_error_message());
    for (int i = 0; i < s->kept.count; i++)
        assert_same_bits(s->kept.results[i], other.kept.results[i], s->row->name);
    const bool has_code = executable_bytes() > before;
    expect_foreseen(&other, has_code);
    release(&s->kept);
    release(&other.kept);
    haul_scope_pop(scope);
    return has_code;
}

static void test_rows__have_the_bits_of_kernels(void **state)
{
    (void)state;
    static const double scalars[][2] = {{0, 1},    {-0.0, 0.5},       {2.5, -1}, {NAN, 1},
                                        {-1, NAN}, {INFINITY, 1e-45}, {-2, 2}};
    const bool          shows = shows_code();
    int                 with_code = 0;
    haul_tensor        *a = special_values(false), *b = special_values(true);
    for (int i = 0; i < haul__row_count; i++) {
        const haul__row *row = &haul__rows[i];
        const bool       takes = row->form == HAUL__UNARY1 || row->form == HAUL__UNARY2;
        haul_scope      *scope = haul_scope_push();
        row_step         s = {.row = row, .a = a, .b = b};
        const bool       is_bitwise = !haul_tensor_is_valid(call_row(&s));
        haul_scope_pop(scope);
        haul_error_clear();
        if (is_bitwise)
            continue;
        bool any = false;
        for (size_t k = 0; k < (takes ? sizeof scalars / sizeof *scalars : 1); k++) {
            s.s0 = scalars[k][0];
            s.s1 = scalars[k][1];
            any = row_has_same_bits(&s) || any;
        }
        s.by_scalar = row->call_scalar != NULL;
        for (size_t k = 0; k < (s.by_scalar ? sizeof scalars / sizeof *scalars : 0); k++) {
            s.s0 = scalars[k][0];
            any = row_has_same_bits(&s) || any;
        }
        with_code += any;
    }
    printf("%d of %d rows had code\n", with_code, haul__row_count);
    assert_true(shows ? with_code >= 36 : with_code == 0);
}

/* ---- programs ---- */

enum { VALUES = 48, INPUTS = 9, ROWS = 37, COLUMNS = 53 };

typedef struct program {
    kept_step    kept;
    unsigned     seed;
    haul_tensor *inputs[INPUTS]; /* the last one has a single element */
} program;

static unsigned below(unsigned *state, unsigned n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 9) % n;
}

static haul_tensor *call_one(haul_tensor *a, haul_tensor *b, haul_tensor *c, unsigned *r)
{
    switch (below(r, 18)) {
    case 0: return haul_add(a, b);
    case 1: return haul_sub(a, b);
    case 2: return haul_mul(a, b);
    case 3: return haul_div(a, b);
    case 4: return haul_maximum(a, b);
    case 5: return haul_minimum(a, b);
    case 6: return haul_where(haul_gt(a, b), b, c);
    case 7: return haul_masked_fill(a, haul_eq(b, c), 1);
    case 8: return haul_cast(haul_le(a, b), HAUL_F32);
    case 9: return haul_exp(a);
    case 10: return haul_affine(a, 0.5, below(r, 9));
    case 11: return haul_clamp(a, -1, below(r, 5));
    case 12: return haul_relu(a);
    case 13: return haul_sqrt(haul_abs(a));
    case 14: return haul_mul_scalar(a, below(r, 30));
    case 15: return haul_add_scalar(a, 1.0 / (1 + below(r, 30)));
    case 16: return haul_where(haul_lt_scalar(a, 1), a, haul_where(haul_ge(b, c), c, b));
    default: return haul_threshold(a, 0.5, 0.25);
    }
}

static haul_status step_of_program(void *context)
{
    program     *p = context;
    unsigned     r = p->seed;
    haul_tensor *values[VALUES];
    int          count = INPUTS;
    const int    calls = 2 + (int)below(&r, VALUES - INPUTS - 2);
    release(&p->kept);
    memcpy(values, p->inputs, sizeof p->inputs);
    for (int i = 0; i < calls; i++) {
        haul_tensor *a = values[below(&r, INPUTS - 1)], *b = values[below(&r, (unsigned)count)];
        haul_tensor *c = values[below(&r, (unsigned)count)];
        a = below(&r, 3) ? values[INPUTS - 1 + (int)below(&r, (unsigned)(count - INPUTS + 1))] : a;
        a = haul_tensor_count(a) == 1 ? values[0] : a;
        values[count++] = call_one(a, b, c, &r);
    }
    keep(&p->kept, values[count - 1]);
    keep(&p->kept, values[INPUTS + (int)below(&r, (unsigned)calls)]);
    if (below(&r, 2))
        keep(&p->kept, haul_sum(values[count - 1], HAUL_AXES(1)));
    return haul_error_status();
}

static void expect_same(unsigned seed, const kept_step *a, const kept_step *b)
{
    char what[40];
    snprintf(what, sizeof what, "program %u", seed);
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++) /* the sign and the payload of a NaN may differ */
        assert_same_bits(haul_nan_to_num(a->results[i], 0.125, INFINITY),
                         haul_nan_to_num(b->results[i], 0.125, INFINITY), what);
}

static void run_program(unsigned seed)
{
    haul_scope *scope = haul_scope_push();
    program     eager = {.seed = seed};
    for (int i = 0; i < INPUTS; i++)
        eager.inputs[i] = haul_normal(HAUL_F32, i < INPUTS - 1 ? HAUL_SHAPE(ROWS, COLUMNS) : HAUL_SHAPE(1, 1), 0, 2);
    program         followed = eager;
    haul_recording *r = haul_recording_new(step_of_program, &followed, .strict = true);
    assert_int_equal(step_of_program(&eager), HAUL_OK);
    for (int i = 0; i < 3; i++)
        if (haul_recording_run(r))
            fail_msg("program %u: %s", seed, haul_error_message());
    expect_same(seed, &eager.kept, &followed.kept);
    release(&eager.kept);
    release(&followed.kept);
    haul_scope_pop(scope);
}

static void test_random_programs__have_the_bits_of_kernels(void **state)
{
    (void)state;
    const char    *text = getenv("HAUL_ASSEMBLED_PROGRAMS");
    const unsigned programs = text ? (unsigned)atoi(text) : 300;
    for (unsigned i = 0; i < programs; i++)
        run_program(i);
}

/* ---- memory ---- */

static row_step square_of(haul_tensor *a)
{
    row_step s = {.a = a};
    for (int i = 0; i < haul__row_count; i++)
        if (!strcmp(haul__rows[i].name, "haul_square"))
            s.row = &haul__rows[i];
    assert_non_null(s.row);
    return s;
}

static void test_code__goes_with_its_recording(void **state)
{
    (void)state;
    const long before = executable_bytes();
    row_step   s = square_of(special_values(false));
    assert_true(row_has_same_bits(&s) == shows_code());
    assert_int_equal(executable_bytes(), before);
}

static void test_code__can_be_left_out(void **state)
{
    (void)state;
    row_step s = square_of(special_values(false));
    set_assembled(false);
    assert_false(row_has_same_bits(&s));
    set_assembled(true);
}

/* Large results go past the caches, if they are aligned. */
static void test_large_results__have_the_bits_of_kernels(void **state)
{
    (void)state;
    haul_tensor *x = haul_normal(HAUL_F32, HAUL_SHAPE((5 << 20) + 13), 0, 1);
    row_step     s = square_of(x), other = square_of(haul_slice(x, 0, 5, haul_tensor_count(x), 1));
    assert_true(row_has_same_bits(&s) == shows_code());
    assert_true(row_has_same_bits(&other) == shows_code());
}

/* The last test: the process cannot make memory executable any more. */
static void test_refused_memory__leaves_the_kernels(void **state)
{
    (void)state;
#ifdef __linux__
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mprotect, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 13),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = sizeof lines / sizeof *lines, .filter = lines};
    row_step                s = square_of(special_values(false));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        skip();
    assert_false(row_has_same_bits(&s));
#else
    skip();
#endif
}

static int begin(void **state)
{
    (void)state;
    all_is_executable = read_maps().writable > 0;
    set_fusion(true);
    haul_scope_push();
    haul_set_device(haul_cpu());
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows__have_the_bits_of_kernels),
        cmocka_unit_test(test_random_programs__have_the_bits_of_kernels),
        cmocka_unit_test(test_code__goes_with_its_recording),
        cmocka_unit_test(test_code__can_be_left_out),
        cmocka_unit_test(test_large_results__have_the_bits_of_kernels),
        cmocka_unit_test(test_refused_memory__leaves_the_kernels),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}

/* Chooses how eigenvalues and singular values are computed: by a library of the device, or by Jacobi's method.
 *
 * Libraries of GPUs take the turned form of the problem (backends/implementation.h): a copy, and for tall matrices the
 * transposed one. What they do with NaN and infinities is not known. So these matrices are zeros to them, and results
 * become NaN afterwards. */
#include <stdio.h>

#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "memory/report/origins.h"
#include "ops/linalg/linalg.h"

// clang-format off
/* kernel text begins */
typedef struct spectrum_params {
    I64 items, rows, columns; /* rows of all matrices, of one, and elements of each */
    I64 y_at;
    I64 sums_at, sums; /* of each matrix */
    I64 info_at, count;
    U32 check; /* 0: info is not read */
    I32 clears;
} spectrum_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
/* A sum for each row of y: NaN if an element is NaN or infinite, otherwise 0. With `clears` the elements right of the
 * diagonal do not count. */
KERNEL2(spectrum_rows, spectrum_params, T, sums, const T, y)
{
    FOR_ITEMS(i) {
        GLOBAL const T *row = y + p.y_at + i * p.columns;
        const I64 n = p.clears ? i - QUOTIENT(i, p.rows) * p.rows + 1 : p.columns;
        A sum = LIT(0.0);
        for (I64 j = 0; j < n; j++) sum += row[j] - row[j];
        sums[p.sums_at + i] = sum;
    }
}

/* Adds the sums of a matrix to the elements of its rows, or clears the rows if they are NaN. */
KERNEL4(spectrum_mark, spectrum_params, T, y, const T, sums, const I32, info, U32, fault)
{
    FOR_ITEMS(i) {
        const I64 m = QUOTIENT(i, p.rows);
        GLOBAL T *row = y + p.y_at + i * p.columns;
        A sum = LIT(0.0);
        for (I64 j = 0; j < p.sums; j++) sum += sums[p.sums_at + m * p.sums + j];
        for (I64 j = 0; j < p.columns; j++)
            row[j] = p.clears ? (sum == LIT(0.0) ? row[j] : LIT(0.0)) : row[j] + sum;
        const I64 found = p.check && sum == LIT(0.0) ? (I64)info[p.info_at + m] : (I64)0;
        if (found != 0) CHECKED_INDEX(fault, p.check, m, -1 - (found < 0 ? -found : found), p.count);
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 8192 };

typedef struct task {
    haul__call    *call;
    haul__spectrum problem; /* the form that was asked for last */
    haul_status (*jacobi)(haul__call *c);
    int64_t refused; /* bytes of the work array of a GPU's library, for which there was no memory; 0: none */
    bool    late;    /* that library took the call and could not compute it */
} task;

enum { RESULTS = 3 }; /* at most */

/* Values, left and right, in the order of haul__spectrum; eigenvalues have no right vectors. */
static haul_tensor *result_of(const task *t, int i)
{
    static const int of_svd[RESULTS] = {1, 0, 2};
    HAUL__ASSERT(0 <= i && i < RESULTS);
    return t->problem.svd ? t->call->results[of_svd[i]] : i < 2 ? t->call->results[i] : NULL;
}

static task task_of(haul__call *c, haul_status (*jacobi)(haul__call *c))
{
    const haul__part m = haul__matrices(c->operands[0]);
    task             t = {.call = c, .jacobi = jacobi};
    t.problem = (haul__spectrum){.svd = c->result_count == RESULTS,
                                 .dtype = c->operands[0]->dtype,
                                 .count = m.count,
                                 .m = m.rows,
                                 .n = m.columns,
                                 .a_offset = c->operands[0]->offset};
    HAUL__ASSERT(c->result_count == RESULTS || c->result_count == RESULTS - 1);
    HAUL__ASSERT(m.count * m.rows * m.columns == c->operands[0]->count);
    t.problem.values_offset = result_of(&t, 0)->offset;
    t.problem.left_offset = result_of(&t, 1)->offset;
    t.problem.right_offset = t.problem.svd ? result_of(&t, 2)->offset : 0;
    return t;
}

static void turn(haul__spectrum *s)
{
    const int64_t longer = s->m > s->n ? s->m : s->n;
    s->m = haul__spectrum_rank(s);
    s->n = longer;
    HAUL__ASSERT(s->m <= s->n && !s->turned);
    s->turned = true;
}

/* The processor's library takes matrices as they are. */
static const void *form(void *of, int i)
{
    task *t = of;
    if (i > 1 || (i == 1 && t->call->device == haul_cpu()))
        return NULL;
    const task before = *t;
    *t = task_of(before.call, before.jacobi);
    t->refused = before.refused;
    t->late = before.late;
    if (i == 1)
        turn(&t->problem);
    return &t->problem;
}

static void describe(const void *of, char *out, size_t size)
{
    const haul__part m = haul__matrices(((const task *)of)->call->operands[0]);
    char             batch[32] = "";
    if (m.count != 1)
        snprintf(batch, sizeof batch, "%lld of ", (long long)m.count);
    snprintf(out, size, "%s %s[%lld,%lld]", haul_dtype_name(m.t->dtype), batch, (long long)m.rows,
             (long long)m.columns);
}

static haul_status run_library(haul__stream *stream, const haul__command *command)
{
    haul__spectrum s = *(const haul__spectrum *)command->params;
    HAUL__ASSERT(command->write_count == (s.svd ? RESULTS : RESULTS - 1));
    s.values = haul__library_output(command, 0);
    s.left = haul__library_output(command, 1);
    s.right = s.svd ? haul__library_output(command, 2) : NULL;
    s.a = haul__library_input(command, 0);
    return command->by->run(stream, &s);
}

/* ---- the turned form ---- */

enum { COPY, INFO, VALUES, LEFT, RIGHT, TURNED }; /* the tensors of a turned problem; eigenvalues end before LEFT */

typedef struct turned {
    const task  *t;
    haul_tensor *at[TURNED], *sums;
} turned;

static haul_status run_turned_library(haul__stream *stream, const haul__command *command)
{
    haul__spectrum       s = *(const haul__spectrum *)command->params;
    const int            outs = s.svd ? TURNED : LEFT;
    const haul__storage *scratch = command->write_count > outs ? command->buffers[outs].storage : NULL;
    HAUL__ASSERT(command->write_count == outs || command->write_count == outs + 1);
    HAUL__ASSERT(!scratch || scratch->bytes > 0);
    s.a = haul__library_output(command, COPY);
    s.info = haul__library_output(command, INFO);
    s.values = haul__library_output(command, VALUES);
    s.left = s.svd ? haul__library_output(command, LEFT) : NULL;
    s.right = s.svd ? haul__library_output(command, RIGHT) : NULL;
    s.scratch = scratch ? &scratch->buffer : NULL;
    s.scratch_bytes = scratch ? scratch->bytes : 0;
    return command->by->run(stream, &s);
}

static spectrum_params params_for(const turned *d, const haul_tensor *y, int64_t rows, int64_t columns)
{
    const haul__spectrum *s = &d->t->problem;
    HAUL__ASSERT(y->count == s->count * rows * columns && d->sums->count == s->count * s->m);
    return (spectrum_params){.items = s->count * rows,
                             .rows = rows,
                             .columns = columns,
                             .y_at = y->offset,
                             .sums_at = d->sums->offset,
                             .sums = s->m,
                             .info_at = d->at[INFO]->offset,
                             .count = s->count};
}

/* y [count, rows, columns] */
static haul_status mark(const turned *d, haul_tensor *y, int64_t rows, int64_t columns, bool clears, uint32_t check)
{
    spectrum_params p = params_for(d, y, rows, columns);
    p.clears = clears;
    p.check = check;
    return haul__launch_kernel(d->t->call, HAUL__K_spectrum_mark, y->dtype, HAUL__OUT(y),
                               HAUL__IN(d->sums, d->at[INFO]), HAUL__PARAMS(p), .grain = 1 + GRAIN / (p.sums + columns),
                               .checks = true);
}

/* A copy of the matrices without those that are not finite, and memory for the results. */
static haul_status prepare(turned *d, haul_tensor *from)
{
    const haul__call     *c = d->t->call;
    const haul__spectrum *s = &d->t->problem;
    const haul_dtype      dtype = s->dtype;
    const bool            tall = from != c->operands[0];
    const int             last = from->shape.ndim - 1;
    HAUL__ASSERT(from->shape.dims[last - 1] == s->m && from->shape.dims[last] == s->n && s->turned);
    haul_shape square = from->shape;
    square.dims[last] = square.dims[last - 1];
    d->at[COPY] = haul__temporary(c, dtype, &from->shape);
    d->at[INFO] = haul__temporary(c, HAUL_I32, &HAUL_SHAPE(s->count));
    d->sums = haul__temporary(c, dtype, &HAUL_SHAPE(s->count, s->m));
    d->at[VALUES] = result_of(d->t, 0);
    if (s->svd) {
        d->at[LEFT] = tall ? haul__temporary(c, dtype, &square) : result_of(d->t, 1);
        d->at[RIGHT] = tall ? haul__temporary(c, dtype, &from->shape) : result_of(d->t, 2);
    }
    if (!d->at[COPY] || !d->at[INFO] || !d->sums || (s->svd && (!d->at[LEFT] || !d->at[RIGHT])) ||
        haul__copy_elements(d->at[COPY], from, c->operation->name))
        return haul_error_status();
    spectrum_params p = params_for(d, d->at[COPY], s->m, s->n);
    p.clears = !s->svd;
    return haul__launch_kernel(c, HAUL__K_spectrum_rows, dtype, HAUL__OUT(d->sums), HAUL__IN(d->at[COPY]),
                               HAUL__PARAMS(p), .grain = 1 + GRAIN / p.columns) ||
                   mark(d, d->at[COPY], s->m, s->n, true, 0)
               ? haul_error_status()
               : HAUL_OK;
}

static haul_status copy_turned(const haul__call *c, haul_tensor *to, haul_tensor *from)
{
    HAUL__ASSERT(to->count == from->count);
    haul_tensor *view = haul__turned(c, from);
    return view ? haul__copy_elements(to, view, c->operation->name) : haul_error_status();
}

static haul_status finish(const turned *d, bool tall)
{
    const haul__call     *c = d->t->call;
    const haul__spectrum *s = &d->t->problem;
    const uint32_t        check = haul__index_check(s->svd ? HAUL__CHECK_svd : HAUL__CHECK_eigh, 0);
    HAUL__ASSERT(s->turned && (s->svd || !tall));
    if (mark(d, d->at[VALUES], 1, s->m, false, check))
        return haul_error_status();
    if (!s->svd)
        return mark(d, d->at[COPY], s->m, s->n, false, 0) ? haul_error_status()
                                                          : copy_turned(c, result_of(d->t, 1), d->at[COPY]);
    if (mark(d, d->at[LEFT], s->m, s->m, false, 0) || mark(d, d->at[RIGHT], s->m, s->n, false, 0))
        return haul_error_status();
    return tall && (copy_turned(c, result_of(d->t, 1), d->at[RIGHT]) || copy_turned(c, result_of(d->t, 2), d->at[LEFT]))
               ? haul_error_status()
               : HAUL_OK;
}

static haul_status run_turned(task *t, const haul__implementation *by, int64_t *refused)
{
    haul__call     *c = t->call;
    haul__spectrum *s = &t->problem;
    turned          d = {.t = t};
    const bool      tall = haul__matrices(c->operands[0]).rows > s->m;
    haul_tensor    *from = tall ? haul__turned(c, c->operands[0]) : c->operands[0];
    HAUL__ASSERT(s->turned && s->m <= s->n);
    HAUL__ASSERT(!tall || s->svd);
    if (!from || prepare(&d, from))
        return haul_error_status();
    s->a_offset = d.at[COPY]->offset;
    s->info_offset = d.at[INFO]->offset;
    s->left_offset = s->svd ? d.at[LEFT]->offset : 0;
    s->right_offset = s->svd ? d.at[RIGHT]->offset : 0;
    const haul_status status = haul__call_library(c, &(haul__library){.by = by,
                                                                      .run = run_turned_library,
                                                                      .params = s,
                                                                      .params_size = sizeof *s,
                                                                      .outs = d.at,
                                                                      .out_count = s->svd ? TURNED : LEFT,
                                                                      .scratch_bytes = by->scratch(c->device, s),
                                                                      .refused = refused});
    t->refused = *refused;
    t->late = status == HAUL_UNSUPPORTED;
    return status ? status : finish(&d, tall);
}

bool haul__spectrum_takes(const haul__operation *operation, haul_device *device, haul_dtype dtype, int64_t m, int64_t n)
{
    haul__spectrum s = {
        .svd = operation->results[RESULTS - 1].name != NULL, .dtype = dtype, .count = 1, .m = m, .n = n};
    turn(&s);
    return haul__library_takes(operation, device, &s);
}

/* ---- the list ---- */

static haul_status run(void *of, const haul__implementation *by, int64_t *refused)
{
    task *t = of;
    if (t->problem.turned)
        return run_turned(t, by, refused);
    HAUL__ASSERT(t->call->result_count <= RESULTS);
    haul_tensor *results[RESULTS] = {result_of(t, 0), result_of(t, 1), result_of(t, 2)};
    return haul__call_library(t->call, &(haul__library){.by = by,
                                                        .run = run_library,
                                                        .params = &t->problem,
                                                        .params_size = sizeof t->problem,
                                                        .outs = results,
                                                        .out_count = t->call->result_count,
                                                        HAUL__IN(t->call->operands[0]),
                                                        .refused = refused});
}

static const char *kernel_refuses(haul_device *device, const void *problem)
{
    const haul__spectrum *s = problem;
    (void)device;
    return s && haul__spectrum_rank(s) > HAUL__JACOBI_MOST ? "it takes matrices of up to 512 rows or columns" : NULL;
}

/* One item of the GPU would have a whole matrix. Without the library the CPU would have got the call. */
static haul_status compute_kernel(void *of)
{
    const task *t = of;
    return t->late ? HAUL_UNSUPPORTED : t->jacobi(t->call);
}

static const haul__implementation kernels[] = {
    {HAUL__PROBLEM_SPECTRUM, HAUL__BY_kernel, .refuses = kernel_refuses, .compute = compute_kernel},
    {.refuses = NULL},
};

const haul__implementations haul__spectrum_implementations = {
    .of = HAUL__PROBLEM_SPECTRUM, .portable = kernels, .form = form, .run = run, .describe = describe};

haul_status haul__spectrum_compute(haul__call *c, haul_status (*jacobi)(haul__call *c))
{
    task              t = task_of(c, jacobi);
    const haul_status status = haul__implement(c, &t);
    char              size[32];
    if (status != HAUL_UNSUPPORTED)
        return status;
    if (t.refused)
        return haul__fail(
            HAUL_OUT_OF_MEMORY, c->operation->name, "a",
            "the work array of the library, %s, does not fit in the device's memory; raise the limit, or let the "
            "CPU compute: HAUL_WITHOUT=cusolver",
            haul__size_text(t.refused, size, sizeof size));
    return haul__fail(HAUL_UNSUPPORTED, c->operation->name, "a",
                      "the smaller size of the matrices is %lld; no library computed them, and without one at most %d "
                      "are supported; HAUL_DEBUG=dispatch says why",
                      (long long)haul__spectrum_rank(&t.problem), t.late ? (int)HAUL__SMALL : (int)HAUL__JACOBI_MOST);
}

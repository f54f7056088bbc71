/* Chooses how eigenvalues and singular values are computed: by a library of the device, or by Jacobi's method. */
#include <stdio.h>

#include "ops/linalg/linalg.h"

typedef struct task {
    haul__call    *call;
    haul__spectrum problem;
    haul_status (*jacobi)(haul__call *c);
} task;

enum { RESULTS = 3 }; /* at most */

/* Values, left and right, in the order of haul__spectrum; eigenvalues have no right vectors. */
static haul_tensor *result_of(const task *t, int i)
{
    static const int of_svd[RESULTS] = {1, 0, 2};
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
    t.problem.values_offset = result_of(&t, 0)->offset;
    t.problem.left_offset = result_of(&t, 1)->offset;
    t.problem.right_offset = t.problem.svd ? result_of(&t, 2)->offset : 0;
    return t;
}

static const void *form(void *of, int i)
{
    const task *t = of;
    return i == 0 ? &t->problem : NULL;
}

static void describe(const void *of, char *out, size_t size)
{
    const task           *t = of;
    const haul__spectrum *s = &t->problem;
    char                  batch[32] = "";
    if (s->count != 1)
        snprintf(batch, sizeof batch, "%lld of ", (long long)s->count);
    snprintf(out, size, "%s %s[%lld,%lld]", haul_dtype_name(s->dtype), batch, (long long)s->m, (long long)s->n);
}

static haul_status run_library(haul__stream *stream, const haul__command *command)
{
    haul__spectrum s = *(const haul__spectrum *)command->params;
    s.values = haul__library_output(command, 0);
    s.left = haul__library_output(command, 1);
    s.right = s.svd ? haul__library_output(command, 2) : NULL;
    s.a = haul__library_input(command, 0);
    return command->by->run(stream, &s);
}

static haul_status run(void *of, const haul__implementation *by, int64_t *refused)
{
    const task  *t = of;
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

static haul_status compute_kernel(void *of)
{
    const task *t = of;
    return t->jacobi(t->call);
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
    if (status != HAUL_UNSUPPORTED || haul__spectrum_rank(&t.problem) <= HAUL__JACOBI_MOST)
        return status;
    return haul__fail(
        HAUL_UNSUPPORTED, c->operation->name, "a",
        "the smaller size of the matrices is %lld; LAPACK did not compute them, and without it at most %d "
        "are supported; HAUL_DEBUG=dispatch says why",
        (long long)haul__spectrum_rank(&t.problem), (int)HAUL__JACOBI_MOST);
}

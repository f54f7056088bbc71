/* Spectra by Jacobi's method, in doubles. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cusolver/cusolver.h"

enum { ROUNDS = 40 };

static double load(const solver_job *job, const char *at, int64_t i)
{
    return job->f64 ? ((const double *)(const void *)at)[i] : (double)((const float *)(const void *)at)[i];
}

static void store(const solver_job *job, char *at, int64_t i, double value)
{
    if (job->f64)
        ((double *)(void *)at)[i] = value;
    else
        ((float *)(void *)at)[i] = (float)value;
}

static void rotate(double *x, double *y, double c, double s, int64_t n, int64_t step)
{
    for (int64_t i = 0; i < n * step; i += step) {
        const double a = x[i], b = y[i];
        x[i] = c * a - s * b;
        y[i] = s * a + c * b;
    }
}

static void angle(double theta, double *c, double *s)
{
    const double t = copysign(1 / (fabs(theta) + sqrt(theta * theta + 1)), theta);
    *c = 1 / sqrt(t * t + 1);
    *s = t * *c;
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static void exchange(double *x, double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double a = x[i];
        x[i] = y[i];
        y[i] = a;
    }
}

static void set_identity(double *v, int64_t n)
{
    memset(v, 0, (size_t)(n * n) * sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i * (n + 1)] = 1;
}

/* Columns i and those after it, so that the i-th value is the next one. */
static int64_t next_of(const double *values, int64_t i, int64_t n, bool rises)
{
    int64_t best = i;
    for (int64_t j = i + 1; j < n; j++)
        if (rises ? values[j] < values[best] : values[j] > values[best])
            best = j;
    return best;
}

/* ---- eigenvalues ---- */

/* a is symmetric, the columns of v become its vectors. Elements far below the largest one are left. */
static void diagonalise(double *a, double *v, int64_t n)
{
    bool   turns = true;
    double most = 0;
    for (int64_t i = 0; i < n * n; i++)
        most = fmax(most, fabs(a[i]));
    for (int round = 0; round < ROUNDS && turns; round++) {
        turns = false;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                const double x = a[q * n + p];
                double       c, s;
                if (fabs(x) <= 1e-17 * most)
                    continue;
                angle((a[q * n + q] - a[p * n + p]) / (2 * x), &c, &s);
                rotate(a + p * n, a + q * n, c, s, n, 1);
                rotate(a + p, a + q, c, s, n, n);
                a[q * n + p] = a[p * n + q] = 0;
                rotate(v + p * n, v + q * n, c, s, n, 1);
                turns = true;
            }
    }
}

static void eigenvalues(const solver_job *job, double *a, double *v, double *values)
{
    const int64_t n = job->n;
    for (int64_t j = 0; j < n; j++) /* the lower triangle is not read */
        for (int64_t i = 0; i < j; i++)
            a[i * n + j] = a[j * n + i];
    set_identity(v, n);
    diagonalise(a, v, n);
    for (int64_t i = 0; i < n; i++)
        values[i] = a[i * (n + 1)];
    for (int64_t i = 0; i < n; i++) {
        const int64_t least = next_of(values, i, n, true);
        exchange(values + i, values + least, least == i ? 0 : 1);
        exchange(v + i * n, v + least * n, least == i ? 0 : n);
        for (int64_t j = 0; j < n; j++)
            store(job, job->a, i * job->lda + j, v[i * n + j]);
    }
}

/* ---- singular values ---- */

/* Column i becomes a unit vector that is orthogonal to those before it. */
static void complete(double *u, int64_t i, int64_t m)
{
    double size = 0;
    for (int64_t axis = 0; size < 0.5 / sqrt((double)m); axis++) {
        for (int64_t j = 0; j < m; j++)
            u[i * m + j] = j == axis ? 1 : 0;
        for (int64_t k = 0; k < 2 * i; k++) {
            const double part = dot(u + i * m, u + k % i * m, m);
            for (int64_t j = 0; j < m; j++)
                u[i * m + j] -= part * u[k % i * m + j];
        }
        size = sqrt(dot(u + i * m, u + i * m, m));
    }
    for (int64_t j = 0; j < m; j++)
        u[i * m + j] /= size;
}

/* Makes the columns of a orthogonal. */
static void orthogonalise(double *a, double *v, int64_t m, int64_t n)
{
    bool turns = true;
    for (int round = 0; round < ROUNDS && turns; round++) {
        turns = false;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                double      *x = a + p * m, *y = a + q * m, c, s;
                const double xx = dot(x, x, m), yy = dot(y, y, m), xy = dot(x, y, m);
                if (!(fabs(xy) > 1e-15 * sqrt(xx) * sqrt(yy)))
                    continue;
                angle((yy - xx) / (2 * xy), &c, &s);
                rotate(x, y, c, s, m, 1);
                rotate(v + p * n, v + q * n, c, s, n, 1);
                turns = true;
            }
    }
}

static void singular_values(const solver_job *job, double *a, double *v, double *values)
{
    const int64_t m = job->m, n = job->n;
    set_identity(v, n);
    orthogonalise(a, v, m, n);
    for (int64_t i = 0; i < n; i++)
        values[i] = sqrt(dot(a + i * m, a + i * m, m));
    for (int64_t i = 0; i < n; i++) {
        const int64_t most = next_of(values, i, n, false);
        exchange(values + i, values + most, most == i ? 0 : 1);
        exchange(v + i * n, v + most * n, most == i ? 0 : n);
        exchange(a + i * m, a + most * m, most == i ? 0 : m);
        for (int64_t j = 0; j < m && values[i] > 0; j++)
            a[i * m + j] /= values[i];
        if (!(values[i] > 0))
            complete(a, i, m);
        for (int64_t j = 0; j < m; j++)
            store(job, job->u, i * job->ldu + j, a[i * m + j]);
        for (int64_t j = 0; j < n; j++)
            store(job, job->vt, j * job->ldvt + i, v[i * n + j]);
    }
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            store(job, job->a, j * job->lda + i, NAN);
}

/* ---- a call ---- */

/* A dense copy; NULL if there is no memory, or an element that counts is not finite. */
static double *read(const solver_job *job, bool *finite)
{
    double *a = calloc((size_t)job->m * (size_t)job->n, sizeof *a);
    for (int64_t j = 0; a && j < job->n; j++)
        for (int64_t i = 0; i < (job->u ? job->m : j + 1); i++) {
            a[j * job->m + i] = load(job, job->a, j * job->lda + i);
            *finite = *finite && isfinite(a[j * job->m + i]);
        }
    return a;
}

int solver_run(void *data)
{
    const solver_job *job = data;
    bool              finite = true;
    double           *a = read(job, &finite), *v = calloc((size_t)job->n * (size_t)job->n, sizeof *v),
           *values = calloc((size_t)job->n, sizeof *values);
    const bool memory = a && v && values;
    memset(job->work, 0xA5, (size_t)job->elements * (job->f64 ? 8 : 4));
    if (!finite)
        fprintf(stderr, "standin: a matrix of cuSOLVER is not finite\n");
    if (memory && finite) {
        if (job->u)
            singular_values(job, a, v, values);
        else
            eigenvalues(job, a, v, values);
        for (int64_t i = 0; i < job->n; i++)
            store(job, job->values, i, job->code ? NAN : values[i]);
        *job->info = job->code;
    }
    free(a);
    free(v);
    free(values);
    return memory && finite ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

/* The arithmetic of cuBLASLt's stand-in: products summed in f32 (f64 for f64), inputs rounded to TF32 where that is
 * allowed, results rounded once. */
#include <stdlib.h>
#include <string.h>

#include "cublaslt.h"
#include "number.h"

size_t lt_size(int type)
{
    switch (type) {
    case CUDA_R_64F: return 8;
    case CUDA_R_32F: return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    default: return 0;
    }
}

/* ---- numbers ---- */

static double load(int type, const char *at)
{
    float    f;
    double   d;
    uint16_t h;
    if (type == CUDA_R_64F) {
        memcpy(&d, at, sizeof d);
        return d;
    }
    if (type == CUDA_R_32F) {
        memcpy(&f, at, sizeof f);
        return (double)f;
    }
    memcpy(&h, at, sizeof h);
    return (double)(type == CUDA_R_16F ? half_to_float(h) : bfloat_to_float(h));
}

static void store(int type, char *at, double value)
{
    float    f = (float)value;
    uint16_t h;
    if (type == CUDA_R_64F) {
        memcpy(at, &value, sizeof value);
    } else if (type == CUDA_R_32F) {
        memcpy(at, &f, sizeof f);
    } else {
        h = type == CUDA_R_16F ? float_to_half(f) : float_to_bfloat(f);
        memcpy(at, &h, sizeof h);
    }
}

/* ---- products ---- */

/* Rows of factors in the order of sums, read once: op(A)'s rows, or op(B)'s columns, of one product. */
static double *factors(const lt_job *job, const lt_matrix *m, bool transpose, int64_t z, int64_t rows)
{
    const int64_t size = (int64_t)lt_size(job->type), depth = job->depth;
    double       *out = malloc((size_t)(rows * depth) * sizeof *out);
    for (int64_t i = 0; out && i < rows; i++)
        for (int64_t k = 0; k < depth; k++) {
            const int64_t at = z * m->stride + (transpose ? k + i * m->ld : i + k * m->ld);
            const double  value = load(job->type, m->at + at * size);
            out[i * depth + k] = job->tf32 ? (double)float_of(round_bits(bits_of((float)value), 13)) : value;
        }
    return out;
}

static double add(int type, double a, double b)
{
    return type == CUDA_R_64F ? a + b : (double)((float)a + (float)b);
}

static double multiply(int type, double a, double b)
{
    return type == CUDA_R_64F ? a * b : (double)((float)a * (float)b);
}

static double dot_f32(const double *a, const double *b, int64_t first, int64_t last)
{
    float sum = 0;
    for (int64_t k = first; k < last; k++)
        sum += (float)a[k] * (float)b[k];
    return (double)sum;
}

static double dot_f64(const double *a, const double *b, int64_t first, int64_t last)
{
    double sum = 0;
    for (int64_t k = first; k < last; k++)
        sum += a[k] * b[k];
    return sum;
}

static double dot(const lt_job *job, const double *a, const double *b)
{
    double total = 0;
    for (int64_t piece = 0; piece < job->pieces; piece++) {
        const int64_t first = job->depth * piece / job->pieces, last = job->depth * (piece + 1) / job->pieces;
        total = add(job->type, total, (job->type == CUDA_R_64F ? dot_f64 : dot_f32)(a, b, first, last));
    }
    return total;
}

static void multiply_matrices(const lt_job *job, int64_t z, const double *a, const double *b)
{
    const int64_t size = (int64_t)lt_size(job->type);
    for (int64_t j = 0; j < job->d.columns; j++) {
        for (int64_t i = 0; i < job->d.rows; i++) {
            double value = multiply(job->type, job->alpha, dot(job, a + i * job->depth, b + j * job->depth));
            if (job->beta != 0)
                value = add(job->type, value,
                            multiply(job->type, job->beta,
                                     load(job->type, job->c.at + (z * job->c.stride + i + j * job->c.ld) * size)));
            if (job->bias)
                value = add(job->type, value, load(job->type, job->bias + i * size));
            if (job->relu && !(value > 0)) /* the library's relu of NaN is 0 */
                value = 0;
            store(job->type, job->d.at + (z * job->d.stride + i + j * job->d.ld) * size, value);
        }
    }
}

/* C is read where D is written, as they may be one matrix. The workspace is used, as far as a caller can see: nothing
 * in it stays. */
int lt_run(void *data)
{
    const lt_job *job = data;
    bool          read = true;
    if (job->workspace)
        memset(job->workspace, 0xA5, job->workspace_size);
    for (int64_t z = 0; read && z < job->batch; z++) {
        double *a = factors(job, &job->a, job->transpose_a, z, job->d.rows);
        double *b = factors(job, &job->b, !job->transpose_b, z, job->d.columns);
        read = a && b;
        if (read)
            multiply_matrices(job, z, a, b);
        free(a);
        free(b);
    }
    return read ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The samples of samples.def as data: a call of each structured operation, with what it is called on. */
#ifndef HAUL_TESTS_SAMPLES_H
#define HAUL_TESTS_SAMPLES_H

#include <haul/haul.h>

#define MAX_INPUTS   6
#define MAX_ELEMENTS 8192

typedef struct input_spec {
    char   kind; /* V: values of the dtype under test; C: the same, constant; X: i64 indices; B: bool */
    double low, high;
    int    ndim;
    int    dims[6];
} input_spec;

typedef struct sample {
    const char *name;
    char        dtypes;         /* W, F, N, A */
    int         differentiable; /* 2: its gradient is not, and 1: it is, too */
    haul_tensor *(*run)(haul_tensor *const *in);
    int        count;
    input_spec inputs[MAX_INPUTS];
} sample;

extern const sample samples[];
extern const int    sample_count;

/* True if the sample can be run on tensors of `dtype`. */
bool sample_takes(const sample *s, haul_dtype dtype);

/* What an input is when `dtype` is under test. */
haul_shape input_shape(const input_spec *spec);
haul_dtype input_dtype(const input_spec *spec, haul_dtype dtype);

/* The values of input number `index`, at most MAX_ELEMENTS, exactly representable; returns how many. */
int64_t input_values(const input_spec *spec, int index, haul_dtype dtype, double *values);

#endif

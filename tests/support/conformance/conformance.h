/* What the conformance programs share: devices, dtypes, layouts, sample values, comparison, and counting.
 *
 * A case is named "operation/form/dtype/layout/device"; HAUL_CASE=text runs only the cases whose name contains the
 * text, or one of several that commas separate, and every failure prints the line that reruns just it. */
#ifndef HAUL_TESTS_CONFORMANCE_H
#define HAUL_TESTS_CONFORMANCE_H

#include <haul/haul.h>

/* X(name): how an operand of a logical shape is laid out. */
#define LAYOUTS(X) X(contiguous) X(transposed) X(sliced) X(stepped) X(broadcast) X(channels_last)
typedef enum layout {
#define X(name) LAYOUT_##name,
    LAYOUTS(X)
#undef X
        LAYOUT_COUNT
} layout;
extern const char *const layout_names[];

/* The dtypes there are to test. */
extern const haul_dtype test_dtypes[];
extern const int        test_dtype_count;

/* The devices to test: all that are usable, or those that HAUL_TEST_DEVICES names. */
int test_devices(haul_device **out, int capacity);
/* The first of them that is not the CPU; NULL if there is none. */
haul_device *test_second_device(void);

/* The element of `dtype` nearest to a value, ties to even. */
double rounded(double v, haul_dtype dtype);

/* Values for an operand: deterministic, spread over [low, high], exactly representable in `dtype`. seed distinguishes
 * operands. */
void sample_values(double *out, int64_t count, haul_dtype dtype, double low, double high, unsigned seed);

/* A tensor of `shape` on `device` with the layout `how`, with the given row-major values; under LAYOUT_broadcast the
 * first axis is expanded and `values` are changed to what the tensor holds. NULL with the error set on failure. */
haul_tensor *make_operand(haul_device *device, haul_dtype dtype, haul_shape shape, layout how, double *values);

/* All elements of t as doubles; bool as 0 and 1. */
haul_status read_values(haul_tensor *t, double *out, int64_t count);

/* True if `got`, computed in `dtype`, is right for the reference value. `ulps` is relative to max(|want|, floor); of
 * f16 and bf16 it counts ulps of f32, in which they are computed, and one rounding of the result comes on top. */
bool close_enough(double got, double want, haul_dtype dtype, double ulps, double floor);

/* Counting. begin_case is false when HAUL_CASE filters the case out. */
bool begin_case(const char *format, ...) HAUL_PRINTF(1, 2);
void fail_case(const char *format, ...) HAUL_PRINTF(1, 2);
int  finish_cases(const char *what); /* prints the count; the exit code */

#endif

/* The speed of operations on one device and on the CPU. */
#ifndef CLI_BENCH_COMPUTE_H
#define CLI_BENCH_COMPUTE_H

#include "cli/bench/bench.h"
#include "plan/calibrate.h"

enum { COMPUTE_SIZES = 8, COMPUTE_DTYPES = 3, COMPUTE_FAMILIES = 7 };

/* Operands and a result on one device. */
typedef struct compute_tensors {
    haul_tensor *out, *x, *w; /* w: NULL where the operation has none */
} compute_tensors;

typedef struct compute_family compute_family;
struct compute_family {
    const char *operation;            /* "gemm" */
    const char *detail;               /* "[n,n] by [n,n]" */
    const char *size_name;            /* what a size counts: "n", "batch", "elements" */
    int64_t     sizes[COMPUTE_SIZES]; /* ended by 0 */
    double      share;                /* of the time, against other families */
    bool        w_stays;              /* w is on the device already when a call with its transfers begins: weights */
    bool        counts_bytes;         /* the rate is in bytes and not in floating point operations */

    /* A tensor of the current device for each that the operation needs. */
    void (*make)(const compute_family *f, haul_dtype dtype, int64_t size, compute_tensors *out);
    haul_status (*run)(const compute_family *f, const compute_tensors *t);
    double (*work)(const compute_family *f, int64_t size, int64_t element_bytes); /* of one run */
    struct {
        int64_t from, to, pixels, kernel, stride, padding;
    } conv; /* channels, the picture's rows and columns, the kernel's */
};

extern const compute_family compute_families[COMPUTE_FAMILIES];
extern const haul_dtype     compute_dtypes[COMPUTE_DTYPES];

/* Who takes turns: the CPU, the device, and the device with operands and result crossing the link. */
typedef enum contestant { ON_CPU, ON_DEVICE, WITH_TRANSFER, CONTESTANTS } contestant;

typedef struct compute_size {
    int64_t      size; /* 0: none */
    double       work;
    int          rounds;
    bench_spread times[CONTESTANTS];
    char         left_out[256]; /* why it was not measured; "" if it was */
} compute_size;

/* One operation with one dtype. */
typedef struct compute_group {
    const compute_family *family;
    haul_dtype            dtype;
    compute_size          sizes[COMPUTE_SIZES];
    int                   count;
} compute_group;

typedef struct compute_results {
    haul_device           *device;
    haul_device_properties properties;
    bool                   is_cpu; /* there is nothing to compare with */
    haul__peaks            peaks;
    compute_group          groups[COMPUTE_FAMILIES * COMPUTE_DTYPES];
} compute_results;

/* From which size on the device is faster than the CPU although operands and result cross the link. */
typedef enum winner { WINS_NEVER, WINS_ALWAYS, WINS_FROM, WINS_UNKNOWN } winner;

/* WINS_FROM: *size is where both would take the same time, between the two sizes around it by the logarithms of sizes
 * and times. WINS_ALWAYS: *size is the smallest one measured. NaN otherwise. */
winner compute_winner(const compute_group *g, double *size);

void   compute_print(const compute_results *r);
cJSON *compute_json(const compute_results *r);

#endif

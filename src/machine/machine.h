/* A machine as a value: its devices, how fast they are, and the links between them. It is read from JSON
 * (docs/guide.md, Machines) or measured (plan/here.h), and predicts times of operations and copies.
 *
 * Predictions are integers in picoseconds that depend on the machine's numbers alone, so they are the same everywhere.
 */
#ifndef HAUL_MACHINE_MACHINE_H
#define HAUL_MACHINE_MACHINE_H

#include <haul/dtype.h>
#include <haul/error.h>
#include <stddef.h>

typedef enum haul__work_class {
#define X(NAME, text, by_flops, other) HAUL__WORK_##NAME,
#include "machine/classes.def"
#undef X
    HAUL__WORK_OTHER /* of an operation that the tables do not list, for example one of the program */
} haul__work_class;

enum {
    HAUL__MACHINE_DEVICES = 9, /* the host and eight others */
    HAUL__MACHINE_LINKS = HAUL__MACHINE_DEVICES * (HAUL__MACHINE_DEVICES - 1),
    HAUL__MACHINE_RATES = 96,
    HAUL__MACHINE_POINTS = 8,
    HAUL__MACHINE_LEARNT = 1024,
    HAUL__MACHINE_NAME = 32,
    HAUL__MACHINE_OPERATION = 48,
    HAUL__MACHINE_TEXT = 128
};

/* No prediction is longer: eleven days. Sums of many need a check of their own. */
#define HAUL__MACHINE_MOST_PS INT64_C(1000000000000000000)

/* The speed of operations of one size: FLOP or bytes of one operation, and these per second. */
typedef struct haul__machine_point {
    int64_t work, rate;
} haul__machine_point;

typedef struct haul__machine_rate {
    haul__work_class    work_class;
    haul_dtype          dtype; /* HAUL_DTYPE_NONE: any that has no rate of its own */
    int                 count;
    haul__machine_point points[HAUL__MACHINE_POINTS]; /* by work, the smallest first */
} haul__machine_rate;

/* What an operation took in a profile, its launches included. */
typedef struct haul__machine_learnt {
    char       operation[HAUL__MACHINE_OPERATION]; /* "haul_conv2d" */
    haul_dtype dtype;
    int64_t    flops, bytes; /* its work */
    int64_t    ps;
    int        size; /* of its work: haul__machine_learn sets it */
} haul__machine_learnt;

typedef struct haul__machine_device {
    char    name[HAUL__MACHINE_NAME];  /* "cuda:0"; the first device is the host, "cpu" */
    char    model[HAUL__MACHINE_TEXT]; /* the vendor's name; may be empty */
    int64_t memory_bytes;
    bool    shares_host_memory;
    int64_t launch_ns;        /* that each command of an operation takes in addition */
    int64_t bytes_per_second; /* of its memory: reads and writes together */
    int     threads, cores;   /* of this computer's CPU: threads of the measurement, and cores that a process
                               * may use. Otherwise 0: all cores worked. Not in files. */
    int                rate_count;
    haul__machine_rate rates[HAUL__MACHINE_RATES];

    int                  learnt_count;
    haul__machine_learnt learnt[HAUL__MACHINE_LEARNT]; /* the oldest first */
} haul__machine_device;

/* One direction. */
typedef struct haul__machine_link {
    int     from, to;                 /* devices */
    char    name[HAUL__MACHINE_NAME]; /* "pcie4"; may be empty */
    int64_t latency_ns;
    int64_t pinned, pageable; /* bytes a second, by the kind of host memory */
    bool    overlap;          /* copies run while the device computes */
} haul__machine_link;

/* Large: on the heap. */
typedef struct haul__machine {
    char                 name[HAUL__MACHINE_NAME];
    bool                 described;                      /* by data sheets, not measured */
    char                 source[4 * HAUL__MACHINE_TEXT]; /* where the numbers come from; may be empty */
    int                  device_count, link_count;
    haul__machine_device devices[HAUL__MACHINE_DEVICES];
    haul__machine_link   links[HAUL__MACHINE_LINKS];
} haul__machine;

/* The time of computing for one of so many ranks on the machine's CPU, which takes `ps` without the others. The cores
 * are divided among the ranks where these have more threads. */
int64_t haul__machine_divided(const haul__machine *m, int64_t ps, int64_t ranks);
/* True if so many ranks leave no core free. */
bool haul__machine_is_busy(const haul__machine *m, int64_t ranks);

/* ---- making ---- */

/* The machine that a JSON text describes, which the caller must haul__free. On failure *out is NULL and the error,
 * HAUL_FORMAT or HAUL_OUT_OF_MEMORY, names `source`, the field, the expected value, and the fix. */
haul_status haul__machine_read(const char *operation, const char *source, const char *text, size_t size,
                               haul__machine **out);

/* The shipped machine of that name, or else the machine in the file of that name. */
haul_status haul__machine_load(const char *operation, const char *name, haul__machine **out);

/* JSON that haul__machine_read reads as the same machine. The caller must haul__free it; NULL if memory is exhausted.
 */
char *haul__machine_write(const haul__machine *m);

/* A number that two machines share only if they are equal, except by chance of 2^-64. 0: memory is exhausted. */
uint64_t haul__machine_digest(const haul__machine *m);

/* A known kind of link, "pcie4": false, with *out unchanged, if the name is unknown. Its ends are to be set. */
bool haul__machine_named_link(const char *name, haul__machine_link *out);

/* The names of the shipped machines; NULL after the last. */
const char *haul__machine_shipped(int index);

/* ---- reading ---- */

/* The device of that name; -1: none. */
int haul__machine_find(const haul__machine *m, const char *device);

/* NULL: there is no direct link. */
const haul__machine_link *haul__machine_link_of(const haul__machine *m, int from, int to);

/* The class of an operation by its name, "haul_conv2d_backward_data". Predictions take convolutions that do few
 * operations for each byte for narrow ones. */
haul__work_class haul__work_class_of(const char *operation);
const char      *haul__work_class_name(haul__work_class work_class); /* "conv" */

/* The class whose rate is used where this one has none; the class itself if there is no other. */
haul__work_class haul__work_class_else(haul__work_class work_class);

/* True if the work of this class is counted in floating point operations; else it is counted in bytes. */
bool haul__work_by_flops(haul__work_class work_class);

/* ---- predicting ---- */

/* The dtype whose rate an operation has: that of its first floating operand or result, else of its first one. `found`
 * is the dtype of those before `next`, at first HAUL_DTYPE_NONE. */
haul_dtype haul__work_dtype(haul_dtype found, haul_dtype next);

/* Where a convolution has its weight, or that weight's gradient, in the list of its operands and then its results. -1:
 * it is none. */
int haul__work_weight(const char *operation, int operand_count);

/* One operation. Views have no commands, no bytes and no flops, and take no time. */
typedef struct haul__machine_work {
    const char      *operation; /* NULL: learnt times do not count */
    haul__work_class work_class;
    haul_dtype       dtype;
    double           flops;
    int64_t          bytes;     /* read and written */
    int64_t          weights;   /* of a convolution: the bytes of its weight or of the weight's gradient */
    int64_t          commands;  /* that it submits */
    bool             batched;   /* of a product: both operands have more than two dimensions */
    bool             scattered; /* the first operand's elements are not one behind the other */
} haul__machine_work;

/* Flops as a whole number, at most 10^18. */
int64_t haul__whole_flops(double flops);

/* The class whose rate the operation should have: narrow and deep convolutions and batched products are classes of
 * their own, as moves of scattered elements are. */
haul__work_class haul__machine_class_of(const haul__machine_work *work);

/* True if the machine has a rate for this class and dtype on the device. Without one, predictions use the bytes and the
 * bandwidth of its memory. */
bool haul__machine_measures(const haul__machine *m, int device, haul__work_class work_class, haul_dtype dtype);

/* FLOP/s of the largest matrix products in the dtype; 0: they have no rate of their own. */
int64_t haul__machine_product_rate(const haul__machine_device *d, haul_dtype dtype);

/* The learnt time for the operation: of the same name and dtype, and of the same work or else of work of the same size.
 * Two numbers have the same size if their first three binary digits and their lengths are equal. NULL: there is none.
 */
const haul__machine_learnt *haul__machine_learnt_of(const haul__machine *m, int device, const haul__machine_work *work);

/* Adds a learnt time. It replaces one of the same operation, dtype and work; where there is no more room, the oldest
 * one. */
void haul__machine_learn(haul__machine_device *d, const haul__machine_learnt *learnt);

/* Picoseconds of the operation on the device. A learnt time takes precedence. Between two points of a rate the time is
 * interpolated; operations below the first and above the last point run at its rate. Work counted in flops takes at
 * least the time of its bytes. The time of a convolution of some channels is between those of a narrow and of a wide
 * one. */
int64_t haul__machine_time(const haul__machine *m, int device, const haul__machine_work *work);

/* Picoseconds of a copy between two devices, from or to pinned or pageable host memory; without a direct link it goes
 * through the host. Within one device it reads and writes its memory. */
int64_t haul__machine_copy_time(const haul__machine *m, int from, int to, int64_t bytes, bool pinned);

#endif

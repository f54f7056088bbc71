/* The curve of copies between the CPU and one device. */
#ifndef CLI_BENCH_TRANSFER_H
#define CLI_BENCH_TRANSFER_H

#include "cli/bench/bench.h"

/* From ordinary memory and from pinned memory, each copy waited for, and several copies from pinned memory (ordinary
 * memory where a device does not pin) with one wait at the end. */
typedef enum copy_kind { COPY_PAGEABLE, COPY_PINNED, COPY_ASYNCHRONOUS, COPY_KINDS } copy_kind;

/* To the device, from it, and one of each at once. */
typedef enum copy_way { COPY_UP, COPY_DOWN, COPY_BOTH, COPY_WAYS } copy_way;

enum { TRANSFER_SIZES = 15 };

typedef struct transfer_size {
    int64_t      bytes;
    int          rounds;
    bench_spread memory; /* memcpy between two places on the heap */
    bench_spread copies[COPY_KINDS][COPY_WAYS];
    /* The speed as a share of memcpy's, and the seconds until the calls of an asynchronous copy return: medians. */
    double of_memcpy[COPY_KINDS][COPY_WAYS];
    double hand_over[COPY_WAYS];
    char   left_out[256]; /* why it was not measured; "" if it was */
} transfer_size;

typedef struct transfer_curve {
    haul_device           *device;
    haul_device_properties properties;
    bool                   is_host; /* the CPU: only memcpy is measured */
    bool                   pins;    /* pinned memory is of use to the device */
    transfer_size          sizes[TRANSFER_SIZES];
} transfer_curve;

/* What the rows say in a few figures; NaN: not known. */
typedef struct transfer_summary {
    copy_kind kind;                  /* the faster kind of memory that was waited for */
    double    latency[COPY_WAYS];    /* seconds of the smallest copy */
    double    bandwidth[COPY_WAYS];  /* B/s of the fastest size, both directions added */
    double    half_bytes[COPY_WAYS]; /* the size at half of that, between two sizes by the logarithms */
    double    of_memcpy[COPY_WAYS];  /* at the largest size that was measured */
    double    memory;                /* B/s of memcpy at that size */
    double    hand_over;             /* seconds until the call of an asynchronous copy of 4 KiB up returns */
} transfer_summary;

double transfer_rate(const transfer_size *s, copy_kind kind, copy_way way); /* B/s */
void   transfer_summarise(const transfer_curve *c, transfer_summary *out);

void   transfer_print(const transfer_curve *c);
cJSON *transfer_json(const transfer_curve *c);

#endif

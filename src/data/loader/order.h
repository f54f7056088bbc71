/* The order in which a loader takes the examples of an epoch. */
#ifndef HAUL_DATA_LOADER_ORDER_H
#define HAUL_DATA_LOADER_ORDER_H

#include <haul/data.h>

typedef struct haul__order {
    int64_t  count;     /* examples in an epoch */
    int64_t *indices;   /* [count]; NULL if the dataset's count is unknown */
    double  *cumulated; /* sums of weights [examples]; NULL: every example occurs once */
    int64_t  examples;
    bool     shuffle;
    uint64_t seed;
} haul__order;

haul_status haul__order_init(haul__order *order, const haul_dataset *dataset, const haul_loader_options *options,
                             const char *operation);
void        haul__order_begin(haul__order *order, int64_t epoch);
void        haul__order_free(haul__order *order);

#endif

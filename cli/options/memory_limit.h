/* --memory-limit: a size, or a share of what the training needs. */
#ifndef CLI_OPTIONS_MEMORY_LIMIT_H
#define CLI_OPTIONS_MEMORY_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct memory_limit {
    int64_t bytes;    /* 0: none */
    int64_t overhead; /* of these, what the device takes for other things than tensors */
    double  percent;  /* of the peak of the training without recomputation; 0: the limit is `bytes` */
} memory_limit;

/* "3000000", "1.5G", "512Mi", "50%"; NULL and "0" are no limit. False after a complaint. */
bool memory_limit_parse(const char *text, memory_limit *out);

/* The limit in bytes for the tensors of a training with that peak; 0: none. */
int64_t memory_limit_bytes(const memory_limit *limit, int64_t peak);

#endif

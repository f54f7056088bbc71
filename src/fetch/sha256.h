/* SHA-256 (FIPS 180-4). */
#ifndef HAUL_FETCH_SHA256_H
#define HAUL_FETCH_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct haul__sha256 {
    uint32_t state[8];
    uint64_t size; /* bytes so far */
    uint8_t  block[64];
} haul__sha256;

void haul__sha256_begin(haul__sha256 *s);
void haul__sha256_add(haul__sha256 *s, const void *data, size_t size);
/* The sum as 64 hexadecimal digits and a zero. */
void haul__sha256_end(haul__sha256 *s, char out[65]);

#endif

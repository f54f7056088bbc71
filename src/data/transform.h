/* From the bytes of pictures to what a network is given. */
#ifndef HAUL_DATA_TRANSFORM_H
#define HAUL_DATA_TRANSFORM_H

#include <stdbool.h>
#include <stdint.h>

/* (x / 255 - mean) / deviation for every x, rounded to f32 after each step as torchvision's ToTensor and Normalize do.
 */
typedef struct haul__normaliser {
    float table[256];
    float high, low, mean, scale;
    bool  by_arithmetic; /* the vectorised formula gives the table's bits */
} haul__normaliser;

void haul__normaliser_init(haul__normaliser *n, double mean, double deviation);
void haul__normalise(const haul__normaliser *n, const uint8_t *in, float *out, int64_t count);

/* Random crop and flip of one picture. */
typedef struct haul__augment {
    int64_t channels, height, width;
    int64_t crop; /* padding on each side, black; 0: no crop */
    bool    flip;
} haul__augment;

/* `out` depends on the picture, the seed, the epoch and the example's index only. */
void haul__augment_one(const haul__augment *a, uint64_t seed, int64_t epoch, int64_t index, const uint8_t *in,
                       uint8_t *out);

#endif

/* Converts the bytes of pictures to a network's input. */
#ifndef HAUL_DATA_NORMALISE_H
#define HAUL_DATA_NORMALISE_H

#include <stdbool.h>
#include <stdint.h>

/* (x / 255 - mean) / deviation for every x, rounded to f32 after each step like torchvision's ToTensor and
 * Normalize. */
typedef struct haul__normaliser {
    float table[256];
    float high, low, mean, scale;
    float deviation;
    bool  by_arithmetic; /* the vectorised formula is bit-identical to the table */
} haul__normaliser;

void haul__normaliser_init(haul__normaliser *n, double mean, double deviation);
void haul__normalise(const haul__normaliser *n, const uint8_t *in, float *out, int64_t count);

#endif

/* Normalisation, crop and flip of pictures. */
#include "data/transform.h"

#include <string.h>

#include "data/random.h"

/* ---- normalise ---- */

/* Without a division, which is what would take the time: 1/255 is split so that x * high is exact and x * low is small,
 * and 1/deviation is multiplied with. The loop of fixed length is what compilers vectorise at -O2. */
#define BLOCK 16

static void normalise_block(const haul__normaliser *n, const uint8_t *restrict in, float *restrict out)
{
    float high = n->high, low = n->low, mean = n->mean, scale = n->scale;
    for (int i = 0; i < BLOCK; i++) {
        float x = (float)in[i];
        out[i] = ((x * high + x * low) - mean) * scale;
    }
}

void haul__normaliser_init(haul__normaliser *n, double mean, double deviation)
{
    uint8_t  x[BLOCK];
    float    y[BLOCK], reciprocal = 1.0f / 255.0f;
    uint32_t bits;
    memcpy(&bits, &reciprocal, sizeof bits);
    bits &= 0xffffff00u; /* 16 bits of mantissa times 8 of x fit into 24 */
    memcpy(&n->high, &bits, sizeof bits);
    n->low = (float)(1.0 / 255.0 - (double)n->high);
    n->mean = (float)mean;
    n->scale = 1.0f / (float)deviation;
    n->by_arithmetic = true;
    for (int first = 0; first < 256; first += BLOCK) {
        for (int i = 0; i < BLOCK; i++) {
            float unit = (float)(first + i) / 255.0f, centred = unit - (float)mean;
            n->table[first + i] = centred / (float)deviation;
            x[i] = (uint8_t)(first + i);
        }
        normalise_block(n, x, y);
        n->by_arithmetic = n->by_arithmetic && memcmp(y, n->table + first, sizeof y) == 0;
    }
}

void haul__normalise(const haul__normaliser *n, const uint8_t *in, float *out, int64_t count)
{
    int64_t i = 0;
    if (n->by_arithmetic)
        for (; i + BLOCK <= count; i += BLOCK)
            normalise_block(n, in + i, out + i);
    for (; i < count; i++)
        out[i] = n->table[in[i]];
}

/* ---- crop and flip ---- */

/* Row y of the picture moved by (dy, dx), with black where there is nothing. */
static void shifted_row(const haul__augment *a, const uint8_t *plane, int64_t y, int64_t dx, uint8_t *out)
{
    int64_t width = a->width;
    int64_t first = dx < 0 ? -dx : 0, last = dx > 0 ? width - dx : width;
    if (y < 0 || y >= a->height || first >= last) {
        memset(out, 0, (size_t)width);
        return;
    }
    memset(out, 0, (size_t)first);
    memcpy(out + first, plane + y * width + first + dx, (size_t)(last - first));
    memset(out + last, 0, (size_t)(width - last));
}

static void mirror(uint8_t *row, int64_t width)
{
    for (int64_t i = 0, k = width - 1; i < k; i++, k--) {
        uint8_t byte = row[i];
        row[i] = row[k];
        row[k] = byte;
    }
}

void haul__augment_one(const haul__augment *a, uint64_t seed, int64_t epoch, int64_t index, const uint8_t *in,
                       uint8_t *out)
{
    haul__draws draws = haul__draws_begin(seed, HAUL__FOR_AUGMENT, (uint64_t)epoch, (uint64_t)index);
    uint64_t    places = 2 * (uint64_t)a->crop + 1;
    int64_t     dy = (int64_t)haul__draw_below(&draws, places) - a->crop;
    int64_t     dx = (int64_t)haul__draw_below(&draws, places) - a->crop;
    bool        flip = a->flip && (haul__draw(&draws) & 1);
    for (int64_t c = 0; c < a->channels; c++) {
        const uint8_t *plane = in + c * a->height * a->width;
        for (int64_t y = 0; y < a->height; y++, out += a->width) {
            shifted_row(a, plane, y + dy, dx, out);
            if (flip)
                mirror(out, a->width);
        }
    }
}

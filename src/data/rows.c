/* Copies and swaps of eight bytes, for all sizes of elements. */
#include "data/rows.h"

#include <string.h>

#include "base/assert.h"

/* ---- shifts ---- */

/* The first `bytes` of each row become 0. */
static void clear_columns(uint8_t *out, int64_t rows, size_t pitch, size_t bytes)
{
    static const uint8_t keep[16] = {0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255};
    uint64_t             mask, value;
    HAUL__ASSERT(bytes <= pitch);
    if (!bytes)
        return;
    if (bytes > sizeof value || pitch < sizeof value) {
        for (int64_t y = 0; y < rows; y++)
            memset(out + (size_t)y * pitch, 0, bytes);
        return;
    }
    memcpy(&mask, keep + sizeof value - bytes, sizeof mask);
    for (int64_t y = 0; y + 1 < rows; y++, out += pitch) {
        memcpy(&value, out, sizeof value);
        value &= mask;
        memcpy(out, &value, sizeof value);
    }
    if (rows)
        memset(out, 0, bytes); /* the eight bytes may end after the planes */
}

/* Rows of planes are adjacent in both memories, so that one copy shifts all rows of a plane. What it carries from one
 * row into the next is cleared. */
static void shift_plane(const haul__planes *p, const uint8_t *in, int64_t dy, int64_t dx, uint8_t *out)
{
    const int64_t above = dy < 0 ? -dy : 0, below = dy > 0 ? dy : 0, left = dx < 0 ? -dx : 0, right = dx > 0 ? dx : 0;
    const int64_t rows = p->height - above - below;
    const size_t  pitch = (size_t)p->width * p->element, bytes = (size_t)(rows > 0 ? rows : 0) * pitch;
    if (!bytes || left + right >= p->width) {
        memset(out, 0, (size_t)p->height * pitch);
        return;
    }
    const size_t before = (size_t)left * p->element, after = (size_t)right * p->element;
    HAUL__ASSERT(before + after < bytes && (size_t)(above + below) * pitch + bytes == (size_t)p->height * pitch);
    uint8_t *to = out + (size_t)above * pitch;
    memset(out, 0, (size_t)above * pitch);
    memcpy(to + before, in + (size_t)below * pitch + after, bytes - before - after);
    clear_columns(to, rows, pitch, before);
    if (after) {
        clear_columns(to + pitch - after, rows - 1, pitch, after);
        memset(to + bytes - after, 0, after);
    }
    memset(to + bytes, 0, (size_t)below * pitch);
}

void haul__planes_shift(const haul__planes *p, const uint8_t *in, int64_t dy, int64_t dx, uint8_t *out)
{
    const size_t bytes = (size_t)(p->height * p->width) * p->element;
    for (int64_t i = 0; i < p->count; i++)
        shift_plane(p, in + (size_t)i * bytes, dy, dx, out + (size_t)i * bytes);
}

/* ---- mirrors ---- */

/* The elements of eight bytes in reverse order. */
static inline uint64_t reversed(uint64_t v, size_t element)
{
    switch (element) {
    case 1: return __builtin_bswap64(v);
    case 2: v = (v >> 16 & 0x0000ffff0000ffff) | (v & 0x0000ffff0000ffff) << 16; return v >> 32 | v << 32;
    case 4: return v >> 32 | v << 32;
    default: return v;
    }
}

/* Inlined for elements of a constant size. */
static inline __attribute__((always_inline)) void mirror_rows(uint8_t *row, int64_t rows, size_t pitch, size_t element)
{
    for (int64_t y = 0; y < rows; y++, row += pitch) {
        uint8_t *a = row, *b = row + pitch;
        uint64_t first, last;
        for (; b - a >= 16; a += 8) {
            b -= 8;
            memcpy(&first, a, sizeof first);
            memcpy(&last, b, sizeof last);
            first = reversed(first, element);
            last = reversed(last, element);
            memcpy(a, &last, sizeof last);
            memcpy(b, &first, sizeof first);
        }
        for (b -= element; a < b; a += element, b -= element) {
            uint8_t kept[8];
            memcpy(kept, a, element);
            memcpy(a, b, element);
            memcpy(b, kept, element);
        }
    }
}

void haul__planes_mirror(const haul__planes *p, uint8_t *rows)
{
    const int64_t count = p->count * p->height;
    const size_t  pitch = (size_t)p->width * p->element;
    if (!pitch)
        return;
    HAUL__ASSERT(p->element == 1 || p->element == 2 || p->element == 4 || p->element == 8);
    switch (p->element) {
    case 1: mirror_rows(rows, count, pitch, 1); break;
    case 2: mirror_rows(rows, count, pitch, 2); break;
    case 4: mirror_rows(rows, count, pitch, 4); break;
    default: mirror_rows(rows, count, pitch, 8);
    }
}

#include "observe/profile/search.h"

size_t haul__first_from(const void *items, size_t count, size_t size, const void *key,
                        int (*order)(const void *, const void *))
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (order((const char *)items + middle * size, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

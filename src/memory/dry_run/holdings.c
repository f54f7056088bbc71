#include "memory/dry_run/holdings.h"

#include <string.h>

#include "base/alloc.h"
#include "events/call.h"

size_t haul__holdings_find(haul__holdings *h, const char *origin)
{
    char        buffer[sizeof h->items->module];
    const char *module = haul__call_path(buffer, sizeof buffer);
    for (size_t i = 0; i < h->count; i++)
        if (!strcmp(h->items[i].origin, origin) && !strcmp(h->items[i].module, module))
            return i;
    if (!haul__grow(&h->items, &h->capacity, h->count + 1, sizeof *h->items))
        return SIZE_MAX;
    haul__holding *item = &h->items[h->count];
    *item = (haul__holding){.origin = origin};
    memcpy(item->module, module, strlen(module) + 1);
    return h->count++;
}

void haul__holdings_settle(haul__holdings *h)
{
    for (size_t i = 0; i < h->count && h->at_peak; i++)
        h->items[i].at_peak = h->items[i].bytes;
    h->at_peak = false;
}

void haul__holdings_add(haul__holdings *h, size_t i, int64_t bytes, bool is_peak)
{
    if (!is_peak)
        haul__holdings_settle(h);
    h->items[i].bytes += bytes;
    h->at_peak = h->at_peak || is_peak;
}

void haul__holdings_free(haul__holdings *h)
{
    haul__free(h->items);
    *h = (haul__holdings){.items = NULL};
}

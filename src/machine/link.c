/* Known kinds of links. */
#include <string.h>

#include "machine/machine.h"

static const haul__machine_link named[] = {
#define X(text, latency, to_pinned, to_pageable)                                                                       \
    {.name = text, .latency_ns = (latency), .pinned = (to_pinned), .pageable = (to_pageable)},
#include "machine/links.def"
#undef X
};

bool haul__machine_named_link(const char *name, haul__machine_link *out)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        if (strcmp(named[i].name, name) != 0)
            continue;
        *out = named[i];
        return true;
    }
    return false;
}

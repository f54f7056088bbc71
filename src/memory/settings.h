/* What a program has set for the memory of a device, to change it for a while. */
#ifndef HAUL_MEMORY_SETTINGS_H
#define HAUL_MEMORY_SETTINGS_H

#include <haul/memory.h>

typedef struct haul__memory_settings {
    int64_t limit;      /* 0: none */
    bool    of_tensors; /* the limit is that of haul_memory_set_tensor_limit */
    bool    spills;
} haul__memory_settings;

haul_status haul__memory_settings_get(haul_device *device, haul__memory_settings *out);
haul_status haul__memory_settings_set(haul_device *device, const haul__memory_settings *settings);

#endif

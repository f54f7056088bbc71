#include "free_memory.h"

#include <stdio.h>

int64_t available_memory(void)
{
    FILE     *file = fopen("/proc/meminfo", "r");
    char      line[128];
    long long kib = 0;

    while (file && !kib && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) != 1)
            kib = 0;
    if (file)
        fclose(file);
    return kib * 1024;
}

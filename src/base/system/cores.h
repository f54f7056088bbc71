/* The cores that this process may use. */
#ifndef HAUL_BASE_SYSTEM_CORES_H
#define HAUL_BASE_SYSTEM_CORES_H

/* At least 1. Reads files: call it rarely. */
int haul__core_count(void);

/* The cores of a line of cpu.max, "QUOTA PERIOD" in microseconds, rounded up; 0 if it sets no limit. */
int haul__quota_cores(const char *text);

#endif

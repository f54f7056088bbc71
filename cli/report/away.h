/* Which stores of a step are in host memory when, on a device that spills. */
#ifndef CLI_REPORT_AWAY_H
#define CLI_REPORT_AWAY_H

#include <haul/program.h>

/* A store is in host memory from one operation to another, both included. */
typedef struct away_time {
    int64_t store, from, to;
} away_time;

typedef struct away {
    away_time *times;
    int64_t    count, room;
    double     left, returned; /* bytes that move in a step, also of stores from outside */
} away;

/* Follows the second of two steps within a limit in bytes, by the rule of followed steps: the store whose next use is
 * the latest goes first. Blocks and copies ahead are not counted, so a run moves somewhat more or less. False if memory
 * is exhausted. */
bool away_find(const haul_program *p, const haul_device *device, double limit, away *out);
void away_free(away *a);

#endif

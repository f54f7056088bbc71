/* What the measurements of haul bench share. */
#ifndef CLI_BENCH_BENCH_H
#define CLI_BENCH_BENCH_H

#include <haul/haul.h>

#include "cli/bench/sampler.h"
#include "cli/shared/json.h"

typedef struct bench_options {
    const char *what, *device, *group;
    double      seconds; /* for each device */
    bool        json;
} bench_options;

/* ---- samples ---- */

/* {"seconds", "seconds_low", "seconds_high"}, and with `amount` above 0 its rate, amount a second, as `rate`. NULL,
 * which json_add takes, if it was not measured. */
cJSON *bench_json_spread(const bench_spread *s, double amount, const char *rate);

/* Add a value that may be NULL, which becomes null. Takes it over. */
void bench_json_add(cJSON *object, const char *name, cJSON *value);

/* How often to repeat work that takes `seconds` for one sample, so that the clock is exact enough. */
static inline int64_t bench_repeats_of(double seconds)
{
    return bench_repeats(seconds, 2e-4, 256);
}

/* True if `expected` seconds of work are more than is left until then; `why` is then the reason for leaving it out. */
bool bench_too_long(double expected, double until, char *why, size_t size);

/* ---- texts ---- */

/* Columns for tables: the terminal's, between 40 and 200; 80 elsewhere. */
int bench_columns(void);

/* "4 B", "64 KiB", "1 GiB": powers of two. */
const char *bench_size(char out[16], int64_t bytes);

/* A rate in units of 10^9 with three digits, "-" if it is not known. */
const char *bench_rate(char out[16], double value);

/* "85.3 ns", "12.3 us", "4.10 ms": a short time. */
const char *bench_time(char out[16], double seconds);

/* A label and a paragraph that begins in a column of its own. */
void bench_line(const char *label, const char *format, ...) HAUL_PRINTF(2, 3);

/* A line on standard error that names the measurement under way, if that is a terminal; NULL removes it. */
void bench_progress(const char *device, const char *what);

/* ---- the measurements ---- */

/* Measure and print one device. False after a complaint. With `json`, an object is added to that array instead. */
bool bench_transfer(haul_device *device, double seconds, cJSON *json);
bool bench_compute(haul_device *device, double seconds, cJSON *json);

/* Measures and prints the group. Returns an exit status. */
int bench_group(bench_options *o);

#endif

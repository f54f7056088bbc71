/* How often work is repeated for a sample, how many samples are taken, and their median and spread: of haul bench and
 * of the programs of bench/. */
#ifndef CLI_BENCH_SAMPLER_H
#define CLI_BENCH_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

enum { MOST_ROUNDS = 31, LEAST_ROUNDS = 3 };

/* One sample a round. */
typedef struct bench_samples {
    double values[MOST_ROUNDS];
    int    count;
} bench_samples;

/* The middle of samples and half of them around it. NaN where there are none. */
typedef struct bench_spread {
    double median, low, high;
} bench_spread;

void         bench_sample(bench_samples *s, double value);
bench_spread bench_spread_of(const bench_samples *s);

/* How often to repeat work that takes `seconds`, so that a sample takes about `sample` seconds: from 1 to `most`. */
int64_t bench_repeats(double seconds, double sample, int64_t most);

/* True if another round comes after `rounds`: until there are LEAST_ROUNDS, then as long as the time `now` is before
 * `until` and there are fewer than MOST_ROUNDS. */
bool bench_another_round(int rounds, double now, double until);

#endif

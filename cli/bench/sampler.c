#include "cli/bench/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void bench_sample(bench_samples *s, double value)
{
    if (s->count < MOST_ROUNDS)
        s->values[s->count++] = value;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between two samples where the place falls there. */
static double quantile(const double *sorted, int count, double part)
{
    double at = part * (count - 1);
    int    below = (int)at, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

bench_spread bench_spread_of(const bench_samples *s)
{
    double sorted[MOST_ROUNDS];
    if (!s->count)
        return (bench_spread){NAN, NAN, NAN};
    memcpy(sorted, s->values, (size_t)s->count * sizeof *sorted);
    qsort(sorted, (size_t)s->count, sizeof *sorted, by_value);
    return (bench_spread){quantile(sorted, s->count, 0.5), quantile(sorted, s->count, 0.25),
                          quantile(sorted, s->count, 0.75)};
}

int64_t bench_repeats(double seconds, double sample, int64_t most)
{
    if (seconds >= sample)
        return 1;
    return seconds * (double)most <= sample ? most : (int64_t)(sample / seconds);
}

bool bench_another_round(int rounds, double now, double until)
{
    return rounds < LEAST_ROUNDS || (rounds < MOST_ROUNDS && now < until);
}

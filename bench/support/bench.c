/* Measuring: as many runs as fill a tenth of a second are one measurement; the median of several is shown. */
#include "support/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "cli/bench/sampler.h"

enum { ROUNDS = 7 };
static const double ENOUGH = 0.1; /* seconds of a measurement */

typedef struct timing {
    double wall, cpu; /* seconds a run */
} timing;

static char        reason[512];
static haul_scope *scope; /* of the case that is open */

bool bench_steps(haul_status (*step)(void *context), int64_t times)
{
    for (int64_t i = 0; i < times; i++) {
        haul_scope       *inner = haul_scope_push();
        const haul_status status = step(NULL);
        haul_scope_pop(inner);
        if (status)
            return false;
    }
    return !haul_device_sync(haul_current_device());
}

haul_recording *bench_follow(haul_status (*step)(void *context))
{
    enum { UNTIL_CODE = 3 };
    haul_recording *r = haul_recording_new(step, NULL);
    for (int i = 0; i < UNTIL_CODE && r; i++)
        if (haul_recording_run(r))
            return NULL;
    return r;
}

bool bench_followed(haul_recording *r, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        if (haul_recording_run(r))
            return false;
    return !haul_device_sync(haul_current_device());
}

bool bench_out(const char *text)
{
    snprintf(reason, sizeof reason, "%s", text);
    return false;
}

double bench_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double of_timeval(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

/* Of this process, its threads, and the children it has waited for. */
static double cpu_seconds(void)
{
    struct rusage own, children;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    return of_timeval(own.ru_utime) + of_timeval(own.ru_stime) + of_timeval(children.ru_utime) +
           of_timeval(children.ru_stime);
}

static bool measure_times(const bench_case *c, int64_t times, timing *out)
{
    double cpu = cpu_seconds(), wall = bench_seconds();
    if (!c->run(c, times))
        return haul_error_status() ? bench_out(haul_error_message()) : false;
    out->wall = (bench_seconds() - wall) / (double)times;
    out->cpu = (cpu_seconds() - cpu) / (double)times;
    return true;
}

static void close_case(const bench_case *c)
{
    if (c && c->close)
        c->close();
    haul_scope_pop(scope);
    scope = NULL;
    haul_error_clear();
}

/* Where cases run that say nothing of it. */
static haul_device *named_device(void)
{
    const char *name = getenv("BENCH_DEVICE");
    return name ? haul_device_get(name) : haul_cpu();
}

/* Open the case and find out how many runs are one measurement; 0 if it is left out. */
static int64_t open_case(const bench_case *c)
{
    timing  t;
    int64_t times = 1;
    reason[0] = 0;
    scope = haul_scope_push();
    if (haul_set_num_threads(c->threads) || haul_set_device(named_device()) || !c->open(c)) {
        if (haul_error_status())
            bench_out(haul_error_message());
        close_case(c);
        return 0;
    }
    for (int i = 0; i < 12; i++) {
        if (!measure_times(c, times, &t)) {
            close_case(c);
            return 0;
        }
        const int64_t wanted = bench_repeats(t.wall, ENOUGH, 10 * times);
        if ((double)wanted <= (double)times * 1.5)
            break;
        times = wanted;
    }
    return times;
}

/* ---- alone ---- */

static void print_json(const bench_case *c, const timing *t)
{
    static int printed;
    printf("%s\n  {\"name\": \"%s\", ", printed++ ? "," : "", c->name);
    if (t)
        printf("\"ns\": %.9g, \"cpu_ns\": %.9g}", t->wall * 1e9, t->cpu * 1e9);
    else
        printf("\"ns\": null, \"cpu_ns\": null}");
}

static void print_line(const bench_case *c, const timing *t)
{
    static const struct {
        const char *unit;
        double      scale;
    } units[] = {{"ns", 1e9}, {"us", 1e6}, {"ms", 1e3}};
    const char *unit = "s";
    double      wall = t->wall, cpu = t->cpu;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(c->unit, units[i].unit) == 0) {
            unit = units[i].unit;
            wall *= units[i].scale;
            cpu *= units[i].scale;
        }
    if (c->amount > 0)
        printf("%-28s %10.4g %s\n", c->name, c->amount / t->wall, c->unit);
    else
        printf("%-28s %10.4g %-2s  cpu %10.4g %s\n", c->name, wall, unit, cpu, unit);
    fflush(stdout);
}

static bool begins_with_any(const char *name, int count, char **prefixes)
{
    for (int i = 0; i < count; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return count == 0;
}

static void measure_alone(const bench_case *c, bool json)
{
    timing        t;
    bench_samples wall = {.count = 0}, cpu = {.count = 0};
    int64_t       times = open_case(c);
    while (times && wall.count < ROUNDS && measure_times(c, times, &t)) {
        bench_sample(&wall, t.wall);
        bench_sample(&cpu, t.cpu);
    }
    t = (timing){bench_spread_of(&wall).median, bench_spread_of(&cpu).median};
    if (wall.count == ROUNDS)
        (json ? print_json : print_line)(c, &t);
    else if (json)
        print_json(c, NULL);
    else
        printf("%-28s left out: %s\n", c->name, reason);
    if (times)
        close_case(c);
}

/* ---- in turns with others ---- */

static const bench_case *find(const char *name, const bench_case *cases, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(cases[i].name, name) == 0)
            return &cases[i];
    return NULL;
}

static void serve(const bench_case *cases, int count)
{
    char              name[256];
    const bench_case *open = NULL;
    int64_t           times = 0;
    while (fgets(name, sizeof name, stdin)) {
        name[strcspn(name, "\n")] = 0;
        const bench_case *c = find(name, cases, count);
        if (c != open) {
            if (times)
                close_case(open);
            times = c ? open_case(c) : 0;
            open = c;
        }
        timing t;
        if (!c)
            printf("out no such case\n");
        else if (times && measure_times(c, times, &t))
            printf("ok %.9g %.9g\n", t.wall, t.cpu);
        else
            printf("out %s\n", reason);
        fflush(stdout);
    }
    if (times)
        close_case(open);
}

static void print_row(const bench_case *c)
{
    printf("%s\t%s\t%.9g\t%s\t%s\n", c->name, c->unit, c->amount, c->peers ? c->peers : "", c->limit ? c->limit : "");
}

int bench_main(int argc, char **argv, const bench_case *cases, int count)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (int i = 0; i < count; i++)
            print_row(&cases[i]);
    } else if (argc == 2 && strcmp(argv[1], "--serve") == 0) {
        serve(cases, count);
    } else {
        bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
        printf("%s", json ? "[" : "");
        for (int i = 0; i < count; i++)
            if (begins_with_any(cases[i].name, argc - 1 - json, argv + 1 + json))
                measure_alone(&cases[i], json);
        printf("%s", json ? "\n]\n" : "");
    }
    return 0;
}

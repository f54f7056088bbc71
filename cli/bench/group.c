/* haul bench group: how long collectives of the ranks take, by size, and the MPI library's own all-reduce. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "cli/bench/bench.h"
#include "cli/shared/cli.h"
#include "cli/shared/local_ranks.h"
#include "cli/shared/terminal.h"
#include "group/group.h"

#define NAME "haul bench group"

/* The measured collectives, each with the same bytes on all ranks: the sum of Haul and that of the library, all ranks'
 * portions of the bytes to all ranks, a portion from each rank to each other one, and the bytes of rank 0 to all. */
typedef enum collective { SUM, LIBRARY_SUM, ALL_GATHER, ALL_TO_ALL, BROADCAST, COLLECTIVES } collective;

static const char *const headings[] = {"sum", "library", "all-gather", "all-to-all", "broadcast"};
static const char *const json_names[] = {"sum", "library_all_reduce", "all_gather", "all_to_all", "broadcast"};

enum { SIZES = 7, FIRST_BYTES = 4, GROWTH = 16, BARRIERS = 31 };

typedef struct group_size {
    int64_t       bytes; /* on each rank */
    int           rounds;
    bench_samples samples[COLLECTIVES];
} group_size;

typedef struct group_bench {
    haul_group           *group;
    haul_group_properties properties;
    char                 *one, *other; /* of the largest size, and a number for each rank */
    int64_t              *portions;    /* bytes for each rank */
    bench_samples         barriers;
    group_size            sizes[SIZES];
} group_bench;

static double seconds_now(void)
{
    return (double)haul__system_ns() * 1e-9;
}

/* Threads have no library. */
static bool has(const group_bench *b, int kind)
{
    return kind != LIBRARY_SUM || *b->properties.library;
}

/* ---- collectives ---- */

/* Bytes of the portion of a rank: whole numbers of f32, at least one. */
static int64_t portion(const group_bench *b, const group_size *s)
{
    const int64_t bytes = s->bytes / b->properties.size / 4 * 4;
    return bytes < 4 ? 4 : bytes;
}

static haul__work *begin(group_bench *b, const group_size *s, collective kind)
{
    const haul__group_call call = {.name = NAME, .what = headings[kind]};
    const int              size = b->properties.size;
    const int64_t          count = s->bytes / (int64_t)sizeof(float);
    for (int r = 0; r < size; r++)
        b->portions[r] = portion(b, s);
    switch (kind) {
    case SUM:
        return haul__group_sum_begin(b->group, &call, &(haul__tree){size, size}, HAUL_F32, (void *[]){b->one}, count);
    case LIBRARY_SUM: return haul__group_library_sum_begin(b->group, &call, (float *)(void *)b->one, count);
    case ALL_GATHER: return haul__group_gather_begin(b->group, &call, b->one, b->portions);
    case ALL_TO_ALL:
        return haul__group_exchange_begin(b->group, &call, b->one, b->portions, b->other, b->portions,
                                          size * portion(b, s));
    default: return haul__group_broadcast_begin(b->group, &call, b->one, s->bytes, 0);
    }
}

static haul_status repeat(group_bench *b, group_size *s, collective kind, int64_t repeats, double *seconds)
{
    haul_status  status = haul_group_barrier(b->group);
    const double began = seconds_now();
    for (int64_t i = 0; i < repeats && !status; i++)
        status = haul__work_wait(begin(b, s, kind));
    *seconds = (seconds_now() - began) / (double)repeats;
    return status;
}

/* All ranks do what rank 0 has decided by its clock. */
static haul_status agree(group_bench *b, int64_t *number)
{
    const haul__group_call call = {.name = NAME, .what = "what rank 0 decides"};
    return haul__work_wait(haul__group_broadcast_begin(b->group, &call, number, sizeof *number, 0));
}

/* ---- measuring ---- */

static haul_status measure_size(group_bench *b, group_size *s, double until)
{
    int64_t     repeats[COLLECTIVES], more = 1;
    double      seconds = 0;
    haul_status status = HAUL_OK;
    for (int k = 0; k < COLLECTIVES && !status; k++) {
        status = has(b, k) ? repeat(b, s, (collective)k, 1, &seconds) : HAUL_OK;
        repeats[k] = bench_repeats(seconds, 2e-3, 64);
        if (!status)
            status = agree(b, &repeats[k]);
    }
    while (more && !status) {
        for (int k = 0; k < COLLECTIVES && !status; k++) {
            if (!has(b, k))
                continue;
            status = repeat(b, s, (collective)k, repeats[k], &seconds);
            bench_sample(&s->samples[k], seconds);
        }
        s->rounds++;
        more = bench_another_round(s->rounds, seconds_now(), until);
        if (!status)
            status = agree(b, &more);
    }
    return status;
}

/* The sizes share the time, and what a size leaves is for the larger ones. Sizes after the end are left out. */
static haul_status measure_sizes(group_bench *b, double seconds)
{
    const double end = seconds_now() + seconds;
    haul_status  status = HAUL_OK;
    int64_t      bytes = FIRST_BYTES, goes_on = 1;
    for (int i = 0; i < SIZES && !status && goes_on; i++, bytes *= GROWTH) {
        const double now = seconds_now();
        b->sizes[i].bytes = bytes;
        goes_on = now < end;
        status = agree(b, &goes_on);
        if (!status && goes_on)
            status = measure_size(b, &b->sizes[i], now + (end - now) / (SIZES - i));
    }
    return status;
}

static haul_status measure(group_bench *b, double seconds)
{
    haul_status status = haul_group_barrier(b->group);
    for (int i = 0; i < BARRIERS && !status; i++) {
        const double began = seconds_now();
        status = haul_group_barrier(b->group);
        bench_sample(&b->barriers, seconds_now() - began);
    }
    return status ? status : measure_sizes(b, seconds);
}

/* ---- printing ---- */

enum { SIZE_ROOM = 8, TIME_ROOM = 13 };

static void print_columns(const group_bench *b, const int *kinds, int count)
{
    char text[32];
    printf("\n%*s", SIZE_ROOM, "size");
    for (int k = 0; k < count; k++)
        printf("%*s", TIME_ROOM, headings[kinds[k]]);
    printf("\n");
    for (int i = 0; i < SIZES && b->sizes[i].rounds; i++) {
        printf("%*s", SIZE_ROOM, bench_size(text, b->sizes[i].bytes));
        for (int k = 0; k < count; k++)
            printf("%*s", TIME_ROOM, bench_time(text, bench_spread_of(&b->sizes[i].samples[kinds[k]]).median));
        printf("\n");
    }
}

/* On a narrow terminal one table below the other. */
static void print_text(const group_bench *b)
{
    char      text[300];
    int       kinds[COLLECTIVES], count = 0;
    const int most = columns_that_fit(SIZE_ROOM, TIME_ROOM);
    snprintf(text, sizeof text, "%d ranks, %s", b->properties.size,
             *b->properties.library ? b->properties.version : "threads");
    print_wrapped(text, 0, 2);
    printf("barrier %s\n", bench_time(text, bench_spread_of(&b->barriers).median));
    for (int k = 0; k < COLLECTIVES; k++)
        if (has(b, k))
            kinds[count++] = k;
    for (int first = 0; first < count; first += most)
        print_columns(b, kinds + first, count - first < most ? count - first : most);
    snprintf(text, sizeof text, "sum: of Haul, bit-identical for any number of ranks.%s",
             has(b, LIBRARY_SUM) ? " library: MPI_Iallreduce." : "");
    printf("\n");
    print_wrapped(text, 0, 2);
}

static int print_json(const group_bench *b, double seconds)
{
    cJSON             *object = cJSON_CreateObject(), *sizes;
    const bench_spread barrier = bench_spread_of(&b->barriers);
    json_text(object, "bench", "group");
    json_number(object, "seconds", seconds);
    json_number(object, "ranks", b->properties.size);
    json_text(object, "library", b->properties.library);
    json_text(object, "version", b->properties.version);
    bench_json_add(object, "barrier", bench_json_spread(&barrier, 0, NULL));
    sizes = json_array(object, "sizes");
    for (int i = 0; i < SIZES && b->sizes[i].rounds; i++) {
        const group_size *s = &b->sizes[i];
        cJSON            *one = cJSON_CreateObject();
        json_number(one, "bytes", (double)s->bytes);
        json_number(one, "rounds", s->rounds);
        for (int k = 0; k < COLLECTIVES; k++) {
            if (!has(b, k))
                continue;
            const bench_spread spread = bench_spread_of(&s->samples[k]);
            bench_json_add(one, json_names[k], bench_json_spread(&spread, (double)s->bytes, "bytes_per_second"));
        }
        json_push(sizes, one);
    }
    return json_print(object) ? EXIT_OK : EXIT_FAILED;
}

static int run(group_bench *b, double seconds, bool json)
{
    int64_t largest = FIRST_BYTES;
    for (int i = 1; i < SIZES; i++)
        largest *= GROWTH;
    const size_t size = (size_t)b->properties.size, room = (size_t)largest + size * sizeof(float);
    b->one = calloc(room, 1);
    b->other = calloc(room, 1);
    b->portions = calloc(size, sizeof *b->portions);
    if (!b->one || !b->other || !b->portions) {
        haul_error_set(HAUL_OUT_OF_MEMORY, NAME, NULL, "memory is exhausted");
        haul__group_pass_error(b->group, NAME);
        return complain_error();
    }
    if (measure(b, seconds))
        return complain_error();
    if (b->properties.rank > 0)
        return EXIT_OK;
    if (json)
        return print_json(b, seconds);
    print_text(b);
    return EXIT_OK;
}

static int bench_rank(haul_group *group, void *context)
{
    const bench_options *o = context;
    group_bench         *b = calloc(1, sizeof *b);
    int                  code;
    if (!b)
        return complain("memory is exhausted");
    b->group = group;
    if (!b->group || haul_group_describe(b->group, &b->properties))
        code = complain_error();
    else if (b->properties.size == 1)
        code = local_ranks_named(o->group)
                   ? complain("one rank has nobody to exchange data with; name several devices: --group local:cpu,cpu")
                   : complain("one process has no ranks to exchange data with; start several: mpirun -n 4 haul bench "
                              "group");
    else
        code = run(b, o->seconds, o->json);
    free(b->one);
    free(b->other);
    free(b->portions);
    free(b);
    return code;
}

int bench_group(bench_options *o)
{
    return local_ranks_named(o->group) ? local_ranks_run(o->group, bench_rank, o)
                                       : bench_rank(haul_group_get(o->group), o);
}

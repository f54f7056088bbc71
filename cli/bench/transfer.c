/* haul bench transfer: the measurement. */
#include "cli/bench/transfer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "plan/available.h"

/* ---- the copies ---- */

/* For each kind of host memory and on the device: a tensor that is copied up, and one that is copied down. */
typedef struct copy_buffers {
    haul_device *device;
    int64_t      bytes;
    void        *memory[2];
    haul_tensor *host[2], *pinned[2], *there[2];
} copy_buffers;

/* Touched memory that begins at a page. */
static void *touched(int64_t bytes)
{
    const size_t page = 4096, size = ((size_t)bytes + page - 1) / page * page;
    void        *memory = aligned_alloc(page, size);
    if (memory)
        memset(memory, 1, size);
    return memory;
}

static bool buffers_open(copy_buffers *b, const transfer_curve *c, int64_t bytes)
{
    const haul_shape shape = HAUL_SHAPE(bytes / 4);
    *b = (copy_buffers){.device = c->device, .bytes = bytes};
    for (int i = 0; i < 2; i++) {
        b->memory[i] = touched(bytes);
        if (!b->memory[i]) {
            haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "the machine has no room for %s more", text_bytes(bytes));
            return false;
        }
        if (c->is_host)
            continue;
        b->host[i] = haul_wrap_host(HAUL_F32, shape, b->memory[i], NULL, NULL);
        b->pinned[i] = c->pins ? haul_pin(b->host[i], c->device) : b->host[i];
        b->there[i] = haul_identity(b->host[i], c->device);
        if (!haul_tensor_is_valid(b->pinned[i]) || !haul_tensor_is_valid(b->there[i]))
            return false;
    }
    return !haul_device_sync(c->device);
}

/* In the scope of buffers_open, so that nothing uses the memory when it is freed. */
static void buffers_close(copy_buffers *b)
{
    for (int i = 0; i < 2; i++) {
        haul_tensor *made[] = {b->there[i], b->pinned[i] == b->host[i] ? NULL : b->pinned[i], b->host[i]};
        for (size_t k = 0; k < sizeof made / sizeof *made; k++)
            if (made[k])
                haul_drop(made[k]);
        free(b->memory[i]);
    }
}

/* ---- one sample ---- */

static bool submit(const copy_buffers *b, copy_kind kind, copy_way way)
{
    haul_tensor *const *here = kind == COPY_PAGEABLE ? b->host : b->pinned;
    if (way != COPY_DOWN && haul_copy_into(b->there[0], here[0]))
        return false;
    return way == COPY_UP || !haul_copy_into(here[1], b->there[1]);
}

/* Seconds of a copy, on average over `times`, and until its calls returned. NaN on failure. */
static double copy_seconds(const copy_buffers *b, copy_kind kind, copy_way way, int64_t times, double *hand_over)
{
    double began = clock_seconds();
    for (int64_t i = 0; i < times; i++)
        if (!submit(b, kind, way) || (kind != COPY_ASYNCHRONOUS && haul_device_sync(b->device)))
            return NAN;
    *hand_over = (clock_seconds() - began) / (double)times;
    if (kind == COPY_ASYNCHRONOUS && haul_device_sync(b->device))
        return NAN;
    return (clock_seconds() - began) / (double)times;
}

static double memcpy_seconds(const copy_buffers *b, int64_t times)
{
    double began = clock_seconds();
    for (int64_t i = 0; i < times; i++) {
        memcpy(b->memory[1], b->memory[0], (size_t)b->bytes);
        __asm__ volatile("" ::: "memory"); /* each of them */
    }
    return (clock_seconds() - began) / (double)times;
}

/* ---- one size ---- */

typedef struct size_samples {
    bench_samples memory, copies[COPY_KINDS][COPY_WAYS], shares[COPY_KINDS][COPY_WAYS], hand_over[COPY_WAYS];
    int64_t       memory_times, times[COPY_KINDS][COPY_WAYS];
} size_samples;

static bool is_measured(const transfer_curve *c, copy_kind kind)
{
    return !c->is_host && (kind != COPY_PINNED || c->pins);
}

/* Several asynchronous copies follow each other where they are short. */
static int64_t times_of(copy_kind kind, double seconds)
{
    enum { IN_A_ROW = 4 };
    const double short_enough = 5e-3;
    int64_t      times = bench_repeats_of(seconds);
    return kind == COPY_ASYNCHRONOUS && times < IN_A_ROW && seconds < short_enough ? IN_A_ROW : times;
}

/* Each copy once, and once more to see how often a sample repeats it. */
static bool warm_up(const transfer_curve *c, const copy_buffers *b, size_samples *s)
{
    double ignored;
    memcpy_seconds(b, 1);
    s->memory_times = bench_repeats_of(memcpy_seconds(b, 1));
    for (int kind = 0; kind < COPY_KINDS; kind++)
        for (int way = 0; is_measured(c, kind) && way < COPY_WAYS; way++) {
            double seconds = copy_seconds(b, kind, way, 1, &ignored);
            if (seconds < 0.01) /* also known to be no NaN */
                seconds = copy_seconds(b, kind, way, 4, &ignored);
            if (isnan(seconds))
                return false;
            s->times[kind][way] = times_of(kind, seconds);
        }
    return true;
}

/* Every round begins with memcpy, and the copies follow in an order that turns. */
static bool measure_round(const transfer_curve *c, const copy_buffers *b, int round, size_samples *s)
{
    enum { ALL = COPY_KINDS * COPY_WAYS };
    const double memory = memcpy_seconds(b, s->memory_times);
    bench_sample(&s->memory, memory);
    for (int i = 0; i < ALL; i++) {
        const int kind = (i + round) % ALL / COPY_WAYS, way = (i + round) % COPY_WAYS;
        double    hand_over;
        if (!is_measured(c, kind))
            continue;
        double seconds = copy_seconds(b, kind, way, s->times[kind][way], &hand_over);
        if (isnan(seconds))
            return false;
        bench_sample(&s->copies[kind][way], seconds);
        bench_sample(&s->shares[kind][way], (way == COPY_BOTH ? 2 : 1) * memory / seconds);
        if (kind == COPY_ASYNCHRONOUS)
            bench_sample(&s->hand_over[way], hand_over);
    }
    return true;
}

static void keep_results(transfer_size *out, const size_samples *s)
{
    out->rounds = s->memory.count;
    out->memory = bench_spread_of(&s->memory);
    for (int kind = 0; kind < COPY_KINDS; kind++)
        for (int way = 0; way < COPY_WAYS; way++) {
            out->copies[kind][way] = bench_spread_of(&s->copies[kind][way]);
            out->of_memcpy[kind][way] = bench_spread_of(&s->shares[kind][way]).median;
        }
    for (int way = 0; way < COPY_WAYS; way++)
        out->hand_over[way] = bench_spread_of(&s->hand_over[way]).median;
}

static bool measure_size(const transfer_curve *c, transfer_size *out, double until)
{
    copy_buffers b;
    size_samples s = {.memory = {.count = 0}};
    bool         good = buffers_open(&b, c, out->bytes) && warm_up(c, &b, &s);
    for (int round = 0; good && bench_another_round(round, clock_seconds(), until); round++)
        good = measure_round(c, &b, round, &s);
    if (good)
        keep_results(out, &s);
    buffers_close(&b);
    return good;
}

/* ---- which sizes ---- */

/* One of each copy of this size; 0 if it was not measured. */
static double pass_seconds(const transfer_curve *c, const transfer_size *s)
{
    double sum = s->rounds ? s->memory.median : 0;
    for (int kind = 0; s->rounds && kind < COPY_KINDS; kind++)
        for (int way = 0; is_measured(c, kind) && way < COPY_WAYS; way++)
            sum += s->copies[kind][way].median;
    return sum;
}

/* Half of the free memory is enough for a measurement. */
static bool fits_memory(const transfer_curve *c, transfer_size *s)
{
    const int     copies = c->is_host ? 2 : 2 + (c->pins ? 2 : 0) + (c->properties.shares_host_memory ? 2 : 0);
    const int64_t available = haul__available_on_host(), needed = copies * s->bytes;
    if (!available || needed <= available / 2)
        return true;
    snprintf(s->left_out, sizeof s->left_out,
             "needs %s of the machine's memory, of which %s is free: half at most is used", text_bytes(needed),
             text_bytes(available));
    return false;
}

/* A size takes what the one before took, times the growth, in each round and about twice more to get ready. */
static bool fits_time(transfer_curve *c, int i, double until)
{
    enum { PASSES = LEAST_ROUNDS + 2, SHORT = 1 << 20 };
    transfer_size *s = &c->sizes[i];
    if (!i || s->bytes < SHORT)
        return true;
    const double expected = PASSES * pass_seconds(c, s - 1) * (double)s->bytes / (double)s[-1].bytes;
    return !bench_too_long(expected, until, s->left_out, sizeof s->left_out);
}

/* False after a complaint. Larger sizes get more of the time. A size for which memory does not suffice is left out, and
 * so are those above. */
static bool measure_sizes(transfer_curve *c, double until)
{
    const char *why = NULL;
    for (int i = 0; i < TRANSFER_SIZES; i++) {
        transfer_size *s = &c->sizes[i];
        char           name[16];
        s->bytes = (int64_t)4 << 2 * i;
        if (why || !fits_memory(c, s) || !fits_time(c, i, until)) {
            if (why)
                snprintf(s->left_out, sizeof s->left_out, "the size before was left out");
            why = s->left_out;
            continue;
        }
        bench_progress(haul_device_name(c->device), bench_size(name, s->bytes));
        double      now = clock_seconds();
        haul_scope *scope = haul_scope_push();
        bool        good = scope && measure_size(c, s, now + (until - now) / (2 * (TRANSFER_SIZES - i) - 1));
        haul_scope_pop(scope);
        if (!good && haul_error_status() != HAUL_OUT_OF_MEMORY) {
            bench_progress("", NULL);
            complain_error();
            return false;
        }
        if (!good)
            snprintf(s->left_out, sizeof s->left_out, "%s", error_text());
        why = good ? NULL : s->left_out;
        haul_error_clear();
        haul_memory_release_cached(c->device);
    }
    return true;
}

static bool curve_begin(transfer_curve *c, haul_device *device)
{
    haul_scope *scope = haul_scope_push();
    *c = (transfer_curve){.device = device, .is_host = device == haul_cpu()};
    bool good = scope && !haul_device_describe(device, &c->properties);
    c->pins = good && !c->is_host && haul_tensor_is_pinned(haul_pin(haul_zeros(HAUL_F32, HAUL_SHAPE(1)), device));
    good = good && !haul_error_status();
    haul_scope_pop(scope);
    return good;
}

bool bench_transfer(haul_device *device, double seconds, cJSON *json)
{
    const double    until = clock_seconds() + seconds;
    transfer_curve *c = malloc(sizeof *c);
    if (!c) {
        complain("memory is exhausted");
        return false;
    }
    haul_error_clear();
    bool good = curve_begin(c, device);
    if (!good)
        complain_error();
    good = good && measure_sizes(c, until);
    bench_progress("", NULL);
    if (good && json)
        json_push(json, transfer_json(c));
    else if (good)
        transfer_print(c);
    free(c);
    return good;
}

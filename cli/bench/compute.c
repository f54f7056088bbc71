/* haul bench compute: the measurement. */
#include "cli/bench/compute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "plan/available.h"

/* ---- one call ---- */

/* The same operation on the CPU and on the device. The CPU's tensors are those that cross the link. */
typedef struct call {
    const compute_family *family;
    haul_device          *device; /* NULL: only the CPU computes */
    compute_tensors       here, there;
} call;

/* Pinned where the device gains by it: copies are as fast as they get. */
static void pin(haul_tensor **t, haul_device *device)
{
    if (*t)
        *t = haul_pin(*t, device);
}

static bool is_made(const compute_tensors *t)
{
    return haul_tensor_is_valid(t->out) && haul_tensor_is_valid(t->x) && (!t->w || haul_tensor_is_valid(t->w));
}

/* False with the thread's error, HAUL_DTYPE for a dtype that a device lacks. */
static bool call_open(call *c, const compute_family *f, haul_dtype dtype, int64_t size, haul_device *device)
{
    *c = (call){.family = f, .device = device};
    if (haul_set_device(haul_cpu()))
        return false;
    f->make(f, dtype, size, &c->here);
    if (!is_made(&c->here) || !device)
        return is_made(&c->here);
    pin(&c->here.out, device);
    pin(&c->here.x, device);
    pin(&c->here.w, device);
    if (!is_made(&c->here) || haul_set_device(device))
        return false;
    f->make(f, dtype, size, &c->there);
    return !haul_set_device(haul_cpu()) && is_made(&c->there) && !haul_device_sync(device);
}

static haul_status with_transfer(const call *c)
{
    if (haul_copy_into(c->there.x, c->here.x))
        return haul_error_status();
    if (c->there.w && !c->family->w_stays && haul_copy_into(c->there.w, c->here.w))
        return haul_error_status();
    if (c->family->run(c->family, &c->there) || haul_copy_into(c->here.out, c->there.out))
        return haul_error_status();
    return haul_device_sync(c->device);
}

/* Seconds of one call, on average over `times`; NaN on failure. Calls without transfers are waited for at the end. */
static double call_seconds(const call *c, contestant who, int64_t times)
{
    double began = clock_seconds();
    for (int64_t i = 0; i < times; i++) {
        const compute_tensors *t = who == ON_CPU ? &c->here : &c->there;
        if (who == WITH_TRANSFER ? with_transfer(c) : c->family->run(c->family, t))
            return NAN;
    }
    if (who == ON_DEVICE && haul_device_sync(c->device))
        return NAN;
    return (clock_seconds() - began) / (double)times;
}

/* ---- one size ---- */

static int contestants(const call *c)
{
    return c->device ? CONTESTANTS : 1;
}

/* The first call may compile; the second determines how often a sample repeats it. */
static bool warm_up(const call *c, int64_t times[CONTESTANTS])
{
    for (int who = 0; who < contestants(c); who++) {
        double seconds = call_seconds(c, who, 1);
        if (isnan(seconds))
            return false;
        seconds = call_seconds(c, who, 1);
        if (isnan(seconds))
            return false;
        times[who] = bench_repeats_of(seconds);
    }
    return true;
}

static bool measure_size(const call *c, compute_size *out, double until)
{
    bench_samples samples[CONTESTANTS] = {{.count = 0}};
    int64_t       times[CONTESTANTS];
    int           round;
    if (!warm_up(c, times))
        return false;
    for (round = 0; bench_another_round(round, clock_seconds(), until); round++)
        for (int i = 0; i < contestants(c); i++) {
            const int who = (i + round) % contestants(c);
            double    seconds = call_seconds(c, who, times[who]);
            if (isnan(seconds))
                return false;
            bench_sample(&samples[who], seconds);
        }
    out->rounds = round;
    for (int who = 0; who < CONTESTANTS; who++)
        out->times[who] = bench_spread_of(&samples[who]);
    return true;
}

/* ---- which sizes ---- */

/* A size takes what the one before took, times the growth of the work, in each round and twice more to get ready. */
static bool fits_time(const compute_group *g, compute_size *s, double until)
{
    enum { PASSES = LEAST_ROUNDS + 2 };
    const double short_enough = 0.05;
    double       pass = 0;
    if (s == g->sizes)
        return true;
    for (int who = 0; who < CONTESTANTS; who++)
        pass += isnan(s[-1].times[who].median) ? 0 : s[-1].times[who].median;
    const double expected = PASSES * pass * s->work / s[-1].work;
    return expected < short_enough || !bench_too_long(expected, until, s->left_out, sizeof s->left_out);
}

/* Operands and result, here and there: at most three tensors of four bytes an element each. Half of the free memory is
 * enough. Only vectors come near. */
static bool fits_memory(const compute_results *r, const compute_group *g, compute_size *s)
{
    const int64_t sides = r->is_cpu ? 1 : 3,
                  available = haul__available_on_host(); /* pinned and ordinary, and the device */
    const int64_t elements = g->family->counts_bytes ? s->size : 0;
    if (!available || elements * 12 * sides <= available / 2)
        return true;
    snprintf(s->left_out, sizeof s->left_out,
             "needs %s of the machine's memory, of which %s is free: half at most is used",
             text_bytes(elements * 12 * sides), text_bytes(available));
    return false;
}

/* False after a complaint: an error that is not about the size or the dtype. */
static bool try_size(const compute_results *r, compute_group *g, compute_size *s, double until)
{
    haul_scope *scope = haul_scope_push();
    call        c;
    bool        good = scope && call_open(&c, g->family, g->dtype, s->size, r->is_cpu ? NULL : r->device) &&
                measure_size(&c, s, until);
    haul_status status = good ? HAUL_OK : haul_error_status();
    if (!good)
        snprintf(s->left_out, sizeof s->left_out, "%s", error_text());
    haul_scope_pop(scope);
    haul_memory_release_cached(r->device);
    haul_memory_release_cached(haul_cpu());
    if (status && status != HAUL_DTYPE && status != HAUL_OUT_OF_MEMORY) {
        bench_progress("", NULL);
        complain("%s %s: %s", g->family->operation, haul_dtype_name(g->dtype), s->left_out);
        return false;
    }
    haul_error_clear();
    return true;
}

static bool measure_group(const compute_results *r, compute_group *g, double until)
{
    char what[96];
    snprintf(what, sizeof what, "%s %s, %s", g->family->operation, g->family->detail, haul_dtype_name(g->dtype));
    bench_progress(r->properties.name, what);
    for (int i = 0; i < COMPUTE_SIZES && g->family->sizes[i]; i++) {
        compute_size *s = &g->sizes[g->count++];
        const double  now = clock_seconds();
        int           left = 0;
        while (i + left < COMPUTE_SIZES && g->family->sizes[i + left])
            left++;
        s->size = g->family->sizes[i];
        s->work = g->family->work(g->family, s->size, g->dtype == HAUL_F32 ? 4 : 2);
        if (!fits_memory(r, g, s) || !fits_time(g, s, until))
            break;
        if (!try_size(r, g, s, now + (until - now) / (2 * left - 1)))
            return false;
        if (*s->left_out)
            break;
    }
    return true;
}

/* ---- a device ---- */

static bool measure_groups(compute_results *r, double until)
{
    double shares = 0;
    for (int i = 0; i < COMPUTE_FAMILIES; i++)
        shares += compute_families[i].share * COMPUTE_DTYPES;
    for (int i = 0; i < COMPUTE_FAMILIES * COMPUTE_DTYPES; i++) {
        compute_group *g = &r->groups[i];
        const double   now = clock_seconds();
        g->family = &compute_families[i / COMPUTE_DTYPES];
        g->dtype = compute_dtypes[i % COMPUTE_DTYPES];
        if (!measure_group(r, g, now + (until - now) * g->family->share / shares))
            return false;
        shares -= g->family->share;
    }
    return true;
}

/* The peaks are those of matrix products and of x + y in f32; the tables have no faster ones. */
static void raise_peaks(compute_results *r)
{
    const contestant who = r->is_cpu ? ON_CPU : ON_DEVICE;
    for (int i = 0; i < COMPUTE_FAMILIES * COMPUTE_DTYPES; i++) {
        const compute_group *g = &r->groups[i];
        double              *peak = !strcmp(g->family->operation, "gemm") ? &r->peaks.flops
                                    : !strcmp(g->family->detail, "x + y") ? &r->peaks.bytes
                                                                          : NULL;
        for (int k = 0; k < g->count && peak && g->dtype == HAUL_F32; k++)
            if (g->sizes[k].rounds)
                *peak = fmax(*peak, g->sizes[k].work / g->sizes[k].times[who].median);
    }
}

bool bench_compute(haul_device *device, double seconds, cJSON *json)
{
    const double     until = clock_seconds() + seconds;
    compute_results *r = calloc(1, sizeof *r);
    bool             good = false;
    if (!r) {
        complain("memory is exhausted");
        return false;
    }
    r->device = device;
    r->is_cpu = device == haul_cpu();
    bench_progress(haul_device_name(device), "peaks");
    good = !haul_device_describe(device, &r->properties) && haul__measure_peaks(device, &r->peaks);
    if (!good) {
        bench_progress("", NULL);
        complain_error();
    }
    good = good && measure_groups(r, until);
    if (good)
        raise_peaks(r);
    bench_progress("", NULL);
    if (good && json)
        json_push(json, compute_json(r));
    else if (good)
        compute_print(r);
    free(r);
    return good;
}

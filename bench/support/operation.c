/* Rows of operations as cases. */
#include "support/operation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 1 << 20, NAME = 192, PEERS = 320, SIZES = 88 };

static haul_tensor *x, *seed;

static haul_shape shape_of(const operation *o)
{
    haul_shape shape = {0};
    while (shape.ndim < 4 && o->sizes[shape.ndim]) {
        shape.dims[shape.ndim] = o->sizes[shape.ndim];
        shape.ndim++;
    }
    return shape;
}

static haul_tensor *apply(const operation *o)
{
    return o->unary ? o->unary(x) : o->along(x, o->axis);
}

static bool open_operation(const bench_case *c)
{
    const operation *o = c->context;
    x = haul_cast(haul_uniform(HAUL_F32, shape_of(o), -1, 1), o->dtype ? o->dtype : HAUL_F32);
    if (o->prepare)
        x = o->prepare(x);
    if (o->gradient) {
        haul_set_requires_grad(x, true);
        seed = haul_ones_like(haul_detach(apply(o)));
    }
    return !haul_error_status();
}

static bool run_forward(const bench_case *c, int64_t times)
{
    const operation *o = c->context;
    for (int64_t i = 0; i < times; i++) {
        haul_scope *scope = haul_scope_push();
        apply(o);
        haul_scope_pop(scope);
    }
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

static bool run_gradient(const bench_case *c, int64_t times)
{
    const operation *o = c->context;
    haul_tensor     *gradient;
    for (int64_t i = 0; i < times; i++) {
        haul_scope *scope = haul_scope_push();
        haul_grad(apply(o), &x, 1, &gradient, .seed = seed);
        haul_scope_pop(scope);
    }
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

/* ---- rows as cases ---- */

static double elements(const operation *o)
{
    haul_shape shape = shape_of(o);
    double     n = 1;
    for (int d = 0; d < shape.ndim; d++)
        n *= (double)shape.dims[d];
    return n;
}

static void write_sizes(char *text, size_t size, const operation *o)
{
    haul_shape shape = shape_of(o);
    size_t     at = 0;
    for (int d = 0; d < shape.ndim && at < size; d++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", d ? "x" : "", (long long)shape.dims[d]);
}

static char *name_of(const operation *o, const char *sizes)
{
    char      *name = malloc(NAME);
    haul_shape shape = shape_of(o);
    bool       vector = shape.ndim == 1 && shape.dims[0] % M == 0;
    if (name && vector)
        snprintf(name, NAME, "%s, %lld M", o->label, (long long)(shape.dims[0] / M));
    else if (name)
        snprintf(name, NAME, "%s %s", o->label, sizes);
    return name;
}

static char *peers_of(const operation *o, const char *sizes)
{
    char *peers = malloc(PEERS);
    int   at = peers ? snprintf(peers, PEERS, "torch:%s %s", o->label, sizes) : 0;
    for (int i = 0; i < 2 && peers && o->variants[i] && at < PEERS; i++)
        at += snprintf(peers + at, (size_t)(PEERS - at), ",torch:%s %s %s", o->label, o->variants[i], sizes);
    return peers;
}

int operation_main(int argc, char **argv, const operation *table, int count)
{
    bench_case *cases = calloc((size_t)count, sizeof *cases);
    char        sizes[SIZES];
    int         status = 1;
    if (!cases)
        return status;
    for (int i = 0; i < count; i++) {
        const operation *o = &table[i];
        write_sizes(sizes, sizeof sizes, o);
        cases[i] = (bench_case){.name = name_of(o, sizes),
                                .unit = o->bytes > 0 ? "GB/s" : "us",
                                .amount = elements(o) * o->bytes * 1e-9,
                                .peers = peers_of(o, sizes),
                                .limit = o->limit,
                                .open = open_operation,
                                .run = o->gradient ? run_gradient : run_forward,
                                .context = o};
        if (!cases[i].name || !cases[i].peers)
            goto out;
    }
    status = bench_main(argc, argv, cases, count);
out:
    for (int i = 0; i < count; i++) {
        free((char *)(uintptr_t)cases[i].name);
        free((char *)(uintptr_t)cases[i].peers);
    }
    free(cases);
    return status;
}

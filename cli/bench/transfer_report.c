/* haul bench transfer: the figures that sum up a curve, and the curve as JSON. */
#include <math.h>

#include "cli/bench/transfer.h"

/* ---- figures ---- */

double transfer_rate(const transfer_size *s, copy_kind kind, copy_way way)
{
    return s->rounds ? (way == COPY_BOTH ? 2 : 1) * (double)s->bytes / s->copies[kind][way].median : NAN;
}

/* The last size that was measured; NULL if there is none. */
static const transfer_size *largest(const transfer_curve *c)
{
    const transfer_size *found = NULL;
    for (int i = 0; i < TRANSFER_SIZES; i++)
        if (c->sizes[i].rounds)
            found = &c->sizes[i];
    return found;
}

static double best_rate(const transfer_curve *c, copy_kind kind, copy_way way)
{
    double best = NAN;
    for (int i = 0; i < TRANSFER_SIZES; i++)
        best = fmax(best, transfer_rate(&c->sizes[i], kind, way)); /* NaN only while both are */
    return best;
}

/* Rates grow with sizes as a line between two points of logarithms. */
static double size_at(const transfer_curve *c, copy_kind kind, copy_way way, double rate)
{
    for (int i = 0; i < TRANSFER_SIZES; i++) {
        const transfer_size *s = &c->sizes[i];
        const double         above = transfer_rate(s, kind, way);
        if (!(above >= rate))
            continue;
        if (!i)
            return (double)s->bytes;
        const double below = transfer_rate(s - 1, kind, way);
        const double part = log(rate / below) / log(above / below);
        return (double)s[-1].bytes * pow((double)s->bytes / (double)s[-1].bytes, part);
    }
    return NAN;
}

void transfer_summarise(const transfer_curve *c, transfer_summary *out)
{
    enum { HANDED = 5 }; /* 4 KiB */
    const transfer_size *last = largest(c);
    *out = (transfer_summary){.kind = c->pins ? COPY_PINNED : COPY_PAGEABLE,
                              .memory = last ? (double)last->bytes / last->memory.median : NAN,
                              .hand_over = c->sizes[HANDED].rounds ? c->sizes[HANDED].hand_over[COPY_UP] : NAN};
    for (int way = 0; way < COPY_WAYS; way++) {
        out->latency[way] = c->sizes[0].rounds ? c->sizes[0].copies[out->kind][way].median : NAN;
        out->bandwidth[way] = best_rate(c, out->kind, way);
        out->half_bytes[way] = size_at(c, out->kind, way, out->bandwidth[way] / 2);
        out->of_memcpy[way] = last ? last->of_memcpy[out->kind][way] : NAN;
    }
}

/* ---- JSON ---- */

static const char *const kind_names[] = {"pageable", "pinned", "asynchronous"};
static const char *const way_names[] = {"up", "down", "both"};

static cJSON *copy_json(const transfer_size *s, copy_kind kind, copy_way way)
{
    cJSON *object =
        bench_json_spread(&s->copies[kind][way], (way == COPY_BOTH ? 2 : 1) * (double)s->bytes, "bytes_per_second");
    if (!object)
        return NULL;
    json_number(object, "of_memcpy", s->of_memcpy[kind][way]);
    if (kind == COPY_ASYNCHRONOUS)
        json_number(object, "hand_over_seconds", s->hand_over[way]);
    return object;
}

static cJSON *size_json(const transfer_curve *c, const transfer_size *s)
{
    cJSON *object = cJSON_CreateObject();
    json_number(object, "bytes", (double)s->bytes);
    json_number(object, "rounds", s->rounds);
    bench_json_add(object, "memcpy", bench_json_spread(&s->memory, (double)s->bytes, "bytes_per_second"));
    for (int kind = 0; !c->is_host && kind < COPY_KINDS; kind++) {
        cJSON *ways = kind == COPY_PINNED && !c->pins ? NULL : cJSON_CreateObject();
        for (int way = 0; ways && way < COPY_WAYS; way++)
            bench_json_add(ways, way_names[way], copy_json(s, kind, way));
        bench_json_add(object, kind_names[kind], ways);
    }
    return object;
}

static cJSON *ways_json(const double values[COPY_WAYS])
{
    cJSON *object = cJSON_CreateObject();
    for (int way = 0; way < COPY_WAYS; way++)
        json_number(object, way_names[way], values[way]);
    return object;
}

static void add_summary(cJSON *object, const transfer_curve *c)
{
    transfer_summary s;
    transfer_summarise(c, &s);
    json_number(object, "memcpy_bytes_per_second", s.memory);
    if (c->is_host)
        return;
    json_text(object, "memory", kind_names[s.kind]);
    bench_json_add(object, "latency_seconds", ways_json(s.latency));
    bench_json_add(object, "bytes_per_second", ways_json(s.bandwidth));
    bench_json_add(object, "half_bandwidth_bytes", ways_json(s.half_bytes));
    bench_json_add(object, "of_memcpy", ways_json(s.of_memcpy));
    json_number(object, "hand_over_seconds", s.hand_over);
}

cJSON *transfer_json(const transfer_curve *c)
{
    cJSON *object = cJSON_CreateObject();
    json_text(object, "device", c->properties.name);
    json_text(object, "model", c->properties.model);
    json_bool(object, "pins", c->pins);
    cJSON *sizes = json_array(object, "sizes"), *left_out = json_array(object, "left_out");
    for (int i = 0; i < TRANSFER_SIZES; i++) {
        const transfer_size *s = &c->sizes[i];
        cJSON               *reason = s->rounds ? NULL : cJSON_CreateObject();
        if (reason) {
            json_number(reason, "bytes", (double)s->bytes);
            json_text(reason, "reason", s->left_out);
        }
        json_push(s->rounds ? sizes : left_out, s->rounds ? size_json(c, s) : reason);
    }
    add_summary(object, c);
    return object;
}

/* haul bench transfer: the curve as a table with a chart. */
#include <math.h>
#include <string.h>

#include "cli/bench/transfer.h"
#include "cli/shared/cli.h"
#include "cli/shared/terminal.h"

/* ---- the layout ---- */

/* What the columns of a terminal have room for: sizes and two speeds, or more. */
typedef enum layout { NARROW, USUAL, WIDE } layout;

enum { SIZE = 8, TIME = 11, RATE = 8, SPREAD = 7, WIDEST_CHART = 60 };

typedef struct table {
    const transfer_curve *curve;
    layout                layout;
    copy_kind             kind;        /* that the narrower layouts show */
    int                   chart;       /* columns; 0: none */
    int                   first, last; /* decades of the chart: B/s from 10^first to 10^last */
} table;

/* Columns before the chart, and the blank before it. */
static int columns_of(const table *t)
{
    const int rates = t->layout == WIDE ? COPY_KINDS * COPY_WAYS + 1 : t->layout == USUAL ? 4 : 2;
    if (t->curve->is_host)
        return SIZE + TIME + RATE + 1 + (t->layout == NARROW ? 0 : SPREAD);
    return SIZE + rates * RATE + 1 + (t->layout == NARROW ? 0 : TIME) + (t->layout == WIDE ? SPREAD : 0);
}

/* The speed that the bars show. */
static double bar_rate(const table *t, const transfer_size *s)
{
    return t->curve->is_host ? (double)s->bytes / s->memory.median : transfer_rate(s, t->kind, COPY_UP);
}

static void find_decades(table *t)
{
    double low = INFINITY, high = 0;
    for (int i = 0; i < TRANSFER_SIZES; i++) {
        const transfer_size *s = &t->curve->sizes[i];
        if (!s->rounds)
            continue;
        const double memory = (double)s->bytes / s->memory.median;
        low = fmin(low, fmin(bar_rate(t, s), memory));
        high = fmax(high, fmax(bar_rate(t, s), memory));
    }
    t->first = high > 0 ? whole_within(floor(log10(low)), -300, 300) : 0;
    t->last = high > 0 ? whole_within(ceil(log10(high)), -300, 300) : 1;
}

static void lay_out(table *t, const transfer_curve *c)
{
    enum { FOR_USUAL = 64, FOR_WIDE = 132 };
    const int room = bench_columns();
    *t = (table){.curve = c,
                 .layout = room < FOR_USUAL  ? NARROW
                           : room < FOR_WIDE ? USUAL
                                             : WIDE,
                 .kind = c->pins ? COPY_PINNED : COPY_PAGEABLE};
    find_decades(t);
    t->chart = room - columns_of(t);
    if (t->chart > WIDEST_CHART)
        t->chart = WIDEST_CHART;
}

/* ---- the chart ---- */

/* The column of a speed, from 1 to the width; 0 if it is not known. */
static int column_of(const table *t, double rate)
{
    const double part = (log10(rate) - t->first) / (t->last - t->first);
    return isfinite(part) ? 1 + whole_within(part * (t->chart - 1) + 0.5, 0, t->chart - 1) : 0;
}

static void print_bar(const table *t, const transfer_size *s)
{
    char      bar[WIDEST_CHART + 2] = " ";
    const int end = column_of(t, bar_rate(t, s)), memory = column_of(t, (double)s->bytes / s->memory.median);
    int       length = end;
    memset(bar + 1, '#', (size_t)end);
    if (!t->curve->is_host && memory > 0) {
        if (memory > end)
            memset(bar + 1 + end, ' ', (size_t)(memory - end));
        bar[memory] = 'o';
        length = memory > end ? memory : end;
    }
    printf("%.*s\n", length + 1, bar);
}

/* 10^n B/s as GB/s: ".01", "1", "100". */
static void decade_text(char out[16], int n)
{
    snprintf(out, 16, "%.*f", n < 9 ? 9 - n : 0, pow(10, n - 9));
    if (n < 9)
        memmove(out, out + 1, strlen(out)); /* without the zero before the point */
}

/* Numbers over the columns of the decades, as far as there is room for each. */
static void print_scale(const table *t)
{
    char scale[WIDEST_CHART + 16] = "";
    int  used = 0;
    for (int n = t->first; n <= t->last; n++) {
        char text[16];
        int  at = column_of(t, pow(10, n)) - 1;
        decade_text(text, n);
        if (n == t->last)
            at -= (int)strlen(text) - 1;
        if (at < used + (used > 0) || at + (int)strlen(text) > t->chart)
            continue;
        used += snprintf(scale + used, sizeof scale - (size_t)used, "%*s%s", at - used, "", text);
    }
    printf(" %s\n", scale);
}

/* ---- the rows ---- */

static void print_rate(double rate)
{
    char text[16];
    printf("%*s", RATE, bench_rate(text, rate));
}

/* Half the range of the middle half of the samples, as a share of the median. */
static void print_spread(const bench_spread *s)
{
    char text[32];
    snprintf(text, sizeof text, "+-%.0f %%", 50 * (s->high - s->low) / s->median);
    printf("%*s", SPREAD, text);
}

static void print_head(const table *t)
{
    static const char *const kinds[] = {"pageable", "pinned", "asynchronous"};
    if (t->layout == WIDE && !t->curve->is_host) {
        printf("%*s", SIZE + TIME + SPREAD, "");
        for (int kind = 0; kind < COPY_KINDS; kind++)
            printf("%*s%*s", RATE * 2, kinds[kind], RATE, "");
        printf("\n");
    }
    printf("%*s", SIZE, "size");
    if (t->curve->is_host) {
        printf("%*s%s%*s", TIME, "memcpy", t->layout == NARROW ? "" : " spread", RATE, "GB/s");
    } else if (t->layout == NARROW) {
        printf("%*s%*s", RATE, "up", RATE, "down");
    } else {
        printf("%*s%s", TIME, "up, time", t->layout == WIDE ? " spread" : "");
        for (int kind = 0; kind < (t->layout == WIDE ? COPY_KINDS : 1); kind++)
            printf("%*s%*s%*s", RATE, "up", RATE, "down", RATE, "both");
        printf("%*s", RATE, "memcpy");
    }
    print_scale(t);
}

static void print_host_row(const table *t, const transfer_size *s)
{
    char time[16];
    printf("%*s", TIME, bench_time(time, s->memory.median));
    if (t->layout != NARROW)
        print_spread(&s->memory);
    print_rate((double)s->bytes / s->memory.median);
}

static void print_row(const table *t, const transfer_size *s)
{
    char                name[16], time[16];
    const copy_kind     first = t->layout == WIDE ? 0 : t->kind, end = t->layout == WIDE ? COPY_KINDS : t->kind + 1;
    const copy_way      ways = t->layout == NARROW ? COPY_BOTH : COPY_WAYS;
    const bench_spread *up = &s->copies[t->kind][COPY_UP];
    printf("%*s", SIZE, bench_size(name, s->bytes));
    if (t->curve->is_host) {
        print_host_row(t, s);
    } else {
        if (t->layout != NARROW)
            printf("%*s", TIME, bench_time(time, up->median));
        if (t->layout == WIDE)
            print_spread(up);
        for (copy_kind kind = first; kind < end; kind++)
            for (copy_way way = 0; way < ways; way++)
                print_rate(transfer_rate(s, kind, way));
        if (t->layout != NARROW)
            print_rate((double)s->bytes / s->memory.median);
    }
    print_bar(t, s);
}

/* ---- the figures below ---- */

static void print_left_out(const transfer_curve *c)
{
    for (int i = 0; i < TRANSFER_SIZES; i++) {
        char name[16], last[16];
        if (c->sizes[i].rounds)
            continue;
        bench_size(name, c->sizes[i].bytes);
        bench_size(last, c->sizes[TRANSFER_SIZES - 1].bytes);
        bench_line("left out", "%s%s%s: %s", name, i + 1 < TRANSFER_SIZES ? " to " : "",
                   i + 1 < TRANSFER_SIZES ? last : "", c->sizes[i].left_out);
        return;
    }
}

static void print_summary(const transfer_curve *c)
{
    transfer_summary s;
    char             up[16], down[16], both[16], memory[16];
    transfer_summarise(c, &s);
    const double slower = fmax(s.latency[COPY_UP], s.latency[COPY_DOWN]);
    bench_rate(memory, s.memory);
    bench_line("latency", "%s up, %s down (4 B)", text_seconds_like(s.latency[COPY_UP], slower),
               text_seconds_like(s.latency[COPY_DOWN], slower));
    bench_line("bandwidth", "%s GB/s up, %s GB/s down; the largest copies reach %.2f and %.2f of memcpy (%s GB/s)",
               bench_rate(up, s.bandwidth[COPY_UP]), bench_rate(down, s.bandwidth[COPY_DOWN]), s.of_memcpy[COPY_UP],
               s.of_memcpy[COPY_DOWN], memory);
    bench_line("half speed", "from %s up, %s down", text_bytes(whole_number(s.half_bytes[COPY_UP])),
               text_bytes(whole_number(s.half_bytes[COPY_DOWN])));
    bench_line("both ways", "%s GB/s in total, one copy up and one down at once",
               bench_rate(both, s.bandwidth[COPY_BOTH]));
    bench_line("submitting", "%s until the call of an asynchronous copy of 4 KiB returns", text_seconds(s.hand_over));
    if (!c->pins)
        bench_line("pinned", "%s copies any memory of the host at full speed, so it needs no pinned memory",
                   c->properties.name);
    bench_line("so", "below %s the number of copies costs time, above it the number of bytes",
               text_bytes(whole_number(s.half_bytes[COPY_UP])));
}

void transfer_print(const transfer_curve *c)
{
    table       t;
    char        text[256];
    const char *memory = c->pins ? "pinned" : "ordinary", *spread = "; spread: half the range of the middle half";
    lay_out(&t, c);
    if (c->is_host)
        snprintf(text, sizeof text,
                 "cpu: nothing crosses a link, so this is memcpy; medians of several rounds in GB/s, 10^9 "
                 "bytes a second%s",
                 t.layout == NARROW ? "" : spread);
    else
        snprintf(text, sizeof text, "cpu <-> %s, medians of several rounds in GB/s, 10^9 bytes a second",
                 c->properties.name);
    print_wrapped(text, 0, 0);
    snprintf(text, sizeof text,
             t.layout == WIDE ? "time and #: %s memory up; o memcpy%s"
                              : "%s memory, each copy waited for; # up, o memcpy",
             memory, spread);
    if (!c->is_host)
        print_wrapped(text, 0, 0);
    printf("\n");
    print_head(&t);
    for (int i = 0; i < TRANSFER_SIZES; i++)
        if (c->sizes[i].rounds)
            print_row(&t, &c->sizes[i]);
    if (!c->is_host)
        print_summary(c);
    print_left_out(c);
}

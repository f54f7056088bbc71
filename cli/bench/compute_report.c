/* haul bench compute: the results as tables and as JSON. */
#include <math.h>
#include <string.h>

#include "cli/bench/compute.h"
#include "cli/shared/cli.h"
#include "cli/shared/terminal.h"

winner compute_winner(const compute_group *g, double *size)
{
    int last = -1, loses = -1;
    *size = NAN;
    for (int i = 0; i < g->count; i++)
        if (g->sizes[i].rounds) {
            last = i;
            if (g->sizes[i].times[WITH_TRANSFER].median >= g->sizes[i].times[ON_CPU].median)
                loses = i;
        }
    if (last < 0)
        return WINS_UNKNOWN;
    if (loses == last)
        return WINS_NEVER;
    const compute_size *above = &g->sizes[loses + 1], *below = above - 1;
    *size = (double)above->size;
    if (loses < 0)
        return WINS_ALWAYS;
    const double lost = log(below->times[WITH_TRANSFER].median / below->times[ON_CPU].median);
    const double won = log(above->times[ON_CPU].median / above->times[WITH_TRANSFER].median);
    *size = (double)below->size * pow(*size / (double)below->size, lost / (lost + won));
    return WINS_FROM;
}

/* ---- JSON ---- */

static const char *rate_name(const compute_family *f)
{
    return f->counts_bytes ? "bytes_per_second" : "flops_per_second";
}

static cJSON *size_json(const compute_results *r, const compute_group *g, const compute_size *s)
{
    static const char *const names[] = {"cpu", "device", "with_transfer"};
    cJSON                   *object = cJSON_CreateObject();
    json_number(object, "size", (double)s->size);
    json_number(object, "work", s->work);
    json_number(object, "rounds", s->rounds);
    for (int who = 0; who < (r->is_cpu ? 1 : CONTESTANTS); who++)
        bench_json_add(object, names[who], bench_json_spread(&s->times[who], s->work, rate_name(g->family)));
    return object;
}

static void add_winner(cJSON *object, const compute_group *g)
{
    static const char *const names[] = {"never", "always", "from", "unknown"};
    double                   size;
    json_text(object, "wins", names[compute_winner(g, &size)]);
    json_number(object, "wins_from", size);
}

static cJSON *group_json(const compute_results *r, const compute_group *g)
{
    cJSON *object = cJSON_CreateObject();
    json_text(object, "operation", g->family->operation);
    json_text(object, "detail", g->family->detail);
    json_text(object, "dtype", haul_dtype_name(g->dtype));
    json_text(object, "size_name", g->family->size_name);
    cJSON *sizes = json_array(object, "sizes"), *left_out = json_array(object, "left_out");
    for (int i = 0; i < g->count; i++) {
        const compute_size *s = &g->sizes[i];
        cJSON              *reason = s->rounds ? NULL : cJSON_CreateObject();
        if (reason) {
            json_number(reason, "size", (double)s->size);
            json_text(reason, "reason", s->left_out);
        }
        json_push(s->rounds ? sizes : left_out, s->rounds ? size_json(r, g, s) : reason);
    }
    if (!r->is_cpu)
        add_winner(object, g);
    return object;
}

cJSON *compute_json(const compute_results *r)
{
    cJSON *object = cJSON_CreateObject();
    json_text(object, "device", r->properties.name);
    json_text(object, "model", r->properties.model);
    json_number(object, "peak_flops_per_second", r->peaks.flops);
    json_number(object, "peak_bytes_per_second", r->peaks.bytes);
    cJSON *groups = json_array(object, "operations");
    for (int i = 0; i < COMPUTE_FAMILIES * COMPUTE_DTYPES; i++)
        json_push(groups, group_json(r, &r->groups[i]));
    return object;
}

/* ---- tables ---- */

enum { SIZE = 10, RATE = 10, MOST_BAR = 60, LEAST_BAR = 8 };

static int columns_before_bar(const compute_results *r)
{
    return SIZE + RATE * (r->is_cpu ? 1 : CONTESTANTS) + 1;
}

/* A bar for the device's speed, as a share of the fastest of the group. */
static void print_bar(const compute_results *r, const compute_group *g, const compute_size *s)
{
    const contestant who = r->is_cpu ? ON_CPU : ON_DEVICE;
    int              width = bench_columns() - columns_before_bar(r);
    double           best = 0;
    for (int i = 0; i < g->count; i++)
        if (g->sizes[i].rounds)
            best = fmax(best, g->sizes[i].work / g->sizes[i].times[who].median);
    width = width > MOST_BAR ? MOST_BAR : width;
    const int length =
        width < LEAST_BAR ? 0 : 1 + whole_within((width - 1) * (s->work / s->times[who].median) / best, 0, width - 1);
    if (length > 0)
        putchar(' ');
    for (int i = 0; i < length; i++)
        putchar('#');
    putchar('\n');
}

/* A quarter of the rounds is faster than `low`, and a quarter slower than `high`. */
static bool is_spread(const bench_spread *s)
{
    const double most = 0.3;
    return s->high - s->low > most * s->median;
}

static void print_size(const compute_results *r, const compute_group *g, const compute_size *s)
{
    char rate[16];
    printf("%*s", SIZE, text_count(s->size));
    for (int who = 0; who < (r->is_cpu ? 1 : CONTESTANTS); who++)
        printf("%*s%s", RATE - 1, bench_rate(rate, s->work / s->times[who].median),
               is_spread(&s->times[who]) ? "~" : " ");
    print_bar(r, g, s);
}

static void print_winner(const compute_results *r, const compute_group *g)
{
    double       size;
    const winner w = compute_winner(g, &size);
    if (w == WINS_FROM)
        bench_line("wins", "%s beats the CPU from %s %s on, transfers included", r->properties.name,
                   g->family->size_name, text_count(whole_number(ceil(size))));
    else if (w == WINS_ALWAYS)
        bench_line("wins", "%s beats the CPU at all measured sizes, from %s %s on, transfers included",
                   r->properties.name, g->family->size_name, text_count(whole_number(size)));
    else if (w == WINS_NEVER)
        bench_line("wins", "never: the CPU is faster at the largest measured size, transfers included");
}

static void print_title(const compute_group *g)
{
    char text[160];
    int  used;
    set_style(STYLE_BOLD);
    used = printf("%s %s", g->family->operation, haul_dtype_name(g->dtype));
    set_style(STYLE_PLAIN);
    snprintf(text, sizeof text, ", %s, %s", g->family->detail, g->family->counts_bytes ? "GB/s" : "GFLOP/s");
    print_wrapped(text, used, 2);
}

static void print_group(const compute_results *r, const compute_group *g)
{
    printf("\n");
    print_title(g);
    printf("%*s%*s ", SIZE, g->family->size_name, RATE - 1, "cpu");
    if (!r->is_cpu)
        printf("%*s %*s", RATE - 1, r->properties.name, RATE - 1, "+copies");
    printf("\n");
    for (int i = 0; i < g->count; i++)
        if (g->sizes[i].rounds)
            print_size(r, g, &g->sizes[i]);
    if (!r->is_cpu)
        print_winner(r, g);
    for (int i = 0; i < g->count; i++)
        if (!g->sizes[i].rounds)
            bench_line("left out", "%s %s%s: %s", g->family->size_name, text_count(g->sizes[i].size),
                       i + 1 < COMPUTE_SIZES && g->family->sizes[i + 1] ? " and above" : "", g->sizes[i].left_out);
}

/* ---- the conclusion ---- */

static bool any_is_spread(const compute_results *r)
{
    bool found = false;
    for (int i = 0; i < COMPUTE_FAMILIES * COMPUTE_DTYPES; i++)
        for (int k = 0; k < r->groups[i].count; k++)
            for (int who = 0; who < (r->is_cpu ? 1 : CONTESTANTS); who++)
                found = found || (r->groups[i].sizes[k].rounds && is_spread(&r->groups[i].sizes[k].times[who]));
    return found;
}

static const char *winner_text(const compute_group *g, char out[32])
{
    double       size;
    const winner w = compute_winner(g, &size);
    const bool   sized = w == WINS_FROM || w == WINS_ALWAYS;
    if (sized && size > 999999)
        snprintf(out, 32, "%.1f M", size * 1e-6); /* a column has room for seven characters */
    else if (sized)
        snprintf(out, 32, "%s", text_count(whole_number(ceil(size))));
    return w == WINS_NEVER ? "never" : w == WINS_UNKNOWN ? "-" : out;
}

/* From which size on the device pays, for each operation and dtype. A narrow terminal has no room for the sizes' names.
 */
static void print_conclusion(const compute_results *r)
{
    const bool wide = bench_columns() >= 76;
    const int  operation = wide ? 32 : 16, counted = wide ? 10 : 0, dtype = wide ? 11 : 8;
    char       text[160], size[32];
    snprintf(text, sizeof text, "%s wins from, transfers included", r->properties.name);
    printf("\n");
    set_style(STYLE_BOLD);
    print_wrapped(text, 0, 2);
    set_style(STYLE_PLAIN);
    printf("%-*s%-*.*s", operation, "operation", counted, counted, "size");
    for (int k = 0; k < COMPUTE_DTYPES; k++)
        printf("%*s", dtype, haul_dtype_name(compute_dtypes[k]));
    printf("\n");
    for (int i = 0; i < COMPUTE_FAMILIES; i++) {
        const compute_family *f = &compute_families[i];
        snprintf(text, sizeof text, "%s %s", f->operation, f->detail);
        char *rest = strstr(text, wide ? " channels," : ", "); /* the sizes of pictures are left out */
        if (rest)
            *rest = 0;
        print_fitted(text, operation - 1);
        printf(" %-*.*s", counted, counted, f->size_name);
        for (int k = 0; k < COMPUTE_DTYPES; k++)
            printf("%*s", dtype, winner_text(&r->groups[i * COMPUTE_DTYPES + k], size));
        printf("\n");
    }
}

void compute_print(const compute_results *r)
{
    char flops[16], bytes[16], text[512];
    snprintf(text, sizeof text, "%s: peaks %s GFLOP/s (f32 products), %s GB/s (x + y)", r->properties.name,
             bench_rate(flops, r->peaks.flops), bench_rate(bytes, r->peaks.bytes));
    print_wrapped(text, 0, 0);
    snprintf(text, sizeof text,
             r->is_cpu ? "Medians of several rounds; the bars show the speed within each table."
                       : "Medians of several rounds. The bars show %s. +copies: operands go up and the result comes "
                         "down in each call, but the weights of convolutions stay. Where a device begins to win, the "
                         "size is interpolated between two sizes, by logarithms.",
             r->properties.name);
    print_wrapped(text, 0, 0);
    for (int i = 0; i < COMPUTE_FAMILIES * COMPUTE_DTYPES; i++)
        print_group(r, &r->groups[i]);
    if (!r->is_cpu)
        print_conclusion(r);
    if (any_is_spread(r)) {
        printf("\n");
        print_wrapped(
            "~: the times of half of the rounds differ by more than 30 %: something else kept the machine busy", 0, 2);
    }
}

#include "cli/train/log/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/shared/cli.h"
#include "cli/shared/terminal.h"

enum { MOST_ROWS = 16, INDENT = 2, GAP = 2 };

/* ---- which layers ---- */

/* True if the layer is a row when networks are opened to this depth. */
static bool is_row(const haul__layer *l, int depth)
{
    return l->depth > 0 && (l->depth == depth || (l->depth < depth && l->is_leaf));
}

static int count_rows(const haul__fit_result *d, int depth)
{
    int rows = 0;
    for (size_t i = 0; i < d->layers.count; i++)
        rows += is_row(&d->layers.items[i], depth);
    return rows;
}

/* As deep as the rows suffice for; at least the network's own children. */
static int choose_depth(const haul__fit_result *d)
{
    int depth = 1, deepest = 1;
    for (size_t i = 0; i < d->layers.count; i++)
        deepest = d->layers.items[i].depth > deepest ? d->layers.items[i].depth : deepest;
    while (depth < deepest && count_rows(d, depth + 1) <= MOST_ROWS)
        depth++;
    return depth;
}

/* ---- the table ---- */

typedef enum column { NAME, KIND, OUTPUT, PARAMETERS, FLOPS, SHARE, COLUMNS } column;

/* In a narrow terminal columns leave in this order. */
static const column leaving[] = {SHARE, KIND, FLOPS, OUTPUT};

typedef struct table {
    const haul__fit_result *data;
    int                     depth;
    double                  flops; /* of forward */
    double                  unit;  /* of flops */
    const char             *unit_name;
    int                     widths[COLUMNS]; /* 0: the column has left */
} table;

static void widen(table *t, column c, const char *text)
{
    int columns = text_columns(text);
    if (columns > t->widths[c])
        t->widths[c] = columns;
}

static void flops_text(const table *t, double flops, char out[32])
{
    if (flops > 0)
        snprintf(out, 32, "%.1f", flops / t->unit);
    else
        *out = 0;
}

static const char *parameters_text(int64_t count)
{
    return count ? text_count(count) : "";
}

static int line_width(const table *t)
{
    int width = INDENT;
    for (int c = 0; c < COLUMNS; c++)
        width += t->widths[c] ? t->widths[c] + GAP : 0;
    return width - GAP;
}

static void measure(table *t)
{
    enum { LEAST_NAME = 8, MOST_NAME = 40, SHARES = 16 };
    static const char *const heads[COLUMNS] = {"layer", "kind", "output", "parameters", "", "of forward"};
    char                     text[32];
    for (int c = 0; c < COLUMNS; c++)
        widen(t, (column)c, heads[c]);
    widen(t, FLOPS, t->unit_name);
    flops_text(t, t->flops, text);
    widen(t, FLOPS, text);
    widen(t, PARAMETERS, text_count(t->data->layers.parameters));
    t->widths[SHARE] = SHARES;
    for (size_t i = 0; i < t->data->layers.count; i++) {
        const haul__layer *l = &t->data->layers.items[i];
        if (!is_row(l, t->depth))
            continue;
        widen(t, NAME, l->path);
        widen(t, KIND, l->kind);
        widen(t, OUTPUT, text_shape(&l->output));
    }
    t->widths[NAME] = t->widths[NAME] > MOST_NAME ? MOST_NAME : t->widths[NAME];
    int room = output_room();
    for (size_t i = 0; i < sizeof leaving / sizeof *leaving && line_width(t) > room; i++)
        t->widths[leaving[i]] = 0;
    t->widths[NAME] -= line_width(t) > room ? line_width(t) - room : 0;
    t->widths[NAME] = t->widths[NAME] < LEAST_NAME ? LEAST_NAME : t->widths[NAME];
}

/* "#####     31 %", in blocks where the terminal shows them; "" where it rounds to nothing. */
static void share_text(const table *t, double flops, char out[64])
{
    enum { CELLS = 10 };
    const char  *cell = terminal_shows_utf8(STDOUT_FILENO) ? "█" : "#";
    const double share = t->flops > 0 ? flops / t->flops : 0;
    const int    full = whole_within(share * CELLS + 0.5, 0, CELLS);
    size_t       used = 0;
    *out = 0;
    if (share < 0.005)
        return;
    for (int i = 0; i < CELLS; i++)
        used += (size_t)snprintf(out + used, 64 - used, "%s", i < full ? cell : " ");
    snprintf(out + used, 64 - used, " %3.0f %%", 100 * share);
}

/* Texts of columns that have left are not printed. Nothing stands after the last text. */
static void print_row(const table *t, const char *const texts[COLUMNS])
{
    int spaces = INDENT;
    for (int c = 0; c < COLUMNS; c++) {
        int width = t->widths[c], used = text_columns(texts[c]);
        if (!width)
            continue;
        int shown = used < width ? used : width, before = c == PARAMETERS || c == FLOPS ? width - shown : 0;
        if (used) {
            printf("%*s", spaces + before, "");
            print_fitted(texts[c], shown);
            spaces = 0;
        }
        spaces += GAP + (used ? width - shown - before : width);
    }
    putchar('\n');
}

/* Also a sum of layers, whose depth is -1. */
static void print_layer(const table *t, const haul__layer *l, const char *name)
{
    char flops[32], share[64];
    flops_text(t, l->flops, flops);
    share_text(t, l->depth < 0 ? 0 : l->flops, share);
    print_row(t, (const char *const[COLUMNS]){name, l->kind, l->output.ndim ? text_shape(&l->output) : "",
                                              parameters_text(l->parameters), flops, share});
}

static void print_layers(const table *t)
{
    int         total = count_rows(t->data, t->depth), shown = total > MOST_ROWS ? MOST_ROWS - 1 : total, at = 0;
    char        name[32];
    haul__layer rest = {.depth = 1}; /* those that the rows do not suffice for */
    for (size_t i = 0; i < t->data->layers.count; i++) {
        const haul__layer *l = &t->data->layers.items[i];
        if (!is_row(l, t->depth))
            continue;
        if (at++ < shown) {
            print_layer(t, l, l->path);
        } else {
            rest.parameters += l->parameters;
            rest.flops += l->flops;
        }
    }
    snprintf(name, sizeof name, "%d others", total - shown);
    if (total > shown)
        print_layer(t, &rest, name);
}

static void print_table(table *t)
{
    const haul__layer sum = {.depth = -1, .parameters = t->data->layers.parameters, .flops = t->flops};
    measure(t);
    set_style(STYLE_DIM);
    print_row(t, (const char *const[COLUMNS]){"layer", "kind", "output", "parameters", t->unit_name, "of forward"});
    set_style(STYLE_PLAIN);
    print_layers(t);
    print_layer(t, &sum, "sum");
}

/* ---- the whole ---- */

static void choose_unit(table *t)
{
    static const char *const names[] = {"kFLOP", "MFLOP", "GFLOP", "TFLOP"};
    int                      unit = 0;
    for (t->unit = 1e3; unit < 3 && t->flops >= 1e3 * t->unit; unit++)
        t->unit *= 1e3;
    t->unit_name = names[unit];
}

void summary_print_memory(const haul__fit_result *d, const haul_device *device)
{
    char    text[256];
    int64_t peak = haul__fit_step_peak(d, device), memory = haul__device_memory(device);
    if (!memory)
        snprintf(text, sizeof text, "%s at the peak of a step on %s (estimated)", text_bytes(peak),
                 haul_device_name(device));
    else if (peak <= memory)
        snprintf(text, sizeof text, "%s%s of %s on %s at the peak of a step (estimated)",
                 d->limit ? "" : "fits: ", text_bytes(peak), text_bytes(memory), haul_device_name(device));
    else
        snprintf(text, sizeof text,
                 "does not fit: %s of %s on %s at the peak of a step (estimated); try a smaller --batch",
                 text_bytes(peak), text_bytes(memory), haul_device_name(device));
    set_style(STYLE_DIM);
    printf("memory  ");
    set_style(STYLE_PLAIN);
    print_wrapped(text, 8, 8);
}

static void print_named(const char *name, const char *text)
{
    set_style(STYLE_DIM);
    printf("%-8s", name);
    set_style(STYLE_PLAIN);
    print_wrapped(text, 8, 8);
}

void summary_print_parts(const haul__fit_result *d)
{
    char      text[2048];
    const int on = haul__segments_count_on(&d->segments);
    size_t    used;
    if (d->limit) {
        snprintf(text, sizeof text, "%s; the training needs %s%s", text_bytes(d->limit), text_bytes(d->peak),
                 d->peak <= d->limit ? " of it" : "");
        print_named("limit", text);
    }
    if (!d->segments.count)
        return;
    used = (size_t)snprintf(text, sizeof text, "%d of %d parts run again in the backward pass%s", on, d->segments.count,
                            on ? ": " : "");
    haul__segments_names(&d->segments, text + used, sizeof text - used);
    print_named("again", text);
    if (on) {
        snprintf(text, sizeof text, "%s at the peak instead of %s (estimated)", text_bytes(d->peak),
                 text_bytes(d->plain_peak));
        print_named("saves", text);
    }
}

void summary_print(const haul__fit_result *d, const haul_device *device)
{
    char  text[128];
    table t = {.data = d, .depth = choose_depth(d), .flops = d->layers.count ? d->layers.items[0].flops : 0};
    choose_unit(&t);
    putchar('\n');
    if (count_rows(d, t.depth))
        print_table(&t);
    putchar('\n');
    snprintf(text, sizeof text, "%s, forward, backward and update", text_flops(d->step.flops));
    set_style(STYLE_DIM);
    printf("step    ");
    set_style(STYLE_PLAIN);
    print_wrapped(text, 8, 8);
    summary_print_memory(d, device);
}

const char *spill_cost_text(char *out, size_t size, const haul__spill_cost *c)
{
    const haul__fit_spill *s = &c->spill;
    int                    used = 0;
    if (s->to_file < s->bytes || !s->bytes)
        used = snprintf(out, size, "%s to host memory", text_bytes(s->bytes - s->to_file));
    if (s->to_file && used >= 0 && (size_t)used < size)
        used += snprintf(out + used, size - (size_t)used, "%s%s to a file", used ? ", " : "", text_bytes(s->to_file));
    if (used > 0 && (size_t)used < size)
        used += snprintf(out + used, size - (size_t)used, " and %s back in each step", text_bytes(s->back_bytes));
    if (!isnan(c->seconds) && used > 0 && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, ", about %s%s", text_seconds(c->seconds),
                 s->to_file ? " and the time of the disk" : "");
    return out;
}

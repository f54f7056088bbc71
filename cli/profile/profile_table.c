#include "cli/profile/profile_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/run_folder/document.h"
#include "cli/shared/cli.h"
#include "cli/shared/terminal.h"

const profile_table profile_tables[PROFILE_TABLES] = {{.name = "operations",
                                                       .head = "operation",
                                                       .keys = {"name", "device"},
                                                       .times = {"host_ms", "device_ms"},
                                                       .longest = 1,
                                                       .rates = {"gflops", "gbps"},
                                                       .memory = true,
                                                       .joules = true,
                                                       .where = "device"},
                                                      {.name = "modules",
                                                       .head = "module",
                                                       .keys = {"name"},
                                                       .times = {"forward_ms", "backward_ms"},
                                                       .memory = true,
                                                       .joules = true,
                                                       .where = "kind"},
                                                      {.name = "kernels",
                                                       .head = "kernel",
                                                       .keys = {"name", "operation", "device", "stream"},
                                                       .times = {"ms"},
                                                       .rates = {NULL, "gbps"},
                                                       .where = "operation"}};

double profile_table_ms(const profile_table *table, const cJSON *profile, const cJSON *row)
{
    const double steps = document_number(profile, "steps");
    double       ms = 0;
    for (int i = 0; i < 3 && table->times[i]; i++) {
        const double more = document_number(row, table->times[i]);
        ms = table->longest ? fmax(ms, more) : ms + more;
    }
    return steps > 0 ? ms / steps : 0;
}

static bool same_row(const profile_table *table, const cJSON *a, const cJSON *b, bool anywhere)
{
    for (int i = 0; i < 4 && table->keys[i]; i++)
        if (!(anywhere && !strcmp(table->keys[i], "device")) &&
            strcmp(document_text(a, table->keys[i]), document_text(b, table->keys[i])) != 0)
            return false;
    /* a row without a device, for example the program's own time, differs from one with a device */
    return !*document_text(a, "device") == !*document_text(b, "device");
}

/* The other run may have computed on another device. */
const cJSON *profile_table_find(const profile_table *table, const cJSON *profile, const cJSON *row)
{
    const cJSON *other, *elsewhere = NULL;
    cJSON_ArrayForEach(other, document_list(profile, table->name))
    {
        if (same_row(table, row, other, false))
            return other;
        if (!elsewhere && same_row(table, row, other, true))
            elsewhere = other;
    }
    return elsewhere;
}

/* ---- the layout: columns that leave when the terminal is narrow ---- */

enum {
    NAME = 30,
    LEAST_NAME = 14,
    MS = 9,
    SHARE = 8,
    CALLS = 8,
    RATE = 9,
    BOUND = 10,
    BYTES = 11,
    AGAINST = 16,
    JOULES = 10
};

typedef struct layout {
    const profile_table *table;
    const cJSON         *profile, *against;
    double               least; /* the share of the time from which a row is printed */
    bool                 one_device;
    bool                 details; /* of kernels: their device and stream */
    int                  name, where_width;
    bool                 share, calls, rates, memory, joules, bound, where;
} layout;

static bool has_number(const cJSON *object, const char *name)
{
    return cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(object, name));
}

static bool is_shown(const layout *l, const cJSON *row)
{
    return document_number(row, "share") >= l->least;
}

/* "haul_to on cuda:0, upload": kernels of one name differ in more than the operation. */
static const char *where_text(const layout *l, const cJSON *row, char out[256])
{
    const char *where = document_text(row, l->table->where), *device = document_text(row, "device");
    const char *stream = document_text(row, "stream");
    const bool  on = l->details && !l->one_device && *device;
    const bool  apart = l->details && *stream && strcmp(stream, "compute") != 0;
    snprintf(out, 256, "%s%s%s%s%s", where, on ? " on " : "", on ? device : "", apart ? ", " : "", apart ? stream : "");
    return out;
}

static bool find_one_device(const layout *l)
{
    const char  *first = "";
    const cJSON *row;
    cJSON_ArrayForEach(row, document_list(l->profile, l->table->name))
    {
        const char *device = document_text(row, "device");
        if (is_shown(l, row) && *device && *first && strcmp(device, first) != 0)
            return false;
        first = is_shown(l, row) && *device ? device : first;
    }
    return true;
}

static int find_where_width(const layout *l)
{
    char         text[256];
    const cJSON *row;
    int          most = text_columns(l->table->where);
    cJSON_ArrayForEach(row, document_list(l->profile, l->table->name))
    {
        const int columns = is_shown(l, row) ? text_columns(where_text(l, row, text)) : 0;
        most = columns > most ? columns : most;
    }
    return 2 + most;
}

static int rates_width(const layout *l)
{
    return (l->table->rates[0] ? 2 : 1) * RATE;
}

static int columns_of(const layout *l)
{
    return l->name + MS + (l->share ? SHARE : 0) + (l->against ? AGAINST : 0) + (l->calls ? CALLS : 0) +
           (l->rates ? rates_width(l) : 0) + (l->memory ? 2 * BYTES : 0) + (l->joules ? JOULES : 0) +
           (l->bound ? BOUND : 0) + (l->where ? l->where_width : 0);
}

/* A device that all rows have goes first. */
static void lay_out(layout *l)
{
    const int room = output_room();
    l->one_device = find_one_device(l);
    l->details = !strcmp(l->table->where, "operation");
    l->name = NAME;
    l->where_width = find_where_width(l);
    if (l->details && NAME + MS + SHARE + l->where_width > room) {
        l->details = false;
        l->where_width = find_where_width(l);
    }
    l->where = l->calls = l->share = true;
    l->memory = l->table->memory;
    l->joules = l->table->joules && has_number(l->profile, "step_joules");
    l->rates = l->table->rates[1] != NULL;
    l->bound = l->table->rates[0] != NULL;
    if (l->one_device && !strcmp(l->table->where, "device"))
        l->where = columns_of(l) <= room;
    bool *const leave[] = {&l->memory, &l->calls, &l->rates, &l->joules, &l->bound, &l->where, &l->share};
    for (int i = 0; i < 7 && columns_of(l) > room; i++)
        if (leave[i] != &l->share || l->against)
            *leave[i] = false;
    if (columns_of(l) > room)
        l->name = room - (columns_of(l) - l->name) > LEAST_NAME ? room - (columns_of(l) - l->name) : LEAST_NAME;
}

static void print_head(const layout *l)
{
    set_style(STYLE_DIM);
    print_fitted(l->table->head, l->name);
    printf("%*s", MS, "ms/step");
    if (l->share)
        printf("%*s", SHARE, "share");
    if (l->against)
        printf("%*s%*s", MS, "other ms", AGAINST - MS, "ratio");
    if (l->calls)
        printf("%*s", CALLS, "calls");
    if (l->rates)
        printf("%*s%*s", rates_width(l) - RATE, l->table->rates[0] ? "GFLOP/s" : "", RATE, "GB/s");
    if (l->memory)
        printf("%*s%*s", BYTES, "made/step", BYTES, "at peak");
    if (l->joules)
        printf("%*s", JOULES, "J/step");
    if (l->bound)
        printf("  %-*s", BOUND - 2, "bound by");
    if (l->where)
        printf("  %s", l->table->where);
    set_style(STYLE_PLAIN);
    putchar('\n');
}

static void print_rate(const cJSON *row, const char *name)
{
    const double rate = document_number(row, name);
    if (rate > 0)
        printf("%*.*f", RATE, rate < 10 ? 2 : rate < 100 ? 1 : 0, rate);
    else
        printf("%*s", RATE, "");
}

static void print_against(const layout *l, const cJSON *row, double ms)
{
    const cJSON *other = l->against ? profile_table_find(l->table, l->against, row) : NULL;
    if (!l->against)
        return;
    const double before = other ? profile_table_ms(l->table, l->against, other) : 0;
    if (other && before > 0)
        printf("%*.3f%*.2f", MS, before, AGAINST - MS, ms / before);
    else
        printf("%*s%*s", MS, "-", AGAINST - MS, "");
}

static void print_bytes(double bytes)
{
    printf("%*s", BYTES, bytes >= 1 ? text_bytes(whole_number(bytes)) : "");
}

static bool has_memory(const layout *l, const cJSON *row)
{
    return l->memory && (document_number(row, "made_bytes") > 0 || document_number(row, "peak_bytes") > 0);
}

/* The last columns; a row that has nothing there ends before them. */
static void print_end(const layout *l, const cJSON *row)
{
    const double steps = fmax(1, document_number(l->profile, "steps"));
    char         text[256];
    const char  *where = l->where ? where_text(l, row, text) : "";
    const char  *bound = l->bound ? document_text(row, "bound") : "";
    const double joules = l->joules ? document_number(row, "joules") / steps : 0;
    if (!*where && !*bound && document_number(row, "gbps") <= 0 && !has_memory(l, row) && joules <= 0)
        return;
    if (l->rates && l->table->rates[0])
        print_rate(row, l->table->rates[0]);
    if (l->rates)
        print_rate(row, l->table->rates[1]);
    if (l->memory) {
        print_bytes(document_number(row, "made_bytes") / steps);
        print_bytes(document_number(row, "peak_bytes"));
    }
    if (l->joules)
        printf("%*s", JOULES, joules > 0 ? text_joules(joules) : "");
    if (l->bound) {
        printf("  ");
        print_visible(bound, *where ? BOUND - 2 : 0);
    }
    if (*where) {
        printf("  ");
        print_visible(where, 0);
    }
}

/* Where names have too little room, those of operations go without "haul_". */
static void print_name(const layout *l, const char *name)
{
    enum { PREFIX = 5 };
    if (text_columns(name) > l->name && !strncmp(name, "haul_", PREFIX))
        name += PREFIX;
    print_fitted(name, l->name);
}

static void print_row(const layout *l, const cJSON *row)
{
    const double steps = document_number(l->profile, "steps"), ms = profile_table_ms(l->table, l->profile, row);
    print_name(l, *document_text(row, "name") ? document_text(row, "name") : "(others)");
    printf("%*.3f", MS, ms);
    if (l->share)
        printf("%*.1f %%", SHARE - 2, 100 * document_number(row, "share"));
    print_against(l, row, ms);
    if (l->calls)
        printf("%*.4g", CALLS, steps > 0 ? document_number(row, "calls") / steps : 0);
    print_end(l, row);
    putchar('\n');
}

/* The part of the time that is not compilation, which a first profile may consist of. */
static double part_computed(const cJSON *profile)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, document_list(profile, "operations"))
    {
        if (!strcmp(document_text(row, "name"), "(compilation)"))
            return 1 - document_number(row, "share");
    }
    return 1;
}

void profile_table_print(const profile_table *table, const cJSON *profile, const cJSON *against)
{
    layout       l = {.table = table, .profile = profile, .against = against, .least = 0.001 * part_computed(profile)};
    const cJSON *row;
    int          rest = 0;
    double       rest_ms = 0;
    lay_out(&l);
    print_head(&l);
    cJSON_ArrayForEach(row, document_list(profile, table->name))
    {
        if (is_shown(&l, row)) {
            print_row(&l, row);
            continue;
        }
        rest++;
        rest_ms += profile_table_ms(table, profile, row);
    }
    if (!rest)
        return;
    char name[40];
    snprintf(name, sizeof name, "%d other%s", rest, rest == 1 ? "" : "s");
    print_fitted(name, l.name);
    printf("%*.3f\n", MS, rest_ms);
}

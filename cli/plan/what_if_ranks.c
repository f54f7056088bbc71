#include "cli/plan/what_if_ranks.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/numbers.h"
#include "cli/plan/hosts.h"
#include "cli/plan/prospect.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"
#include "parallel/flat.h"
#include "plan/cluster/ranks.h"

enum { PIECES = 8, LABEL = 18, COLUMN = 10 };

/* ---- options ---- */

static bool parse_ranks(what_if_ranks *r)
{
    for (const char *at = r->list; *at;) {
        char      *end;
        const long ranks = strtol(at, &end, 10);
        const bool fits = *at >= '1' && *at <= '9' && ranks <= HAUL__MOST_RANKS && (!*end || (*end == ',' && end[1]));
        if (!fits || r->count == MOST_RANK_COLUMNS) {
            complain("--ranks %s: up to %d numbers from 1 to %d with commas between them are expected, for example "
                     "1,8,64",
                     r->list, MOST_RANK_COLUMNS, HAUL__MOST_RANKS);
            return false;
        }
        r->ranks[r->count++] = (int)ranks;
        at = end + (*end == ',');
    }
    return true;
}

bool what_if_ranks_parse(what_if_ranks *r)
{
    return parse_ranks(r) && hosts_network_parse(r->network, &r->rate, &r->latency_ns);
}

/* ---- predictions ---- */

typedef struct column {
    int64_t          ranks, pieces, piece; /* and the examples of a piece */
    haul__ranks_step step;
    int64_t          peak_bytes, memory_bytes;
} column;

typedef struct table {
    const what_if_ranks *options;
    const haul__machine *machine;
    int                  device;
    int64_t              batch, most; /* examples; of a piece at most, which the data has */
    column               columns[MOST_RANK_COLUMNS];
    int                  first, end; /* the columns that are printed now */
    int64_t              longest_ps; /* of their steps */
} table;

static haul_status predict(const table *t, const haul_program *program, column *c)
{
    const haul__ranks_request request = {.program = program,
                                         .machine = t->machine,
                                         .device = t->device,
                                         .ranks = (int)c->ranks,
                                         .pieces = (int)c->pieces,
                                         .per_host = (int)t->options->per_host,
                                         .rate = t->options->rate,
                                         .latency_ns = t->options->latency_ns,
                                         .bucket = t->options->overlap ? haul__flat_bucket_bytes : INT64_MAX,
                                         .overlaps = t->options->overlap};
    prospect                  alone;
    haul_status               status = haul__ranks_predict(&request, &c->step);
    if (!status)
        status = prospect_find(&alone, program, t->machine, t->device);
    if (status)
        return status;
    c->peak_bytes = alone.peak_bytes + c->step.sum_bytes;
    c->memory_bytes = alone.memory_bytes;
    return HAUL_OK;
}

/* Sets the sizes of its pieces. False after a complaint. */
static bool find_pieces(const table *t, column *c)
{
    c->pieces = t->options->pieces ? t->options->pieces : PIECES;
    while (!t->options->pieces && c->pieces < c->ranks)
        c->pieces *= 2;
    c->piece = t->batch / c->pieces;
    if (c->pieces >= c->ranks && c->piece > t->most) {
        complain("a piece of %s examples is more than the %s of the data; give a larger --pieces", text_count(c->piece),
                 text_count(t->most));
        return false;
    }
    if (c->pieces >= c->ranks)
        return train_options_pieces_divide(c->pieces, t->batch);
    complain("%s ranks are more than %s pieces; give --pieces %s or more, or leave it out", text_count(c->ranks),
             text_count(c->pieces), text_count(c->ranks));
    return false;
}

static int fill(table *t, const one_training *training)
{
    haul_program program = {0};
    haul_status  status = HAUL_OK;
    for (int i = 0; i < t->options->count && !status; i++) {
        column *c = &t->columns[i];
        c->ranks = t->options->ranks[i];
        if (!find_pieces(t, c))
            return EXIT_USAGE;
        status = planner_record(training->planner, c->piece, false, &program);
        if (!status)
            status = predict(t, &program, c);
        haul_program_free(&program);
        t->longest_ps = larger(t->longest_ps, c->step.step_ps);
    }
    return status ? complain_error() : EXIT_OK;
}

/* Of the examples a second of as many single ranks as there are, from the time of the same pieces on one. */
static double efficiency(const column *c)
{
    const double pieces = (double)c->pieces / c->step.pieces_each;
    const double alone = (double)c->step.compute_ps * pieces + (double)c->step.update_ps;
    return alone / ((double)c->step.step_ps * (double)c->ranks);
}

static double examples_per_second(const table *t, const column *c)
{
    return (double)t->batch / ((double)c->step.step_ps * 1e-12);
}

/* ---- for people ---- */

/* The member of each column at the offset `at`, as text; "-" for 0. Without `text` it is a time, in the unit of the
 * longest step. */
static void print_line(const table *t, const char *label, size_t at, const char *text(int64_t))
{
    printf("%-*s", LABEL, label);
    for (int i = t->first; i < t->end; i++) {
        const int64_t value = *(const int64_t *)(const void *)((const char *)&t->columns[i] + at);
        printf("%*s", COLUMN + 2, !value ? "-" : text ? text(value) : text_ps_like(value, t->longest_ps));
    }
    putchar('\n');
}

static void print_speeds(const table *t)
{
    printf("%-*s", LABEL, "examples/s");
    for (int i = t->first; i < t->end; i++)
        printf("%*s", COLUMN + 2, text_count((int64_t)examples_per_second(t, &t->columns[i])));
    printf("\n%-*s", LABEL, "efficiency");
    for (int i = t->first; i < t->end; i++)
        printf("%*.0f %%", COLUMN, 100 * efficiency(&t->columns[i]));
    putchar('\n');
}

static void print_columns(const table *t)
{
    putchar('\n');
    set_style(STYLE_DIM);
    print_line(t, "ranks", offsetof(column, ranks), text_count);
    set_style(STYLE_PLAIN);
    print_line(t, "hosts", offsetof(column, step.hosts), text_count);
    print_line(t, "pieces", offsetof(column, pieces), text_count);
    print_line(t, "examples a piece", offsetof(column, piece), text_count);
    print_line(t, "step", offsetof(column, step.step_ps), NULL);
    print_line(t, "  computing", offsetof(column, step.compute_ps), NULL);
    print_line(t, "  waiting", offsetof(column, step.waited_ps), NULL);
    print_line(t, "  updating", offsetof(column, step.update_ps), NULL);
    print_speeds(t);
    print_line(t, "exchange", offsetof(column, step.exchange_ps), NULL);
    print_line(t, "  staging", offsetof(column, step.staging_ps), NULL);
    print_line(t, "sent by a rank", offsetof(column, step.sent_bytes), text_bytes);
    print_line(t, "peak of a rank", offsetof(column, peak_bytes), text_bytes);
}

/* On a narrow terminal one table below the other. */
static bool show(table *t, const train_options *o)
{
    char      title[400];
    const int most = columns_that_fit(LABEL, COLUMN + 2);
    snprintf(title, sizeof title,
             "one training step of %s, batch %s, %s, %s; %s rank%s on each host, each with %s of %s; network %s; "
             "predicted%s",
             o->model, text_count(t->batch), o->optimizer, o->precision, text_count(t->options->per_host),
             t->options->per_host == 1 ? "" : "s", t->machine->devices[t->device].name,
             t->machine->described ? t->machine->name : "this computer", t->options->network,
             t->machine->described ? ", by data sheets" : "");
    print_wrapped(title, 0, 2);
    for (t->first = 0; t->first < t->options->count; t->first = t->end) {
        t->end = t->options->count - t->first < most ? t->options->count : t->first + most;
        print_columns(t);
    }
    for (int i = 0; i < t->options->count; i++)
        if (t->columns[i].peak_bytes > t->columns[i].memory_bytes)
            printf("With %s rank%s it does not fit into the %s of a device.\n", text_count(t->columns[i].ranks),
                   t->columns[i].ranks == 1 ? "" : "s", text_bytes(t->columns[i].memory_bytes));
    return output_works();
}

/* ---- for programs ---- */

static bool show_json(const table *t, const train_options *o)
{
    cJSON *object = cJSON_CreateObject();
    json_text(object, "model", o->model);
    json_number(object, "batch", (double)t->batch);
    json_text(object, "machine", t->machine->name);
    json_bool(object, "described", t->machine->described);
    json_text(object, "device", t->machine->devices[t->device].name);
    cJSON *list = json_array(object, "ranks");
    for (int i = 0; i < t->options->count; i++) {
        const column *c = &t->columns[i];
        cJSON        *item = cJSON_CreateObject();
        json_number(item, "ranks", (double)c->ranks);
        json_number(item, "hosts", (double)c->step.hosts);
        json_number(item, "pieces", (double)c->pieces);
        json_number(item, "piece", (double)c->piece);
        json_number(item, "step_ms", (double)c->step.step_ps * 1e-9);
        json_number(item, "compute_ms", (double)c->step.compute_ps * 1e-9);
        json_number(item, "waited_ms", (double)c->step.waited_ps * 1e-9);
        json_number(item, "update_ms", (double)c->step.update_ps * 1e-9);
        json_number(item, "exchange_ms", (double)c->step.exchange_ps * 1e-9);
        json_number(item, "staging_ms", (double)c->step.staging_ps * 1e-9);
        json_number(item, "examples_per_second", examples_per_second(t, c));
        json_number(item, "efficiency", efficiency(c));
        json_number(item, "gradient_bytes", (double)c->step.gradient_bytes);
        json_number(item, "sent_bytes", (double)c->step.sent_bytes);
        json_number(item, "peak_bytes", (double)c->peak_bytes);
        json_number(item, "memory_bytes", (double)c->memory_bytes);
        json_bool(item, "fits", c->peak_bytes <= c->memory_bytes);
        json_push(list, item);
    }
    return json_print(object);
}

int what_if_ranks_show(const what_if_ranks *r, const one_training *training, const haul__machine *machine, bool json)
{
    table     t = {.options = r,
                   .machine = machine,
                   .device = hosts_device_of(machine),
                   .batch = training->options->batch,
                   .most = haul_dataset_count(training->data)};
    const int code = fill(&t, training);
    if (code)
        return code;
    return (json ? show_json(&t, training->options) : show(&t, training->options)) ? EXIT_OK : EXIT_FAILED;
}

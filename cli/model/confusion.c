#include "cli/model/confusion.h"

#include <stdlib.h>

#include "cli/model/answer.h"
#include "cli/model/network.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"

enum { MOST_COLUMNS = 20, MOST_PAIRS = 10, NAME_WIDTH = 20 };

/* ---- counting ---- */

/* Of one value with two sides, the classes are 0 and 1. */
static bool is_yes_or_no(const data_spec *spec)
{
    int64_t values = 1;
    for (int i = 0; i < spec->y.shape.ndim; i++)
        values *= spec->y.shape.dims[i];
    return spec->y.dtype != HAUL_I64 && values == 1;
}

bool confusion_init(confusion *c, const data_spec *spec)
{
    *c = (confusion){.unit = source_task(spec) == TASK_PIXELS ? "pixels" : "examples",
                     .classes = source_task(spec) == TASK_TOKENS ? 0
                                : spec->y.dtype == HAUL_I64      ? spec->y.classes
                                : is_yes_or_no(spec)             ? 2
                                                                 : 0};
    if (c->classes)
        c->counts = calloc((size_t)c->classes * (size_t)c->classes, sizeof *c->counts);
    return !c->classes || c->counts;
}

void confusion_free(confusion *c)
{
    free(c->counts);
    *c = (confusion){.classes = 0};
}

static int64_t *at(const confusion *c, int64_t wanted, int64_t predicted)
{
    return c->counts + wanted * c->classes + predicted;
}

/* The classes of each example or pixel of a mini-batch, for free; NULL on failure. */
static int64_t *read_classes(haul_tensor *classes, int64_t count)
{
    int64_t *out = malloc((size_t)count * sizeof *out);
    if (!out)
        haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    else if (!haul_read(haul_reshape(haul_cast(classes, HAUL_I64), HAUL_SHAPE(count)), out,
                        (size_t)count * sizeof *out))
        return out;
    free(out);
    return NULL;
}

haul_status confusion_add(confusion *c, const data_spec *spec, haul_tensor *logits, haul_tensor *y)
{
    if (!c->classes)
        return HAUL_OK;
    int64_t     count = haul_tensor_count(y);
    bool        indices = spec->y.dtype == HAUL_I64;
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    int64_t *predicted = read_classes(indices ? network_classes(spec, logits) : haul_gt_scalar(logits, 0), count);
    int64_t *wanted = predicted ? read_classes(indices ? y : haul_gt_scalar(y, 0.5), count) : NULL;
    for (int64_t i = 0; wanted && i < count; i++)
        if (wanted[i] >= 0 && wanted[i] < c->classes)
            ++*at(c, wanted[i], predicted[i]);
    haul_status status = wanted ? HAUL_OK : haul_error_status();
    free(predicted);
    free(wanted);
    haul_scope_pop(scope);
    return status;
}

static int64_t examples_of(const confusion *c, int wanted)
{
    int64_t sum = 0;
    for (int i = 0; i < c->classes; i++)
        sum += *at(c, wanted, i);
    return sum;
}

double confusion_mean_iou(const confusion *c)
{
    double sum = 0;
    int    found = 0;
    for (int i = 0; i < c->classes; i++) {
        const int64_t both = *at(c, i, i);
        int64_t       either = -both;
        for (int j = 0; j < c->classes; j++)
            either += *at(c, i, j) + *at(c, j, i);
        found += either > 0;
        sum += either > 0 ? (double)both / (double)either : 0;
    }
    return found ? sum / found : 0;
}

/* ---- a table ---- */

typedef struct table {
    int name, examples, cell; /* widths; cell 0: the matrix is left out */
} table;

static int digits_of(int64_t count)
{
    int digits = 1;
    while (count /= 10)
        digits++;
    return digits;
}

static table lay_out(const confusion *c, const cJSON *names)
{
    enum { EXAMPLES = 8, RIGHT = 6, LEAST_CELL = 4 }; /* with the blanks before them */
    table t = {.examples = EXAMPLES};
    int   room = output_room(), longest = 0, digits = 1;
    for (int i = 0; i < c->classes; i++) {
        int columns = text_columns(answer_name(names, i)), width = digits_of(examples_of(c, i));
        longest = columns > longest ? columns : longest;
        digits = width > digits ? width : digits;
    }
    t.name = longest < 5 ? 5 : longest < NAME_WIDTH ? longest : NAME_WIDTH;
    t.name = t.name > room / 4 && room / 4 > 5 ? room / 4 : t.name;
    if (c->classes > MOST_COLUMNS)
        return t;
    int least = digits + 1 > LEAST_CELL ? digits + 1 : LEAST_CELL, most = longest + 2 > least ? longest + 2 : least;
    int fits = (room - t.name - 2 - t.examples - RIGHT - 2) / c->classes;
    t.cell = fits < least ? 0 : fits < most ? fits : most;
    return t;
}

/* To the right end of `width` columns, with at least a blank before it. */
static void print_right(const char *text, int width)
{
    int columns = text_columns(text), used = columns < width ? columns : width - 1;
    printf("%*s", width - used, "");
    print_fitted(text, used);
}

static void print_head(const confusion *c, const cJSON *names, const table *t)
{
    if (t->cell)
        printf("%*s  predicted as\n", t->name + 2 + t->examples + 6, "");
    printf("%-*s  %*s %5s", t->name, "class", t->examples, c->unit, "right");
    printf("%s", t->cell ? "  " : "");
    for (int i = 0; t->cell && i < c->classes; i++)
        print_right(answer_name(names, i), t->cell);
    putchar('\n');
}

static void print_row(const confusion *c, const cJSON *names, const table *t, int wanted)
{
    int64_t examples = examples_of(c, wanted), right = *at(c, wanted, wanted);
    print_fitted(answer_name(names, wanted), t->name);
    printf("  %*s %5s", t->examples, text_count(examples),
           examples ? answer_percent((double)right / (double)examples) : "-");
    printf("%s", t->cell ? "  " : "");
    for (int i = 0; t->cell && i < c->classes; i++) {
        char text[24];
        snprintf(text, sizeof text, *at(c, wanted, i) ? "%lld" : ".", (long long)*at(c, wanted, i));
        set_style(i == wanted ? STYLE_BOLD : STYLE_PLAIN);
        printf("%*s", t->cell, text);
        set_style(STYLE_PLAIN);
    }
    putchar('\n');
}

/* ---- pairs ---- */

typedef struct pair {
    int     wanted, predicted;
    int64_t count;
} pair;

/* The pair that is confused most after `before`, in the order of counts, then of classes. */
static pair next_pair(const confusion *c, pair before)
{
    pair best = {0};
    for (int i = 0; i < c->classes; i++)
        for (int j = 0; j < c->classes; j++) {
            int64_t count = *at(c, i, j);
            bool    later = i > before.wanted || (i == before.wanted && j > before.predicted);
            if (i != j && count > best.count && (count < before.count || (count == before.count && later)))
                best = (pair){i, j, count};
        }
    return best;
}

static void print_pairs(const confusion *c, const cJSON *names)
{
    pair p = {0, 0, INT64_MAX};
    for (int i = 0; i < MOST_PAIRS; i++) {
        p = next_pair(c, p);
        if (!p.count)
            break;
        if (!i)
            printf("\nconfused most often:\n");
        int64_t examples = examples_of(c, p.wanted);
        char    text[600];
        snprintf(text, sizeof text, "%.200s taken for %.200s: %s of %s (%s)", answer_name(names, p.wanted),
                 answer_name(names, p.predicted), text_count(p.count), text_count(examples),
                 answer_percent((double)p.count / (double)examples));
        printf("  ");
        print_wrapped(text, 2, 4);
    }
}

/* ---- all of it ---- */

void confusion_print(const confusion *c, const cJSON *names)
{
    if (!c->classes)
        return;
    table t = lay_out(c, names);
    print_head(c, names, &t);
    for (int i = 0; i < c->classes; i++)
        print_row(c, names, &t, i);
    if (!t.cell)
        print_pairs(c, names);
}

void confusion_to_json(const confusion *c, const cJSON *names, cJSON *event)
{
    if (!c->classes)
        return;
    cJSON *classes = json_array(event, "classes"), *rows = json_array(event, "confusion");
    for (int i = 0; i < c->classes; i++) {
        json_push(classes, cJSON_CreateString(answer_name(names, i)));
        cJSON *row = cJSON_CreateArray();
        for (int j = 0; j < c->classes; j++)
            json_push(row, cJSON_CreateNumber((double)*at(c, i, j)));
        json_push(rows, row);
    }
}

#include "cli/record/show.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"

haul_program_memory program_memory(const haul_program *p, const haul_device *device)
{
    for (int i = 0; i < p->memory_count; i++)
        if (p->memory[i].device == device)
            return p->memory[i];
    return (haul_program_memory){.arena_bytes = 0};
}

static const char *kind_name(haul_store_kind kind)
{
    static const char *const names[] = {
        [HAUL_STORE_OUTSIDE] = "outside", [HAUL_STORE_INSIDE] = "inside", [HAUL_STORE_SCRATCH] = "scratch"};
    return names[kind];
}

/* ---- tables ---- */

enum { MOST_COLUMNS = 10, GAP = 2, TEXT = 160 };

/* Columns that a narrow terminal has no room for are left out, those with the highest rank first. */
typedef struct column {
    const char *title;
    bool        right; /* aligned */
    int         rank;
    int         width; /* of the widest text; 0: left out */
} column;

/* Writes the text of a column in a row. */
typedef void cell(const haul_program *p, int64_t row, int c, char *out, size_t size);

typedef struct table {
    column *columns;
    int     count;
    int64_t rows;
    cell   *cell;
} table;

static int width_of(const table *t)
{
    int width = 0;
    for (int c = 0; c < t->count; c++)
        width += t->columns[c].width ? t->columns[c].width + (width ? GAP : 0) : 0;
    return width;
}

static void fit(table *t, const haul_program *p)
{
    char text[TEXT];
    for (int c = 0; c < t->count; c++)
        t->columns[c].width = text_columns(t->columns[c].title);
    for (int64_t row = 0; row < t->rows; row++)
        for (int c = 0; c < t->count; c++) {
            t->cell(p, row, c, text, sizeof text);
            const int width = text_columns(text);
            t->columns[c].width = width > t->columns[c].width ? width : t->columns[c].width;
        }
    for (int rank = MOST_COLUMNS; rank > 0 && width_of(t) > output_room(); rank--)
        for (int c = 0; c < t->count; c++)
            t->columns[c].width = t->columns[c].rank == rank ? 0 : t->columns[c].width;
}

static void print_cell(const column *c, const char *text, bool is_last)
{
    if (c->right)
        printf("%*s", c->width - text_columns(text), "");
    print_visible(text, c->right || is_last ? 0 : c->width);
}

/* Row -1 is that of the titles. Empty cells at the end of a row leave no spaces. */
static void print_row(const table *t, const haul_program *p, int64_t row)
{
    char texts[MOST_COLUMNS][TEXT];
    int  last = 0;
    for (int c = 0; c < t->count; c++) {
        if (row < 0)
            snprintf(texts[c], TEXT, "%s", t->columns[c].title);
        else
            t->cell(p, row, c, texts[c], TEXT);
        last = t->columns[c].width && *texts[c] ? c : last;
    }
    for (int c = 0; c <= last; c++) {
        if (!t->columns[c].width)
            continue;
        print_cell(&t->columns[c], texts[c], c == last);
        printf("%*s", c == last ? 0 : GAP, "");
    }
    putchar('\n');
}

static void print_table(table *t, const haul_program *p)
{
    fit(t, p);
    set_style(STYLE_DIM);
    print_row(t, p, -1);
    set_style(STYLE_PLAIN);
    for (int64_t row = 0; row < t->rows; row++)
        print_row(t, p, row);
}

/* ---- operations ---- */

/* "3 7 8"; what does not fit is "...". */
static void list_stores(const haul_program *p, int64_t first, int count, char *out, size_t size)
{
    enum { SHOWN = 6 };
    size_t length = 0;
    int    shown = 0;
    *out = 0;
    for (int i = 0; i < count; i++) {
        const int64_t store = p->values[first + i].store;
        if (store < 0)
            continue;
        length += (size_t)snprintf(out + length, size - length, shown == SHOWN ? "%s..." : "%s%" PRId64,
                                   shown ? " " : "", store);
        if (shown++ == SHOWN)
            return;
    }
}

static const haul_program_value *subject_of(const haul_program *p, const haul_program_operation *o)
{
    for (int i = 0; i < o->result_count; i++)
        if (p->values[o->value + o->operand_count + i].store >= 0)
            return &p->values[o->value + o->operand_count + i];
    return o->operand_count && p->values[o->value].store >= 0 ? &p->values[o->value] : NULL;
}

enum { NUMBER, OPERATION, MODULE, SECTION, RESULT, READS, WRITES, ARITHMETIC, FUSED, CODE };

/* The first operation of those that are computed at once, or "no" where there is a reason why not. */
static void show_first(int64_t first, const char *why_not, char *out, size_t size)
{
    snprintf(out, size, *why_not ? "no" : "");
    if (first >= 0)
        snprintf(out, size, "%" PRId64, first);
}

static void operation_cell(const haul_program *p, int64_t row, int c, char *out, size_t size)
{
    const haul_program_operation *o = &p->operations[row];
    const haul_program_value     *v = subject_of(p, o);
    switch (c) {
    case NUMBER: snprintf(out, size, "%" PRId64, row); break;
    case OPERATION: snprintf(out, size, "%s", o->name); break;
    case MODULE: snprintf(out, size, "%s", o->module); break;
    case SECTION: snprintf(out, size, "%s", o->section); break;
    case RESULT: snprintf(out, size, "%s%s", v ? haul_dtype_name(v->dtype) : "", v ? text_shape(&v->shape) : ""); break;
    case READS: list_stores(p, o->value, o->operand_count, out, size); break;
    case WRITES: list_stores(p, o->value + o->operand_count, o->result_count, out, size); break;
    case ARITHMETIC: snprintf(out, size, "%s", o->flops > 0 ? text_flops(o->flops) : ""); break;
    case FUSED: show_first(o->fused, o->unfused, out, size); break;
    default: show_first(o->assembled, o->unassembled, out, size);
    }
}

static void print_operations(const haul_program *p)
{
    column columns[] = {{"#", true, 0, 0},        {"operation", false, 0, 0}, {"module", false, 4, 0},
                        {"section", false, 5, 0}, {"result", false, 1, 0},    {"reads", false, 2, 0},
                        {"writes", false, 3, 0},  {"arithmetic", true, 6, 0}, {"fused", true, 7, 0},
                        {"code", true, 8, 0}};
    print_table(&(table){columns, sizeof columns / sizeof *columns, p->operation_count, operation_cell}, p);
}

/* ---- stores ---- */

enum { STORE, BYTES, KIND, FROM, UNTIL, OFFSET, ORIGIN, ORIGIN_MODULE };

static void store_cell(const haul_program *p, int64_t row, int c, char *out, size_t size)
{
    const haul_program_store *s = &p->stores[row];
    *out = 0;
    switch (c) {
    case STORE: snprintf(out, size, "%" PRId64, row); break;
    case BYTES: snprintf(out, size, "%s", text_count(s->bytes)); break;
    case KIND: snprintf(out, size, "%s", s->outlives ? "stays" : s->within ? "within" : kind_name(s->kind)); break;
    case FROM:
        if (s->first >= 0)
            snprintf(out, size, "%" PRId64, s->first);
        break;
    case UNTIL:
        if (s->outlives)
            snprintf(out, size, "end");
        else if (s->last >= 0)
            snprintf(out, size, "%" PRId64, s->last);
        break;
    case OFFSET:
        if (s->offset >= 0)
            snprintf(out, size, "%s", text_count(s->offset));
        break;
    case ORIGIN: snprintf(out, size, "%s", s->origin); break;
    default: snprintf(out, size, "%s", s->module);
    }
}

static void print_stores(const haul_program *p)
{
    column columns[] = {{"store", true, 0, 0},    {"bytes", true, 0, 0},  {"kind", false, 3, 0},
                        {"from", true, 0, 0},     {"until", true, 0, 0},  {"offset", true, 1, 0},
                        {"made by", false, 2, 0}, {"module", false, 4, 0}};
    print_table(&(table){columns, sizeof columns / sizeof *columns, p->store_count, store_cell}, p);
}

/* ---- the whole ---- */

static void print_memory(const haul_program *p, const haul_device *device)
{
    char                      text[200];
    const haul_program_memory m = program_memory(p, device);
    if (!m.eager_peak_bytes)
        return;
    printf("memory  ");
    snprintf(text, sizeof text, "%s as it runs, %s in one arena (%.0f %%), without parameters and optimizer state",
             text_bytes(m.eager_peak_bytes), text_bytes(m.arena_bytes),
             100 * (double)m.arena_bytes / (double)m.eager_peak_bytes);
    print_wrapped(text, 8, 8);
}

/* What operations of a program have: the first of those that are computed at once with one, -1 for none, and why not.
 */
typedef struct first_of {
    const char *title, *things;
    int64_t (*first)(const haul_program_operation *o);
    const char *(*why_not)(const haul_program_operation *o);
} first_of;

static int64_t fused(const haul_program_operation *o)
{
    return o->fused;
}

static const char *unfused(const haul_program_operation *o)
{
    return o->unfused;
}

static int64_t assembled(const haul_program_operation *o)
{
    return o->assembled;
}

static const char *unassembled(const haul_program_operation *o)
{
    return o->unassembled;
}

/* How many operations have this reason; 0 if an operation before `at` has it, too. */
static int64_t count_reason(const haul_program *p, const first_of *x, int64_t at)
{
    int64_t count = 0;
    for (int64_t i = 0; i < p->operation_count; i++) {
        const bool same = !strcmp(x->why_not(&p->operations[i]), x->why_not(&p->operations[at]));
        if (same && i < at)
            return 0;
        count += same;
    }
    return count;
}

/* "12 operations in 5 commands; 3 alone: the operation before it is not pointwise". */
static void print_firsts(const haul_program *p, const first_of *x, const char *without)
{
    char    text[1000];
    int64_t parts = 0, chains = 0;
    for (int64_t i = 0; i < p->operation_count; i++) {
        parts += x->first(&p->operations[i]) >= 0;
        chains += x->first(&p->operations[i]) == i;
    }
    int length = snprintf(text, sizeof text, "%s operations in ", text_count(parts));
    length += snprintf(text + length, sizeof text - (size_t)length, "%s %s%s", text_count(chains), x->things,
                       chains == 1 ? "" : "s");
    for (int64_t i = 0; i < p->operation_count; i++) {
        const char   *why = x->why_not(&p->operations[i]);
        const int64_t count = *why ? count_reason(p, x, i) : 0;
        if (count && (size_t)length < sizeof text)
            length +=
                snprintf(text + length, sizeof text - (size_t)length, "; %s %s: %s", text_count(count), without, why);
    }
    printf("%-8s", x->title);
    print_wrapped(text, 8, 8);
}

static void print_fusion(const haul_program *p)
{
    bool any = false;
    for (int64_t i = 0; i < p->operation_count; i++)
        any = any || assembled(&p->operations[i]) >= 0 || *unassembled(&p->operations[i]);
    print_firsts(p, &(first_of){"fusion", "command", fused, unfused}, "alone");
    if (any)
        print_firsts(p, &(first_of){"code", "loop", assembled, unassembled}, "without");
}

bool show_program(const haul_program *p, const program_title *title, bool memory)
{
    char text[400];
    snprintf(text, sizeof text, "%s: %s operations, %s stores", title->text, text_count(p->operation_count),
             text_count(p->store_count));
    print_wrapped(text, 0, 2);
    print_memory(p, title->device);
    print_fusion(p);
    putchar('\n');
    if (memory)
        print_stores(p);
    else
        print_operations(p);
    return output_works();
}

/* ---- JSON ---- */

static void json_whole(cJSON *object, const char *name, int64_t value)
{
    json_number(object, name, value < 0 ? NAN : (double)value);
}

static void json_stores(cJSON *object, const char *name, const haul_program *p, int64_t first, int count)
{
    cJSON *array = json_array(object, name);
    for (int i = 0; i < count; i++)
        if (p->values[first + i].store >= 0)
            json_push(array, cJSON_CreateNumber((double)p->values[first + i].store));
}

static cJSON *operation_json(const haul_program *p, const haul_program_operation *o)
{
    cJSON *object = cJSON_CreateObject();
    json_text(object, "name", o->name);
    json_text(object, "module", o->module);
    json_text(object, "section", o->section);
    json_number(object, "flops", o->flops);
    json_whole(object, "fused", o->fused);
    json_text(object, "unfused", o->unfused);
    json_whole(object, "assembled", o->assembled);
    json_text(object, "unassembled", o->unassembled);
    json_stores(object, "operands", p, o->value, o->operand_count);
    json_stores(object, "results", p, o->value + o->operand_count, o->result_count);
    return object;
}

static cJSON *store_json(const haul_program_store *s)
{
    cJSON *object = cJSON_CreateObject();
    json_number(object, "bytes", (double)s->bytes);
    json_text(object, "kind", kind_name(s->kind));
    json_text(object, "device", haul_device_name(s->device));
    json_whole(object, "first", s->first);
    json_whole(object, "last", s->last);
    json_whole(object, "offset", s->offset);
    json_bool(object, "outlives", s->outlives);
    json_bool(object, "within", s->within);
    json_text(object, "origin", s->origin);
    json_text(object, "module", s->module);
    return object;
}

bool show_program_json(const haul_program *p, const haul_device *device)
{
    const haul_program_memory m = program_memory(p, device);
    cJSON                    *object = cJSON_CreateObject();
    cJSON                    *operations = json_array(object, "operations");
    for (int64_t i = 0; i < p->operation_count; i++)
        json_push(operations, operation_json(p, &p->operations[i]));
    cJSON *stores = json_array(object, "stores");
    for (int64_t i = 0; i < p->store_count; i++)
        json_push(stores, store_json(&p->stores[i]));
    json_number(object, "arena_bytes", (double)m.arena_bytes);
    json_number(object, "eager_peak_bytes", (double)m.eager_peak_bytes);
    return json_print(object);
}

/* ---- Graphviz ---- */

static void put_quoted(FILE *file, const char *text)
{
    for (; *text; text++)
        fprintf(file, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

static void put_node(FILE *file, const haul_program *p, int64_t i)
{
    const haul_program_operation *o = &p->operations[i];
    const haul_program_value     *v = subject_of(p, o);
    fprintf(file, "  n%" PRId64 " [label=\"", i);
    put_quoted(file, o->name);
    if (*o->module) {
        fprintf(file, "\\n");
        put_quoted(file, o->module);
    }
    if (v)
        fprintf(file, "\\n%s%s", haul_dtype_name(v->dtype), text_shape(&v->shape));
    fprintf(file, "\"%s];\n",
            !strcmp(o->section, "backward pass")    ? ", style=filled, fillcolor=\"#dbe9f6\""
            : !strcmp(o->section, "optimizer step") ? ", style=filled, fillcolor=\"#e5f2dc\""
                                                    : "");
}

/* An edge from the last operation that wrote each store that the operation reads. */
static void put_edges(FILE *file, const haul_program *p, int64_t i, int64_t *writers)
{
    const haul_program_operation *o = &p->operations[i];
    for (int64_t k = o->value; k < o->value + o->operand_count; k++) {
        const int64_t store = p->values[k].store;
        if (store >= 0 && writers[store] >= 0)
            fprintf(file, "  n%" PRId64 " -> n%" PRId64 " [label=\"%s\"];\n", writers[store], i,
                    text_bytes(p->stores[store].bytes));
    }
    for (int64_t k = o->value; k < o->value + o->operand_count + o->result_count; k++)
        if (p->values[k].store >= 0 && (p->values[k].written || (o->view_of >= 0 && k == o->value + o->operand_count)))
            writers[p->values[k].store] = i;
}

static void put_graph(FILE *file, const haul_program *p, int64_t *writers)
{
    fprintf(file, "digraph step {\n  node [shape=box, fontname=\"sans-serif\"];\n");
    for (int64_t i = 0; i < p->store_count; i++)
        writers[i] = -1;
    for (int64_t i = 0; i < p->operation_count; i++)
        put_node(file, p, i);
    for (int64_t i = 0; i < p->operation_count; i++)
        put_edges(file, p, i, writers);
    fprintf(file, "}\n");
}

bool write_program_dot(const haul_program *p, const char *path)
{
    int64_t *writers = calloc((size_t)p->store_count + 1, sizeof *writers);
    FILE    *file = writers ? fopen(path, "w") : NULL;
    if (!writers)
        complain("memory is exhausted");
    else if (!file)
        complain("%s cannot be written: %s", path, strerror(errno));
    if (file)
        put_graph(file, p, writers);
    const bool failed = file && ferror(file);
    const bool closed = file && !fclose(file) && !failed;
    if (file && !closed)
        complain("%s cannot be written: %s", path, strerror(errno));
    free(writers);
    return closed;
}

/* CSV files as datasets. Opening reads the file twice: once to find the lines and the kinds of columns, and once to
 * check every value that examples will have. An example is read from the mapped file by the same functions. */
#include <haul/files.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/tensor.h"
#include "data/csv/csv.h"
#include "data/csv/csv_table.h"
#include "data/dataset.h"

#define OPEN HAUL__CSV_OPEN

/* ---- fields ---- */

/* The first column of that name from column `from` on; -1 if there is none. */
static int find_column(const haul__csv_table *t, const char *name, int from, size_t length)
{
    for (int i = from; i < t->columns; i++)
        if (strlen(t->column[i].name) == length && memcmp(t->column[i].name, name, length) == 0)
            return i;
    return -1;
}

static haul_status need_column(const haul__csv_table *t, const char *field, const char *name, size_t length, int *out)
{
    HAUL__ASSERT(strnlen(name, length) == length);
    while (length && *name == ' ')
        name++, length--;
    while (length && name[length - 1] == ' ')
        length--;
    *out = find_column(t, name, 0, length);
    if (*out >= 0 && find_column(t, name, *out + 1, length) >= 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "fields",
                          "%s has two columns \"%s\"; give them different names in its first line", t->path,
                          t->column[*out].name);
    if (*out >= 0)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "fields",
                      "%s has no column \"%.*s\", which field %s names; it has %s", t->path,
                      length > 60 ? 60 : (int)length, name, field, haul__csv_names(t, (char[200]){0}, 200));
}

/* Assigns columns first ... last to field `f`. */
static haul_status assign(haul__csv_table *t, int f, int first, int last)
{
    HAUL__ASSERT(0 <= f && f < t->field_count && 0 <= first && last < t->columns);
    for (int c = first; c <= last; c++) {
        if (t->column[c].field >= 0)
            return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "fields", "column \"%s\" is in the fields %s and %s",
                              t->column[c].name, t->field[t->column[c].field].name, t->field[f].name);
        t->column[c].field = f;
        t->column[c].element = t->field[f].count++;
    }
    return HAUL_OK;
}

/* Assigns the columns that a text names: "a, b", "a..d". */
static haul_status assign_columns(haul__csv_table *t, int f, const char *text)
{
    haul_status status = HAUL_OK;
    int         pieces = 0;
    while (status == HAUL_OK && *text) {
        size_t      length = strcspn(text, ",");
        const char *range = strstr(text, "..");
        int         first = 0, last = 0;
        bool        whole = find_column(t, text, 0, length) >= 0;
        if (!whole && range && range < text + length) {
            status = need_column(t, t->field[f].name, text, (size_t)(range - text), &first);
            if (status == HAUL_OK)
                status = need_column(t, t->field[f].name, range + 2, (size_t)(text + length - range - 2), &last);
            if (status == HAUL_OK && last < first)
                status =
                    haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "fields", "column \"%s\" comes after \"%s\"; swap them",
                               t->column[first].name, t->column[last].name);
            t->field[f].vector = true;
        } else if ((status = need_column(t, t->field[f].name, text, length, &first)) == HAUL_OK) {
            last = first;
        }
        HAUL__ASSERT(status || (0 <= first && first <= last && last < t->columns));
        if (status == HAUL_OK)
            status = assign(t, f, first, last);
        t->field[f].vector = t->field[f].vector || ++pieces > 1;
        text += length + (text[length] == ',');
    }
    return status;
}

/* True if the names of all columns are numbers, but not 0, 1, 2 and so on, which pandas writes for columns without
 * names. */
static bool names_are_numbers(const haul__csv_table *t)
{
    bool counted = true;
    for (int i = 0; i < t->columns; i++) {
        const char          *name = t->column[i].name;
        const haul__csv_cell cell = {.text = name, .length = strlen(name)};
        char                 number[16];
        if (!haul__csv_is_number(&cell))
            return false;
        snprintf(number, sizeof number, "%d", i);
        counted = counted && strcmp(name, number) == 0;
    }
    return !counted;
}

/* x: all columns but the last; y: the last. */
static haul_status assign_default(haul__csv_table *t)
{
    if (names_are_numbers(t))
        return haul__fail(
            HAUL_FORMAT, OPEN, "path",
            "the first line of %s has numbers instead of names of columns; set .no_header = true if it is "
            "data, or name columns in .fields",
            t->path);
    t->field_count = 2;
    t->field[0] = (haul__csv_field){.name = "x", .dtype = HAUL_F32, .vector = true, .inferred = true};
    t->field[1] = (haul__csv_field){.name = "y"};
    if (t->columns < 2)
        return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "fields",
                          "%s has %d columns; without .fields at least two are needed", t->path, t->columns);
    haul_status status = assign(t, 0, 0, t->columns - 2);
    return status == HAUL_OK ? assign(t, 1, t->columns - 1, t->columns - 1) : status;
}

static haul_status assign_given(haul__csv_table *t, const haul_csv_field *given)
{
    haul_status status = HAUL_OK;
    for (int f = 0; f < HAUL_MAX_FIELDS && status == HAUL_OK; f++) {
        if (!given[f].name && given[f].columns)
            return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "fields",
                              "the field with the columns \"%.60s\" has no name; write {\"name\", \"columns\"}",
                              given[f].columns);
        if (!given[f].name)
            break;
        t->field_count = f + 1;
        t->field[f] = (haul__csv_field){.name = given[f].name,
                                        .dtype = given[f].dtype,
                                        .labels = given[f].labels || given[f].class_names,
                                        .given_names = given[f].class_names,
                                        .given_count = given[f].classes};
        if (given[f].dtype < HAUL_DTYPE_NONE || given[f].dtype >= HAUL_DTYPE_END)
            return haul__fail(HAUL_DTYPE, OPEN, "fields", "field %s has no valid dtype", given[f].name);
        if (!given[f].columns || !*given[f].columns)
            return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "fields", "field %s names no columns", given[f].name);
        status = assign_columns(t, f, given[f].columns);
    }
    return status;
}

/* Infers the dtype of field f from all cells of its columns: i64, f32, or class indices for texts. */
static haul_status infer_dtype(haul__csv_table *t, int f)
{
    HAUL__ASSERT(0 <= f && f < t->field_count && t->field[f].count > 0);
    haul__csv_field *field = &t->field[f];
    bool             fractional = false;
    for (int c = 0; c < t->columns; c++) {
        if (t->column[c].field != f)
            continue;
        if (haul__csv_check_mixed(t, &t->column[c]))
            return haul_error_status();
        fractional = fractional || t->column[c].fractional;
        field->labels = field->labels || t->column[c].texts.count;
    }
    field->dtype = field->labels || !fractional ? HAUL_I64 : HAUL_F32;
    field->inferred = true;
    return HAUL_OK;
}

static haul_status infer(haul__csv_table *t)
{
    for (int f = 0; f < t->field_count; f++) {
        haul__csv_field *field = &t->field[f];
        if (!field->dtype && field->labels)
            field->dtype = HAUL_I64;
        if (!field->dtype && infer_dtype(t, f))
            return haul_error_status();
        if (field->labels && (field->vector || !haul_dtype_is_integer(field->dtype)))
            return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "fields",
                              "field %s has text, which becomes class indices: give it one column and an integer dtype",
                              field->name);
    }
    return HAUL_OK;
}

/* ---- examples ---- */

static haul_status read_row(void *context, haul_example *e)
{
    haul__csv_table *t = context;
    void            *out[HAUL_MAX_FIELDS];
    HAUL__ASSERT(e->count == t->field_count && !t->collecting);
    for (int f = 0; f < t->field_count; f++)
        out[f] = e->fields[f].data;
    return haul__csv_read(t, e->index, out);
}

/* Reads every value of every line into memory for one example. Labels are numbered afterwards. */
static haul_status check_rows(haul__csv_table *t)
{
    void       *out[HAUL_MAX_FIELDS] = {NULL};
    haul_status status = HAUL_OK;
    HAUL__ASSERT(t->field_count > 0 && !t->collecting);
    for (int f = 0; f < t->field_count && status == HAUL_OK; f++)
        if (!(out[f] = haul__calloc((size_t)t->field[f].count, 8)))
            status = haul__fail_memory(OPEN, (size_t)t->field[f].count * 8);
    t->collecting = true;
    for (int64_t i = 0; i < t->rows && status == HAUL_OK; i++)
        status = haul__csv_read(t, i, out);
    t->collecting = false;
    for (int f = 0; f < t->field_count; f++)
        haul__free(out[f]);
    return status;
}

static haul_status copy_given_labels(haul__csv_table *t)
{
    for (int f = 0; f < t->field_count; f++) {
        const haul__csv_field *field = &t->field[f];
        HAUL__ASSERT(!field->label_count);
        for (int i = 0; field->labels && i < field->given_count; i++) {
            if (!field->given_names[i])
                return haul__fail_null(OPEN, "class_names");
            haul_status status = haul__csv_add_label(t, f, field->given_names[i], i);
            if (status)
                return status;
        }
    }
    return HAUL_OK;
}

static haul_status open_table(haul__csv_table *t, const haul_csv_options *o)
{
    if (o->missing_text && !(t->missing_text = haul__strdup(o->missing_text)))
        return haul__fail_memory(OPEN, strlen(o->missing_text));
    haul_status status = haul__csv_scan(t, o->path, o->no_header);
    if (status == HAUL_OK)
        status = o->fields[0].name || o->fields[0].columns ? assign_given(t, o->fields) : assign_default(t);
    if (status == HAUL_OK && (status = infer(t)) == HAUL_OK && (status = copy_given_labels(t)) == HAUL_OK)
        status = check_rows(t);
    return status;
}

static void close_table(void *context)
{
    haul__csv_free(context);
}

/* Takes over the table. */
static haul_dataset *make_dataset(haul__csv_table *t)
{
    haul_dataset       *d = NULL;
    haul_status         status = HAUL_OK;
    haul_dataset_source source = {
        .count = t->rows, .name = t->path, .read = read_row, .close = close_table, .context = t};
    for (int f = 0; f < t->field_count && status == HAUL_OK; f++) {
        haul__csv_field *field = &t->field[f];
        HAUL__ASSERT(field->count > 0 && (field->vector || field->count == 1));
        source.fields[f] = (haul_field){.name = field->name,
                                        .dtype = field->dtype,
                                        .shape = field->vector ? HAUL_SHAPE(field->count) : HAUL_SCALAR_SHAPE,
                                        .classes = field->labels ? field->label_count : 0};
        if (field->labels && !(source.fields[f].class_names = haul__csv_class_names(t, f)))
            status = haul_error_status();
        field->name = NULL; /* the caller's texts may be gone when examples are read */
    }
    if (status == HAUL_OK)
        d = haul__dataset_make(&source, HAUL__READ_EACH, OPEN);
    else
        haul__csv_free(t);
    for (int f = 0; f < HAUL_MAX_FIELDS; f++)
        haul__free((void *)source.fields[f].class_names);
    return d;
}

haul_dataset *haul_csv_dataset_with(const haul_csv_options *options)
{
    if (!options || !options->path) {
        haul__fail_null(OPEN, "path");
        return NULL;
    }
    haul__csv_table *t = haul__calloc(1, sizeof *t);
    if (!t) {
        haul__fail_memory(OPEN, sizeof *t);
        return NULL;
    }
    t->separator = options->separator ? options->separator : ',';
    t->missing = options->missing || options->missing_text;
    if (strchr("\"\r\n", t->separator)) {
        haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "separator", "quotes and line breaks cannot separate cells");
        haul__csv_free(t);
        return NULL;
    }
    if (open_table(t, options)) {
        haul__csv_free(t);
        return NULL;
    }
    return make_dataset(t);
}

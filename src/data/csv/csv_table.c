/* Rows, columns and labels of CSV files. */
#include "data/csv/csv_table.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "base/text/utf8.h"
#include "core/error.h"
#include "core/tensor.h"
#include "data/fields.h"
#include "formats/file_type.h"

#define OPEN        HAUL__CSV_OPEN
#define MAX_COLUMNS 100000
#define MAX_LABELS  10000
#define NOT_UTF8    "is not UTF-8; convert the file, for example with: iconv -f LATIN1 -t UTF-8"

/* ---- messages ---- */

/* Fails with HAUL_FORMAT, naming the file and the line of `at`. */
static haul_status malformed(const haul__csv_table *t, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static haul_status malformed(const haul__csv_table *t, const char *at, const char *format, ...)
{
    char      what[300];
    long long line = 1;
    va_list   list;
    va_start(list, format);
    haul__vsnprintf(what, sizeof what, format, list);
    va_end(list);
    HAUL__ASSERT(t->data <= at && at <= t->data + t->size);
    for (const char *p = t->data; (p = memchr(p, '\n', (size_t)(at - p))); p++)
        line++;
    return haul__fail(HAUL_FORMAT, OPEN, "path", "%s:%lld: %s", t->path, line, what);
}

/* A cell's text for a message: on one line, shortened. */
static const char *shown(const haul__csv_cell *cell, char out[48])
{
    size_t length = cell->length < 40 ? cell->length : 40;
    for (size_t i = 0; i < length; i++)
        out[i] = (unsigned char)cell->text[i] < ' ' ? ' ' : cell->text[i];
    memcpy(out + length, length < cell->length ? "..." : "", length < cell->length ? 4 : 1);
    return out;
}

char *haul__csv_names(const haul__csv_table *t, char *buffer, size_t size)
{
    size_t at = 0;
    buffer[0] = 0;
    for (int i = 0; i < t->columns && at + 60 < size; i++)
        at += (size_t)snprintf(buffer + at, size - at, i ? ", \"%.40s\"" : "\"%.40s\"", t->column[i].name);
    return buffer;
}

/* ---- rows and columns ---- */

static haul_status add_column(haul__csv_table *t, const haul__csv_cell *cell, bool named)
{
    if (t->columns == MAX_COLUMNS)
        return malformed(t, cell->text, "there are more than %d columns", MAX_COLUMNS);
    if (!haul__grow(&t->column, &t->column_capacity, (size_t)t->columns + 1, sizeof *t->column))
        return haul__fail_memory(OPEN, sizeof *t->column);
    char *name = named ? haul__malloc(cell->length + 1) : haul__format("%d", t->columns);
    if (!name)
        return haul__fail_memory(OPEN, cell->length + 1);
    if (named)
        haul__csv_text(cell, name);
    if (named && !haul__is_utf8((const uint8_t *)name, strlen(name))) {
        haul__free(name);
        return malformed(t, cell->text, "the name of column %d " NOT_UTF8, t->columns);
    }
    HAUL__ASSERT((size_t)t->columns < t->column_capacity);
    t->column[t->columns++] = (haul__csv_column){.name = name, .field = -1};
    return HAUL_OK;
}

/* The first line: names, or the first row. */
static haul_status read_columns(haul__csv_table *t, haul__csv *csv, bool no_header)
{
    haul__csv      first = *csv;
    haul__csv_cell cell = {.last = false};
    haul_status    status = HAUL_OK;
    if (!haul__csv_skip_blank(&first))
        return haul__fail(HAUL_FORMAT, OPEN, "path", "%s has no lines", t->path);
    while (status == HAUL_OK && !cell.last) {
        const char *start = first.at, *wrong = haul__csv_next(&first, &cell);
        if (wrong)
            return malformed(t, start, "%s", wrong);
        cell = haul__csv_trimmed(cell);
        status = add_column(t, &cell, !no_header);
    }
    HAUL__ASSERT(status || t->columns > 0);
    if (!no_header)
        *csv = first;
    return status;
}

static void note(haul__csv_cells *cells, const haul__csv_cell *cell)
{
    if (!cells->count++)
        cells->first = *cell;
}

static void note_cell(const haul__csv_table *t, haul__csv_column *column, const haul__csv_cell *cell)
{
    int64_t integer;
    if (haul__csv_is_missing(cell, t->missing_text)) /* NaN, or an error later */
        column->fractional = column->fractional || t->missing;
    else if (!column->fractional && haul__csv_number(cell, HAUL_I64, &integer))
        note(&column->numbers, cell);
    else if (haul__csv_is_number(cell))
        note(&column->numbers, cell), column->fractional = true;
    else
        note(&column->texts, cell);
}

static haul_status scan_row(haul__csv_table *t, haul__csv *csv)
{
    HAUL__ASSERT(csv->at <= csv->end);
    const char    *start = csv->at;
    haul__csv_cell cell = {.last = false};
    int            count = 0;
    for (; !cell.last; count++) {
        const char *at = csv->at, *wrong = haul__csv_next(csv, &cell);
        if (wrong)
            return malformed(t, at, "%s", wrong);
        if (count < t->columns)
            note_cell(t, &t->column[count], &cell);
    }
    if (count != t->columns)
        return malformed(t, start, "there are %d cells, but %d columns", count, t->columns);
    return HAUL_OK;
}

haul_status haul__csv_index(haul__csv_table *t, bool no_header)
{
    haul__csv   csv = {.at = t->data, .end = t->data + t->size, .separator = t->separator};
    haul_status status;
    if (t->size >= 3 && memcmp(t->data, "\xef\xbb\xbf", 3) == 0)
        csv.at += 3; /* the byte order mark that some programs write */
    const haul__file_type *type = haul__file_type_of(t->data, t->size);
    if (type && !type->is_text)
        return haul__refuse_file_type(type, OPEN, t->path, "a CSV file");
    if ((status = read_columns(t, &csv, no_header)))
        return status;
    for (bool more = true; more && status == HAUL_OK;) {
        if (!haul__grow(&t->begin, &t->begin_capacity, (size_t)t->rows + 1, sizeof *t->begin))
            return haul__fail_memory(OPEN, (size_t)t->rows * sizeof *t->begin);
        more = haul__csv_skip_blank(&csv);
        HAUL__ASSERT((size_t)t->rows < t->begin_capacity && csv.at <= csv.end);
        t->begin[t->rows] = csv.at - t->data;
        if (more && (status = scan_row(t, &csv)) == HAUL_OK)
            t->rows++;
    }
    return status;
}

haul_status haul__csv_scan(haul__csv_table *t, const char *path, bool no_header)
{
    haul__file file;
    if (!(t->path = haul__strdup(path)))
        return haul__fail_memory(OPEN, strlen(path));
    haul_status status = haul__file_open(&file, path, OPEN);
    if (status)
        return status;
    if (!file.size)
        status = haul__fail(HAUL_FORMAT, OPEN, "path", "%s has no lines", path);
    else if (!(t->mapping = haul__file_map_readonly(&file)))
        status = haul_error_status();
    t->size = (size_t)file.size;
    haul__file_close(&file);
    if (status)
        return status;
    t->data = (const char *)haul__mapping_at(t->mapping, 0);
    return haul__csv_index(t, no_header);
}

haul_status haul__csv_check_mixed(const haul__csv_table *t, const haul__csv_column *column)
{
    char          text[48];
    const int64_t numbers = column->numbers.count, texts = column->texts.count;
    if (!numbers || !texts)
        return HAUL_OK;
    const bool            odd_text = texts <= numbers;
    const haul__csv_cell *odd = odd_text ? &column->texts.first : &column->numbers.first;
    return malformed(t, odd->text,
                     "\"%s\" in column \"%.60s\" is %s number, but %lld of %lld cells are %s; correct it, or set "
                     ".missing_text if it stands for a missing value, or .labels if cells are names of classes",
                     shown(odd, text), column->name, odd_text ? "not a" : "a", (long long)(odd_text ? numbers : texts),
                     (long long)(numbers + texts), odd_text ? "numbers" : "texts");
}

/* ---- labels ---- */

/* The index of `text` among the labels, or where it belongs. */
static int label_place(const haul__csv_field *field, const char *text, bool *there)
{
    int low = 0, high = field->label_count;
    HAUL__ASSERT((size_t)high <= field->label_capacity);
    *there = false;
    while (low < high && !*there) {
        int middle = (low + high) / 2, order = strcmp(text, field->label[middle].text);
        *there = order == 0;
        if (order == 0)
            low = middle;
        else if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

haul_status haul__csv_add_label(haul__csv_table *t, int f, const char *text, int number)
{
    haul__csv_field *field = &t->field[f];
    bool             there;
    int              place = label_place(field, text, &there);
    if (there)
        return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "class_names", "two classes of field %s are named \"%.60s\"",
                          field->name, text);
    if (field->label_count == MAX_LABELS)
        return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "fields", "field %s has more than %d labels: are they classes?",
                          field->name, MAX_LABELS);
    char *copy = haul__strdup(text);
    if (!copy ||
        !haul__grow(&field->label, &field->label_capacity, (size_t)field->label_count + 1, sizeof *field->label)) {
        haul__free(copy);
        return haul__fail_memory(OPEN, strlen(text) + sizeof *field->label);
    }
    HAUL__ASSERT(0 <= place && place <= field->label_count && (size_t)field->label_count < field->label_capacity);
    memmove(field->label + place + 1, field->label + place,
            (size_t)(field->label_count - place) * sizeof *field->label);
    field->label[place] = (haul__csv_label){copy, number};
    HAUL__ASSERT(place == field->label_count || strcmp(text, field->label[place + 1].text) < 0);
    HAUL__ASSERT(place == 0 || strcmp(field->label[place - 1].text, text) < 0);
    field->label_count++;
    return HAUL_OK;
}

const char *const *haul__csv_class_names(haul__csv_table *t, int f)
{
    haul__csv_field *field = &t->field[f];
    if (!field->labels)
        return NULL;
    const char **names = haul__calloc((size_t)field->label_count + 1, sizeof *names);
    if (!names) {
        haul__fail_memory(OPEN, (size_t)field->label_count * sizeof *names);
        return NULL;
    }
    for (int i = 0; i < field->label_count; i++) {
        if (!field->given_names)
            field->label[i].number = i;
        HAUL__ASSERT(0 <= field->label[i].number && field->label[i].number < field->label_count);
        names[field->label[i].number] = field->label[i].text;
    }
    return names;
}

/* Mistakes that would make a class of their own. */
static haul_status check_label(const haul__csv_table *t, const haul__csv_column *column, const haul__csv_cell *cell)
{
    char shows[48];
    if (haul__csv_is_missing(cell, t->missing_text))
        return malformed(t, cell->text, "column \"%.60s\" has no label%s", column->name,
                         cell->length ? "" : "; write \"\" if the empty text is one");
    if (haul__csv_trimmed(*cell).length < cell->length)
        return malformed(t, cell->text,
                         "\"%s\" in column \"%.60s\" has blanks around it; remove them, or quote the cell if they "
                         "belong to the label",
                         shown(cell, shows), column->name);
    if (!haul__is_utf8((const uint8_t *)cell->text, cell->length))
        return malformed(t, cell->text, "a label in column \"%.60s\" " NOT_UTF8, column->name);
    return HAUL_OK;
}

static haul_status read_label(haul__csv_table *t, int c, const haul__csv_cell *cell, void *out)
{
    const int        f = t->column[c].field;
    haul__csv_field *field = &t->field[f];
    char             near[256], *text = near;
    bool             there;
    HAUL__ASSERT(f >= 0 && field->labels && !field->vector);
    if (check_label(t, &t->column[c], cell))
        return haul_error_status();
    if (cell->length >= sizeof near && !(text = haul__malloc(cell->length + 1)))
        return haul__fail_memory(OPEN, cell->length);
    haul__csv_text(cell, text);
    int         place = label_place(field, text, &there);
    haul_status status = HAUL_OK;
    if (!there && t->collecting && !field->given_names)
        status = haul__csv_add_label(t, f, text, 0);
    else if (!there)
        status = malformed(t, cell->text, "\"%.60s\" is none of the %d classes of field %s", text, field->label_count,
                           field->name ? field->name : "");
    else
        haul__element_store(field->dtype, field->label[place].number, out);
    if (text != near)
        haul__free(text);
    return status;
}

/* ---- one row ---- */

/* The fault of a cell that cannot be a value of its field. */
static haul_status refuse_number(const haul__csv_table *t, int c, const haul__csv_cell *cell)
{
    const haul_dtype dtype = t->field[t->column[c].field].dtype;
    const bool       real = haul_dtype_is_float(dtype);
    char             text[48];
    if (haul__csv_is_missing(cell, t->missing_text))
        return malformed(t, cell->text, "column \"%.60s\" has no value%s", t->column[c].name,
                         real ? "; .missing = true reads NaN" : "");
    return malformed(t, cell->text, "\"%s\" in column \"%.60s\" is not a number that %s represents%s",
                     shown(cell, text), t->column[c].name, haul_dtype_name(dtype),
                     haul__csv_is_number(cell) ? "; give the field another dtype"
                     : real                    ? "; set .missing_text if it stands for a missing value"
                                               : "");
}

static haul_status read_number(const haul__csv_table *t, int c, const haul__csv_cell *cell, void *out)
{
    const haul__csv_field *field = &t->field[t->column[c].field];
    const bool             real = haul_dtype_is_float(field->dtype);
    char                   text[48];
    HAUL__ASSERT(t->column[c].field >= 0 && !field->labels && field->dtype != HAUL_DTYPE_NONE);
    if (t->missing && real && haul__csv_is_missing(cell, t->missing_text)) {
        haul__element_store(field->dtype, (double)NAN, out);
        return HAUL_OK;
    }
    if (real && field->inferred && haul__csv_is_large_integer(cell))
        return malformed(t, cell->text,
                         "\"%s\" in column \"%.60s\" is a whole number beyond 2^53, which %s would round; give the "
                         "field a dtype in .fields",
                         shown(cell, text), t->column[c].name, haul_dtype_name(field->dtype));
    return haul__csv_number(cell, field->dtype, out) ? HAUL_OK : refuse_number(t, c, cell);
}

haul_status haul__csv_read(haul__csv_table *t, int64_t row, void *const *out)
{
    HAUL__ASSERT(0 <= row && row < t->rows && t->begin[row] <= t->begin[row + 1]);
    haul__csv      csv = {.at = t->data + t->begin[row], .end = t->data + t->begin[row + 1], .separator = t->separator};
    haul__csv_cell cell = {.last = false};
    haul_status    status = HAUL_OK;
    int            c = 0;
    for (; !cell.last && status == HAUL_OK; c++) {
        const char *at = csv.at, *wrong = haul__csv_next(&csv, &cell);
        if (wrong || c >= t->columns || (cell.last && c + 1 < t->columns))
            return malformed(t, at, "%s", wrong ? wrong : "the line was changed after the file was opened");
        int f = t->column[c].field;
        if (f < 0)
            continue;
        HAUL__ASSERT(f < t->field_count && t->column[c].element < t->field[f].count);
        char *to = (char *)out[f] + (size_t)t->column[c].element * haul__dtype_size(t->field[f].dtype);
        status = t->field[f].labels ? read_label(t, c, &cell, to) : read_number(t, c, &cell, to);
    }
    return status;
}

void haul__csv_free(haul__csv_table *t)
{
    for (int i = 0; i < t->columns; i++)
        haul__free(t->column[i].name);
    for (int f = 0; f < HAUL_MAX_FIELDS; f++) {
        for (int i = 0; i < t->field[f].label_count; i++)
            haul__free(t->field[f].label[i].text);
        haul__free(t->field[f].label);
    }
    haul__object_release(t->mapping);
    haul__free(t->column);
    haul__free(t->begin);
    haul__free(t->missing_text);
    haul__free(t->path);
    haul__free(t);
}

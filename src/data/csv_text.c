/* Cells and numbers of CSV text. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/plain.h"
#include "data/csv.h"
#include "data/fields.h"

/* Longer texts are not numbers. */
#define NUMBER_LIMIT 400

bool haul__csv_skip_blank(haul__csv *c)
{
    while (c->at < c->end) {
        if (*c->at == '\n')
            c->at++;
        else if (*c->at == '\r' && c->at + 1 < c->end && c->at[1] == '\n')
            c->at += 2;
        else
            return true;
    }
    return false;
}

/* Skips what ends a cell at p: a separator, a line break, or the end of the text. Returns false for anything else. */
static bool take_end(haul__csv *c, const char *p, haul__csv_cell *cell)
{
    cell->last = true;
    if (p < c->end && *p == c->separator) {
        cell->last = false;
        p++;
    } else if (p < c->end && *p == '\n') {
        p++;
    } else if (p < c->end && *p == '\r' && (p + 1 == c->end || p[1] == '\n')) {
        p += p + 1 == c->end ? 1 : 2;
    } else if (p < c->end) {
        return false;
    }
    c->at = p;
    return true;
}

static const char *next_quoted(haul__csv *c, haul__csv_cell *cell)
{
    const char *start = c->at + 1, *p = start;
    for (;; p += 2) {
        p = memchr(p, '"', (size_t)(c->end - p));
        if (!p)
            return "a quoted cell does not end";
        if (p + 1 == c->end || p[1] != '"')
            break;
    }
    cell->text = start;
    cell->length = (size_t)(p - start);
    return take_end(c, p + 1, cell) ? NULL : "something follows the quote that ends a cell";
}

static const char *next_plain(haul__csv *c, haul__csv_cell *cell)
{
    const char *p = c->at;
    while (p < c->end && *p != c->separator && *p != '\n' && *p != '"')
        p++;
    if (p < c->end && *p == '"')
        return "a quote is within a cell that does not begin with one";
    if (p > c->at && p[-1] == '\r' && (p == c->end || *p == '\n'))
        p--;
    cell->text = c->at;
    cell->length = (size_t)(p - c->at);
    return take_end(c, p, cell) ? NULL : "a carriage return is not followed by a line feed";
}

const char *haul__csv_next(haul__csv *c, haul__csv_cell *cell)
{
    cell->quoted = c->at < c->end && *c->at == '"';
    const char *wrong = cell->quoted ? next_quoted(c, cell) : next_plain(c, cell);
    if (!wrong && cell->length && memchr(cell->text, 0, cell->length))
        wrong = "a cell has a 0 byte";
    return wrong;
}

size_t haul__csv_text(const haul__csv_cell *cell, char *out)
{
    size_t length = 0;
    for (size_t i = 0; i < cell->length; i++) {
        out[length++] = cell->text[i];
        i += cell->quoted && cell->text[i] == '"';
    }
    out[length] = 0;
    return length;
}

/* ---- numbers ---- */

/* Copies the cell without the blanks around it to `out`. Returns false if it is empty, or too long for a number. */
static bool trim(const haul__csv_cell *cell, char out[NUMBER_LIMIT])
{
    const char *first = cell->text, *last = first + cell->length;
    while (first < last && (*first == ' ' || *first == '\t'))
        first++;
    while (last > first && (last[-1] == ' ' || last[-1] == '\t'))
        last--;
    if (first == last || last - first >= NUMBER_LIMIT)
        return false;
    memcpy(out, first, (size_t)(last - first));
    out[last - first] = 0;
    return true;
}

static bool store_integer(haul_dtype dtype, int64_t value, void *out)
{
    int64_t high = dtype == HAUL_BOOL ? 1
                   : dtype == HAUL_U8 ? UINT8_MAX
                                      : (int64_t)(UINT64_MAX >> (65 - haul_dtype_bits(dtype)));
    int64_t low = dtype == HAUL_BOOL || dtype == HAUL_U8 ? 0 : -high - 1;
    if (value < low || value > high)
        return false;
    if (dtype == HAUL_I64)
        memcpy(out, &value, sizeof value);
    else
        haul__element_store(dtype, (double)value, out);
    return true;
}

static bool to_integer(const char *text, haul_dtype dtype, void *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    return !*end && end != text && !errno && store_integer(dtype, value, out);
}

/* haul__strtod also takes hexadecimal numbers and nan(text). */
static bool is_decimal(const char *text)
{
    return strspn(text, "0123456789.eE+-") == strlen(text) || !strpbrk(text, "xXpP(");
}

static bool to_float(const char *text, haul_dtype dtype, void *out)
{
    char  *end;
    double value = is_decimal(text) ? haul__strtod(text, &end) : 0;
    if (!is_decimal(text) || *end || end == text)
        return false;
    haul__element_store(dtype, value, out);
    return true;
}

bool haul__csv_number(const haul__csv_cell *cell, haul_dtype dtype, void *out)
{
    char text[NUMBER_LIMIT];
    if (!trim(cell, text))
        return false;
    return haul_dtype_is_float(dtype) ? to_float(text, dtype, out) : to_integer(text, dtype, out);
}

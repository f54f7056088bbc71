/* Cells and numbers of CSV text. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/half.h"
#include "base/text/plain.h"
#include "data/csv/csv.h"
#include "data/fields.h"

/* Longer texts are not numbers. */
#define NUMBER_LIMIT 400

#define CARRIAGE_RETURN                                                                                                \
    "a carriage return is not followed by a line feed, as in files of old Macs; end lines with a line feed, for "      \
    "example with: tr '\\r' '\\n'"
#define ZERO_BYTE                                                                                                      \
    "a cell has a 0 byte; if the file is UTF-16, save it as UTF-8, for example with: iconv -f UTF-16 -t UTF-8"

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
    HAUL__ASSERT(c->at <= p && p <= c->end);
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
    HAUL__ASSERT(p <= c->end);
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
    HAUL__ASSERT(start <= p && p < c->end);
    cell->text = start;
    cell->length = (size_t)(p - start);
    return take_end(c, p + 1, cell) ? NULL : "something follows the quote that ends a cell";
}

static const char *next_plain(haul__csv *c, haul__csv_cell *cell)
{
    const char *p = c->at;
    while (p < c->end && *p != c->separator && *p != '\n' && *p != '\r' && *p != '"')
        p++;
    if (p < c->end && *p == '"')
        return "a quote is within a cell that does not begin with one";
    cell->text = c->at;
    cell->length = (size_t)(p - c->at);
    return take_end(c, p, cell) ? NULL : CARRIAGE_RETURN;
}

const char *haul__csv_next(haul__csv *c, haul__csv_cell *cell)
{
    HAUL__ASSERT(c->at <= c->end);
    cell->quoted = c->at < c->end && *c->at == '"';
    const char *wrong = cell->quoted ? next_quoted(c, cell) : next_plain(c, cell);
    if (!wrong && cell->length && memchr(cell->text, 0, cell->length))
        wrong = ZERO_BYTE;
    return wrong;
}

size_t haul__csv_text(const haul__csv_cell *cell, char *out)
{
    size_t length = 0;
    for (size_t i = 0; i < cell->length; i++) {
        out[length++] = cell->text[i];
        i += cell->quoted && cell->text[i] == '"';
    }
    HAUL__ASSERT(length <= cell->length);
    out[length] = 0;
    return length;
}

/* ---- numbers ---- */

static const char *skip_blanks(const char *text, size_t *length)
{
    const char *end = text + *length;
    while (text < end && (*text == ' ' || *text == '\t'))
        text++;
    while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *length = (size_t)(end - text);
    return text;
}

/* Copies the cell without the blanks around it to `out`. Returns false if it is empty, or too long for a number. */
static bool trim(const haul__csv_cell *cell, char out[NUMBER_LIMIT])
{
    size_t      length = cell->length;
    const char *text = skip_blanks(cell->text, &length);
    if (!length || length >= NUMBER_LIMIT)
        return false;
    memcpy(out, text, length);
    out[length] = 0;
    return true;
}

static bool store_integer(haul_dtype dtype, int64_t value, void *out)
{
    HAUL__ASSERT(!haul_dtype_is_float(dtype));
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

/* True if the nearest element of the dtype is finite, or the text is an infinity or NaN. */
static bool fits(haul_dtype dtype, double value, const char *text)
{
    const double nearest = haul__is_half(dtype) ? haul__half_decode(dtype, haul__half_encode(dtype, value))
                           : dtype == HAUL_F32  ? (double)(float)value
                                                : value;
    return isfinite(nearest) || !strpbrk(text, "0123456789");
}

static bool to_float(const char *text, haul_dtype dtype, void *out)
{
    char  *end;
    double value = is_decimal(text) ? haul__strtod(text, &end) : 0;
    if (!is_decimal(text) || *end || end == text || !fits(dtype, value, text))
        return false;
    haul__element_store(dtype, value, out);
    return true;
}

haul__csv_cell haul__csv_trimmed(haul__csv_cell cell)
{
    if (!cell.quoted)
        cell.text = skip_blanks(cell.text, &cell.length);
    return cell;
}

bool haul__csv_is_missing(const haul__csv_cell *cell, const char *mark)
{
    if (!mark && cell->length && *cell->text != ' ' && *cell->text != '\t')
        return false;
    const haul__csv_cell bare = haul__csv_trimmed(*cell);
    if (!bare.length && !bare.quoted)
        return true;
    return mark && strlen(mark) == bare.length && memcmp(mark, bare.text, bare.length) == 0;
}

bool haul__csv_is_number(const haul__csv_cell *cell)
{
    char text[NUMBER_LIMIT], *end;
    if (!trim(cell, text) || !is_decimal(text))
        return false;
    haul__strtod(text, &end);
    return !*end && end != text;
}

bool haul__csv_is_large_integer(const haul__csv_cell *cell)
{
    enum { DIGITS = 16 }; /* of 2^53 */
    char text[NUMBER_LIMIT];
    if (cell->length < DIGITS || !trim(cell, text))
        return false;
    const char *digits = text + (*text == '-' || *text == '+');
    if (!*digits || digits[strspn(digits, "0123456789")])
        return false;
    errno = 0;
    return strtoull(digits, NULL, 10) > 1ull << 53 || errno; /* digits alone: nothing but the range can be wrong */
}

bool haul__csv_number(const haul__csv_cell *cell, haul_dtype dtype, void *out)
{
    char text[NUMBER_LIMIT];
    if (!trim(cell, text))
        return false;
    return haul_dtype_is_float(dtype) ? to_float(text, dtype, out) : to_integer(text, dtype, out);
}

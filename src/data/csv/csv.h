/* Cells of CSV text, parsed from bytes in memory so that tests and fuzzers can call it (RFC 4180: Shafranovich, "Common
 * format and MIME type for comma-separated values (CSV) files", 2005). */
#ifndef HAUL_DATA_CSV_CSV_H
#define HAUL_DATA_CSV_CSV_H

#include <haul/dtype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct haul__csv {
    const char *at, *end;
    char        separator;
} haul__csv;

typedef struct haul__csv_cell {
    const char *text; /* `length` bytes of the file, without the quotes around them */
    size_t      length;
    bool        quoted; /* two quotes in it stand for one */
    bool        last;   /* the last of its record */
} haul__csv_cell;

/* Skips empty lines. Returns false at the end of the text. Lines end with LF or CR LF. */
bool haul__csv_skip_blank(haul__csv *csv);

/* Reads the next cell. Returns NULL, or the fault of the text. */
const char *haul__csv_next(haul__csv *csv, haul__csv_cell *cell);

/* Writes the cell's text, with doubled quotes reduced to one and a 0 byte at the end, to `out`, which has length + 1
 * bytes. */
size_t haul__csv_text(const haul__csv_cell *cell, char *out);

/* True if the cell stands for an unknown value: nothing is between its separators, or only the text `mark`, if that is
 * not NULL. "" is an empty text instead. */
bool haul__csv_is_missing(const haul__csv_cell *cell, const char *mark);

/* Reads the cell as a number: of an integer dtype that holds it, or the nearest of a floating dtype. Returns false if
 * it is not a number, or beyond the largest of the dtype. Blanks around it are ignored; nan, inf and infinity are
 * floating numbers. */
bool haul__csv_number(const haul__csv_cell *cell, haul_dtype dtype, void *out);

/* True if the cell is a number. */
bool haul__csv_is_number(const haul__csv_cell *cell);

/* True for a whole number, written with digits only, beyond 2^53 and -2^53. Floats would round it. */
bool haul__csv_is_large_integer(const haul__csv_cell *cell);

/* Leaves out blanks at the beginning and at the end of a cell that is not quoted. */
haul__csv_cell haul__csv_trimmed(haul__csv_cell cell);

#endif

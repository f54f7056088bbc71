/* Cells of CSV text, read from bytes in memory so that tests and fuzzers reach it (RFC 4180: Shafranovich, "Common
 * format and MIME type for comma-separated values (CSV) files", 2005). */
#ifndef HAUL_DATA_CSV_H
#define HAUL_DATA_CSV_H

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
    bool        quoted; /* two quotes in it mean one */
    bool        last;   /* of its record */
} haul__csv_cell;

/* Move over lines without anything in them. False at the end of the text. */
bool haul__csv_skip_blank(haul__csv *csv);

/* The next cell. NULL, or what is wrong with the text. */
const char *haul__csv_next(haul__csv *csv, haul__csv_cell *cell);

/* The cell's text without quotes that are there twice, and a 0 byte behind it, into `out` of length + 1 bytes. */
size_t haul__csv_text(const haul__csv_cell *cell, char *out);

/* The cell as a number: of an integer dtype that it fits, or the nearest of a floating dtype. False if it is none.
 * Blanks around it are ignored; nan, inf and infinity are numbers of floating dtypes. */
bool haul__csv_number(const haul__csv_cell *cell, haul_dtype dtype, void *out);

#endif

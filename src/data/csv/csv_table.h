/* A CSV file in memory: where its lines begin, what its columns contain, and to which fields they belong. */
#ifndef HAUL_DATA_CSV_CSV_TABLE_H
#define HAUL_DATA_CSV_CSV_TABLE_H

#include <haul/dataset.h>

#include "data/csv/csv.h"
#include "files/file.h"

#define HAUL__CSV_OPEN "haul_csv_dataset"

/* The cells of a column that are numbers, or those that are texts. */
typedef struct haul__csv_cells {
    int64_t        count;
    haul__csv_cell first;
} haul__csv_cells;

typedef struct haul__csv_column {
    char           *name;
    haul__csv_cells numbers, texts; /* missing cells are neither */
    bool            fractional;     /* a number is not an i64, or a cell is missing */
    int             field;          /* -1: it belongs to no field */
    int64_t         element;
} haul__csv_column;

typedef struct haul__csv_label {
    char *text;
    int   number;
} haul__csv_label;

typedef struct haul__csv_field {
    const char        *name; /* owned by the caller, while the table is opened */
    haul_dtype         dtype;
    bool               vector, labels;
    bool               inferred; /* the dtype was not given */
    int64_t            count;    /* columns */
    const char *const *given_names;
    int                given_count;
    haul__csv_label   *label; /* sorted by text */
    int                label_count;
    size_t             label_capacity;
} haul__csv_field;

typedef struct haul__csv_table {
    char             *path;
    haul__mapping    *mapping;
    const char       *data;
    size_t            size;
    char              separator;
    bool              missing;      /* missing cells of floating fields are NaN */
    char             *missing_text; /* a cell with this text is missing, too; NULL: no text */
    bool              collecting;   /* unknown labels are added */
    int64_t          *begin;        /* where each row begins, and the end */
    size_t            begin_capacity;
    int64_t           rows;
    haul__csv_column *column;
    int               columns;
    size_t            column_capacity;
    haul__csv_field   field[HAUL_MAX_FIELDS];
    int               field_count;
} haul__csv_table;

/* Maps the file, finds its rows and columns, and the kinds of the columns. */
haul_status haul__csv_scan(haul__csv_table *t, const char *path, bool no_header);
/* The same for text that is in memory: t->data, t->size and t->path are set. */
haul_status haul__csv_index(haul__csv_table *t, bool no_header);

/* Reads the fields of one row into out[]. Any thread may call it, except while labels are collected. */
haul_status haul__csv_read(haul__csv_table *t, int64_t row, void *const *out);

haul_status haul__csv_add_label(haul__csv_table *t, int f, const char *text, int number);
/* The class names of a field of labels, by number; the caller must haul__free the array. NULL on failure, or without
 * labels. */
const char *const *haul__csv_class_names(haul__csv_table *t, int f);

/* Fails if some cells of the column are numbers and others are texts: only the program knows which is meant. */
haul_status haul__csv_check_mixed(const haul__csv_table *t, const haul__csv_column *column);

/* The names of the columns for messages; returns buffer. */
char *haul__csv_names(const haul__csv_table *t, char *buffer, size_t size);
void  haul__csv_free(haul__csv_table *t);

#endif

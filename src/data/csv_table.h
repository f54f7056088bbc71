/* A CSV file in memory: where its lines begin, what its columns hold, and to which fields they belong. */
#ifndef HAUL_DATA_CSV_TABLE_H
#define HAUL_DATA_CSV_TABLE_H

#include <haul/dataset.h>

#include "io/file.h"

#define HAUL__CSV_OPEN "haul_csv_dataset"

/* What all cells of a column are; each kind includes those before it. */
typedef enum haul__csv_kind { HAUL__CSV_INTEGERS, HAUL__CSV_NUMBERS, HAUL__CSV_TEXTS } haul__csv_kind;

typedef struct haul__csv_column {
    char          *name;
    haul__csv_kind kind;
    int            field; /* -1: it belongs to none */
    int64_t        element;
} haul__csv_column;

typedef struct haul__csv_label {
    char *text;
    int   number;
} haul__csv_label;

typedef struct haul__csv_field {
    const char        *name; /* the caller's, while the table is opened */
    haul_dtype         dtype;
    bool               vector, labels;
    int64_t            count; /* columns */
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
    bool              missing;    /* empty cells of floating fields are NaN */
    bool              collecting; /* labels that are not known become known */
    int64_t          *begin;      /* where each row begins; one more for the end */
    size_t            begin_capacity;
    int64_t           rows;
    haul__csv_column *column;
    int               columns;
    size_t            column_capacity;
    haul__csv_field   field[HAUL_MAX_FIELDS];
    int               field_count;
} haul__csv_table;

/* Map the file, find its rows and columns, and what the columns hold. */
haul_status haul__csv_scan(haul__csv_table *t, const char *path, bool no_header);
/* The same for text that is in memory already: t->data, t->size and t->path are set. */
haul_status haul__csv_index(haul__csv_table *t, bool no_header);

/* The fields of one row, which out[] has room for. Any thread, except while labels are collected. */
haul_status haul__csv_read(haul__csv_table *t, int64_t row, void *const *out);

haul_status haul__csv_add_label(haul__csv_table *t, int f, const char *text, int number);
/* The names of the classes of a field of labels, by number: an array to haul__free. NULL on failure, or without labels.
 */
const char *const *haul__csv_class_names(haul__csv_table *t, int f);

/* The names of the columns for messages; returns buffer. */
char *haul__csv_names(const haul__csv_table *t, char *buffer, size_t size);
void  haul__csv_free(haul__csv_table *t);

#endif

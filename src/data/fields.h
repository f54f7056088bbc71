/* Lists of fields that own their texts, checked once. */
#ifndef HAUL_DATA_FIELDS_H
#define HAUL_DATA_FIELDS_H

#include <haul/dataset.h>

typedef struct haul__fields {
    int        count;
    haul_field items[HAUL_MAX_FIELDS];
    size_t     bytes[HAUL_MAX_FIELDS];   /* bytes of an example; 0 if the field varies */
    int        varying[HAUL_MAX_FIELDS]; /* the dimension that varies; -1: none */
} haul__fields;

/* A deep copy of `count` fields. NULL, with the error recorded, if they are invalid. */
haul__fields *haul__fields_copy(const haul_field *fields, int count, const char *operation);
void          haul__fields_free(haul__fields *fields); /* NULL is ignored */

/* The index of the field with that name (of `length` characters); -1, without recording an error. */
int haul__fields_find(const haul__fields *fields, const char *name, size_t length);
/* "x, y" into buffer; returns buffer. */
char *haul__fields_text(const haul_field *fields, int count, char *buffer, size_t size);

/* True if a value of this dtype and shape can be one of the field's. */
bool haul__field_fits(const haul_field *field, haul_dtype dtype, const haul_shape *shape);

/* The nearest element to `value` of a dtype, written to `out`. */
void haul__element_store(haul_dtype dtype, double value, void *out);

#endif

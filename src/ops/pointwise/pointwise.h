/* The rows of pointwise.def as data, from which descriptors and tests are made. */
#ifndef HAUL_OPS_POINTWISE_POINTWISE_H
#define HAUL_OPS_POINTWISE_POINTWISE_H

#include <haul/tensor.h>

typedef enum haul__row_form {
    HAUL__UNARY,
    HAUL__UNARY_TO_BOOL,
    HAUL__UNARY1,
    HAUL__UNARY2,
    HAUL__BINARY,
    HAUL__COMPARE
} haul__row_form;
typedef enum haul__row_dtypes {
    HAUL__ROW_ANY,
    HAUL__ROW_NUMBER,
    HAUL__ROW_NUMBER_WIDE,
    HAUL__ROW_FLOAT,
    HAUL__ROW_WIDE,
    HAUL__ROW_BITWISE,
    HAUL__ROW_INTEGER
} haul__row_dtypes;

/* What a gradient can read. a is x in unary rows. */
typedef struct haul__row_context {
    haul_tensor *g, *a, *b, *y;
    double       s0, s1;
} haul__row_context;

typedef haul_tensor *haul__row_gradient(const haul__row_context *c);

typedef struct haul__row {
    const char         *name;    /* "haul_add" */
    const char         *formula; /* "a + b" */
    haul__row_form      form;
    haul__row_dtypes    dtypes;
    unsigned            saves;       /* HAUL__SAVE_A | ... */
    haul__row_gradient *gradient[2]; /* of a and b; NULL: the result is not differentiable */
    double              low, high;   /* samples */
    void (*call)(void);              /* haul_NAME or haul__NAME, for tests; cast it according to the form */
    void (*call_scalar)(void);       /* haul_NAME_scalar, or NULL */
    void (*call_into)(void);         /* haul_NAME_into; NULL: the library alone calls it */
} haul__row;

enum { HAUL__SAVE_A = 1, HAUL__SAVE_B = 2, HAUL__SAVE_Y = 4 };

extern const haul__row haul__rows[];
extern const int       haul__row_count;

#endif

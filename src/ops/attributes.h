/* Attributes of operations that other folders read: the writer of ONNX models does (src/onnx/export). Those of
 * convolutions, pooling, batch normalisation and reductions are in headers of their own. */
#ifndef HAUL_OPS_ATTRIBUTES_H
#define HAUL_OPS_ATTRIBUTES_H

#include <haul/ops.h>

#include "engine/attribute_shape.h"

/* ---- shapes, parts, joins ---- */

/* Elements start, start + step ... below stop of an axis. */
typedef struct haul__part {
    int     axis, reserved;
    int64_t start, stop, step;
} haul__part;

typedef struct haul__select_attributes {
    int     axis, reserved;
    int64_t index;
} haul__select_attributes;

typedef struct haul__permute_attributes {
    int count;
    int axes[HAUL_MAX_DIMS];
} haul__permute_attributes;

typedef struct haul__transpose_attributes {
    int a, b;
} haul__transpose_attributes;

typedef struct haul__join_attributes {
    int axis; /* of the result */
} haul__join_attributes;

typedef struct haul__pad_attributes {
    int64_t       sizes[2 * HAUL_MAX_DIMS]; /* before and after the last axis, the one before it, ... */
    int           count;                    /* of them */
    haul_pad_mode mode;
    double        value;
} haul__pad_attributes;

typedef struct haul__repeat_attributes {
    haul__attribute_shape times;
} haul__repeat_attributes;

typedef struct haul__flip_attributes {
    int  axes[HAUL_MAX_DIMS], count; /* as the user passed them */
    bool flipped[HAUL_MAX_DIMS];
} haul__flip_attributes;

typedef struct haul__roll_attributes {
    int64_t shift; /* becomes non-negative */
    int     axis, reserved;
} haul__roll_attributes;

typedef struct haul__triangle_attributes {
    int64_t diagonal;
} haul__triangle_attributes;

/* ---- rows ---- */

typedef struct haul__softmax_attributes {
    int     axis;
    bool    zeros;  /* a row without a finite element is zeros, not NaN */
    bool    causal; /* row i of a matrix sees its columns 0 to first + i only; the others become zeros */
    bool    reserved[2];
    int64_t first;
} haul__softmax_attributes;

typedef struct haul__layer_norm_attributes {
    double eps;
    bool   without_gx; /* of the gradient: weight needs none */
    bool   reserved[7];
} haul__layer_norm_attributes;

typedef struct haul__rms_norm_attributes {
    double eps;
    bool   without_gx; /* of the gradient: weight needs none */
    bool   reserved[7];
} haul__rms_norm_attributes;

typedef struct haul__linear_attributes {
    bool relu;
} haul__linear_attributes;

/* ---- new tensors ---- */

typedef struct haul__create_attributes {
    haul_device          *device; /* NULL becomes the thread's current device */
    haul_dtype            dtype;
    int                   reserved;
    haul__attribute_shape shape;
    double                value; /* the value of every element; haul_empty sets none */
} haul__create_attributes;

typedef struct haul__like_attributes {
    double value;
} haul__like_attributes;

typedef struct haul__arange_attributes {
    haul_device *device; /* NULL becomes the thread's current device */
    haul_dtype   dtype;
    int          reserved;
    double       start, stop, step;
} haul__arange_attributes;

typedef struct haul__arange_i64_attributes {
    haul_device *device; /* NULL becomes the thread's current device */
    int64_t      start, stop, step;
} haul__arange_i64_attributes;

/* ---- one element at a time ---- */

typedef struct haul__masked_fill_attributes {
    double value;
} haul__masked_fill_attributes;

typedef struct haul__where_scalar_attributes {
    double s;
} haul__where_scalar_attributes;

/* ---- along an axis ---- */

typedef struct haul__argreduce_attributes {
    int  axis;
    bool keepdim;
    bool reserved[3];
} haul__argreduce_attributes;

typedef struct haul__cumsum_attributes {
    int  axis;
    bool reverse;
    bool reserved[3];
} haul__cumsum_attributes;

typedef struct haul__gather_attributes {
    int                   axis;
    bool                  unique; /* no two indices of a line are equal */
    bool                  reserved[3];
    haul__attribute_shape shape; /* of x; the gradient reads it */
} haul__gather_attributes;

typedef struct haul__scatter_attributes {
    int  axis, how; /* haul_scatter_how */
    bool exclude_self, reserved[7];
} haul__scatter_attributes;

typedef struct haul__topk_attributes {
    int64_t k, length; /* of the axis */
    int     axis;
    bool    largest;
    bool    reserved[3];
} haul__topk_attributes;

typedef struct haul__sort_attributes {
    int  axis;
    bool descending;
    bool reserved[3];
} haul__sort_attributes;

typedef struct haul__index_attributes {
    int     axis, reserved;
    int64_t size; /* of x along it; the gradient reads it */
    int64_t skip; /* an element that counts as 0 and gets no gradient; -1 for none */
} haul__index_attributes;

/* The numbers of a pointwise operation. */
typedef struct haul__number_attributes {
    double s0, s1;
} haul__number_attributes;

#endif

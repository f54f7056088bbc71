/* f16 and bf16 on the CPU: conversion of blocks to f32, in which register tiles compute, and back. */
#ifndef HAUL_BACKENDS_CPU_GEMM_HALVES_H
#define HAUL_BACKENDS_CPU_GEMM_HALVES_H

#include <haul/dtype.h>
#include <stdint.h>

/* Rows and columns of 16-bit elements, strides in elements. */
typedef struct haul__cpu_matrix {
    const uint16_t *data;
    int64_t         rows, columns, row, column;
} haul__cpu_matrix;

typedef struct haul__cpu_halves {
    void (*widen)(float *out, int64_t out_row, const haul__cpu_matrix *in);
    void (*narrow)(uint16_t *out, const float *in, int64_t count);
} haul__cpu_halves;

/* The functions for this processor; NULL for dtypes other than f16 and bf16. */
const haul__cpu_halves *haul__cpu_halves_for(haul_dtype dtype);

extern const haul__cpu_halves haul__cpu_halves_f16_base, haul__cpu_halves_bf16_base, haul__cpu_halves_f16_v3,
    haul__cpu_halves_bf16_v3, haul__cpu_halves_f16_v4, haul__cpu_halves_bf16_v4;

#endif

/* What the normalisations over rows share: a part of the kernel text of layer_norm.c and rms_norm.c. */
#ifndef HAUL_OPS_NORMALISE_NORM_KERNEL_H
#define HAUL_OPS_NORMALISE_NORM_KERNEL_H

// clang-format off
#if defined(HAUL_KERNEL) && IS_FLOAT
/* The weight of element j; 1 without weights, where `at` is -1. */
FUNC A norm_weight(GLOBAL const T *w, I64 at, I64 j) { return at < 0 ? LIT(1.0) : LOAD(w, at + j); }
#endif
// clang-format on

#endif

/* Types that kernel text shares with the host: fixed widths, the same layout on both sides. */
#ifndef HAUL_KERNELS_TYPES_H
#define HAUL_KERNELS_TYPES_H

#include <stdint.h>

typedef uint8_t  U8;
typedef uint16_t U16;
typedef uint32_t U32;
typedef uint64_t U64;
typedef int8_t   I8;
typedef int16_t  I16;
typedef int32_t  I32;
typedef int64_t  I64;
typedef float    F32;
typedef double   F64;

#endif

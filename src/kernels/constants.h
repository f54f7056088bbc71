/* Numbers that kernels of several operations share with the host. Those of one operation are in its kernel text. */
#ifndef HAUL_KERNELS_CONSTANTS_H
// clang-format off
#define HAUL_KERNELS_CONSTANTS_H
/* Long sums are kept as SUM_LANES partial sums, element j in lane j % SUM_LANES, which are then added as a tree. Four
 * elements of a lane are added up before they go to its sum. Processors keep lanes in vector registers, and the order is
 * the same on every device. */
enum { SUM_LANES = 32 };

/* So many short rows, of fewer than SHORT_ROW elements, may be taken side by side: half the lanes of a sum, one vector. */
enum { SIDE_ROWS = 16, SHORT_ROW = 4 * SUM_LANES };

/* The record in which kernels note an index out of range, in words of 32 bits: which check it failed (0: nothing is
 * noted), and, as two words each, the lower one first, its position in the tensor of indices, its value, and the number
 * of elements that it may point at. */
enum { FAULT_CHECK = 0, FAULT_POSITION = 2, FAULT_VALUE = 4, FAULT_BOUND = 6, FAULT_WORDS = 8 };

/* A register tile of matrix products and convolutions has TILE_ROWS rows of TILE_VECTORS vectors. Bytes of a vector: */
enum { TILE_ROWS = 6, TILE_VECTORS = 4, VECTOR_BYTES_CPU = 64, VECTOR_BYTES_GPU = 16 };

/* Elements that a kernel collects before they go past the caches. */
enum { LINES_RUN = 1024 };

#endif

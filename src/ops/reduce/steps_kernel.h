/* Numbers of the last step on sums, and of the sums that are mended: shared by the kernels of reduce.c and the host. */
#ifndef HAUL_OPS_REDUCE_STEPS_KERNEL_H
#define HAUL_OPS_REDUCE_STEPS_KERNEL_H

/* The last step on a sum s: nothing; s / divisor; the square root of that; log(s) + centre. */
enum { HAUL__FINISH_NONE, HAUL__FINISH_DIVIDE, HAUL__FINISH_ROOT, HAUL__FINISH_LOG };

/* Sums that leave the range of their dtype are computed again if the last step may bring them back: none; sums; sums of
 * differences to the first element; of squares; of squared deviations. */
enum { HAUL__MENDS_NOTHING, HAUL__MENDS_SUM, HAUL__MENDS_OFFSETS, HAUL__MENDS_SQUARES, HAUL__MENDS_DEVIATIONS };

#endif

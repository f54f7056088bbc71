/* What stands before the kernel text of a CPU unit.
 *
 * A unit is a file that the build writes: one text of kernels for one dtype, compiled once for each instruction level.
 * Under the C prelude its kernels become functions over ranges of work items, which backends/cpu/kernel_table.c lists.
 */
#ifndef HAUL_BACKENDS_CPU_KERNELS_UNIT_H
#define HAUL_BACKENDS_CPU_KERNELS_UNIT_H

#include "backends/cpu/kernels.h"

#define HAUL_KERNEL 1
#include "backends/cpu/prelude.h"
/* after the prelude */
#include "kernels/element.h"
/* after the types: of functions.h and shared.h what the unit uses */
#include HAUL_KERNEL_FUNCTIONS
#include "kernels/pointwise.k.h"

#ifdef HAUL_PARAMS_IN_PLACE
#define p (*haul_p) /* behind the headers, which have functions with this parameter */
#endif

#undef bool /* C11's macro would replace the suffix of that name */

#endif

/* Convolutions by packed panels: the passes of panels.c and panels_weight.c. */
#ifndef HAUL_BACKENDS_CPU_CONV2D_PANELS_H
#define HAUL_BACKENDS_CPU_CONV2D_PANELS_H

#include "backends/cpu/cpu.h"

haul_status haul__cpu_conv2d_panels_weight(const haul__conv2d *c);

#endif

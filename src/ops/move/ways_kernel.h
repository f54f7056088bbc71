/* How an axis of a copy maps to an axis of its operand: numbers that the kernel of remap.c shares with the host. */
#ifndef HAUL_OPS_MOVE_WAYS_KERNEL_H
#define HAUL_OPS_MOVE_WAYS_KERNEL_H

/* The element of an axis of x, which has n, for element c of the result's axis. */
typedef enum haul__way {
    HAUL__WAY_PLAIN,  /* c, where both have n */
    HAUL__WAY_FILL,   /* c + shift, or a number outside of x */
    HAUL__WAY_EDGE,   /* c + shift, or the nearest element of x */
    HAUL__WAY_MIRROR, /* c + shift; outside x it is reflected at the first or last element, once */
    HAUL__WAY_WRAP,   /* (c + shift) modulo n; shift is not negative */
    HAUL__WAY_BACK,   /* n - 1 - c */
    HAUL__WAY_EACH    /* c / shift */
} haul__way;

#endif

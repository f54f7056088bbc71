/* Axes of charts: round distances between ticks, for values that come from files. */
#ifndef CLI_SHARED_AXIS_H
#define CLI_SHARED_AXIS_H

/* The least of 1, 2 and 5 times a power of ten that is at least `least`. Where that has no power of ten that a double
 * holds with all its digits, `least` itself; 1 if it is not above 0. */
double axis_step(double least);

/* The least power of two that is at least `least` and 1, so that labels of bytes are whole: 1, 2, 4 ... 512 of a unit.
 */
double axis_step_of_bytes(double least);

/* The number of multiples of `step`, from 0 on, that are at most `length`: at least 1 and at most AXIS_TICKS, for all
 * values of both. */
enum { AXIS_TICKS = 24 };
int axis_ticks(double length, double step);

#endif

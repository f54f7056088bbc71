#include "cli/shared/axis.h"

#include <float.h>
#include <math.h>

#include "cli/shared/cli.h"

double axis_step(double least)
{
    double power = pow(10, floor(log10(least)));
    if (!(power >= DBL_MIN && power <= DBL_MAX / 10))
        return least > 0 ? least : 1;
    return least <= power ? power : least <= 2 * power ? 2 * power : least <= 5 * power ? 5 * power : 10 * power;
}

double axis_step_of_bytes(double least)
{
    return pow(2, ceil(log2(fmax(least, 1))));
}

int axis_ticks(double length, double step)
{
    return 1 + whole_within(length / step, 0, AXIS_TICKS - 1);
}

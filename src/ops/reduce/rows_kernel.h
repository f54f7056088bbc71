/* Functions of dense rows. They are part of the kernel texts of normalisations and losses, which include it. */
#ifndef HAUL_OPS_REDUCE_ROWS_KERNEL_H
#define HAUL_OPS_REDUCE_ROWS_KERNEL_H

// clang-format off
#if defined(HAUL_KERNEL) && IS_FLOAT
/* The largest element of a dense row, its sum, and the sum of exp(x - most) over it. In kernels of the lanes form. */
FUNC A ROW_MAX(GLOBAL const T *v, I64 n)
{
    const I64 whole = n - n % SUM_LANES;
    const A first = LOAD(v, 0);
    LANE_VALUES(A, s);
    if (!LANES_ARE_THREADS && n <= SUM_LANES / 2) { /* the order does not matter */
        A most = first;
        for (I64 j = 1; j < n; j++) most = M_MAX(most, LOAD(v, j));
        return most;
    }
    EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = first;
    I64 j = 0;
    for (; j + 4 * SUM_LANES <= whole; j += 4 * SUM_LANES) {
        EXPAND(put_fours, A, M_MAX, s, j, LOAD(v, k))
    }
    for (; j < whole; j += SUM_LANES)
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = M_MAX(OF_LANE(s, l), LOAD(v, j + l));
    EACH_REST(l, n - whole) OF_LANE(s, l) = IN_REST(l, n - whole, M_MAX(OF_LANE(s, l), LOAD(v, whole + l)), OF_LANE(s, l));
    LANE_TREE(A, s, M_MAX)
    return OF_FIRST_LANE(s);
}
/* Rows with a NaN or an infinite maximum have no sum of exponentials. */
FUNC A NAN_IF_NOT_FINITE(A most) { return most - most; }
FUNC A ROW_SUM(GLOBAL const T *v, I64 n)
{
    EXPAND(row_fours, s, n, LOAD(v, k))
    return OF_FIRST_LANE(s);
}
FUNC A ROW_EXP_SUM(GLOBAL const T *v, I64 n, A most)
{
    EXPAND(row_fours, s, n, EXP_BELOW(LOAD(v, k) - most))
    return OF_FIRST_LANE(s) + NAN_IF_NOT_FINITE(most);
}
#endif
// clang-format on

#endif

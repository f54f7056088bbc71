/* Kernel text of softmax that only this backend has, behind that of src/ops/normalise/softmax.c: groups of short
 * rows. */
// clang-format off
#include "kernels/groups_cpu.k.h"
TEMPLATE(softmax_groups, NAME, IS_LOG)
GROUPS2(NAME, softmax_params, T, out, const T, x)
{
    const I64 n = p.length;
    I64 i = ITEMS_BEGIN, row = softmax_row(i, p);
    if (n < SHORT_ROW) for (; i + SIDE_ROWS <= ITEMS_END; i += SIDE_ROWS) {
        const T *rows = x + p.offsets[1] + i * n;
        A sides[SIDE_ROWS][SIDE_ROWS], max[SIDE_ROWS], sum[SIDE_ROWS], powers[SIDE_ROWS][SHORT_ROW];
        int seen[SIDE_ROWS], most = 0; /* elements that each row sees; loops over all rows end with the most */
        for (int r = 0; r < SIDE_ROWS; r++) {
            seen[r] = (int)softmax_seen(row, p);
            most = seen[r] > most ? seen[r] : most;
            row = row + 1 == p.rows ? 0 : row + 1;
        }
        const I64 whole = (most + SUM_LANES - 1) / SUM_LANES * SUM_LANES, filled = whole < n ? whole : n;
        for (int r = 0; r < SIDE_ROWS; r++) {
            const T *v = rows + r * n;
            const A start = LOAD(v, 0);
            const int rest = 0;
            for (I64 k = 0; k < whole; k += SIDE_ROWS) {
                const int left = seen[r] - (int)k;
                EACH_SIDE(l) powers[r][k + l] = l < left ? LOAD(v, k + l) : start;
            }
            EXPAND(group_row, A, sides[r], start, M_MAX, powers[r][j])
        }
        EXPAND(group_tree, A, sides, M_MAX)
        EACH_SIDE(r) max[r] = softmax_max(sides[0][r], p.zeros);
        for (int r = 0; r < SIDE_ROWS; r++) {
            const A m = max[r];
            A low[SIDE_ROWS], high[SIDE_ROWS];
            EACH_SIDE(l) low[l] = 0;
            EACH_SIDE(l) high[l] = 0;
            for (I64 k = 0; k < whole; k += SIDE_ROWS) { /* the zeros behind a row change no sum */
                const int left = seen[r] - (int)k;
                EACH_SIDE(l) {
                    const A power = EXP_BELOW(powers[r][k + l] - m);
                    powers[r][k + l] = l < left ? power : 0;
                }
            }
            for (I64 k = 0; k < whole; k += SUM_LANES) EACH_SIDE(l) low[l] += powers[r][k + l];
            for (I64 k = SIDE_ROWS; k < whole; k += SUM_LANES) EACH_SIDE(l) high[l] += powers[r][k + l];
            EACH_SIDE(l) sides[r][l] = low[l] + high[l];
        }
        EXPAND(group_tree, A, sides, SUM_OF)
        EACH_SIDE(r) sum[r] = softmax_sum(sides[0][r] + NAN_IF_NOT_FINITE(max[r]), p.zeros);
        if (IS_LOG) EACH_SIDE(r) sum[r] = M_LOG(sum[r]);
        for (int r = 0; r < SIDE_ROWS; r++) {
            const T *v = rows + r * n;
            T *o = out + p.offsets[0] + (i + r) * n;
            const A m = max[r], s = sum[r], none = 0 / s; /* NaN if s is, as in the plain form */
            EACH_OF_ROW(j, filled) STORE(o, j, IS_LOG ? LOAD(v, j) - m - s : powers[r][j] / s);
            EACH_OF_ROW(j, n - filled) STORE(o, filled + j, none);
        }
    }
    return i;
}
END_TEMPLATE
EXPAND(softmax_groups, softmax, 0)
EXPAND(softmax_groups, log_softmax, 1)

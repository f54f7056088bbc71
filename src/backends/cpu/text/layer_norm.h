/* Kernel text of layer normalisation that only this backend has, behind that of src/ops/normalise/layer_norm.c: groups
 * of short rows. */
// clang-format off
#include "kernels/groups_cpu.k.h"
/* SUMS[0], the sums of TERM, an expression of j, over each row r of the group. */
TEMPLATE(layer_norm_sums, SUMS, TERM)
        A SUMS[SIDE_ROWS][SIDE_ROWS];
        for (int r = 0; r < SIDE_ROWS; r++) {
            const T *v = x + p.at[2] + (i + r) * p.n;
            const A mean = means[r];
            EXPAND(group_row, A, SUMS[r], 0, SUM_OF, TERM)
            (void)mean; /* their own sums do without the means */
        }
        EXPAND(group_tree, A, SUMS, SUM_OF)
END_TEMPLATE
GROUPS5(layer_norm, layer_norm_params, T, y, ACC, stats, const T, x, const T, w, const T, bias)
{
    const I64 whole = p.n - p.n % SUM_LANES;
    const int rest = (int)(p.n - whole);
    I64 i = ITEMS_BEGIN;
    if (p.n < SHORT_ROW) for (; i + SIDE_ROWS <= ITEMS_END; i += SIDE_ROWS) {
        A means[SIDE_ROWS] = {0}, scales[SIDE_ROWS];
        EXPAND(layer_norm_sums, sums, LOAD(v, j))
        EACH_SIDE(r) means[r] = sums[0][r] / (A)p.n;
        EXPAND(layer_norm_sums, squares, (LOAD(v, j) - mean) * (LOAD(v, j) - mean))
        EACH_SIDE(r) scales[r] = LIT(1.0) / M_SQRT(squares[0][r] / (A)p.n + SCALAR(p.eps));
        int lost = 0;
        EACH_SIDE(r) lost |= layer_norm_is_lost(scales[r]);
        for (int r = 0; r < SIDE_ROWS; r++) {
            const T *v = x + p.at[2] + (i + r) * p.n;
            T *o = y + p.at[0] + (i + r) * p.n;
            A mean = means[r], scale = scales[r];
            if (lost && layer_norm_is_lost(scale)) scale = layer_norm_mended(v, p, &mean);
            EACH_OF_ROW(j, p.n) {
                const A normal = (LOAD(v, j) - mean) * scale;
                STORE(o, j, layer_norm_bias(bias, p.at[4], j, normal * norm_weight(w, p.at[3], j)));
            }
            if (p.at[1] >= 0) { stats[p.at[1] + 2 * (i + r)] = mean; stats[p.at[1] + 2 * (i + r) + 1] = scale; }
        }
    }
    return i;
}

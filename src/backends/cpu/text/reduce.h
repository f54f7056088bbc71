/* Kernel text of reductions that only this backend has, behind that of src/ops/reduce/reduce.c: groups of rows without
 * gaps at equal distances. */
// clang-format off
#include "kernels/groups_cpu.k.h"
enum { GROUPS_LONGEST = 1024 }; /* elements of a row that is taken with others */

/* Puts 4 * SUM_LANES elements from AT on together: put_fours for one vector, S. */
TEMPLATE(reduce_side_fours, STEP, TERM, S, AT)
                    EACH_SIDE(l) a[l] = STEP(TERM(LOAD(v, AT + l), f, c), TERM(LOAD(v, AT + l + SUM_LANES), f, c));
                    EACH_SIDE(l) b[l] = STEP(TERM(LOAD(v, AT + l + 2 * SUM_LANES), f, c), TERM(LOAD(v, AT + l + 3 * SUM_LANES), f, c));
                    EACH_SIDE(l) a[l] = STEP(a[l], b[l]);
                    EACH_SIDE(l) S[l] = STEP(S[l], a[l]);
END_TEMPLATE

/* The same for those of the `left` elements from j on whose lanes are in S; its first lane is FIRST. */
TEMPLATE(reduce_side_rest, NAME, V, S, FIRST)
                    EACH_SIDE(l) {
                        const V term = NAME##_term(l + FIRST < left ? LOAD(v, j + l + FIRST) : f, f, c);
                        S[l] = l + FIRST < left ? NAME##_step(S[l], term) : S[l];
                    }
END_TEMPLATE

/* HAS_FOURS: rows have SHORT_ROW elements or more. HAS_REST: their number need not be a multiple of SUM_LANES. Lanes behind
 * a row then keep their value: even a START that is an element, met again, would change the sign of a maximum that is 0.
 * Loops run at least once, so that low and high stay in registers. */
TEMPLATE(reduce_sides, NAME, V, PUT, HAS_FOURS, HAS_REST)
        for (; i + SIDE_ROWS <= ITEMS_END; i += SIDE_ROWS) {
            V sides[SIDE_ROWS][SIDE_ROWS];
            for (int r = 0; r < SIDE_ROWS; r++) {
                const T *v = x + p.x_offset + (i + r) * p.kept_strides[0];
                const ACC *c = centre + p.centre + i + r;
                const A f = LOAD(v, 0);
                V low[SIDE_ROWS], high[SIDE_ROWS], a[SIDE_ROWS], b[SIDE_ROWS];
                I64 j = 0;
                EACH_SIDE(l) low[l] = NAME##_start(f);
                EACH_SIDE(l) high[l] = NAME##_start(f);
                if (HAS_FOURS) do {
                    EXPAND(reduce_side_fours, NAME##_step, NAME##_term, low, j)
                    EXPAND(reduce_side_fours, NAME##_step, NAME##_term, high, j + SIDE_ROWS)
                } while ((j += 4 * SUM_LANES) + 4 * SUM_LANES <= p.run);
                if (!HAS_REST) do {
                    EACH_SIDE(l) low[l] = NAME##_step(low[l], NAME##_term(LOAD(v, j + l), f, c));
                    EACH_SIDE(l) high[l] = NAME##_step(high[l], NAME##_term(LOAD(v, j + l + SIDE_ROWS), f, c));
                } while ((j += SUM_LANES) < p.run);
                if (HAS_REST) do {
                    const int left = (int)(p.run - j);
                    EXPAND(reduce_side_rest, NAME, V, low, 0)
                    EXPAND(reduce_side_rest, NAME, V, high, SIDE_ROWS)
                } while ((j += SUM_LANES) < p.run);
                EACH_SIDE(l) sides[r][l] = NAME##_step(low[l], high[l]);
            }
            EXPAND(group_tree, V, sides, NAME##_step)
            EACH_SIDE(r) {
                EXPAND(PUT, i + r, sides[0][r])
            }
        }
END_TEMPLATE
TEMPLATE(reduce_groups, NAME, R, V, PUT, MENDS, LONGEST)
GROUPS3(NAME, reduce_params, R, out, const T, x, const ACC, centre)
{
    I64 i = ITEMS_BEGIN;
    if (p.units != 1 || p.stride != 1 || p.kept != 1) return i;
    if (p.run < SHORT_ROW && p.run % SUM_LANES == 0) {
        EXPAND(reduce_sides, NAME, V, PUT, 0, 0)
    } else if (p.run < SHORT_ROW) {
        EXPAND(reduce_sides, NAME, V, PUT, 0, 1)
    } else if (p.run <= LONGEST) {
        EXPAND(reduce_sides, NAME, V, PUT, 1, 1)
    }
#if MENDS
    if (p.mends) reduce_mend_range(out, x, centre, p, ITEMS_BEGIN, i, REDUCE_FORM_ROWS);
#endif
    return i;
}
END_TEMPLATE
EXPAND(reduce_groups, sum, ACC, ACC, REDUCE_PUT_SUM, 1, GROUPS_LONGEST)
EXPAND(reduce_groups, max, T, A, REDUCE_PUT, 0, GROUPS_LONGEST)
EXPAND(reduce_groups, min, T, A, REDUCE_PUT, 0, GROUPS_LONGEST)
EXPAND(reduce_groups, prod, ACC, ACC, REDUCE_PUT_SUM, 0, GROUPS_LONGEST)
EXPAND(reduce_groups, sum_abs, ACC, ACC, REDUCE_PUT_SUM, 0, GROUPS_LONGEST)
EXPAND(reduce_groups, sum_squares, ACC, ACC, REDUCE_PUT_SUM, 1, GROUPS_LONGEST)
EXPAND(reduce_groups, sum_offsets, ACC, ACC, REDUCE_PUT_SUM, 1, GROUPS_LONGEST)
EXPAND(reduce_groups, sum_deviations, ACC, ACC, REDUCE_PUT_SUM, 1, GROUPS_LONGEST)
EXPAND(reduce_groups, sum_exponentials, ACC, ACC, REDUCE_PUT_SUM, 0, SHORT_ROW - 1)
EXPAND(reduce_groups, max_abs, T, A, REDUCE_PUT, 0, GROUPS_LONGEST)

/* What kernels do with a row, in the lanes form (src/backends/cpu/prelude.h). shared.h has the functions of dense rows.
 */
// clang-format off

/* const A SUM: the sum of TERM, an expression of j, over j below N. */
TEMPLATE(row_sum, SUM, N, TERM)
        LANE_VALUES(A, lanes_of_##SUM);
        EACH_LANE(l, SUM_LANES) OF_LANE(lanes_of_##SUM, l) = 0;
        for (I64 k = 0; k + SUM_LANES <= N; k += SUM_LANES)
            EACH_LANE(l, SUM_LANES) { const I64 j = k + l; OF_LANE(lanes_of_##SUM, l) += TERM; }
        EACH_REST(l, N % SUM_LANES) {
            const I64 j = N - N % SUM_LANES + l;
            OF_LANE(lanes_of_##SUM, l) = IN_REST(l, N % SUM_LANES, OF_LANE(lanes_of_##SUM, l) + TERM, OF_LANE(lanes_of_##SUM, l));
        }
        LANE_TREE(A, lanes_of_##SUM, SUM_OF)
        const A SUM = OF_FIRST_LANE(lanes_of_##SUM);
END_TEMPLATE

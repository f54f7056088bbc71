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

/* Puts the 4 * SUM_LANES elements from AT on together by STEP: the four of each lane first, then those with the lane's own
 * value in S, so that few steps wait for one another. ELEMENT, an expression of k, is what element k gives. Each loop has
 * one step, as compilers do not vectorise several. */
TEMPLATE(put_fours, V, STEP, S, AT, ELEMENT)
        EACH_PART(part, V) {
            PART_VALUES(V, fours);
            PART_VALUES(V, others);
            EACH_OF_PART(l, V) {
                I64 k = AT + part + l;
                const V one = ELEMENT;
                k += SUM_LANES;
                OF_PART(fours, l) = STEP(one, ELEMENT);
            }
            EACH_OF_PART(l, V) {
                I64 k = AT + part + l + 2 * SUM_LANES;
                const V one = ELEMENT;
                k += SUM_LANES;
                OF_PART(others, l) = STEP(one, ELEMENT);
            }
            EACH_OF_PART(l, V) OF_PART(fours, l) = STEP(OF_PART(fours, l), OF_PART(others, l));
            EACH_OF_PART(l, V) OF_LANE(S, part + l) = STEP(OF_LANE(S, part + l), OF_PART(fours, l));
        }
END_TEMPLATE

/* The sum of TERM, an expression of k, over k below N, for rows that may be long: S has it behind LANE_TREE. */
TEMPLATE(row_fours, S, N, TERM)
    const I64 whole = N - N % SUM_LANES;
    LANE_VALUES(A, S);
    EACH_LANE(l, SUM_LANES) OF_LANE(S, l) = 0;
    I64 j = 0;
    for (; j + 4 * SUM_LANES <= whole; j += 4 * SUM_LANES) {
        EXPAND(put_fours, A, SUM_OF, S, j, TERM)
    }
    for (; j < whole; j += SUM_LANES) EACH_LANE(l, SUM_LANES) { const I64 k = j + l; OF_LANE(S, l) += TERM; }
    EACH_REST(l, N - whole) { const I64 k = whole + l; OF_LANE(S, l) = IN_REST(l, N - whole, OF_LANE(S, l) + TERM, OF_LANE(S, l)); }
    LANE_TREE(A, S, SUM_OF)
END_TEMPLATE

/* Kernels over groups of rows, for processors with vectors of SIDE_ROWS elements (HAS_GROUPS of prelude.h): a part of
 * the texts of this folder. Adding the lanes of a short row takes as long as adding its elements. So GROUP_TREE does it
 * for SIDE_ROWS rows at once, one in each element of a vector, in the steps of LANE_TREE: results have the bits of the
 * plain form in src/ops, which takes the rows that remain (tests/ops/test_ops_row_groups.c).
 *
 * GROUPSn(kernel, params, type0, buffer0, ...) begins the groups of a kernel with n buffers. It returns the first of
 * its items ITEMS_BEGIN .. ITEMS_END that it left to the plain form. EACH_SIDE(l) runs over the SIDE_ROWS elements of a
 * vector: loops over one vector keep it in a register, and over all lanes compilers do not. */
// clang-format off
/* A function of its own, as longer rows become slower in one with it. */
#define GROUPS_ENTRY(name, P, args, ...)                                                                               \
    static inline I64 CAT(HAUL_NAME(name), groups)(__VA_ARGS__, const P p, I64 haul_first, I64 haul_last);                  \
    RARE_FUNC I64 haul_groups_##name(void *const *haul_buffers, const void *haul_params, I64 haul_first, I64 haul_last) \
    { return CAT(HAUL_NAME(name), groups)(args, *(const P *)haul_params, haul_first, haul_last); }                          \
    static inline I64 CAT(HAUL_NAME(name), groups)(__VA_ARGS__, const P p, I64 haul_first, I64 haul_last)
#define GROUPS2(name, P, T0, b0, T1, b1) GROUPS_ENTRY(name, P, BUFFER(0) COMMA BUFFER(1), T0 *b0, T1 *b1)
#define GROUPS3(name, P, T0, b0, T1, b1, T2, b2)                                                                       \
    GROUPS_ENTRY(name, P, BUFFER(0) COMMA BUFFER(1) COMMA BUFFER(2), T0 *b0, T1 *b1, T2 *b2)
#define GROUPS5(name, P, T0, b0, T1, b1, T2, b2, T3, b3, T4, b4)                                                       \
    GROUPS_ENTRY(name, P, BUFFER(0) COMMA BUFFER(1) COMMA BUFFER(2) COMMA BUFFER(3) COMMA BUFFER(4), T0 *b0, T1 *b1,   \
                 T2 *b2, T3 *b3, T4 *b4)

#define EACH_SIDE(l) BLOCK_LOOP for (int l = 0; l < SIDE_ROWS; l++)
typedef U32 haul_side __attribute__((vector_size(4 * SIDE_ROWS), aligned(4), may_alias));
/* Two vectors a and b become two others. Where l & w is 0, the first has element l of a and the second element l + w; where
 * it is w, they have elements l - w and l of b. So one step over both is a level of either vector's tree, of width w. */
#define HAUL_SIDE_FIRST(w, l)  ((l) & (w) ? (l) - (w) + SIDE_ROWS : (l))
#define HAUL_SIDE_SECOND(w, l) ((l) & (w) ? (l) + SIDE_ROWS : (l) + (w))
#define HAUL_SIDE_4(PICK, w, l) PICK(w, l), PICK(w, (l) + 1), PICK(w, (l) + 2), PICK(w, (l) + 3)
#define HAUL_SIDE_16(PICK, w)                                                                                          \
    HAUL_SIDE_4(PICK, w, 0), HAUL_SIDE_4(PICK, w, 4), HAUL_SIDE_4(PICK, w, 8), HAUL_SIDE_4(PICK, w, 12)
TEMPLATE(group_level, V, S, STEP, W)
            for (int q = 0; q < W; q++) {
                V near[SIDE_ROWS], far[SIDE_ROWS];
                const haul_side a = *(const haul_side *)S[q], b = *(const haul_side *)S[q + W];
                *(haul_side *)near = __builtin_shufflevector(a, b, HAUL_SIDE_16(HAUL_SIDE_FIRST, W));
                *(haul_side *)far = __builtin_shufflevector(a, b, HAUL_SIDE_16(HAUL_SIDE_SECOND, W));
                EACH_SIDE(l) S[q][l] = STEP(near[l], far[l]);
            }
END_TEMPLATE
/* S[l], of a type V, is what lanes l and l + SIDE_ROWS of a row have together: STEP puts each TERM, an expression of j below
 * n, to START. The first `whole` elements fill lanes, and `rest` elements remain. */
TEMPLATE(group_row, V, S, START, STEP, TERM)
            V low[SIDE_ROWS], high[SIDE_ROWS];
            EACH_SIDE(l) low[l] = START;
            EACH_SIDE(l) high[l] = START;
            for (I64 k = 0; k < whole; k += SUM_LANES) {
                EACH_SIDE(l) { const I64 j = k + l; low[l] = STEP(low[l], TERM); }
                EACH_SIDE(l) { const I64 j = k + l + SIDE_ROWS; high[l] = STEP(high[l], TERM); }
            }
            if (rest) {
                EACH_SIDE(l) { const I64 j = whole + l; low[l] = l < rest ? STEP(low[l], TERM) : low[l]; }
                EACH_SIDE(l) { const I64 j = whole + l + SIDE_ROWS; high[l] = l + SIDE_ROWS < rest ? STEP(high[l], TERM) : high[l]; }
            }
            EACH_SIDE(l) S[l] = STEP(low[l], high[l]);
END_TEMPLATE
/* S[r][l], of a type V of 4 bytes, is what lanes l and l + SIDE_ROWS of row r have together. Behind it, S[0][r] is the
 * result of row r. */
TEMPLATE(group_tree, V, S, STEP)
            EXPAND(group_level, V, S, STEP, 8)
            EXPAND(group_level, V, S, STEP, 4)
            EXPAND(group_level, V, S, STEP, 2)
            EXPAND(group_level, V, S, STEP, 1)
END_TEMPLATE

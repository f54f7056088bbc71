/* Kernel text of matrix products that only this backend has, behind that of src/ops/matmul/gemm.c: tiles in memory that
 * the threads of a block share. */
// clang-format off
#if IS_FLOAT
/* A tile of GEMM_SIDE x GEMM_SIDE elements of C takes GEMM_TEAM threads, each 8 x 8 of them: four of its rows in each half
 * of the tile, and four columns. Parts of A and B, GEMM_DEPTH steps deep, are laid down in shared memory for all of them.
 * A work item is a thread; blocks are whole teams, which take the same number of steps. */
#define GEMM_TEAMS (HAUL_BLOCK / GEMM_TEAM)
#define GEMM_DEPTH (sizeof(ACC) > 4 ? 8 : 16)
#define GEMM_PLACE(side, i) ((i) / 4 * (GEMM_SIDE / 2) + (side) * 4 + (i) % 4)
KERNEL4(gemm_tile, gemm_params, T, out, const T, in0, const T, in1, const T, bias)
{
    SHARED ACC as[GEMM_TEAMS][GEMM_DEPTH][GEMM_SIDE + 4], bs[GEMM_TEAMS][GEMM_DEPTH][GEMM_SIDE + 4];
    const int team = (int)threadIdx.x / GEMM_TEAM, me = (int)threadIdx.x % GEMM_TEAM;
    const int down = me / 8, right = me % 8, depth = (int)GEMM_DEPTH;
    const I64 strips = (p.m + GEMM_SIDE - 1) / GEMM_SIDE, step = (I64)gridDim.x * blockDim.x;
    for (I64 first = (I64)blockIdx.x * blockDim.x; first < p.items; first += step) {
        const I64 tile = first / GEMM_TEAM + team, above = QUOTIENT(tile, strips), z = QUOTIENT(above, p.panels);
        const I64 i0 = (tile - above * strips) * GEMM_SIDE, j0 = (above - z * p.panels) * GEMM_SIDE;
        const I64 rows = tile * GEMM_TEAM < p.items ? p.m - i0 : 0, columns = p.n - j0; /* teams behind the last: none */
        GLOBAL const T *a = in0 + p.a_offset + z * p.a_batch + i0 * p.a_row;
        GLOBAL const T *b = in1 + p.b_offset + z * p.b_batch + j0 * p.b_col;
        ACC sum[8][8];
        PACK_LOOP for (int i = 0; i < 8; i++) PACK_LOOP for (int j = 0; j < 8; j++) sum[i][j] = 0;
        for (I64 k0 = 0; k0 < p.k; k0 += depth) {
            const int left = (int)M_MIN_OF((I64)depth, p.k - k0);
            /* Neighbouring threads read neighbouring elements. */
            for (int e = me; e < GEMM_SIDE * depth; e += GEMM_TEAM) {
                const int i = p.a_col == 1 ? e / depth : e % GEMM_SIDE, k = p.a_col == 1 ? e % depth : e / GEMM_SIDE;
                as[team][k][i] = i < rows && k < left ? LOAD(a, i * p.a_row + (k0 + k) * p.a_col) : (ACC)0;
            }
            for (int e = me; e < GEMM_SIDE * depth; e += GEMM_TEAM) {
                const int j = p.b_row == 1 ? e / depth : e % GEMM_SIDE, k = p.b_row == 1 ? e % depth : e / GEMM_SIDE;
                bs[team][k][j] = rows > 0 && j < columns && k < left ? LOAD(b, (k0 + k) * p.b_row + j * p.b_col) : (ACC)0;
            }
            BLOCK_BARRIER;
            for (int k = 0; k < depth; k++) {
                ACC x[8], y[8];
                PACK_LOOP for (int i = 0; i < 8; i++) x[i] = as[team][k][GEMM_PLACE(down, i)];
                PACK_LOOP for (int j = 0; j < 8; j++) y[j] = bs[team][k][GEMM_PLACE(right, j)];
                PACK_LOOP for (int i = 0; i < 8; i++)
                    PACK_LOOP for (int j = 0; j < 8; j++) sum[i][j] = M1(fma)(x[i], y[j], sum[i][j]);
            }
            BLOCK_BARRIER;
        }
        PACK_LOOP for (int i = 0; i < 8; i++) {
            const I64 r = GEMM_PLACE(down, i);
            GLOBAL T *c = out + p.c_offset + z * p.c_batch + (i0 + r) * p.c_row + j0;
            PACK_LOOP for (int j = 0; j < 8; j++) {
                const I64 q = GEMM_PLACE(right, j);
                if (r < rows && q < columns) {
                    const A start = p.has_bias ? LOAD(bias, p.bias_offset + j0 + q) : LIT(0.0);
                    STORE(c, q, sum[i][j] + start + (p.accumulate ? LOAD(c, q) : LIT(0.0)));
                }
            }
        }
    }
}
#endif

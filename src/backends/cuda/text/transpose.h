/* Kernel text of transposing copies that only this backend has, behind that of src/engine/layout/transpose.c: tiles in
 * memory that the threads of a block share. */
// clang-format off
/* A warp copies a tile. Neighbouring threads read neighbours in the source, and then write neighbours in the result. A row of
 * a tile has one more element, so that those of a column are in different banks of the memory. */
KERNEL2(transpose, transpose_params, T, out, const T, x)
{
    enum { SIDE = sizeof(T) > 4 ? TRANSPOSE_WIDE_SIDE : TRANSPOSE_SIDE, STEP = TRANSPOSE_TEAM / SIDE };
    SHARED T tiles[HAUL_BLOCK / TRANSPOSE_TEAM][SIDE][SIDE + 1];
    const int team = (int)threadIdx.x / TRANSPOSE_TEAM, me = (int)threadIdx.x % TRANSPOSE_TEAM;
    const int near = me % SIDE, far = me / SIDE;
    const I64 across = (p.columns + SIDE - 1) / SIDE, down = (p.rows + SIDE - 1) / SIDE;
    const I64 step = (I64)gridDim.x * blockDim.x;
    for (I64 first = (I64)blockIdx.x * blockDim.x; first < p.items; first += step) {
        const I64 tile = first / TRANSPOSE_TEAM + team, strip = QUOTIENT(tile, across);
        I64 matrix = QUOTIENT(strip, down), to = p.offsets[0], from = p.offsets[1];
        const I64 row0 = (strip - matrix * down) * SIDE, column0 = (tile - strip * across) * SIDE;
        const int rows = tile * TRANSPOSE_TEAM < p.items ? (int)least(SIDE, p.rows - row0) : 0; /* teams behind the last: none */
        const int columns = (int)least(SIDE, p.columns - column0);
        for (int d = p.ndim - 1; d >= 0; d--) {
            const I64 next = QUOTIENT(matrix, p.dims[d]), at = matrix - next * p.dims[d];
            to += at * p.strides[0].of[d];
            from += at * p.strides[1].of[d];
            matrix = next;
        }
        GLOBAL const T *v = x + from + column0 * p.column_step + row0;
        GLOBAL T *o = out + to + row0 * p.row_step + column0;
        PACK_LOOP for (int k = far; k < SIDE; k += STEP)
            if (k < columns && near < rows) tiles[team][k][near] = v[k * p.column_step + near];
        BLOCK_BARRIER;
        PACK_LOOP for (int k = far; k < SIDE; k += STEP)
            if (k < rows && near < columns) o[k * p.row_step + near] = tiles[team][near][k];
        BLOCK_BARRIER;
    }
}

/* How reductions mend sums that left the range of their type, where the result may be back in it: means, norms,
 * variances. It is part of the kernel text of reduce.c, which includes it. */
#ifndef HAUL_OPS_REDUCE_REDUCE_MEND_KERNEL_H
#define HAUL_OPS_REDUCE_REDUCE_MEND_KERNEL_H

// clang-format off
#if IS_FLOAT
FUNC I32 reduce_is_lost(ACC s, I32 mends)
{
    return mends && is_outside(s, mends < HAUL__MENDS_SQUARES ? -range_most() : squares_least());
}
/* Element `at` of v, of an output whose first element is f and whose centre is c, as a term of a mended sum. */
FUNC ACC reduce_mended_term(GLOBAL const T *v, I64 at, ACC f, ACC c, ACC factor, const I32 mends, const I64 parts)
{
    const ACC e = LOAD(v, at), scaled = e * factor;
    if (parts) return !is_finite(e) || factor > 1 ? LOAD(v, at + parts) : mends >= HAUL__MENDS_SQUARES ? scaled * factor : scaled;
    if (mends == HAUL__MENDS_SQUARES || mends == HAUL__MENDS_SUM) return mends == HAUL__MENDS_SUM ? scaled : scaled * scaled;
    const ACC d = factor > 1 ? (e - f - 2 * c) * factor : scaled - f * factor - 2 * factor * c; /* equal ones make 0 */
    return mends == HAUL__MENDS_OFFSETS ? d : d * d;
}
/* Stores sum k, of terms with this factor, which is a power of two. */
FUNC void reduce_put_mended(GLOBAL ACC *out, const reduce_params p, I64 k, ACC s, ACC factor)
{
    const ACC back = LIT(1.0) / factor, mean = p.finish == HAUL__FINISH_NONE ? s : s / SCALAR(p.divisor);
    const ACC root = p.finish == HAUL__FINISH_ROOT ? M_SQRT(mean) : p.mends >= HAUL__MENDS_SQUARES ? mean * back : mean;
    if (p.out_parts) out[p.out_offset + p.out_parts + k] = s;
    else reduce_store(out, p.out_offset + k, root * back, p.narrow);
}
/* Adds item i of the rows form again, in lanes, whose plain sum left the range. */
RARE_FUNC void reduce_mend_row(GLOBAL ACC *out, GLOBAL const T *x, GLOBAL const ACC *centre, const reduce_params p, I64 i, ACC plain)
{
    const I64 o = QUOTIENT(i, p.chunks), first = (i - o * p.chunks) * p.chunk, end = M_MIN_OF(first + p.chunk, p.units);
    GLOBAL const T *base = x + p.x_offset + reduce_at(p.kept_dims, p.kept_strides, p.kept, o);
    const ACC factor = range_factor(plain), c = p.mends == HAUL__MENDS_DEVIATIONS && !p.parts ? centre[p.centre + o] : (ACC)0;
    LANE_VALUES(ACC, s);
    LANE_VALUES(ACC, t);
    EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;
    for (I64 u = first; u < end; u++) {
        const I64 r = QUOTIENT(u, p.pieces), skip = (u - r * p.pieces) * p.piece, n = M_MIN_OF(p.piece, p.run - skip);
        GLOBAL const T *v = base + reduce_at(p.reduced_dims, p.reduced_strides, p.reduced, r) + skip * p.stride;
        EACH_LANE(l, SUM_LANES) OF_LANE(t, l) = 0;
        for (I64 j = 0; j < n; j += SUM_LANES)
            EACH_LANE(l, M_MIN_OF(n - j, SUM_LANES))
                OF_LANE(t, l) += reduce_mended_term(v, (j + l) * p.stride, LOAD(base, 0), c, factor, p.mends, p.parts);
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) += OF_LANE(t, l);
    }
    LANE_TREE(ACC, s, SUM_OF)
    const ACC all = OF_FIRST_LANE(s);
    if (IS_FIRST_LANE) reduce_put_mended(out, p, i, all, factor);
}
/* The same in one thread, of columns or of rows of few elements. */
enum { REDUCE_FORM_ROWS, REDUCE_FORM_FEW, REDUCE_FORM_COLUMNS };
RARE_FUNC void reduce_mend_column(GLOBAL ACC *out, GLOBAL const T *x, GLOBAL const ACC *centre, const reduce_params p, I64 i, ACC plain, const int form)
{
    const int few = form == REDUCE_FORM_FEW;
    const I64 chunk = QUOTIENT(i, p.outputs), o = i - chunk * p.outputs;
    const I64 k = few ? o : QUOTIENT(o, p.run), column = few ? 0 : o - k * p.run;
    const I64 first = chunk * p.chunk, end = few ? p.run : M_MIN_OF(first + p.chunk, p.units);
    GLOBAL const T *base = x + p.x_offset + reduce_at(p.kept_dims, p.kept_strides, p.kept, k) + column * p.stride;
    const ACC factor = range_factor(plain), c = p.mends == HAUL__MENDS_DEVIATIONS && !p.parts ? centre[p.centre + o] : (ACC)0;
    ACC s = 0;
    for (I64 u = first; u < end;) {
        ACC t = 0;
        for (const I64 stop = M_MIN_OF(u + REDUCE_BLOCK, end); u < stop; u++) {
            const I64 at = few ? u * p.stride : reduce_at(p.reduced_dims, p.reduced_strides, p.reduced, u);
            t += reduce_mended_term(base, at, LOAD(base, 0), c, factor, p.mends, p.parts);
        }
        s += t;
    }
    reduce_put_mended(out, p, i, s, factor);
}
/* Looks at the results of items i .. end, which were taken side by side, and mends them. */
RARE_FUNC void reduce_mend_range(GLOBAL ACC *out, GLOBAL const T *x, GLOBAL const ACC *centre, const reduce_params p, I64 i, const I64 end, const int form)
{
    const ACC root = p.finish == HAUL__FINISH_NONE ? squares_least() : reduce_finish(squares_least(), SCALAR(p.divisor), 0, p.finish);
    const ACC least = p.mends < HAUL__MENDS_SQUARES ? -range_most() : root;
    for (; i < end; i += REDUCE_WIDTH) {
        const int n = (int)M_MIN_OF(end - i, (I64)REDUCE_WIDTH);
        int lost = 0;
        for (int l = 0; l < n; l++) lost |= is_outside(reduce_stored(out, p.out_offset + i + l, p.narrow), least);
        for (int l = 0; lost && l < n; l++) {
            const ACC v = reduce_stored(out, p.out_offset + i + l, p.narrow);
            if (!is_outside(v, least)) continue;
            if (form == REDUCE_FORM_ROWS) reduce_mend_row(out, x, centre, p, i + l, v);
            else reduce_mend_column(out, x, centre, p, i + l, v, form);
        }
    }
}
#endif
// clang-format on

#endif

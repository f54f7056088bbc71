/* What the kernels of linear algebra share. Elements are f32 or f64, so T is also the type of computations. */

/* Columns that an item takes side by side. Their sums are variables, which compilers keep in registers. */
enum { SIDE_COLUMNS = 32 };

/* Rounds of Jacobi's method; ten are many. */
enum { JACOBI_ROUNDS = 40 };

// clang-format off
#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
/* y -= f x, for the elements from `first` on, below n. Whole blocks of 16 begin at multiples of 16; elements before
 * `first` keep their values. */
FUNC void linalg_subtract(GLOBAL T *y, GLOBAL const T *x, A f, I64 first, I64 n)
{
    I64 j = first / 16 * 16;
    for (; j + 16 <= n; j += 16) {
        const I32 skip = (I32)M_MAX_OF(first - j, (I64)0);
        BLOCK_LOOP for (int l = 0; l < 16; l++) y[j + l] = l < skip ? y[j + l] : y[j + l] - f * x[j + l];
    }
    for (I64 k = M_MAX_OF(j, first); k < n; k++) y[k] -= f * x[k];
}

/* The sum of x y, as 16 sums of every 16th element. */
FUNC A linalg_dot(GLOBAL const T *x, GLOBAL const T *y, I64 n)
{
    A sums[16];
    for (int l = 0; l < 16; l++) sums[l] = LIT(0.0);
    I64 j = 0;
    for (; j + 16 <= n; j += 16) BLOCK_LOOP for (int l = 0; l < 16; l++) sums[l] += x[j + l] * y[j + l];
    A sum = LIT(0.0);
    for (; j < n; j++) sum += x[j] * y[j];
    for (int l = 0; l < 16; l++) sum += sums[l];
    return sum;
}

/* x, y = c x - s y, s x + c y */
FUNC void linalg_rotate(GLOBAL T *x, GLOBAL T *y, A c, A s, I64 n)
{
    VECTOR_LOOP for (I64 j = 0; j < n; j++) {
        const A a = x[j], b = y[j];
        x[j] = c * a - s * b;
        y[j] = s * a + c * b;
    }
}

/* The tangent of the smaller angle whose doubled cotangent is theta. */
FUNC A linalg_tangent(A theta)
{
    const A size = M_ABS(theta), root = size < LIT(1e9) ? M_SQRT(theta * theta + LIT(1.0)) : size; /* no overflow */
    const A t = LIT(1.0) / (size + root);
    return theta < LIT(0.0) ? -t : t;
}

/* Rows whose cosine is at most this count as orthogonal. */
FUNC A linalg_near(void) { return A_IS_F32 ? LIT(4e-7) : LIT(1e-15); }
#endif
// clang-format on

/* Random numbers: word i of a draw is word i % 4 of Philox block offset + i / 4, on every device.
 *
 * bits       an element a word
 * uniform    f32: the upper 24 bits of a word; f64: 53 bits of two
 * integers   the upper half of the product of two words (64 bits) and the range: the chances of two values differ by
 *            less than range / 2^64, which no program can notice
 * normal     Box and Muller, "A note on the generation of random normal deviates", 1958: two elements from two
 * uniforms, which are a word each for f32, two words each for f64. Logarithm, sine and cosine are written out here or
 * in common.h, in additions and multiplications only, so that devices agree. */
#include "engine/dispatch.h"
#include "kernels/types.h"
#include "ops/generator.h"

#define FUNC static inline

// clang-format off
/* kernel text begins */
typedef struct random_params {
    I64 items;  /* blocks */
    I64 count;  /* elements */
    I64 out_offset;
    U64 seed, offset;
    U64 a, b; /* scalars: low and range, or mean and deviation */
} random_params;

/* The upper 64 bits of a product. */
FUNC U64 random_high(U64 a, U64 b)
{
    const U64 a0 = (U32)a, a1 = a >> 32, b0 = (U32)b, b1 = b >> 32;
    const U64 middle = a1 * b0 + ((a0 * b0) >> 32), other = a0 * b1 + (U32)middle;
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

#ifdef HAUL_KERNEL
/* For every few blocks: `words`, and how many of the elements they give, `each` a block, are wanted. */
#define RANDOM_BLOCKS(each, ...)                                                                                       \
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {                                                                        \
        U32 words[4 * PHILOX_BLOCKS];                                                                                  \
        const I64 blocks = CHUNKED ? M_MIN_OF(ITEMS_END - i, PHILOX_BLOCKS) : 1, left = p.count - i * (each);          \
        const int n = (int)M_MIN_OF(left, blocks * (each));                                                            \
        const I64 at = p.out_offset + i * (each);                                                                      \
        philox(p.seed, p.offset + (U64)i, words);                                                                      \
        __VA_ARGS__;                                                                                                   \
        i += ITEMS_STEP(blocks);                                                                                       \
    }

KERNEL1(random_bits, random_params, U32, out)
{
    RANDOM_BLOCKS(4, for (int k = 0; k < n; k++) out[at + k] = words[k];)
}

KERNEL1(random_integers, random_params, T, out)
{
    RANDOM_BLOCKS(2, for (int k = 0; k < n; k++) {
        const U64 bits = (U64)words[2 * k] << 32 | words[2 * k + 1];
        STORE(out, at + k, (A)(I64)(p.a + random_high(bits, p.b)));
    })
}

#if IS_FLOAT
#if defined(HAUL_KERNEL_DTYPE_f64)
#define RANDOM_EACH 2
#define RANDOM_53(k) ((A)((U64)words[2 * (k)] << 21 | words[2 * (k) + 1] >> 11))
/* In [0, 1), and in (0, 1] for a logarithm. */
#define RANDOM_UNIT(k) (RANDOM_53(k) * 1.1102230246251565e-16)
#define RANDOM_TURNS(k) RANDOM_UNIT(k)
#define RANDOM_UNIT_LOG(k) ((RANDOM_53(k) + 1.0) * 1.1102230246251565e-16)

/* log x = e log 2 + 2 artanh s, s = (m - 1) / (m + 1), for x = 2^e m with m around 1. */
FUNC A random_log(A x)
{
    const U64 bits = F64_BITS(x);
    I32 e = (I32)(bits >> 52) - 1023;
    A m = BITS_F64((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    const A s = (m - 1.0) / (m + 1.0), z = s * s;
    A q = 1.0 / 23.0;
    q = q * z + 1.0 / 21.0;
    q = q * z + 1.0 / 19.0;
    q = q * z + 1.0 / 17.0;
    q = q * z + 1.0 / 15.0;
    q = q * z + 1.0 / 13.0;
    q = q * z + 1.0 / 11.0;
    q = q * z + 1.0 / 9.0;
    q = q * z + 1.0 / 7.0;
    q = q * z + 1.0 / 5.0;
    q = q * z + 1.0 / 3.0;
    /* log 2 in two parts, the first exact when multiplied by e */
    return (A)e * 6.93147180369123816490e-01 + ((A)e * 1.90821492927058770002e-10 + (2.0 * s + 2.0 * s * (z * q)));
}
#else
#define RANDOM_EACH 4
/* As many bits as the dtype holds: the largest value is below 1 in it. */
#if defined(HAUL_KERNEL_DTYPE_f16)
#define RANDOM_UNIT(k) ((A)(words[k] >> 21) * 4.8828125e-4f)
#elif defined(HAUL_KERNEL_DTYPE_bf16)
#define RANDOM_UNIT(k) ((A)(words[k] >> 24) * 3.90625e-3f)
#else
#define RANDOM_UNIT(k) RANDOM_24(k)
#endif
#define RANDOM_24(k) ((A)(words[k] >> 8) * 5.9604644775390625e-8f)
#define RANDOM_UNIT_LOG(k) ((A)words[k] * 2.3283064365386963e-10f + 1.1641532182693481e-10f)
#define RANDOM_TURNS(k) RANDOM_24(k)
#define random_log(x) M_LOG(x)
#endif

/* Sine and cosine of t turns, 0 <= t < 1: Taylor's series within an eighth of a turn of the nearest quarter. */
FUNC void random_turn(A t, A *sine, A *cosine)
{
    const I32 quarter = (I32)(t * LIT(4.0) + LIT(0.5));
    const A a = (t * LIT(4.0) - (A)quarter) * LIT(1.57079632679489662), z = a * a;
#if defined(HAUL_KERNEL_DTYPE_f64)
    A s = 1.0 / 355687428096000.0, c = -1.0 / 6402373705728000.0;
    s = s * z - 1.0 / 1307674368000.0;
    s = s * z + 1.0 / 6227020800.0;
    s = s * z - 1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    c = c * z + 1.0 / 20922789888000.0;
    c = c * z - 1.0 / 87178291200.0;
    c = c * z + 1.0 / 479001600.0;
    c = c * z - 1.0 / 3628800.0;
#else
    A s = 1.0f / 362880.0f, c = -1.0f / 3628800.0f;
#endif
    s = s * z - LIT(1.0) / LIT(5040.0);
    s = s * z + LIT(1.0) / LIT(120.0);
    s = s * z - LIT(1.0) / LIT(6.0);
    s = s * z * a + a;
    c = c * z + LIT(1.0) / LIT(40320.0);
    c = c * z - LIT(1.0) / LIT(720.0);
    c = c * z + LIT(1.0) / LIT(24.0);
    c = c * z - LIT(0.5);
    c = c * z + LIT(1.0);
    const A along = quarter & 1 ? s : c, across = quarter & 1 ? c : s;
    *cosine = quarter == 1 || quarter == 2 ? -along : along;
    *sine = quarter == 2 || quarter == 3 ? -across : across;
}

KERNEL1(random_uniform, random_params, T, out)
{
    const A low = SCALAR(p.a), range = SCALAR(p.b), high = low + range;
    RANDOM_BLOCKS(RANDOM_EACH, for (int k = 0; k < n; k++) {
        const A v = NARROW(low + RANDOM_UNIT(k) * range);
        STORE(out, at + k, v < high ? v : low); /* rounding may reach high, which is not in the interval */
    })
}

KERNEL1(random_normal, random_params, T, out)
{
    const A mean = SCALAR(p.a), deviation = SCALAR(p.b);
    RANDOM_BLOCKS(RANDOM_EACH, {
        A z[RANDOM_EACH * PHILOX_BLOCKS];
        for (int k = 0; k < RANDOM_EACH * PHILOX_BLOCKS; k += 2) {
            A s, c;
            const A r = M_SQRT(LIT(-2.0) * random_log(RANDOM_UNIT_LOG(k)));
            random_turn(RANDOM_TURNS(k + 1), &s, &c);
            z[k] = r * c;
            z[k + 1] = r * s;
        }
        for (int k = 0; k < n; k++) STORE(out, at + k, mean + deviation * z[k]);
    })
}
#endif
#endif
/* kernel text ends */
// clang-format on

/* ---- the generator ---- */

static struct {
    pthread_mutex_t   lock;
    haul_random_state state;
} generator = {PTHREAD_MUTEX_INITIALIZER, {0, 0}};

haul_random_state haul_random_state_get(void)
{
    pthread_mutex_lock(&generator.lock);
    haul_random_state state = generator.state;
    pthread_mutex_unlock(&generator.lock);
    return state;
}

void haul_random_state_set(haul_random_state state)
{
    pthread_mutex_lock(&generator.lock);
    generator.state = state;
    pthread_mutex_unlock(&generator.lock);
}

void haul_manual_seed(uint64_t seed)
{
    haul_random_state_set((haul_random_state){seed, 0});
}

haul_random_state haul__random_take(int64_t blocks)
{
    pthread_mutex_lock(&generator.lock);
    haul_random_state taken = generator.state;
    generator.state.offset += (uint64_t)blocks;
    pthread_mutex_unlock(&generator.lock);
    return taken;
}

void haul__random_give_back(haul_random_state taken, int64_t blocks)
{
    pthread_mutex_lock(&generator.lock);
    if (generator.state.seed == taken.seed && generator.state.offset == taken.offset + (uint64_t)blocks)
        generator.state = taken;
    pthread_mutex_unlock(&generator.lock);
}

/* ---- draws ---- */

/* What to draw: the kernel, elements a block gives, and its two scalars. */
typedef struct draw {
    const char *name;
    int         kernel, each;
    uint64_t    a, b;
} draw;

static const haul__slot_use slots[] = {HAUL__SLOT_INTEGER(random_offset, random_params, offset)};

static haul_tensor *draw_on(haul_device *device, const draw *what, haul_dtype dtype, const haul_shape *shape)
{
    haul_tensor *y = device ? haul__result(what->name, device, dtype, shape) : NULL;
    if (!y)
        return NULL;
    int64_t           blocks = y->count / what->each + (y->count % what->each != 0);
    haul_random_state state = haul__random_take(blocks);
    random_params     p = {.items = blocks,
                           .count = y->count,
                           .out_offset = y->offset,
                           .seed = state.seed,
                           .offset = state.offset,
                           .a = what->a,
                           .b = what->b};
    if (haul__run_with_slots(what->name, device, what->kernel, dtype, &y, 1, NULL, 0, &p, sizeof p, slots, 1, p.items,
                             2048)) {
        haul__random_give_back(state, blocks);
        return NULL;
    }
    return y;
}

static haul_tensor *draw_here(const draw *what, haul_dtype dtype, const haul_shape *shape)
{
    return draw_on(haul__device_current(what->name), what, dtype, shape);
}

static haul_status check_float(const char *operation, haul_dtype dtype)
{
    if (haul_dtype_is_float(dtype))
        return HAUL_OK;
    return haul__fail(HAUL_DTYPE, operation, "dtype", "%s numbers cannot be drawn so; use f32 or f64, or haul_randint",
                      haul_dtype_name(dtype));
}

haul_tensor *haul_uniform(haul_dtype dtype, haul_shape shape, double low, double high)
{
    if (check_float("haul_uniform", dtype))
        return NULL;
    if (!(low <= high) || !(high - low <= 3e38)) {
        haul__fail(HAUL_INVALID_ARGUMENT, "haul_uniform", "high", "[%g, %g) is no finite interval", low, high);
        return NULL;
    }
    draw what = {"haul_uniform", HAUL__K_random_uniform, dtype == HAUL_F64 ? 2 : 4, haul__scalar_bits(dtype, low),
                 haul__scalar_bits(dtype, high - low)};
    return draw_here(&what, dtype, &shape);
}

haul_tensor *haul_normal(haul_dtype dtype, haul_shape shape, double mean, double deviation)
{
    if (check_float("haul_normal", dtype))
        return NULL;
    if (!(deviation >= 0) || !(mean - mean == 0)) {
        haul__fail(HAUL_INVALID_ARGUMENT, "haul_normal", "deviation",
                   "mean %g and deviation %g describe no normal distribution", mean, deviation);
        return NULL;
    }
    draw what = {"haul_normal", HAUL__K_random_normal, dtype == HAUL_F64 ? 2 : 4, haul__scalar_bits(dtype, mean),
                 haul__scalar_bits(dtype, deviation)};
    return draw_here(&what, dtype, &shape);
}

haul_tensor *haul_randint(haul_dtype dtype, haul_shape shape, int64_t low, int64_t high)
{
    int64_t least, most;
    if (haul_dtype_bits(dtype) == 0 || dtype == HAUL_BOOL) {
        haul__fail(HAUL_DTYPE, "haul_randint", "dtype", "integers of dtype %s cannot be drawn", haul_dtype_name(dtype));
        return NULL;
    }
    haul__dtype_range(dtype, &least, &most);
    if (low >= high || low < least || high - 1 > most) {
        haul__fail(HAUL_INVALID_ARGUMENT, "haul_randint", "high", "[%lld, %lld) is %s", (long long)low, (long long)high,
                   low >= high ? "empty" : "more than the dtype can hold");
        return NULL;
    }
    draw what = {"haul_randint", HAUL__K_random_integers, 2, (uint64_t)low, (uint64_t)high - (uint64_t)low};
    return draw_here(&what, dtype, &shape);
}

haul_tensor *haul_random_bits(haul_shape shape)
{
    draw what = {"haul_random_bits", HAUL__K_random_bits, 4, 0, 0};
    return draw_here(&what, HAUL_I32, &shape);
}

/* Fisher and Yates' shuffle of 0 ... n - 1, by two words for each element. */
static void shuffle(int64_t *order, int64_t n, const uint32_t *words)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        uint64_t bits = (uint64_t)words[2 * i] << 32 | words[2 * i + 1];
        int64_t  j = (int64_t)random_high(bits, (uint64_t)i + 1), swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
}

haul_tensor *haul_permutation(int64_t n)
{
    const draw   bits = {"haul_permutation", HAUL__K_random_bits, 4, 0, 0};
    int64_t      count;
    haul_tensor *y = NULL;
    if (n < 0 || !haul__mul_size(n, 2, &count)) {
        haul__fail(HAUL_INVALID_ARGUMENT, "haul_permutation", "n", "%lld elements cannot be permuted", (long long)n);
        return NULL;
    }
    haul_scope  *scope = haul_scope_push();
    haul_tensor *words = scope ? draw_on(haul_cpu(), &bits, HAUL_I32, &HAUL_SHAPE(count)) : NULL;
    int64_t     *order = words ? haul__malloc((size_t)n * sizeof *order) : NULL;
    if (words && !order)
        haul__fail_memory("haul_permutation", (size_t)n * sizeof *order);
    if (order && haul__host_before(words->storage, false, "haul_permutation") == HAUL_OK) {
        haul_device *device = haul__device_current("haul_permutation");
        shuffle(order, n, words->storage->buffer.host);
        y = device ? haul__result("haul_permutation", device, HAUL_I64, &HAUL_SHAPE(n)) : NULL;
        if (y && haul__transfer_from_host(y->storage, 0, order, (size_t)n * sizeof *order, true, "haul_permutation"))
            y = NULL;
    }
    haul__free(order);
    return haul_scope_return(scope, y);
}

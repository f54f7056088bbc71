/* Random numbers: word i of a draw is word i % 4 of Philox block offset + i / 4, on every device.
 *
 * bits       an element a word
 * uniform    f32: the upper 24 bits of a word; f64: 53 bits of two
 * integers   the upper half of the product of two words (64 bits) and the range: the chances of two values differ by
 *            less than range / 2^64, which no program can notice
 * normal     Box and Muller, "A note on the generation of random normal deviates", 1958: two elements from two
 * uniforms, which are a word each for f32, two words each for f64. Logarithm, sine and cosine are written out in
 * random_kernel.h or functions.h, in additions and multiplications only, so that devices agree
 * exponential  -log u / rate, and half a step of u for u = 1
 * bernoulli  1 where u < p */
#include "base/alloc.h"
#include "base/assert.h"
#include "engine/attribute_shape.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/random/generator.h"
#include "transfer/copy.h"

#define FUNC static inline

// clang-format off
/* kernel text begins */
#include "ops/random/philox_kernel.h"
#include "ops/random/random_kernel.h"

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
#if defined(HAUL_KERNEL_DTYPE_bool)
KERNEL1(random_bits, random_params, U32, out)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        U32 words[4 * PHILOX_BLOCKS];
        const int blocks = NEIGHBOURS(ITEMS_END - i, ITEMS_END - i, PHILOX_BLOCKS);
        const int n = (int)least(p.count - i * 4, blocks * 4); /* elements that are wanted of them */
        const I64 at = p.out_offset + i * 4;
        philox(p.seed, p.offset + (U64)i, words);
        for (int k = 0; k < n; k++) out[at + k] = words[k];
        i += ITEMS_STEP(blocks);
    }
}

#endif

KERNEL1(random_integers, random_params, T, out)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        U32 words[4 * PHILOX_BLOCKS];
        const int blocks = NEIGHBOURS(ITEMS_END - i, ITEMS_END - i, PHILOX_BLOCKS);
        const int n = (int)least(p.count - i * 2, blocks * 2); /* elements that are wanted of them */
        const I64 at = p.out_offset + i * 2;
        philox(p.seed, p.offset + (U64)i, words);
        for (int k = 0; k < n; k++) {
            const U64 bits = (U64)words[2 * k] << 32 | words[2 * k + 1];
            STORE(out, at + k, (A)(I64)(p.a + random_high(bits, p.b)));
        }
        i += ITEMS_STEP(blocks);
    }
}

#if IS_FLOAT
KERNEL1(random_uniform, random_params, T, out)
{
    const A low = SCALAR(p.a), range = SCALAR(p.b), high = low + range;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        U32 words[4 * PHILOX_BLOCKS];
        const int blocks = NEIGHBOURS(ITEMS_END - i, ITEMS_END - i, PHILOX_BLOCKS);
        const int n = (int)least(p.count - i * RANDOM_EACH, blocks * RANDOM_EACH); /* elements that are wanted of them */
        const I64 at = p.out_offset + i * RANDOM_EACH;
        philox(p.seed, p.offset + (U64)i, words);
        for (int k = 0; k < n; k++) {
            const A v = NARROW(low + random_unit(words[RANDOM_WORDS * k], words[RANDOM_WORDS * k + RANDOM_WORDS - 1]) * range);
            STORE(out, at + k, v < high ? v : low); /* rounding may reach high, which is not in the interval */
        }
        i += ITEMS_STEP(blocks);
    }
}

KERNEL1(random_normal, random_params, T, out)
{
    const A mean = SCALAR(p.a), deviation = SCALAR(p.b);
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        U32 words[4 * PHILOX_BLOCKS];
        const int blocks = NEIGHBOURS(ITEMS_END - i, ITEMS_END - i, PHILOX_BLOCKS);
        const int n = (int)least(p.count - i * RANDOM_EACH, blocks * RANDOM_EACH); /* elements that are wanted of them */
        const I64 at = p.out_offset + i * RANDOM_EACH;
        philox(p.seed, p.offset + (U64)i, words);
        A z[RANDOM_EACH * PHILOX_BLOCKS];
        for (int k = 0; k < RANDOM_EACH * PHILOX_BLOCKS; k += 2) {
            A s, c;
            const A r = M_SQRT(LIT(-2.0) * random_log(random_unit_log(words[RANDOM_WORDS * k], words[RANDOM_WORDS * k + RANDOM_WORDS - 1])));
            random_turn(random_turns(words[RANDOM_WORDS * (k + 1)], words[RANDOM_WORDS * (k + 2) - 1]), &s, &c);
            z[k] = r * c;
            z[k + 1] = r * s;
        }
        for (int k = 0; k < n; k++) STORE(out, at + k, mean + deviation * z[k]);
        i += ITEMS_STEP(blocks);
    }
}
KERNEL1(random_exponential, random_params, T, out)
{
    const A rate = SCALAR(p.a);
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        U32 words[4 * PHILOX_BLOCKS];
        const int blocks = NEIGHBOURS(ITEMS_END - i, ITEMS_END - i, PHILOX_BLOCKS);
        const int n = (int)least(p.count - i * RANDOM_EACH, blocks * RANDOM_EACH); /* elements that are wanted of them */
        const I64 at = p.out_offset + i * RANDOM_EACH;
        philox(p.seed, p.offset + (U64)i, words);
        for (int k = 0; k < n; k++) STORE(out, at + k, random_waiting(random_unit_log(words[RANDOM_WORDS * k], words[RANDOM_WORDS * k + RANDOM_WORDS - 1])) / rate);
        i += ITEMS_STEP(blocks);
    }
}

KERNEL1(random_bernoulli, random_params, T, out)
{
    const A chance = SCALAR(p.a);
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        U32 words[4 * PHILOX_BLOCKS];
        const int blocks = NEIGHBOURS(ITEMS_END - i, ITEMS_END - i, PHILOX_BLOCKS);
        const int n = (int)least(p.count - i * RANDOM_EACH, blocks * RANDOM_EACH); /* elements that are wanted of them */
        const I64 at = p.out_offset + i * RANDOM_EACH;
        philox(p.seed, p.offset + (U64)i, words);
        for (int k = 0; k < n; k++) STORE(out, at + k, random_turns(words[RANDOM_WORDS * k], words[RANDOM_WORDS * k + RANDOM_WORDS - 1]) < chance ? LIT(1.0) : LIT(0.0));
        i += ITEMS_STEP(blocks);
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

/* ---- draws ---- */

typedef union number {
    double  real;
    int64_t integer;
} number;

typedef struct draw_attributes {
    haul_device          *device; /* NULL becomes the thread's current one */
    haul_dtype            dtype;
    int                   reserved;
    haul__attribute_shape shape;
    number                first, second; /* low and high, or mean and deviation */
    /* completed by infer: the same as kernels take them, the blocks that are drawn, and where they begin */
    uint64_t          a, b;
    int64_t           blocks;
    haul_random_state state;
} draw_attributes;

static haul_status take(haul__call *c, int64_t count, int each)
{
    HAUL__ASSERT(count >= 0 && each > 0);
    draw_attributes *a = haul__attributes(c);
    a->blocks = count / each + (count % each != 0);
    a->state = haul__random_take(a->blocks);
    return HAUL_OK;
}

static void give_back(haul__call *c)
{
    const draw_attributes *a = haul__attributes(c);
    haul__random_give_back(a->state, a->blocks);
}

static haul_status choose_device(haul__call *c)
{
    draw_attributes *a = haul__attributes(c);
    if (!a->device)
        a->device = haul__device_current(c->operation->name);
    c->device = a->device;
    return a->device ? haul__device_check(a->device, c->operation->name, "device") : haul_error_status();
}

/* `each`: elements that a block gives. The blocks are taken last, when nothing is left to be checked. */
static haul_status describe(haul__call *c, int each)
{
    const draw_attributes *a = haul__attributes(c);
    const haul_shape       shape = haul__shape_of_attribute(&a->shape);
    if (choose_device(c) || haul__describe(c, 0, a->dtype, &shape))
        return haul_error_status();
    return take(c, c->results[0]->count, each);
}

static haul_status check_float(const haul__call *c, haul_dtype dtype)
{
    if (haul_dtype_is_float(dtype))
        return HAUL_OK;
    return haul__fail(HAUL_DTYPE, c->operation->name, "dtype",
                      "%s numbers cannot be drawn so; use f32 or f64, or haul_randint", haul_dtype_name(dtype));
}

static haul_status infer_uniform(haul__call *c)
{
    draw_attributes *a = haul__attributes(c);
    double           low = a->first.real, high = a->second.real;
    if (check_float(c, a->dtype))
        return haul_error_status();
    if (!(low <= high) || !(high - low <= 3e38))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "high", "[%g, %g) is not a finite interval", low,
                          high);
    a->a = haul__scalar_bits(a->dtype, low);
    a->b = haul__scalar_bits(a->dtype, high - low);
    return describe(c, a->dtype == HAUL_F64 ? 2 : 4);
}

static haul_status infer_normal(haul__call *c)
{
    draw_attributes *a = haul__attributes(c);
    double           mean = a->first.real, deviation = a->second.real;
    if (check_float(c, a->dtype))
        return haul_error_status();
    if (!(deviation >= 0) || !(mean - mean == 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "deviation",
                          "mean %g and deviation %g describe no normal distribution", mean, deviation);
    a->a = haul__scalar_bits(a->dtype, mean);
    a->b = haul__scalar_bits(a->dtype, deviation);
    return describe(c, a->dtype == HAUL_F64 ? 2 : 4);
}

static haul_status infer_exponential(haul__call *c)
{
    draw_attributes *a = haul__attributes(c);
    const double     rate = a->first.real;
    if (check_float(c, a->dtype))
        return haul_error_status();
    if (!(rate > 0) || rate - rate != 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "rate",
                          "rate is %g; a finite number above 0 is expected", rate);
    a->a = haul__scalar_bits(a->dtype, rate);
    return describe(c, a->dtype == HAUL_F64 ? 2 : 4);
}

static haul_status infer_bernoulli(haul__call *c)
{
    draw_attributes *a = haul__attributes(c);
    const double     p = a->first.real;
    if (check_float(c, a->dtype))
        return haul_error_status();
    if (!(p >= 0 && p <= 1))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "p", "p is %g; a probability is between 0 and 1",
                          p);
    a->a = haul__scalar_bits(a->dtype, p);
    return describe(c, a->dtype == HAUL_F64 ? 2 : 4);
}

static haul_status infer_randint(haul__call *c)
{
    draw_attributes *a = haul__attributes(c);
    int64_t          low = a->first.integer, high = a->second.integer, least, most;
    if (haul_dtype_bits(a->dtype) == 0 || a->dtype == HAUL_BOOL)
        return haul__fail(HAUL_DTYPE, c->operation->name, "dtype", "integers of dtype %s cannot be drawn",
                          haul_dtype_name(a->dtype));
    haul__dtype_range(a->dtype, &least, &most);
    if (low >= high || low < least || high - 1 > most)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "high", "[%lld, %lld) is %s", (long long)low,
                          (long long)high, low >= high ? "empty" : "more than the dtype can hold");
    a->a = (uint64_t)low;
    a->b = (uint64_t)high - (uint64_t)low;
    HAUL__ASSERT(a->b > 0);
    return describe(c, 2);
}

static haul_status infer_bits(haul__call *c)
{
    return describe(c, 4);
}

static haul_status draw(const haul__call *c, int kernel, haul_tensor *y)
{
    const draw_attributes *a = haul__attributes_of(c);
    HAUL__ASSERT(a->blocks * 4 >= y->count && (y->count || !a->blocks));
    random_params p = {.items = a->blocks,
                       .count = y->count,
                       .out_offset = y->offset,
                       .seed = a->state.seed,
                       .offset = a->state.offset,
                       .a = a->a,
                       .b = a->b};
    return haul__launch_kernel(c, kernel, y->dtype, HAUL__OUT(y), HAUL__PARAMS(p), .grain = 2048);
}

static haul_status compute(haul__call *c)
{
    return draw(c, *(const int *)c->operation->extra, c->results[0]);
}

/* Flops: a block takes some 80, shared by the elements it gives; a normal a logarithm, a root, a sine and a cosine for
 * two. */
#define DRAWS                                                                                                          \
    .results = {{"y"}}, .attributes_size = HAUL__ATTRIBUTES(draw_attributes),                                          \
    .random_at = offsetof(draw_attributes, state), .blocks_at = offsetof(draw_attributes, blocks),                     \
    .give_back = give_back, .compute = compute

HAUL__OPERATION(uniform) = {
    .name = "haul_uniform",
    DRAWS,
    .extra = &(const int){HAUL__K_random_uniform},
    .infer = infer_uniform,
    .flops = 25,
};

HAUL__OPERATION(normal) = {
    .name = "haul_normal",
    DRAWS,
    .extra = &(const int){HAUL__K_random_normal},
    .infer = infer_normal,
    .flops = 60,
};

HAUL__OPERATION(exponential) = {
    .name = "haul_exponential",
    DRAWS,
    .extra = &(const int){HAUL__K_random_exponential},
    .infer = infer_exponential,
    .flops = 40,
};

HAUL__OPERATION(bernoulli_scalar) = {
    .name = "haul_bernoulli_scalar",
    DRAWS,
    .extra = &(const int){HAUL__K_random_bernoulli},
    .infer = infer_bernoulli,
    .flops = 25,
};

HAUL__OPERATION(randint) = {
    .name = "haul_randint",
    DRAWS,
    .extra = &(const int){HAUL__K_random_integers},
    .infer = infer_randint,
    .flops = 50,
};

HAUL__OPERATION(random_bits) = {
    .name = "haul_random_bits",
    DRAWS,
    .extra = &(const int){HAUL__K_random_bits},
    .infer = infer_bits,
    .flops = 20,
};

/* ---- permutations ---- */

static haul_status infer_permutation(haul__call *c)
{
    const draw_attributes *a = haul__attributes(c);
    int64_t                n = a->first.integer, words;
    if (n < 0 || !haul__mul_size(n, 2, &words))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "n", "%lld elements cannot be permuted",
                          (long long)n);
    if (choose_device(c) || haul__describe(c, 0, HAUL_I64, &HAUL_SHAPE(n)))
        return haul_error_status();
    return take(c, words, 4);
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

static haul_status give_order(const haul__call *c, const int64_t *order)
{
    const haul_tensor *y = c->results[0];
    HAUL__ASSERT(y->dtype == HAUL_I64 && y->contiguous);
    return haul__transfer(&(haul__copy){.operation = c->operation->name,
                                        .to = {y->storage, (size_t)y->offset * sizeof *order},
                                        .from_host = order,
                                        .bytes = (size_t)y->count * sizeof *order,
                                        .fresh = !c->into});
}

/* Words are drawn, and shuffled by, on the CPU. */
static haul_status compute_permutation(haul__call *c)
{
    const char  *name = c->operation->name;
    haul_tensor *y = c->results[0];
    haul__call   here = *c;
    here.device = haul_cpu();
    haul_tensor *words = haul__temporary(&here, HAUL_I32, &HAUL_SHAPE(2 * y->count));
    size_t       bytes = (size_t)y->count * sizeof(int64_t);
    HAUL__ASSERT(!words || words->contiguous);
    if (words && haul__is_dry())
        return give_order(c, NULL);
    if (!words || draw(&here, HAUL__K_random_bits, words) || haul__host_before(words->storage, false, name))
        return haul_error_status();
    int64_t *order = haul__malloc(bytes);
    if (!order)
        return haul__fail_memory(name, bytes);
    HAUL__ASSERT(words->storage->bytes >= bytes);
    shuffle(order, y->count, words->storage->buffer.host);
    haul_status status = give_order(c, order);
    haul__free(order);
    return status;
}

HAUL__OPERATION(permutation) = {
    .name = "haul_permutation",
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(draw_attributes),
    .random_at = offsetof(draw_attributes, state),
    .blocks_at = offsetof(draw_attributes, blocks),
    .infer = infer_permutation,
    .give_back = give_back,
    .compute = compute_permutation,
    .flops = 50,
};

/* ---- the functions ---- */

static haul_tensor *make(const haul__operation *operation, haul_shape shape, draw_attributes *a)
{
    haul__shape_to_attribute(&a->shape, &shape);
    return haul__apply1(operation, a, NULL, 0);
}

#define DRAW(id, shape, ...) make(&haul__operation_##id, shape, &(draw_attributes){__VA_ARGS__})

haul_tensor *haul_uniform(haul_dtype dtype, haul_shape shape, double low, double high)
{
    return DRAW(uniform, shape, .dtype = dtype, .first.real = low, .second.real = high);
}

haul_tensor *haul_normal(haul_dtype dtype, haul_shape shape, double mean, double deviation)
{
    return DRAW(normal, shape, .dtype = dtype, .first.real = mean, .second.real = deviation);
}

haul_tensor *haul_exponential(haul_dtype dtype, haul_shape shape, double rate)
{
    return DRAW(exponential, shape, .dtype = dtype, .first.real = rate);
}

haul_tensor *haul_bernoulli_scalar(haul_dtype dtype, haul_shape shape, double p)
{
    return DRAW(bernoulli_scalar, shape, .dtype = dtype, .first.real = p);
}

haul_tensor *haul_randint(haul_dtype dtype, haul_shape shape, int64_t low, int64_t high)
{
    return DRAW(randint, shape, .dtype = dtype, .first.integer = low, .second.integer = high);
}

haul_tensor *haul_random_bits(haul_shape shape)
{
    return DRAW(random_bits, shape, .dtype = HAUL_I32);
}

haul_tensor *haul_permutation(int64_t n)
{
    return DRAW(permutation, HAUL_SCALAR_SHAPE, .first.integer = n);
}

/* Where `out` is, with its dtype and shape unless the operation has its own. */
static haul_status draw_into(haul_tensor *out, const haul__operation *operation, draw_attributes a)
{
    if (haul__check_tensor(operation->name, "out", out))
        return haul_error_status();
    a.device = out->storage->device;
    a.dtype = a.dtype ? a.dtype : out->dtype;
    haul__shape_to_attribute(&a.shape, &out->shape);
    return haul__apply_into(&out, operation, &a, NULL, 0);
}

#define DRAW_INTO(out, id, ...) draw_into(out, &haul__operation_##id, (draw_attributes){__VA_ARGS__})

haul_status haul_uniform_into(haul_tensor *out, double low, double high)
{
    return DRAW_INTO(out, uniform, .first.real = low, .second.real = high);
}

haul_status haul_normal_into(haul_tensor *out, double mean, double deviation)
{
    return DRAW_INTO(out, normal, .first.real = mean, .second.real = deviation);
}

haul_status haul_exponential_into(haul_tensor *out, double rate)
{
    return DRAW_INTO(out, exponential, .first.real = rate);
}

haul_status haul_bernoulli_scalar_into(haul_tensor *out, double p)
{
    return DRAW_INTO(out, bernoulli_scalar, .first.real = p);
}

haul_status haul_randint_into(haul_tensor *out, int64_t low, int64_t high)
{
    return DRAW_INTO(out, randint, .first.integer = low, .second.integer = high);
}

/* Random numbers: reproducible, the same on every device.
 *
 * The generator is counter-based: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
 * For a given seed, bits, integers, uniforms and permutations are equal bit for bit on every device; normals agree
 * within 4 ULP, and so do the draws below that are made of normals and logarithms. On the CPU, on NVIDIA's GPUs and on
 * all OpenCL devices that round f32 divisions and square roots correctly, all draws are equal bit for bit.
 *
 * A generator is a 64-bit seed and a 64-bit offset. Each draw advances the offset by the number of four-word blocks
 * that it uses. The process has one generator. A scope can use another one in its place, so that the numbers of one
 * request do not depend on other requests. */
#ifndef HAUL_RANDOM_H
#define HAUL_RANDOM_H

#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* The state of a generator: with the same state it gives the same numbers. */
typedef struct haul_random_state {
    /* seed: which sequence; offset: how far the generator is in it, in blocks of four 32-bit words */
    uint64_t seed, offset;
} haul_random_state;

/* Seed, read or set the process's generator, even if the calling thread draws from another one. haul_manual_seed sets
 * the offset to 0. Checkpoints save this state. */
HAUL_API void              haul_manual_seed(uint64_t seed);
HAUL_API haul_random_state haul_random_state_get(void);
HAUL_API void              haul_random_state_set(haul_random_state state);

/* A generator of random numbers. It belongs to a scope.
 *
 * Two threads may draw from one generator at the same time, as from the process's. Each draw is complete, but their
 * order, and so the numbers that each thread gets, is not determined: give each thread a generator of its own. */
typedef struct haul_generator haul_generator;

/* A new generator with this seed and offset 0. */
HAUL_API haul_generator *haul_generator_new(uint64_t seed);

/* Read or set the state of a generator. Reading returns {0, 0} on failure. */
HAUL_API haul_random_state haul_generator_state_get(const haul_generator *generator);
HAUL_API haul_status       haul_generator_state_set(haul_generator *generator, haul_random_state state);

/* The generator that the calling thread draws from: in the functions below, in dropout, and for the initial values of
 * layers. NULL stands for the process's generator, which is the default.
 *
 * Popping the scope restores the former generator; until then the scope holds the new one. The gradient of a dropout
 * draws the numbers of its forward pass again, whichever generator is set. Loaders shuffle by a seed of their own. */
HAUL_API haul_status     haul_set_generator(haul_generator *generator);
HAUL_API haul_generator *haul_current_generator(void);

/* New tensors of random numbers on the calling thread's current device.
 *
 * - dtype: an integer dtype for haul_randint, a floating dtype for the others
 * - low, high: the numbers are in [low, high); for haul_randint the interval must not be empty, and all its numbers
 *   must be values of the dtype
 * - mean, deviation: mean and standard deviation of the normal distribution
 * - rate: of the exponential distribution, whose density is rate exp(-rate x): a finite number above 0. Draws are
 *   above 0
 * - p: haul_bernoulli_scalar gives 1 with this probability, from 0 to 1, else 0
 * - n: haul_permutation gives 0 ... n - 1 in random order, as i64 [n]. Its first k elements are a choice of k without
 *   replacement
 *
 * haul_random_bits gives i32 words of 32 random bits each. The `_into` forms write the same numbers into `out`, which
 * must have the shape and dtype of the result. */
HAUL_API haul_tensor *haul_uniform(haul_dtype dtype, haul_shape shape, double low, double high);
HAUL_API haul_tensor *haul_normal(haul_dtype dtype, haul_shape shape, double mean, double deviation);
HAUL_API haul_tensor *haul_exponential(haul_dtype dtype, haul_shape shape, double rate);
HAUL_API haul_tensor *haul_bernoulli_scalar(haul_dtype dtype, haul_shape shape, double p);
HAUL_API haul_tensor *haul_randint(haul_dtype dtype, haul_shape shape, int64_t low, int64_t high);
HAUL_API haul_tensor *haul_random_bits(haul_shape shape);
HAUL_API haul_tensor *haul_permutation(int64_t n);
HAUL_API haul_status  haul_uniform_into(haul_tensor *out, double low, double high);
HAUL_API haul_status  haul_normal_into(haul_tensor *out, double mean, double deviation);
HAUL_API haul_status  haul_exponential_into(haul_tensor *out, double rate);
HAUL_API haul_status  haul_bernoulli_scalar_into(haul_tensor *out, double p);
HAUL_API haul_status  haul_randint_into(haul_tensor *out, int64_t low, int64_t high);

/* Random numbers with a parameter for each of them: tensors on the device of the parameters, with their shape and
 * dtype, which is a floating one. Gradients do not flow to the parameters. For a differentiable normal (Kingma and
 * Welling 2014) write haul_add(mean, haul_mul(deviation, haul_normal(...))).
 *
 * - p: haul_bernoulli gives 1 with this probability, from 0 to 1, else 0
 * - mean, deviation: of the normal numbers of haul_normal_of; they broadcast and promote, and deviations are at least 0
 * - rate: haul_poisson gives whole numbers, Poisson distributed with this rate, which is finite and at least 0
 *   (Hoermann 1993)
 * - alpha: haul_gamma gives numbers that are gamma distributed with this shape, which is finite and above 0, and rate 1
 *   (Marsaglia and Tsang 2000). For another rate divide by it. Small numbers may round to 0
 *
 * An element of haul_poisson and haul_gamma takes 32 blocks of the generator. A parameter out of range is an error at
 * once on synchronous devices, and at the next wait on others, like an index out of range (indexing.h). */
HAUL_API haul_tensor *haul_bernoulli(haul_tensor *p);
HAUL_API haul_tensor *haul_normal_of(haul_tensor *mean, haul_tensor *deviation);
HAUL_API haul_tensor *haul_poisson(haul_tensor *rate);
HAUL_API haul_tensor *haul_gamma(haul_tensor *alpha);

/* Categories drawn by their weights: i64 [..., samples] for `weights` [..., categories], each row by itself.
 *
 * - weights: floating; finite and not negative. They need not sum to 1. A category of weight 0 is never drawn
 * - samples: at least 1; without replacement at most the number of categories
 * - replacement: a category may be drawn again. Otherwise those of a row differ, in the order in which they are drawn
 *   (Efraimidis and Spirakis 2006), and a row needs as many weights above 0
 *
 * A row that has other weights, or too few above 0, is an error that names it: at once on synchronous devices, and at
 * the next wait on others. */
HAUL_API haul_tensor *haul_multinomial(haul_tensor *weights, int64_t samples, bool replacement);

HAUL_END

#endif

/* Random numbers: reproducible, the same on every device.
 *
 * The generator is counter-based: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
 * For a given seed, bits, integers, uniforms and permutations are equal bit for bit on every device; normals agree
 * within 4 ULP.
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
 * - dtype: a floating dtype for haul_uniform and haul_normal, an integer dtype for haul_randint
 * - low, high: the numbers are in [low, high); for haul_randint the interval must not be empty, and all its numbers
 *   must be values of the dtype
 * - mean, deviation: mean and standard deviation of the normal distribution
 * - n: haul_permutation gives 0 ... n - 1 in random order, as i64 [n]
 *
 * haul_random_bits gives i32 words of 32 random bits each. The `_into` forms write the same numbers into `out`, which
 * must have the shape and dtype of the result. */
HAUL_API haul_tensor *haul_uniform(haul_dtype dtype, haul_shape shape, double low, double high);
HAUL_API haul_tensor *haul_normal(haul_dtype dtype, haul_shape shape, double mean, double deviation);
HAUL_API haul_tensor *haul_randint(haul_dtype dtype, haul_shape shape, int64_t low, int64_t high);
HAUL_API haul_tensor *haul_random_bits(haul_shape shape);
HAUL_API haul_tensor *haul_permutation(int64_t n);
HAUL_API haul_status  haul_uniform_into(haul_tensor *out, double low, double high);
HAUL_API haul_status  haul_normal_into(haul_tensor *out, double mean, double deviation);
HAUL_API haul_status  haul_randint_into(haul_tensor *out, int64_t low, int64_t high);
HAUL_API haul_status  haul_random_bits_into(haul_tensor *out);
HAUL_API haul_status  haul_permutation_into(haul_tensor *out, int64_t n);

HAUL_END

#endif

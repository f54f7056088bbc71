/* Random numbers: counter based (Philox 4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
 *
 * Bits, integers, uniforms and permutations are equal bit for bit on every device for a seed; normals within 4 ULP.
 * A generator is a 64-bit seed and a 64-bit offset, which every draw advances by the number of four-word blocks it
 * uses. The process has one. Others are objects, which scopes use in its place, so that what one request draws does not
 * depend on the others. */
#ifndef HAUL_RANDOM_H
#define HAUL_RANDOM_H

#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

typedef struct haul_random_state {
    uint64_t seed, offset;
} haul_random_state;

/* The process's generator, whichever one this thread draws from. Checkpoints save its state. */
HAUL_API void              haul_manual_seed(uint64_t seed); /* offset becomes 0 */
HAUL_API haul_random_state haul_random_state_get(void);
HAUL_API void              haul_random_state_set(haul_random_state state);

/* A generator with this seed and offset 0. It belongs to the innermost scope, like other objects. Two threads may draw
 * from one at once, as from the process's: each draw is a whole, but their order is not determined, and so neither are
 * the numbers that each thread gets. Give each thread a generator of its own. */
typedef struct haul_generator haul_generator;
HAUL_API haul_generator      *haul_generator_new(uint64_t seed);
HAUL_API haul_random_state    haul_generator_state_get(const haul_generator *generator); /* {0, 0} on failure */
HAUL_API haul_status          haul_generator_state_set(haul_generator *generator, haul_random_state state);

/* What this thread draws from: the functions below, dropout, and the initial values of layers. NULL is the process's
 * generator, the default. Restored when the scope is popped; until then the scope holds the generator. The gradient of
 * a dropout draws the numbers of its forward pass again, whatever the generator. Loaders shuffle by their own seed. */
HAUL_API haul_status     haul_set_generator(haul_generator *generator);
HAUL_API haul_generator *haul_current_generator(void); /* NULL: the process's */

/* New tensors on the thread's current device. uniform and normal are for floating dtypes, randint for integers. */
HAUL_API haul_tensor *haul_uniform(haul_dtype dtype, haul_shape shape, double low, double high); /* [low, high) */
HAUL_API haul_tensor *haul_normal(haul_dtype dtype, haul_shape shape, double mean, double deviation);
HAUL_API haul_tensor *haul_randint(haul_dtype dtype, haul_shape shape, int64_t low, int64_t high); /* [low, high) */
HAUL_API haul_tensor *haul_random_bits(haul_shape shape);                                          /* i32 words */
HAUL_API haul_tensor *haul_permutation(int64_t n);                                                 /* i64 [n] */
/* The same numbers into `out`, of its shape, of its dtype and on its device. */
HAUL_API haul_status haul_uniform_into(haul_tensor *out, double low, double high);
HAUL_API haul_status haul_normal_into(haul_tensor *out, double mean, double deviation);
HAUL_API haul_status haul_randint_into(haul_tensor *out, int64_t low, int64_t high);
HAUL_API haul_status haul_random_bits_into(haul_tensor *out);            /* i32 */
HAUL_API haul_status haul_permutation_into(haul_tensor *out, int64_t n); /* i64 [n] */

HAUL_END

#endif

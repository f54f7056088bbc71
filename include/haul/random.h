/* Random numbers: counter based (Philox 4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
 *
 * Bits, integers, uniforms and permutations are equal bit for bit on every device for a seed; normals within 4 ULP.
 * There is one generator for the process: a 64-bit seed and a 64-bit offset that every draw advances by the number of
 * four-word blocks it uses. */
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

HAUL_API void              haul_manual_seed(uint64_t seed); /* offset becomes 0 */
HAUL_API haul_random_state haul_random_state_get(void);
HAUL_API void              haul_random_state_set(haul_random_state state);

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

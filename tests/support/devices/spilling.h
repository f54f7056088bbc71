/* What the tests of spilling share: limits of memory on the devices that spill, and tensors. For a test program's one
 * source file. */
#ifndef HAUL_TESTS_SPILLING_H
#define HAUL_TESTS_SPILLING_H

#include "support/moves.h"

enum { SIDE = 128, BYTES = SIDE * SIDE * 4 }; /* of a tensor: 64 KiB */

static inline haul_tensor *filled(float value)
{
    haul_tensor *t = haul_full(HAUL_F32, HAUL_SHAPE(SIDE, SIDE), value);
    assert_valid(t);
    return t;
}

static inline void assert_filled(haul_tensor *t, float value)
{
    static float values[SIDE * SIDE];
    assert_int_equal(haul_read(t, values, sizeof values), HAUL_OK);
    for (int i = 0; i < SIDE * SIDE; i++)
        if (values[i] != value)
            fail_msg("element %d is %g; expected %g", i, values[i], value);
}

static inline haul_tensor *on(haul_device *device, float value)
{
    haul_tensor *t = haul_to(filled(value), device);
    assert_valid(t);
    return t;
}

/* Tensor i has the value i. */
static inline void fill_each(haul_tensor **t, int count, haul_device *device)
{
    for (int i = 0; i < count; i++)
        t[i] = on(device, (float)i);
}

/* Those from `first` to before `end` still have it. */
static inline void assert_each_filled(haul_tensor *const *t, int first, int end)
{
    for (int i = first; i < end; i++)
        assert_filled(t[i], (float)i);
}

static inline bool is_away(const haul_tensor *t)
{
    return atomic_load(&t->storage->uses->away);
}

static inline haul_memory_stats stats_of(const haul_device *device)
{
    haul_memory_stats stats;
    assert_int_equal(haul_memory_stats_get(device, &stats), HAUL_OK);
    return stats;
}

/* The devices that can spill: those of this machine without the CPU, and late:0. */
static inline haul_device *spilling(int i)
{
    return i == 0 ? late_device(0) : i < device_count ? devices[i] : NULL;
}

/* Room for so many bytes more than are reserved. */
static inline void begin_limit(haul_device *device, int64_t bytes)
{
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(haul_memory_set_spill(device, true), HAUL_OK);
    assert_int_equal(haul_memory_set_tensor_limit(device, stats_of(device).reserved + bytes), HAUL_OK);
    assert_int_equal(haul_memory_reset_peak(device), HAUL_OK);
}

static inline void end_limit(haul_device *device)
{
    assert_int_equal(haul_memory_set_limit(device, 0), HAUL_OK);
    assert_int_equal(haul_memory_set_spill(device, false), HAUL_OK);
}

/* The same start for each training. It spills if there is a limit; 0: none. */
static inline void train_begin(haul_device *device, int64_t limit)
{
    haul_set_device(device);
    haul_manual_seed(3);
    haul_memory_release_cached(device);
    haul_memory_set_tensor_limit(device, limit);
    haul_memory_set_spill(device, limit > 0);
    haul_memory_reset_peak(device);
}

#endif

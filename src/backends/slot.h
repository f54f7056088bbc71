/* Slots: the named parameters of a replayed command that may change. */
#ifndef HAUL_BACKENDS_SLOT_H
#define HAUL_BACKENDS_SLOT_H

#include <haul/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum haul__slot {
#define HAUL__SLOT(name, type, how) HAUL__SLOT_##name,
#include "backends/slots.def"
#undef HAUL__SLOT
    HAUL__SLOT_COUNT
} haul__slot;

/* The bytes of a command's params that hold a slot's value. */
typedef struct haul__slot_use {
    uint16_t slot, offset, size; /* size: 4 or 8 */
} haul__slot_use;

/* Starts as {0}: all slots keep their recorded values. */
typedef struct haul__slot_values {
    bool    given[HAUL__SLOT_COUNT];
    double  real[HAUL__SLOT_COUNT];
    int64_t integer[HAUL__SLOT_COUNT];
} haul__slot_values;

/* Fails for a value of the wrong type. */
haul_status haul__slot_set_real(haul__slot_values *values, haul__slot slot, double value);
haul_status haul__slot_set_integer(haul__slot_values *values, haul__slot slot, int64_t value);

/* Writes the values into recorded params, which contain the slots' recorded values. values == NULL: no change. */
void haul__slots_write(void *params, const haul__slot_use *uses, int count, const haul__slot_values *values);

#endif

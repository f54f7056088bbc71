/* The table of slots, and the conversion of their values to bytes. */
#include "backends/slot.h"

#include <string.h>

#include "core/error.h"

typedef enum type { REAL, INTEGER } type;
typedef enum how { REPLACE, ADD } how;

static const struct {
    const char *name;
    type        type;
    how         how;
} slots[] = {
#define HAUL__SLOT(name, type, how) {#name, type, how},
#include "backends/slots.def"
#undef HAUL__SLOT
};

static haul_status check_type(haul__slot slot, type wanted)
{
    static const char *const names[] = {[REAL] = "a real number", [INTEGER] = "an integer"};
    if (slots[slot].type == wanted)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, "slot", slots[slot].name, "the slot %s holds %s; %s was given",
                      slots[slot].name, names[slots[slot].type], names[wanted]);
}

haul_status haul__slot_set_real(haul__slot_values *values, haul__slot slot, double value)
{
    haul_status status = check_type(slot, REAL);
    if (status)
        return status;
    values->given[slot] = true;
    values->real[slot] = value;
    return HAUL_OK;
}

haul_status haul__slot_set_integer(haul__slot_values *values, haul__slot slot, int64_t value)
{
    haul_status status = check_type(slot, INTEGER);
    if (status)
        return status;
    values->given[slot] = true;
    values->integer[slot] = value;
    return HAUL_OK;
}

static void write_real(char *place, size_t size, double value)
{
    float narrow = (float)value;
    memcpy(place, size == sizeof narrow ? (const void *)&narrow : (const void *)&value, size);
}

/* Unsigned, because sums of offsets may wrap around; devices and hosts are little-endian. */
static void write_integer(char *place, size_t size, uint64_t value, how change)
{
    uint64_t before = 0;
    if (change == ADD)
        memcpy(&before, place, size);
    value += before;
    memcpy(place, &value, size);
}

void haul__slots_write(void *params, const haul__slot_use *uses, int count, const haul__slot_values *values)
{
    for (int i = 0; i < count && values; i++) {
        haul__slot slot = uses[i].slot;
        char      *place = (char *)params + uses[i].offset;
        if (!values->given[slot])
            continue;
        if (slots[slot].type == REAL)
            write_real(place, uses[i].size, values->real[slot]);
        else
            write_integer(place, uses[i].size, (uint64_t)values->integer[slot], slots[slot].how);
    }
}

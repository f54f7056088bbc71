/* Pinning memory on its device. */
#include "memory/spill/pins.h"

#include "base/assert.h"
#include "core/trial.h"
#include "device/residency.h"
#include "memory/allocator_state.h"
#include "memory/dry_run/dry_run.h"
#include "memory/spill/spill.h"

void haul__pins_end(haul__block *block)
{
    HAUL__ASSERT(block->pins > 0 && block->owner->stats.pinned >= (int64_t)block->bytes);
    block->pins = 0;
    block->owner->stats.pinned -= (int64_t)block->bytes;
}

/* Under the lock nothing is moved between the return and the pin. */
static haul_status pin(haul__block *block)
{
    struct haul__allocator *a = block->owner;
    const bool              taken = haul__residency_take();
    const haul_status       status = haul__spill_return(block);
    if (!status) {
        haul__spin_lock(&a->lock);
        HAUL__ASSERT(!haul__block_is_away(block) && !block->moving && block->pins >= 0);
        a->stats.pinned += block->pins++ ? 0 : (int64_t)block->bytes;
        haul__spin_unlock(&a->lock);
    }
    if (taken)
        haul__residency_give();
    return status;
}

static bool unpin(haul__block *block)
{
    struct haul__allocator *a = block->owner;
    haul__spin_lock(&a->lock);
    const bool is_pinned = block->pins > 0;
    if (block->pins == 1)
        haul__pins_end(block);
    else if (is_pinned)
        block->pins--;
    HAUL__ASSERT(block->pins >= 0 && a->stats.pinned >= (block->pins ? (int64_t)block->bytes : 0));
    haul__spin_unlock(&a->lock);
    return is_pinned;
}

static haul_status check(const haul_tensor *tensor, const char *operation)
{
    haul_status status = haul__check_tensor(operation, "tensor", tensor);
    return status ? status : haul__refuse_followed(operation, "pins or unpins memory");
}

haul_status haul_memory_pin(haul_tensor *tensor)
{
    haul_status status = check(tensor, "haul_memory_pin");
    if (status)
        return status;
    haul__storage *storage = tensor->storage;
    if (haul__is_dry())
        haul__dry_run_pin(storage);
    else if (storage->block)
        status = pin(storage->block);
    return status;
}

haul_status haul_memory_unpin(haul_tensor *tensor)
{
    static const char operation[] = "haul_memory_unpin";
    haul_status       status = check(tensor, operation);
    if (status)
        return status;
    haul__storage *storage = tensor->storage;
    if (haul__is_dry() || !storage->block || unpin(storage->block))
        return HAUL_OK;
    return haul__fail(HAUL_STATE, operation, "tensor",
                      "the tensor's memory on %s is not pinned; each haul_memory_unpin undoes one haul_memory_pin",
                      storage->device->name);
}

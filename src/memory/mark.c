#include "memory/mark.h"

#include "memory/dry_run/dry_run.h"

void haul__set_storage_role(haul__storage *storage, haul__role role)
{
    if (!storage)
        return;
    atomic_store_explicit(&storage->role, (unsigned char)role, memory_order_relaxed);
    if (storage->planned)
        haul__dry_run_mark(storage, role);
}

void haul__set_role(const haul_tensor *t, haul__role role)
{
    if (!haul__failed(t))
        haul__set_storage_role(t->storage, role);
}

#include "engine/follow.h"

#include "memory/dry_run/dry_run.h"

haul__recorder *haul__recorder_now(void)
{
    return haul__is_recorded() ? haul__dry_run_now()->recorder : NULL;
}

haul__follower *haul__follower_now(void)
{
    return (haul__follower *)haul__trial_now();
}

haul_status haul__follow_mark(const char *name)
{
    haul__recorder *r = haul__recorder_now();
    if (r)
        return r->mark(r, name);
    return haul__is_followed() ? haul__follower_now()->mark(haul__follower_now(), name) : HAUL_OK;
}

haul_status haul__record_begin_function(haul__asked_function *function)
{
    haul__recorder *r = haul__recorder_now();
    return r ? r->begin_function(r, function) : HAUL_OK;
}

haul_status haul__record_end_function(const haul__asked_function *function, haul_tensor *const *results, int count)
{
    haul__recorder *r = haul__recorder_now();
    return r ? r->end_function(r, function, results, count) : HAUL_OK;
}

/* Durations of commands on a GPU: the driver knows the time between two events around them once both are reached.
 * Creating events costs more than recording them, so finished ones are reused. */
#include <math.h>

#include "backends/cuda/cuda.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

static haul__cuda_timing *take_idle(haul__cuda_device *d)
{
    pthread_mutex_lock(&d->events_lock);
    haul__cuda_timing *t = d->idle_timings;
    if (t)
        d->idle_timings = t->next;
    pthread_mutex_unlock(&d->events_lock);
    return t;
}

static haul_status make(haul_device *device, haul__cuda_timing **out)
{
    haul__cuda_device *d = haul__cuda_of(device);
    haul__cuda_timing *t = haul__calloc(1, sizeof *t);
    CUresult           code, ignored;
    if (!t)
        return haul__fail_memory(device->name, sizeof *t);
    HAUL__CU_CALL(code, d, EventCreate(&t->first, 0));
    if (code == CUDA_SUCCESS) {
        HAUL__CU_CALL(code, d, EventCreate(&t->last, 0));
        if (code != CUDA_SUCCESS)
            HAUL__CU_CALL(ignored, d, EventDestroy(t->first));
    }
    if (code != CUDA_SUCCESS) {
        haul__free(t);
        return haul__cuda_check(device, "cuEventCreate", code);
    }
    *out = t;
    return HAUL_OK;
}

static haul_status record(haul__stream *s, CUevent event)
{
    CUresult code;
    HAUL__CU_CALL(code, haul__cuda_of(s->device), EventRecord(event, haul__cuda_stream(s)));
    return haul__cuda_check(s->device, "cuEventRecord", code);
}

haul_status haul__cuda_timing_begin(haul__stream *s, void **timing)
{
    haul__cuda_timing *t = take_idle(haul__cuda_of(s->device));
    haul_status        status = t ? HAUL_OK : make(s->device, &t);
    if (status)
        return status;
    HAUL__ASSERT(t->first && t->last);
    status = record(s, t->first);
    if (status)
        haul__cuda_timing_free(s->device, t);
    else
        *timing = t;
    return status;
}

haul_status haul__cuda_timing_end(haul__stream *s, void *timing)
{
    return record(s, ((haul__cuda_timing *)timing)->last);
}

/* The driver returns ms. */
static haul_status elapsed(haul_device *device, CUevent from, CUevent to, int64_t *ns)
{
    float    ms = 0;
    CUresult code;
    HAUL__CU_CALL(code, haul__cuda_of(device), EventElapsedTime(&ms, from, to));
    *ns = (int64_t)llround((double)ms * 1e6);
    return haul__cuda_check(device, "cuEventElapsedTime", code);
}

haul_status haul__cuda_timing_read(haul_device *device, void *timing, void *origin, int64_t *after, int64_t *duration)
{
    const haul__cuda_timing *t = timing, *zero = origin;
    haul_status              status = elapsed(device, zero->first, t->first, after);
    return status ? status : elapsed(device, t->first, t->last, duration);
}

void haul__cuda_timing_free(haul_device *device, void *timing)
{
    haul__cuda_device *d = haul__cuda_of(device);
    haul__cuda_timing *t = timing;
    pthread_mutex_lock(&d->events_lock);
    t->next = d->idle_timings;
    d->idle_timings = t;
    pthread_mutex_unlock(&d->events_lock);
}

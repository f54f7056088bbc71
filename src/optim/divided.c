#include "optim/divided.h"

#include <pthread.h>

#include "base/assert.h"
#include "base/system/fork.h"
#include "optim/optimizer.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static haul__divided  *first;
static atomic_int      count; /* so that programs without any take no lock */
HAUL__MUTEX_AT_FORK(HAUL__FORK_DIVIDED, lock);

void haul__divided_add(haul__divided *d)
{
    pthread_mutex_lock(&lock);
    d->next = first;
    HAUL__ASSERT(d->ranks > 0);
    first = d;
    atomic_fetch_add(&count, 1);
    pthread_mutex_unlock(&lock);
}

void haul__divided_remove(haul__divided *d)
{
    pthread_mutex_lock(&lock);
    for (haul__divided **at = &first; *at; at = &(*at)->next)
        if (*at == d) {
            *at = d->next;
            atomic_fetch_sub(&count, 1);
            break;
        }
    HAUL__ASSERT(!first || atomic_load(&count) > 0);
    pthread_mutex_unlock(&lock);
}

haul__divided *haul__divided_of(const haul_tensor *parameter)
{
    if (!atomic_load(&count))
        return NULL;
    pthread_mutex_lock(&lock);
    haul__divided *d = first;
    while (d && (!atomic_load(&d->active) || d->owner(d, parameter) < 0))
        d = d->next;
    pthread_mutex_unlock(&lock);
    return d;
}

haul__divided *haul__divided_of_optimizer(const haul_optimizer *o)
{
    haul__divided *d = NULL;
    for (int i = 0; i < o->count && !d && atomic_load(&count); i++)
        d = haul__divided_of(o->entries[i].parameter);
    return d;
}

haul_status haul__divided_refuse(const haul_optimizer *o, const char *operation)
{
    const haul__divided *d = haul__divided_of_optimizer(o);
    if (!d || d->steps)
        return HAUL_OK;
    return haul__fail(HAUL_STATE, operation, "optimizer",
                      "the gradients of its parameters are divided among %d ranks; make the step with "
                      "haul_parallel_step",
                      d->ranks);
}

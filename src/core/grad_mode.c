/* A per-thread setting: whether operations record a graph. */
#include <haul/autograd.h>

#include "core/object.h"
#include "core/thread.h"

bool haul_set_grad_enabled(bool on)
{
    bool before = !haul__thread()->no_grad;
    haul__thread()->no_grad = !on;
    return before;
}

bool haul_grad_enabled(void)
{
    return !haul__thread()->no_grad;
}

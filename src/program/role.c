#include "program/role.h"

const char *haul__role_name(haul__role role)
{
    static const char *const names[HAUL__ROLES] = {"activations", "parameters", "gradients",  "optimizer state",
                                                   "workspace",   "data",       "step arena", "other"};
    return names[role];
}

/* Operations that send a tensor to another rank of a group, or receive one. */
#ifndef HAUL_OPS_COLLECTIVE_MESSAGE_H
#define HAUL_OPS_COLLECTIVE_MESSAGE_H

#include "engine/operation.h"

/* True for the operations of message.c: each is a call of one rank, and not of all. */
bool haul__is_message(const haul__operation *operation);

#endif

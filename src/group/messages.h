/* Messages of operations: the program's own, from one rank to another one, or to the own rank.
 *
 * They are numbered, from 1 on for each pair of ranks and direction. A rank that expects another message than the one
 * that comes fails, and so does the next receive from this rank on any other one. */
#ifndef HAUL_GROUP_MESSAGES_H
#define HAUL_GROUP_MESSAGES_H

#include "group/group.h"

/* Sends a copy of the data, without waiting for the other rank. *number: of the message. */
haul_status haul__message_send(haul_group *group, const haul__group_call *call, const void *data, int64_t bytes, int to,
                               int64_t *number);
/* Waits for the next message of a rank, which must have the text of the call and as many bytes. */
haul_status haul__message_receive(haul_group *group, const haul__group_call *call, void *data, int64_t bytes, int from,
                                  int64_t *number);

/* Passes the calling thread's recorded error to the other ranks: their next receive from this rank fails with it. The
 * error stays recorded, and this rank cannot use the group any more. For a rank that cannot send or receive because
 * something failed before. */
void haul__message_fail(haul_group *group, const char *operation);

/* ---- for groups ---- */

typedef struct haul__own_message haul__own_message;

void haul__own_messages_free(haul_group *group);

#endif

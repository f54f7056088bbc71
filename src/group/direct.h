/* Data of devices that moves between ranks without the host: which groups can do that, and how they are connected.
 *
 * A group is connected if each rank's device has the library, and no two ranks have the same device. Only sums go this
 * way, because only they are large in a training; everything else, and what ranks compare before a sum, is a message of
 * the group's kind. */
#ifndef HAUL_GROUP_DIRECT_H
#define HAUL_GROUP_DIRECT_H

#include <haul/group.h>

#include "core/tensor.h"
#include "device/ranks.h"
#include "group/tree.h"

/* A group's connection of devices. */
typedef struct haul__direct {
    haul_device              *device;
    const haul__rank_library *library;    /* NULL: there is no connection */
    void                     *connection; /* NULL after a failure */
    char                      version[160];
} haul__direct;

/* A sum on the device. */
typedef struct haul__direct_sum {
    const haul__kernel *add;
    size_t              offsets[HAUL__TREE_NODES]; /* bytes from the storages of this rank's nodes to their elements */
    haul__storage      *room;                      /* the other ranks' segments; kept with the staged storages */
    haul__rank_message *messages;                  /* of one exchange */
    int                 count;
    haul_status         status; /* of the additions so far */
} haul__direct_sum;

enum { HAUL__DIRECT_WHY = 300 };

/* What a rank says of its device when it introduces itself. */
typedef struct haul__direct_card {
    bool usable;
    char place[HAUL__RANKS_PLACE];
    char why[HAUL__DIRECT_WHY]; /* if it is not */
} haul__direct_card;

/* Fills in the card of this process and its current device. */
void haul__direct_introduce(haul__direct_card *out);
/* True if the ranks of a group can be connected; cards[r] is that of rank r, and the group has their hosts. If not,
 * `why` gets the reason. */
bool haul__direct_suits(const haul_group *group, const haul__direct_card *cards, char *why, size_t size);

/* Connects the current devices of a group's ranks, which all call it. Fails on all ranks if it fails on one before the
 * library connects, or after that. The library waits for all ranks without a limit (ncclCommInitRank): a rank that
 * fails in it may leave the others there. */
haul_status haul__direct_open(haul_group *group);
void        haul__direct_close(haul_group *group);

/* True if sums of tensors like this one move directly. */
bool haul__direct_moves(const haul_group *group, const haul_tensor *t);

#endif

/* The cheapest placement of a graph on two devices, by a minimum cut, and the proof that none is cheaper. Proofs are
 * for any number of devices.
 *
 * Each group is a node: on the source's side it runs on device 0. A tensor with several users has a node for each
 * direction, "a copy is there": the arc to it costs the copy, those to its users cannot be cut. So the copy is paid
 * once.
 *
 * With prices, a placement also pays for the bytes that are resident at some operations. The cut then finds the
 * cheapest sum of both.
 *
 * The proof is a list of shares. A share is what one user pays of a copy, or of resident memory. For a tensor, let F be
 * the sum of its shares on device d, and w(a) the time of a copy from a, 0 for a = d. If it is made on a, then
 *
 *     w(a) * [a user is on d]  >=  sum of the shares of users on d  -  max(0, F - w(a)).
 *
 * So each user pays its shares and the producer gets the excess back. The choices of the groups are then independent,
 * and the sum of the cheapest is a lower bound, whatever the shares are. Those of the maximum flow make it exact. */
#ifndef HAUL_PLAN_GRAPH_CUT_H
#define HAUL_PLAN_GRAPH_CUT_H

#include "plan/graph/graph.h"

/* The price of a KiB that is resident on a device at an operation. */
typedef struct haul__place_price {
    int     device, moment;
    int64_t price; /* ps */
} haul__place_price;

typedef struct haul__place_share {
    int     tensor, device;
    int     price; /* index of the price that it is a part of; -1: of the copy to the device */
    int     group; /* who pays */
    int64_t amount;
} haul__place_share;

enum { HAUL__PLACE_PRICES = 64 };

/* All zero proves nothing. */
typedef struct haul__place_proof {
    haul__place_share *shares;
    size_t             share_count, share_room;
    haul__place_price  prices[HAUL__PLACE_PRICES];
    int                price_count;
    int64_t            bound; /* no placement that keeps the limits costs less */
} haul__place_proof;

haul_status haul__place_add_share(haul__place_proof *p, haul__place_share share);
void        haul__place_proof_free(haul__place_proof *p);

/* The cheapest placement on the graph's two devices with the proof's prices, into `place`, and the shares and the bound
 * into the proof. */
haul_status haul__place_cut(const haul__place_graph *g, uint8_t *place, haul__place_proof *proof);

/* The bound that the shares and prices of a proof give, into the proof. */
haul_status haul__place_prove(const haul__place_graph *g, haul__place_proof *proof);

/* KiB as prices count them: resident bytes are rounded down, and a limit up, so that a bound stays one. */
int64_t haul__place_kib(int64_t bytes);
int64_t haul__place_limit_kib(int64_t bytes);

/* The KiB of a tensor that a price counts, if its maker or a user at that moment is on the price's device, and those it
 * counts in addition if the maker is there. False: none. */
bool haul__place_counted(const haul__place_tensor *t, const haul__place_price *p, int64_t *shared, int64_t *of_maker);

#endif

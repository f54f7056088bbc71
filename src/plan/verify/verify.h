/* Checks a certificate of a placement (plan/place/certificate.h has its form). It shares no code with the planner but
 * the reader of JSON: the order of components keeps it below.
 *
 * The proof: let F be the sum of the shares of a tensor on device d, and w(a) the time of its copy from a, 0 for a = d.
 * If it is made on a, then w(a) * [a user is on d] >= sum of share_u * [u is on d] - max(0, F - w(a)). So users may pay
 * their shares if the producer gets the excess back. Shares of resident memory are limited by its price, and the price
 * of the whole limit is taken off. Then each group chooses for itself, and the sum of the cheapest is a lower bound. */
#ifndef HAUL_PLAN_VERIFY_VERIFY_H
#define HAUL_PLAN_VERIFY_VERIFY_H

#include <stdbool.h>

#include "files/json.h"

typedef struct haul__verdict {
    int64_t     cost, bound; /* ps; both are true if the certificate is accepted */
    const char *member;      /* that is wrong; NULL: none */
    int64_t     item;        /* of an array, else -1 */
    const char *why_not;
} haul__verdict;

/* True if the certificate is right: the placement is possible and within the limits of the graph in it, costs what it
 * says, and no other one costs less than the bound. */
bool haul__verify(const haul__json *certificate, haul__verdict *out);

#endif

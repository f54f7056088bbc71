/* A placement and its proof as a file, which plan/verify checks without the planner.
 *
 * One JSON object of whole numbers; times are picoseconds. Here are two devices; there can be more:
 *
 *     {"program": "...", "machine": "...",        digests of what the graph was made from
 *      "graph": {"devices": ["cpu", "cuda:0"],
 *                "groups": [0, 1, ...],           of each operation
 *                "costs": [[310, 20], ...],       of each operation on each device; null: it cannot run there
 *                "copies": [[0, 0, 9, 4096, 4000, 610, 590, 3, 9], ...],  a tensor: the operation that makes it; the
 *                                                 operations between which it is resident there, and its bytes; the
 *                                                 bytes of a copy; its times to the first device from each other one,
 *                                                 to the second one, and so on; and what uses it
 *                "limits": [null, 1073741824]},   bytes; null: none
 *      "operations": [{"name": "haul_conv2d", "module": "conv1", "section": "", "device": "cuda:0"}, ...],
 *                                               "outside": 1 if no module called it, but one uses what it writes
 *      "cost_ps": 1200, "bound_ps": 1200,
 *      "shares": [[0, 1, null, 5, 590], ...],     tensor, device, price or null for a copy, group, amount
 *      "prices": [[1, 9, 77], ...]}               device, operation, amount for a KiB */
#ifndef HAUL_PLAN_PLACE_CERTIFICATE_H
#define HAUL_PLAN_PLACE_CERTIFICATE_H

#include "files/json.h"
#include "plan/graph/place.h"

typedef struct haul__certificate {
    const haul__place_graph *graph;
    const haul__placement   *placement;
    const char              *program, *machine; /* digests */
    const char *const       *devices;           /* names of the graph's */
} haul__certificate;

/* The graph and the placement of a certificate, which is refused unless it is proven; `source` names its file. On
 * failure both are empty. */
haul_status haul__certificate_read(const haul__json *file, const char *source, const char *operation,
                                   haul__place_graph *graph, haul__placement *placement);

/* The text, for haul__free; NULL if memory is exhausted, with the error recorded. */
char *haul__certificate_text(const haul__certificate *c);

#endif

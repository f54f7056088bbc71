#include "plan/place/place.h"

#include <string.h>

#include "base/alloc.h"
#include "core/error.h"
#include "plan/place/search.h"

void haul__placement_free(haul__placement *p)
{
    haul__free(p->device);
    haul__place_proof_free(&p->proof);
    *p = (haul__placement){0};
}

bool haul__place_fits(const haul__place_graph *g, const haul__place_peak peaks[HAUL__PLACE_DEVICES])
{
    bool fits = true;
    for (int d = 0; d < HAUL__PLACE_DEVICES; d++)
        fits = fits && (!g->limit[d] || peaks[d].bytes <= g->limit[d]);
    return fits;
}

haul_status haul__place_measure(const haul__place_graph *g, haul__placement *p)
{
    const size_t count = HAUL__PLACE_DEVICES * (g->operation_count + 1);
    int64_t     *scratch = haul__calloc(count, sizeof *scratch);
    if (!scratch)
        return haul__fail_memory("haul plan", count * sizeof *scratch);
    haul__place_peaks(g, p->device, scratch, p->peaks);
    p->cost = haul__place_cost(g, p->device);
    haul__free(scratch);
    return HAUL_OK;
}

static haul_status new_placement(const haul__place_graph *g, haul__placement *out)
{
    *out = (haul__placement){.device = haul__calloc(g->group_count + 1, 1)};
    return out->device ? HAUL_OK : haul__fail_memory("haul plan", g->group_count + 1);
}

haul_status haul__place_single(const haul__place_graph *g, int device, haul__placement *out)
{
    haul_status status = new_placement(g, out);
    for (size_t k = 0; !status && k < g->group_count; k++)
        out->device[k] = (uint8_t)(haul__place_allows(g, (int)k, device) ? device : !device);
    return status ? status : haul__place_measure(g, out);
}

/* Takes the cheaper of two placements of which the second may not fit. */
static void take_cheaper(const haul__place_graph *g, haul__placement *best, bool *found, haul__placement *other)
{
    if (!haul__place_fits(g, other->peaks) || (*found && best->cost <= other->cost))
        return;
    memcpy(best->device, other->device, g->group_count);
    best->cost = other->cost;
    memcpy(best->peaks, other->peaks, sizeof best->peaks);
    *found = true;
}

static haul_status take_singles(const haul__place_graph *g, haul__placement *best, bool *found)
{
    haul_status status = HAUL_OK;
    for (int d = 0; !status && d < HAUL__PLACE_DEVICES; d++) {
        haul__placement single = {0};
        status = haul__place_single(g, d, &single);
        if (!status)
            take_cheaper(g, best, found, &single);
        haul__placement_free(&single);
    }
    return status;
}

static haul_status nothing_fits(const haul__place_graph *g, const haul__place_proof *proof)
{
    return haul__fail(HAUL_OUT_OF_MEMORY, "haul plan", "memory-limit",
                      proof->bound > g->most
                          ? "no placement fits the limits of %lld and %lld bytes (0: none); that is proven"
                          : "no placement was found that fits the limits of %lld and %lld bytes (0: none)",
                      (long long)g->limit[0], (long long)g->limit[1]);
}

static haul_status solve(const haul__place_graph *g, haul__placement *p)
{
    bool        found = false;
    haul_status status = haul__place_cut(g, p->device, &p->proof);
    if (!status)
        status = haul__place_measure(g, p);
    if (status || haul__place_fits(g, p->peaks))
        return status;
    status = take_singles(g, p, &found);
    if (!status)
        status = haul__place_search(g, p->device, &found, &p->proof);
    if (!status && !found)
        status = nothing_fits(g, &p->proof);
    return status ? status : haul__place_measure(g, p);
}

haul_status haul__place_solve(const haul__place_graph *g, haul__placement *out)
{
    haul_status status = new_placement(g, out);
    if (!status)
        status = solve(g, out);
    if (status)
        haul__placement_free(out);
    return status;
}

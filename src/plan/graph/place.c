#include "plan/graph/place.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/list.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "memory/report/origins.h"
#include "plan/graph/many.h"
#include "plan/graph/search.h"

void haul__placement_free(haul__placement *p)
{
    haul__free(p->device);
    haul__place_proof_free(&p->proof);
    *p = (haul__placement){0};
}

bool haul__place_fits(const haul__place_graph *g, const haul__place_peak peaks[HAUL__PLACE_DEVICES])
{
    bool fits = true;
    for (int d = 0; d < g->device_count; d++)
        fits = fits && (!g->limit[d] || peaks[d].bytes <= g->limit[d]);
    return fits;
}

haul_status haul__place_measure(const haul__place_graph *g, haul__placement *p)
{
    const size_t count = (size_t)g->device_count * (g->operation_count + 1);
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
    const haul_status status = new_placement(g, out);
    if (status)
        return status;
    haul__place_all_on(g, device, out->device);
    return haul__place_measure(g, out);
}

/* Takes the cheaper of two placements of which the second may not fit. */
static void take_cheaper(const haul__place_graph *g, haul__placement *best, bool *found, haul__placement *other)
{
    if (!haul__place_fits(g, other->peaks) || (*found && best->cost <= other->cost))
        return;
    HAUL__ASSERT(other->cost >= best->proof.bound);
    memcpy(best->device, other->device, g->group_count);
    best->cost = other->cost;
    memcpy(best->peaks, other->peaks, sizeof best->peaks);
    *found = true;
}

static haul_status take_singles(const haul__place_graph *g, haul__placement *best, bool *found)
{
    haul_status status = HAUL_OK;
    for (int d = 0; !status && d < g->device_count; d++) {
        haul__placement single = {0};
        status = haul__place_single(g, d, &single);
        if (!status)
            take_cheaper(g, best, found, &single);
        haul__placement_free(&single);
    }
    return status;
}

static haul_status find_fitting(const haul__place_graph *g, haul__placement *p, bool *found);

/* The best placement on two of more devices that is found within their limits. */
static haul_status take_pair(const haul__place_graph *g, const int devices[2], haul__placement *best, bool *found)
{
    HAUL__ASSERT(devices[0] < devices[1] && devices[1] < g->device_count);
    haul__place_graph pair;
    haul__placement   p = {0};
    bool              fits;
    haul_status       status = haul__place_pair(g, devices[0], devices[1], &pair, &fits);
    if (status)
        return status;
    if (fits)
        status = new_placement(g, &p);
    if (fits && !status)
        status = find_fitting(&pair, &p, &fits);
    if (fits && !status) {
        for (size_t k = 0; k < g->group_count; k++)
            p.device[k] = (uint8_t)devices[p.device[k]];
        status = haul__place_measure(g, &p);
        if (!status)
            take_cheaper(g, best, found, &p);
    }
    haul__placement_free(&p);
    haul__place_pair_free(&pair);
    return status;
}

static haul_status take_pairs(const haul__place_graph *g, haul__placement *best, bool *found)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < g->device_count && g->device_count > 2; i++)
        for (int j = i + 1; j < g->device_count && !status; j++)
            status = take_pair(g, (const int[]){i, j}, best, found);
    return status;
}

static const char *name_of(const haul__place_graph *g, int device, char number[24])
{
    haul__snprintf(number, 24, "device %d", device);
    return g->names[device] ? g->names[device] : number;
}

/* "9.8 KiB on cpu and 2.0 MiB on cuda:0": the limits, or what everything on the device needs. */
static const char *bytes_of(const haul__place_graph *g, bool needs, char *out, size_t size)
{
    size_t used = 0;
    char   text[48], name[24];
    int    count = 0, listed = 0;
    for (int d = 0; d < g->device_count; d++)
        count += needs || g->limit[d];
    *out = '\0';
    for (int d = 0; d < g->device_count && used < size; d++) {
        haul__placement single = {.device = NULL};
        if (!needs && !g->limit[d])
            continue;
        if (needs && haul__place_single(g, d, &single))
            return "";
        haul__size_text(needs ? single.peaks[d].bytes : g->limit[d], text, sizeof text);
        haul__placement_free(&single);
        used += (size_t)haul__snprintf(out + used, size - used, "%s%s on %s",
                                       haul__list_separator(listed++, count, " and "), text, name_of(g, d, name));
    }
    return out;
}

static haul_status nothing_fits(const haul__place_graph *g, const haul__place_proof *proof)
{
    char limits[HAUL__PLACE_DEVICES * 80], needs[HAUL__PLACE_DEVICES * 80];
    return haul__fail(HAUL_OUT_OF_MEMORY, "haul plan", "memory-limit",
                      proof->bound > g->most ? "no placement fits in %s; that is proven; alone they need %s"
                                             : "no placement was found that fits in %s; alone they need %s",
                      bytes_of(g, false, limits, sizeof limits), bytes_of(g, true, needs, sizeof needs));
}

/* Without limits. */
static haul_status find_cheapest(const haul__place_graph *g, haul__placement *p)
{
    const bool        two = g->device_count == 2;
    const haul_status status =
        two ? haul__place_cut(g, p->device, &p->proof) : haul__place_among_many(g, p->device, &p->proof);
    return status ? status : haul__place_measure(g, p);
}

/* *found: a placement fits. */
static haul_status find_fitting(const haul__place_graph *g, haul__placement *p, bool *found)
{
    haul_status status = find_cheapest(g, p);
    *found = !status && haul__place_fits(g, p->peaks);
    if (status || *found)
        return status;
    status = take_singles(g, p, found);
    if (!status)
        status = take_pairs(g, p, found);
    if (!status)
        status = haul__place_search(g, p->device, found, &p->proof);
    return status || !*found ? status : haul__place_measure(g, p);
}

haul_status haul__place_solve(const haul__place_graph *g, haul__placement *out)
{
    bool        found = false;
    haul_status status = new_placement(g, out);
    if (!status)
        status = find_fitting(g, out, &found);
    if (!status && !found)
        status = nothing_fits(g, &out->proof);
    HAUL__ASSERT(status || (haul__place_fits(g, out->peaks) && out->proof.bound <= out->cost));
    if (status)
        haul__placement_free(out);
    return status;
}

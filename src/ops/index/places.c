/* Counting the true elements of a mask: the first of two passes over it, after which the second knows where each
 * element goes, so that results do not depend on the number of threads.
 *
 * The mask is cut into chunks. Each chunk is counted by one work item, then the counts are added up: within groups of
 * chunks by an item each, and the sums of the groups by one item. */
#include "ops/index/places.h"

#include <string.h>

#include "base/assert.h"
#include "base/numbers.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "transfer/copy.h"

// clang-format off
/* kernel text begins */
#include "ops/index/places_kernel.h"

typedef struct places_params {
    I64 items;
    I64 count, chunk, chunks; /* elements of the mask and of a chunk; chunks */
    I64 offsets[2];           /* of places and of the mask */
} places_params;

#if defined(HAUL_KERNEL) && defined(HAUL_KERNEL_DTYPE_bool)
/* The true elements of each chunk: a chunk an item. */
KERNEL2(count_true, places_params, I64, places, const U8, mask)
{
    FOR_ITEMS(i) {
        const I64 first = i * p.chunk, n = least(p.count - first, p.chunk);
        GLOBAL const U8 *v = mask + p.offsets[1] + first;
        I32 sum = 0; /* a chunk has fewer elements than that */
        VECTOR_LOOP for (I64 j = 0; j < n; j++) sum += v[j];
        places[p.offsets[0] + i] = sum;
    }
}

/* Within a group, each count becomes the sum of those before it: a group an item. */
KERNEL1(add_places, places_params, I64, places)
{
    FOR_ITEMS(i) {
        GLOBAL I64 *v = places + p.offsets[0] + i * PLACE_GROUP;
        const I64 n = least(p.chunks - i * PLACE_GROUP, PLACE_GROUP);
        I64 sum = 0;
        for (I64 j = 0; j < n; j++) {
            const I64 count = v[j];
            v[j] = sum;
            sum += count;
        }
        places[p.offsets[0] + p.chunks + i] = sum;
    }
}

/* The same for the sums of groups, by one item; the sum of all comes last. */
KERNEL1(add_place_groups, places_params, I64, places)
{
    FOR_ITEMS(i) {
        GLOBAL I64 *v = places + p.offsets[0] + p.chunks + i;
        const I64 groups = QUOTIENT(p.chunks + PLACE_GROUP - 1, PLACE_GROUP);
        I64 sum = 0;
        for (I64 j = 0; j < groups; j++) {
            const I64 count = v[j];
            v[j] = sum;
            sum += count;
        }
        v[groups] = sum;
    }
}
#endif
/* kernel text ends */
// clang-format on

/* Elements of a chunk on processors and on GPUs. */
enum { CHUNK = 4096, SMALL_CHUNK = 64 };

int64_t haul__place_chunk(const haul_device *device)
{
    return device->strided ? SMALL_CHUNK : CHUNK;
}

static int64_t chunks_of(const haul__call *c, int64_t count)
{
    return haul__ceil_div(count, haul__place_chunk(c->device));
}

static int64_t places_count(int64_t chunks)
{
    return chunks + haul__ceil_div(chunks, PLACE_GROUP) + 1;
}

static haul_status infer(haul__call *c)
{
    return haul__describe(c, 0, HAUL_I64, &HAUL_SHAPE(places_count(chunks_of(c, c->operands[0]->count))));
}

static haul_status compute(haul__call *c)
{
    haul_tensor  *mask = c->operands[0], *places = c->results[0];
    places_params p = {.count = mask->count,
                       .chunk = haul__place_chunk(c->device),
                       .chunks = chunks_of(c, mask->count),
                       .offsets = {places->offset, mask->offset}};
    HAUL__ASSERT(p.chunks * p.chunk >= p.count && places->count == places_count(p.chunks));
    HAUL__ASSERT(p.chunk > 0);
    p.items = p.chunks;
    if (haul__launch_kernel(c, HAUL__K_count_true, HAUL_BOOL, HAUL__OUT(places), HAUL__IN(mask), HAUL__PARAMS(p),
                            .grain = c->device->strided ? 64 : 8))
        return haul_error_status();
    p.items = haul__ceil_div(p.chunks, PLACE_GROUP);
    if (haul__launch_kernel(c, HAUL__K_add_places, HAUL_BOOL, HAUL__OUT(places), HAUL__PARAMS(p), .grain = 16))
        return haul_error_status();
    p.items = 1;
    return haul__launch_kernel(c, HAUL__K_add_place_groups, HAUL_BOOL, HAUL__OUT(places), HAUL__PARAMS(p), .grain = 1);
}

HAUL__OPERATION(true_places) = {
    .name = "haul_true_places",
    .operands = {{"mask", .accepts = HAUL__ONLY(HAUL_BOOL)}},
    .results = {{"places"}},
    .infer = infer,
    .compute = compute,
};

haul_tensor *haul__true_places(haul_tensor *mask)
{
    return HAUL__APPLY(true_places, NULL, mask);
}

haul_status haul__check_places(const haul__call *c, const haul_tensor *places, int64_t count)
{
    if (places->count == places_count(chunks_of(c, count)))
        return HAUL_OK;
    return haul__fail(HAUL_STATE, c->operation->name, "places", "the mask was counted on another type of device");
}

/* ---- reading a count ---- */

haul_status haul__read_count(const haul__call *c, haul_tensor *t, const char *unknown, int64_t *count)
{
    HAUL__ASSERT(t->count == 1 && t->dtype == HAUL_I64);
    const char      *name = c->operation->name;
    haul__storage   *storage = t->storage;
    const size_t     at = (size_t)t->offset * sizeof *count;
    const haul__copy out = {.operation = name, .to_host = count, .from = {storage, at}, .bytes = sizeof *count};
    if (!haul__device_computes(storage->device) || haul__is_dry())
        return haul__fail(HAUL_STATE, name, "size",
                          "%s is not known %s, which computes no values; choose a fixed number with .size", unknown,
                          haul__is_dry() ? "in a dry run" : "on meta");
    if (!haul__device_is_host(storage->device))
        return haul__transfer(&out);
    if (haul__host_before(storage, false, name) || haul__index_faults_raise(NULL))
        return haul_error_status();
    HAUL__ASSERT(at + sizeof *count <= storage->bytes);
    memcpy(count, (const char *)storage->buffer.host + at, sizeof *count);
    return HAUL_OK;
}

haul_status haul__count_true(const haul__call *c, haul_tensor *places, int64_t *count)
{
    haul_tensor *last = haul_select(places, 0, -1);
    return haul__failed(last) ? haul_error_status() : haul__read_count(c, last, "how many elements are true", count);
}

haul_status haul__bounded_size(const haul__call *c, int64_t *size)
{
    const int64_t given = *size;
    *size = given == HAUL_ZERO ? 0 : given ? given : -1;
    return given >= 0 || given == HAUL_ZERO
               ? HAUL_OK
               : haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "size",
                            "size is %lld; it must not be negative (HAUL_ZERO for none)", (long long)given);
}

/* haul_split and haul_chunk: the parts of a tensor along an axis, as slices. */
#include "base/assert.h"
#include "engine/operation.h"

/* Returns the parts, or a failed tensor for each of them. */
static haul_status finish(haul_status status, haul_tensor **parts, int count)
{
    for (int i = 0; status && i < count; i++)
        parts[i] = haul__failed_tensor();
    return status;
}

/* Checks for both; `n` becomes the length of the axis. */
static haul_status check(const char *name, haul_tensor *x, int *axis, haul_tensor **parts, int count, int64_t *n)
{
    if (!parts)
        return haul__fail_null(name, "parts");
    if (count < 1)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "count", "count is %d; at least one part is expected", count);
    if (haul__check_tensor(name, "x", x) || haul__axis(*axis, x->shape.ndim, name, axis))
        return haul_error_status();
    *n = x->shape.dims[*axis];
    return HAUL_OK;
}

static haul_status slice_parts(haul_tensor *x, int axis, const int64_t *sizes, int64_t each, int count,
                               haul_tensor **parts)
{
    const int64_t n = x->shape.dims[axis];
    int64_t       at = 0;
    haul_status   status = HAUL_OK;
    for (int i = 0; i < count && !status; i++) {
        const int64_t size = sizes ? sizes[i] : each < n - at ? each : n - at;
        parts[i] = haul_slice(x, axis, at, at + size, 1);
        status = haul_tensor_check(parts[i]);
        at += size;
    }
    HAUL__ASSERT(status || at == n); /* the parts cover the axis */
    return status;
}

static haul_status check_sizes(const char *name, const int64_t *sizes, int count, int axis, int64_t n)
{
    int64_t sum = 0;
    if (!sizes)
        return haul__fail_null(name, "sizes");
    for (int i = 0; i < count; i++)
        if (sizes[i] < 0 || !haul__add_size(sum, sizes[i], &sum))
            return haul__fail(HAUL_INVALID_ARGUMENT, name, "sizes", "sizes[%d] is %lld; 0 to %lld is expected", i,
                              (long long)sizes[i], (long long)n);
    if (sum != n)
        return haul__fail(HAUL_SHAPE, name, "sizes", "the sizes add up to %lld, but axis %d of x has %lld elements",
                          (long long)sum, axis, (long long)n);
    return HAUL_OK;
}

haul_status haul_split(haul_tensor *x, int axis, const int64_t *sizes, int count, haul_tensor **parts)
{
    int64_t     n = 0;
    haul_status status = check("haul_split", x, &axis, parts, count, &n);
    status = status ? status : check_sizes("haul_split", sizes, count, axis, n);
    status = status ? status : slice_parts(x, axis, sizes, 0, count, parts);
    return parts ? finish(status, parts, count) : status;
}

haul_status haul_chunk(haul_tensor *x, int axis, int count, haul_tensor **parts)
{
    int64_t     n = 0;
    haul_status status = check("haul_chunk", x, &axis, parts, count, &n);
    status = status ? status : slice_parts(x, axis, NULL, n / count + (n % count != 0), count, parts);
    return parts ? finish(status, parts, count) : status;
}

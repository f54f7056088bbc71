/* The copy verb and its ledger.
 *
 * Copies between a device and the CPU, or two devices of one backend, are submitted and done when they are done: the
 * storages' uses keep order. Between devices that know nothing of each other bytes go through two pieces of host memory
 * in turn, so that one is read while the other is written. Small arrays of the caller's are copied to host memory of
 * ours first, so that nobody waits for the link. */
#include "transfer/transfer.h"

#include <haul/transfer.h>
#include <string.h>

#include "core/object.h"
#include "memory/allocator.h"

enum { PIECE = 4 << 20, STAGED_UP_TO = 256 << 10 };

/* ---- the ledger ---- */

typedef struct account {
    atomic_llong bytes, count;
} account;

static account h2d, d2h, d2d;

static haul_status counted(haul_status status, account *a, size_t bytes)
{
    if (!status && bytes > 0) {
        atomic_fetch_add_explicit(&a->bytes, (long long)bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&a->count, 1, memory_order_relaxed);
    }
    return status;
}

haul_status haul_transfer_stats_get(haul_transfer_stats *out)
{
    if (!out)
        return haul__fail_null("haul_transfer_stats_get", "out");
    *out = (haul_transfer_stats){.h2d_bytes = atomic_load(&h2d.bytes),
                                 .d2h_bytes = atomic_load(&d2h.bytes),
                                 .d2d_bytes = atomic_load(&d2d.bytes),
                                 .h2d_count = atomic_load(&h2d.count),
                                 .d2h_count = atomic_load(&d2h.count),
                                 .d2d_count = atomic_load(&d2d.count)};
    return HAUL_OK;
}

void haul_transfer_stats_reset(void)
{
    account *all[] = {&h2d, &d2h, &d2d};
    for (int i = 0; i < 3; i++) {
        atomic_store(&all[i]->bytes, 0);
        atomic_store(&all[i]->count, 0);
    }
}

/* ---- the verb ---- */

static haul_status refuse_meta(const char *origin)
{
    return haul__fail(HAUL_DEVICE, origin, NULL,
                      "a tensor on meta has a shape and no data to copy; make it on another device");
}

static haul_status write_from(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset,
                              size_t bytes, const char *origin)
{
    const char *host = (const char *)from->buffer.host + from_offset;
    return counted(haul__submit_write(to, to_offset, host, from, bytes, origin), &h2d, bytes);
}

static haul_status read_into(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset, size_t bytes,
                             const char *origin)
{
    char *host = (char *)to->buffer.host + to_offset;
    return counted(haul__submit_read(host, to, from, from_offset, bytes, origin), &d2h, bytes);
}

static haul_status through_host(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset,
                                size_t bytes, const char *origin)
{
    haul_device   *cpu = haul_cpu();
    haul__storage *pieces[2] = {NULL, NULL};
    haul_status    status = haul__device_check(cpu, origin, NULL);
    size_t         piece = bytes < PIECE ? bytes : PIECE;
    for (size_t at = 0, turn = 0; at < bytes && !status; at += piece, turn ^= 1) {
        size_t size = bytes - at < piece ? bytes - at : piece;
        if (!pieces[turn])
            pieces[turn] = haul__storage_alloc(cpu, piece, origin);
        if (!pieces[turn]) {
            status = haul_error_status();
            break;
        }
        status = read_into(pieces[turn], 0, from, from_offset + at, size, origin);
        if (!status)
            status = write_from(to, to_offset + at, pieces[turn], 0, size, origin);
    }
    haul__object_release(pieces[0]);
    haul__object_release(pieces[1]);
    return status;
}

haul_status haul__transfer(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset, size_t bytes,
                           const char *origin)
{
    const haul__backend *target = to->device->backend, *source = from->device->backend;
    if (bytes == 0 || target->no_data)
        return HAUL_OK;
    if (source->no_data)
        return refuse_meta(origin);
    if (to->device == from->device)
        return haul__submit_copy(to, to_offset, from, from_offset, bytes, origin);
    if (source->host_memory)
        return write_from(to, to_offset, from, from_offset, bytes, origin);
    if (target->host_memory)
        return read_into(to, to_offset, from, from_offset, bytes, origin);
    haul_status status = haul__submit_peer(to, to_offset, from, from_offset, bytes, origin);
    if (status == HAUL_UNSUPPORTED)
        return through_host(to, to_offset, from, from_offset, bytes, origin);
    return counted(status, &d2d, bytes);
}

/* ---- memory of the caller's ---- */

/* By way of host memory of ours, which is kept until the device has read it. */
static haul_status stage(haul__storage *to, size_t offset, const void *host, size_t bytes, const char *origin)
{
    haul__storage *staged = haul__storage_alloc(haul_cpu(), bytes, origin);
    haul_status    status = staged ? haul__host_before(staged, true, origin) : haul_error_status();
    if (!status) {
        memcpy(staged->buffer.host, host, bytes);
        status = write_from(to, offset, staged, 0, bytes, origin);
    }
    haul__object_release(staged);
    return status;
}

static haul_status from_host(haul__storage *to, size_t offset, const void *host, size_t bytes, const char *origin)
{
    const haul__backend *target = to->device->backend;
    if (target->host_memory)
        return haul__submit_write(to, offset, host, NULL, bytes, origin);
    if (bytes <= STAGED_UP_TO)
        return stage(to, offset, host, bytes, origin);
    return counted(haul__submit_write(to, offset, host, NULL, bytes, origin), &h2d, bytes);
}

haul_status haul__transfer_from_host(haul__storage *to, size_t offset, const void *host, size_t bytes,
                                     const char *origin)
{
    haul__wait_group group;
    if (bytes == 0 || to->device->backend->no_data)
        return HAUL_OK;
    haul__wait_group_begin(&group, origin, bytes);
    haul_status status = from_host(to, offset, host, bytes, origin);
    haul__wait_group_end(&group);
    return status;
}

haul_status haul__transfer_to_host(void *host, haul__storage *from, size_t offset, size_t bytes, const char *origin)
{
    const haul__backend *source = from->device->backend;
    haul__wait_group     group;
    if (bytes == 0)
        return HAUL_OK;
    if (source->no_data)
        return refuse_meta(origin);
    haul__wait_group_begin(&group, origin, bytes);
    haul_status status = haul__submit_read(host, NULL, from, offset, bytes, origin);
    haul__wait_group_end(&group);
    return source->host_memory ? status : counted(status, &d2h, bytes);
}

/* The copy verb.
 *
 * Copies between a device and pinned host memory, and between devices with a direct link, are asynchronous and ordered
 * by the storages' uses; so is memory that another library pinned and the program wrapped. Pageable host memory is
 * copied in chunks through pinned memory, because drivers copy it slowly and make the host wait unseen; so are copies
 * between devices without a direct link. Devices that work in host memory copy from and to any address. */
#include <haul/transfer.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/system/clock.h"
#include "core/object.h"
#include "core/trial.h"
#include "device/device.h"
#include "device/link.h"
#include "device/residency.h"
#include "device/speeds.h"
#include "events/events.h"
#include "memory/allocator.h"
#include "memory/block_events.h"
#include "memory/dry_run/dry_run.h"
#include "transfer/copy.h"
#include "transfer/staging.h"

/* COPIED_UP_TO: of arrays of the program for devices that copy from any address. AHEAD_PIECE: takes a link of 16 GB/s a
 * quarter of a millisecond. ASKED_FROM: for fewer bytes asking the driver whether they are pinned takes longer than it
 * gains. */
enum { COPIED_UP_TO = 256 << 10, AHEAD_PIECE = 4 << 20, ASKED_FROM = 64 << 10 };

/* ---- events ---- */

/* A copy under way. Its commands and its event have one number; the way from the host to the second device has the next
 * one. */
typedef struct crossing {
    const haul__copy    *copy;
    haul__wait_group     group;
    uint64_t             number;
    const char          *host;    /* the memory at the host's end: "pinned" or "pageable"; NULL: no difference */
    const void          *at;      /* its address */
    bool                 settled; /* no device is still writing there */
    const haul__storage *far;     /* the storage at the device's end; NULL: of a copy between devices */
    int64_t              began;   /* when the call began, if there is a subscriber */
} crossing;

static void crossing_begin(crossing *x, const haul__copy *copy, size_t bytes)
{
    static atomic_ullong last;
    HAUL__ASSERT(copy->operation && bytes > 0);
    x->copy = copy;
    x->host = NULL;
    x->at = NULL;
    x->settled = false;
    x->far = NULL;
    x->began = haul__watched(HAUL_EVENT_COPY) ? haul__now_ns() : 0;
    x->number = atomic_fetch_add_explicit(&last, 2, memory_order_relaxed) + 1;
    haul__wait_group_begin(&x->group, copy->operation, bytes);
}

static void crossing_end(crossing *x)
{
    haul__wait_group_end(&x->group);
}

/* What HAUL_PLACE_AUTO counted for a copy that it asked for. */
static int64_t planned_ns(const crossing *x, const haul_device *to, const haul_device *from)
{
    const bool    pinned = to == haul_cpu() || !x->host || strcmp(x->host, "pageable") != 0;
    const int64_t ps = x->copy->note.placed && haul__watched(HAUL_EVENT_COPY)
                           ? haul__speeds_copy_time(from, to, (int64_t)x->group.bytes, pinned)
                           : 0;
    return (ps + 999) / 1000;
}

/* A copy over a link was submitted, or `status` holds the reason why it was not. */
static haul_status counted(const crossing *x, haul_status status, haul_event_kind kind, const haul_device *to,
                           const haul_device *from)
{
    const haul__conversion *c = &x->copy->conversion;
    char                    conversion[32] = "";
    if (status)
        return status;
    if (c->from != c->to)
        snprintf(conversion, sizeof conversion, "%s to %s", haul_dtype_name(c->from), haul_dtype_name(c->to));
    HAUL__ASSERT(to != from); /* it crosses a link */
    haul__emit_counted(
        &(haul_event){.kind = kind,
                      .operation = x->group.operation,
                      .device = to,
                      .other = from,
                      .bytes = (int64_t)x->group.bytes,
                      .copy = x->number,
                      .tensor = x->copy->note.tensor,
                      .planned = planned_ns(x, to, from),
                      .text = x->host,
                      .host = x->at,
                      .settled = x->settled,
                      .storage = x->far && haul__watched(HAUL_EVENT_COPY) ? haul__storage_number(x->far) : 0,
                      .problem = conversion,
                      .submitted = x->began,
                      .duration = x->group.ns});
    return HAUL_OK;
}

/* ---- the commands ---- */

static haul_status refuse_meta(const haul__copy *copy)
{
    return haul__fail(HAUL_DEVICE, copy->operation, NULL,
                      "a tensor on meta has a shape and no data to copy; make it on another device");
}

static bool is_within(haul__region region, size_t bytes)
{
    return region.storage->planned || region.offset + bytes <= region.storage->bytes;
}

/* Between storages: a copy, a peer copy or, if one of them is in host memory, a write or a read, which may have a
 * kernel. */
static haul_status move_by(const haul__copy *copy, uint64_t number, const haul__command *by, haul__command_kind kind,
                           const haul__copy_range *range)
{
    HAUL__ASSERT(by->kernel || is_within(range->to, range->bytes)); /* a kernel may read an element often */
    HAUL__ASSERT(by->kernel || is_within(range->from, range->bytes));
    static const haul__stream_choice streams[] = {[HAUL__COMMAND_COPY] = HAUL__STREAM_COMPUTE,
                                                  [HAUL__COMMAND_WRITE] = HAUL__STREAM_UPLOAD,
                                                  [HAUL__COMMAND_READ] = HAUL__STREAM_DOWNLOAD,
                                                  [HAUL__COMMAND_PEER] = HAUL__STREAM_UPLOAD};
    return haul__submit(
        &(haul__command){.kind = kind,
                         .stream = kind == HAUL__COMMAND_WRITE && copy->ahead ? HAUL__STREAM_AHEAD : streams[kind],
                         .operation = copy->operation,
                         .device = (kind == HAUL__COMMAND_READ ? range->from : range->to).storage->device,
                         .buffers = (haul__region[]){range->to, range->from},
                         .write_count = 1,
                         .buffer_count = 2,
                         .bytes = range->bytes,
                         .copy = number,
                         .kernel = by->kernel,
                         .params = by->params,
                         .params_size = by->params_size,
                         .items = by->items,
                         .grain = by->grain});
}

static haul_status move(const crossing *x, haul__command_kind kind, haul__region to, haul__region from, size_t bytes)
{
    return move_by(x->copy, x->number, &(haul__command){.kernel = NULL}, kind, &(haul__copy_range){to, from, bytes});
}

/* From host memory that the device can copy from at any time. A fresh target may be half written if it fails, so a copy
 * that can wait is cut into pieces, between which a device with one engine for copies lets others pass. */
static haul_status write_storage(const crossing *x, const haul__copy_range *range)
{
    const haul__region to = range->to, from = range->from;
    const size_t       piece = x->copy->ahead && x->copy->fresh ? AHEAD_PIECE : range->bytes;
    HAUL__ASSERT(haul__device_is_host(from.storage->device) && !haul__device_is_host(to.storage->device));
    haul_status status = HAUL_OK;
    for (size_t at = 0; at < range->bytes && !status; at += piece)
        status =
            move(x, HAUL__COMMAND_WRITE, (haul__region){to.storage, to.offset + at},
                 (haul__region){from.storage, from.offset + at}, range->bytes - at < piece ? range->bytes - at : piece);
    return status;
}

/* From the caller's memory. */
static haul_status write_from(const haul__copy *c, uint64_t number)
{
    return haul__submit(&(haul__command){.kind = HAUL__COMMAND_WRITE,
                                         .stream = HAUL__STREAM_UPLOAD,
                                         .operation = c->operation,
                                         .device = c->to.storage->device,
                                         .buffers = &c->to,
                                         .write_count = 1,
                                         .buffer_count = 1,
                                         .bytes = c->bytes,
                                         .copy = number,
                                         .from_host = c->from_host});
}

/* To the caller's memory. */
static haul_status read_into(const haul__copy *c, uint64_t number)
{
    return haul__submit(&(haul__command){.kind = HAUL__COMMAND_READ,
                                         .stream = HAUL__STREAM_DOWNLOAD,
                                         .operation = c->operation,
                                         .device = c->from.storage->device,
                                         .buffers = &c->from,
                                         .buffer_count = 1,
                                         .bytes = c->bytes,
                                         .copy = number,
                                         .to_host = c->to_host});
}

/* ---- landings ---- */

/* A multi-chunk copy into visible memory first goes to a temporary, from which one command copies it, so that a failure
 * leaves the target unchanged. */
typedef struct landing {
    haul__region   to;
    haul__storage *apart; /* NULL: none is needed */
} landing;

/* Returns false, without recording an error, if there is no memory for it. */
static bool landing_begin(landing *l, const haul__copy *c, haul__region to, size_t bytes)
{
    haul__error_record before;
    *l = (landing){to, NULL};
    if (c->fresh || haul__staged_chunks(bytes) == 1)
        return true;
    haul__error_save(&before);
    l->apart = haul__storage_alloc(to.storage->device, bytes, c->operation);
    if (l->apart)
        l->to = (haul__region){l->apart, 0};
    else
        haul__error_restore(&before);
    return l->apart != NULL;
}

static haul_status landing_end(const landing *l, const crossing *x, haul__region to, size_t bytes, haul_status status)
{
    HAUL__ASSERT(!l->apart || l->to.storage == l->apart);
    if (l->apart && !status)
        status = move(x, HAUL__COMMAND_COPY, to, l->to, bytes);
    haul__object_release(l->apart);
    return status;
}

/* In a dry run: plans the memory that the copy would need on its way, and counts the bytes that would cross. pinned:
 * one end is pinned host memory, which needs none. */
static haul_status plan(const haul__copy *c, haul__region to, haul_device *from, bool pinned, size_t bytes)
{
    landing      l;
    haul_device *device = to.storage->device;
    HAUL__ASSERT(haul__is_dry() && bytes > 0);
    const crossing x = {.copy = c};
    const bool     staged = !pinned && (haul__device_pins(device) || haul__device_pins(from));
    if (staged && landing_begin(&l, c, to, bytes))
        landing_end(&l, &x, to, bytes, HAUL_OK);
    haul__dry_run_copied(device, from, bytes);
    return haul__residency_plan(
        &(haul__command){.device = device, .buffers = &to, .write_count = 1, .buffer_count = 1});
}

/* What events say of the memory at the host's end; NULL where the device copies from and to any memory. */
static const char *host_memory(bool pinned, const haul_device *device)
{
    return pinned ? "pinned" : haul__device_pins(device) ? "pageable" : NULL;
}

/* True if the device copies the program's memory at full speed at any time. */
static bool is_foreign_pinned(haul_device *device, const void *host, size_t bytes)
{
    return bytes >= ASKED_FROM && haul__device_host_is_pinned(device, host, bytes);
}

/* ---- from the host ---- */

/* From memory that is not pinned, through memory that is. The memory is that of `owner`, or, where it is NULL, the
 * caller's, who may change it again when the function returns. Returns HAUL_UNSUPPORTED, without recording an error, if
 * there is no memory for it. */
static haul_status stage_up(const crossing *x, haul__region to, const void *host, haul__storage *owner, size_t bytes)
{
    landing l;
    if (!haul__device_pins(to.storage->device) || !landing_begin(&l, x->copy, to, bytes))
        return HAUL_UNSUPPORTED;
    haul_status status = owner ? haul__host_before(owner, false, x->copy->operation) : HAUL_OK;
    if (!status)
        status = haul__stage_up(x->copy, x->number, l.to, host, bytes);
    return landing_end(&l, x, to, bytes, status);
}

/* Small arrays for devices that copy from any address: they go through a buffer that is kept until the device has read
 * it, so the host does not wait. */
static haul_status up_small(const crossing *x)
{
    const haul__copy *c = x->copy;
    haul__storage    *staged = haul__storage_alloc(haul_cpu(), c->bytes, c->operation);
    HAUL__ASSERT(c->bytes <= COPIED_UP_TO && (!staged || staged->bytes == c->bytes));
    haul_status status = staged ? haul__host_before(staged, true, c->operation) : haul_error_status();
    if (!status) {
        memcpy(staged->buffer.host, c->from_host, c->bytes);
        status = move(x, HAUL__COMMAND_WRITE, c->to, (haul__region){staged, 0}, c->bytes);
    }
    haul__object_release(staged);
    return status;
}

static haul_status up_from(const crossing *x)
{
    const haul__copy *c = x->copy;
    if (!haul__device_pins(c->to.storage->device) && c->bytes <= COPIED_UP_TO)
        return up_small(x);
    haul_status status = stage_up(x, c->to, c->from_host, NULL, c->bytes);
    return status == HAUL_UNSUPPORTED ? write_from(c, x->number) : status;
}

static haul_status from_host(const haul__copy *c)
{
    crossing     x;
    haul_device *device = c->to.storage->device;
    if (c->bytes == 0 || !haul__device_computes(device))
        return HAUL_OK;
    HAUL__ASSERT(is_within(c->to, c->bytes));
    if (haul__is_dry())
        return plan(c, c->to, haul_cpu(), false, c->bytes);
    if (haul__device_is_host(device))
        return write_from(c, 0);
    crossing_begin(&x, c, c->bytes);
    const bool pinned = is_foreign_pinned(device, c->from_host, c->bytes);
    x.host = host_memory(pinned, device);
    x.at = c->from_host;
    x.settled = true;
    x.far = c->to.storage;
    const int64_t start = haul__link_start(c->bytes);
    haul_status   status = pinned ? write_from(c, x.number) : up_from(&x);
    if (!status)
        haul__link_end(device, c->bytes, start);
    status = counted(&x, status, HAUL_EVENT_COPY_TO_DEVICE, device, haul_cpu());
    crossing_end(&x);
    return status;
}

/* ---- to the host ---- */

static haul_status to_host(const haul__copy *c)
{
    crossing     x;
    haul_status  status = HAUL_UNSUPPORTED;
    haul_device *device = c->from.storage->device;
    if (c->bytes == 0)
        return HAUL_OK;
    if (!haul__device_computes(device))
        return refuse_meta(c);
    if (haul__refuse_dry(c->operation) || haul__refuse_planned(c->from.storage, c->operation))
        return haul_error_status();
    HAUL__ASSERT(is_within(c->from, c->bytes));
    crossing_begin(&x, c, c->bytes);
    const bool pinned = is_foreign_pinned(device, c->to_host, c->bytes);
    x.host = host_memory(pinned, device);
    x.at = c->to_host;
    x.settled = true; /* when it is counted */
    x.far = c->from.storage;
    const int64_t start = haul__device_is_host(device) ? 0 : haul__link_start(c->bytes);
    if (haul__device_pins(device) && !pinned)
        status = haul__stage_down(c, x.number, c->to_host, c->from, c->bytes);
    if (status == HAUL_UNSUPPORTED)
        status = read_into(c, x.number);
    crossing_end(&x);
    if (!status)
        haul__link_end(device, c->bytes, start);
    if (!status)
        status = haul__index_faults_raise(NULL);
    if (haul__device_is_host(device))
        return status;
    return counted(&x, status, HAUL_EVENT_COPY_TO_HOST, haul_cpu(), device);
}

/* ---- between storages ---- */

static const char *address(haul__region host)
{
    return (const char *)host.storage->buffer.host + host.offset;
}

/* True if the device copies this host memory at full speed. */
static bool is_pinned(haul__region host, haul_device *device, size_t bytes)
{
    const bool is_wrapped = !host.storage->block && !host.storage->planned;
    return haul__storage_pinned(host.storage) || (is_wrapped && is_foreign_pinned(device, address(host), bytes));
}

/* From pageable memory. */
static haul_status up(const crossing *x, const haul__copy_range *range)
{
    haul_status status = stage_up(x, range->to, address(range->from), range->from.storage, range->bytes);
    return status == HAUL_UNSUPPORTED ? move(x, HAUL__COMMAND_WRITE, range->to, range->from, range->bytes) : status;
}

/* To pageable memory. */
static haul_status down(const crossing *x, const haul__copy_range *range)
{
    landing           l;
    const haul__copy *c = x->copy;
    haul_status       status = HAUL_UNSUPPORTED;
    HAUL__ASSERT(haul__device_is_host(range->to.storage->device));
    if (haul__device_pins(range->from.storage->device) && landing_begin(&l, c, range->to, range->bytes)) {
        status = haul__host_before(l.to.storage, true, c->operation);
        if (!status)
            status = haul__stage_down(c, x->number, (void *)(uintptr_t)address(l.to), range->from, range->bytes);
        status = landing_end(&l, x, range->to, range->bytes, status);
    }
    if (status == HAUL_UNSUPPORTED)
        status = move(x, HAUL__COMMAND_READ, range->to, range->from, range->bytes);
    return status;
}

static haul_status across(const crossing *x, haul_device *by, const haul__copy_range *range)
{
    landing           l;
    const haul__copy *c = x->copy;
    haul_status       status = haul__device_check(by, c->operation, NULL);
    if (status)
        return status;
    if (!landing_begin(&l, c, range->to, range->bytes))
        return haul__fail(HAUL_OUT_OF_MEMORY, c->operation, NULL,
                          "%s has no room for %zu bytes more, in which they gather on their way from %s",
                          range->to.storage->device->name, range->bytes, range->from.storage->device->name);
    status = haul__stage_across(c, x->number, l.to, range->from, range->bytes);
    return landing_end(&l, x, range->to, range->bytes, status);
}

/* Which way a copy goes. */
typedef enum direction { UP, DOWN, BETWEEN, ACROSS } direction;

/* The host's end and the device's end of a copy between them. */
static void note_ends(crossing *x, const haul__copy_range *range)
{
    const bool   up = haul__device_is_host(range->from.storage->device);
    haul__region here = up ? range->from : range->to;
    haul__region there = up ? range->to : range->from;
    if (!haul__device_is_host(here.storage->device))
        return;
    haul_device *device = there.storage->device;
    x->host = host_memory(is_pinned(here, device, range->bytes), device);
    x->far = there.storage;
    x->at = address(here);
    x->settled = up && (!here.storage->uses || haul__uses_settled(here.storage->uses));
}

/* Copies without counting. All ranges of a copy go in the direction that the first one finds. */
static haul_status carry(crossing *x, direction *way, const haul__copy_range *range)
{
    haul_device *target = range->to.storage->device, *source = range->from.storage->device;
    haul_status  status;
    HAUL__ASSERT(target != source && x->copy->bytes <= x->group.bytes);
    note_ends(x, range);
    const bool staged = x->host && strcmp(x->host, "pageable") == 0;
    if (haul__device_is_host(source)) {
        *way = UP;
        return !staged ? write_storage(x, range) : up(x, range);
    }
    if (haul__device_is_host(target)) {
        *way = DOWN;
        if (!staged)
            return move(x, HAUL__COMMAND_READ, range->to, range->from, range->bytes);
        return down(x, range);
    }
    *way = BETWEEN;
    status = move(x, HAUL__COMMAND_PEER, range->to, range->from, range->bytes);
    if (status != HAUL_UNSUPPORTED)
        return status;
    *way = ACROSS;
    return across(x, haul_cpu(), range);
}

static haul_status count_copy(const crossing *x, direction way, haul_status status, const haul_device *to,
                              const haul_device *from)
{
    static const haul_event_kind kinds[] = {
        [UP] = HAUL_EVENT_COPY_TO_DEVICE, [DOWN] = HAUL_EVENT_COPY_TO_HOST, [BETWEEN] = HAUL_EVENT_COPY_BETWEEN};
    if (way != ACROSS)
        return counted(x, status, kinds[way], to, from);
    HAUL__ASSERT(to != from && x->group.bytes > 0);
    const crossing on = {.copy = x->copy,
                         .group = {.operation = x->group.operation, .bytes = x->group.bytes},
                         .number = x->number + 1,
                         .began = x->began};
    status = counted(x, status, HAUL_EVENT_COPY_TO_HOST, haul_cpu(), from);
    return counted(&on, status, HAUL_EVENT_COPY_TO_DEVICE, to, haul_cpu());
}

static haul_status carry_ranges(const haul__copy *c, const haul__copy_ranges *ranges, size_t bytes)
{
    crossing    x;
    direction   way = UP;
    haul_status status = HAUL_OK;
    HAUL__ASSERT(ranges->count > 0 && bytes > 0);
    crossing_begin(&x, c, bytes);
    for (int i = 0; i < ranges->count && !status; i++) {
        status = ranges->ready ? ranges->ready(ranges->context, i) : HAUL_OK;
        if (!status)
            status = carry(&x, &way, &ranges->items[i]);
    }
    if (ranges->count > 1) { /* the host's end is a buffer on the way */
        x.at = NULL;
        x.settled = false;
    }
    status = count_copy(&x, way, status, ranges->items->to.storage->device, ranges->items->from.storage->device);
    crossing_end(&x);
    return status;
}

/* On one device. */
static haul_status copy_ranges(const haul__copy *c, const haul__copy_ranges *ranges)
{
    const crossing x = {.copy = c};
    haul_status    status = HAUL_OK;
    for (int i = 0; i < ranges->count && !status; i++) {
        const haul__copy_range *range = &ranges->items[i];
        status = move(&x, HAUL__COMMAND_COPY, range->to, range->from, range->bytes);
    }
    return status;
}

static haul_status between(const haul__copy *c, const haul__copy_ranges *ranges)
{
    const haul__copy_range *first = ranges->items;
    haul_device            *to = first->to.storage->device, *from = first->from.storage->device;
    size_t                  bytes = 0;
    haul_status             status = HAUL_OK;
    HAUL__ASSERT(ranges->count == 1 || (ranges->count > 1 && c->fresh));
    for (int i = 0; i < ranges->count; i++) {
        const haul__copy_range *range = &ranges->items[i];
        HAUL__ASSERT(range->to.storage->device == to && range->from.storage->device == from);
        bytes += range->bytes;
    }
    const bool crosses = bytes > 0 && haul__device_computes(to) && to != from;
    if (crosses && haul__device_computes(from) && !haul__is_dry())
        return carry_ranges(c, ranges, bytes);
    for (int i = 0; i < ranges->count && ranges->ready && !status; i++)
        status = ranges->ready(ranges->context, i);
    if (status || bytes == 0 || !haul__device_computes(to))
        return status;
    if (!haul__device_computes(from))
        return refuse_meta(c);
    const bool pinned = (haul__device_is_host(from) && is_pinned(first->from, to, bytes)) ||
                        (haul__device_is_host(to) && is_pinned(first->to, from, bytes));
    return to != from ? plan(c, first->to, from, pinned, bytes) : copy_ranges(c, ranges);
}

static haul_status by_kernel(const haul__copy *c)
{
    const haul__copy_range all = {c->to, c->from, c->bytes};
    haul_device           *target = c->to.storage->device, *source = c->from.storage->device;
    const bool             up = haul__device_is_host(source);
    crossing               x;
    HAUL__ASSERT(up != haul__device_is_host(target)); /* one end is in host memory */
    if (haul__is_dry()) {
        haul__dry_run_copied(target, source, c->bytes);
        return haul__residency_plan(&(haul__command){.device = up ? target : source,
                                                     .buffers = (haul__region[]){c->to, c->from},
                                                     .write_count = 1,
                                                     .buffer_count = 2});
    }
    crossing_begin(&x, c, c->bytes);
    note_ends(&x, &all);
    haul_status status = move_by(c, x.number, c->by, up ? HAUL__COMMAND_WRITE : HAUL__COMMAND_READ, &all);
    status = count_copy(&x, up ? UP : DOWN, status, target, source);
    crossing_end(&x);
    return status;
}

/* ---- the verb ---- */

haul_status haul__transfer(const haul__copy *c)
{
    HAUL__ASSERT(!c->ranges || (!c->by && !c->to.storage && !c->from.storage));
    if (haul__refuse_followed(c->operation, "copies"))
        return haul_error_status();
    if (c->ranges)
        return between(c, c->ranges);
    if (!c->from.storage)
        return from_host(c);
    if (!c->to.storage)
        return to_host(c);
    if (c->by)
        return by_kernel(c);
    const haul__copy_range all = {c->to, c->from, c->bytes};
    return between(c, &(haul__copy_ranges){.items = &all, .count = 1});
}

/* The copy verb.
 *
 * Copies between a device and pinned host memory, and between devices with a direct link, are asynchronous and ordered
 * by the storages' uses. Pageable host memory is copied in chunks through pinned memory, because drivers copy it slowly
 * and make the host wait unseen; so are copies between devices without a direct link. Devices that work in host memory
 * copy from and to any address. */
#include "transfer/transfer.h"

#include <haul/transfer.h>
#include <stdio.h>
#include <string.h>

#include "base/system/clock.h"
#include "core/object.h"
#include "device/device.h"
#include "device/link.h"
#include "device/recording.h"
#include "device/residency.h"
#include "events/cargo.h"
#include "events/events.h"
#include "memory/allocator.h"
#include "memory/block_events.h"
#include "memory/dry_run/dry_run.h"
#include "transfer/staging.h"

/* COPIED_UP_TO: of arrays of the program for devices that copy from any address. AHEAD_PIECE: takes a link of 16 GB/s a
 * quarter of a millisecond. */
enum { COPIED_UP_TO = 256 << 10, AHEAD_PIECE = 4 << 20 };

/* ---- events ---- */

/* A call of the copy function. Its commands and its event have one number; the way from the host to the second device
 * has the next one. */
typedef struct crossing {
    haul__wait_group     group;
    uint64_t             number, outer; /* outer: of the call around it, of a program that a subscriber watches; or 0 */
    const char          *host;          /* the memory at the host's end: "pinned" or "pageable"; NULL: no difference */
    const void          *at;            /* its address */
    bool                 settled;       /* no device is still writing there */
    const haul__storage *far;           /* the storage at the device's end; NULL: of a copy between devices */
    int64_t              began;         /* when the call began, if somebody listens */
} crossing;

static void crossing_begin(crossing *x, const char *origin, size_t bytes)
{
    static atomic_ullong last;
    x->host = NULL;
    x->at = NULL;
    x->settled = false;
    x->far = NULL;
    x->began = haul__watched(HAUL_EVENT_COPY) ? haul__now_ns() : 0;
    x->outer = haul__cargo_now.copy;
    haul__cargo_now.copy = x->number = atomic_fetch_add_explicit(&last, 2, memory_order_relaxed) + 1;
    haul__wait_group_begin(&x->group, origin, bytes);
}

static void crossing_end(crossing *x)
{
    haul__wait_group_end(&x->group);
    haul__cargo_now.copy = x->outer;
}

/* A copy over a link was submitted, or `status` holds the reason why it was not. */
static haul_status counted(const crossing *x, haul_status status, haul_event_kind kind, const haul_device *to,
                           const haul_device *from)
{
    const haul__cargo *cargo = &haul__cargo_now;
    char               conversion[32] = "";
    if (status)
        return status;
    if (cargo->from != cargo->to)
        snprintf(conversion, sizeof conversion, "%s to %s", haul_dtype_name(cargo->from), haul_dtype_name(cargo->to));
    haul__emit_counted(
        &(haul_event){.kind = kind,
                      .operation = x->group.operation,
                      .device = to,
                      .other = from,
                      .bytes = (int64_t)x->group.bytes,
                      .copy = x->number,
                      .tensor = cargo->tensor,
                      .text = x->host,
                      .host = x->at,
                      .settled = x->settled,
                      .storage = x->far && haul__watched(HAUL_EVENT_COPY) ? haul__storage_number(x->far) : 0,
                      .problem = conversion,
                      .submitted = x->began,
                      .duration = x->group.ns});
    return HAUL_OK;
}

/* ---- the verb ---- */

static haul_status refuse_meta(const char *origin)
{
    return haul__fail(HAUL_DEVICE, origin, NULL,
                      "a tensor on meta has a shape and no data to copy; make it on another device");
}

/* Between storages: a copy, a peer copy or, if one of them is in host memory, a write or a read, which may have a
 * kernel. */
static haul_status move_by(const haul__command *by, haul__command_kind kind, haul__region to, haul__region from,
                           size_t bytes, const char *origin)
{
    static const haul__stream_choice streams[] = {[HAUL__COMMAND_COPY] = HAUL__STREAM_COMPUTE,
                                                  [HAUL__COMMAND_WRITE] = HAUL__STREAM_UPLOAD,
                                                  [HAUL__COMMAND_READ] = HAUL__STREAM_DOWNLOAD,
                                                  [HAUL__COMMAND_PEER] = HAUL__STREAM_UPLOAD};
    return haul__submit(&(haul__command){
        .kind = kind,
        .stream = kind == HAUL__COMMAND_WRITE && haul__cargo_now.ahead ? HAUL__STREAM_AHEAD : streams[kind],
        .operation = origin,
        .device = (kind == HAUL__COMMAND_READ ? from : to).storage->device,
        .buffers = (haul__region[]){to, from},
        .write_count = 1,
        .buffer_count = 2,
        .bytes = bytes,
        .kernel = by->kernel,
        .params = by->params,
        .params_size = by->params_size,
        .items = by->items,
        .grain = by->grain});
}

static haul_status move(haul__command_kind kind, haul__region to, haul__region from, size_t bytes, const char *origin)
{
    return move_by(&(haul__command){.kernel = NULL}, kind, to, from, bytes, origin);
}

/* From host memory that the device can copy from at any time. A fresh target may be half written if it fails, so a copy
 * that can wait is cut into pieces, between which a device with one engine for copies lets others pass. */
static haul_status write_storage(haul__region to, haul__region from, size_t bytes, bool fresh, const char *origin)
{
    const size_t piece = haul__cargo_now.ahead && fresh ? AHEAD_PIECE : bytes;
    haul_status  status = HAUL_OK;
    for (size_t at = 0; at < bytes && !status; at += piece) {
        haul__region part_to = {to.storage, to.offset + at}, part_from = {from.storage, from.offset + at};
        status = move(HAUL__COMMAND_WRITE, part_to, part_from, bytes - at < piece ? bytes - at : piece, origin);
    }
    return status;
}

/* From the caller's memory. */
static haul_status write_from(haul__storage *to, size_t offset, const void *host, size_t bytes, const char *origin)
{
    return haul__submit(&(haul__command){.kind = HAUL__COMMAND_WRITE,
                                         .stream = HAUL__STREAM_UPLOAD,
                                         .operation = origin,
                                         .device = to->device,
                                         .buffers = &(haul__region){to, offset},
                                         .write_count = 1,
                                         .buffer_count = 1,
                                         .bytes = bytes,
                                         .from_host = host});
}

/* To the caller's memory. */
static haul_status read_into(void *host, haul__storage *from, size_t offset, size_t bytes, const char *origin)
{
    return haul__submit(&(haul__command){.kind = HAUL__COMMAND_READ,
                                         .stream = HAUL__STREAM_DOWNLOAD,
                                         .operation = origin,
                                         .device = from->device,
                                         .buffers = &(haul__region){from, offset},
                                         .buffer_count = 1,
                                         .bytes = bytes,
                                         .to_host = host});
}

/* A multi-chunk copy into visible memory first goes to a temporary, from which one command copies it, so that a failure
 * leaves the target unchanged. */
typedef struct landing {
    haul__storage *to;
    size_t         offset;
    haul__storage *apart; /* NULL: none is needed */
} landing;

/* Returns false, without recording an error, if there is no memory for it. */
static bool landing_begin(landing *l, haul__storage *to, size_t offset, size_t bytes, bool fresh, const char *origin)
{
    haul__error_record before;
    *l = (landing){to, offset, NULL};
    if (fresh || haul__staged_chunks(bytes) == 1)
        return true;
    haul__error_save(&before);
    l->apart = haul__storage_alloc(to->device, bytes, origin);
    if (l->apart) {
        l->to = l->apart;
        l->offset = 0;
    } else {
        haul__error_restore(&before);
    }
    return l->apart != NULL;
}

static haul_status landing_end(landing *l, haul__storage *to, size_t offset, size_t bytes, haul_status status,
                               const char *origin)
{
    if (l->apart && !status)
        status = move(HAUL__COMMAND_COPY, (haul__region){to, offset}, (haul__region){l->apart, 0}, bytes, origin);
    haul__object_release(l->apart);
    return status;
}

/* In a dry run: plans the memory that the copy would need on its way, and counts the bytes that would cross. */
static haul_status plan(haul__storage *to, size_t offset, haul_device *from, size_t bytes, bool fresh,
                        const char *origin)
{
    landing l;
    bool    staged = haul__device_pins(to->device) || haul__device_pins(from);
    if (staged && landing_begin(&l, to, offset, bytes, fresh, origin))
        landing_end(&l, to, offset, bytes, HAUL_OK, origin);
    haul__dry_run_copied(to->device, from, bytes);
    return haul__presence_plan(&(haul__command){
        .device = to->device, .buffers = &(haul__region){to, offset}, .write_count = 1, .buffer_count = 1});
}

/* ---- from the host ---- */

/* From memory that is not pinned: of `owner`, or, where that is NULL, of the caller, which may change it again when the
 * function returns. */
static haul_status up(haul__storage *to, size_t offset, const void *host, haul__storage *owner, size_t bytes,
                      bool fresh, const char *origin)
{
    landing     l;
    haul_status status = HAUL_UNSUPPORTED;
    if (haul__device_pins(to->device) && landing_begin(&l, to, offset, bytes, fresh, origin)) {
        status = owner ? haul__host_before(owner, false, origin) : HAUL_OK;
        if (!status)
            status = haul__stage_up(l.to, l.offset, host, bytes, origin);
        status = landing_end(&l, to, offset, bytes, status, origin);
    }
    if (status != HAUL_UNSUPPORTED)
        return status;
    if (!owner)
        return write_from(to, offset, host, bytes, origin);
    haul__region from = {owner, (size_t)((const char *)host - (const char *)owner->buffer.host)};
    return move(HAUL__COMMAND_WRITE, (haul__region){to, offset}, from, bytes, origin);
}

/* Small arrays for devices that copy from any address: they go through a buffer that is kept until the device has read
 * it, so nobody waits. */
static haul_status up_small(haul__storage *to, size_t offset, const void *host, size_t bytes, const char *origin)
{
    haul__storage *staged = haul__storage_alloc(haul_cpu(), bytes, origin);
    haul_status    status = staged ? haul__host_before(staged, true, origin) : haul_error_status();
    if (!status) {
        memcpy(staged->buffer.host, host, bytes);
        status = move(HAUL__COMMAND_WRITE, (haul__region){to, offset}, (haul__region){staged, 0}, bytes, origin);
    }
    haul__object_release(staged);
    return status;
}

haul_status haul__transfer_from_host(haul__storage *to, size_t offset, const void *host, size_t bytes, bool fresh,
                                     const char *origin)
{
    crossing    x;
    haul_status status;
    if (bytes == 0 || !haul__device_computes(to->device))
        return HAUL_OK;
    if (haul__is_dry())
        return plan(to, offset, haul_cpu(), bytes, fresh, origin);
    if ((status = haul__recording_refuse(origin, "a write from the program's memory")))
        return status;
    if (haul__device_is_host(to->device))
        return write_from(to, offset, host, bytes, origin);
    crossing_begin(&x, origin, bytes);
    x.host = haul__device_pins(to->device) ? "pageable" : NULL;
    x.at = host;
    x.settled = true;
    x.far = to;
    const int64_t start = haul__link_start(bytes);
    if (!haul__device_pins(to->device) && bytes <= COPIED_UP_TO)
        status = up_small(to, offset, host, bytes, origin);
    else
        status = up(to, offset, host, NULL, bytes, fresh, origin);
    if (!status)
        haul__link_end(to->device, bytes, start);
    status = counted(&x, status, HAUL_EVENT_COPY_TO_DEVICE, to->device, haul_cpu());
    crossing_end(&x);
    return status;
}

/* ---- to the host ---- */

/* To pageable memory. */
static haul_status down(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset, size_t bytes,
                        bool fresh, const char *origin)
{
    landing     l;
    haul_status status = HAUL_UNSUPPORTED;
    if (haul__device_pins(from->device) && landing_begin(&l, to, to_offset, bytes, fresh, origin)) {
        status = haul__host_before(l.to, true, origin);
        if (!status)
            status = haul__stage_down((char *)l.to->buffer.host + l.offset, from, from_offset, bytes, origin);
        status = landing_end(&l, to, to_offset, bytes, status, origin);
    }
    if (status == HAUL_UNSUPPORTED)
        status =
            move(HAUL__COMMAND_READ, (haul__region){to, to_offset}, (haul__region){from, from_offset}, bytes, origin);
    return status;
}

haul_status haul__transfer_to_host(void *host, haul__storage *from, size_t offset, size_t bytes, const char *origin)
{
    crossing    x;
    haul_status status;
    if (bytes == 0)
        return HAUL_OK;
    if (!haul__device_computes(from->device))
        return refuse_meta(origin);
    if (haul__refuse_dry(origin) || haul__refuse_planned(from, origin))
        return haul_error_status();
    if ((status = haul__recording_refuse(origin, "a read into the program's memory")))
        return status;
    status = HAUL_UNSUPPORTED;
    crossing_begin(&x, origin, bytes);
    x.host = haul__device_pins(from->device) ? "pageable" : NULL;
    x.at = host;
    x.settled = true; /* when it is counted */
    x.far = from;
    const int64_t start = haul__device_is_host(from->device) ? 0 : haul__link_start(bytes);
    if (haul__device_pins(from->device))
        status = haul__stage_down(host, from, offset, bytes, origin);
    if (status == HAUL_UNSUPPORTED)
        status = read_into(host, from, offset, bytes, origin);
    crossing_end(&x);
    if (!status)
        haul__link_end(from->device, bytes, start);
    if (!status)
        status = haul__index_faults_report(NULL);
    if (haul__device_is_host(from->device))
        return status;
    return counted(&x, status, HAUL_EVENT_COPY_TO_HOST, haul_cpu(), from->device);
}

/* ---- between storages ---- */

static const char *host_memory(const haul__storage *host, haul_device *device)
{
    return haul__storage_pinned(host) ? "pinned" : haul__device_pins(device) ? "pageable" : NULL;
}

static haul_status across(haul_device *by, haul__region to, haul__region from, size_t bytes, bool fresh,
                          const char *origin)
{
    landing     l;
    haul_status status = haul__device_check(by, origin, NULL);
    if (status)
        return status;
    if (!landing_begin(&l, to.storage, to.offset, bytes, fresh, origin))
        return haul__fail(HAUL_OUT_OF_MEMORY, origin, NULL,
                          "%s has no room for %zu bytes more, in which they gather on their way from %s",
                          to.storage->device->name, bytes, from.storage->device->name);
    status = haul__stage_across(l.to, l.offset, from.storage, from.offset, bytes, origin);
    return landing_end(&l, to.storage, to.offset, bytes, status, origin);
}

/* Which way a copy goes. */
typedef enum direction { UP, DOWN, BETWEEN, ACROSS } direction;

/* The host's end and the device's end of a copy between them. */
static void note_ends(crossing *x, haul__region to, haul__region from)
{
    const bool   up = haul__device_is_host(from.storage->device);
    haul__region here = up ? from : to;
    haul__region there = up ? to : from;
    if (!haul__device_is_host(here.storage->device))
        return;
    x->host = host_memory(here.storage, there.storage->device);
    x->far = there.storage;
    x->at = (const char *)here.storage->buffer.host + here.offset;
    x->settled = up && (!here.storage->uses || haul__uses_settled(here.storage->uses));
}

/* Copies without counting. All parts of a copy go in the direction that the first one finds. */
static haul_status carry(crossing *x, direction *way, haul__region to, haul__region from, size_t bytes, bool fresh,
                         const char *origin)
{
    haul_device *target = to.storage->device, *source = from.storage->device;
    haul_status  status;
    note_ends(x, to, from);
    if (haul__device_is_host(source)) {
        *way = UP;
        if (haul__storage_pinned(from.storage) || !haul__device_pins(target))
            return write_storage(to, from, bytes, fresh, origin);
        return up(to.storage, to.offset, (const char *)from.storage->buffer.host + from.offset, from.storage, bytes,
                  fresh, origin);
    }
    if (haul__device_is_host(target)) {
        *way = DOWN;
        if (haul__storage_pinned(to.storage) || !haul__device_pins(source))
            return move(HAUL__COMMAND_READ, to, from, bytes, origin);
        return down(to.storage, to.offset, from.storage, from.offset, bytes, fresh, origin);
    }
    *way = BETWEEN;
    status = move(HAUL__COMMAND_PEER, to, from, bytes, origin);
    if (status != HAUL_UNSUPPORTED)
        return status;
    *way = ACROSS;
    return across(haul_cpu(), to, from, bytes, fresh, origin);
}

static haul_status count_copy(const crossing *x, direction way, haul_status status, const haul_device *to,
                              const haul_device *from)
{
    static const haul_event_kind kinds[] = {
        [UP] = HAUL_EVENT_COPY_TO_DEVICE, [DOWN] = HAUL_EVENT_COPY_TO_HOST, [BETWEEN] = HAUL_EVENT_COPY_BETWEEN};
    if (way != ACROSS)
        return counted(x, status, kinds[way], to, from);
    const crossing on = {.group = {.operation = x->group.operation, .bytes = x->group.bytes},
                         .number = x->number + 1,
                         .began = x->began};
    status = counted(x, status, HAUL_EVENT_COPY_TO_HOST, haul_cpu(), from);
    return counted(&on, status, HAUL_EVENT_COPY_TO_DEVICE, to, haul_cpu());
}

/* The commands of `ready` are no part of the copy. */
static haul_status make_ready(const crossing *x, int part, haul_status (*ready)(void *context, int part), void *context)
{
    haul__cargo_now.copy = x->outer;
    haul_status status = ready ? ready(context, part) : HAUL_OK;
    haul__cargo_now.copy = x->number;
    return status;
}

static haul_status carry_parts(const haul__transfer_part *parts, int count, size_t bytes,
                               haul_status (*ready)(void *context, int part), void *context, bool fresh,
                               const char *origin)
{
    crossing    x;
    direction   way = UP;
    haul_status status = HAUL_OK;
    crossing_begin(&x, origin, bytes);
    for (int i = 0; i < count && !status; i++) {
        status = make_ready(&x, i, ready, context);
        if (!status)
            status = carry(&x, &way, parts[i].to, parts[i].from, parts[i].bytes, fresh, origin);
    }
    if (count > 1) { /* the host's end is a buffer on the way */
        x.at = NULL;
        x.settled = false;
    }
    status = count_copy(&x, way, status, parts[0].to.storage->device, parts[0].from.storage->device);
    crossing_end(&x);
    return status;
}

haul_status haul__transfer_parts(const haul__transfer_part *parts, int                count,
                                 haul_status (*ready)(void *context, int part), void *context, bool fresh,
                                 const char *origin)
{
    haul__storage *to = parts[0].to.storage, *from = parts[0].from.storage;
    size_t         bytes = 0;
    haul_status    status = HAUL_OK;
    for (int i = 0; i < count; i++)
        bytes += parts[i].bytes;
    const bool crosses = bytes > 0 && haul__device_computes(to->device) && to->device != from->device;
    if (crosses && haul__device_computes(from->device) && !haul__is_dry())
        return carry_parts(parts, count, bytes, ready, context, fresh, origin);
    for (int i = 0; i < count && ready && !status; i++)
        status = ready(context, i);
    if (status || bytes == 0 || !haul__device_computes(to->device))
        return status;
    if (!haul__device_computes(from->device))
        return refuse_meta(origin);
    if (to->device != from->device)
        return plan(to, parts[0].to.offset, from->device, bytes, fresh, origin);
    for (int i = 0; i < count && !status; i++)
        status = move(HAUL__COMMAND_COPY, parts[i].to, parts[i].from, parts[i].bytes, origin);
    return status;
}

haul_status haul__transfer(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset, size_t bytes,
                           bool fresh, const char *origin)
{
    const haul__transfer_part all = {{to, to_offset}, {from, from_offset}, bytes};
    return haul__transfer_parts(&all, 1, NULL, NULL, fresh, origin);
}

haul_status haul__transfer_by(const haul__transfer_part *part, const haul__command *by, const char *origin)
{
    const haul__region to = part->to, from = part->from;
    haul_device       *target = to.storage->device, *source = from.storage->device;
    const bool         up = haul__device_is_host(source);
    crossing           x;
    if (haul__is_dry()) {
        haul__dry_run_copied(target, source, part->bytes);
        return haul__presence_plan(&(haul__command){.device = up ? target : source,
                                                    .buffers = (haul__region[]){to, from},
                                                    .write_count = 1,
                                                    .buffer_count = 2});
    }
    crossing_begin(&x, origin, part->bytes);
    note_ends(&x, to, from);
    haul_status status = move_by(by, up ? HAUL__COMMAND_WRITE : HAUL__COMMAND_READ, to, from, part->bytes, origin);
    status = count_copy(&x, up ? UP : DOWN, status, target, source);
    crossing_end(&x);
    return status;
}

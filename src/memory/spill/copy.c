/* The tiers of spilling: host memory, and a file. */
#include "memory/spill/copy.h"

#include <limits.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/system/clock.h"
#include "device/residency.h"
#include "events/events.h"
#include "memory/report/origins.h"

static const char origin[] = "spill";

/* Elements go from the device to the file and back in pieces of this many bytes, through host memory. */
enum { PIECE = 4 << 20 };

/* Updates the statistics when the size of the file has changed. */
static void count_file(struct haul__allocator *a)
{
    const int64_t bytes = a->tiers.file ? haul__spill_file_bytes(a->tiers.file) : 0;
    haul__spin_lock(&a->lock);
    HAUL__ASSERT(bytes >= 0);
    a->stats.spill_file = bytes;
    haul__spin_unlock(&a->lock);
}

/* ---- copies of blocks that are on the device ---- */

enum { IN_HOST = 1, IN_FILE = 2 };

/* Drops up to `most` copies in these tiers, of blocks that are on the device. Returns how many. */
static int drop(struct haul__allocator *a, int tiers, int most)
{
    haul__spill_copy *over = NULL;
    int               count = 0;
    haul__spin_lock(&a->lock);
    for (haul__block *b = a->live.next; b != &a->live && count < most; b = b->next) {
        if (!b->copy || b->copy->elsewhere || b->moving || haul__block_is_away(b) ||
            !(tiers & (b->copy->part ? IN_FILE : IN_HOST)))
            continue;
        HAUL__ASSERT(!b->copy->host != !b->copy->part); /* a copy is in one tier */
        b->copy->next = over;
        over = b->copy;
        b->copy = NULL;
        b->uses.copied = false;
        count++;
    }
    haul__spin_unlock(&a->lock);
    for (haul__spill_copy *next; over; over = next) {
        next = over->next;
        haul__spill_copy_free(over);
    }
    return count;
}

void haul__spill_copies_drop(struct haul__allocator *a)
{
    drop(a, IN_HOST | IN_FILE, INT_MAX);
    if (a->tiers.file)
        haul__spill_file_trim(a->tiers.file);
    count_file(a);
}

/* ---- places ---- */

static bool count_host(struct haul__allocator *a, int64_t bytes)
{
    haul__spin_lock(&a->lock);
    const bool fits = bytes < 0 || !a->tiers.host_is_limited || a->stats.spill_host + bytes <= a->tiers.host_limit;
    a->stats.spill_host += fits ? bytes : 0;
    HAUL__ASSERT(a->stats.spill_host >= 0); /* each copy is taken back once */
    haul__spin_unlock(&a->lock);
    return fits;
}

static haul_status fail_host(const struct haul__allocator *a, int64_t bytes)
{
    char wanted[32], limit[32];
    return haul__fail(HAUL_OUT_OF_MEMORY, origin, NULL,
                      "host memory for spilled tensors of %s has a limit of %s, in which %s more do not fit; raise it, "
                      "or name a folder for the rest, with haul_memory_set_spill_tiers",
                      a->device->name, haul__size_text(a->tiers.host_limit, limit, sizeof limit),
                      haul__size_text(bytes, wanted, sizeof wanted));
}

static haul_status reserve_host(struct haul__allocator *a, int64_t bytes, bool ahead)
{
    bool fits = count_host(a, bytes);
    while (!fits && !ahead && bytes <= a->tiers.host_limit && drop(a, IN_HOST, 1))
        fits = count_host(a, bytes);
    return fits ? HAUL_OK : fail_host(a, bytes);
}

static haul__spill_copy *copy_new(const haul__block *block)
{
    haul__spill_copy *copy = haul__calloc(1, sizeof *copy);
    if (copy)
        *copy = (haul__spill_copy){.of = block->owner, .bytes = (int64_t)block->own.bytes};
    else
        haul__fail_memory(origin, sizeof *copy);
    return copy;
}

static haul__spill_copy *in_host(const haul__block *block, bool ahead)
{
    struct haul__allocator *a = block->owner;
    const int64_t           bytes = (int64_t)block->own.bytes;
    HAUL__ASSERT(haul__residency_is_taken() && bytes > 0);
    if (reserve_host(a, bytes, ahead))
        return NULL;
    haul__spill_copy *copy = copy_new(block);
    if (copy && (copy->host = haul__host_alloc_for(a->device, block->own.bytes, origin)))
        return copy;
    count_host(a, -bytes);
    haul__free(copy);
    return NULL;
}

static haul__spill_copy *in_file(const haul__block *block)
{
    struct haul__allocator *a = block->owner;
    haul__spill_copy       *copy = copy_new(block);
    HAUL__ASSERT(a->tiers.file && haul__residency_is_taken()); /* so the file stays */
    if (!copy)
        return NULL;
    copy->part = haul__spill_file_reserve(a->tiers.file, copy->bytes);
    while (!copy->part && drop(a, IN_FILE, 1))
        copy->part = haul__spill_file_reserve(a->tiers.file, copy->bytes);
    count_file(a);
    if (copy->part)
        return copy;
    haul__free(copy);
    return NULL;
}

haul__spill_copy *haul__spill_copy_for(haul__block *block, bool ahead)
{
    if (block->copy && (block->copy->host || block->copy->elsewhere))
        return block->copy;
    haul__spill_copy *copy = in_host(block, ahead);
    if (copy || ahead || !block->owner->tiers.file)
        return copy;
    return block->copy ? block->copy : in_file(block);
}

void haul__spill_copy_free(haul__spill_copy *copy)
{
    if (!copy)
        return;
    HAUL__ASSERT(copy->bytes > 0 && !(copy->host && copy->part));
    if (copy->host)
        count_host(copy->of, -copy->bytes);
    haul__object_release(copy->host);
    if (copy->part)
        haul__spill_part_release(copy->part);
    haul__free(copy);
}

/* ---- elements ---- */

/* Submits a copy of `bytes` bytes between host memory and the storage of the device, `at` bytes after its beginning. */
static haul_status submit(haul__stream_choice stream, haul__storage *of_device, haul__storage *host, size_t at,
                          size_t bytes)
{
    const bool         up = stream != HAUL__STREAM_DOWNLOAD;
    haul_device       *device = of_device->device;
    const haul__region there = {of_device, (int64_t)at}, here = {host, 0};
    HAUL__ASSERT(at + bytes <= of_device->bytes && bytes <= host->bytes && haul__device_is_host(host->device));
    const haul_status status =
        haul__submit(&(haul__command){.kind = up ? HAUL__COMMAND_WRITE : HAUL__COMMAND_READ,
                                      .stream = stream,
                                      .operation = origin,
                                      .device = device,
                                      .buffers = (haul__region[]){up ? there : here, up ? here : there},
                                      .write_count = 1,
                                      .buffer_count = 2,
                                      .bytes = bytes});
    if (!status)
        haul__emit_counted(&(haul_event){.kind = up ? HAUL_EVENT_COPY_TO_DEVICE : HAUL_EVENT_COPY_TO_HOST,
                                         .operation = origin,
                                         .device = up ? device : host->device,
                                         .other = up ? host->device : device,
                                         .text = haul__storage_pinned(host) ? "pinned" : "pageable",
                                         .bytes = (int64_t)bytes});
    return status;
}

/* Reads or writes a piece of the file, and counts the time. */
static haul_status transfer(const haul__spill_copy *copy, bool out, int64_t at, void *memory, int64_t bytes)
{
    struct haul__allocator *a = copy->of;
    const int64_t           start = haul__now_ns();
    HAUL__ASSERT(copy->part && 0 <= at && at + bytes <= copy->bytes);
    const haul_status status = out ? haul__spill_part_write(copy->part, at, memory, bytes)
                                   : haul__spill_part_read(copy->part, at, memory, bytes);
    haul__spin_lock(&a->lock);
    a->stats.spill_file_nanoseconds += haul__now_ns() - start;
    haul__spin_unlock(&a->lock);
    return status;
}

/* Copies one piece after the other. The host waits for each. */
static haul_status pass(haul__spill_copy *copy, haul__storage *storage, haul__storage *between,
                        haul__stream_choice stream)
{
    const bool  out = stream == HAUL__STREAM_DOWNLOAD;
    haul_status status = HAUL_OK;
    HAUL__ASSERT(copy->part && between->bytes >= (size_t)smaller(PIECE, copy->bytes));
    for (int64_t at = 0; at < copy->bytes && !status; at += PIECE) {
        const int64_t bytes = smaller(PIECE, copy->bytes - at);
        void         *memory = between->buffer.host;
        if (!out)
            status = haul__host_before(between, true, origin);
        if (!status && !out)
            status = transfer(copy, false, at, memory, bytes);
        if (!status)
            status = submit(stream, storage, between, (size_t)at, (size_t)bytes);
        if (!status && out)
            status = haul__host_before(between, false, origin);
        if (!status && out)
            status = transfer(copy, true, at, memory, bytes);
    }
    return status;
}

static haul_status pass_through(haul__spill_copy *copy, haul__storage *storage, haul__stream_choice stream)
{
    haul__storage *between = haul__host_alloc_for(storage->device, (size_t)smaller(PIECE, copy->bytes), origin);
    if (!between)
        return haul_error_status();
    const haul_status status = pass(copy, storage, between, stream);
    haul__object_release(between);
    return status;
}

/* Through host memory, unless the device works there. */
static haul_status fetch(const haul__spill_copy *copy, haul__storage *to)
{
    haul__elsewhere *e = copy->elsewhere;
    HAUL__ASSERT(e && !copy->host && !copy->part);
    if (haul__device_is_host(to->device)) {
        const haul_status status = haul__host_before(to, true, origin);
        return status ? status : e->fetch(e, copy->number, to->buffer.host, to->bytes);
    }
    haul__storage *between = haul__host_alloc_for(to->device, to->bytes, origin);
    if (!between)
        return haul_error_status();
    haul_status status = haul__host_before(between, true, origin);
    if (!status)
        status = e->fetch(e, copy->number, between->buffer.host, to->bytes);
    if (!status)
        status = submit(HAUL__STREAM_UPLOAD, to, between, 0, to->bytes);
    haul__object_release(between);
    return status;
}

haul_status haul__spill_copy_out(haul__spill_copy *copy, haul__storage *from)
{
    HAUL__ASSERT(copy->bytes == (int64_t)from->bytes && !copy->elsewhere);
    if (copy->host)
        return submit(HAUL__STREAM_DOWNLOAD, from, copy->host, 0, from->bytes);
    return pass_through(copy, from, HAUL__STREAM_DOWNLOAD);
}

haul_status haul__spill_copy_back(haul__spill_copy *copy, haul__storage *to, bool ahead)
{
    const haul__stream_choice stream = ahead ? HAUL__STREAM_AHEAD : HAUL__STREAM_UPLOAD;
    HAUL__ASSERT(copy->bytes == (int64_t)to->bytes);
    if (copy->elsewhere)
        return fetch(copy, to);
    return copy->host ? submit(stream, to, copy->host, 0, to->bytes) : pass_through(copy, to, stream);
}

/* ---- settings ---- */

static haul_status check(const haul_device *device, const haul_spill_tiers *tiers, const char *operation)
{
    haul_status status = haul__device_check(device, operation, "device");
    if (status)
        return status;
    if (!tiers)
        return haul__fail_null(operation, "tiers");
    if (!haul__device_is_apart(device))
        return haul__fail(HAUL_UNSUPPORTED, operation, "device",
                          "%s has no memory apart from the host's, so it does not spill", device->name);
    if (tiers->host_limit < 0 && tiers->host_limit != HAUL_ZERO)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "host_limit",
                          "host_limit is %lld; expected a size, HAUL_ZERO for no host memory, or 0 for no limit",
                          (long long)tiers->host_limit);
    if (tiers->folder_limit < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "folder_limit",
                          "folder_limit is %lld; expected a size, or 0 for no limit", (long long)tiers->folder_limit);
    return HAUL_OK;
}

/* The present file, if it is in that folder. */
static bool is_same(const haul__spill_file *file, const char *folder)
{
    return file && folder && strcmp(haul__spill_file_folder(file), folder) == 0;
}

/* Elements that are in the present file must stay there. */
static haul_status check_unused(haul__spill_file *file, const char *operation)
{
    char          text[32];
    const int64_t used = file ? haul__spill_file_used(file) : 0;
    return used
               ? haul__fail(HAUL_STATE, operation, "folder",
                            "%s of spilled tensors are in the file in %s; free these tensors before the folder changes",
                            haul__size_text(used, text, sizeof text), haul__spill_file_folder(file))
               : HAUL_OK;
}

/* The caller has the lock of device/residency.h, so nothing is spilled meanwhile. */
static haul_status set_file(struct haul__allocator *a, const haul_spill_tiers *tiers, const char *operation)
{
    haul__spill_file *before = a->tiers.file, *file = NULL;
    HAUL__ASSERT(haul__residency_is_taken());
    if (is_same(before, tiers->folder)) {
        haul__spill_file_set_limit(before, tiers->folder_limit);
        return HAUL_OK;
    }
    if (before)
        haul__spill_copies_drop(a);
    haul_status status = check_unused(before, operation);
    if (!status && tiers->folder && !(file = haul__spill_file_open(tiers->folder, tiers->folder_limit, operation)))
        status = haul_error_status();
    if (status)
        return status;
    a->tiers.file = file;
    haul__spill_file_close(before);
    count_file(a);
    return HAUL_OK;
}

haul_status haul_memory_set_spill_tiers_with(haul_device *device, const haul_spill_tiers *tiers)
{
    static const char       operation[] = "haul_memory_set_spill_tiers";
    struct haul__allocator *a = check(device, tiers, operation) ? NULL : haul__allocator_of(device, false);
    if (!a)
        return haul_error_status();
    const bool taken = haul__residency_take();
    haul__residency_stop();
    const haul_status status = set_file(a, tiers, operation);
    if (!status) {
        haul__spin_lock(&a->lock);
        *a->tiers.refused = '\0';
        a->tiers.host_is_limited = tiers->host_limit != 0;
        a->tiers.host_limit = tiers->host_limit == HAUL_ZERO ? 0 : tiers->host_limit;
        haul__spin_unlock(&a->lock);
    }
    if (taken)
        haul__residency_give();
    return status;
}

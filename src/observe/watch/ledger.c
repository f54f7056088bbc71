/* The ledger: a subscriber that adds up copies in rows.
 *
 * A copy has a number. Its event names the tensor and the reason; those of its commands, which may come before or
 * after, say how long the device took. They meet in a ring of the last copies. */
#include <haul/ledger.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fnv.h"
#include "base/text/utf8.h"
#include "core/error.h"
#include "core/scope.h"
#include "events/events.h"
#include "observe/watch/overlap.h"

enum { FIRST_ROWS = 16, MOST_ROWS = 4096, MOST_PAIRS = 1024, TABLE = 4 * MOST_ROWS, COPIES = 4096 };

/* Nanoseconds. */
typedef struct times {
    int64_t wait, planned, device, overlap;
} times;

typedef struct row {
    haul_ledger_row of;
    times           times;
} row;

/* Rows, and where to find them. */
typedef struct book {
    row *rows;
    int  count, room;
    int *table; /* indices of rows, from 1, by the hash of their keys; 0: free */
} book;

/* A copy: its row once its event came, -1 before; and its times before that. */
typedef struct copy {
    uint64_t number;
    int      row;
    times    times;
} copy;

/* Guarded by the lock of process-wide subscribers. */
struct haul_ledger {
    haul__object     object;
    haul__subscriber subscriber;
    int              thread; /* the only one that it counts; 0: all */
    book             book;
    copy            *copies; /* NULL without device times */
    haul__overlaps   overlaps;
};

/* ---- rows by their keys ---- */

static uint64_t hash_of(const haul_ledger_row *r)
{
    const char *const texts[] = {r->operation, r->module, r->label, r->tensor};
    uint64_t          hash = haul__fnv(HAUL__FNV, &r->from, sizeof r->from);
    hash = haul__fnv(hash, &r->to, sizeof r->to);
    for (int i = 0; i < 4; i++)
        hash = haul__fnv(hash, texts[i], strlen(texts[i]) + 1);
    return hash;
}

static bool same_key(const haul_ledger_row *a, const haul_ledger_row *b)
{
    return a->from == b->from && a->to == b->to && !strcmp(a->operation, b->operation) &&
           !strcmp(a->module, b->module) && !strcmp(a->label, b->label) && !strcmp(a->tensor, b->tensor);
}

static bool book_open(book *b)
{
    HAUL__ASSERT(!b->count);
    b->rows = haul__malloc(FIRST_ROWS * sizeof *b->rows);
    b->table = haul__calloc(TABLE, sizeof *b->table);
    b->room = FIRST_ROWS;
    return b->rows && b->table;
}

static void book_close(book *b)
{
    haul__free(b->rows);
    haul__free(b->table);
}

static bool has_room(book *b, int most)
{
    HAUL__ASSERT(b->count <= b->room && most <= TABLE / 2);
    if (b->count >= most)
        return false;
    if (b->count < b->room)
        return true;
    row *more = haul__realloc(b->rows, 2 * (size_t)b->room, sizeof *more);
    if (!more)
        return false;
    b->rows = more;
    b->room *= 2;
    return true;
}

/* The slot in the table of the row with the key, or where its index belongs. */
static uint64_t slot_of(const book *b, const haul_ledger_row *key)
{
    HAUL__ASSERT(b->count < TABLE); /* some slot is free */
    uint64_t at = hash_of(key) % TABLE;
    while (b->table[at] && !same_key(&b->rows[b->table[at] - 1].of, key))
        at = (at + 1) % TABLE;
    return at;
}

/* The row with the key, made if there is none. Where there are too many, one row for each pair of devices stands for
 * new copies; without memory for it, the last row does. */
static int find(book *b, const haul_ledger_row *key)
{
    const haul_ledger_row others = {.from = key->from, .to = key->to, .operation = "others"};
    uint64_t              at = slot_of(b, key);
    if (!b->table[at] && !has_room(b, MOST_ROWS)) {
        HAUL__ASSERT(b->count > 0);
        key = &others;
        at = slot_of(b, key);
        if (!b->table[at] && !has_room(b, MOST_ROWS + MOST_PAIRS))
            return b->count - 1;
    }
    if (!b->table[at]) {
        HAUL__ASSERT(b->count < b->room);
        b->rows[b->count] = (row){.of = *key};
        b->table[at] = ++b->count;
    }
    HAUL__ASSERT(b->table[at] <= b->count);
    return b->table[at] - 1;
}

static void add_times(times *to, const times *more)
{
    to->wait += more->wait;
    to->planned += more->planned;
    to->device += more->device;
    to->overlap += more->overlap;
}

/* Adds a row to the one of its key, and returns that one's index. */
static int enter(book *b, const row *r)
{
    haul_ledger_row key = r->of;
    key.count = key.bytes = key.pinned_bytes = key.pageable_bytes = key.planned_bytes = 0;
    const int index = find(b, &key);
    HAUL__ASSERT(0 <= index && index < b->count);
    haul_ledger_row *to = &b->rows[index].of;
    if (to->count && strcmp(to->conversion, r->of.conversion) != 0)
        snprintf(to->conversion, sizeof to->conversion, "several");
    to->count += r->of.count;
    to->bytes += r->of.bytes;
    to->pinned_bytes += r->of.pinned_bytes;
    to->pageable_bytes += r->of.pageable_bytes;
    to->planned_bytes += r->of.planned_bytes;
    add_times(&b->rows[index].times, &r->times);
    return index;
}

/* ---- counting ---- */

static row row_of(const haul_event *e)
{
    row r = {.of = {.from = e->other, .to = e->device, .count = 1, .bytes = e->bytes},
             .times = {.wait = e->duration, .planned = e->planned}};
    haul__utf8_copy(r.of.operation, sizeof r.of.operation, e->operation);
    haul__utf8_copy(r.of.module, sizeof r.of.module, e->origin);
    haul__utf8_copy(r.of.label, sizeof r.of.label, e->label);
    haul__utf8_copy(r.of.tensor, sizeof r.of.tensor, e->tensor);
    haul__utf8_copy(r.of.conversion, sizeof r.of.conversion, e->problem);
    r.of.pinned_bytes = strcmp(e->text, "pinned") == 0 ? e->bytes : 0;
    r.of.pageable_bytes = strcmp(e->text, "pageable") == 0 ? e->bytes : 0;
    r.of.planned_bytes = e->planned ? e->bytes : 0;
    return r;
}

/* NULL for a copy that is no longer known. */
static copy *copy_of(haul_ledger *l, uint64_t number)
{
    HAUL__ASSERT(l->copies && number);
    copy *c = &l->copies[number % COPIES];
    if (c->number < number)
        *c = (copy){.number = number, .row = -1};
    return c->number == number ? c : NULL;
}

static void take_copy(haul_ledger *l, const haul_event *e)
{
    const row r = row_of(e);
    const int index = enter(&l->book, &r);
    copy     *c = l->copies && e->copy ? copy_of(l, e->copy) : NULL;
    if (!c)
        return;
    HAUL__ASSERT(c->row < 0);
    c->row = index;
    add_times(&l->book.rows[index].times, &c->times);
}

static void add_to_copy(haul_ledger *l, uint64_t number, times more)
{
    copy *c = copy_of(l, number);
    HAUL__ASSERT(!c || c->row < l->book.count);
    if (c)
        add_times(c->row < 0 ? &c->times : &l->book.rows[c->row].times, &more);
}

static void overlapped(void *context, uint64_t number, int64_t ns)
{
    add_to_copy(context, number, (times){.overlap = ns});
}

static void take_command(haul_ledger *l, const haul_event *e)
{
    const haul__span span = {.begin = e->time - e->duration, .end = e->time, .copy = e->copy};
    HAUL__ASSERT(e->duration >= 0);
    const bool computes = strcmp(e->stream, "compute") == 0;
    if (e->copy)
        add_to_copy(l, e->copy, (times){.device = e->duration});
    if (computes == !e->copy)
        haul__overlap_add(&l->overlaps, e->device,
                          computes                             ? HAUL__COMPUTING
                          : strcmp(e->stream, "download") == 0 ? HAUL__DOWNLOADING
                          : strcmp(e->stream, "ahead") == 0    ? HAUL__AHEAD
                                                               : HAUL__UPLOADING,
                          span, overlapped, l);
}

static void take(const haul_event *e, void *context)
{
    haul_ledger *l = context;
    if (l->thread && l->thread != e->thread)
        return;
    if (e->kind == HAUL_EVENT_COMMAND_DONE)
        take_command(l, e);
    else
        take_copy(l, e);
}

/* ---- the object ---- */

static void destroy(void *object)
{
    haul_ledger *l = object;
    haul__detach(&l->subscriber);
    book_close(&l->book);
    haul__free(l->copies);
    haul__overlap_free(&l->overlaps);
    haul__object_free(&l->object, sizeof *l);
}

static const haul__class ledger_class = {.name = "ledger", .destroy = destroy};

static haul_status prepare(haul_ledger *l, const haul_ledger_options *o, const char *operation)
{
    HAUL__ASSERT(!l->copies && !l->book.rows);
    l->thread = o->everywhere ? 0 : haul__event_thread();
    const size_t copies = COPIES * sizeof *l->copies;
    if (!book_open(&l->book) || (o->device_times && !(l->copies = haul__calloc(COPIES, sizeof *l->copies))))
        return haul__fail_memory(operation, copies);
    l->subscriber.of =
        (haul_subscription){.take = take,
                            .context = l,
                            .kinds = HAUL_EVENT_COPY | (o->device_times ? (uint32_t)HAUL_EVENT_COMMAND_DONE : 0) |
                                     (o->ranks ? (uint32_t)HAUL_EVENT_COLLECTIVE_END : 0),
                            .everywhere = true}; /* it may be ended by another thread */
    if (!haul__attach(&l->subscriber))
        return haul__fail(HAUL_OUT_OF_MEMORY, operation, NULL,
                          "the system cannot register another thread key or fork handler");
    return HAUL_OK;
}

haul_ledger *haul_ledger_begin_with(const haul_ledger_options *options)
{
    static const char operation[] = "haul_ledger_begin";
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    if (haul__event_muted()) {
        haul__fail(HAUL_STATE, operation, NULL,
                   "a subscriber to events makes no events that a ledger could count; call it elsewhere");
        return NULL;
    }
    haul_ledger *l = haul__object_new_zeroed(sizeof *l, &ledger_class);
    if (!l) {
        haul__fail_memory(operation, sizeof *l);
        return NULL;
    }
    if (prepare(l, options, operation) == HAUL_OK)
        return haul__own(l, operation);
    haul__object_release(l);
    return NULL;
}

haul_status haul_ledger_end(haul_ledger *ledger)
{
    haul_status status = haul__check_object(ledger, &ledger_class, "haul_ledger_end", "ledger");
    if (!status)
        haul__detach(&ledger->subscriber);
    return status;
}

/* ---- reading ---- */

static void keep_keys(haul_ledger_row *r, unsigned by)
{
    r->from = by & HAUL_LEDGER_FROM ? r->from : NULL;
    r->to = by & HAUL_LEDGER_TO ? r->to : NULL;
    const struct {
        haul_ledger_key key;
        char           *text;
    } texts[] = {{HAUL_LEDGER_OPERATION, r->operation},
                 {HAUL_LEDGER_MODULE, r->module},
                 {HAUL_LEDGER_LABEL, r->label},
                 {HAUL_LEDGER_TENSOR, r->tensor}};
    for (int i = 0; i < 4; i++)
        if (!(by & texts[i].key))
            *texts[i].text = 0;
}

static int compare_devices(const haul_device *a, const haul_device *b)
{
    return a && b ? strcmp(haul_device_name(a), haul_device_name(b)) : (a != NULL) - (b != NULL);
}

/* Most bytes first, then by name. */
static int compare(const void *a, const void *b)
{
    const haul_ledger_row *x = &((const row *)a)->of, *y = &((const row *)b)->of;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    const int orders[] = {strcmp(x->operation, y->operation), strcmp(x->module, y->module),
                          strcmp(x->tensor, y->tensor),       strcmp(x->label, y->label),
                          compare_devices(x->from, y->from),  compare_devices(x->to, y->to)};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (orders[i])
            return orders[i];
    return 0;
}

static void join(haul_ledger *l, unsigned by, book *out)
{
    haul__subscribers_lock();
    for (int i = 0; i < l->book.count; i++) {
        row r = l->book.rows[i];
        keep_keys(&r.of, by);
        enter(out, &r);
    }
    HAUL__ASSERT(out->count <= l->book.count);
    haul__subscribers_unlock();
}

static haul_ledger_row finished(const row *r)
{
    haul_ledger_row out = r->of;
    HAUL__ASSERT(out.count > 0 && out.bytes >= 0 && out.pinned_bytes + out.pageable_bytes <= out.bytes);
    const int64_t overlap = r->times.overlap < r->times.device ? r->times.overlap : r->times.device;
    out.wait_ms = (double)r->times.wait / 1e6;
    out.planned_ms = (double)r->times.planned / 1e6;
    out.device_ms = (double)r->times.device / 1e6;
    out.overlap_ms = (double)overlap / 1e6;
    return out;
}

static haul_status check_rows(haul_ledger *ledger, const haul_ledger_row *out, const haul_ledger_rows_options *o)
{
    static const char operation[] = "haul_ledger_rows";
    haul_status       status = haul__check_object(ledger, &ledger_class, operation, "ledger");
    if (status)
        return status;
    if (!o)
        return haul__fail_null(operation, "options");
    if (haul__check_list(operation, out, o->capacity))
        return haul_error_status();
    if (o->by & ~(unsigned)HAUL_LEDGER_ALL)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "by",
                          "by is 0x%x; expected values of haul_ledger_key, combined by |", o->by);
    return HAUL_OK;
}

int haul_ledger_rows_with(haul_ledger *ledger, haul_ledger_row *out, const haul_ledger_rows_options *options)
{
    book joined = {.rows = NULL};
    if (check_rows(ledger, out, options))
        return -1;
    if (!book_open(&joined)) {
        book_close(&joined);
        haul__fail_memory("haul_ledger_rows", TABLE * sizeof *joined.table);
        return -1;
    }
    join(ledger, options->by ? options->by : (unsigned)HAUL_LEDGER_ALL, &joined);
    HAUL__ASSERT(joined.count <= MOST_ROWS + MOST_PAIRS);
    qsort(joined.rows, (size_t)joined.count, sizeof *joined.rows, compare);
    for (int i = 0; i < joined.count && i < options->capacity; i++)
        out[i] = finished(&joined.rows[i]);
    const int count = joined.count;
    book_close(&joined);
    return count;
}

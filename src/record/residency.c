#include "record/residency.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "record/dry_function.h"
#include "record/extract.h"
#include "record/program.h"

static const char operation[] = "haul_program_record";

/* A range of the log, its program, and the position in it. */
typedef struct reading {
    const haul__program       *log;
    const haul__program_range *from;
    const haul__program_links *links;
    const haul_device         *device;
    const haul_program        *program;
    haul__residency           *out;
    size_t                    *moment; /* of operations: the moment of `bytes` */
    int64_t                    now;    /* bytes */
    int64_t                    under_way;
} reading;

static bool is_of(const reading *r, int store)
{
    const haul__program_store *s = &r->log->stores[store];
    return !s->pinned_for && s->device == r->device;
}

/* ---- bytes at operations ---- */

static void note(reading *r, size_t moment)
{
    if (r->under_way < 0 || r->now <= r->out->bytes[r->under_way])
        return;
    r->out->bytes[r->under_way] = r->now;
    r->moment[r->under_way] = moment;
}

/* Operation `now` is under way from this moment on. Operations begin in their order. */
static void reach(reading *r, int64_t now, size_t moment)
{
    if (now > r->under_way && now < r->program->operation_count)
        r->under_way = now;
    note(r, moment);
}

static int64_t operation_of(const reading *r, int store)
{
    const size_t described = r->log->stores[store].born_after;
    return described > r->from->call ? r->links->order.of_described[described - r->from->call - 1] : 0;
}

static void apply(reading *r, size_t change)
{
    const haul__program_change *c = &r->log->changes[change];
    if (!is_of(r, c->store))
        return;
    const int64_t bytes = r->log->stores[c->store].block;
    r->now += c->freed ? -bytes : bytes;
    HAUL__ASSERT(r->now >= 0);
    HAUL__ASSERT(bytes >= 0 && r->out->change_count < r->log->change_count - r->from->change);
    if (!c->freed)
        reach(r, operation_of(r, c->store), change + 1);
    r->out->changes[r->out->change_count++] =
        (haul__residency_change){r->links->stores[c->store], c->freed ? -bytes : bytes, larger(r->under_way, 0)};
}

static void read_changes(reading *r)
{
    size_t command = r->from->command;
    r->under_way = r->program->operation_count ? 0 : -1;
    note(r, r->from->change);
    for (size_t i = r->from->change; i <= r->log->change_count; i++) {
        for (; command < r->log->command_count && r->log->commands[command].moment <= i; command++)
            reach(r, r->links->order.of_command[command - r->from->command], i);
        if (i < r->log->change_count)
            apply(r, i);
    }
    HAUL__ASSERT(command == r->log->command_count);
}

/* Operations that neither submit nor allocate anything have the moment of the one before. */
static void fill_gaps(reading *r)
{
    for (int64_t i = 0; i < r->program->operation_count; i++) {
        if (r->out->bytes[i] < 0) {
            r->moment[i] = i ? r->moment[i - 1] : r->from->change;
            r->out->bytes[i] = i ? r->out->bytes[i - 1] : r->out->start;
        }
        HAUL__ASSERT(!i || r->moment[i - 1] <= r->moment[i]); /* so moments can be searched by halves */
    }
}

/* ---- lives of stores ---- */

/* The number of operations at moments before this one. */
static int64_t count_before(const reading *r, int64_t moment)
{
    int64_t low = 0, high = r->program->operation_count;
    HAUL__ASSERT(moment >= 0);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if ((int64_t)r->moment[middle] < moment)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void find_lives(reading *r)
{
    for (size_t i = 0; i < r->log->store_count; i++) {
        const haul__program_store *s = &r->log->stores[i];
        const int64_t              store = r->links->stores[i];
        if (store < 0)
            continue;
        r->out->block[store] = is_of(r, (int)i) ? s->block : 0;
        r->out->from[store] = count_before(r, s->born);
        r->out->until[store] = count_before(r, s->freed) - 1;
        HAUL__ASSERT(r->out->from[store] <= r->out->until[store] + 1);
    }
}

/* ---- the whole ---- */

static haul_status make_room(reading *r)
{
    haul__residency *out = r->out;
    const size_t     operations = (size_t)r->program->operation_count + 1, stores = (size_t)r->program->store_count + 1;
    const size_t     changes = r->log->change_count - r->from->change + 1;
    out->bytes = haul__malloc(operations * sizeof *out->bytes);
    out->from = haul__calloc(stores, sizeof *out->from);
    out->until = haul__calloc(stores, sizeof *out->until);
    out->block = haul__calloc(stores, sizeof *out->block);
    out->changes = haul__calloc(changes, sizeof *out->changes);
    r->moment = haul__calloc(operations, sizeof *r->moment);
    if (!out->bytes || !out->from || !out->until || !out->block || !out->changes || !r->moment)
        return haul__fail_memory(operation, changes * sizeof *out->changes);
    for (size_t i = 0; i < operations; i++)
        out->bytes[i] = -1;
    return HAUL_OK;
}

/* The bytes when the range begins. */
static int64_t find_start(const reading *r, const haul__dry_run *run)
{
    int64_t now = run->bases[r->device->slot].start;
    for (size_t i = 0; i < r->from->change; i++) {
        const haul__program_change *c = &r->log->changes[i];
        if (is_of(r, c->store))
            now += c->freed ? -r->log->stores[c->store].block : r->log->stores[c->store].block;
    }
    HAUL__ASSERT(now >= 0);
    return now;
}

static haul_status read(reading *r, const haul__dry_run *run)
{
    haul_status status = make_room(r);
    if (!status) {
        r->out->start = r->now = find_start(r, run);
        read_changes(r);
        fill_gaps(r);
        find_lives(r);
    }
    haul__free(r->moment);
    return status;
}

static haul_status record(haul__dry_function *d, haul_estimate_function *function, void *context,
                          const haul_device *device, haul_program *program, haul__residency *out)
{
    const haul__program *log = &d->run->program;
    haul__program_range  range;
    haul__program_links  links = {.stores = NULL};
    haul_status          status = haul__program_run(d->run, function, context, &range);
    if (!status)
        status = haul__program_extract(log, &range, false, program, &links);
    if (!status) {
        reading r = {.log = log, .from = &range, .links = &links, .device = device, .program = program, .out = out};
        status = read(&r, d->run);
    }
    haul__program_links_free(&links);
    return status;
}

haul_status haul__program_record_residency(haul_estimate_function *function, void *context, const haul_device *device,
                                           haul_program *program, haul__residency *out)
{
    haul__dry_function d;
    *program = (haul_program){.operation_count = 0};
    *out = (haul__residency){.start = 0};
    if (haul__dry_function_begin(&d, operation))
        return haul_error_status();
    const haul_status status = record(&d, function, context, device, program, out);
    haul__dry_function_end(&d);
    if (status) {
        haul_program_free(program);
        haul__residency_free(out);
    }
    return status;
}

void haul__residency_free(haul__residency *r)
{
    haul__free(r->bytes);
    haul__free(r->from);
    haul__free(r->until);
    haul__free(r->block);
    haul__free(r->changes);
    *r = (haul__residency){.start = 0};
}

/* ---- with spilling ---- */

/* Stores that come back are in memory before anything that the operation allocates. */
static void move(const haul__residency *r, const haul__spill_schedule *schedule, int64_t now, int64_t count,
                 uint8_t *away, int64_t *bytes)
{
    for (int64_t i = 0; i < schedule->count; i++) {
        const haul__spill_move *m = &schedule->moves[i];
        const bool              is_away = (m->after < now && now < m->before) || m->before > count + now;
        HAUL__ASSERT(m->after < m->before);
        if (is_away != away[m->store]) {
            *bytes += is_away ? -r->block[m->store] : r->block[m->store];
            away[m->store] = is_away;
        }
    }
}

haul_status haul__residency_peak(const haul__residency *r, const haul_program *program,
                                 const haul__spill_schedule *schedule, int64_t *peak)
{
    uint8_t *away = haul__calloc((size_t)program->store_count + 1, 1);
    int64_t  now = r->start, at = -1;
    if (!away)
        return haul__fail_memory(operation, (size_t)program->store_count);
    *peak = 0;
    for (size_t i = 0; i < r->change_count; i++) {
        const haul__residency_change *c = &r->changes[i];
        HAUL__ASSERT(!i || r->changes[i - 1].operation <= c->operation);
        for (; at < c->operation; at++) {
            move(r, schedule, at + 1, program->operation_count, away, &now);
            *peak = larger(*peak, now);
        }
        now += c->store >= 0 && away[c->store] ? 0 : c->bytes;
        *peak = larger(*peak, now);
    }
    haul__free(away);
    return HAUL_OK;
}

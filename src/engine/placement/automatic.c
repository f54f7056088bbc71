/* HAUL_PLACE_AUTO: an operation computes where the plan in force says, or where it is cheapest with the copies of its
 * operands. */
#include <haul/placement.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/text/duration.h"
#include "core/error.h"
#include "device/speeds.h"
#include "engine/copy.h"
#include "engine/driver.h"
#include "engine/placement/placement.h"
#include "engine/placement/placing.h"
#include "engine/placement/reason.h"
#include "engine/price.h"
#include "events/call.h"
#include "events/events.h"
#include "transfer/move_price.h"

enum { REASON = 400 };

/* A device, and what the call would take there in picoseconds. */
typedef struct option {
    haul_device *device;
    int64_t      compute, moves;
} option;

typedef struct options {
    option items[HAUL__MAX_DEVICES];
    int    count, best;
} options;

/* ---- prices ---- */

/* Of an operation that cannot be tried: memory decides. */
static haul__machine_work work_by_bytes(const haul__call *c)
{
    haul__machine_work w = {.work_class = haul__work_class_of(c->operation->name), .commands = 1};
    for (int i = 0; i < c->count; i++)
        if (!haul__is_none(c->operands[i])) {
            w.dtype = haul__work_dtype(w.dtype, c->operands[i]->dtype);
            w.bytes += 2 * (int64_t)haul_tensor_bytes(c->operands[i]);
        }
    return w;
}

/* What the call costs, by its infer, whose results are given back. Functions of the program are called once, and random
 * numbers are drawn once. */
static haul__machine_work find_work(const haul__call *c)
{
    const haul__operation *o = c->operation;
    haul__machine_work     w = work_by_bytes(c);
    haul__call             trial;
    haul__error_record     before;
    if (c->operands != c->own_operands || !o->infer || o->is_custom || o->random_at || o->blocks_at)
        return w;
    HAUL__ASSERT(!c->inferred && !c->results[0] && haul__is_tensor(c->operands[0]));
    haul__error_save(&before);
    memcpy(&trial, c, sizeof trial);
    trial.inputs = trial.operands = trial.own_operands;
    trial.device = c->operands[0]->storage->device;
    if (!haul__call_try(&trial)) {
        w = haul__price_work(&trial);
        w.commands = 1;
    }
    haul__call_end_trial(&trial);
    haul__error_restore(&before);
    return w;
}

static bool is_repeated(const haul__call *c, int i)
{
    int first = 0;
    while (c->operands[first] != c->operands[i])
        first++;
    return first < i;
}

/* Of the copies that the device lacks. */
static int64_t moves_to(const haul__call *c, const haul_device *device)
{
    int64_t sum = 0;
    for (int i = 0; i < c->count; i++) {
        const haul_tensor *t = c->operands[i];
        if (haul__is_none(t) || t->storage->device == device || is_repeated(c, i) || haul__keeps_move(t, device))
            continue;
        sum += haul__move_ps(t, device);
    }
    return sum;
}

static void add_option(options *o, const haul__call *c, const haul__machine_work *w, haul_device *device)
{
    const haul__speeds speeds = haul__speeds_of(device);
    if (speeds.assumed)
        return;
    HAUL__ASSERT(o->count < HAUL__MAX_DEVICES);
    o->items[o->count] = (option){device, haul__machine_time(speeds.machine, speeds.number, w), moves_to(c, device)};
    const option *best = &o->items[o->best], *now = &o->items[o->count];
    if (now->compute + now->moves < best->compute + best->moves)
        o->best = o->count;
    o->count++;
}

/* All devices in use whose speed is known: the first of those that cost the same is that of the heaviest operand. */
static void find_options(options *o, const haul__call *c, const haul__machine_work *w, haul_device *heaviest)
{
    add_option(o, c, w, heaviest);
    for (int slot = 0; slot < HAUL__MAX_DEVICES && o->count; slot++) {
        haul_device *device = haul__device_in_use(slot);
        if (device && device->valid && device != heaviest && haul__device_computes(device))
            add_option(o, c, w, device);
    }
}

/* ---- reasons ---- */

static void explain_options(const options *o, char *out, size_t size)
{
    const option *best = &o->items[o->best];
    char          a[HAUL__DURATION], b[HAUL__DURATION];
    size_t        used = (size_t)snprintf(out, size, "%s here", haul__duration_text(best->compute, a));
    HAUL__ASSERT(used < size); /* a duration is short */
    if (best->moves)
        used += (size_t)snprintf(out + used, size - used, " and %s to move its operands",
                                 haul__duration_text(best->moves, a));
    for (int i = 0; i < o->count && used < size; i++) {
        const option *x = &o->items[i];
        if (i == o->best)
            continue;
        used += (size_t)snprintf(out + used, size - used, "; %s on %s", haul__duration_text(x->compute, a),
                                 x->device->name);
        if (x->moves && used < size)
            used += (size_t)snprintf(out + used, size - used, " and %s to move", haul__duration_text(x->moves, b));
    }
}

/* ---- decisions ---- */

static haul_device *by_price(const haul__call *c, int heaviest, char *why, size_t size)
{
    haul_device             *holds = c->operands[heaviest]->storage->device;
    const haul__machine_work w = find_work(c);
    options                  o = {.count = 0};
    find_options(&o, c, &w, holds);
    HAUL__ASSERT(0 <= o.best && (o.best < o.count || o.count == 0));
    if (o.count > 1)
        explain_options(&o, why, size);
    else
        snprintf(why, size, "it holds %s, and the speed of %s is not known", haul__operand_name(c, heaviest),
                 o.count ? "the others" : "the device");
    return o.items[o.best].device ? o.items[o.best].device : holds;
}

static const haul__placed *find_planned(const haul__call *c)
{
    char           path[sizeof((haul__placed *)0)->module];
    haul__placing *p = haul__placing_now();
    return p ? haul__placing_find(p, c->operation->name, haul__call_path(path, sizeof path)) : NULL;
}

/* An operand without data, on meta; -1: there is none. */
static int first_without_data(const haul__call *c)
{
    for (int i = 0; i < c->count; i++)
        if (!haul__is_none(c->operands[i]) && !haul__device_computes(c->operands[i]->storage->device))
            return i;
    return -1;
}

/* A tensor without data decides, then one that the call writes, then the plan in force, then the price. */
static haul_device *choose(const haul__call *c, char *why, size_t size)
{
    const int           written = haul__first_written(c), heaviest = haul__heaviest(c);
    const int           dataless = first_without_data(c);
    const haul__placed *planned = dataless < 0 ? find_planned(c) : NULL;
    if (dataless >= 0) {
        snprintf(why, size, "%s has no data", haul__operand_name(c, dataless));
        return c->operands[dataless]->storage->device;
    }
    if (written >= 0 || c->target) {
        snprintf(why, size, "it writes %s", written >= 0 ? haul__operand_name(c, written) : "a given tensor");
        return written >= 0 ? c->operands[written]->storage->device : c->target;
    }
    if (planned) {
        snprintf(why, size, "as planned%s%s", planned->why ? ": " : "", planned->why ? planned->why : "");
        return planned->device;
    }
    HAUL__ASSERT(0 <= heaviest && heaviest < c->count); /* an operation has a tensor */
    if (!haul__placing_now())
        return by_price(c, heaviest, why, size);
    snprintf(why, size, "the plan lacks it, and it holds %s", haul__operand_name(c, heaviest));
    return c->operands[heaviest]->storage->device;
}

static void emit_decision(const haul__call *c, const char *why)
{
    if (haul__watched(HAUL_EVENT_PLACEMENT))
        haul__emit(&(haul_event){
            .kind = HAUL_EVENT_PLACEMENT, .operation = c->operation->name, .device = c->device, .problem = why});
}

haul_status haul__place_automatically(haul__call *c)
{
    char why[REASON];
    c->device = choose(c, why, sizeof why);
    HAUL__ASSERT(c->device && !c->reason);
    emit_decision(c, why);
    const haul_status status = haul__place_on(c, c->device, true);
    haul__place_as_given(); /* the rest of the call computes where the operands are now */
    if (!status)
        c->reason = haul__reason_new(c->operation->name, c->device, why);
    return status;
}

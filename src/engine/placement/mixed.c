#include "engine/placement/mixed.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/duration.h"
#include "core/error.h"
#include "device/speeds.h"
#include "engine/driver.h"
#include "memory/report/origins.h"
#include "transfer/move_price.h"

bool haul__is_loose(const haul_tensor *t)
{
    return haul__is_none(t) || (t->shape.ndim == 0 && t->storage->device == haul_cpu());
}

/* ---- what moves ---- */

/* The moves that bring all operands to a device. */
typedef struct moves {
    const haul_device *to; /* NULL: there are none */
    int64_t            ps;
    int                count, first; /* operands that move */
    bool               assumed;      /* the speed of a link is not known */
} moves;

static bool moves_to(const haul_tensor *t, const haul_device *to)
{
    return !haul__is_loose(t) && t->storage->device != to;
}

static bool is_assumed(const haul_device *device)
{
    return device != haul_cpu() && haul__speeds_of(device).assumed;
}

/* False if an operand that is written in place would have to move. */
static bool find_moves(const haul__call *c, const haul_device *to, moves *out)
{
    *out = (moves){.to = to, .first = -1};
    for (int i = 0; i < c->count; i++) {
        const haul_tensor *t = c->operands[i];
        if (!moves_to(t, to))
            continue;
        if (haul__operand_spec(c, i)->written)
            return false;
        out->ps += haul__move_ps(t, to);
        out->assumed = out->assumed || is_assumed(t->storage->device) || is_assumed(to);
        out->first = out->count++ ? out->first : i;
    }
    return true;
}

/* The cheapest moves, and the cheapest ones to another device. The first of two that are equal wins. */
static void find_best(const haul__call *c, moves *best, moves *next)
{
    *best = *next = (moves){.to = NULL};
    for (int i = 0; i < c->count; i++) {
        moves m;
        if (haul__is_loose(c->operands[i]))
            continue;
        const haul_device *to = c->operands[i]->storage->device;
        if (to == best->to || to == next->to || !find_moves(c, to, &m))
            continue;
        if (!best->to || m.ps < best->ps) {
            *next = *best;
            *best = m;
        } else if (!next->to || m.ps < next->ps) {
            *next = m;
        }
    }
}

/* ---- in words ---- */

enum { NAMES = 80, PRICE = 160, FIX = 160 };

/* "weight and bias", "weight and 3 others". */
static const char *names_text(const haul__call *c, const moves *m, char out[NAMES])
{
    const char *second = "";
    HAUL__ASSERT(m->count > 0 && 0 <= m->first && m->first < c->count);
    for (int i = m->first + 1; i < c->count && !*second; i++)
        second = moves_to(c->operands[i], m->to) ? haul__operand_name(c, i) : "";
    const char *first = haul__operand_name(c, m->first);
    if (m->count == 1)
        snprintf(out, NAMES, "%s", first);
    else if (m->count == 2 && strcmp(first, second) != 0)
        snprintf(out, NAMES, "%.30s and %.30s", first, second);
    else
        snprintf(out, NAMES, "%.30s and %d other%s", first, m->count - 1, m->count > 2 ? "s" : "");
    return out;
}

/* "b to cpu takes about 12.1 us". */
static const char *price_text(const haul__call *c, const moves *m, const char *verb, char out[PRICE])
{
    char names[NAMES], time[HAUL__DURATION];
    snprintf(out, PRICE, "%s to %s%s about %s", names_text(c, m, names), m->to->name, verb,
             haul__duration_text(m->ps, time));
    return out;
}

/* The call that moves the operand, or one of them. */
static const char *fix_text(const haul__call *c, const moves *m, char out[FIX])
{
    const char *name = haul__operand_name(c, m->first);
    if (m->count == 1)
        snprintf(out, FIX, "%.30s = haul_to(%.30s, haul_device_get(\"%s\"))", name, name, m->to->name);
    else
        snprintf(out, FIX, "move each with haul_to(%.30s, haul_device_get(\"%s\"))", name, m->to->name);
    return out;
}

/* "f32[64,10] on cpu (2.5 KiB)" */
static const char *operand_text(const haul_tensor *t, char out[128])
{
    char text[96], bytes[32];
    snprintf(out, 128, "%s (%s)", haul__tensor_text(t, text, sizeof text),
             haul__size_text((int64_t)haul_tensor_bytes(t), bytes, sizeof bytes));
    return out;
}

haul_status haul__refuse_mixed(const haul__call *c, int i, int j)
{
    char  a[128], b[128], first[PRICE], second[PRICE] = "", fix[FIX];
    moves best, next;
    find_best(c, &best, &next);
    HAUL__ASSERT(!next.to || (best.to && next.to != best.to && best.ps <= next.ps));
    if (!best.to)
        return haul__fail(HAUL_PLACEMENT, c->operation->name, haul__operand_name(c, j),
                          "%s is %s, %s is %s; operands that are written in place cannot move: make them on one device",
                          haul__operand_name(c, i), operand_text(c->operands[i], a), haul__operand_name(c, j),
                          operand_text(c->operands[j], b));
    if (next.to)
        price_text(c, &next, "", second);
    return haul__fail(HAUL_PLACEMENT, c->operation->name, haul__operand_name(c, best.first),
                      "%s is %s, %s is %s; moving %s%s%s%s: %s, or allow moves with "
                      "haul_set_placement_policy(HAUL_PLACE_MOVE)",
                      haul__operand_name(c, i), operand_text(c->operands[i], a), haul__operand_name(c, j),
                      operand_text(c->operands[j], b), price_text(c, &best, " takes", first), *second ? ", " : "",
                      second, best.assumed ? " (assumed; haul calibrate measures links)" : "", fix_text(c, &best, fix));
}

haul_status haul__refuse_written(const haul__call *c, int i, const haul_device *device)
{
    const char        *name = haul__operand_name(c, i);
    const haul_device *home = c->operands[i]->storage->device;
    char               price[PRICE], fix[FIX];
    moves              m;
    if (!find_moves(c, home, &m) || m.count == 0) /* a scalar decided, which is not counted */
        return haul__fail(HAUL_PLACEMENT, c->operation->name, name,
                          "%s is written in place and stays on %s, another one on %s; make them on one device", name,
                          home->name, device->name);
    return haul__fail(HAUL_PLACEMENT, c->operation->name, name,
                      "%s is written in place and stays on %s, the others are on %s; moving %s: %s", name, home->name,
                      device->name, price_text(c, &m, " takes", price), fix_text(c, &m, fix));
}

haul_status haul__refuse_target(const char *operation, const haul_tensor *out, const haul_device *device)
{
    const haul_device *home = out->storage->device;
    const int64_t      bytes = (int64_t)haul_tensor_bytes(out);
    char               size[32], time[HAUL__DURATION];
    return haul__fail(HAUL_PLACEMENT, operation, "out",
                      "out is on %s, the result is on %s; make out there: haul_copy_into(out, result) moves %s in "
                      "about %s",
                      home->name, device->name, haul__size_text(bytes, size, sizeof size),
                      haul__duration_text(haul__speeds_copy_time(device, home, bytes, true), time));
}

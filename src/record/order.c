/* Orders the operations of a program.
 *
 * An update moves if a failed step still changes nothing. So no operation between its place and the one that the
 * program gives it may check indices, run code of the program, or compute on a device whose commands can fail; and
 * there must not be a command that uses what it reads or writes. Clipping and a loss scale read all gradients before
 * the first update, so with them nothing moves. */
#include "record/order.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "engine/operation.h"

static const char operation[] = "haul_program_record";

/* An update that frees less stays with the others of its call, because each item costs a call. */
enum { LEAST_FREED = 64 << 10 };

/* A group of operands of an update that moves, and the number of the call behind which it goes. */
typedef struct move {
    int64_t number;
    int     call, first;
    int64_t behind;
} move;

/* Calls have numbers: those of the range that are listed, in the order of the log. */
typedef struct ordering {
    const haul__program       *log;
    const haul__program_range *range;
    haul__program_order       *out;
    size_t                     described, commands;
    int64_t                    count;
    int                       *calls;         /* by number */
    int64_t                   *of_command;    /* of the range's commands: the call that submits it, or -1 */
    int64_t                   *first_command; /* by number: its first command in `by_call`; and one more */
    int64_t                   *by_call;       /* commands of the range, in the order of their calls */
    int64_t                   *touched;       /* of the log's stores: the last call up to now that uses it, or -1 */
    int64_t                   *last;          /* the same at the end of the range */
    move                      *moves;
    size_t                     move_count, move_room;
} ordering;

static void free_ordering(ordering *o)
{
    void *arrays[] = {o->calls, o->of_command, o->first_command, o->by_call, o->touched, o->last, o->moves};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        haul__free(arrays[i]);
}

static haul_status make_room(ordering *o)
{
    haul__program_order *out = o->out;
    o->calls = haul__calloc(o->described + 1, sizeof *o->calls);
    o->of_command = haul__calloc(o->commands + 1, sizeof *o->of_command);
    o->first_command = haul__calloc(o->described + 3, sizeof *o->first_command);
    o->by_call = haul__calloc(o->commands + 1, sizeof *o->by_call);
    o->touched = haul__calloc(o->log->store_count + 1, sizeof *o->touched);
    o->last = haul__calloc(o->log->store_count + 1, sizeof *o->last);
    out->of_described = haul__calloc(o->described + 1, sizeof *out->of_described);
    out->of_command = haul__calloc(o->commands + 1, sizeof *out->of_command);
    out->described_count = o->described;
    out->command_count = o->commands;
    if (o->calls && o->of_command && o->first_command && o->by_call && o->touched && o->last && out->of_described &&
        out->of_command)
        return HAUL_OK;
    return haul__fail_memory(operation, (o->described + o->commands + 1) * sizeof *o->calls);
}

/* ---- calls and their commands ---- */

/* A call that failed counts for the one before it. */
static void number_calls(ordering *o)
{
    HAUL__ASSERT(o->range->call + o->described == o->log->described_count);
    for (size_t i = 0; i < o->described; i++) {
        const int call = o->log->described[o->range->call + i];
        if (o->log->calls[call].listed)
            o->calls[o->count++] = call;
        o->out->of_described[i] = o->count - 1;
    }
    HAUL__ASSERT((size_t)o->count <= o->described);
}

/* The call under way when so many calls had been described; -1 before the first. */
static int64_t number_after(const ordering *o, size_t described)
{
    return described > o->range->call ? o->out->of_described[described - o->range->call - 1] : -1;
}

/* A command that a call submits before it is described brings its operands into its layout. */
static int64_t number_of(const ordering *o, const haul__program_command *c)
{
    const haul__program *l = o->log;
    const bool           is_before =
        c->call >= 0 && l->calls[c->call].listed && c->after < l->described_count && l->described[c->after] == c->call;
    const int64_t by = number_after(o, c->after + is_before);
    HAUL__ASSERT(-1 <= by && by < o->count);
    return by < 0 && o->count ? 0 : by;
}

static const haul__program_command *command_at(const ordering *o, int64_t i)
{
    return &o->log->commands[o->range->command + (size_t)i];
}

static void sort_commands(ordering *o)
{
    for (size_t i = 0; i < o->commands; i++) {
        o->of_command[i] = number_of(o, command_at(o, (int64_t)i));
        if (o->of_command[i] >= 0)
            o->first_command[o->of_command[i] + 2]++;
    }
    for (int64_t k = 0; k < o->count; k++)
        o->first_command[k + 2] += o->first_command[k + 1];
    for (size_t i = 0; i < o->commands; i++)
        if (o->of_command[i] >= 0)
            o->by_call[o->first_command[o->of_command[i] + 1]++] = (int64_t)i;
    HAUL__ASSERT(o->first_command[0] == 0 && o->first_command[o->count] <= (int64_t)o->commands);
}

static int command_count(const ordering *o, int64_t number)
{
    return (int)(o->first_command[number + 1] - o->first_command[number]);
}

/* ---- uses of stores ---- */

static void touch_all(const ordering *o, int64_t number, int64_t *touched)
{
    const haul__program      *l = o->log;
    const haul__program_call *c = &l->calls[o->calls[number]];
    HAUL__ASSERT(0 <= number && number < o->count);
    for (int i = 0; i < c->operand_count + c->result_count; i++)
        if (l->values[c->value + (size_t)i].store >= 0)
            touched[l->values[c->value + (size_t)i].store] = number;
    for (int64_t i = o->first_command[number]; i < o->first_command[number + 1]; i++) {
        const haul__program_command *by = command_at(o, o->by_call[i]);
        for (int k = 0; k < by->use_count; k++)
            touched[l->uses[by->use + (size_t)k]] = number;
    }
}

static void find_last_uses(ordering *o)
{
    for (size_t i = 0; i < o->log->store_count; i++)
        o->touched[i] = o->last[i] = -1;
    for (int64_t k = 0; k < o->count; k++)
        touch_all(o, k, o->last);
}

/* ---- what moves ---- */

/* True if the step may fail in this call without a fault of the device. */
static bool can_fail(const ordering *o, int64_t number)
{
    const haul__program_call *c = &o->log->calls[o->calls[number]];
    if (c->operation->is_custom || !haul__device_is_host(c->device))
        return true;
    for (int64_t i = o->first_command[number]; i < o->first_command[number + 1]; i++)
        if (command_at(o, o->by_call[i])->checks)
            return true;
    return false;
}

/* An update of parameters that submits a command for each. */
static bool is_update(const ordering *o, int64_t number)
{
    const haul__program_call *c = &o->log->calls[o->calls[number]];
    const haul__operation    *by = c->operation;
    return by->varies && by->repeat && !c->result_count && haul__device_is_host(c->device) &&
           command_count(o, number) == c->operand_count / by->repeat;
}

/* The bytes of memory that no call needs after this update. */
static int64_t freed_by(const ordering *o, int64_t number, const haul_program_value *values, int count)
{
    int64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        if (values[i].store < 0)
            continue;
        const haul__program_store *s = &o->log->stores[values[i].store];
        HAUL__ASSERT(o->last[values[i].store] >= number); /* the update itself uses it */
        const bool is_inside = (size_t)values[i].store >= o->range->store && s->planned && !s->pinned_for;
        if (is_inside && s->freed <= (int64_t)o->log->change_count && o->last[values[i].store] == number)
            bytes += s->bytes;
    }
    return bytes;
}

static haul_status add_move(ordering *o, const move *m)
{
    if (!haul__grow(&o->moves, &o->move_room, o->move_count + 1, sizeof *o->moves))
        return haul__fail_memory(operation, sizeof *o->moves);
    o->moves[o->move_count++] = *m;
    return HAUL_OK;
}

/* `behind` is the last call that may fail. */
static haul_status move_groups(ordering *o, int64_t number, int64_t behind)
{
    const haul__program_call *c = &o->log->calls[o->calls[number]];
    haul_status               status = HAUL_OK;
    HAUL__ASSERT(behind < number && c->operand_count % c->operation->repeat == 0);
    for (int first = 0; first < c->operand_count && !status; first += c->operation->repeat) {
        const haul_program_value *values = o->log->values + c->value + first;
        move                      m = {number, o->calls[number], first, behind};
        for (int i = 0; i < c->operation->repeat; i++)
            if (values[i].store >= 0 && o->touched[values[i].store] > m.behind)
                m.behind = o->touched[values[i].store];
        if (m.behind >= 0 && m.behind < number - 1 && freed_by(o, number, values, c->operation->repeat) >= LEAST_FREED)
            status = add_move(o, &m);
    }
    return status;
}

static haul_status find_moves(ordering *o)
{
    int64_t     behind = -1;
    haul_status status = HAUL_OK;
    for (int64_t k = 0; k < o->count && !status; k++) {
        if (is_update(o, k))
            status = move_groups(o, k, behind);
        else if (can_fail(o, k))
            behind = k;
        touch_all(o, k, o->touched);
    }
    return status;
}

/* ---- the ordered calls ---- */

static void add_item(haul__program_order *out, const haul__ordered_call *item)
{
    out->items[out->count++] = *item;
}

/* True if the group that begins with this operand moves away from its call. */
static bool moves_away(const ordering *o, int64_t number, int first)
{
    for (size_t i = 0; i < o->move_count; i++)
        if (o->moves[i].number == number && o->moves[i].first == first)
            return true;
    return false;
}

/* What stays of an update: runs of groups between those that move. */
static void add_rest(ordering *o, int64_t number)
{
    const haul__program_call *c = &o->log->calls[o->calls[number]];
    const int                 each = c->operation->repeat;
    haul__ordered_call        run = {.call = o->calls[number]};
    HAUL__ASSERT(each > 0);
    for (int first = 0; first <= c->operand_count; first += each) {
        if (first < c->operand_count && !moves_away(o, number, first)) {
            run.first = run.count ? run.first : first;
            run.count += each;
            continue;
        }
        if (run.count)
            add_item(o->out, &run);
        run.count = 0;
    }
}

static bool has_moves(const ordering *o, int64_t number)
{
    for (size_t i = 0; i < o->move_count; i++)
        if (o->moves[i].number == number)
            return true;
    return false;
}

/* `last[number]` becomes the last item at the place of the call. */
static void add_items(ordering *o, int64_t *last)
{
    for (int64_t k = 0; k < o->count; k++) {
        const haul__program_call *c = &o->log->calls[o->calls[k]];
        if (has_moves(o, k))
            add_rest(o, k);
        else
            add_item(o->out, &(haul__ordered_call){.call = o->calls[k], .count = c->operand_count});
        last[k] = (int64_t)o->out->count - 1;
        for (size_t i = 0; i < o->move_count; i++) {
            if (o->moves[i].behind != k)
                continue;
            HAUL__ASSERT(o->moves[i].number > k + 1); /* it moves towards the beginning */
            add_item(o->out, &(haul__ordered_call){.call = o->moves[i].call,
                                                   .first = o->moves[i].first,
                                                   .count = o->log->calls[o->moves[i].call].operation->repeat,
                                                   .moved = true});
        }
    }
}

/* The item of an update that has these operands. */
static int64_t find_item(const haul__program_order *out, int call, int first)
{
    for (size_t i = 0; i < out->count; i++)
        if (out->items[i].call == call && out->items[i].first <= first &&
            first < out->items[i].first + out->items[i].count)
            return (int64_t)i;
    return -1;
}

static void place_commands(ordering *o, const int64_t *last)
{
    HAUL__ASSERT(o->out->count <= (size_t)o->count + 2 * o->move_count);
    for (int64_t k = 0; k < o->count; k++) {
        const int  each = o->log->calls[o->calls[k]].operation->repeat;
        const bool apart = has_moves(o, k);
        for (int64_t i = o->first_command[k]; i < o->first_command[k + 1]; i++)
            o->out->of_command[o->by_call[i]] =
                apart ? find_item(o->out, o->calls[k], (int)(i - o->first_command[k]) * each) : last[k];
    }
    for (size_t i = 0; i < o->commands; i++) {
        o->out->of_command[i] = o->of_command[i] < 0 ? -1 : o->out->of_command[i];
        HAUL__ASSERT(o->out->of_command[i] < (int64_t)o->out->count);
        HAUL__ASSERT(o->of_command[i] < 0 || o->out->of_command[i] >= 0); /* its call has an item */
        if (o->out->of_command[i] >= 0 && command_at(o, (int64_t)i)->checks)
            o->out->items[o->out->of_command[i]].checks = true;
    }
    for (size_t i = 0; i < o->described; i++)
        if (o->out->of_described[i] >= 0)
            o->out->of_described[i] = last[o->out->of_described[i]];
}

/* ---- the whole ---- */

static haul_status order_all(ordering *o, bool moves)
{
    haul_status status = make_room(o);
    if (status)
        return status;
    number_calls(o);
    sort_commands(o);
    find_last_uses(o);
    if (moves)
        status = find_moves(o);
    if (status)
        return status;
    /* A group that moves makes two items at most of one. */
    const size_t most = (size_t)o->count + 2 * o->move_count + 1;
    o->out->items = haul__calloc(most, sizeof *o->out->items);
    int64_t *last = haul__calloc((size_t)o->count + 1, sizeof *last);
    if (o->out->items && last) {
        add_items(o, last);
        place_commands(o, last);
    } else {
        status = haul__fail_memory(operation, most * sizeof *o->out->items);
    }
    HAUL__ASSERT(status || o->out->count < most);
    haul__free(last);
    return status;
}

haul_status haul__program_order_make(const haul__program *log, const haul__program_range *range, bool moves,
                                     haul__program_order *out)
{
    ordering o = {.log = log,
                  .range = range,
                  .out = out,
                  .described = log->described_count - range->call,
                  .commands = log->command_count - range->command};
    HAUL__ASSERT(range->call <= log->described_count && range->command <= log->command_count);
    *out = (haul__program_order){.count = 0};
    const haul_status status = order_all(&o, moves);
    free_ordering(&o);
    if (status)
        haul__program_order_free(out);
    return status;
}

void haul__program_order_free(haul__program_order *order)
{
    haul__free(order->items);
    haul__free(order->of_described);
    haul__free(order->of_command);
    *order = (haul__program_order){.count = 0};
}

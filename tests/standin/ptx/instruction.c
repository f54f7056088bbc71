/* An instruction's text: its guard, name and operands, and what runs it. */
#include "ptx.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 12, MAX_OPERANDS = 8 };

typedef struct instruction {
    const char *whole;           /* the name as it stands */
    char        name[128];       /* in parts: */
    char       *part[MAX_PARTS]; /* "ld" "global" "v4" "f32" */
    int         part_count;
    char       *operand[MAX_OPERANDS];
    int         operand_count;
} instruction;

/* ---- taking it apart ---- */

static char *trimmed(char *text)
{
    size_t length;
    while (*text == ' ')
        text++;
    for (length = strlen(text); length && text[length - 1] == ' ';)
        text[--length] = 0;
    return text;
}

/* At the commas that are in no brackets. */
static int split(char *text, char *out[], int most)
{
    int depth = 0, count = 0;
    text = trimmed(text);
    if (!*text)
        return 0;
    out[count++] = text;
    for (; *text; text++) {
        depth += (*text == '{' || *text == '[' || *text == '(') - (*text == '}' || *text == ']' || *text == ')');
        if (*text != ',' || depth)
            continue;
        *text = 0;
        if (count == most)
            return -1;
        out[count++] = text + 1;
    }
    for (int i = 0; i < count; i++)
        out[i] = trimmed(out[i]);
    return count;
}

static bool is_unknown(ptx_module *m, const instruction *i)
{
    return ptx_refuse(m, "the instruction %s is not known", i->whole);
}

static bool take_apart(ptx_module *m, char *statement, instruction *out)
{
    char *rest = statement;
    while (*rest && *rest != ' ')
        rest++;
    if (*rest)
        *rest++ = 0;
    out->whole = statement;
    if (strlen(statement) >= sizeof out->name)
        return ptx_refuse(m, "the instruction %.40s... is not known", statement);
    strcpy(out->name, statement);
    for (char *part = out->name; part; out->part_count++) {
        if (out->part_count == MAX_PARTS)
            return ptx_refuse(m, "the instruction %s is not known", statement);
        out->part[out->part_count] = part;
        part = strchr(part, '.');
        if (part)
            *part++ = 0;
    }
    out->operand_count = split(rest, out->operand, MAX_OPERANDS);
    return out->operand_count >= 0 || ptx_refuse(m, "%s has too many operands", statement);
}

static bool has_part(const instruction *i, const char *part)
{
    for (int k = 1; k < i->part_count; k++)
        if (strcmp(i->part[k], part) == 0)
            return true;
    return false;
}

static const char *last_part(const instruction *i)
{
    return i->part[i->part_count - 1];
}

/* The number of bits of a type like "b32"; 0 if the text is not a type. */
static int bits_of(const char *type)
{
    int bits = strchr("busf", type[0]) && type[0] ? atoi(type + 1) : 0;
    return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? bits : 0;
}

/* ---- operands ---- */

static bool set_slot(ptx_module *m, const char *operand, int *slot)
{
    *slot = strcmp(operand, "_") == 0 ? PTX_UNUSED : ptx_slot(m, operand);
    return *slot >= 0 || ptx_refuse(m, "the operand %s is not known", operand);
}

/* "a|b": a destination and a predicate. */
static bool set_outputs(ptx_module *m, char *operand, ptx_op *op)
{
    char *second = strchr(operand, '|');
    if (second) {
        *second++ = 0;
        if (!set_slot(m, trimmed(second), &op->out[1]))
            return false;
    }
    return set_slot(m, trimmed(operand), &op->out[0]);
}

/* "a" or "{a, b}"; their number, 0 if one is not known. */
static int set_list(ptx_module *m, char *operand, int *slots)
{
    char  *parts[4];
    int    count;
    size_t length = strlen(operand);
    if (operand[0] == '{' && operand[length - 1] == '}') {
        operand[length - 1] = 0;
        operand++;
    }
    count = split(operand, parts, 4);
    if (count <= 0)
        ptx_refuse(m, "the operand %s is not known", operand);
    for (int i = 0; i < count; i++)
        if (!set_slot(m, parts[i], &slots[i]))
            return 0;
    return count < 0 ? 0 : count;
}

/* "[%rd1+8]", "[name]" */
static bool set_place(ptx_module *m, char *operand, ptx_op *op)
{
    size_t length = strlen(operand);
    char  *plus;
    if (length < 3 || operand[0] != '[' || operand[length - 1] != ']')
        return ptx_refuse(m, "the address %s is not known", operand);
    operand[length - 1] = 0;
    operand++;
    plus = strchr(operand, '+');
    if (plus) {
        *plus = 0;
        op->offset = strtoll(plus + 1, NULL, 0);
    }
    return set_slot(m, trimmed(operand), &op->in[0]);
}

/* ---- control ---- */

static bool add_branch(ptx_module *m, instruction *i, ptx_op *op)
{
    if (i->operand_count != 1)
        return ptx_refuse(m, "%s has no label", i->whole);
    op->kind = PTX_BRANCH;
    op->target = ptx_label(m, i->operand[0]);
    return true;
}

/* "(result), name, (argument, argument)", where all but the name may be missing. */
static bool add_call(ptx_module *m, instruction *i, ptx_op *op)
{
    char         *lists[2] = {NULL, NULL}, *names[PTX_MAX_ARGUMENTS] = {NULL}, *callee = NULL;
    uint64_t      address;
    ptx_function *f;
    int           count, at;
    for (int k = 0; k < i->operand_count; k++) {
        char *operand = i->operand[k];
        if (operand[0] != '(') {
            callee = operand;
            continue;
        }
        operand[strlen(operand) - 1] = 0;
        lists[callee != NULL] = operand + 1;
    }
    at = callee ? ptx_find_function(m, callee) : -1;
    if (at < 0)
        return ptx_refuse(m, "there is no function %s", callee ? callee : i->whole);
    f = &m->functions[at];
    count = lists[1] ? split(lists[1], names, PTX_MAX_ARGUMENTS) : 0;
    if (count != f->argument_count || (lists[0] != NULL) != (f->result_size != 0))
        return ptx_refuse(m, "a call of %s is not as it is declared", callee);
    op->kind = PTX_CALL;
    op->run = ptx_pass_arguments;
    op->target = at;
    for (int k = 0; k < count; k++) {
        if (k == PTX_MAX_INPUTS || ptx_address(m, names[k], &address) != f->argument_size[k])
            return ptx_refuse(m, "the argument %s of %s is not as it is declared", names[k], callee);
        op->in[k] = (int)(address - PTX_CALL_WINDOW);
    }
    if (!lists[0])
        return true;
    if (ptx_address(m, trimmed(lists[0]), &address) != f->result_size)
        return ptx_refuse(m, "the result of %s is not as it is declared", callee);
    op = ptx_new_op(m, op->text);
    if (!op)
        return false;
    op->run = ptx_take_result;
    op->target = at;
    op->in[0] = (int)(address - PTX_CALL_WINDOW);
    return true;
}

static bool add_barrier(ptx_module *m, instruction *i, ptx_op *op)
{
    op->run = ptx_nothing;
    if (has_part(i, "warp") && has_part(i, "sync") && i->operand_count == 1) {
        op->kind = PTX_TOGETHER;
        return set_slot(m, i->operand[0], &op->in[PTX_MAX_INPUTS - 1]);
    }
    op->kind = PTX_BARRIER;
    if (has_part(i, "sync") && i->operand_count == 1 && strcmp(i->operand[0], "0") == 0)
        return true;
    return ptx_refuse(m, "the barrier %s is not known", i->whole);
}

/* shfl.sync.down.b32 d|p, a, b, c, mask */
static bool add_shuffle(ptx_module *m, instruction *i, ptx_op *op)
{
    static const char *const modes[] = {"up", "down", "bfly", "idx"};
    op->kind = PTX_TOGETHER;
    op->run = ptx_shuffle;
    for (op->mode = 0; op->mode < 4 && !has_part(i, modes[op->mode]);)
        op->mode++;
    if (op->mode == 4 || i->part_count != 4 || strcmp(i->part[1], "sync") != 0 || strcmp(i->part[3], "b32") != 0 ||
        i->operand_count != 5)
        return is_unknown(m, i);
    return set_outputs(m, i->operand[0], op) && set_slot(m, i->operand[1], &op->in[0]) &&
           set_slot(m, i->operand[2], &op->in[1]) && set_slot(m, i->operand[3], &op->in[2]) &&
           set_slot(m, i->operand[4], &op->in[PTX_MAX_INPUTS - 1]);
}

/* ---- memory ---- */

/* Takes the parts that say where and of what; false if another is left. */
static bool set_access(ptx_module *m, const instruction *i, int first, ptx_op *op)
{
    static const char *const spaces[] = {
        [PTX_GLOBAL] = "global", [PTX_SHARED] = "shared", [PTX_LOCAL] = "local", [PTX_PARAM] = "param"};
    const char *type = last_part(i);
    op->count = 1;
    op->size = (uint8_t)(bits_of(type) / 8);
    op->is_signed = type[0] == 's';
    for (int k = first; k < i->part_count - 1; k++) {
        const char *part = i->part[k];
        int         space = PTX_GLOBAL;
        if (strcmp(part, "const") == 0) {
            op->space = PTX_GLOBAL;
            continue;
        }
        while (space <= PTX_PARAM && strcmp(part, spaces[space]) != 0)
            space++;
        if (space <= PTX_PARAM)
            op->space = (uint8_t)space;
        else if (strcmp(part, "v2") == 0 || strcmp(part, "v4") == 0)
            op->count = (uint8_t)(part[1] - '0');
        else if (strcmp(part, "nc") != 0 && strcmp(part, "volatile") != 0)
            return is_unknown(m, i);
    }
    return op->size || is_unknown(m, i);
}

static bool add_load(ptx_module *m, instruction *i, ptx_op *op)
{
    op->run = ptx_load;
    if (i->operand_count != 2 || !set_access(m, i, 1, op))
        return is_unknown(m, i);
    return set_list(m, i->operand[0], op->out) == op->count && set_place(m, i->operand[1], op);
}

static bool add_store(ptx_module *m, instruction *i, ptx_op *op)
{
    op->run = ptx_store;
    if (i->operand_count != 2 || !set_access(m, i, 1, op))
        return is_unknown(m, i);
    return set_list(m, i->operand[1], op->in + 1) == op->count && set_place(m, i->operand[0], op);
}

/* atom.global.cas.b32 d, [a], b, c */
static bool add_atom(ptx_module *m, instruction *i, ptx_op *op)
{
    op->run = ptx_swap;
    if (i->part_count != 4 || strcmp(i->part[2], "cas") != 0 || i->operand_count != 4)
        return is_unknown(m, i);
    i->part[2] = i->part[1]; /* where, twice */
    return set_access(m, i, 1, op) && set_slot(m, i->operand[0], &op->out[0]) && set_place(m, i->operand[1], op) &&
           set_slot(m, i->operand[2], &op->in[1]) && set_slot(m, i->operand[3], &op->in[2]);
}

/* cvta.shared.u64: an address in a space becomes a generic one, in the space's window. cvta.to.shared.u64: the reverse.
 */
static bool add_conversion_of_address(ptx_module *m, instruction *i, ptx_op *op)
{
    const uint64_t window = has_part(i, "shared") ? PTX_SHARED_WINDOW : has_part(i, "local") ? PTX_LOCAL_WINDOW : 0;
    if (i->operand_count != 2 || strcmp(last_part(i), "u64") != 0)
        return is_unknown(m, i);
    op->run = ptx_move;
    op->offset = (int64_t)(has_part(i, "to") ? 0 - window : window);
    return set_slot(m, i->operand[0], &op->out[0]) && set_slot(m, i->operand[1], &op->in[0]);
}

/* mov.b64 d, {a, b}; mov.b64 {a, b}, d; mov.u32 d, a */
static bool add_move(ptx_module *m, instruction *i, ptx_op *op)
{
    const int bits = bits_of(last_part(i));
    if (i->part_count != 2 || i->operand_count != 2 || (!bits && strcmp(last_part(i), "pred") != 0))
        return is_unknown(m, i);
    op->run = i->operand[0][0] == '{' ? ptx_unpack : i->operand[1][0] == '{' ? ptx_pack : ptx_move;
    op->count = (uint8_t)set_list(m, i->operand[0], op->out);
    if (op->run == ptx_unpack)
        return op->count && set_slot(m, i->operand[1], &op->in[0]) && (op->size = (uint8_t)(bits / op->count), true);
    op->count = (uint8_t)set_list(m, i->operand[1], op->in);
    op->size = (uint8_t)(op->count ? bits / op->count : 0);
    return op->count != 0;
}

/* ---- computing ---- */

/* Of these the results of signed and unsigned numbers are bit-identical. */
static bool has_no_sign(const char *base)
{
    static const char *const bases[] = {"add", "addc", "sub", "subc", "and", "or", "xor", "not", "shl", "selp", "neg"};
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++)
        if (strcmp(base, bases[i]) == 0)
            return true;
    return false;
}

/* The name by which the rows have it. */
static void canonical_name(const instruction *i, ptx_op *op, char *out, size_t size)
{
    static const char *const combinations[] = {"", "and", "or", "xor"};
    const char              *type = last_part(i);
    const bool               low = strcmp(i->part[0], "mul") == 0 || strncmp(i->part[0], "mad", 3) == 0;
    size_t                   length = (size_t)snprintf(out, size, "%s", i->part[0]);
    for (int k = 1; k < i->part_count - 1; k++) {
        const char *part = i->part[k];
        bool        combines = false;
        for (uint8_t c = 1; c < 4 && strcmp(i->part[0], "setp") == 0; c++)
            if (k > 1 && strcmp(part, combinations[c]) == 0) {
                op->combine = c;
                combines = true;
            }
        if (!combines && length < size)
            length += (size_t)snprintf(out + length, size - length, ".%s", part);
    }
    if (length >= size || i->part_count == 1)
        return;
    if ((has_no_sign(i->part[0]) && (type[0] == 's' || type[0] == 'u')) ||
        (strcmp(i->part[0], "selp") == 0 && type[0] == 'f') ||
        (low && has_part(i, "lo") && (type[0] == 's' || type[0] == 'u')))
        snprintf(out + length, size - length, ".b%s", type + 1);
    else
        snprintf(out + length, size - length, ".%s", type);
}

static bool add_computation(ptx_module *m, instruction *i, ptx_op *op)
{
    static const ptx_row *const tables[] = {ptx_integer_rows, ptx_floating_rows, ptx_convert_rows};
    char                        name[128];
    canonical_name(i, op, name, sizeof name);
    for (size_t t = 0; t < sizeof tables / sizeof tables[0] && !op->run; t++)
        for (const ptx_row *row = tables[t]; row->name && !op->run; row++)
            if (strcmp(row->name, name) == 0)
                op->run = row->run;
    if (!op->run)
        return is_unknown(m, i);
    if (i->operand_count < 2 || i->operand_count > PTX_MAX_INPUTS + 1 || !set_outputs(m, i->operand[0], op))
        return ptx_refuse(m, "%s has a wrong number of operands", i->whole);
    for (int k = 1; k < i->operand_count; k++) {
        const char *operand = i->operand[k];
        if (operand[0] == '!') {
            op->negated = true;
            operand++;
        }
        if (!set_slot(m, operand, &op->in[k - 1]))
            return false;
    }
    return true;
}

/* ---- all ---- */

static const struct {
    const char *base;
    bool (*add)(ptx_module *, instruction *, ptx_op *);
} others[] = {
    {"bra", add_branch},      {"call", add_call},    {"bar", add_barrier},
    {"barrier", add_barrier}, {"shfl", add_shuffle}, {"ld", add_load},
    {"st", add_store},        {"atom", add_atom},    {"cvta", add_conversion_of_address},
    {"mov", add_move},
};

static bool add_named(ptx_module *m, instruction *i, ptx_op *op)
{
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++)
        if (strcmp(i->part[0], others[k].base) == 0)
            return others[k].add(m, i, op);
    if (strcmp(i->part[0], "ret") == 0 || strcmp(i->part[0], "exit") == 0) {
        op->kind = i->part[0][0] == 'r' ? PTX_RETURN : PTX_EXIT;
        return true;
    }
    return add_computation(m, i, op);
}

bool ptx_add_instruction(ptx_module *m, char *statement, const char *text)
{
    instruction i = {0};
    ptx_op     *op = ptx_new_op(m, text);
    if (!op)
        return false;
    if (statement[0] == '@') {
        char *end = strchr(statement, ' ');
        if (!end)
            return ptx_refuse(m, "the guard %s has no instruction", statement);
        *end = 0;
        op->guard_negated = statement[1] == '!';
        if (!set_slot(m, statement + 1 + op->guard_negated, &op->guard))
            return false;
        statement = trimmed(end + 1);
    }
    return take_apart(m, statement, &i) && add_named(m, &i, op);
}

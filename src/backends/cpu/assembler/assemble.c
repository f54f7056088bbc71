/* Registers are chosen once, for one vector of each value. The loop over four vectors has these instructions four
 * times, for other elements; processors compute the four side by side. */
#include "backends/cpu/assembler/assemble.h"

#include <string.h>

#include "backends/cpu/assembler/rows.h"
#include "backends/cpu/level.h"
#include "backends/implementation.h"
#include "base/assert.h"

enum { REGISTERS = 16, INSTRUCTIONS = 128, UNROLLED = 4, CODE_BYTES = 8 << 10 };

typedef enum kind { ON_REGISTERS, LOAD, STORE } kind;

typedef struct instruction {
    kind         kind;
    haul__opcode op;
    int          to, a, b, extra;
    int          value; /* of LOAD and STORE */
} instruction;

typedef struct plan {
    const haul__asm_part  *parts;
    const haul__asm_value *values;
    haul__assembled       *out;
    int                    count, value_count;
    int                    constants;                   /* in registers from the last one downwards */
    uint32_t               bits[HAUL__ASM_CONSTANTS];   /* of those at rsi */
    int                    holds[REGISTERS];            /* constants: which one, of memory -1 - which address */
    int                    constant_count;              /* of those at rsi */
    int                    homes[HAUL__ASM_VALUES];     /* registers of values; -1: none */
    int                    addresses[HAUL__ASM_VALUES]; /* general registers of those in memory */
    unsigned               taken;                       /* bits of vector registers */
    int                    used;                        /* as many of the first ones have had values */
    instruction            list[INSTRUCTIONS];
    int                    length;
    bool                   failed; /* something is too much */
} plan;

bool haul__asm_is_on(void)
{
    return haul__cpu_chosen_level() >= HAUL__CPU_V3 && haul__cpu_chosen_level() < HAUL__CPU_LEVELS &&
           !haul__implementation_left_out(HAUL__BY_assembled);
}

bool haul__asm_is_allowed(void)
{
    static const unsigned char returns = 0xc3;
    haul__code                 code = haul__code_make(&returns, sizeof returns);
    const bool                 is_allowed = code.pages != NULL;
    haul__code_free(&code);
    return is_allowed;
}

bool haul__asm_has(const haul__asm_part *part, const haul__asm_value *values)
{
    const haul__asm_row *row = haul__asm_row_of(part->kernel, part->scalars);
    if (!row || values[part->result].is_bool != !!(row->bools & HAUL__BOOL_R))
        return false;
    for (int k = 0; k < part->operand_count; k++) {
        const haul__asm_value *v = &values[part->operands[k]];
        if (v->is_bool != !!(row->bools >> k & 1) || (v->is_bool && v->repeated))
            return false;
    }
    return true;
}

/* ---- registers ---- */

static int take(plan *p)
{
    for (int r = 0; r < REGISTERS; r++)
        if (!(p->taken >> r & 1)) {
            p->taken |= 1u << r;
            p->used = r >= p->used ? r + 1 : p->used;
            HAUL__ASSERT(p->failed || p->used + p->constants <= REGISTERS);
            return r;
        }
    p->failed = true;
    return 0;
}

static void drop(plan *p, int r)
{
    HAUL__ASSERT(p->failed || (p->taken >> r & 1));
    p->taken &= ~(1u << r);
}

static void drop_value(plan *p, int value)
{
    if (p->homes[value] >= 0 && !p->values[value].repeated)
        drop(p, p->homes[value]);
    p->homes[value] = p->values[value].repeated ? p->homes[value] : -1;
}

/* The register that keeps a constant or a repeated element for the whole loop. */
static int keep(plan *p, int what)
{
    for (int i = 0; i < p->constants; i++)
        if (p->holds[REGISTERS - 1 - i] == what)
            return REGISTERS - 1 - i;
    const int r = REGISTERS - 1 - p->constants;
    if (p->failed || p->constants == HAUL__ASM_CONSTANTS || r < p->used) {
        p->failed = true;
        return 0;
    }
    HAUL__ASSERT(!(p->taken >> r & 1)); /* values have the registers below */
    p->constants++;
    p->holds[r] = what;
    p->taken |= 1u << r;
    return r;
}

static int constant(plan *p, uint32_t bits)
{
    int at = 0;
    while (at < p->constant_count && p->bits[at] != bits)
        at++;
    if (at == HAUL__ASM_CONSTANTS) {
        p->failed = true;
        return 0;
    }
    p->bits[at] = bits;
    p->constant_count = at == p->constant_count ? at + 1 : p->constant_count;
    HAUL__ASSERT(p->constant_count <= HAUL__ASM_CONSTANTS);
    return keep(p, at);
}

static void add(plan *p, instruction i)
{
    p->failed = p->failed || p->length == INSTRUCTIONS;
    if (!p->failed)
        p->list[p->length++] = i;
}

/* ---- parts ---- */

static bool is_needed_after(const plan *p, int part, int value)
{
    for (int i = part + 1; i < p->count; i++)
        for (int k = 0; k < p->parts[i].operand_count; k++)
            if (p->parts[i].operands[k] == value)
                return true;
    return false;
}

static int address_number(plan *p, int value)
{
    haul__assembled *out = p->out;
    for (int k = 0; k < out->memory_count; k++)
        if (out->memory[k] == value)
            return k;
    if (out->memory_count == HAUL__ASM_MEMORY) {
        p->failed = true;
        return 0;
    }
    out->memory[out->memory_count] = value;
    return out->memory_count++;
}

static int operand(plan *p, int value)
{
    if (p->values[value].repeated)
        p->homes[value] = keep(p, -1 - address_number(p, value));
    if (p->homes[value] < 0) {
        p->homes[value] = take(p);
        address_number(p, value);
        add(p, (instruction){.kind = LOAD, .to = p->homes[value], .value = value});
    }
    return p->homes[value];
}

/* The register of each name. */
static void bind(plan *p, const haul__asm_part *part, const haul__asm_row *row, int *names)
{
    bool used[HAUL__IS_T1 + 1] = {false};
    for (int i = 0; i < HAUL__ASM_STEPS && row->steps[i].op; i++) {
        used[row->steps[i].to] = used[row->steps[i].a] = used[row->steps[i].b] = true;
        if (row->steps[i].op == HAUL__OP_CHOOSE)
            used[row->steps[i].extra] = true;
    }
    HAUL__ASSERT(part->operand_count <= (int)(sizeof part->operands / sizeof *part->operands));
    const int one = HAUL__IS_A;
    for (int k = 0; k < part->operand_count; k++)
        names[one + k] = operand(p, part->operands[k]);
    names[HAUL__IS_S0] = used[HAUL__IS_S0] || row->by_scalar ? constant(p, (uint32_t)part->scalars[0]) : 0;
    names[HAUL__IS_S1] = used[HAUL__IS_S1] ? constant(p, (uint32_t)part->scalars[1]) : 0;
    names[HAUL__IS_B] = row->by_scalar ? names[HAUL__IS_S0] : names[HAUL__IS_B];
    names[HAUL__IS_ZERO] = used[HAUL__IS_ZERO] ? constant(p, 0) : 0;
    names[HAUL__IS_ONE] = used[HAUL__IS_ONE] ? constant(p, 0x3f800000) : 0;
    names[HAUL__IS_SIGN] = used[HAUL__IS_SIGN] ? constant(p, 0x80000000) : 0;
    names[HAUL__IS_T0] = used[HAUL__IS_T0] ? take(p) : -1;
    names[HAUL__IS_T1] = used[HAUL__IS_T1] ? take(p) : -1;
    names[HAUL__IS_R] = p->homes[part->result] = take(p);
}

static void store(plan *p, int value)
{
    const bool needs_free = p->values[value].is_bool;
    const int  free = needs_free ? take(p) : 0;
    address_number(p, value);
    add(p, (instruction){.kind = STORE, .to = p->homes[value], .value = value, .a = free});
    if (needs_free)
        drop(p, free);
}

static void add_part(plan *p, int at)
{
    const haul__asm_part *part = &p->parts[at];
    const haul__asm_row  *row = haul__asm_row_of(part->kernel, part->scalars);
    int                   names[HAUL__IS_T1 + 1] = {0};
    bind(p, part, row, names);
    for (int i = 0; i < HAUL__ASM_STEPS && row->steps[i].op; i++) {
        const haul__asm_step *s = &row->steps[i];
        add(p, (instruction){.op = s->op,
                             .to = names[s->to],
                             .a = names[s->a],
                             .b = names[s->b],
                             .extra = s->op == HAUL__OP_CHOOSE ? names[s->extra] : s->extra});
    }
    for (int t = HAUL__IS_T0; t <= HAUL__IS_T1; t++)
        if (names[t] >= 0)
            drop(p, names[t]);
    if (p->values[part->result].in_memory)
        store(p, part->result);
    for (int k = 0; k < part->operand_count; k++)
        if (!is_needed_after(p, at, part->operands[k]))
            drop_value(p, part->operands[k]);
    if (!is_needed_after(p, at, part->result))
        drop_value(p, part->result);
}

/* General registers of addresses: those that the call passes are the last ones, because they are read until then. */
static void choose_addresses(plan *p)
{
    static const int registers[HAUL__ASM_ADDRESSES] = {HAUL__R8, HAUL__R9, HAUL__R10, HAUL__R11, HAUL__RSI, HAUL__RDI};
    int              used = 0;
    for (int k = 0; k < p->out->memory_count; k++)
        if (!p->values[p->out->memory[k]].repeated) {
            p->failed = p->failed || used == HAUL__ASM_ADDRESSES;
            p->addresses[p->out->memory[k]] = p->failed ? 0 : registers[used++];
        }
}

/* ---- code ---- */

static void write_head(const plan *p, haul__bytes *out)
{
    HAUL__ASSERT(!p->failed && p->constants <= HAUL__ASM_CONSTANTS);
    haul__encode_begin(out);
    for (int i = 0; i < p->constants; i++) {
        const int r = REGISTERS - 1 - i;
        if (p->holds[r] >= 0)
            haul__encode_constant(out, r, p->holds[r]);
        else
            haul__encode_repeated(out, r, -1 - p->holds[r]);
    }
    for (int k = 0; k < p->out->memory_count; k++)
        if (!p->values[p->out->memory[k]].repeated)
            haul__encode_address(out, p->addresses[p->out->memory[k]], k);
}

static void write_vector(const plan *p, haul__bytes *out, int more)
{
    for (int i = 0; i < p->length; i++) {
        const instruction     *x = &p->list[i];
        const haul__asm_value *v = &p->values[x->value];
        const int              address = p->addresses[x->value];
        if (x->kind == LOAD)
            haul__encode_load(out, v->is_bool, x->to, address, more);
        else if (x->kind == STORE)
            haul__encode_store(out, v->is_bool, v->past_caches, x->to, address, more, x->a);
        else
            haul__encode(out, x->op, x->to, x->a, x->b, x->extra);
    }
}

static void write_loop(const plan *p, haul__bytes *out, int vectors)
{
    const size_t loop = haul__encode_loop(out, vectors * HAUL__ASM_ELEMENTS);
    for (int i = 0; i < vectors; i++)
        write_vector(p, out, i * HAUL__ASM_ELEMENTS);
    haul__encode_loop_end(out, loop);
}

static void write_code(const plan *p, haul__bytes *out)
{
    bool past_caches = false;
    for (int k = 0; k < p->out->memory_count; k++) {
        p->out->past_caches[k] = p->values[p->out->memory[k]].past_caches;
        past_caches = past_caches || p->out->past_caches[k];
    }
    write_head(p, out);
    write_loop(p, out, UNROLLED);
    write_loop(p, out, 1);
    haul__encode_end(out, past_caches);
}

/* The code of the parts; false if they are too long. */
static bool write_parts(plan *p, haul__bytes *out)
{
    HAUL__ASSERT(p->value_count <= HAUL__ASM_VALUES && p->count <= HAUL__ASM_PARTS);
    for (int i = 0; i < p->value_count; i++)
        p->homes[i] = -1;
    for (int i = 0; i < p->count && !p->failed; i++)
        add_part(p, i);
    choose_addresses(p);
    if (!p->failed)
        write_code(p, out);
    return !p->failed && !out->failed;
}

bool haul__asm_fits(const haul__asm_part *parts, int count, const haul__asm_value *values, int value_count)
{
    unsigned char   text[CODE_BYTES];
    haul__assembled made = {.run = NULL};
    haul__bytes     bytes = {.at = text, .room = sizeof text};
    plan            p = {.parts = parts, .values = values, .out = &made, .count = count, .value_count = value_count};
    return write_parts(&p, &bytes);
}

haul__assembled haul__assemble(const haul__asm_part *parts, int count, const haul__asm_value *values, int value_count)
{
    unsigned char   text[CODE_BYTES];
    haul__assembled out = {.run = NULL};
    haul__bytes     bytes = {.at = text, .room = sizeof text};
    plan            p = {.parts = parts, .values = values, .out = &out, .count = count, .value_count = value_count};
    if (!write_parts(&p, &bytes))
        return out;
    HAUL__ASSERT(0 < bytes.count && bytes.count <= sizeof text);
    memcpy(out.constants, p.bits, sizeof out.constants);
    out.code = haul__code_make(text, bytes.count);
    memcpy(&out.run, &out.code.pages, sizeof out.run); /* POSIX: a function's address as an object's */
    return out;
}

void haul__assembled_free(haul__assembled *assembled)
{
    haul__code_free(&assembled->code);
    assembled->run = NULL;
}

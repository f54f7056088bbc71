/* The names, labels, constants and ops of a module that is read. */
#include "reader.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static reader *reader_of(const ptx_module *module)
{
    return (reader *)(uintptr_t)module;
}

bool ptx_refuse(ptx_module *m, const char *format, ...)
{
    va_list arguments;
    if (m->error[0])
        return false;
    va_start(arguments, format);
    vsnprintf(m->error, sizeof m->error, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- lists ---- */

void *ptx_grown(ptx_module *m, void *list, int count, size_t size)
{
    void *larger = list;
    if ((count & (count - 1)) == 0) {
        larger = realloc(list, (size_t)(count ? 2 * count : 1) * size);
        if (!larger)
            ptx_refuse(m, "memory is out");
    }
    return larger;
}

ptx_op *ptx_new_op(ptx_module *m, const char *text)
{
    ptx_op *larger = ptx_grown(m, m->ops, m->op_count, sizeof *m->ops), *op;
    if (!larger)
        return NULL;
    m->ops = larger;
    op = &m->ops[m->op_count++];
    *op = (ptx_op){.text = text, .guard = -1, .target = -1};
    for (int i = 0; i < PTX_MAX_INPUTS; i++)
        op->in[i] = PTX_UNUSED;
    for (int i = 0; i < PTX_MAX_OUTPUTS; i++)
        op->out[i] = PTX_UNUSED;
    return op;
}

int ptx_new_slot(ptx_module *m)
{
    return m->slots++;
}

/* A constant's slot; its value is in constants, which name it. */
static int constant_slot(ptx_module *m, uint64_t value)
{
    uint64_t *larger;
    for (int i = 0; i < m->constant_count; i++)
        if (m->constants[2 * i + 1] == value)
            return (int)m->constants[2 * i];
    larger = ptx_grown(m, m->constants, m->constant_count, 2 * sizeof *m->constants);
    if (!larger)
        return -1;
    m->constants = larger;
    m->constants[2 * m->constant_count] = (uint64_t)ptx_new_slot(m);
    m->constants[2 * m->constant_count + 1] = value;
    return (int)m->constants[2 * m->constant_count++];
}

/* ---- names ---- */

name *ptx_add_name(reader *r, name_kind kind, const char *text, size_t length)
{
    name *larger = ptx_grown(&r->module, r->names, r->name_count, sizeof *r->names), *n;
    if (!larger)
        return NULL;
    r->names = larger;
    if (length >= MAX_NAME) {
        ptx_refuse(&r->module, "the name %.40s... is too long", text);
        return NULL;
    }
    n = &r->names[r->name_count++];
    *n = (name){.kind = kind};
    memcpy(n->text, text, length);
    return n;
}

/* The last of that name; `number` is that of one of many registers, or -1. */
static const name *find_name(const ptx_module *m, const char *text, int *number)
{
    const reader *r = reader_of(m);
    size_t        length = strlen(text), stem = length;
    while (stem > 0 && isdigit((unsigned char)text[stem - 1]))
        stem--;
    *number = stem < length ? atoi(text + stem) : -1;
    for (const name *n = r->names + r->name_count; n-- > r->names;)
        if (n->kind == REGISTERS
                ? *number >= 0 && *number < n->count && strlen(n->text) == stem && strncmp(n->text, text, stem) == 0
                : strcmp(n->text, text) == 0)
            return n;
    return NULL;
}

int ptx_address(const ptx_module *m, const char *text, uint64_t *address)
{
    int         number;
    const name *n = find_name(m, text, &number);
    if (!n || n->kind != VARIABLE)
        return -1;
    *address = n->address;
    return n->size;
}

static int special_slot(const char *text)
{
    static const struct {
        const char *stem;
        int         slot;
    } specials[] = {{"%tid.", PTX_TID}, {"%ntid.", PTX_NTID}, {"%ctaid.", PTX_CTAID}, {"%nctaid.", PTX_NCTAID}};
    if (strcmp(text, "%laneid") == 0)
        return PTX_LANE;
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) {
        size_t length = strlen(specials[i].stem);
        if (strncmp(text, specials[i].stem, length) == 0 && text[length] >= 'x' && text[length] <= 'z')
            return specials[i].slot + text[length] - 'x';
    }
    return -1;
}

/* Decimal or hexadecimal whole numbers, and the bits of floating-point ones: 0f3F800000, 0d3FF0000000000000. */
static bool read_number(const char *text, uint64_t *out)
{
    char *end;
    if (text[0] == '0' && (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D'))
        *out = strtoull(text + 2, &end, 16);
    else
        *out = strtoull(text, &end, 0);
    return end != text && (*end == 0 || (*end == 'U' && end[1] == 0));
}

int ptx_slot(ptx_module *m, const char *text)
{
    int         number, slot = special_slot(text);
    const name *n;
    uint64_t    value;
    if (slot >= 0)
        return slot;
    if (read_number(text, &value))
        return constant_slot(m, value);
    n = find_name(m, text, &number);
    if (!n)
        return -1;
    return n->kind == VARIABLE ? constant_slot(m, n->address) : n->slot + (n->kind == REGISTERS ? number : 0);
}

int ptx_find_function(const ptx_module *m, const char *text)
{
    for (int i = 0; i < m->function_count; i++)
        if (strcmp(m->functions[i].name, text) == 0)
            return i;
    return -1;
}

int ptx_label(ptx_module *m, const char *text)
{
    reader *r = reader_of(m);
    label  *larger;
    for (int i = 0; i < r->label_count; i++)
        if (strcmp(r->labels[i].text, text) == 0)
            return i;
    larger = ptx_grown(m, r->labels, r->label_count, sizeof *r->labels);
    if (!larger)
        return 0;
    r->labels = larger;
    r->labels[r->label_count].place = -1;
    snprintf(r->labels[r->label_count].text, MAX_NAME, "%s", text);
    return r->label_count++;
}

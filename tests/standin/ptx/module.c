/* A module's text: its variables, functions and kernels. */
#include "reader.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATEMENT = 4096 };

/* ---- reading ---- */

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

/* Comments become blanks: what remains stands where it stood. */
static void blank_comments(char *text)
{
    for (char *at = text; *at; at++) {
        if (at[0] == '/' && at[1] == '/') {
            for (; *at && *at != '\n'; at++)
                *at = ' ';
        } else if (at[0] == '/' && at[1] == '*') {
            for (; *at && !(at[0] == '*' && at[1] == '/'); at++)
                *at = ' ';
            if (*at)
                at[0] = at[1] = ' ';
        }
        if (!*at)
            break;
    }
}

static void skip_blanks(reader *r)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
}

static bool take(reader *r, const char *word)
{
    size_t length = strlen(word);
    skip_blanks(r);
    if (strncmp(r->at, word, length) != 0 || (is_name(word[length - 1]) && is_name(r->at[length])))
        return false;
    r->at += length;
    return true;
}

static bool expect(reader *r, const char *word)
{
    return take(r, word) || ptx_refuse(&r->module, "\"%s\" was expected before \"%.30s\"", word, r->at);
}

static bool take_name(reader *r, char out[MAX_NAME])
{
    size_t length = 0;
    skip_blanks(r);
    while (is_name(r->at[length]))
        length++;
    if (length == 0 || length >= MAX_NAME)
        return ptx_refuse(&r->module, "a name was expected before \"%.30s\"", r->at);
    memcpy(out, r->at, length);
    out[length] = 0;
    r->at += length;
    return true;
}

static long take_integer(reader *r)
{
    char *end;
    long  value;
    skip_blanks(r);
    value = strtol(r->at, &end, 0);
    r->at = end;
    return value;
}

/* "[N]" behind a name, or 1. */
static long take_count(reader *r)
{
    long count = 1;
    if (take(r, "[")) {
        count = take_integer(r);
        expect(r, "]");
    }
    return count;
}

/* The number of bytes of a type like ".b64"; 0, with the error recorded, if the text is not a type. */
static unsigned take_type(reader *r)
{
    static const struct {
        const char *name;
        unsigned    bytes;
    } types[] = {{".pred", 1}, {".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2}, {".u16", 2},
                 {".s16", 2},  {".f16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4}, {".f32", 4},
                 {".b64", 8},  {".u64", 8}, {".s64", 8}, {".f64", 8}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (take(r, types[i].name))
            return types[i].bytes;
    ptx_refuse(&r->module, "a type was expected before \"%.30s\"", r->at);
    return 0;
}

typedef struct declaration {
    char     name[MAX_NAME];
    unsigned bytes, element;
} declaration;

/* ".align 8 .b8 name[16]", ".u64 .ptr .global .align 4 name" */
static bool take_declaration(reader *r, declaration *out, unsigned *align)
{
    *align = take(r, ".align") ? (unsigned)take_integer(r) : 0;
    out->element = take_type(r);
    if (take(r, ".ptr")) {
        if (!take(r, ".global"))
            take(r, ".shared");
        if (take(r, ".align"))
            take_integer(r);
    }
    if (!out->element || !take_name(r, out->name))
        return false;
    out->bytes = out->element * (unsigned)take_count(r);
    if (!*align)
        *align = out->element;
    return true;
}

/* A place behind the others, which take *bytes. */
static unsigned place(unsigned *bytes, unsigned size, unsigned align)
{
    unsigned at = (*bytes + align - 1) / align * align;
    *bytes = at + size;
    return at;
}

static bool add_variable(reader *r, const declaration *d, uint64_t address)
{
    name *n = ptx_add_name(r, VARIABLE, d->name, strlen(d->name));
    if (!n)
        return false;
    n->address = address;
    n->size = (int)d->bytes;
    return true;
}

/* ---- variables ---- */

static bool read_values(reader *r, char *to, const declaration *d)
{
    const bool list = take(r, "{");
    for (unsigned i = 0; i < d->bytes / d->element; i++) {
        char    *end;
        uint64_t value;
        skip_blanks(r);
        value = strtoull(r->at, &end, 0);
        if (end == r->at)
            return ptx_refuse(&r->module, "a value of %s is not a whole number: %.30s", d->name, r->at);
        r->at = end;
        memcpy(to + i * d->element, &value, d->element);
        if (!list || !take(r, ","))
            break;
    }
    return !list || expect(r, "}");
}

/* ".global" or ".const" has been taken. */
static bool read_global(reader *r)
{
    ptx_module *m = &r->module;
    declaration d;
    unsigned    align, at;
    char       *larger;
    if (!take_declaration(r, &d, &align))
        return false;
    at = place(&m->global_bytes, d.bytes, align < 16 ? 16 : align);
    larger = realloc(m->globals, m->global_bytes);
    if (!larger)
        return ptx_refuse(m, "memory is out");
    m->globals = larger;
    memset(m->globals + at, 0, d.bytes);
    if (take(r, "=") && !read_values(r, m->globals + at, &d))
        return false;
    return add_variable(r, &d, PTX_GLOBAL_WINDOW + at) && expect(r, ";");
}

static bool read_memory(reader *r, unsigned *bytes, uint64_t window)
{
    declaration d;
    unsigned    align;
    return take_declaration(r, &d, &align) && add_variable(r, &d, window + place(bytes, d.bytes, align)) &&
           expect(r, ";");
}

/* ".reg .b32 %r<10>;" or ".reg .pred p, q;" */
static bool read_registers(reader *r)
{
    char  text[MAX_NAME];
    name *n;
    if (!take_type(r))
        return false;
    do {
        if (!take_name(r, text) || !(n = ptx_add_name(r, REGISTER, text, strlen(text))))
            return false;
        n->slot = r->module.slots;
        n->count = 1;
        if (take(r, "<")) {
            n->kind = REGISTERS;
            n->count = (int)take_integer(r);
            if (!expect(r, ">"))
                return false;
        }
        r->module.slots += n->count;
    } while (take(r, ","));
    return expect(r, ";");
}

/* ---- bodies ---- */

/* What stands up to the semicolon, blanks made single. */
static bool take_statement(reader *r, char out[STATEMENT])
{
    size_t length = 0;
    for (; *r->at && *r->at != ';'; r->at++) {
        const bool blank = isspace((unsigned char)*r->at) != 0;
        if (length + 1 >= STATEMENT)
            return ptx_refuse(&r->module, "a statement is too long");
        if (!blank)
            out[length++] = *r->at;
        else if (length && out[length - 1] != ' ')
            out[length++] = ' ';
    }
    while (length && out[length - 1] == ' ')
        length--;
    out[length] = 0;
    return expect(r, ";");
}

static bool take_label(reader *r)
{
    size_t length = 0;
    char   text[MAX_NAME];
    while (is_name(r->at[length]))
        length++;
    if (length == 0 || length >= MAX_NAME || r->at[length] != ':')
        return false;
    memcpy(text, r->at, length);
    text[length] = 0;
    r->at += length + 1;
    length = (size_t)ptx_label(&r->module, text);
    if (r->labels)
        r->labels[length].place = r->module.op_count;
    return true;
}

static bool read_statement(reader *r)
{
    ptx_module *m = &r->module;
    char        statement[STATEMENT];
    const char *text;
    skip_blanks(r);
    text = r->at;
    if (take_label(r))
        return true;
    if (take(r, ".reg"))
        return read_registers(r);
    if (take(r, ".shared"))
        return read_memory(r, &m->shared_bytes, 0);
    if (take(r, ".local"))
        return read_memory(r, &m->local_bytes, 0);
    if (take(r, ".param"))
        return read_memory(r, &m->call_bytes, PTX_CALL_WINDOW);
    if (take(r, ".pragma"))
        return take_statement(r, statement);
    return take_statement(r, statement) && (statement[0] == 0 || ptx_add_instruction(m, statement, text));
}

/* What stands between the braces, of which the first has been taken. Names end with their scope. */
static bool read_scope(reader *r)
{
    const int names = r->name_count;
    while (!r->module.error[0] && !take(r, "}")) {
        if (!*r->at)
            return ptx_refuse(&r->module, "a function does not end");
        if (take(r, "{") ? !read_scope(r) : !read_statement(r))
            return false;
    }
    r->name_count = names;
    return !r->module.error[0];
}

/* Branches get places in place of labels. A return of a function gets the slot `returns`; one of a kernel, where that
 * is -1, ends the lane. */
static bool read_body(reader *r, int returns, int *code)
{
    ptx_module *m = &r->module;
    const int   first = *code = m->op_count;
    r->label_count = 0;
    if (!read_scope(r))
        return false;
    for (int i = first; i < m->op_count; i++) {
        ptx_op *op = &m->ops[i];
        if (op->kind == PTX_RETURN && returns < 0)
            op->kind = PTX_EXIT;
        if (op->kind == PTX_RETURN)
            op->in[0] = returns;
        if (op->kind != PTX_BRANCH)
            continue;
        if (r->labels[op->target].place < 0)
            return ptx_refuse(m, "there is no label %s", r->labels[op->target].text);
        op->target = r->labels[op->target].place;
    }
    return m->op_count > first || ptx_refuse(m, "a function is empty");
}

/* ---- functions and kernels ---- */

static void skip_directives(reader *r)
{
    for (;;) {
        if (take(r, ".maxntid") || take(r, ".reqntid")) {
            do {
                take_integer(r);
            } while (take(r, ","));
        } else if (take(r, ".minnctapersm") || take(r, ".maxnreg")) {
            take_integer(r);
        } else if (!take(r, ".noreturn")) {
            return;
        }
    }
}

static bool read_parameter(reader *r, ptx_entry *e)
{
    declaration d;
    unsigned    align;
    if (e->count == PTX_MAX_PARAMETERS)
        return ptx_refuse(&r->module, "%s has too many parameters", e->name);
    if (!expect(r, ".param") || !take_declaration(r, &d, &align))
        return false;
    e->size[e->count] = d.bytes;
    e->offset[e->count] = place(&e->bytes, d.bytes, align);
    return add_variable(r, &d, PTX_PARAM_WINDOW + e->offset[e->count++]);
}

static bool read_kernel(reader *r)
{
    ptx_module *m = &r->module;
    const int   names = r->name_count;
    ptx_entry  *e, *larger = ptx_grown(m, m->entries, m->entry_count, sizeof *m->entries);
    bool        done;
    if (!larger)
        return false;
    m->entries = larger;
    e = &m->entries[m->entry_count++];
    memset(e, 0, sizeof *e);
    if (!take_name(r, e->name) || !expect(r, "("))
        return false;
    if (!take(r, ")")) {
        do {
            if (!read_parameter(r, e))
                return false;
        } while (take(r, ","));
        if (!expect(r, ")"))
            return false;
    }
    skip_directives(r);
    done = expect(r, "{") && read_body(r, -1, &e->code);
    r->name_count = names;
    return done;
}

/* A parameter of a function, or its result; both have a place in the memory for calls. */
static bool read_formal(reader *r, int *at, int *size)
{
    declaration d;
    unsigned    align;
    if (!expect(r, ".param") || !take_declaration(r, &d, &align))
        return false;
    *at = (int)place(&r->module.call_bytes, d.bytes, align);
    *size = (int)d.bytes;
    return add_variable(r, &d, PTX_CALL_WINDOW + (uint64_t)*at);
}

static ptx_function *function_named(reader *r, const char *text)
{
    ptx_module   *m = &r->module;
    int           i = ptx_find_function(m, text);
    ptx_function *larger;
    if (i >= 0)
        return &m->functions[i];
    larger = ptx_grown(m, m->functions, m->function_count, sizeof *m->functions);
    if (!larger)
        return NULL;
    m->functions = larger;
    m->functions[m->function_count] = (ptx_function){.code = -1, .returns = ptx_new_slot(m)};
    snprintf(m->functions[m->function_count].name, MAX_NAME, "%s", text);
    return &m->functions[m->function_count++];
}

/* A declaration ends with a semicolon, a definition has a body. */
static bool read_function(reader *r)
{
    const int     names = r->name_count;
    int           result = 0, result_size = 0;
    char          text[MAX_NAME];
    ptx_function *f;
    bool          done;
    if (take(r, "(") && !(read_formal(r, &result, &result_size) && expect(r, ")")))
        return false;
    if (!take_name(r, text) || !(f = function_named(r, text)) || !expect(r, "("))
        return false;
    f->result = result;
    f->result_size = result_size;
    f->argument_count = 0;
    if (!take(r, ")")) {
        do {
            if (f->argument_count == PTX_MAX_ARGUMENTS)
                return ptx_refuse(&r->module, "%s has too many parameters", text);
            if (!read_formal(r, &f->argument[f->argument_count], &f->argument_size[f->argument_count]))
                return false;
            f->argument_count++;
        } while (take(r, ","));
        if (!expect(r, ")"))
            return false;
    }
    skip_directives(r);
    done = take(r, ";") || (expect(r, "{") && read_body(r, f->returns, &f->code));
    r->name_count = names;
    return done;
}

static bool read_header(reader *r)
{
    char line[MAX_NAME];
    if (!expect(r, ".version"))
        return false;
    take_integer(r); /* and the part behind the point */
    for (int i = 0; i < 2; i++) {
        r->at += strcspn(r->at, "\n");
        if (take(r, ".target") && !take_name(r, line))
            return false;
        if (take(r, ".address_size") && take_integer(r) != 64)
            return ptx_refuse(&r->module, "addresses do not have 64 bits");
    }
    return true;
}

static bool read_module(reader *r)
{
    if (!read_header(r))
        return false;
    for (skip_blanks(r); *r->at; skip_blanks(r)) {
        const bool external = take(r, ".extern");
        if (!external && !take(r, ".visible"))
            take(r, ".weak");
        if (external)
            return ptx_refuse(&r->module, "something is declared outside of the module");
        if (take(r, ".entry")                         ? !read_kernel(r)
            : take(r, ".func")                        ? !read_function(r)
            : take(r, ".global") || take(r, ".const") ? !read_global(r)
            : take(r, ".shared")                      ? !read_memory(r, &r->module.shared_bytes, 0)
                                                      : !ptx_refuse(&r->module, "\"%.30s\" is not known", r->at))
            return false;
    }
    for (int i = 0; i < r->module.function_count; i++)
        if (r->module.functions[i].code < 0)
            return ptx_refuse(&r->module, "%s is not defined", r->module.functions[i].name);
    return true;
}

/* The table that the driver asks for kernels. Which parameters are addresses, PTX does not say: accesses are checked.
 */
static bool list_kernels(ptx_module *m)
{
    static const char no_pointers[PTX_MAX_PARAMETERS];
    m->kernels = calloc((size_t)m->entry_count + 1, sizeof *m->kernels);
    if (!m->kernels)
        return ptx_refuse(m, "memory is out");
    for (int i = 0; i < m->entry_count; i++)
        m->kernels[i] = (struct standin_kernel){.name = m->entries[i].name,
                                                .count = m->entries[i].count,
                                                .sizes = m->entries[i].size,
                                                .pointers = no_pointers};
    return true;
}

void ptx_module_free(ptx_module *m)
{
    if (!m)
        return;
    free(m->text);
    free(m->ops);
    free(m->functions);
    free(m->entries);
    free(m->kernels);
    free(m->constants);
    free(m->globals);
    free(m);
}

ptx_module *ptx_module_new(const char *text, size_t size, char *why)
{
    reader     *r = calloc(1, sizeof *r);
    ptx_module *m = r ? &r->module : NULL;
    bool        done = false;
    strcpy(why, "memory is out");
    if (!m)
        return NULL;
    m->slots = PTX_SPECIALS;
    m->text = strndup(text, size);
    if (m->text) {
        blank_comments(m->text);
        r->at = m->text;
        done = read_module(r) && list_kernels(m);
        m->local_bytes = (m->local_bytes + 15) / 16 * 16; /* each lane's begins aligned */
        m->call_bytes = (m->call_bytes + 15) / 16 * 16;
    }
    free(r->names);
    free(r->labels);
    r->names = NULL;
    r->labels = NULL;
    if (!done) {
        memcpy(why, m->error, sizeof m->error);
        ptx_module_free(m);
        return NULL;
    }
    return m;
}

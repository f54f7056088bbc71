/* A machine with a stack, as Python's pickletools describes it, for the operations that files of weights have. Every
 * operation makes at most one value, and every value is stored once, so that memory is a multiple of the file. */
#include "formats/pickle.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/quoted.h"
#include "base/text/utf8.h"
#include "core/error.h"

#define NOTHING UINT32_MAX

typedef struct reader {
    haul__pickle  *out;
    const uint8_t *at, *end;
    uint32_t      *stack, *memo;
    size_t         depth, depth_capacity, memo_capacity, memo_count;
    size_t         size; /* of the pickle */
    bool (*is_known)(const char *name, size_t size);
    const char *path, *operation;
    bool        done;
} reader;

/* Marks are on the stack, too. */
#define MARK (UINT32_MAX - 1)

static haul_status malformed(const reader *r, const char *what)
{
    return haul__fail(HAUL_FORMAT, r->operation, "path", "%s is not a valid file of PyTorch: its pickle %s", r->path,
                      what);
}

static haul_status exhausted(const reader *r, size_t bytes)
{
    return haul__fail_memory(r->operation, bytes);
}

/* ---- bytes ---- */

/* A number of `width` bytes, the first being the lowest. */
static haul_status take_number(reader *r, size_t width, uint64_t *out)
{
    if ((size_t)(r->end - r->at) < width)
        return malformed(r, "ends too early");
    HAUL__ASSERT(width <= sizeof *out);
    *out = 0;
    for (size_t i = 0; i < width; i++)
        *out |= (uint64_t)*r->at++ << 8 * i;
    return HAUL_OK;
}

static haul_status take_bytes(reader *r, size_t width, const uint8_t **bytes, uint32_t *size)
{
    uint64_t          length = 0;
    const haul_status status = take_number(r, width, &length);
    if (status)
        return status;
    if (length > (uint64_t)(r->end - r->at))
        return malformed(r, "ends within a text");
    *bytes = r->at;
    *size = (uint32_t)length;
    r->at += length;
    return HAUL_OK;
}

/* ---- values and the stack ---- */

static haul_status push(reader *r, uint32_t value)
{
    if (!haul__grow(&r->stack, &r->depth_capacity, r->depth + 1, sizeof *r->stack))
        return exhausted(r, (r->depth + 1) * sizeof *r->stack);
    r->stack[r->depth++] = value;
    return HAUL_OK;
}

static haul_status make(reader *r, const haul__pickle_value *value, uint32_t *index)
{
    haul__pickle *p = r->out;
    if (!haul__grow(&p->values, &p->value_capacity, p->value_count + 1, sizeof *p->values))
        return exhausted(r, (p->value_count + 1) * sizeof *p->values);
    *index = (uint32_t)p->value_count;
    p->values[p->value_count++] = *value;
    return HAUL_OK;
}

static haul_status push_new(reader *r, haul__pickle_value value)
{
    uint32_t          index = 0;
    const haul_status status = make(r, &value, &index);
    return status ? status : push(r, index);
}

static haul_status push_number(reader *r, int64_t number)
{
    return push_new(r, (haul__pickle_value){.kind = HAUL__PICKLE_NUMBER,
                                            .low = (uint32_t)((uint64_t)number & UINT32_MAX),
                                            .high = (uint32_t)((uint64_t)number >> 32)});
}

static haul_status push_kind(reader *r, haul__pickle_kind kind)
{
    return push_new(r, (haul__pickle_value){.kind = kind, .first = NOTHING, .last = NOTHING});
}

static haul_status pop(reader *r, uint32_t *value)
{
    if (!r->depth || r->stack[r->depth - 1] == MARK)
        return malformed(r, "takes a value that is not there");
    *value = r->stack[--r->depth];
    return HAUL_OK;
}

static haul_status append(reader *r, uint32_t owner, uint32_t item)
{
    haul__pickle *p = r->out;
    if (!haul__grow(&p->links, &p->link_capacity, p->link_count + 1, sizeof *p->links))
        return exhausted(r, (p->link_count + 1) * sizeof *p->links);
    HAUL__ASSERT(owner < p->value_count && item < p->value_count); /* a mark is neither */
    const uint32_t link = (uint32_t)p->link_count++;
    p->links[link] = (haul__pickle_link){.value = item, .next = NOTHING};
    haul__pickle_value *v = &p->values[owner];
    if (v->first == NOTHING)
        v->first = link;
    else
        p->links[v->last].next = link;
    v->last = link;
    v->count++;
    return HAUL_OK;
}

/* Where the values after the innermost mark begin. */
static haul_status find_mark(const reader *r, size_t *first)
{
    size_t at = r->depth;
    while (at && r->stack[at - 1] != MARK)
        at--;
    *first = at;
    return at ? HAUL_OK : malformed(r, "lacks a mark");
}

/* Appends the values from `first` on to `owner`, and takes them from the stack. */
static haul_status append_from(reader *r, uint32_t owner, size_t first)
{
    HAUL__ASSERT(first <= r->depth);
    for (size_t i = first; i < r->depth; i++) {
        const haul_status status = append(r, owner, r->stack[i]);
        if (status)
            return status;
    }
    r->depth = first;
    return HAUL_OK;
}

/* ---- operations ---- */

/* The top of the stack, which must be of this kind; `first` is the depth above it. */
static haul_status owner_at(const reader *r, size_t first, haul__pickle_kind kind, uint32_t *owner)
{
    if (!first || r->stack[first - 1] == MARK || r->out->values[r->stack[first - 1]].kind != kind)
        return malformed(r, "fills a value that is not a list or dictionary");
    *owner = r->stack[first - 1];
    return HAUL_OK;
}

/* Where the values after the mark begin on the stack, or the last `count` values, of a value of this kind. */
static haul_status find_values(const reader *r, haul__pickle_kind kind, size_t count, bool marked, size_t *first)
{
    *first = r->depth - count;
    if (marked ? find_mark(r, first) : r->depth < count ? malformed(r, "takes a value that is not there") : HAUL_OK)
        return haul_error_status();
    for (size_t i = *first; i < r->depth; i++)
        if (r->stack[i] == MARK)
            return malformed(r, "takes a value that is not there");
    HAUL__ASSERT(*first <= r->depth);
    return kind == HAUL__PICKLE_DICT && (r->depth - *first) % 2 ? malformed(r, "has a key without a value") : HAUL_OK;
}

static haul_status fill(reader *r, haul__pickle_kind kind, size_t count, bool marked)
{
    size_t   first;
    uint32_t owner = 0;
    if (find_values(r, kind, count, marked, &first))
        return haul_error_status();
    if (owner_at(r, first - marked, kind, &owner) || append_from(r, owner, first))
        return haul_error_status();
    HAUL__ASSERT(r->depth > marked); /* the owner, and the mark above it */
    r->depth -= marked;
    return HAUL_OK;
}

/* A tuple, list or dictionary of the values after the mark, or of the last `count` values. */
static haul_status collect(reader *r, haul__pickle_kind kind, size_t count, bool marked)
{
    const haul__pickle_value value = {.kind = kind, .first = NOTHING, .last = NOTHING};
    size_t                   first;
    uint32_t                 index = 0;
    if (find_values(r, kind, count, marked, &first))
        return haul_error_status();
    if (make(r, &value, &index) || append_from(r, index, first))
        return haul_error_status();
    HAUL__ASSERT(r->depth >= marked && (!marked || r->stack[r->depth - 1] == MARK));
    r->depth -= marked;
    return push(r, index);
}

static haul_status push_text(reader *r, size_t width)
{
    const uint8_t *bytes = NULL;
    uint32_t       size = 0;
    if (take_bytes(r, width, &bytes, &size))
        return haul_error_status();
    const bool fine = !memchr(bytes, 0, size) && haul__is_utf8(bytes, size);
    return push_new(r, (haul__pickle_value){.kind = fine ? HAUL__PICKLE_TEXT : HAUL__PICKLE_OTHER,
                                            .at = (uint32_t)(bytes - r->out->bytes),
                                            .size = size});
}

static haul_status push_bytes(reader *r, size_t width)
{
    const uint8_t *bytes = NULL;
    uint32_t       size = 0;
    return take_bytes(r, width, &bytes, &size) ? haul_error_status() : push_kind(r, HAUL__PICKLE_OTHER);
}

/* A whole number of any length; one of more than eight bytes cannot be a size. */
static haul_status push_long(reader *r, size_t width)
{
    const uint8_t *bytes = NULL;
    uint32_t       size = 0;
    uint64_t       number = 0;
    if (take_bytes(r, width, &bytes, &size))
        return haul_error_status();
    if (size > 8)
        return push_kind(r, HAUL__PICKLE_OTHER);
    for (uint32_t i = 0; i < size; i++)
        number |= (uint64_t)bytes[i] << 8 * i;
    if (size && size < 8 && bytes[size - 1] & 0x80)
        number |= UINT64_MAX << 8 * size;
    return push_number(r, (int64_t)number);
}

static haul_status push_integer(reader *r, size_t width)
{
    uint64_t number = 0;
    if (take_number(r, width, &number))
        return haul_error_status();
    return push_number(r, width == 4 ? (int64_t)(int32_t)(uint32_t)number : (int64_t)number);
}

static haul_status skip(reader *r, size_t bytes)
{
    uint64_t unused;
    return take_number(r, bytes, &unused);
}

/* "module\nname\n", as the operation c has it. */
static haul_status push_global(reader *r)
{
    HAUL__ASSERT(r->at <= r->end);
    const size_t   left = (size_t)(r->end - r->at);
    const uint8_t *line = memchr(r->at, '\n', left);
    const uint8_t *end = line ? memchr(line + 1, '\n', (size_t)(r->end - line - 1)) : NULL;
    char           name[256], quoted[HAUL__QUOTED_SIZE];
    if (!end)
        return malformed(r, "ends within a name");
    const size_t size = (size_t)(end - r->at);
    if (size >= sizeof name || memchr(r->at, 0, size) || !haul__is_utf8(r->at, size))
        return malformed(r, "has a global name that is too long, or not UTF-8");
    if (!r->is_known((const char *)r->at, size)) {
        memcpy(name, r->at, size);
        name[size] = 0;
        name[line - r->at] = '.';
        return haul__fail(HAUL_FORMAT, r->operation, "path",
                          "%s holds the Python object %s, which Haul does not read: it executes nothing. Save tensors "
                          "only: torch.save(net.state_dict(), FILE)",
                          r->path, haul__quoted(name, quoted));
    }
    const uint32_t at = (uint32_t)(r->at - r->out->bytes);
    r->at = end + 1;
    return push_new(r, (haul__pickle_value){.kind = HAUL__PICKLE_GLOBAL, .at = at, .size = (uint32_t)size});
}

/* Protocol 4 takes module and name from the stack; files of PyTorch have protocol 2 and the operation c. */
static haul_status refuse_operation(const reader *r, uint8_t code)
{
    return haul__fail(HAUL_FORMAT, r->operation, "path",
                      "%s has the pickle operation 0x%02x, which Haul does not read; save the tensors with "
                      "torch.save(net.state_dict(), FILE)",
                      r->path, code);
}

static haul_status call(reader *r)
{
    uint32_t arguments = 0, global = 0;
    if (pop(r, &arguments) || pop(r, &global))
        return haul_error_status();
    HAUL__ASSERT(arguments < r->out->value_count && global < r->out->value_count);
    if (r->out->values[global].kind != HAUL__PICKLE_GLOBAL || r->out->values[arguments].kind != HAUL__PICKLE_TUPLE)
        return malformed(r, "calls a value that is not a function");
    /* An ordered dictionary is empty here, and filled later. */
    if (haul__pickle_is(r->out, global, "collections\nOrderedDict") && !r->out->values[arguments].count)
        return push_kind(r, HAUL__PICKLE_DICT);
    const haul__pickle_value value = {.kind = HAUL__PICKLE_CALL, .first = NOTHING, .last = NOTHING};
    uint32_t                 index = 0;
    if (make(r, &value, &index) || append(r, index, global) || append(r, index, arguments))
        return haul_error_status();
    return push(r, index);
}

/* The state of a dictionary has the versions of modules, which loading does not need. */
static haul_status build(reader *r)
{
    uint32_t state = 0;
    if (pop(r, &state))
        return haul_error_status();
    if (!r->depth || r->stack[r->depth - 1] == MARK || r->out->values[r->stack[r->depth - 1]].kind != HAUL__PICKLE_DICT)
        return malformed(r, "gives a state to a value that is not a dictionary");
    return HAUL_OK;
}

static haul_status push_storage(reader *r)
{
    const haul__pickle_value value = {.kind = HAUL__PICKLE_STORAGE, .first = NOTHING, .last = NOTHING};
    uint32_t                 id = 0, index = 0;
    if (pop(r, &id) || make(r, &value, &index) || append(r, index, id))
        return haul_error_status();
    return push(r, index);
}

/* Python numbers what it remembers from 0 on, without gaps. */
static haul_status remember(reader *r, uint64_t number)
{
    if (!r->depth || r->stack[r->depth - 1] == MARK)
        return malformed(r, "remembers a value that is not there");
    if (number > r->size)
        return malformed(r, "remembers more values than it has");
    if (!haul__grow(&r->memo, &r->memo_capacity, (size_t)number + 1, sizeof *r->memo))
        return exhausted(r, ((size_t)number + 1) * sizeof *r->memo);
    while (r->memo_count <= number)
        r->memo[r->memo_count++] = NOTHING;
    HAUL__ASSERT(number < r->memo_count);
    r->memo[number] = r->stack[r->depth - 1];
    return HAUL_OK;
}

static haul_status put(reader *r, size_t width)
{
    uint64_t number = 0;
    return take_number(r, width, &number) ? haul_error_status() : remember(r, number);
}

static haul_status get(reader *r, size_t width)
{
    uint64_t number = 0;
    if (take_number(r, width, &number))
        return haul_error_status();
    if (number >= r->memo_count || r->memo[number] == NOTHING)
        return malformed(r, "asks for a value that it does not remember");
    return push(r, r->memo[number]);
}

static haul_status step(reader *r)
{
    HAUL__ASSERT(r->at < r->end);
    uint32_t      unused;
    const uint8_t code = *r->at++;
    switch (code) {
    case 0x80: return skip(r, 1); /* PROTO */
    case 0x95: return skip(r, 8); /* FRAME */
    case '(': return push(r, MARK);
    case '0': return pop(r, &unused);
    case 'N': return push_kind(r, HAUL__PICKLE_NONE);
    case 0x88: return push_number(r, 1);
    case 0x89: return push_number(r, 0);
    case 'J': return push_integer(r, 4);
    case 'K': return push_integer(r, 1);
    case 'M': return push_integer(r, 2);
    case 0x8a: return push_long(r, 1);
    case 0x8b: return push_long(r, 4);
    case 'G': return skip(r, 8) ? haul_error_status() : push_kind(r, HAUL__PICKLE_OTHER); /* BINFLOAT */
    case 'X': return push_text(r, 4);
    case 0x8c: return push_text(r, 1);
    case 0x8d: return push_text(r, 8);
    case 'U': return push_text(r, 1);
    case 'T': return push_text(r, 4);
    case 'B': return push_bytes(r, 4);
    case 'C': return push_bytes(r, 1);
    case 0x8e: return push_bytes(r, 8);
    case ')': return push_kind(r, HAUL__PICKLE_TUPLE);
    case ']': return push_kind(r, HAUL__PICKLE_LIST);
    case '}': return push_kind(r, HAUL__PICKLE_DICT);
    case 't': return collect(r, HAUL__PICKLE_TUPLE, 0, true);
    case 'l': return collect(r, HAUL__PICKLE_LIST, 0, true);
    case 'd': return collect(r, HAUL__PICKLE_DICT, 0, true);
    case 0x85: return collect(r, HAUL__PICKLE_TUPLE, 1, false);
    case 0x86: return collect(r, HAUL__PICKLE_TUPLE, 2, false);
    case 0x87: return collect(r, HAUL__PICKLE_TUPLE, 3, false);
    case 'a': return fill(r, HAUL__PICKLE_LIST, 1, false);
    case 'e': return fill(r, HAUL__PICKLE_LIST, 0, true);
    case 's': return fill(r, HAUL__PICKLE_DICT, 2, false);
    case 'u': return fill(r, HAUL__PICKLE_DICT, 0, true);
    case 'c': return push_global(r);
    case 'R': return call(r);
    case 'b': return build(r);
    case 'Q': return push_storage(r);
    case 'q': return put(r, 1);
    case 'r': return put(r, 4);
    case 0x94: return remember(r, r->memo_count);
    case 'h': return get(r, 1);
    case 'j': return get(r, 4);
    case '.': r->done = true; return HAUL_OK;
    default: return refuse_operation(r, code);
    }
}

haul_status haul__pickle_parse(haul__pickle *pickle, const uint8_t *bytes, size_t size,
                               bool (*is_known)(const char *name, size_t size), const char *path, const char *operation)
{
    reader r = {.out = pickle,
                .at = bytes,
                .end = bytes + size,
                .size = size,
                .is_known = is_known,
                .path = path,
                .operation = operation};
    *pickle = (haul__pickle){.bytes = bytes};
    haul_status status = size > HAUL__PICKLE_LIMIT ? malformed(&r, "has more than 256 MiB") : HAUL_OK;
    while (status == HAUL_OK && !r.done)
        status = r.at < r.end ? step(&r) : malformed(&r, "ends too early");
    if (status == HAUL_OK)
        status = pop(&r, &pickle->root);
    haul__free(r.stack);
    haul__free(r.memo);
    HAUL__ASSERT(status || pickle->root < pickle->value_count);
    if (status)
        haul__pickle_free(pickle);
    return status;
}

void haul__pickle_free(haul__pickle *pickle)
{
    haul__free(pickle->values);
    haul__free(pickle->links);
    *pickle = (haul__pickle){0};
}

bool haul__pickle_is(const haul__pickle *p, uint32_t value, const char *text)
{
    const haul__pickle_value *v = &p->values[value];
    return (v->kind == HAUL__PICKLE_TEXT || v->kind == HAUL__PICKLE_GLOBAL) && v->size == strlen(text) &&
           memcmp(p->bytes + v->at, text, v->size) == 0;
}

int64_t haul__pickle_number(const haul__pickle *p, uint32_t value)
{
    const haul__pickle_value *v = &p->values[value];
    return v->kind == HAUL__PICKLE_NUMBER ? (int64_t)((uint64_t)v->high << 32 | v->low) : -1;
}

uint32_t haul__pickle_item(const haul__pickle *p, uint32_t value, uint32_t index)
{
    HAUL__ASSERT(index < p->values[value].count);
    uint32_t link = p->values[value].first;
    for (; index; index--)
        link = p->links[link].next;
    return p->links[link].value;
}

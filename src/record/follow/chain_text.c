#include "record/follow/chain_text.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/shape.h"
#include "record/formula.h"

enum { MOST_ACCESSES = 24, MOST_PARTS = 64, LINE = 400 };

/* What a part reads from memory or writes there: elements of a buffer that are `strides` apart. */
typedef struct access {
    const haul_tensor *tensor;
    int                buffer;
    int64_t            strides[HAUL_MAX_DIMS]; /* along the dimensions of the kernel */
} access;

typedef struct writer {
    const haul__chain_call *parts;
    int                     count, total; /* those of the kernel, and those of the chain */
    haul__chain_kernel     *out;
    access                  accesses[MOST_ACCESSES];
    int                     access_count;
    int64_t                 dims[HAUL_MAX_DIMS];
    int                     ndim;
    int                     dims_at, places_at, strides_at, scalars_at; /* words of params */
    char                   *text;
    size_t                  used, room;
    bool                    failed; /* memory is exhausted */
} writer;

__attribute__((format(printf, 2, 3))) static void add(writer *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!w->failed && w->room - w->used < LINE * 4) {
        char *longer = haul__realloc(w->text, w->room * 2 + LINE * 8, 1);
        w->failed = !longer;
        w->text = longer ? longer : w->text;
        w->room = longer ? w->room * 2 + LINE * 8 : w->room;
    }
    if (!w->failed) {
        const int length = haul__vsnprintf(w->text + w->used, w->room - w->used, format, arguments);
        w->failed = length < 0 || (size_t)length >= w->room - w->used;
        w->used += w->failed ? 0 : (size_t)length;
    }
    va_end(arguments);
}

/* ---- reads and writes ---- */

/* The part before `part` that made the tensor, if the tensor is its result; -1: none did. */
static int made_by(const writer *w, int part, const haul_tensor *t)
{
    for (int i = part - 1; i >= 0; i--)
        if (w->parts[i].launch.tensors[0]->storage == t->storage)
            return i;
    return -1;
}

static int buffer_of(const writer *w, const haul_tensor *t)
{
    for (int i = 0; i < w->out->buffer_count; i++)
        if (w->out->buffers[i]->storage == t->storage)
            return i;
    return -1;
}

static int find_access(const writer *w, const haul_tensor *t)
{
    for (int i = 0; i < w->access_count; i++) {
        const haul_tensor *other = w->accesses[i].tensor;
        if (other->storage == t->storage && other->offset == t->offset && haul__shape_equal(&other->shape, &t->shape) &&
            haul__shape_same_strides(&t->shape, other->strides, t->strides))
            return i;
    }
    return -1;
}

/* False if the kernel has too many buffers or accesses, or uses the tensor's memory with another dtype. */
static bool add_access(writer *w, haul_tensor *t)
{
    int buffer = buffer_of(w, t);
    if (find_access(w, t) >= 0)
        return true;
    if ((buffer < 0 && w->out->buffer_count == HAUL__CHAIN_BUFFERS) || w->access_count == MOST_ACCESSES ||
        (buffer >= 0 && w->out->buffers[buffer]->dtype != t->dtype))
        return false;
    if (buffer < 0) {
        buffer = w->out->buffer_count++;
        w->out->buffers[buffer] = t;
    }
    HAUL__ASSERT(w->access_count < MOST_ACCESSES && w->out->buffer_count <= HAUL__CHAIN_BUFFERS);
    w->accesses[w->access_count++] = (access){.tensor = t, .buffer = buffer};
    return true;
}

/* True if the result goes to memory: it leaves the chain, or a part behind those of the kernel reads it. */
static bool stores(const writer *w, int part)
{
    bool any = w->parts[part].leaves;
    for (int i = w->count; i < w->total && !any; i++)
        for (int k = 0; k < w->parts[i].launch.count && !any; k++)
            any = w->parts[i].launch.tensors[k]->storage == w->parts[part].launch.tensors[0]->storage;
    return any;
}

/* Results come first, so that written buffers do. */
static bool add_accesses(writer *w)
{
    bool fits = true;
    for (int i = 0; i < w->count && fits; i++)
        if (stores(w, i))
            fits = add_access(w, w->parts[i].launch.tensors[0]);
    w->out->write_count = w->out->buffer_count;
    for (int i = 0; i < w->count && fits; i++)
        for (int k = 1; k < w->parts[i].launch.count && fits; k++)
            if (made_by(w, i, w->parts[i].launch.tensors[k]) < 0)
                fits = add_access(w, w->parts[i].launch.tensors[k]);
    HAUL__ASSERT(w->out->write_count <= w->out->buffer_count && w->out->buffer_count <= w->access_count);
    return fits;
}

/* ---- dimensions ---- */

static int64_t broadcast_stride(const haul_tensor *t, const haul_shape *shape, int d)
{
    const int own = d - (shape->ndim - t->shape.ndim);
    return own < 0 || t->shape.dims[own] == 1 ? 0 : t->strides[own];
}

/* Dimensions larger than 1 in the order of the results in memory, outermost first. */
static int sort_dims(const haul_tensor *result, int *order)
{
    int count = 0;
    for (int d = 0; d < result->shape.ndim; d++) {
        if (result->shape.dims[d] == 1)
            continue;
        int at = count++;
        for (; at > 0 && result->strides[order[at - 1]] < result->strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    return count;
}

static bool merges(const writer *w, const haul_shape *shape, int d)
{
    bool all = w->ndim > 0;
    for (int k = 0; k < w->access_count && all; k++)
        all = w->accesses[k].strides[w->ndim - 1] == broadcast_stride(w->accesses[k].tensor, shape, d) * shape->dims[d];
    return all;
}

static void find_dims(writer *w)
{
    const haul_tensor *result = w->parts[0].launch.tensors[0];
    int                order[HAUL_MAX_DIMS];
    const int          count = sort_dims(result, order);
    for (int i = 0; i < count; i++) {
        const int     d = order[i];
        const bool    merged = merges(w, &result->shape, d);
        const int     at = merged ? w->ndim - 1 : w->ndim++;
        const int64_t size = result->shape.dims[d];
        w->dims[at] = merged ? w->dims[at] * size : size;
        for (int k = 0; k < w->access_count; k++)
            w->accesses[k].strides[at] = broadcast_stride(w->accesses[k].tensor, &result->shape, d);
    }
    if (w->ndim == 0) { /* one element */
        w->dims[w->ndim++] = 1;
        for (int k = 0; k < w->access_count; k++)
            w->accesses[k].strides[0] = 1;
    }
    HAUL__ASSERT(0 < w->ndim && w->ndim <= HAUL_MAX_DIMS);
}

/* False if there are too many. */
static bool fill_params(writer *w)
{
    haul__chain_kernel *out = w->out;
    int64_t             items = 1;
    w->dims_at = 1;
    w->places_at = w->dims_at + w->ndim;
    w->strides_at = w->places_at + w->access_count;
    w->scalars_at = w->strides_at + w->access_count * w->ndim;
    HAUL__ASSERT(w->access_count > 0 && w->ndim > 0);
    out->word_count = w->scalars_at + 2 * w->count;
    if (out->word_count > HAUL__CHAIN_WORDS)
        return false;
    for (int d = 0; d < w->ndim; d++) {
        items *= w->dims[d]; /* checked when the results were made */
        out->params[w->dims_at + d] = w->dims[d];
    }
    out->params[0] = items;
    HAUL__ASSERT(items == w->parts[0].launch.tensors[0]->count);
    for (int k = 0; k < w->access_count; k++) {
        out->params[w->places_at + k] = w->accesses[k].tensor->offset;
        for (int d = 0; d < w->ndim; d++)
            out->params[w->strides_at + k * w->ndim + d] = w->accesses[k].strides[d];
    }
    for (int i = 0; i < w->count; i++)
        memcpy(out->params + w->scalars_at + 2 * i, w->parts[i].launch.params.scalars,
               sizeof w->parts[i].launch.params.scalars);
    return true;
}

/* ---- text ---- */

static const char *const types[HAUL_DTYPE_END] = {
    [HAUL_BOOL] = "U8", [HAUL_U8] = "U8",   [HAUL_I8] = "I8",    [HAUL_I16] = "I16", [HAUL_I32] = "I32",
    [HAUL_I64] = "I64", [HAUL_F16] = "U16", [HAUL_BF16] = "U16", [HAUL_F32] = "F32", [HAUL_F64] = "F64",
};

/* How an element as it is stored becomes a value of type A, and how a value is stored. */
static const char *read_as(haul_dtype dtype)
{
    return dtype == HAUL_F16 ? "F16_TO_F32" : dtype == HAUL_BF16 ? "BF16_TO_F32" : "(A)";
}

static const char *stored_by(haul_dtype dtype)
{
    return dtype == HAUL_F16 ? "F32_TO_F16" : dtype == HAUL_BF16 ? "F32_TO_BF16" : "";
}

static void add_head(writer *w)
{
    const haul__chain_kernel *out = w->out;
    add(w, "typedef struct chain_params { I64 items, dims[%d], at[%d], steps[%d]; U64 scalars[%d]; } chain_params;\n",
        w->ndim, w->access_count, w->access_count * w->ndim, 2 * w->count);
    add(w, "KERNEL%d(chain, chain_params", out->buffer_count);
    for (int i = 0; i < out->buffer_count; i++)
        add(w, ", %s%s, m%d", i < out->write_count ? "" : "const ", types[out->buffers[i]->dtype], i);
    add(w, ")\n{\n");
}

/* Where the elements of the innermost row begin from item i on, and how many are left of it. */
static void add_places(writer *w)
{
    const int last = w->ndim - 1;
    HAUL__ASSERT(last >= 0);
    add(w, "    I64 rest = i, row = ITEMS_END - i;\n");
    for (int k = 0; k < w->access_count; k++)
        add(w, "    I64 at%d = p.at[%d];\n", k, k);
    for (int d = last; d >= 0; d--) {
        if (d > 0)
            add(w, "    const I64 next%d = QUOTIENT(rest, p.dims[%d]), c%d = rest - next%d * p.dims[%d];\n", d, d, d, d,
                d);
        else
            add(w, "    const I64 c0 = rest;\n");
        if (d > 0 && d == last)
            add(w, "    row = least(row, p.dims[%d] - c%d);\n", d, d);
        for (int k = 0; k < w->access_count; k++)
            if (w->accesses[k].strides[d] != 0)
                add(w, "    at%d += c%d * p.steps[%d];\n", k, d, k * w->ndim + d);
        if (d > 0)
            add(w, "    rest = next%d;\n", d);
    }
}

/* The element of an access, "m2[at3 + j]". */
static void add_element(writer *w, int k)
{
    const int     last = w->ndim - 1;
    const int64_t step = w->accesses[k].strides[last];
    add(w, "m%d[at%d", w->accesses[k].buffer, k);
    if (step == 1)
        add(w, " + j]");
    else if (step)
        add(w, " + j * p.steps[%d]]", k * w->ndim + last);
    else
        add(w, "]");
}

/* The element of an operand as it is stored: of memory, or the result of an earlier part. */
static void add_operand(writer *w, int part, int operand)
{
    const haul_tensor *t = w->parts[part].launch.tensors[operand];
    const int          by = made_by(w, part, t);
    HAUL__ASSERT(by < part && (by >= 0 || find_access(w, t) >= 0));
    if (by >= 0)
        add(w, "v%d", by);
    else
        add_element(w, find_access(w, t));
}

static void add_value(writer *w, int part, int operand, const char *name)
{
    add(w, "        const A %s = %s(", name, read_as(w->parts[part].launch.tensors[operand]->dtype));
    add_operand(w, part, operand);
    add(w, ");\n");
}

/* The result of a formula as it is stored. */
static void add_formula(writer *w, int part, const haul__formula *f)
{
    const haul_dtype to = w->parts[part].launch.tensors[0]->dtype;
    const bool       three = f->form == HAUL__FORMULA_CAB;
    add_value(w, part, 1, f->form == HAUL__FORMULA_X ? "x" : three ? "c" : "a");
    if (three)
        add_value(w, part, 2, "a");
    add(w, "        const A s0 = SCALAR(p.scalars[%d]), s1 = SCALAR(p.scalars[%d]);\n", 2 * part, 2 * part + 1);
    if (f->form == HAUL__FORMULA_AB || three)
        add_value(w, part, three ? 3 : 2, "b");
    else
        add(w, "        const A b = s0;\n");
    add(w, "        (void)s0, (void)s1, (void)b;\n");
    if (f->to_bool)
        add(w, "        v%d = (U8)((%s) ? 1 : 0);\n", part, f->text);
    else if (to == HAUL_BOOL)
        add(w, "        v%d = (U8)((%s) != 0);\n", part, f->text);
    else if (*stored_by(to))
        add(w, "        v%d = %s((F32)(%s));\n", part, stored_by(to), f->text);
    else
        add(w, "        v%d = (%s)(%s);\n", part, types[to], f->text);
}

static void add_cast(writer *w, int part)
{
    const haul__collected *l = &w->parts[part].launch;
    const haul_dtype       to = l->tensors[0]->dtype, from = l->tensors[1]->dtype;
    const bool             is_truth = to == HAUL_BOOL || from == HAUL_BOOL;
    const char            *before = to == HAUL_BOOL ? "(U8)" : *stored_by(to) ? stored_by(to) : "(A)";
    add(w, "        v%d = %s(%s%s(", part, before, is_truth ? "0 != " : "", from == HAUL_BOOL ? "" : read_as(from));
    add_operand(w, part, 1);
    add(w, "));\n");
}

/* An element of a mask that is 0 or 1 chooses. */
static void add_choice(writer *w, int part, const haul__formula *f)
{
    static const char *const fills[HAUL_DTYPE_END] = {
        [HAUL_BOOL] = "(U8)",    [HAUL_U8] = "(U8)",      [HAUL_I8] = "(I8)",   [HAUL_I16] = "(I16)",
        [HAUL_I32] = "(I32)",    [HAUL_I64] = "(I64)",    [HAUL_F16] = "(U16)", [HAUL_BF16] = "(U16)",
        [HAUL_F64] = "BITS_F64", [HAUL_F32] = "BITS_F32",
    };
    const bool fill = f->form == HAUL__FORMULA_FILLS;
    add(w, "        v%d = ", part);
    add_operand(w, part, fill ? 2 : 1);
    if (fill)
        add(w, " == (U8)p.scalars[%d] ? %s(p.scalars[%d]) : ", 2 * part + 1,
            fills[w->parts[part].launch.tensors[0]->dtype], 2 * part);
    else
        add(w, " ? ");
    add_operand(w, part, fill ? 1 : 2);
    if (!fill) {
        add(w, " : ");
        add_operand(w, part, 3);
    }
    add(w, ";\n");
}

static void add_part(writer *w, int part)
{
    const haul__collected *l = &w->parts[part].launch;
    const haul__formula   *f = haul__formula_of(l->kernel);
    HAUL__ASSERT(types[l->tensors[0]->dtype] && f->form != HAUL__FORMULA_NONE);
    add(w, "        %s v%d;\n        {\n", types[l->tensors[0]->dtype], part);
    if (f->form == HAUL__FORMULA_CASTS)
        add_cast(w, part);
    else if (f->text)
        add_formula(w, part, f);
    else
        add_choice(w, part, f);
    add(w, "        }\n");
    if (stores(w, part)) {
        add(w, "        ");
        add_element(w, find_access(w, l->tensors[0]));
        add(w, " = v%d;\n", part);
    }
}

static void add_body(writer *w)
{
    add(w, "    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {\n");
    add_places(w);
    add(w, "#if CHUNKED\n    VECTOR_LOOP for (I64 j = 0; j < row; j++)\n#else\n    const I64 j = 0;\n#endif\n    {\n");
    for (int i = 0; i < w->count; i++)
        add_part(w, i);
    add(w, "    }\n    i += ITEMS_STEP(row);\n    }\n}\n");
}

/* ---- how many parts ---- */

/* Rows compute in the dtype of their first operand; those that only move elements may be in a unit of any dtype. */
static haul_dtype dtype_of(const writer *w)
{
    for (int i = 0; i < w->count; i++) {
        const haul__collected *l = &w->parts[i].launch;
        const haul_dtype       dtype = l->tensors[1]->dtype;
        if (haul__formula_of(l->kernel)->text)
            return dtype == HAUL_F16 || dtype == HAUL_BF16 ? HAUL_F32 : dtype;
    }
    return HAUL_F32;
}

static bool fits(writer *w, const haul__chain_call *parts, int count, int total, haul__chain_kernel *out)
{
    HAUL__ASSERT(0 < count && count <= total);
    *out = (haul__chain_kernel){.buffer_count = 0};
    *w = (writer){.parts = parts, .count = count, .total = total, .out = out};
    if (count > MOST_PARTS || !add_accesses(w))
        return false;
    find_dims(w);
    return fill_params(w);
}

haul_status haul__chain_text(const haul__chain_call *parts, int count, int most, haul__chain_kernel *out, int *taken)
{
    writer w;
    for (*taken = most; *taken > 0 && !fits(&w, parts, *taken, count, out);)
        --*taken;
    if (!*taken)
        return HAUL_OK;
    out->dtype = dtype_of(&w);
    add_head(&w);
    add_body(&w);
    if (w.failed)
        haul__free(w.text);
    out->text = w.failed ? NULL : w.text;
    HAUL__ASSERT(*taken <= most && out->write_count <= out->buffer_count);
    return w.failed ? haul__fail_memory("haul_recording_run", w.room) : HAUL_OK;
}

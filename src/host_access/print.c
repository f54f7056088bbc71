/* Tensors as text: values in nested brackets as in NumPy and PyTorch, then dtype, shape and device.
 *
 * For a large tensor only the first and last three elements of each long dimension are shown, and only those are copied
 * from its device: corner by corner, as views. */
#include <haul/tensor.h>
#include <haul/transfer.h>

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/half.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "core/shape.h"
#include "device/device.h"

enum {
    SUMMARISE_OVER = 1000, /* elements */
    EDGE = 3,              /* elements shown at each end of a shortened dimension */
    COLUMNS = 80,
    NUMBER = 32 /* room for the text of one element */
};

/* ---- a growing string ---- */

typedef struct text {
    char  *chars;
    size_t length, capacity;
    bool   failed; /* out of memory; later additions are dropped */
} text;

static void add(text *out, const char *format, ...) HAUL_PRINTF(2, 3);

static void add(text *out, const char *format, ...)
{
    char    piece[256];
    va_list arguments;
    va_start(arguments, format);
    int length = haul__vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof piece ||
        !haul__grow(&out->chars, &out->capacity, out->length + (size_t)length + 1, 1))
        out->failed = true;
    if (out->failed)
        return;
    memcpy(out->chars + out->length, piece, (size_t)length + 1);
    out->length += (size_t)length;
    HAUL__ASSERT(out->length < out->capacity);
}

/* ---- elements ---- */

#define READ_INTEGER(name, type)                                                                                       \
    static int64_t read_##name(const void *data, int64_t i)                                                            \
    {                                                                                                                  \
        return ((const type *)data)[i];                                                                                \
    }
#define READ_REAL(name, type)                                                                                          \
    static double read_##name(const void *data, int64_t i)                                                             \
    {                                                                                                                  \
        return (double)((const type *)data)[i];                                                                        \
    }

READ_INTEGER(u8, uint8_t)
READ_INTEGER(i8, int8_t)
READ_INTEGER(i16, int16_t)
READ_INTEGER(i32, int32_t)
READ_INTEGER(i64, int64_t)
READ_INTEGER(u16, uint16_t)
READ_INTEGER(u32, uint32_t)
READ_REAL(f32, float)
READ_REAL(f64, double)

static double read_f16(const void *data, int64_t i)
{
    return haul__half_decode(HAUL_F16, ((const uint16_t *)data)[i]);
}

static double read_bf16(const void *data, int64_t i)
{
    return haul__half_decode(HAUL_BF16, ((const uint16_t *)data)[i]);
}

/* Every dtype that tensors can have is read by one of the two functions. */
static const struct {
    int64_t (*integer)(const void *data, int64_t i);
    double (*real)(const void *data, int64_t i);
} readers[HAUL_DTYPE_END] = {
    [HAUL_BOOL] = {.integer = read_u8}, [HAUL_U8] = {.integer = read_u8},   [HAUL_I8] = {.integer = read_i8},
    [HAUL_I16] = {.integer = read_i16}, [HAUL_I32] = {.integer = read_i32}, [HAUL_I64] = {.integer = read_i64},
    [HAUL_F16] = {.real = read_f16},    [HAUL_BF16] = {.real = read_bf16},  [HAUL_F32] = {.real = read_f32},
    [HAUL_F64] = {.real = read_f64},    [HAUL_U16] = {.integer = read_u16}, [HAUL_U32] = {.integer = read_u32},
    [HAUL_U64] = {.integer = read_i64}, /* its bits */
};

typedef enum notation { WHOLE, FIXED, SCIENTIFIC } notation;

/* The shown elements, dense and row-major, and their format. */
typedef struct picture {
    const char        *operation;
    const haul_tensor *tensor;
    haul_shape         shape; /* of the shown elements */
    bool               cut[HAUL_MAX_DIMS];
    void              *data;
    int64_t            count;
    notation           notation; /* for floats */
    int                width;
} picture;

/* Fixed point for numbers of similar size, as in PyTorch; whole numbers get a trailing point. */
static notation choose_notation(const picture *p)
{
    double smallest = INFINITY, largest = 0;
    bool   whole = true;
    for (int64_t i = 0; i < p->count; i++) {
        double x = fabs(readers[p->tensor->dtype].real(p->data, i));
        if (!isfinite(x) || x == 0)
            continue;
        smallest = fmin(smallest, x);
        largest = fmax(largest, x);
        whole = whole && x == floor(x);
    }
    if (largest > 1e8 || largest / smallest > 1000 || (!whole && smallest < 1e-4))
        return whole && largest < 1e5 ? WHOLE : SCIENTIFIC;
    return whole ? WHOLE : FIXED;
}

static void format_real(double x, notation how, char *out)
{
    static const char *const formats[] = {[WHOLE] = "%.0f.", [FIXED] = "%.4f", [SCIENTIFIC] = "%.4e"};
    if (!isfinite(x))
        snprintf(out, NUMBER, "%s", isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
    else
        haul__snprintf(out, NUMBER, formats[how], x);
}

static void format_element(const picture *p, int64_t i, char *out)
{
    HAUL__ASSERT(0 <= i && i < p->count);
    haul_dtype dtype = p->tensor->dtype;
    if (readers[dtype].real)
        format_real(readers[dtype].real(p->data, i), p->notation, out);
    else if (dtype == HAUL_BOOL)
        snprintf(out, NUMBER, "%s", readers[dtype].integer(p->data, i) ? "true" : "false");
    else if (dtype == HAUL_U64)
        snprintf(out, NUMBER, "%" PRIu64, (uint64_t)readers[dtype].integer(p->data, i));
    else
        snprintf(out, NUMBER, "%" PRId64, readers[dtype].integer(p->data, i));
}

static void choose_width(picture *p)
{
    char number[NUMBER];
    if (readers[p->tensor->dtype].real)
        p->notation = choose_notation(p);
    for (int64_t i = 0; i < p->count; i++) {
        format_element(p, i, number);
        int width = (int)strlen(number);
        p->width = width > p->width ? width : p->width;
    }
    HAUL__ASSERT(0 < p->width && p->width < NUMBER);
}

/* ---- copying from the device ---- */

static void choose_shape(picture *p)
{
    const haul_tensor *t = p->tensor;
    p->shape = t->shape;
    p->count = 1;
    for (int i = 0; i < t->shape.ndim; i++) {
        p->cut[i] = t->count > SUMMARISE_OVER && t->shape.dims[i] > 2 * EDGE;
        if (p->cut[i])
            p->shape.dims[i] = 2 * EDGE;
        p->count *= p->shape.dims[i]; /* at most the tensor's count */
    }
    HAUL__ASSERT(p->count <= t->count);
}

/* Copies a dense block into the picture, row by row; its first element goes to `first`, an index for each dimension. */
static void place_block(picture *p, const char *block, const haul_shape *shape, const int64_t *first)
{
    size_t  size = haul__dtype_size(p->tensor->dtype);
    int     last = shape->ndim - 1;
    int64_t strides[HAUL_MAX_DIMS], index[HAUL_MAX_DIMS] = {0};
    haul__shape_strides(&p->shape, strides);
    for (;;) {
        int64_t at = 0;
        for (int i = 0; i <= last; i++)
            at += (first[i] + index[i]) * strides[i];
        HAUL__ASSERT(0 <= at && at + shape->dims[last] <= p->count);
        memcpy((char *)p->data + (size_t)at * size, block, (size_t)shape->dims[last] * size);
        block += (size_t)shape->dims[last] * size;
        int i = last - 1;
        while (i >= 0 && ++index[i] == shape->dims[i])
            index[i--] = 0;
        if (i < 0)
            return;
    }
}

/* Copies one corner: bit i of `corner` selects the far end of dimension i. */
static haul_status fetch_corner(picture *p, unsigned corner, void *block, size_t room)
{
    const haul_tensor *t = p->tensor;
    haul_shape         shape = p->shape;
    int64_t            first[HAUL_MAX_DIMS] = {0}, offset = t->offset;
    for (int i = 0; i < shape.ndim; i++) {
        if (!p->cut[i])
            continue;
        shape.dims[i] = EDGE;
        if (corner >> i & 1) {
            first[i] = EDGE;
            offset += (t->shape.dims[i] - EDGE) * t->strides[i];
        }
    }
    haul_tensor *view = haul__tensor_wrap(t->storage, t->dtype, &shape, t->strides, offset);
    if (!view)
        return haul_error_status();
    haul_status status = haul_read(view, block, room);
    if (status == HAUL_OK)
        place_block(p, block, &shape, first);
    haul__object_release(view);
    return status;
}

static haul_status fetch(picture *p)
{
    size_t   bytes = (size_t)p->count * haul__dtype_size(p->tensor->dtype);
    unsigned cuts = 0;
    for (int i = 0; i < p->shape.ndim; i++)
        cuts |= (unsigned)p->cut[i] << i;
    p->data = haul__malloc(bytes);
    if (!p->data)
        return haul__fail_memory(p->operation, bytes);
    if (!cuts)
        return haul_read(p->tensor, p->data, bytes);
    void *block = haul__malloc(bytes);
    if (!block)
        return haul__fail_memory(p->operation, bytes);
    haul_status status = HAUL_OK;
    for (unsigned corner = 0; corner <= cuts && status == HAUL_OK; corner++)
        if ((corner & ~cuts) == 0)
            status = fetch_corner(p, corner, block, bytes);
    haul__free(block);
    return status;
}

/* ---- writing ---- */

/* The last dimension, with line breaks at the line's width. */
static void add_row(const picture *p, int64_t first, text *out)
{
    int     last = p->shape.ndim - 1;
    int64_t dim = p->shape.dims[last];
    int     indent = p->shape.ndim, column = indent;
    char    number[NUMBER];
    HAUL__ASSERT(0 <= first && first + dim <= p->count);
    add(out, "[");
    for (int64_t i = 0; i < dim; i++) {
        const char *dots = p->cut[last] && i == EDGE ? "..., " : "";
        int         width = (int)strlen(dots) + p->width + 2; /* with ", " */
        bool        full = column + width > COLUMNS;
        if (i > 0)
            add(out, ",%s%*s", full ? "\n" : "", full ? indent : 1, "");
        column = (i > 0 && full ? indent : column) + width;
        format_element(p, first + i, number);
        add(out, "%s%*s", dots, p->width, number);
    }
    add(out, "]");
}

static void add_values(const picture *p, int dim, int64_t first, text *out)
{
    HAUL__ASSERT(dim < p->shape.ndim && p->count > 0);
    if (dim == p->shape.ndim - 1) {
        add_row(p, first, out);
        return;
    }
    int64_t stride = 1;
    for (int i = dim + 1; i < p->shape.ndim; i++)
        stride *= p->shape.dims[i];
    add(out, "[");
    for (int64_t i = 0; i < p->shape.dims[dim]; i++) {
        if (i > 0) /* an empty line separates blocks of more than two dimensions */
            add(out, ",%s%*s", p->shape.ndim - dim > 2 ? "\n\n" : "\n", dim + 1, "");
        if (p->cut[dim] && i == EDGE)
            add(out, "...,%s%*s", p->shape.ndim - dim > 2 ? "\n\n" : "\n", dim + 1, "");
        add_values(p, dim + 1, first + i * stride, out);
    }
    add(out, "]");
}

static haul_status add_picture(picture *p, text *out)
{
    char number[NUMBER];
    if (fetch(p))
        return haul_error_status();
    choose_width(p);
    if (p->shape.ndim > 0) {
        add_values(p, 0, 0, out);
    } else {
        format_element(p, 0, number);
        add(out, "%s", number);
    }
    return HAUL_OK;
}

static haul_status render(const haul_tensor *t, const char *operation, text *out)
{
    char        description[240];
    picture     p = {.operation = operation, .tensor = t};
    haul_status status = HAUL_OK;
    if (haul__check_optional(operation, "t", t))
        return haul_error_status();
    if (haul__is_none(t)) {
        add(out, "HAUL_NONE");
    } else {
        choose_shape(&p);
        if (!haul__device_computes(t->storage->device))
            add(out, "(no data)");
        else if (t->count == 0)
            add(out, "[]");
        else
            status = add_picture(&p, out);
        add(out, " %s", haul__tensor_text(t, description, sizeof description));
    }
    haul__free(p.data);
    if (status == HAUL_OK && out->failed)
        status = haul__fail_memory(operation, out->length);
    return status;
}

int haul_tensor_format(const haul_tensor *t, char *buffer, size_t size)
{
    text out = {0};
    if (!buffer && size > 0) {
        haul__fail_null("haul_tensor_format", "buffer");
        return -1;
    }
    haul_status status = render(t, "haul_tensor_format", &out);
    if (size > 0)
        snprintf(buffer, size, "%s", status == HAUL_OK ? out.chars : "");
    haul__free(out.chars);
    return status == HAUL_OK ? (int)out.length : -1;
}

haul_status haul_print(const haul_tensor *t)
{
    text        out = {0};
    haul_status status = render(t, "haul_print", &out);
    if (status == HAUL_OK && (fputs(out.chars, stdout) < 0 || putchar('\n') == EOF))
        status = haul__fail(HAUL_IO, "haul_print", NULL, "standard output cannot be written");
    haul__free(out.chars);
    return status;
}

/* Properties of element types, all derived from HAUL_DTYPE_LIST. */
#include <haul/dtype.h>

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/half.h"
#include "core/error.h"
#include "core/tensor.h"

typedef struct dtype_info {
    const char *name;
    int         bits;
    char        kind; /* 'b', 'u', 'i', 'f' */
} dtype_info;

static const dtype_info infos[HAUL_DTYPE_END] = {[HAUL_DTYPE_NONE] = {"none", 0, 0},
#define X(NAME, text, bits, kind) [HAUL_##NAME] = {#text, bits, kind},
                                                 HAUL_DTYPE_LIST(X)
#undef X
};

static const dtype_info *info(haul_dtype dtype)
{
    static const dtype_info invalid = {"invalid", 0, 0};
    return (unsigned)dtype < HAUL_DTYPE_END ? &infos[dtype] : &invalid;
}

const char *haul_dtype_name(haul_dtype dtype)
{
    return info(dtype)->name;
}

int haul_dtype_bits(haul_dtype dtype)
{
    return info(dtype)->bits;
}

bool haul_dtype_is_float(haul_dtype dtype)
{
    return info(dtype)->kind == 'f';
}

bool haul_dtype_is_integer(haul_dtype dtype)
{
    char kind = info(dtype)->kind;
    return kind == 'u' || kind == 'i';
}

const unsigned char haul__dtype_bytes[HAUL_DTYPE_END] = {
#define X(NAME, text, bits, kind) [HAUL_##NAME] = (bits) / 8,
    HAUL_DTYPE_LIST(X)
#undef X
};

haul_dtype haul_dtype_parse(const char *name)
{
    /* Names in NumPy, PyTorch and TensorFlow. */
    static const struct {
        const char *name;
        haul_dtype  dtype;
    } others[] = {
        {"uint8", HAUL_U8},    {"int8", HAUL_I8},     {"int16", HAUL_I16},     {"int32", HAUL_I32},
        {"int64", HAUL_I64},   {"uint16", HAUL_U16},  {"uint32", HAUL_U32},    {"uint64", HAUL_U64},
        {"float16", HAUL_F16}, {"half", HAUL_F16},    {"bfloat16", HAUL_BF16}, {"float32", HAUL_F32},
        {"float", HAUL_F32},   {"float64", HAUL_F64}, {"double", HAUL_F64},
    };
    if (!name)
        return HAUL_DTYPE_NONE;
    for (int dtype = HAUL_DTYPE_NONE + 1; dtype < HAUL_DTYPE_END; dtype++)
        if (strcmp(infos[dtype].name, name) == 0)
            return (haul_dtype)dtype;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].name, name) == 0)
            return others[i].dtype;
    return HAUL_DTYPE_NONE;
}

/* bool < integers < floats: the higher category wins whatever the sizes. */
static int category(haul_dtype dtype)
{
    if (haul_dtype_is_float(dtype))
        return 2;
    return haul_dtype_is_integer(dtype);
}

haul_dtype haul_dtype_promote(haul_dtype a, haul_dtype b)
{
    if (!haul_dtype_bits(a) || !haul_dtype_bits(b))
        return HAUL_DTYPE_NONE;
    if (category(a) != category(b))
        return category(a) > category(b) ? a : b;
    /* An unsigned integer needs a signed one of more bits. */
    if (category(a) == 1 && infos[a].kind != infos[b].kind) {
        static const haul_dtype holds[] = {[8] = HAUL_I16, [16] = HAUL_I32, [32] = HAUL_I64, [64] = HAUL_DTYPE_NONE};
        const haul_dtype        given = infos[a].kind == 'i' ? a : b,
                         most = holds[infos[a].kind == 'u' ? infos[a].bits : infos[b].bits];
        return most && infos[given].bits > infos[most].bits ? given : most;
    }
    HAUL__ASSERT(infos[a].kind == infos[b].kind);
    if (infos[a].bits != infos[b].bits)
        return infos[a].bits > infos[b].bits ? a : b;
    return a == b ? a : HAUL_F32; /* f16 with bf16 */
}

void haul__dtype_range(haul_dtype dtype, int64_t *least, int64_t *most)
{
    int bits = haul_dtype_bits(dtype);
    if (haul_dtype_is_float(dtype)) {
        int digits = bits == 64 ? 53 : bits == 32 ? 24 : dtype == HAUL_F16 ? 11 : 8;
        *most = INT64_C(1) << digits;
        *least = -*most;
    } else if (haul_dtype_is_integer(dtype) && infos[dtype].kind == 'i') {
        *most = INT64_MAX >> (64 - bits);
        *least = -*most - 1;
    } else {
        *least = 0;
        *most = dtype == HAUL_BOOL ? 1 : dtype == HAUL_U64 ? INT64_MAX : (INT64_C(1) << bits) - 1;
    }
    HAUL__ASSERT(*least <= 0 && 0 <= *most);
}

haul_dtype haul__sum_dtype(haul_dtype dtype)
{
    return haul__is_half(dtype) ? HAUL_F32 : dtype;
}

bool haul__dtype_holds(haul_dtype dtype, double value)
{
    int64_t least, most;
    if (!haul_dtype_is_integer(dtype))
        return true;
    haul__dtype_range(dtype, &least, &most);
    const double end = dtype == HAUL_U64 ? 0x1p64 : (double)most + (most < INT64_MAX);
    return value >= (double)least && value < end && floor(value) == value;
}

haul_status haul__refuse_number(const char *operation, const char *argument, haul_dtype dtype, double value,
                                const char *fix)
{
    int64_t least, most;
    haul__dtype_range(dtype, &least, &most);
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument,
                      "%.15g is not a value of %s (whole numbers, %lld to %llu); %s", value, haul_dtype_name(dtype),
                      (long long)least, dtype == HAUL_U64 ? ULLONG_MAX : (unsigned long long)most, fix);
}

uint64_t haul__scalar_bits(haul_dtype dtype, double value)
{
    uint64_t bits = 0;
    if (haul__sum_dtype(dtype) == HAUL_F32) {
        float f = (float)value;
        memcpy(&bits, &f, sizeof f);
    } else if (dtype == HAUL_F64) {
        memcpy(&bits, &value, sizeof value);
    } else if (dtype == HAUL_U64 && value >= 0x1p63) {
        bits = value >= 0x1p64 ? UINT64_MAX : (uint64_t)value;
    } else {
        /* converting an out-of-range value is undefined in C: clamp first; NaN becomes 0 */
        int64_t i = !(value > -9.2233720368547758e18) ? (value == value ? INT64_MIN : 0)
                    : value >= 9.2233720368547758e18  ? INT64_MAX
                                                      : (int64_t)value;
        /* u16 and u32 use kernels of i16 and i32, whose numbers have a sign */
        i = dtype == HAUL_U16 ? (int16_t)(uint16_t)i : dtype == HAUL_U32 ? (int32_t)(uint32_t)i : i;
        memcpy(&bits, &i, sizeof i);
    }
    return bits;
}

uint64_t haul__element_bits(haul_dtype dtype, double value)
{
    if (haul__is_half(dtype))
        return haul__half_encode(dtype, value);
    return dtype == HAUL_BOOL ? value != 0 : haul__scalar_bits(dtype, value);
}

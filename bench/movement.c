/* Copies: as they are, into another dtype, transposed, permuted, sliced and joined. */
#include "support/operation.h"

static haul_tensor *out;

static haul_tensor *copy(haul_tensor *x)
{
    return haul_clone(x);
}

static haul_tensor *copy_into(haul_tensor *x)
{
    haul_copy_into(out, x);
    return out;
}

static haul_tensor *to_f32(haul_tensor *x)
{
    return haul_cast(x, HAUL_F32);
}

static haul_tensor *to_f16(haul_tensor *x)
{
    return haul_cast(x, HAUL_F16);
}

static haul_tensor *to_bf16(haul_tensor *x)
{
    return haul_cast(x, HAUL_BF16);
}

static haul_tensor *transposed(haul_tensor *x)
{
    return haul_contiguous(haul_transpose(x, 0, 1));
}

static haul_tensor *channels_to_end(haul_tensor *x)
{
    return haul_contiguous(haul_permute(x, (int[]){0, 2, 3, 1}, 4));
}

static haul_tensor *channels_to_front(haul_tensor *x)
{
    return haul_contiguous(haul_permute(x, (int[]){0, 3, 1, 2}, 4));
}

/* Half of x, from the middle of the axis. */
static haul_tensor *sliced(haul_tensor *x, int axis)
{
    int64_t size = haul_tensor_shape(x).dims[axis];
    return haul_clone(haul_slice(x, axis, size / 4, size / 4 + size / 2, 1));
}

static haul_tensor *every_second(haul_tensor *x, int axis)
{
    return haul_contiguous(haul_slice(x, axis, 0, haul_tensor_shape(x).dims[axis], 2));
}

static haul_tensor *cat_two(haul_tensor *x, int axis)
{
    return haul_cat((haul_tensor *[]){x, x}, 2, axis);
}

static haul_tensor *with_out(haul_tensor *x)
{
    out = haul_zeros_like(x);
    return x;
}

enum { M = 1 << 20 };
#define COPY_16M .limit = "limit copy, 16 M"
#define COPY_4M  .limit = "limit copy, 4 M"

static const operation table[] = {
    {"copy", {4 * M}, copy, .bytes = 8, COPY_4M},
    {"copy", {16 * M}, copy, .bytes = 8, COPY_16M},
    {"copy into", {16 * M}, copy_into, .bytes = 8, .prepare = with_out, COPY_16M},
    {"f32 to f16", {16 * M}, to_f16, .bytes = 6, COPY_16M},
    {"f16 to f32", {16 * M}, to_f32, .bytes = 6, .dtype = HAUL_F16, COPY_16M},
    {"f32 to bf16", {16 * M}, to_bf16, .bytes = 6, COPY_16M},
    {"bf16 to f32", {16 * M}, to_f32, .bytes = 6, .dtype = HAUL_BF16, COPY_16M},
    {"transposed copy", {4096, 4096}, transposed, .bytes = 8, COPY_16M},
    {"transposed copy", {1000, 1000}, transposed, .bytes = 8, COPY_4M},
    {"permute 0231", {32, 64, 56, 56}, channels_to_end, .bytes = 8, COPY_4M},
    {"permute 0312", {32, 56, 56, 64}, channels_to_front, .bytes = 8, COPY_4M},
    {"slice of rows", {4096, 4096}, .along = sliced, .axis = 0, .bytes = 4, COPY_16M},
    {"slice of columns", {4096, 4096}, .along = sliced, .axis = 1, .bytes = 4, COPY_16M},
    {"every second column", {4096, 4096}, .along = every_second, .axis = 1, .bytes = 4, COPY_16M},
    {"cat of rows", {2048, 2048}, .along = cat_two, .axis = 0, .bytes = 16, COPY_16M},
    {"cat of columns", {2048, 2048}, .along = cat_two, .axis = 1, .bytes = 16, COPY_16M},
};

int main(int argc, char **argv)
{
    return operation_main(argc, argv, table, (int)(sizeof table / sizeof table[0]));
}

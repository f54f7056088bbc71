/* What the kernels of operations from outside the library take (haul/custom.h): the params of all of them, and the
 * words that read these. `at` are the offsets of the buffers in elements, -1 for one that is absent; the other two come
 * from the operation's function `launch`. */
// clang-format off
typedef struct haul_kernel_params {
    I64 items, at[6], sizes[8];
    U64 numbers[8];
} haul_kernel_params;

/* An integer and a number of type A, as `launch` gave them; true if the buffer of an optional operand is there. */
#define SIZE(k)       (p.sizes[k])
#define NUMBER(k)     SCALAR(p.numbers[k])
#define GIVEN(buffer) (p.at[haul_at_##buffer] >= 0)

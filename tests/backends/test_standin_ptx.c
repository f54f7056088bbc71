/* PTX on the stand-in for NVIDIA's driver (tests/standin/ptx): instructions, the order of lanes, and the faults of
 * kernels that a GPU may pass over in silence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "standin/ptx/image.h"
#include "support/devices/gpu.h"

#define HEADER ".version 9.0\n.target sm_90\n.address_size 64\n"
/* A kernel with addresses o and i, the number of a thread t, and registers. */
#define KERNEL(body)                                                                                                   \
    ".visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1)\n.maxntid 1024, 1, 1\n{\n"                        \
    ".reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<10>; .reg .b64 o, i, a, b, c, d; .reg .b32 t, u; .reg .pred "   \
    "p;\n"                                                                                                             \
    "ld.param.u64 o, [k_param_0]; ld.param.u64 i, [k_param_1]; cvta.to.global.u64 o, o; cvta.to.global.u64 i, i;\n"    \
    "mov.u32 t, %tid.x; mov.u32 u, %ctaid.x;\n" body "\nret;\n}\n"

static CUresult load(const char *text, CUmodule *out)
{
    struct standin_image header = {
        .magic = STANDIN_MAGIC_PTX, .capability = 90, .version = 13000, .size = strlen(text)};
    char    *image = malloc(sizeof header + header.size);
    CUresult code;
    assert_non_null(image);
    memcpy(image, &header, sizeof header);
    memcpy(image + sizeof header, text, header.size);
    code = cu.ModuleLoadData(out, image);
    free(image);
    return code;
}

static CUfunction kernel(const char *text)
{
    CUmodule   module = NULL;
    CUfunction f = NULL;
    assert_int_equal(load(text, &module), CUDA_SUCCESS);
    assert_int_equal(cu.ModuleGetFunction(&f, module, "k"), CUDA_SUCCESS);
    return f;
}

/* Runs it with these addresses; the code that waiting gives. */
static CUresult run(const char *text, unsigned grid, unsigned block, CUdeviceptr out, CUdeviceptr in)
{
    void *arguments[] = {&out, &in};
    assert_int_equal(gpu_launch(kernel(text), grid, block, gpu_streams[0], arguments), CUDA_SUCCESS);
    return cu.StreamSynchronize(gpu_streams[0]);
}

/* ---- instructions ---- */

#define F(bits) 0x##bits##u
#define D(bits) 0x##bits##ull

/* What they leave in d, of which as many bits count as the type of the last part of their name has. */
static const struct instruction {
    const char *text;
    int         bits;
    uint64_t    a, b, c, d;
} instructions[] = {
    {"add.s32 d, a, b;", 32, 0xFFFFFFFF, 2, 0, 1},
    {"add.s64 d, a, -8;", 64, 3, 0, 0, (uint64_t)-5},
    {"add.s16 d, a, b;", 16, 0xFFFF, 3, 0, 2},
    {"sub.s32 d, a, b;", 32, 1, 3, 0, 0xFFFFFFFE},
    {"neg.s32 d, a;", 32, 5, 0, 0, 0xFFFFFFFB},
    {"abs.s64 d, a;", 64, (uint64_t)-7, 0, 0, 7},
    {"mul.lo.s32 d, a, b;", 32, 0x10001, 0x10001, 0, 0x20001},
    {"mul.hi.u32 d, a, b;", 32, 0x80000000, 6, 0, 3},
    {"mul.hi.s64 d, a, b;", 64, (uint64_t)-1, 2, 0, (uint64_t)-1},
    {"mul.wide.s32 d, a, b;", 64, 0xFFFFFFFF, 3, 0, (uint64_t)-3},
    {"mul.wide.u32 d, a, b;", 64, 0xFFFFFFFF, 3, 0, 0x2FFFFFFFD},
    {"mul.wide.u16 d, a, b;", 32, 0xFFFF, 0xFFFF, 0, 0xFFFE0001},
    {"mad.lo.s32 d, a, b, c;", 32, 3, 5, 0xFFFFFFFF, 14},
    {"mad.wide.s32 d, a, b, c;", 64, 0xFFFFFFFF, 3, 5, 2},
    {"add.cc.u32 d, a, a; addc.u32 d, b, 0;", 32, 0x80000000, 7, 0, 8},
    {"sub.cc.u32 d, a, b; subc.u32 d, c, 0;", 32, 1, 2, 5, 4},
    {"mad.lo.cc.u32 d, a, b, c; madc.hi.u32 d, a, b, 1;", 32, 0x80000000, 3, 0x80000000, 3},
    {"div.s32 d, a, b;", 32, (uint32_t)-7, 2, 0, (uint32_t)-3},
    {"div.s32 d, a, b;", 32, 0x80000000, (uint32_t)-1, 0, 0x80000000},
    {"rem.s64 d, a, b;", 64, (uint64_t)-7, 2, 0, (uint64_t)-1},
    {"rem.u16 d, a, b;", 16, 65535, 256, 0, 255},
    {"div.u64 d, a, b;", 64, (uint64_t)-1, 16, 0, 0x0FFFFFFFFFFFFFFF},
    {"min.s32 d, a, b;", 32, (uint32_t)-1, 1, 0, (uint32_t)-1},
    {"min.u32 d, a, b;", 32, (uint32_t)-1, 1, 0, 1},
    {"max.s64 d, a, b;", 64, (uint64_t)-1, 1, 0, 1},
    {"and.b32 d, a, b;", 32, 12, 10, 0, 8},
    {"or.b64 d, a, b;", 64, 12, 3, 0, 15},
    {"xor.b16 d, a, b;", 16, 12, 10, 0, 6},
    {"not.b32 d, a;", 32, 0, 0, 0, 0xFFFFFFFF},
    {"shl.b32 d, a, b;", 32, 1, 31, 0, 0x80000000},
    {"shl.b32 d, a, b;", 32, 1, 32, 0, 0},
    {"shr.u32 d, a, b;", 32, 0x80000000, 40, 0, 0},
    {"shr.s32 d, a, b;", 32, 0x80000000, 40, 0, 0xFFFFFFFF},
    {"shr.s16 d, a, b;", 16, 0x8000, 3, 0, 0xF000},
    {"shr.b64 d, a, b;", 64, 0x8000000000000000, 63, 0, 1},
    {"shf.l.wrap.b32 d, a, b, c;", 32, 0x80000000, 1, 33, 3},
    {"prmt.b32 d, a, b, 0x7604;", 32, 0x11223344, 0x55667788, 0, 0x55664488},
    {"prmt.b32 d, a, b, 0x888F;", 32, 0x11223384, 0x95667788, 0, 0xFFFFFFFF},
    {"lop3.b32 d, a, b, c, 0x96;", 32, 0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA, 0x96969696},
    {"bfi.b32 d, a, b, 8, 4;", 32, 0xF5, 0xFFFFFFFF, 0, 0xFFFFF5FF},
    {"bfi.b64 d, a, b, 32, 32;", 64, 7, 9, 0, 0x700000009},
    {"clz.b64 d, a;", 32, 1, 0, 0, 63},
    {"clz.b32 d, a;", 32, 0, 0, 0, 32},
    {"popc.b32 d, a;", 32, 0xFF0, 0, 0, 8},
    {"dp4a.s32.s32 d, a, b, c;", 32, 0xFF02FF02, 0x01030204, 10, 21},
    {"dp4a.u32.u32 d, a, b, c;", 32, 0xFF000001, 0x02000003, 1, 514},
    {"selp.b32 d, a, b, p;", 32, 1, 2, 0, 2},
    {"setp.lt.s32 p, a, b; selp.u32 d, 1, 0, p;", 32, (uint32_t)-1, 1, 0, 1},
    {"setp.lt.u32 p, a, b; selp.u32 d, 1, 0, p;", 32, (uint32_t)-1, 1, 0, 0},
    {"setp.hs.u16 p, a, b; selp.u32 d, 1, 0, p;", 32, 3, 3, 0, 1},
    {"setp.eq.b64 p, a, b; selp.u32 d, 1, 0, p;", 32, 1, 0x100000001, 0, 0},
    {"setp.ge.s64 %p1|p, a, b; selp.u32 d, 1, 0, p;", 32, 1, 2, 0, 1},
    {"setp.eq.s32 %p1, a, a; setp.lt.and.s32 p, a, b, !%p1; selp.u32 d, 1, 0, p;", 32, 1, 2, 0, 0},
    {"setp.eq.s32 %p1, a, b; setp.lt.xor.s32 p, a, b, %p1; not.pred p, p; selp.u32 d, 1, 0, p;", 32, 1, 2, 0, 0},
    {"setp.neu.f32 p, a, a; selp.u32 d, 1, 0, p;", 32, F(7FC00000), 0, 0, 1},
    {"setp.ne.f32 p, a, a; selp.u32 d, 1, 0, p;", 32, F(7FC00000), 0, 0, 0},
    {"setp.ltu.f64 p, a, b; selp.u32 d, 1, 0, p;", 32, D(7FF8000000000000), 0, 0, 1},
    {"setp.num.f64 p, a, b; selp.u32 d, 1, 0, p;", 32, D(3FF0000000000000), 0, 0, 1},
    {"setp.nan.f32 p, a, b; selp.u32 d, 1, 0, p;", 32, 0, F(FFC00000), 0, 1},
    {"setp.eq.f32 p, a, b; selp.u32 d, 1, 0, p;", 32, 0, F(80000000), 0, 1},
    {"add.rn.f32 d, a, b;", 32, F(3F800000), F(33800000), 0, F(3F800000)}, /* 1 + 2^-24: to the even one */
    {"add.rz.f32 d, a, b;", 32, F(3F800000), F(34400000), 0, F(3F800001)}, /* 1 + 1.5 * 2^-23 */
    {"add.rn.f32 d, a, b;", 32, F(3F800000), F(34400000), 0, F(3F800002)},
    {"add.rn.f32 d, a, b;", 32, F(7F800000), F(FF800000), 0, F(7FFFFFFF)}, /* the NaN that GPUs give */
    {"sub.f64 d, a, b;", 64, D(3FF0000000000000), D(3FE0000000000000), 0, D(3FE0000000000000)},
    {"mul.rn.f32 d, a, 0f40000000;", 32, F(40400000), 0, 0, F(40C00000)},
    {"fma.rn.f32 d, a, b, c;", 32, F(3F800001), F(3F7FFFFE), F(BF800000), F(A8800000)}, /* -2^-46 */
    {"fma.rz.f32 d, a, b, c;", 32, F(3F800000), F(3F800000), F(B3000000), F(3F7FFFFF)},
    {"div.rn.f32 d, a, b;", 32, F(3F800000), F(40400000), 0, F(3EAAAAAB)},
    {"rcp.rn.f64 d, a;", 64, D(4008000000000000), 0, 0, D(3FD5555555555555)},
    {"rcp.approx.ftz.f64 d, a;", 64, D(4008000000000000), 0, 0, D(3FD5555500000000)},
    {"sqrt.rn.f32 d, a;", 32, F(40000000), 0, 0, F(3FB504F3)},
    {"ex2.approx.ftz.f32 d, a;", 32, F(40400000), 0, 0, F(41000000)},
    {"rcp.approx.ftz.f32 d, a;", 32, F(7F000000), 0, 0, 0}, /* 2^-127 is flushed */
    {"min.f32 d, a, b;", 32, 0, F(80000000), 0, F(80000000)},
    {"max.f32 d, a, b;", 32, F(7FC00000), F(3F800000), 0, F(3F800000)},
    {"abs.f32 d, a;", 32, F(FFC00001), 0, 0, F(7FC00001)},
    {"neg.f64 d, a;", 64, 0, 0, 0, D(8000000000000000)},
    {"copysign.f32 d, a, b;", 32, F(80000000), F(40000000), 0, F(C0000000)},
    {"cvt.u32.u64 d, a;", 32, 0x123456789, 0, 0, 0x23456789},
    {"cvt.s64.s32 d, a;", 64, 0xFFFFFFFE, 0, 0, (uint64_t)-2},
    {"cvt.u64.u32 d, a;", 64, 0xFFFFFFFE, 0, 0, 0xFFFFFFFE},
    {"cvt.s32.s8 d, a;", 32, 0x180, 0, 0, 0xFFFFFF80},
    {"cvt.rn.f32.s64 d, a;", 32, 16777217, 0, 0, F(4B800000)},
    {"cvt.rn.f64.u64 d, a;", 64, (uint64_t)-1, 0, 0, D(43F0000000000000)},
    {"cvt.rzi.s32.f32 d, a;", 32, F(C0200000), 0, 0, (uint32_t)-2},
    {"cvt.rni.s32.f64 d, a;", 32, D(4004000000000000), 0, 0, 2},
    {"cvt.rzi.s32.f32 d, a;", 32, F(4F800000), 0, 0, 0x7FFFFFFF},
    {"cvt.rzi.s32.f32 d, a;", 32, F(7FC00000), 0, 0, 0},
    {"cvt.rzi.u32.f32 d, a;", 32, F(BF800000), 0, 0, 0},
    {"cvt.rmi.f32.f32 d, a;", 32, F(BF000000), 0, 0, F(BF800000)},
    {"cvt.rpi.f64.f64 d, a;", 64, D(3FE0000000000000), 0, 0, D(3FF0000000000000)},
    {"cvt.rn.f32.f64 d, a;", 32, D(3FF0000010000000), 0, 0, F(3F800000)},
    {"cvt.f64.f32 d, a;", 64, F(3FC00000), 0, 0, D(3FF8000000000000)},
    {"cvt.f32.f16 d, a;", 32, 0x0001, 0, 0, F(33800000)},
    {"cvt.f32.f16 d, a;", 32, 0xFC00, 0, 0, F(FF800000)},
    {"cvt.rn.f16.f32 d, a;", 16, F(477FF000), 0, 0, 0x7C00}, /* 65520 */
    {"cvt.rn.f16.f32 d, a;", 16, F(477FEFFF), 0, 0, 0x7BFF},
    {"cvt.rn.f16.f32 d, a;", 16, F(33000001), 0, 0, 0x0001},
    {"cvt.rn.f16.f32 d, a;", 16, F(387FFFFF), 0, 0, 0x0400},
    {"cvt.rn.f16.f32 d, a;", 16, F(3F800FFF), 0, 0, 0x3C00},
    {"cvt.rn.f16.f32 d, a;", 16, F(BF803000), 0, 0, 0xBC02},
    {"cvt.rn.f16.f32 d, a;", 16, F(7F800001), 0, 0, 0x7FFF},
    {"mov.b64 {%r1, %r2}, a; mov.b64 d, {%r2, %r1};", 64, 0x0000000100000002, 0, 0, 0x0000000200000001},
    {"mov.b32 {_, %r2}, a; cvt.u32.u16 d, %r2;", 32, 0x00010002, 0, 0, 1},
    {"mov.b64 d, 0d3FF0000000000000;", 64, 0, 0, 0, D(3FF0000000000000)},
    {"@p mov.u32 d, 1; @!p mov.u32 d, 2;", 32, 0, 0, 0, 2},
    {"st.global.u32 [o], a; atom.global.cas.b32 d, [o], b, c; @!p ld.global.u32 d, [o];", 32, 5, 5, 6, 6},
    {"st.global.u32 [o], a; atom.global.cas.b32 d, [o], b, c;", 32, 5, 4, 6, 5},
    {"st.global.u8 [o], a; ld.global.s8 d, [o];", 32, 0xFF, 0, 0, 0xFFFFFFFF},
    {"st.global.v2.u16 [o+4], {a, b}; ld.global.u32 d, [o+4];", 32, 1, 2, 0, 0x20001},
    {"st.shared.u32 [s+4], a; cvta.shared.u64 %rd1, 4; ld.u32 d, [%rd1];", 32, 9, 0, 0, 9},
    {"mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1; st.u32 [%rd2+8], a; ld.local.u32 d, [%rd1+8];", 32, 9, 0, 0, 9},
    {"mov.u64 %rd1, words; ld.global.u32 d, [%rd1+4];", 32, 0, 0, 0, 70},
    {"mov.u64 %rd1, k_param_0; ld.param.u64 d, [%rd1+8]; sub.s64 d, d, i;", 64, 0, 0, 0, 0},
    {"bra.uni next; mov.u32 a, 1; next: mov.u32 d, a;", 32, 3, 0, 0, 3},
};

/* An instruction has three inputs and a result of 64 bits, a predicate that is false, and memory of all kinds. */
static void test_ptx__instructions(void **unused)
{
    static const char whole[] =
        HEADER ".global .align 4 .u32 words[2] = {69, 70};\n.shared .align 4 .b8 s[16];\n" KERNEL(
            ".local .align 8 .b8 depot[16];\n"
            "ld.global.u64 a, [i]; ld.global.u64 b, [i+8]; ld.global.u64 c, [i+16]; mov.pred p, 0; mov.u64 d, -1;\n"
            "THE INSTRUCTION\nst.global.u64 [o+8], d;");
    const char *place = strstr(whole, "THE INSTRUCTION"), *after = place + strlen("THE INSTRUCTION");
    char        text[4096];
    CUdeviceptr in, out;
    uint64_t    result;
    (void)unused;
    gpu_start(1);
    in = gpu_device_memory(3 * sizeof result);
    out = gpu_device_memory(64);
    for (size_t k = 0; k < sizeof instructions / sizeof instructions[0]; k++) {
        const struct instruction *c = &instructions[k];
        const uint64_t            mask = c->bits == 64 ? UINT64_MAX : ((uint64_t)1 << c->bits) - 1;
        uint64_t                  values[] = {c->a, c->b, c->c};
        CUresult                  code;
        snprintf(text, sizeof text, "%.*s%s%s", (int)(place - whole), whole, c->text, after);
        gpu_fill(in, (const float *)(const void *)values, 6);
        code = run(text, 1, 1, out + 8, in);
        gpu_fetch(&result, out + 16, sizeof result);
        if (code || (result & mask) != c->d)
            fail_msg("%s\ngives %#llx, not %#llx (code %d)", c->text, (unsigned long long)(result & mask),
                     (unsigned long long)c->d, (int)code);
    }
}

/* ---- lanes ---- */

/* Lanes run a loop as often as their number says; those of odd numbers add another 100; all meet again. */
static void test_ptx__lanes_part_and_meet(void **unused)
{
    static const char text[] = HEADER KERNEL("mov.u32 %r1, 0; mov.u32 %r2, 0;\n"
                                             "again: setp.ge.u32 p, %r1, t; @p bra done;\n"
                                             "add.s32 %r2, %r2, 3; add.s32 %r1, %r1, 1; bra again;\n"
                                             "done: and.b32 %r3, t, 1; setp.eq.s32 p, %r3, 0; @p bra even;\n"
                                             "add.s32 %r2, %r2, 100;\n"
                                             "even: shfl.sync.down.b32 %r4|%p1, %r2, 1, 31, -1;\n"
                                             "selp.b32 %r5, 1000, 0, %p1; add.s32 %r4, %r4, %r5;\n"
                                             "mul.wide.u32 %rd1, t, 4; add.s64 o, o, %rd1; st.global.u32 [o], %r4;");
    int                               result[32];
    CUdeviceptr                       out;
    (void)unused;
    gpu_start(1);
    out = gpu_device_memory(sizeof result);
    assert_int_equal(run(text, 1, 32, out, out), CUDA_SUCCESS);
    gpu_fetch(result, out, sizeof result);
    for (int lane = 0; lane < 32; lane++) {
        const int from = lane < 31 ? lane + 1 : 31;
        assert_int_equal(result[lane], 3 * from + from % 2 * 100 + (lane < 31 ? 1000 : 0));
    }
}

/* Warps write to shared memory, wait, and read what the others wrote. */
static void test_ptx__barriers(void **unused)
{
    static const char text[] = HEADER ".shared .align 4 .b8 s[1024];\n" KERNEL(
        "shl.b32 %r1, t, 2; cvt.u64.u32 %rd1, %r1; st.shared.u32 [%rd1], t;\n"
        "bar.sync 0;\n"
        "mov.u64 %rd2, 1020; sub.s64 %rd2, %rd2, %rd1; ld.shared.u32 %r2, [%rd2];\n"
        "add.s64 o, o, %rd1; st.global.u32 [o], %r2;");
    int         result[256];
    CUdeviceptr out;
    (void)unused;
    gpu_start(1);
    out = gpu_device_memory(sizeof result);
    assert_int_equal(run(text, 2, 256, out, out) != CUDA_SUCCESS, 1); /* both blocks write the same elements */
    assert_int_equal(gpu_clean(NULL), 0);
    gpu_start(1);
    out = gpu_device_memory(sizeof result);
    assert_int_equal(run(text, 1, 256, out, out), CUDA_SUCCESS);
    gpu_fetch(result, out, sizeof result);
    for (int t = 0; t < 256; t++)
        assert_int_equal(result[t], 255 - t);
}

/* Only the odd lanes call; the function adds its two arguments, one of them by its address. */
static void test_ptx__calls(void **unused)
{
    static const char text[] = HEADER
        ".func (.param .b32 func_retval0) sum(.param .b32 sum_param_0, .param .align 8 .b8 sum_param_1[8]);\n"
        ".func (.param .b32 func_retval0) sum(.param .b32 sum_param_0, .param .align 8 .b8 sum_param_1[8])\n{\n"
        ".reg .b32 %r<5>; .reg .pred %p<2>; ld.param.u32 %r1, [sum_param_0]; ld.param.u32 %r2, [sum_param_1+4];\n"
        "add.s32 %r3, %r1, %r2; st.param.b32 [func_retval0+0], %r3; setp.eq.s32 %p1, %r1, 3; @%p1 ret;\n"
        "add.s32 %r3, %r3, 1; st.param.b32 [func_retval0+0], %r3; ret; }\n" KERNEL(
            "mov.u32 %r2, 7; and.b32 %r3, t, 1; setp.eq.s32 p, %r3, 0; @p bra even;\n"
            "{ .reg .b32 temp; .param .b32 param0; st.param.b32 [param0+0], t; .param .align 8 .b8 param1[8];\n"
            "st.param.b32 [param1+4], 50; .param .b32 retval0;\n"
            "call.uni (retval0), sum, (param0, param1); ld.param.b32 %r2, [retval0+0]; }\n"
            "even: mul.wide.u32 %rd1, t, 4; add.s64 o, o, %rd1; st.global.u32 [o], %r2;");
    int         result[40];
    CUdeviceptr out;
    (void)unused;
    gpu_start(1);
    out = gpu_device_memory(sizeof result);
    assert_int_equal(run(text, 1, 40, out, out), CUDA_SUCCESS);
    gpu_fetch(result, out, sizeof result);
    for (int t = 0; t < 40; t++)
        assert_int_equal(result[t], t % 2 ? t + 50 + (t != 3) : 7);
}

/* ---- faults ---- */

#define OWN "mul.wide.u32 %rd1, t, 4; add.s64 %rd2, o, %rd1;\n" /* a thread's own element */

static const struct fault {
    const char *text;
    unsigned    grid, block;
    CUresult    code;
    const char *words;
} faults[] = {
    {HEADER KERNEL(OWN "st.global.u32 [%rd2], t;"), 1, 257, CUDA_ERROR_ILLEGAL_ADDRESS,
     "k: st.global.u32 [%rd2], t: block 0, thread 256: 4 bytes at"},
    {HEADER KERNEL(OWN "ld.global.u32 %r1, [%rd2+4];"), 1, 256, CUDA_ERROR_ILLEGAL_ADDRESS,
     "which are in no allocation"},
    {HEADER KERNEL("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [o+1016];"), 1, 1, CUDA_ERROR_MISALIGNED_ADDRESS,
     "16 bytes at"},
    {HEADER KERNEL("ld.global.u32 %r1, [12345678912];"), 1, 1, CUDA_ERROR_ILLEGAL_ADDRESS,
     "which are in no allocation"},
    {HEADER KERNEL("ld.global.u32 %r1, [i];"), 1, 1, CUDA_ERROR_ILLEGAL_ADDRESS, "access is not enabled"},
    {HEADER KERNEL("st.global.u32 [o], t;"), 1, 2, CUDA_ERROR_LAUNCH_FAILED,
     "thread 1: race: writes what is written in thread 0"},
    {HEADER KERNEL("st.global.u32 [o], u;"), 2, 1, CUDA_ERROR_LAUNCH_FAILED,
     "block 1, thread 0: race: writes what is written in another block"},
    {HEADER KERNEL("ld.global.u32 %r1, [o]; st.global.u8 [o+3], %r1;"), 1, 2, CUDA_ERROR_LAUNCH_FAILED,
     "race: writes what is read in other threads"},
    {HEADER KERNEL("ld.global.u32 %r1, [o]; setp.ne.s32 p, u, 2; @p bra end; st.global.u32 [o], %r1; end: ;"), 3, 1,
     CUDA_ERROR_LAUNCH_FAILED, "race: writes what is read in another block"},
    {HEADER ".shared .align 4 .b8 s[256];\n" KERNEL("shl.b32 %r1, t, 2; cvt.u64.u32 %rd1, %r1; st.shared.u32 [%rd1], "
                                                    "t; xor.b64 %rd1, %rd1, 128; ld.shared.u32 %r2, [%rd1];"),
     1, 64, CUDA_ERROR_LAUNCH_FAILED, "reads shared memory that no thread has written"},
    {HEADER ".shared .align 4 .b8 s[256];\n" KERNEL("shl.b32 %r1, t, 2; cvt.u64.u32 %rd1, %r1; st.shared.u32 [%rd1], "
                                                    "t; xor.b64 %rd1, %rd1, 4; ld.shared.u32 %r2, [%rd1];"),
     1, 64, CUDA_ERROR_LAUNCH_FAILED, "race: reads what is written in thread 1"},
    {HEADER ".shared .align 4 .b8 s[256];\n" KERNEL("st.shared.u32 [s+256], t;"), 1, 1, CUDA_ERROR_ILLEGAL_ADDRESS,
     "4 bytes at 0x100 of 256"},
    {HEADER KERNEL("shfl.sync.idx.b32 %r1|p, t, 9, 31, 255;"), 1, 8, CUDA_ERROR_LAUNCH_FAILED,
     "takes the value of lane 9, which is not in the mask"},
    {HEADER KERNEL("setp.eq.s32 p, t, 0; @p ret; shfl.sync.idx.b32 %r1|p, t, 1, 31, -1;"), 1, 32,
     CUDA_ERROR_LAUNCH_FAILED, "of which 0x1 have returned"},
    {HEADER KERNEL("setp.eq.s32 p, t, 0; @p bra end; shfl.sync.idx.b32 %r1|p, t, 1, 31, -1; end: bar.sync 0;"), 1, 32,
     CUDA_ERROR_LAUNCH_FAILED, "1 are at a barrier, 31 wait for lanes"},
    {HEADER KERNEL("setp.eq.s32 p, t, 0; @p ret; bar.sync 0;"), 1, 64, CUDA_ERROR_LAUNCH_FAILED,
     "63 are at a barrier, 0 wait for lanes, 1 have returned"},
    {HEADER KERNEL("div.s32 %r1, 5, u;"), 1, 1, CUDA_ERROR_LAUNCH_FAILED, "divides by zero"},
};

/* Runs the fault on memory of 1024 bytes, and a device whose memory may not be followed; what stderr has goes to
 * `said`. */
static CUresult run_fault(const struct fault *f, char *said, size_t size)
{
    CUdeviceptr out, other;
    CUresult    code;
    FILE       *file = tmpfile();
    int         kept = dup(STDERR_FILENO);
    size_t      length;
    assert_non_null(file);
    gpu_start(2);
    assert_int_equal(cu.CtxSetCurrent(gpu_contexts[1]), CUDA_SUCCESS);
    other = gpu_device_memory(1024);
    assert_int_equal(cu.CtxSetCurrent(gpu_contexts[0]), CUDA_SUCCESS);
    out = gpu_device_memory(1024);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    code = run(f->text, f->grid, f->block, out, other);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    length = fread(said, 1, size - 1, file);
    said[length] = 0;
    fclose(file);
    return code;
}

static void test_ptx__faults_are_told(void **unused)
{
    char said[2048];
    (void)unused;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        CUresult code = run_fault(&faults[i], said, sizeof said);
        if (code != faults[i].code || !strstr(said, faults[i].words))
            fail_msg("fault %zu gives %d, and says \"%s\", not \"%s\"", i, (int)code, said, faults[i].words);
        assert_int_equal(gpu_clean(NULL), 0);
    }
}

/* Of what waits in between, nothing is a race. */
static void test_ptx__ordered_accesses_are_no_races(void **unused)
{
    static const char *const texts[] = {
        HEADER KERNEL(
            OWN "st.global.u32 [%rd2], t; bar.sync 0; ld.global.u32 %r1, [o+4]; bar.sync 0; st.global.u32 [%rd2], u;"),
        HEADER KERNEL("setp.ge.u32 p, t, 32; @p bra end; " OWN "st.global.u32 [%rd2], t; bar.warp.sync -1;\n"
                      "ld.global.u32 %r1, [o+4]; shfl.sync.idx.b32 %r2, t, 0, 31, -1; st.global.u32 [%rd2], u; end: ;"),
        HEADER KERNEL("ld.global.u32 %r1, [o];"),
        HEADER KERNEL("atom.global.cas.b32 %r1, [o], 0, 1;"),
    };
    CUdeviceptr out;
    (void)unused;
    gpu_start(1);
    out = gpu_device_memory(1024);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_equal(run(texts[i], i < 2 ? 1 : 3, 64, out, out), CUDA_SUCCESS);
}

static void test_ptx__what_is_not_known_is_refused(void **unused)
{
    static const char *const texts[] = {
        HEADER KERNEL("frobnicate.u32 t, t;"),
        HEADER KERNEL("add.q32 t, t, t;"),
        HEADER KERNEL("add.u32 t, t, %unknown;"),
        HEADER KERNEL("bra nowhere;"),
        HEADER KERNEL("bar.sync 1;"),
        HEADER KERNEL("call.uni nothing, ();"),
        HEADER KERNEL("ld.global.cv.u32 t, [o];"),
        HEADER ".visible .entry k( {",
        "not PTX at all",
    };
    (void)unused;
    gpu_start(1);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        CUmodule module;
        assert_int_equal(load(texts[i], &module), CUDA_ERROR_INVALID_IMAGE);
    }
}

#define TEST(name) cmocka_unit_test_setup(test_ptx__##name, gpu_clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(instructions),
        TEST(lanes_part_and_meet),
        TEST(barriers),
        TEST(calls),
        TEST(faults_are_told),
        TEST(ordered_accesses_are_no_races),
        TEST(what_is_not_known_is_refused),
    };
    return cmocka_run_group_tests(tests, gpu_load, gpu_clean);
}

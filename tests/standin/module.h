/* What the stand-in's driver, its NVRTC and the kernels it compiles have in common.
 *
 * A module is an ordinary shared object, made by the host's C compiler from the text that NVRTC would get. This header
 * is part of that text too (prelude.h), so it includes nothing. */
#ifndef HAUL_TESTS_STANDIN_MODULE_H
#define HAUL_TESTS_STANDIN_MODULE_H

/* A device address is a host address with these bits on top, and the device's number below them. No host address looks
 * like that, so that host code which follows one faults at once, at no cost. */
#define STANDIN_TAG       0xD0D0000000000000ull
#define STANDIN_TAG_MASK  0xFFF0000000000000ull
#define STANDIN_ADDRESS   0x0000FFFFFFFFFFFFull
#define STANDIN_UNTAG(at) ((void *)((at)&STANDIN_ADDRESS))

struct standin_dim {
    unsigned x, y, z;
};

struct standin_state {
    struct standin_dim threadIdx, blockIdx, blockDim, gridDim;
};

/* What kernels need of the driver: handed over by standin_bind, since a module cannot link to a library opened at run
 * time. */
struct standin_api {
    struct standin_state *state;
    void (*barrier)(void); /* all threads of the block */
    unsigned long long (*exchange)(unsigned long long value,
                                   int                to); /* all lanes of the warp; the value of lane `to` */
    unsigned (*vote)(int predicate);        /* all lanes of the warp; a bit a lane */
};

/* The modules' table of kernels ends with a NULL name. */
struct standin_kernel {
    const char *name;
    void (*call)(void **arguments); /* one thread of the kernel */
    int             count;
    const unsigned *sizes;    /* bytes of each argument, so that a launch can copy them */
    const char     *pointers; /* 1 where the argument is a pointer */
};

/* What stands before the shared object in a "cubin" or a "PTX" of the stand-in. */
#define STANDIN_MAGIC "\177standin"
struct standin_image {
    char               magic[8];
    char               stamp[40];  /* of the prelude and the compiler: an image of another build is refused */
    int                ptx;        /* 0: machine code */
    int                capability; /* 90: compute capability 9.0 */
    int                version;    /* of NVRTC, as cuDriverGetVersion counts: 13000 */
    int                reserved;
    unsigned long long size; /* of the shared object that follows */
};

#endif

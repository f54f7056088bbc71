/* The parts of libcuda.so.1's stand-in, for each other. Everything is under one lock: enter() takes it, leave() gives
 * it back, and between them nothing else of the driver runs. */
#ifndef HAUL_TESTS_STANDIN_DRIVER_H
#define HAUL_TESTS_STANDIN_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calls.h"
#include "module.h"

enum { STANDIN_MAX_DEVICES = 8, STANDIN_MAX_THREADS = 1024, STANDIN_WARP = 32 };

/* ---- device.c: devices and their primary contexts ---- */

struct CUctx_st {
    int      device;
    bool     retained;
    CUresult lost;  /* a fault in a kernel: every later call returns it */
    unsigned peers; /* a bit for each device whose memory may be followed */
    size_t   used;  /* bytes allocated */
    size_t   spent; /* bytes that the driver took for itself */
};

typedef struct standin_settings {
    enum { LATE, EARLY, RANDOM } order;
    int      devices, capability, driver, init;
    bool     peer, keep;
    size_t   memory, foreign;
    size_t   context, module; /* bytes that a context and a module take */
    int      compute_mode;
    uint64_t seed;
    uint64_t latency, bandwidth; /* of copies from and to the host: ns, bytes a second; 0: as fast as memory */
} standin_settings;

extern standin_settings standin_set;

/* What a call needs before it may do anything. */
enum standin_need { NOTHING, INITIALISED, IN_CONTEXT };

/* Takes the lock, counts the call, and says why it must fail; then leave() returns that after all. */
CUresult  standin_enter(enum standin_function function, enum standin_need need);
CUresult  standin_leave(CUresult code);
CUcontext standin_context(void); /* the current one, NULL for none */

/* A fault in a kernel or a library on the context's device; the first stays. */
void standin_lose(CUcontext context, CUresult code);

/* ---- block.c: running kernels ---- */

typedef struct standin_launch {
    const struct standin_kernel *kernel;
    struct standin_dim           grid, block;
    void                       **arguments;
    char                        *shared; /* the module's shared memory */
    size_t                       shared_bytes;
    const struct ptx_module     *ptx; /* what the kernel is of, if it is run from PTX */
} standin_launch;

extern const struct standin_api standin_api;

/* CUDA_ERROR_LAUNCH_FAILED, said on stderr, when threads of a block wait in different places. */
CUresult standin_run(const standin_launch *launch);

/* ---- memory.c ---- */

typedef struct standin_allocation {
    char     *at; /* its address on the host */
    size_t    size;
    CUcontext context;
    bool      pinned;
    void     *shadow; /* the state of each of its bytes where kernels are run from PTX */
} standin_allocation;

/* The allocation that contains [at, at + size), or NULL. at is a device address, or for pinned memory the host's. */
const standin_allocation *standin_find(CUdeviceptr at, size_t size);
const standin_allocation *standin_find_pinned(const void *at, size_t size);
/* The allocation's shadow, `size` bytes for each byte, zero at first; NULL when memory is out. */
void *standin_shadow(const standin_allocation *allocation, size_t size);
void  standin_forget_memory(void);

/* ---- stream.c ---- */

typedef struct standin_command {
    CUresult (*run)(struct standin_command *);
    struct standin_command *next;
    CUcontext               context;
    uint64_t                number;
    char                   *to; /* copies and fills */
    const char             *from;
    size_t                  bytes, width, stride;
    unsigned                pattern;
    CUstream                waited; /* waits */
    uint64_t                waited_number;
    CUevent                 timed; /* recordings: the event, if it keeps times */
    standin_launch          launch;
    int (*call)(void *);              /* a library's work, on data */
    void *places[STANDIN_MAX_PLACES]; /* the memory it uses */
    _Alignas(16) char data[];         /* a launch's arguments, or bytes taken from pageable memory */
} standin_command;

struct CUstream_st {
    unsigned         magic;
    CUcontext        context;
    standin_command *head, **tail;
    uint64_t         enqueued, done;
    CUstream         next;
};

CUresult         standin_check_stream(CUstream stream);
standin_command *standin_command_new(CUresult (*run)(standin_command *), size_t extra);
/* Takes the command; what it returned where it ran at once. */
CUresult standin_enqueue(CUstream stream, standin_command *command);
/* Runs the stream's commands up to that number, and what they wait for. */
void standin_drain(CUstream stream, uint64_t number);
void standin_drain_all(void);
/* Runs commands that use [at, at + size), which is about to go. */
void standin_drain_users(const char *at, size_t size);
/* Under STANDIN_ORDER=random: a random part of the queue. */
void standin_drain_some(void);
void standin_forget_streams(void);

#endif

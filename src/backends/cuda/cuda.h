/* Shared inside the CUDA backend: the opened libraries, the data of each GPU, and checks of calls. */
#ifndef HAUL_BACKENDS_CUDA_CUDA_H
#define HAUL_BACKENDS_CUDA_CUDA_H

#include <pthread.h>

#include "backends/backend.h"
#include "backends/command.h"
#include "backends/cuda/api.h"
#include "backends/implementation.h"

/* The minimum: CUDA 12 drivers, compute capability 7.5 (Turing). */
#define HAUL__CUDA_LEAST_DRIVER     12000
#define HAUL__CUDA_LEAST_CAPABILITY 75

/* cuMemAlloc maps pages of 2 MiB. It takes smaller requests out of shared pages. */
#define HAUL__CUDA_PAGE ((size_t)2 << 20)

extern haul__cuda_driver haul__cu; /* filled by haul__cuda_load_driver */
extern haul__cuda_nvrtc  haul__nvrtc;
extern haul__cuda_nvml   haul__nvml;

/* The target of haul__kernel.handle. */
typedef struct haul__cuda_kernel {
    CUfunction function;
    unsigned   max_block; /* the most threads in a block */
} haul__cuda_kernel;

typedef struct haul__cuda_event {
    struct haul__cuda_event *next; /* among those to be used again */
    CUevent                  event;
} haul__cuda_event;

/* Two events around the timed commands; these are reused, too. */
typedef struct haul__cuda_timing {
    struct haul__cuda_timing *next;
    CUevent                   first, last;
} haul__cuda_timing;

/* One GPU. */
typedef struct haul__cuda_device {
    CUdevice    id;
    CUcontext   context;                    /* the primary context, shared with other users of CUDA in the process */
    int         capability;                 /* 90 for 9.0 */
    unsigned    units;                      /* multiprocessors */
    char        bus[32];                    /* PCI address, by which NVML finds it */
    char        target[48];                 /* NVRTC's option: "--gpu-architecture=sm_90" */
    char       *identity;                   /* driver, compiler, target and options: part of the cache's key */
    atomic_bool peers[HAUL__MAX_DEVICES];   /* the devices whose memory it can access; set when either is
                                             * opened */
    pthread_mutex_t           events_lock;  /* guards the next two */
    haul__cuda_event         *idle;         /* events to reuse */
    haul__cuda_timing        *idle_timings; /* timings to reuse */
    pthread_mutex_t           memory_lock;  /* held by calls that change how much memory is free */
    pthread_mutex_t           blas_lock;    /* guards blas */
    struct haul__cuda_blas   *blas;         /* cublaslt/cublaslt.h; NULL until the first product */
    pthread_mutex_t           solver_lock;  /* guards solver */
    struct haul__cuda_solver *solver;       /* cusolver/spectrum.c; NULL until the first large spectrum */
} haul__cuda_device;

static inline haul__cuda_device *haul__cuda_of(const haul_device *device)
{
    return device->impl;
}
static inline CUstream haul__cuda_stream(const haul__stream *s)
{
    return s->queue;
}
static inline CUdeviceptr haul__cuda_address(const haul__buffer *buffer)
{
    return (CUdeviceptr)(uintptr_t)buffer->handle;
}

/* library.c. Each library is opened once per process: only from the folder $HAUL_CUDA_LIBRARIES if that is set, else
 * through the system's search. Returns false, with the reason in `why`, if it cannot be used. */
bool haul__cuda_load_driver(char *why, size_t why_size);
bool haul__cuda_load_nvrtc(char *why, size_t why_size);
bool haul__cuda_load_nvml(void);

/* What loads a library. It is loaded once per process, by a function that opens it, finds the functions, and sets
 * `usable`, or explains in `text` why not. */
typedef struct haul__cuda_library {
    pthread_once_t once; /* PTHREAD_ONCE_INIT */
    bool           usable;
    char           text[256];
} haul__cuda_library;

/* Calls `load` if it was not called before. Copies the text to `why`, which may be NULL if why_size is 0, and returns
 * `usable`. */
bool haul__cuda_load(haul__cuda_library *library, void (*load)(void), char *why, size_t why_size);
/* Opens the first of `names` (ended by NULL) that is found; NULL if none is. */
void *haul__cuda_open_library(const char *const *names);
/* A function of a library: where its address goes, and its symbol. */
typedef struct haul__cuda_symbol {
    void       *at; /* a pointer to a function */
    const char *name;
} haul__cuda_symbol;
/* A row of functions, as the .def files list them, of a table of functions. */
#define HAUL__CUDA_SYMBOL(table, name, symbol) {&(table).name, #symbol},
/* Finds functions. Returns the name of the first one that the library lacks; NULL if it has all. */
const char *haul__cuda_find(void *opened, const haul__cuda_symbol *symbols, size_t count);
#define HAUL__CUDA_FIND(opened, symbols) haul__cuda_find(opened, symbols, sizeof(symbols) / sizeof *(symbols))
/* True if `word` is in the list in an environment variable. */
bool haul__cuda_names(const char *variable, const char *word);
int  haul__cuda_driver_version(void); /* 12040 for CUDA 12.4 */

/* The context of a device must be current while its functions are called; leave restores the thread's context, or that
 * it had none: another user of CUDA in the process may depend on it. */
typedef struct haul__cuda_scope {
    CUcontext before, ours;
} haul__cuda_scope;
CUresult haul__cuda_enter(const haul__cuda_device *d, haul__cuda_scope *scope);
void     haul__cuda_leave(const haul__cuda_scope *scope);

/* result = haul__cu.Name(...) with the device's context. */
#define HAUL__CU_CALL(result, d, call)                                                                                 \
    do {                                                                                                               \
        haul__cuda_scope haul_scope_;                                                                                  \
        (result) = haul__cuda_enter((d), &haul_scope_);                                                                \
        if ((result) == CUDA_SUCCESS) {                                                                                \
            (result) = haul__cu.call;                                                                                  \
            haul__cuda_leave(&haul_scope_);                                                                            \
        }                                                                                                              \
    } while (0)

/* errors.c: HAUL_OK, or the recorded error "cuda:0: cuLaunchKernel failed: CUDA_ERROR_ILLEGAL_ADDRESS: ...". */
haul_status haul__cuda_check(haul_device *device, const char *call, CUresult code);
const char *haul__cuda_error_name(CUresult code);

/* memory.c. The memory that the driver takes for itself between begin and end counts as the device's overhead. Other
 * threads neither obtain memory nor give it back meanwhile, because only the sum is known. So nothing but calls of the
 * driver comes between, and each begin has its end. Other processes can blur the count. */
typedef struct haul__cuda_spending {
    size_t left; /* bytes that were free; 0: not known */
} haul__cuda_spending;
haul__cuda_spending haul__cuda_spend_begin(const haul_device *device);
void                haul__cuda_spend_end(const haul_device *device, const haul__cuda_spending *s);
/* The same before the device has a context. */
haul__cuda_spending haul__cuda_spend_begin_context(const haul_device *device);

haul_status haul__cuda_alloc(haul_device *device, size_t bytes, const haul__buffer_address *of, haul__buffer *out);
void        haul__cuda_free(haul_device *device, haul__buffer *buffer);
void        haul__cuda_memory_left(haul_device *device, char *out, size_t size);
void        haul__cuda_free_bytes(haul_device *device, char *out, size_t size);
bool        haul__cuda_holds(haul_device *device, const void *memory, size_t bytes);
bool        haul__cuda_host_is_pinned(haul_device *device, const void *memory, size_t bytes);
haul_status haul__cuda_host_alloc(haul_device *device, size_t bytes, void **out, void **handle);
void        haul__cuda_host_free(haul_device *device, void *memory, void *handle);

/* program.c */
typedef struct haul__cuda_code {
    void  *image; /* machine code, or PTX where the target is portable */
    size_t size;
    char  *log;
} haul__cuda_code;
/* The text for one kernel of a unit, or for all if `kernel` is NULL, which the caller must haul__free. */
char *haul__cuda_program_text(const haul__unit *unit);
/* Compiles a text for a target ("--gpu-architecture=sm_90"). `report` is one more option, whose output goes to `log`;
 * NULL for neither. The caller must haul__free image and log. `place` appears in messages. */
haul_status haul__cuda_compile_text(const char *place, const char *name, const char *source, const char *target,
                                    const char *report, haul__cuda_code *out);
haul_status haul__cuda_compile(haul_device *device, const haul__unit *unit, haul__kernel *out);
/* The key of the compiled text in the disk cache, which the caller must haul__free. NULL if memory is exhausted. */
char *haul__cuda_cache_key(const haul_device *device, const char *source);

/* queue.c: streams, commands and events, as in backends/backend.h. */
haul_status haul__cuda_stream_open(haul_device *device, void **queue);
void        haul__cuda_stream_close(haul_device *device, void *queue);
haul_status haul__cuda_submit(haul__stream *s, const haul__command *c);
haul_status haul__cuda_sync(haul__stream *s, void *event);
haul_status haul__cuda_finish(haul_device *device);
haul_status haul__cuda_event_record(haul__stream *s, void **event);
haul_status haul__cuda_event_wait(haul__stream *s, void *event);
haul_status haul__cuda_event_query(haul_device *device, void *event, bool *reached);
void        haul__cuda_event_free(haul_device *device, void *event);

/* timing.c */
haul_status haul__cuda_timing_begin(haul__stream *s, void **timing);
haul_status haul__cuda_timing_end(haul__stream *s, void *timing);
haul_status haul__cuda_timing_read(haul_device *device, void *timing, void *origin, int64_t *after, int64_t *duration);
void        haul__cuda_timing_free(haul_device *device, void *timing);

/* cublaslt/gemm.c: the implementation "cublaslt", as in backends/implementation.h. */
const char *haul__cublaslt_refuses(haul_device *device, const void *problem);
size_t      haul__cublaslt_scratch(haul_device *device, const void *problem);
haul_status haul__cublaslt_run(haul__stream *s, const void *problem);

/* cudnn/conv2d.c: the implementation "cudnn". */
const char *haul__cudnn_refuses(haul_device *device, const void *problem);
bool        haul__cudnn_wants_channels_last(haul_device *device, const void *problem);
size_t      haul__cudnn_scratch(haul_device *device, const void *problem);
haul_status haul__cudnn_compute(haul__stream *s, const void *problem);

/* cusolver/spectrum.c: the implementation "cusolver". */
const char *haul__cusolver_refuses(haul_device *device, const void *problem);
size_t      haul__cusolver_scratch(haul_device *device, const void *problem);
haul_status haul__cusolver_run(haul__stream *s, const void *problem);

/* libraries.c: "cuBLASLt 13.1.0, cuDNN 9.19.0", or the missing library; and the memory that is left. */
void haul__cuda_describe(haul_device *device, haul__description what, char *out, size_t size);

#endif

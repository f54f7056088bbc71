/* The implementation "cudnn": convolutions by plans, which are chosen when a problem first occurs and kept by problem.
 *
 * By default Haul takes the plan that cuDNN's heuristics rank first. With HAUL_CUDNN=autotune it times the best few on
 * the first call and keeps the choice in the cache folder, so that later runs take the same plan and give
 * bit-identical results. */
#include <stdio.h>
#include <string.h>

#include "backends/cuda/cudnn/cudnn.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/clock.h"
#include "core/error.h"
#include "events/events.h"
#include "files/disk_cache.h"

#define BUCKETS 256
/* Problems in a bucket, so that a program with ever-changing shapes does not fill the memory with plans. */
#define BUCKET_ROOM 16
#define MAX_PLANS   5
/* A plan may use at most 1 / MEMORY_SHARE of a GPU's memory as scratch memory. */
#define MEMORY_SHARE 16
/* Timing: the number of rounds and of runs in each. The shortest round counts. A plan must be faster than the ones
 * ranked above it by this factor, so that noise does not decide. */
#define ROUNDS 3
#define RUNS   4
#define MARGIN 0.97

static const char *const operation = "haul_conv2d";

/* The known properties of a problem. */
typedef struct entry {
    struct entry       *next;
    haul__cudnn_problem problem;
    haul__cudnn_plan    plans[MAX_PLANS]; /* the best first; `choose` appends plans that need less memory */
    int                 count;
    bool                untimed;  /* the plans still have to be timed */
    int64_t             hopeless; /* no plan needs this little scratch memory or less; -1: unknown */
} entry;

/* cuDNN on one GPU. Two threads must not use a handle at the same time, so its user holds the lock. */
typedef struct gpu {
    pthread_mutex_t    lock;
    bool               tried;
    haul__cudnn_target target; /* no handle: cuDNN is not usable, for this reason */
    char               why[128];
    CUstream           stream; /* the stream of the handle */
    entry             *entries[BUCKETS];
} gpu;

static gpu            gpus[HAUL__MAX_DEVICES]; /* by the device's index in the backend */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_locks(void)
{
    for (int i = 0; i < HAUL__MAX_DEVICES; i++)
        pthread_mutex_init(&gpus[i].lock, NULL);
}

static gpu *gpu_of(const haul_device *device)
{
    HAUL__ASSERT(0 <= device->index && device->index < HAUL__MAX_DEVICES);
    pthread_once(&once, init_locks);
    return &gpus[device->index];
}

/* ---- errors ---- */

static bool is_unsupported(cudnnStatus_t status)
{
    return status / 1000 * 1000 == CUDNN_STATUS_NOT_SUPPORTED;
}

/* The next attempt may succeed. */
static bool is_memory(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
           status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

/* "CUDNN_STATUS_... (error 5000): the library's explanation", in one line. */
static void explain(cudnnStatus_t status, char *out, size_t size)
{
    char more[512] = "";
    haul__cudnn.GetLastErrorString(more, sizeof more);
    more[sizeof more - 1] = '\0';
    more[strcspn(more, "\r\n")] = '\0';
    snprintf(out, size, "%s (error %d)%s%s", haul__cudnn.GetErrorString(status), (int)status, more[0] ? ": " : "",
             more);
}

static haul_status fail(const haul_device *device, cudnnStatus_t status)
{
    char text[700];
    explain(status, text, sizeof text);
    return haul__fail(is_memory(status) ? HAUL_OUT_OF_MEMORY : HAUL_BACKEND, device->name, NULL,
                      "cuDNN's convolution failed: %s; with HAUL_WITHOUT=cudnn Haul uses kernels of its own", text);
}

/* ---- opening ---- */

static const char *version_text(char *out, size_t size)
{
    size_t version = haul__cudnn_version();
    snprintf(out, size, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return out;
}

/* The caller holds the lock, and the context is current. */
static bool is_usable(const haul_device *device, gpu *g)
{
    char          text[32];
    cudnnStatus_t status;
    if (g->tried)
        return g->target.handle != NULL;
    HAUL__ASSERT(!g->target.handle && !g->stream);
    g->tried = true;
    if (!haul__cuda_load_cudnn(g->why, sizeof g->why))
        return false;
    const haul__cuda_spending spent = haul__cuda_spend_begin(device);
    status = haul__cudnn.Create(&g->target.handle);
    haul__cuda_spend_end(device, &spent);
    if (status == CUDNN_STATUS_SUCCESS)
        return true;
    g->target.handle = NULL;
    g->tried = !is_memory(status);
    snprintf(g->why, sizeof g->why, "cuDNN %s does not start (%s)", version_text(text, sizeof text),
             haul__cudnn.GetErrorString(status));
    return false;
}

void haul__cudnn_version_text(haul_device *device, char *out, size_t size)
{
    gpu             *g = gpu_of(device);
    char             version[32];
    haul__cuda_scope scope;
    if (haul__cuda_enter(haul__cuda_of(device), &scope) != CUDA_SUCCESS) {
        snprintf(out, size, "no cuDNN: own kernels serve");
        return;
    }
    pthread_mutex_lock(&g->lock);
    if (is_usable(device, g))
        snprintf(out, size, "cuDNN %s", version_text(version, sizeof version));
    else
        snprintf(out, size, "%s: own kernels serve", g->why);
    pthread_mutex_unlock(&g->lock);
    haul__cuda_leave(&scope);
}

/* ---- problems ---- */

static CUdeviceptr address(const haul__buffer *buffer, int64_t offset, haul_dtype dtype)
{
    return buffer ? haul__cuda_address(buffer) + (CUdeviceptr)offset * haul__dtype_size(dtype) : 0;
}

static void find_buffers(const haul__conv2d *c, CUdeviceptr out[HAUL__CUDNN_BIAS + 1])
{
    out[0] = 0;
    out[HAUL__CUDNN_X] = address(c->x, c->x_offset, c->dtype);
    out[HAUL__CUDNN_WEIGHT] = address(c->weight, c->weight_offset, c->dtype);
    out[HAUL__CUDNN_Y] = address(c->y, c->y_offset, c->dtype);
    out[HAUL__CUDNN_BIAS] = address(c->bias, c->bias_offset, c->dtype);
}

/* Views may begin anywhere. cuDNN 9.19 has plans for buffers that are less aligned than 16 bytes, but on an H200 one of
 * f16 failed with CUDA_ERROR_MISALIGNED_ADDRESS, after which a process cannot use the GPU any more. */
static bool is_aligned(const CUdeviceptr buffers[HAUL__CUDNN_BIAS + 1])
{
    CUdeviceptr all = 0;
    for (int i = HAUL__CUDNN_X; i <= HAUL__CUDNN_BIAS; i++)
        all |= buffers[i];
    return all % HAUL__CUDNN_ALIGNMENT == 0;
}

static haul__cudnn_problem describe(const haul__conv2d *c)
{
    HAUL__ASSERT(c->groups > 0 && c->c_in % c->groups == 0 && c->c_out % c->groups == 0);
    HAUL__ASSERT(c->pass == HAUL__CONV2D_FORWARD || !c->relu);
    return (haul__cudnn_problem){
        .pass = (int64_t)c->pass,
        .dtype = (int64_t)c->dtype,
        .n = c->n,
        .c_in = c->c_in,
        .h = c->h,
        .w = c->w,
        .c_out = c->c_out,
        .kh = c->kh,
        .kw = c->kw,
        .out_h = c->out_h,
        .out_w = c->out_w,
        .stride = {c->stride[0], c->stride[1]},
        .padding = {c->padding[0], c->padding[1]},
        .dilation = {c->dilation[0], c->dilation[1]},
        .groups = c->groups,
        .channels_last = c->channels_last,
        .bias = c->has_bias,
        .relu = c->relu,
        .tf32 = c->tf32,
        .any_order = haul__cudnn_any_order(),
    };
}

/* FNV-1a, one word at a time. */
static unsigned bucket_of(const haul__cudnn_problem *p)
{
    uint64_t hash = 0xcbf29ce484222325u;
    int64_t  words[sizeof *p / sizeof(int64_t)];
    memcpy(words, p, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        hash = (hash ^ (uint64_t)words[i]) * 0x100000001b3u;
    return (unsigned)(hash >> 32) % BUCKETS;
}

/* ---- choices of earlier runs ---- */

/* A text with everything that the choice depends on; the caller must haul__free it. */
static char *choice_key(const haul_device *device, const haul__cudnn_problem *p)
{
    int64_t words[sizeof *p / sizeof(int64_t)];
    char    text[sizeof words / sizeof words[0] * 21 + 1] = "";
    size_t  length = 0;
    memcpy(words, p, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, " %lld", (long long)words[i]);
    HAUL__ASSERT(length < sizeof text);
    return haul__format("cudnn choice\n%s\n%s\n%u units\ncuDNN %zu\n%s\n", device->model, device->driver,
                        haul__cuda_of(device)->units, haul__cudnn_version(), text);
}

static void store_choice(const haul_device *device, const entry *e)
{
    haul__cudnn_choice choice;
    char              *key = choice_key(device, &e->problem);
    if (key && haul__cudnn_describe(&e->plans[0], &choice))
        haul__cache_store(key, &choice, sizeof choice);
    haul__free(key);
}

static bool load_choice(const haul_device *device, const gpu *g, int64_t most, entry *e)
{
    size_t              size = 0;
    char               *key = choice_key(device, &e->problem);
    haul__cudnn_choice *choice = key ? haul__cache_load(key, &size) : NULL;
    if (choice && size == sizeof *choice && haul__cudnn_rebuild(&g->target, &e->problem, choice, most, &e->plans[0]))
        e->count = 1;
    haul__free(choice);
    haul__free(key);
    HAUL__ASSERT(e->count == 0 || e->plans[0].plan);
    return e->count == 1;
}

/* ---- planning: the caller holds the lock ---- */

static int64_t most_scratch(const haul_device *device)
{
    return device->properties.memory_bytes / MEMORY_SHARE;
}

static void plan(const haul_device *device, const gpu *g, entry *e)
{
    int64_t most = most_scratch(device), start = haul__now_ns();
    bool    autotune = haul__cudnn_autotunes();
    HAUL__ASSERT(!e->count && !e->untimed && most >= 0);
    e->hopeless = -1;
    if (!autotune || !load_choice(device, g, most, e)) {
        e->count = haul__cudnn_propose(&g->target, &e->problem, most, e->plans, autotune ? MAX_PLANS : 1);
        e->untimed = e->count > 1;
        if (autotune && e->count == 1)
            store_choice(device, e);
    }
    haul__emit_counted(&(haul_event){.kind = HAUL_EVENT_DRIVER_CALLED,
                                     .operation = operation,
                                     .text = "planned a convolution",
                                     .device = device,
                                     .duration = haul__now_ns() - start});
}

/* The newest entry comes first. */
static void drop_old(entry *e)
{
    entry *kept = e;
    for (int i = 1; i < BUCKET_ROOM && kept->next; i++)
        kept = kept->next;
    e = kept->next;
    kept->next = NULL;
    while (e) {
        entry *next = e->next;

        for (int i = 0; i < e->count; i++)
            haul__cudnn_plan_drop(&e->plans[i]);
        haul__free(e);
        e = next;
    }
}

/* The problem's entry, made when the problem first occurs. NULL without cuDNN, or if host memory is exhausted: Haul's
 * kernels are used then. */
static entry *find(const haul_device *device, gpu *g, const haul__cudnn_problem *problem)
{
    entry **at = &g->entries[bucket_of(problem)], *e;
    if (!is_usable(device, g))
        return NULL;
    for (e = *at; e; e = e->next)
        if (memcmp(&e->problem, problem, sizeof *problem) == 0)
            return e;
    e = haul__calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->problem = *problem;
    plan(device, g, e);
    HAUL__ASSERT(0 <= e->count && e->count <= MAX_PLANS && (!e->untimed || e->count > 1));
    e->next = *at;
    *at = e;
    drop_old(e);
    return e;
}

/* The best plan that needs at most `scratch` bytes; with little memory this is not the usual one. NULL if there is
 * none. */
static const haul__cudnn_plan *choose(const gpu *g, entry *e, int64_t scratch)
{
    HAUL__ASSERT(scratch >= 0 && 0 <= e->count && e->count <= MAX_PLANS);
    for (int i = 0; i < e->count; i++)
        if (e->plans[i].workspace <= scratch)
            return &e->plans[i];
    if (e->count == 0 || e->count == MAX_PLANS || scratch <= e->hopeless)
        return NULL;
    if (haul__cudnn_propose(&g->target, &e->problem, scratch, &e->plans[e->count], 1))
        return &e->plans[e->count++];
    e->hopeless = scratch;
    return NULL;
}

/* ---- timing ---- */

/* One call: the problem and its buffers. */
typedef struct run {
    haul__stream *stream;
    gpu          *gpu;
    entry        *entry;
    CUdeviceptr   buffers[HAUL__CUDNN_BIAS + 1], scratch;
    int64_t       scratch_bytes;
} run;

static cudnnStatus_t execute(const run *r, const haul__cudnn_plan *p)
{
    CUstream      stream = haul__cuda_stream(r->stream);
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    HAUL__ASSERT(p->plan && p->workspace <= r->scratch_bytes && r->gpu->target.handle);
    if (r->gpu->stream != stream)
        status = haul__cudnn.SetStream(r->gpu->target.handle, stream);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    r->gpu->stream = stream;
    return haul__cudnn_run(&r->gpu->target, p, r->buffers, p->workspace ? r->scratch : 0);
}

/* The host waits for the timed runs, and the wait is reported. */
static haul_status wait_for_runs(haul__stream *stream)
{
    int64_t     start = haul__now_ns();
    haul_status status = haul__cuda_sync(stream, NULL);
    haul__emit_counted(&(haul_event){.kind = HAUL_EVENT_WAITED,
                                     .operation = operation,
                                     .text = "waited",
                                     .device = stream->device,
                                     .stream = "compute",
                                     .duration = haul__now_ns() - start});
    return status;
}

/* Nanoseconds of the shortest round of runs; *out is untouched if the plan does not run. Every run writes the same
 * result. */
static haul_status measure(const run *r, const haul__cudnn_plan *p, int64_t *out)
{
    int64_t     best = INT64_MAX;
    haul_status status = HAUL_OK;
    for (int round = 0; round <= ROUNDS && status == HAUL_OK; round++) { /* round 0 warms up */
        int64_t start = haul__now_ns(), took;

        for (int i = 0; i < (round ? RUNS : 1); i++) {
            cudnnStatus_t code = execute(r, p);

            if (code != CUDNN_STATUS_SUCCESS)
                return is_unsupported(code) ? HAUL_OK : fail(r->stream->device, code);
        }
        status = wait_for_runs(r->stream);
        took = haul__now_ns() - start;
        if (round && took < best)
            best = took;
    }
    if (status == HAUL_OK)
        *out = best;
    return status;
}

/* Puts the fastest plan first and keeps the choice for later runs. Drops the others, or all plans if none runs. If
 * memory is short now, a later call decides. */
static haul_status time_plans(run *r)
{
    entry      *e = r->entry;
    int64_t     times[MAX_PLANS];
    int         best = 0;
    haul_status status = HAUL_OK;
    for (int i = 0; i < e->count; i++)
        if (e->plans[i].workspace > r->scratch_bytes)
            return HAUL_OK;
    for (int i = 0; i < e->count && status == HAUL_OK; i++) {
        times[i] = INT64_MAX;
        status = measure(r, &e->plans[i], &times[i]);
        if (status == HAUL_OK && (double)times[i] < (double)times[best] * MARGIN)
            best = i;
    }
    if (status)
        return status;
    HAUL__ASSERT(0 <= best && best < e->count);
    for (int i = 0; i < e->count; i++)
        if (i != best || times[best] == INT64_MAX)
            haul__cudnn_plan_drop(&e->plans[i]);
    e->plans[0] = e->plans[best];
    e->untimed = false;
    e->count = times[best] < INT64_MAX;
    if (e->count)
        store_choice(r->stream->device, e);
    return HAUL_OK;
}

/* ---- the implementation ---- */

static bool is_usable_on(haul_device *device)
{
    bool             usable;
    gpu             *g = gpu_of(device);
    haul__cuda_scope scope;
    if (haul__cuda_enter(haul__cuda_of(device), &scope) != CUDA_SUCCESS)
        return false;
    pthread_mutex_lock(&g->lock);
    usable = is_usable(device, g);
    pthread_mutex_unlock(&g->lock);
    haul__cuda_leave(&scope);
    return usable;
}

/* Tensor cores read adjacent channels. Other GPUs take the layout they get, because copies cost more than the order
 * gains. */
bool haul__cudnn_wants_channels_last(haul_device *device, const void *problem)
{
    const haul__conv2d *call = problem;
    return (call->channels_last || call->tf32 || haul__dtype_size(call->dtype) == 2) && is_usable_on(device);
}

/* Without a context the launch of the kernels reports the error. */
const char *haul__cudnn_refuses(haul_device *device, const void *problem)
{
    gpu                *g = gpu_of(device);
    CUdeviceptr         buffers[HAUL__CUDNN_BIAS + 1];
    haul__cudnn_problem described;
    haul__cuda_scope    scope;
    const entry        *e;
    const char         *why = NULL;
    if (!haul__cuda_load_cudnn(NULL, 0))
        return "it was not found, or cannot be used";
    if (!problem)
        return NULL;
    if (((const haul__conv2d *)problem)->has_bias && ((const haul__conv2d *)problem)->pass != HAUL__CONV2D_FORWARD)
        return "it adds no bias to a transposed convolution";
    find_buffers(problem, buffers);
    if (!is_aligned(buffers))
        return "a view begins at an address that is not a multiple of 16; haul_clone makes a copy that does";
    described = describe(problem);
    if (haul__cuda_enter(haul__cuda_of(device), &scope) != CUDA_SUCCESS)
        return "the GPU's context cannot be made current";
    haul__events_hold();
    pthread_mutex_lock(&g->lock);
    e = find(device, g, &described);
    if (!e)
        why = "it does not start on this GPU";
    else if (e->count == 0)
        why = "it has no engine for this";
    pthread_mutex_unlock(&g->lock);
    haul__cuda_leave(&scope);
    haul__events_release();
    return why;
}

/* For the best plan, or for each plan that will be timed. */
size_t haul__cudnn_scratch(haul_device *device, const void *problem)
{
    gpu                *g = gpu_of(device);
    haul__cudnn_problem described = describe(problem);
    haul__cuda_scope    scope;
    const entry        *e;
    int64_t             bytes = 0;
    if (haul__cuda_enter(haul__cuda_of(device), &scope) != CUDA_SUCCESS)
        return 0;
    haul__events_hold();
    pthread_mutex_lock(&g->lock);
    e = find(device, g, &described);
    for (int i = 0; e && i < (e->untimed ? e->count : e->count > 0); i++)
        if (e->plans[i].workspace > bytes)
            bytes = e->plans[i].workspace;
    HAUL__ASSERT(bytes <= most_scratch(device));
    pthread_mutex_unlock(&g->lock);
    haul__cuda_leave(&scope);
    haul__events_release();
    return (size_t)bytes;
}

/* The caller holds the lock, and the context is current. */
static haul_status run_best(run *r)
{
    const haul__cudnn_plan *p;
    haul_status             status = HAUL_OK;
    cudnnStatus_t           code;
    if (!r->entry)
        return HAUL_UNSUPPORTED;
    if (r->entry->untimed)
        status = time_plans(r);
    if (status)
        return status;
    p = choose(r->gpu, r->entry, r->scratch_bytes);
    if (!p)
        return HAUL_UNSUPPORTED;
    code = execute(r, p);
    if (code == CUDNN_STATUS_SUCCESS)
        return HAUL_OK;
    return is_unsupported(code) ? HAUL_UNSUPPORTED : fail(r->stream->device, code);
}

haul_status haul__cudnn_compute(haul__stream *s, const void *problem)
{
    const haul__conv2d *call = problem;
    run                 r = {.stream = s, .gpu = gpu_of(s->device)};
    haul__cudnn_problem described = describe(call);
    haul__cuda_scope    scope;
    haul_status         status;
    find_buffers(call, r.buffers);
    HAUL__ASSERT(!call->has_bias == !call->bias && is_aligned(r.buffers));
    HAUL__ASSERT(!call->scratch == !call->scratch_bytes);
    if (call->scratch) {
        r.scratch = haul__cuda_address(call->scratch);
        r.scratch_bytes = (int64_t)call->scratch_bytes;
    }
    if (haul__cuda_enter(haul__cuda_of(s->device), &scope) != CUDA_SUCCESS)
        return HAUL_UNSUPPORTED; /* the launch of the kernels reports the reason */
    haul__events_hold();
    pthread_mutex_lock(&r.gpu->lock);
    r.entry = find(s->device, r.gpu, &described);
    status = run_best(&r);
    pthread_mutex_unlock(&r.gpu->lock);
    haul__cuda_leave(&scope);
    haul__events_release();
    return status;
}

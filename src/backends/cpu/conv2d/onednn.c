/* The implementation "onednn": convolutions by oneDNN 2, which is opened at run time, for shapes with so many channels
 * that its blocked layouts pay.
 *
 * Plans (oneDNN's primitives for one shape) are kept for the next call; runs execute them over pieces of the batch.
 * Tensors are row-major outside: each piece is copied to the layout that oneDNN prefers, and back. oneDNN uses one
 * thread per piece, and only the shape decides how the batch is cut, because oneDNN's own weight gradients depend on
 * the number of threads. */
#include "haul_config.h"

#include "backends/cpu/cpu.h"

#if defined(HAUL_HAVE_ONEDNN) && HAUL_ONEDNN_MAJOR == 2
#include <dlfcn.h>
#include <dnnl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/find.h"
#include "backends/cpu/gemm/tiles.h"
#include "backends/cpu/level.h"
#include "base/assert.h"
#include "base/system/fork.h"
#include "base/workspace.h"
#include "core/error.h"
#include "core/pool.h"

/* Channels of a group from which copies to blocked layouts pay; images in a piece, and in a piece with a large weight
 * or of a forward pass with large images, whose copies stay in a cache then; the most bytes for the weight gradients of
 * all pieces. */
#define MANY_CHANNELS  32
#define PIECE          8
#define SMALL_PIECE    2
#define LARGE_WEIGHT   (1 << 20)
#define LARGE_IMAGE    (1 << 17)
#define MOST_GRADIENTS (1 << 26)

/* ---- the library ---- */

#define FUNCTIONS(X)                                                                                                   \
    X(dnnl_set_max_cpu_isa)                                                                                            \
    X(dnnl_engine_create)                                                                                              \
    X(dnnl_stream_create)                                                                                              \
    X(dnnl_stream_destroy)                                                                                             \
    X(dnnl_stream_wait)                                                                                                \
    X(dnnl_memory_desc_init_by_tag)                                                                                    \
    X(dnnl_memory_desc_get_size)                                                                                       \
    X(dnnl_memory_create)                                                                                              \
    X(dnnl_memory_destroy)                                                                                             \
    X(dnnl_dilated_convolution_forward_desc_init)                                                                      \
    X(dnnl_dilated_convolution_backward_data_desc_init)                                                                \
    X(dnnl_dilated_convolution_backward_weights_desc_init)                                                             \
    X(dnnl_primitive_attr_create)                                                                                      \
    X(dnnl_primitive_attr_set_scratchpad_mode)                                                                         \
    X(dnnl_primitive_attr_destroy)                                                                                     \
    X(dnnl_primitive_desc_create)                                                                                      \
    X(dnnl_primitive_desc_destroy)                                                                                     \
    X(dnnl_primitive_desc_query_md)                                                                                    \
    X(dnnl_reorder_primitive_desc_create)                                                                              \
    X(dnnl_primitive_create)                                                                                           \
    X(dnnl_primitive_destroy)                                                                                          \
    X(dnnl_primitive_execute)

static struct {
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
    /* of the OpenMP runtime that oneDNN is linked with */
    int (*threads)(void);
    void (*set_threads)(int);
    dnnl_engine_t engine;
    bool          usable;
} dnnl;

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Keeps the library to the instructions that $HAUL_CPU_LEVEL allows. It fails if the library has computed something
 * before. */
static bool limit_instructions(void)
{
#if defined(__x86_64__)
    const haul__cpu_level_id level = haul__cpu_allowed_level();
    const dnnl_cpu_isa_t     most = level == HAUL__CPU_V3 ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41;
    return level >= HAUL__CPU_V4 || dnnl.dnnl_set_max_cpu_isa(most) == dnnl_success;
#else
    return true;
#endif
}

static void open_library(void)
{
    void *library = dlopen(HAUL_ONEDNN_SONAME, RTLD_NOW | RTLD_LOCAL);
    bool  found = library && haul__cpu_find(library, "omp_get_max_threads", &dnnl.threads) &&
                 haul__cpu_find(library, "omp_set_num_threads", &dnnl.set_threads);
#define X(name) found = found && haul__cpu_find(library, #name, &dnnl.name);
    FUNCTIONS(X)
#undef X
    dnnl.usable = found && limit_instructions() && dnnl.dnnl_engine_create(&dnnl.engine, dnnl_cpu, 0) == dnnl_success;
}

/* ---- plans ---- */

enum { X_, W_, Y_, BIAS_, TENSORS = BIAS_ };

/* A pass of convolutions of one shape. Tensors are `plain` outside and `blocked` inside; the result is copied outwards,
 * the others inwards. */
typedef struct plan {
    haul__conv2d_pass  pass;
    haul__conv2d       shape; /* without buffers */
    int                users; /* 0: it may be replaced */
    uint64_t           used;  /* time of use, to find the oldest */
    bool               ready;
    dnnl_primitive_t   convolution, copies[TENSORS];
    dnnl_memory_desc_t plain[TENSORS], blocked[TENSORS], bias,
        scratch[TENSORS + 1]; /* of the copies, the convolution */
} plan;

#define PLANS 64
static plan            plans[PLANS];
static uint64_t        plan_clock;
static pthread_mutex_t plans_lock = PTHREAD_MUTEX_INITIALIZER;

static int result_of(haul__conv2d_pass pass)
{
    return pass == HAUL__CONV2D_FORWARD ? Y_ : pass == HAUL__CONV2D_DATA ? X_ : W_;
}

static bool describe(plan *p, dnnl_memory_desc_t *any)
{
    const haul__conv2d *c = &p->shape;
    int64_t             g = c->groups;
    dnnl_dims_t         x = {c->n, c->c_in, c->h, c->w}, y = {c->n, c->c_out, c->out_h, c->out_w};
    dnnl_dims_t         w = {c->c_out, c->c_in, c->kh, c->kw}, bias = {c->c_out};
    dnnl_dims_t         grouped = {g, c->c_out / g, c->c_in / g, c->kh, c->kw};
    int                 w_dims = g > 1 ? 5 : 4;
    dnnl_status_t       bad = dnnl_success;
    HAUL__ASSERT(g > 0 && c->c_in % g == 0 && c->c_out % g == 0);
    for (int i = 0; i < TENSORS; i++) {
        const int64_t    *dims = i == X_ ? x : i == Y_ ? y : g > 1 ? grouped : w;
        dnnl_format_tag_t tag = i == W_ && g > 1 ? dnnl_abcde : dnnl_abcd;
        bad |= dnnl.dnnl_memory_desc_init_by_tag(&p->plain[i], i == W_ ? w_dims : 4, dims, dnnl_f32, tag);
        bad |= dnnl.dnnl_memory_desc_init_by_tag(&any[i], i == W_ ? w_dims : 4, dims, dnnl_f32, dnnl_format_tag_any);
    }
    bad |= dnnl.dnnl_memory_desc_init_by_tag(&p->bias, 1, bias, dnnl_f32, dnnl_a);
    return bad == dnnl_success;
}

/* The description of a convolution; backward passes also need that of the forward pass, as a hint. */
static dnnl_status_t make_convolution(plan *p, haul__conv2d_pass pass, const dnnl_memory_desc_t *any, bool bias,
                                      dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t hint,
                                      dnnl_primitive_desc_t *out)
{
    const haul__conv2d     *c = &p->shape;
    dnnl_convolution_desc_t d;
    dnnl_dims_t             stride = {c->stride[0], c->stride[1]}, padding = {c->padding[0], c->padding[1]};
    dnnl_dims_t             dilation = {c->dilation[0] - 1, c->dilation[1] - 1};
    dnnl_alg_kind_t         direct = dnnl_convolution_direct;
    dnnl_status_t           bad;
    if (pass == HAUL__CONV2D_FORWARD)
        bad = dnnl.dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training, direct, &any[X_], &any[W_],
                                                              bias ? &p->bias : NULL, &any[Y_], stride, dilation,
                                                              padding, padding);
    else if (pass == HAUL__CONV2D_DATA)
        bad = dnnl.dnnl_dilated_convolution_backward_data_desc_init(&d, direct, &any[X_], &any[W_], &any[Y_], stride,
                                                                    dilation, padding, padding);
    else
        bad = dnnl.dnnl_dilated_convolution_backward_weights_desc_init(&d, direct, &any[X_], &any[W_], NULL, &any[Y_],
                                                                       stride, dilation, padding, padding);
    return bad ? bad : dnnl.dnnl_primitive_desc_create(out, &d, attributes, dnnl.engine, hint);
}

/* Copies tensor `i` between its two layouts. */
static dnnl_status_t make_copy(plan *p, int i, dnnl_primitive_attr_t attributes)
{
    bool                  outwards = i == result_of(p->pass);
    dnnl_primitive_desc_t d = NULL;
    dnnl_status_t         bad =
        dnnl.dnnl_reorder_primitive_desc_create(&d, outwards ? &p->blocked[i] : &p->plain[i], dnnl.engine,
                                                outwards ? &p->plain[i] : &p->blocked[i], dnnl.engine, attributes);
    if (bad)
        return bad;
    p->scratch[i] = *dnnl.dnnl_primitive_desc_query_md(d, dnnl_query_scratchpad_md, 0);
    bad = dnnl.dnnl_primitive_create(&p->copies[i], d);
    dnnl.dnnl_primitive_desc_destroy(d);
    return bad;
}

static void query_layouts(plan *p, dnnl_primitive_desc_t d)
{
    static const dnnl_query_t queries[][TENSORS] = {
        [HAUL__CONV2D_FORWARD] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
        [HAUL__CONV2D_DATA] = {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
        [HAUL__CONV2D_WEIGHT] = {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md},
    };
    for (int i = 0; i < TENSORS; i++)
        p->blocked[i] = *dnnl.dnnl_primitive_desc_query_md(d, queries[p->pass][i], 0);
    p->scratch[TENSORS] = *dnnl.dnnl_primitive_desc_query_md(d, dnnl_query_scratchpad_md, 0);
}

static void clear_plan(plan *p)
{
    if (p->convolution)
        dnnl.dnnl_primitive_destroy(p->convolution);
    for (int i = 0; i < TENSORS; i++)
        if (p->copies[i])
            dnnl.dnnl_primitive_destroy(p->copies[i]);
    memset(p, 0, sizeof *p);
}

/* Primitives remember the number of threads they were made for: one. */
static bool make_plan(plan *p, bool bias)
{
    dnnl_memory_desc_t    any[TENSORS];
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t hint = NULL, d = NULL;
    int                   threads = dnnl.threads();
    HAUL__ASSERT(!p->convolution && p->users == 0);
    dnnl.set_threads(1);
    dnnl_status_t bad = describe(p, any) ? dnnl_success : dnnl_invalid_arguments;
    if (!bad)
        bad = dnnl.dnnl_primitive_attr_create(&attributes);
    if (!bad)
        bad = dnnl.dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (!bad && p->pass != HAUL__CONV2D_FORWARD)
        bad = make_convolution(p, HAUL__CONV2D_FORWARD, any, false, attributes, NULL, &hint);
    if (!bad)
        bad = make_convolution(p, p->pass, any, bias, attributes, hint, &d);
    if (!bad) {
        query_layouts(p, d);
        bad = dnnl.dnnl_primitive_create(&p->convolution, d);
    }
    for (int i = 0; i < TENSORS && !bad; i++)
        bad = make_copy(p, i, attributes);
    if (hint)
        dnnl.dnnl_primitive_desc_destroy(hint);
    if (d)
        dnnl.dnnl_primitive_desc_destroy(d);
    if (attributes)
        dnnl.dnnl_primitive_attr_destroy(attributes);
    dnnl.set_threads(threads);
    return bad == dnnl_success;
}

/* The shape of `c` for `images` images; of its buffers it only keeps whether there is a bias. */
static haul__conv2d key_of(const haul__conv2d *c, int64_t images)
{
    haul__conv2d key = {.dtype = c->dtype,
                        .n = images,
                        .c_in = c->c_in,
                        .h = c->h,
                        .w = c->w,
                        .c_out = c->c_out,
                        .kh = c->kh,
                        .kw = c->kw,
                        .out_h = c->out_h,
                        .out_w = c->out_w,
                        .groups = c->groups,
                        .has_bias = c->has_bias};
    memcpy(key.stride, c->stride, sizeof key.stride);
    memcpy(key.padding, c->padding, sizeof key.padding);
    memcpy(key.dilation, c->dilation, sizeof key.dilation);
    return key;
}

static bool same_shape(const haul__conv2d *a, const haul__conv2d *b)
{
    return a->n == b->n && a->c_in == b->c_in && a->h == b->h && a->w == b->w && a->c_out == b->c_out &&
           a->kh == b->kh && a->kw == b->kw && a->groups == b->groups && a->has_bias == b->has_bias &&
           memcmp(a->stride, b->stride, sizeof a->stride) == 0 &&
           memcmp(a->padding, b->padding, sizeof a->padding) == 0 &&
           memcmp(a->dilation, b->dilation, sizeof a->dilation) == 0;
}

HAUL__MUTEX_AT_FORK(HAUL__FORK_ONEDNN, plans_lock);

/* The plan for this shape, made if there is none. NULL if oneDNN cannot do it, or if all plans are in use. */
static plan *take_plan(haul__conv2d_pass pass, const haul__conv2d *c, int64_t images)
{
    haul__conv2d key = key_of(c, images);
    plan        *found = NULL, *oldest = NULL;
    take_lock();
    for (int i = 0; i < PLANS && !found; i++) {
        plan *p = &plans[i];
        if (p->ready && p->pass == pass && same_shape(&p->shape, &key))
            found = p;
        if (p->users == 0 && (!oldest || p->used < oldest->used))
            oldest = p;
    }
    if (!found && oldest) {
        clear_plan(oldest);
        oldest->pass = pass;
        oldest->shape = key;
        if (make_plan(oldest, c->has_bias))
            found = oldest;
        else
            clear_plan(oldest);
    }
    if (found) {
        HAUL__ASSERT(found->convolution && found->pass == pass && found->shape.n == images);
        found->ready = true;
        found->users++;
        found->used = ++plan_clock;
    }
    give_lock();
    return found;
}

static void give_plan(plan *p)
{
    if (!p)
        return;
    take_lock();
    HAUL__ASSERT(p->users > 0 && p->ready);
    p->users--;
    give_lock();
}

/* ---- runs ---- */

typedef struct run {
    const haul__conv2d *c;
    haul__conv2d_pass   pass;
    plan               *whole, *rest; /* for a piece, and for the last one if it has fewer images */
    int64_t             per_piece, pieces;
    size_t              weight_bytes, bytes[TENSORS], scratch_bytes;
    char               *weights; /* blocked: the weight, or the gradients of all pieces */
    haul__cpu_scratch   scratch;
    atomic_bool         failed;
} run;

static size_t aligned_size(const dnnl_memory_desc_t *d)
{
    return (dnnl.dnnl_memory_desc_get_size(d) + 63) & ~(size_t)63;
}

/* Executes with `count` buffers as arguments, on this thread alone. */
typedef struct argument {
    int                       kind;
    const dnnl_memory_desc_t *layout;
    void                     *data;
} argument;

static bool execute(dnnl_primitive_t primitive, dnnl_stream_t stream, const argument *arguments, int count)
{
    dnnl_exec_arg_t list[6] = {0};
    int             made = 0;
    bool            fine = true;
    HAUL__ASSERT(0 < count && count <= (int)(sizeof list / sizeof *list));
    while (fine && made < count) {
        const argument *a = &arguments[made];
        list[made].arg = a->kind;
        fine = dnnl.dnnl_memory_create(&list[made].memory, a->layout, dnnl.engine, a->data) == dnnl_success;
        made += fine;
    }
    fine = fine && dnnl.dnnl_primitive_execute(primitive, stream, count, list) == dnnl_success &&
           dnnl.dnnl_stream_wait(stream) == dnnl_success;
    for (int i = 0; i < made; i++)
        dnnl.dnnl_memory_destroy(list[i].memory);
    return fine;
}

static bool copy(const plan *p, int tensor, dnnl_stream_t stream, void *plain, void *blocked, void *scratch)
{
    bool     outwards = tensor == result_of(p->pass);
    argument a[] = {
        {DNNL_ARG_FROM, outwards ? &p->blocked[tensor] : &p->plain[tensor], outwards ? blocked : plain},
        {DNNL_ARG_TO, outwards ? &p->plain[tensor] : &p->blocked[tensor], outwards ? plain : blocked},
        {DNNL_ARG_SCRATCHPAD, &p->scratch[tensor], scratch},
    };
    return execute(p->copies[tensor], stream, a, 3);
}

static bool convolve(const run *r, const plan *p, dnnl_stream_t stream, char *const *blocked, void *scratch)
{
    static const int kinds[][TENSORS] = {
        [HAUL__CONV2D_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
        [HAUL__CONV2D_DATA] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
        [HAUL__CONV2D_WEIGHT] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
    };
    argument a[TENSORS + 2];
    int      count = 0;
    for (; count < TENSORS; count++)
        a[count] = (argument){kinds[p->pass][count], &p->blocked[count], blocked[count]};
    a[count++] = (argument){DNNL_ARG_SCRATCHPAD, &p->scratch[TENSORS], scratch};
    if (r->c->has_bias)
        a[count++] = (argument){DNNL_ARG_BIAS, &p->bias, (float *)r->c->bias->host + r->c->bias_offset};
    return execute(p->convolution, stream, a, count);
}

static bool run_piece(const run *r, int64_t piece, char *memory, dnnl_stream_t stream)
{
    const haul__conv2d *c = r->c;
    const plan         *p = piece == r->pieces - 1 && r->rest ? r->rest : r->whole;
    int64_t             first = piece * r->per_piece;
    HAUL__ASSERT(first < c->n && (!r->rest || r->pieces > 1));
    bool   own_weight = r->pass == HAUL__CONV2D_WEIGHT;
    char  *blocked[] = {memory, r->weights + (own_weight ? (size_t)piece * r->weight_bytes : 0), memory + r->bytes[X_]};
    char  *scratch = memory + r->bytes[X_] + r->bytes[Y_];
    float *plain[] = {(float *)c->x->host + c->x_offset + first * c->c_in * c->h * c->w, NULL,
                      (float *)c->y->host + c->y_offset + first * c->c_out * c->out_h * c->out_w};
    for (int i = X_; i <= Y_; i += Y_ - X_)
        if (i != result_of(r->pass) && !copy(p, i, stream, plain[i], blocked[i], scratch))
            return false;
    if (!convolve(r, p, stream, blocked, scratch))
        return false;
    int result = result_of(r->pass);
    return result == W_ || copy(p, result, stream, plain[result], blocked[result], scratch);
}

static void run_pieces(void *context, int64_t first, int64_t last)
{
    run          *r = context;
    int           slot, threads = dnnl.threads();
    char         *memory = haul__cpu_scratch_take(&r->scratch, &slot);
    dnnl_stream_t stream = NULL;
    dnnl.set_threads(1);
    bool fine = dnnl.dnnl_stream_create(&stream, dnnl.engine, dnnl_stream_default_flags) == dnnl_success;
    for (int64_t i = first; i < last && fine; i++)
        fine = run_piece(r, i, memory, stream);
    if (!fine)
        atomic_store(&r->failed, true);
    if (stream)
        dnnl.dnnl_stream_destroy(stream);
    dnnl.set_threads(threads);
    haul__cpu_scratch_give(&r->scratch, slot);
}

/* Adds the gradients of all pieces to the first, in order, a range of elements per call. */
static void add_pieces(void *context, int64_t first, int64_t last)
{
    run *r = context;
    for (int64_t p = 1; p < r->pieces; p++)
        haul__cpu_tiles_for(HAUL_F32)->add((float *)(void *)r->weights + first,
                                           (float *)(void *)(r->weights + (size_t)p * r->weight_bytes) + first,
                                           last - first);
}

/* Copies the weight to its blocked layout, or its gradient from there. */
static bool copy_weight(run *r)
{
    int           slot, threads = dnnl.threads();
    char         *memory = haul__cpu_scratch_take(&r->scratch, &slot);
    float        *plain = (float *)r->c->weight->host + r->c->weight_offset;
    dnnl_stream_t stream = NULL;
    dnnl.set_threads(1);
    bool fine = dnnl.dnnl_stream_create(&stream, dnnl.engine, dnnl_stream_default_flags) == dnnl_success &&
                copy(r->whole, W_, stream, plain, r->weights, memory);
    if (stream)
        dnnl.dnnl_stream_destroy(stream);
    dnnl.set_threads(threads);
    haul__cpu_scratch_give(&r->scratch, slot);
    return fine;
}

static bool run_all(run *r)
{
    bool gradient = r->pass == HAUL__CONV2D_WEIGHT;
    if (!gradient && !copy_weight(r))
        return false;
    haul__parallel_for(r->pieces, 1, run_pieces, r);
    if (atomic_load(&r->failed))
        return false;
    if (gradient)
        haul__parallel_for((int64_t)(r->weight_bytes / sizeof(float)), 1 << 14, add_pieces, r);
    return !gradient || copy_weight(r);
}

static void measure(run *r)
{
    r->weight_bytes = aligned_size(&r->whole->blocked[W_]);
    r->bytes[X_] = aligned_size(&r->whole->blocked[X_]);
    r->bytes[Y_] = aligned_size(&r->whole->blocked[Y_]);
    for (int k = 0; k < 2; k++) {
        const plan *p = k ? r->rest : r->whole;
        for (int i = 0; p && i <= TENSORS; i++)
            if (aligned_size(&p->scratch[i]) > r->scratch_bytes)
                r->scratch_bytes = aligned_size(&p->scratch[i]);
    }
}

/* Plans of different sizes may prefer different layouts of the weight; then they have none in common. */
static bool same_weight(const run *r)
{
    return !r->rest || memcmp(&r->whole->blocked[W_], &r->rest->blocked[W_], sizeof r->whole->blocked[W_]) == 0;
}

static haul_status run_plans(run *r)
{
    haul_status status = HAUL_UNSUPPORTED;
    size_t      copies = r->pass == HAUL__CONV2D_WEIGHT ? (size_t)r->pieces : 1;
    measure(r);
    char  *block = haul__work_alloc(copies * r->weight_bytes + 64);
    size_t bytes = r->bytes[X_] + r->bytes[Y_] + r->scratch_bytes + 64;
    if (!block || !haul__cpu_scratch_open(&r->scratch, bytes, r->pieces)) {
        status = haul__fail_memory("haul_conv2d", bytes);
        goto out;
    }
    r->weights = (char *)(((uintptr_t)block + 63) & ~(uintptr_t)63);
    if (run_all(r))
        status = HAUL_OK;
    haul__cpu_scratch_close(&r->scratch);
out:
    haul__work_free(block);
    return status;
}

/* How many images make a piece, decided by the shape alone. Each piece has its own weight gradient. */
static int64_t piece_of(haul__conv2d_pass pass, const haul__conv2d *c)
{
    int64_t weight = c->c_out * (c->c_in / c->groups) * c->kh * c->kw * (int64_t)sizeof(float);
    int64_t image = (c->c_in * c->h * c->w + c->c_out * c->out_h * c->out_w) * (int64_t)sizeof(float);
    bool    large = weight > LARGE_WEIGHT || (pass == HAUL__CONV2D_FORWARD && image > LARGE_IMAGE);
    int64_t most = large ? SMALL_PIECE : PIECE;
    while (pass == HAUL__CONV2D_WEIGHT && 2 * most < c->n && c->n / most * weight > MOST_GRADIENTS)
        most *= 2;
    return c->n < most ? c->n : most;
}

/* The library is opened for the first problem that passes all other tests. */
const char *haul__cpu_onednn_refuses(haul_device *device, const void *problem)
{
    const haul__conv2d *c = problem;
    (void)device;
    if (c && c->channels_last)
        return "it takes row-major tensors only";
    if (c && (c->c_in / c->groups < MANY_CHANNELS || c->c_out / c->groups < MANY_CHANNELS))
        return "fewer than 32 channels in a group: converting layouts costs more than it saves";
    if (c && c->dtype != HAUL_F32)
        return "it takes f32 only";
    if (c && c->relu)
        return "it does no relu";
    if (c && c->has_bias && c->pass != HAUL__CONV2D_FORWARD)
        return "it adds no bias to a transposed convolution";
    pthread_once(&once, open_library);
    return dnnl.usable ? NULL : HAUL_ONEDNN_SONAME " was not found, or cannot be used";
}

haul_status haul__cpu_onednn(haul__stream *s, const void *problem)
{
    const haul__conv2d *c = problem;
    (void)s;
    run r = {.c = c, .pass = c->pass, .per_piece = piece_of(c->pass, c)};
    HAUL__ASSERT(r.per_piece > 0);
    r.pieces = (c->n + r.per_piece - 1) / r.per_piece;
    int64_t rest = c->n % r.per_piece;
    r.whole = take_plan(c->pass, c, r.per_piece);
    r.rest = rest && r.whole ? take_plan(c->pass, c, rest) : NULL;
    haul_status status = HAUL_UNSUPPORTED;
    if (r.whole && (!rest || r.rest) && same_weight(&r))
        status = run_plans(&r);
    give_plan(r.whole);
    give_plan(r.rest);
    return status;
}
#endif

/* Dropout (Srivastava et al. 2014). The mask is not stored: element i is dropped when its random word is below p 2^32,
 * and the gradient draws the same words again from the saved seed and offset. Elements are counted as they lie in
 * memory. */
#include "engine/dispatch.h"
#include "kernels/types.h"
#include "ops/generator.h"

// clang-format off
/* kernel text begins */
typedef struct dropout_params {
    I64 items; /* blocks of four elements */
    I64 count;
    I64 out_offset, x_offset;
    U64 seed, offset;
    U64 threshold; /* words below are dropped */
    U64 scale;
} dropout_params;

#ifdef HAUL_KERNEL
#if IS_FLOAT
KERNEL2(dropout, dropout_params, T, out, const T, x)
{
    const A scale = SCALAR(p.scale);
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        U32 words[4 * PHILOX_BLOCKS];
        const I64 blocks = CHUNKED ? M_MIN_OF(ITEMS_END - i, PHILOX_BLOCKS) : 1, left = p.count - 4 * i;
        const int n = (int)M_MIN_OF(left, 4 * blocks);
        philox(p.seed, p.offset + (U64)i, words);
        GLOBAL const T *v = x + p.x_offset + 4 * i;
        GLOBAL T *o = out + p.out_offset + 4 * i;
        VECTOR_LOOP for (int k = 0; k < n; k++) STORE(o, k, words[k] < p.threshold ? LIT(0.0) : LOAD(v, k) * scale);
        i += ITEMS_STEP(blocks);
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

typedef struct dropout_attributes {
    double            p;
    haul_random_state state;
    int64_t           strides[HAUL_MAX_DIMS]; /* of the result: where the gradient finds its element i */
} dropout_attributes;

static haul_tensor *drop(haul_tensor *x, const dropout_attributes *a);

/* Linear in x: the gradient is the same operation. */
static haul_status drop_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    out[0] = drop(g, node->attributes);
    return out[0] ? HAUL_OK : haul_error_status();
}

static int64_t block_count(const haul_tensor *x)
{
    return x->count / 4 + (x->count % 4 != 0);
}

static const haul__slot_use slots[] = {HAUL__SLOT_INTEGER(random_offset, dropout_params, offset)};

static haul_tensor *drop(haul_tensor *x, const dropout_attributes *a)
{
    haul_tensor *y =
        x ? haul__result_strided("haul_dropout", x->storage->device, x->dtype, &x->shape, a->strides) : NULL;
    if (!y || (!haul__tensor_same_layout(x, y) && !(x = haul__in_order_of("haul_dropout", x, y))))
        return NULL;
    dropout_params p = {.items = block_count(x),
                        .count = x->count,
                        .out_offset = y->offset,
                        .x_offset = x->offset,
                        .seed = a->state.seed,
                        .offset = a->state.offset,
                        .threshold = (uint64_t)(a->p * 4294967296.0),
                        .scale = haul__scalar_bits(x->dtype, a->p < 1 ? 1 / (1 - a->p) : 0)};
    if (haul__run_with_slots("haul_dropout", x->storage->device, HAUL__K_dropout, x->dtype, &y, 1, &x, 1, &p, sizeof p,
                             slots, 1, p.items, 2048))
        return NULL;
    return haul__finish(y, &(haul__record){.name = "haul_dropout",
                                           .backward = drop_backward,
                                           .inputs = &x,
                                           .input_count = 1,
                                           .attributes = a,
                                           .attributes_size = sizeof *a});
}

haul_tensor *haul_dropout(haul_tensor *x, double p, bool training)
{
    if (!haul__place("haul_dropout", &x, (const char *const[]){"x"}, 1))
        return NULL;
    if (!(p >= 0 && p <= 1)) {
        haul__fail(HAUL_INVALID_ARGUMENT, "haul_dropout", "p", "p is %g; a probability is between 0 and 1", p);
        return NULL;
    }
    if (!haul_dtype_is_float(x->dtype)) {
        haul__fail_dtype("haul_dropout", "x", x, "a floating dtype is expected");
        return NULL;
    }
    if (!training || p == 0)
        return haul_view(x, x->shape);
    dropout_attributes a = {.p = p, .state = haul__random_take(block_count(x))};
    haul__shape_strides_like(&x->shape, x->strides, a.strides);
    haul_scope  *scope = haul_scope_push();
    haul_tensor *y = scope ? haul_scope_return(scope, drop(x, &a)) : NULL;
    if (!y)
        haul__random_give_back(a.state, block_count(x));
    return y;
}

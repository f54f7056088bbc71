/* A call of an operation from outside the library. The functions of its internal descriptor call the program's
 * functions and check everything they return. */
#include <string.h>

#include "base/assert.h"
#include "core/guest.h"
#include "device/residency.h"
#include "engine/copy.h"
#include "engine/custom/custom.h"
#include "engine/driver.h"
#include "engine/follow.h"
#include "engine/layout/layout.h"
#include "kernels/kernels.h"
#include "kernels/types.h"

/* after the types */
#include "kernels/custom.h"

_Static_assert(sizeof((haul_kernel_params){0}.at) / sizeof(I64) == HAUL_KERNEL_BUFFERS, "an offset for each buffer");
_Static_assert(sizeof((haul_kernel_params){0}.sizes) / sizeof(I64) == HAUL_KERNEL_SIZES, "as the public header says");
_Static_assert(sizeof((haul_kernel_params){0}.numbers) / sizeof(U64) == HAUL_KERNEL_NUMBERS, "as the header says");

static const haul__custom *custom_of(const haul__call *c)
{
    return c->operation->extra;
}

const char *haul__custom_way(const haul__custom *custom, const haul_device *device)
{
    if (custom->own.compose)
        return "operations";
    if (custom->own.host && haul__device_is_host(device))
        return "host";
    return custom->own.kernel ? "kernel" : NULL;
}

/* ---- what the program's functions receive ---- */

static void describe(haul_custom_array *out, const haul_tensor *t)
{
    out->data = NULL;
    out->dtype = HAUL_DTYPE_NONE;
    out->count = out->shape.ndim = 0;
    if (!t || haul__is_none(t))
        return;
    out->dtype = t->dtype;
    out->shape = t->shape;
    out->count = t->count;
}

static void view_call(const haul__call *c, haul_custom_call *out)
{
    HAUL__ASSERT(c->count <= HAUL_CUSTOM_OPERANDS && c->result_count <= HAUL_CUSTOM_RESULTS);
    out->name = c->operation->name;
    out->attributes = c->operation->attributes_size ? (void *)(uintptr_t)c->attributes : NULL;
    out->operand_count = c->count;
    out->result_count = c->result_count;
    for (int i = 0; i < c->count; i++)
        describe(&out->operands[i], c->operands[i]);
    for (int i = 0; i < c->result_count; i++)
        describe(&out->results[i], c->inferred ? c->results[i] : NULL);
}

/* Before a call of one of the program's functions. */
typedef struct before_call {
    haul__error_record error;
    haul__guest        guest;
} before_call;

/* Surrounds a call of one of the program's functions. An error recorded after `listen` is the function's. An earlier
 * error stays, unless the function fails. A failure without an error names the function. */
static void listen(before_call *before)
{
    before->guest = haul__guest_begin();
    before->error.status = haul_error_status();
    if (!before->error.status)
        return;
    haul__error_save(&before->error);
    haul_error_clear();
}

static haul_status answered(const char *operation, const char *function, haul_status status, const before_call *before)
{
    status = haul__guest_end(&before->guest, status, operation);
    if (status && haul_error_status())
        return haul_error_status();
    if (status)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, function,
                          "%s returned %d but recorded no error; record one with haul_error_set", function,
                          (int)status);
    if (before->error.status)
        haul__error_restore(&before->error);
    return HAUL_OK;
}

/* ---- infer ---- */

static haul_status check_result(const haul__call *c, int i, const haul_custom_array *y)
{
    const char *name = c->operation->results[i].name;
    if (y->dtype <= HAUL_DTYPE_NONE || y->dtype >= HAUL_DTYPE_END)
        return haul__fail(HAUL_DTYPE, c->operation->name, name,
                          "infer did not set the dtype of %s (it is %d); set .dtype of every result", name,
                          (int)y->dtype);
    if (y->shape.ndim < 0 || y->shape.ndim > HAUL_MAX_DIMS)
        return haul__fail(HAUL_SHAPE, c->operation->name, name, "infer gives %s %d dimensions; 0 to %d are expected",
                          name, y->shape.ndim, HAUL_MAX_DIMS);
    for (int d = 0; d < y->shape.ndim; d++)
        if (y->shape.dims[d] < 0)
            return haul__fail(HAUL_SHAPE, c->operation->name, name,
                              "infer gives dimension %d of %s the size %lld; sizes must not be negative", d, name,
                              (long long)y->shape.dims[d]);
    return HAUL_OK;
}

static haul_status like_first(const haul__call *c, haul_custom_call *call)
{
    int first = 0;
    while (haul__is_none(c->operands[first])) /* a required one */
        first++;
    HAUL__ASSERT(first < c->count);
    for (int i = 0; i < call->result_count; i++) {
        call->results[i].dtype = call->operands[first].dtype;
        call->results[i].shape = call->operands[first].shape;
    }
    return HAUL_OK;
}

static haul_status ask_infer(const haul__call *c, haul_custom_call *call)
{
    before_call before;
    if (!custom_of(c)->own.infer)
        return like_first(c, call);
    listen(&before);
    haul_status status = answered(call->name, "infer", custom_of(c)->own.infer(call), &before);
    for (int i = 0; i < c->result_count && !status; i++)
        status = check_result(c, i, &call->results[i]);
    return status;
}

/* No gradient would flow, and the user would not learn why. */
static haul_status check_gradient(const haul__call *c, const haul_custom_call *call)
{
    int i = 0;
    if (!c->wanted || c->operation->gradient)
        return HAUL_OK;
    while (i < call->result_count && !haul_dtype_is_float(call->results[i].dtype))
        i++;
    if (i == call->result_count)
        return HAUL_OK;
    for (i = 0; i < c->count - 1 && !(c->wanted >> i & 1);)
        i++;
    HAUL__ASSERT(c->wanted >> i & 1);
    return haul__fail(HAUL_GRAPH, c->operation->name, haul__operand_name(c, i),
                      "%s requires a gradient, but the operation has no gradient function; add .gradient to its "
                      "descriptor, or detach %s",
                      haul__operand_name(c, i), haul__operand_name(c, i));
}

static haul_status check_device(const haul__call *c)
{
    if (!haul__device_computes(c->device) || haul__custom_way(custom_of(c), c->device))
        return HAUL_OK;
    return haul__fail(HAUL_UNSUPPORTED, c->operation->name, NULL,
                      "it has a host function only, but the operands are on %s; move them with haul_to(x, haul_cpu()), "
                      "or give the operation a kernel",
                      c->device->name);
}

/* ---- kernels ---- */

bool haul__custom_buffer_is_element(const char *type)
{
    return strcmp(type + (strncmp(type, "const ", 6) == 0 ? 6 : 0), "T") == 0;
}

haul_dtype haul__custom_buffer_dtype(const char *type, haul_dtype dtype)
{
    static const struct {
        const char *word;
        haul_dtype  dtype;
    } words[] = {{"F32", HAUL_F32}, {"F64", HAUL_F64}, {"U8", HAUL_U8},  {"I8", HAUL_I8},
                 {"I16", HAUL_I16}, {"I32", HAUL_I32}, {"I64", HAUL_I64}};
    if (haul__custom_buffer_is_element(type))
        return dtype;
    type += strncmp(type, "const ", 6) == 0 ? 6 : 0;
    if (strcmp(type, "A") == 0 || strcmp(type, "ACC") == 0)
        return haul__sum_dtype(dtype);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(type, words[i].word) == 0)
            return words[i].dtype;
    return HAUL_DTYPE_NONE;
}

/* Buffer i of the kernel: a result or an operand. */
static const haul_custom_array *buffer_of(const haul_custom_call *call, int i)
{
    return i < call->result_count ? &call->results[i] : &call->operands[i - call->result_count];
}

static const char *buffer_name(const haul__call *c, int i)
{
    return i < c->result_count ? c->operation->results[i].name : haul__operand_name(c, i - c->result_count);
}

/* T of the launch: the dtype of the buffers that have type T; f32 if there are none. */
static haul_dtype kernel_dtype(const haul__custom *custom, const haul_custom_call *call)
{
    for (int i = 0; i < custom->kernel.buffer_count; i++)
        if (haul__custom_buffer_is_element(custom->kernel.buffers[i].type) && buffer_of(call, i)->dtype)
            return buffer_of(call, i)->dtype;
    return HAUL_F32;
}

/* A kernel that indexes beyond the elements would read or write outside its buffers. */
static haul_status check_buffers(const haul__call *c, const haul_custom_call *call)
{
    const haul__custom *custom = custom_of(c);
    haul_dtype          dtype = custom->own.kernel ? kernel_dtype(custom, call) : HAUL_F32;
    HAUL__ASSERT(!custom->own.kernel || custom->kernel.buffer_count == c->count + c->result_count);
    if (!haul_dtype_is_float(dtype))
        return haul__fail(HAUL_DTYPE, c->operation->name, NULL,
                          "kernel %s would compute in %s; kernels compute in floating dtypes", custom->kernel.name,
                          haul_dtype_name(dtype));
    for (int i = 0; custom->own.kernel && i < custom->kernel.buffer_count; i++) {
        const char *type = custom->kernel.buffers[i].type;
        haul_dtype  have = buffer_of(call, i)->dtype, want = haul__custom_buffer_dtype(type, dtype);
        if (have && have != want && !(have == HAUL_BOOL && want == HAUL_U8))
            return haul__fail(HAUL_DTYPE, c->operation->name, buffer_name(c, i),
                              "%s is %s, but kernel %s takes it as %s, which is %s here", buffer_name(c, i),
                              haul_dtype_name(have), custom->kernel.name, type, haul_dtype_name(want));
    }
    return HAUL_OK;
}

static haul_status infer(haul__call *c)
{
    haul_custom_call call;
    view_call(c, &call);
    haul_status status = check_device(c);
    if (!status)
        status = ask_infer(c, &call);
    if (!status)
        status = check_buffers(c, &call);
    if (!status)
        status = check_gradient(c, &call);
    for (int i = 0; i < c->result_count && !status; i++)
        status = haul__describe(c, i, call.results[i].dtype, &call.results[i].shape);
    return status;
}

/* ---- compute ---- */

static int64_t most_elements(const haul_custom_call *call)
{
    int64_t most = 1;
    for (int i = 0; i < call->result_count + call->operand_count; i++)
        most = buffer_of(call, i)->count > most ? buffer_of(call, i)->count : most;
    return most;
}

/* A piece of the work has about as many elements as in pointwise operations. */
static int64_t grain_of(const haul_custom_call *call, int64_t items)
{
    int64_t each = most_elements(call) / items;
    return each < HAUL__POINTWISE_GRAIN ? HAUL__POINTWISE_GRAIN / (each ? each : 1) : 1;
}

static haul_status ask_launch(const haul__call *c, const haul_custom_call *call, haul_kernel_launch *out)
{
    before_call before;
    *out = (haul_kernel_launch){.items = call->results[0].count};
    for (int i = 0; i < custom_of(c)->own.numbers; i++)
        out->numbers[i] = ((const double *)call->attributes)[i];
    if (!custom_of(c)->own.launch)
        return HAUL_OK;
    listen(&before);
    if (answered(call->name, "launch", custom_of(c)->own.launch(call, out), &before))
        return haul_error_status();
    if (out->items < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, call->name, "launch",
                          "launch asks for %lld work items; the number must not be negative", (long long)out->items);
    return HAUL_OK;
}

static haul_status launch(haul__call *c, const haul_custom_call *call)
{
    haul_kernel_launch  asked;
    const haul__custom *custom = custom_of(c);
    haul_dtype          dtype = kernel_dtype(custom, call);
    haul_tensor        *buffers[HAUL_KERNEL_BUFFERS];
    haul_kernel_params  p;
    if (ask_launch(c, call, &asked))
        return haul_error_status();
    HAUL__ASSERT(custom->kernel.buffer_count == c->result_count + c->count);
    p.items = asked.items;
    for (int i = 0; i < HAUL_KERNEL_BUFFERS; i++)
        p.at[i] = -1;
    for (int i = 0; i < custom->kernel.buffer_count; i++) {
        buffers[i] = i < c->result_count ? c->results[i] : c->operands[i - c->result_count];
        p.at[i] = haul__is_none(buffers[i]) ? -1 : buffers[i]->offset;
        buffers[i] = haul__is_none(buffers[i]) ? c->results[0] : buffers[i]; /* valid memory, which is not read */
    }
    for (int i = 0; i < HAUL_KERNEL_SIZES; i++)
        p.sizes[i] = asked.sizes[i];
    for (int i = 0; i < HAUL_KERNEL_NUMBERS; i++)
        p.numbers[i] = haul__scalar_bits(dtype, asked.numbers[i]);
    if (!asked.items)
        return HAUL_OK;
    return haul__launch_kernel(c, c->operation->kernel, dtype, .outs = buffers, .out_count = c->result_count,
                               .ins = buffers + c->result_count, .in_count = c->count, .params = &p,
                               .params_size = sizeof p, .items = asked.items, .grain = grain_of(call, asked.items));
}

typedef struct host_params {
    const haul__custom     *custom;
    const haul_custom_call *call;
} host_params;

static haul_status run_host(haul__stream *s, const haul__command *command)
{
    const host_params *p = command->params;
    before_call        before;
    (void)s;
    listen(&before);
    return answered(command->operation, "host", p->custom->own.host(p->call), &before);
}

static void *elements_of(const haul_tensor *t)
{
    return (char *)t->storage->buffer.host + (size_t)t->offset * haul__dtype_size(t->dtype);
}

static haul_status call_host(haul__call *c, haul_custom_call *call)
{
    haul__region buffers[HAUL_CUSTOM_RESULTS + HAUL_CUSTOM_OPERANDS];
    host_params  p = {.custom = custom_of(c), .call = call};
    int          count = 0;
    for (int i = 0; i < c->result_count; i++) {
        buffers[count++] = (haul__region){c->results[i]->storage, 0};
    }
    for (int i = 0; i < c->count; i++)
        if (haul__has(c, i)) {
            buffers[count++] = (haul__region){c->operands[i]->storage, 0};
        }
    HAUL__ASSERT(count > c->result_count); /* an operand is required */
    haul__command command = {.kind = HAUL__COMMAND_LIBRARY,
                             .operation = c->operation->name,
                             .device = c->device,
                             .buffers = buffers,
                             .write_count = c->result_count,
                             .buffer_count = count,
                             .params = &p,
                             .params_size = sizeof p,
                             .run = run_host};
    if (haul__is_dry())
        return haul__residency_plan(&command);
    if (haul__residency_bring(&command))
        return haul_error_status();
    HAUL__ASSERT(haul__device_is_host(c->device));
    for (int i = 0; i < c->result_count; i++)
        call->results[i].data = elements_of(c->results[i]);
    for (int i = 0; i < c->count; i++)
        if (haul__has(c, i))
            call->operands[i].data = elements_of(c->operands[i]);
    return haul__submit(&command);
}

/* A function or a kernel of the program may leave any byte in a bool: all but 0 become 1. */
static haul_status normalise(const haul__call *c, haul_tensor *y)
{
    haul_tensor *bytes = haul__tensor_wrap(y->storage, HAUL_U8, &y->shape, y->strides, y->offset);
    haul_status  status = bytes ? haul__copy_elements(y, bytes, c->operation->name) : haul_error_status();
    haul__object_release(bytes);
    return status;
}

static haul_status compute(haul__call *c)
{
    haul_custom_call call;
    view_call(c, &call);
    HAUL__ASSERT(haul__custom_way(custom_of(c), c->device)); /* check_device refused the others */
    const bool  on_host = strcmp(haul__custom_way(custom_of(c), c->device), "host") == 0;
    haul_status status = on_host ? call_host(c, &call) : launch(c, &call);
    for (int i = 0; i < c->result_count && !status; i++)
        if (c->results[i]->dtype == HAUL_BOOL)
            status = normalise(c, c->results[i]);
    return status;
}

/* ---- compose ---- */

static haul_status check_composed(haul__call *c, int i, const haul_custom_array *described)
{
    char               have[80], want[80];
    const char        *name = c->operation->results[i].name;
    const haul_tensor *y = c->results[i];
    if (!y || haul__is_none(y))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, name, "compose did not set a tensor for %s", name);
    if (haul__check_tensor(c->operation->name, name, y))
        return haul_error_status();
    if (!custom_of(c)->own.infer || (y->dtype == described->dtype && haul__shape_equal(&y->shape, &described->shape)))
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, c->operation->name, name, "compose gives %s as %s%s, but infer describes it as %s%s",
                      name, haul_dtype_name(y->dtype), haul__shape_text(&y->shape, have, sizeof have),
                      haul_dtype_name(described->dtype), haul__shape_text(&described->shape, want, sizeof want));
}

static haul_status compose(haul__call *c)
{
    haul_custom_call     call;
    before_call          before;
    haul__asked_function asked = {.operation = c->operation, .given = c->operands, .count = c->count};
    haul_status          status = HAUL_OK;
    for (int i = 0; i < c->result_count; i++)
        c->results[i] = NULL;
    view_call(c, &call);
    if (custom_of(c)->own.infer)
        status = ask_infer(c, &call);
    if (!status)
        status = haul__record_begin_function(&asked);
    if (status)
        return status;
    listen(&before);
    status = answered(call.name, "compose", custom_of(c)->own.compose(&call, c->operands, c->results), &before);
    for (int i = 0; i < c->result_count && !status; i++)
        status = check_composed(c, i, &call.results[i]);
    const haul_status recorded = haul__record_end_function(&asked, status ? NULL : c->results, c->result_count);
    status = status ? status : recorded;
    for (int i = 0; i < c->result_count && status; i++)
        c->results[i] = NULL;
    return status;
}

/* ---- gradients ---- */

/* True if the elements of `wide` sum up to `narrow`, which was broadcast. */
static bool sums_to(const haul_shape *wide, const haul_shape *narrow)
{
    if (wide->ndim < narrow->ndim)
        return false;
    for (int i = 1; i <= narrow->ndim; i++) {
        int64_t have = wide->dims[wide->ndim - i], want = narrow->dims[narrow->ndim - i];
        if (have != want && want != 1)
            return false;
    }
    return true;
}

static haul_status check_given(const haul__gradient *g, int i, const haul_tensor *given)
{
    char        have[80], want[80];
    const char *operation = g->operation->name, *name = g->operation->operands[i].name;
    if (!given && !haul_error_status())
        return haul__fail(HAUL_GRAPH, operation, name, "gradient set NULL for %s; expected a tensor or HAUL_NONE",
                          name);
    if (haul__is_none(given))
        return HAUL_OK;
    if (haul__check_tensor(operation, name, given))
        return haul_error_status();
    if (!haul_dtype_is_float(given->dtype))
        return haul__fail(HAUL_DTYPE, operation, name, "the gradient of %s is %s; a floating dtype is expected", name,
                          haul_dtype_name(given->dtype));
    if (!sums_to(&given->shape, haul__operand_shape(g, i)))
        return haul__fail(HAUL_SHAPE, operation, name, "the gradient of %s has shape %s, but %s has shape %s", name,
                          haul__shape_text(&given->shape, have, sizeof have), name,
                          haul__shape_text(haul__operand_shape(g, i), want, sizeof want));
    return HAUL_OK;
}

static void describe_gradient(const haul__gradient *g, haul_custom_gradient *own)
{
    const haul__custom *custom = g->operation->extra;
    *own = (haul_custom_gradient){.name = g->operation->name,
                                  .attributes = g->operation->attributes_size ? g->attributes : NULL,
                                  .operand_count = g->count,
                                  .result_count = custom->result_count,
                                  .differentiated = haul__differentiated(g)};
    HAUL__ASSERT(g->count == custom->operand_count && g->count <= HAUL_CUSTOM_OPERANDS);
    for (int i = 0; i < HAUL_CUSTOM_RESULTS; i++) {
        own->results[i] = g->results[i];
        own->saved_results[i] = g->saved_results[i];
    }
    for (int i = 0; i < HAUL_CUSTOM_OPERANDS; i++) {
        own->operands[i] = haul_none;
        own->saved[i] = g->saved[i];
        own->wanted[i] = i < g->count && haul__wanted(g, i);
        if (i < g->count)
            own->shapes[i] = *haul__operand_shape(g, i);
    }
}

haul_status haul__custom_gradient_again(const haul__operation *operation, haul_custom_gradient *gradient)
{
    const haul__custom *custom = operation->extra;
    before_call         before;
    listen(&before);
    custom->own.gradient(gradient);
    const haul_status status = haul__guest_end(&before.guest, HAUL_OK, gradient->name);
    if (!status && before.error.status)
        haul__error_restore(&before.error);
    return status;
}

static haul_status record_begin(const haul_custom_gradient *own, const haul__operation *operation,
                                haul__asked_function *asked)
{
    haul_tensor *given[HAUL__GRADIENT_GIVEN];
    haul__gradient_given(own, given);
    *asked =
        (haul__asked_function){.operation = operation, .gradient = own, .given = given, .count = HAUL__GRADIENT_GIVEN};
    const haul_status status = haul__record_begin_function(asked);
    asked->given = NULL;
    return status;
}

static void gradient(haul__gradient *g)
{
    const haul__custom  *custom = g->operation->extra;
    before_call          before;
    haul_custom_gradient own;
    haul__asked_function asked;
    describe_gradient(g, &own);
    if (record_begin(&own, g->operation, &asked)) {
        for (int i = 0; i < g->count; i++)
            g->operands[i] = NULL;
        return;
    }
    listen(&before);
    custom->own.gradient(&own);
    haul_status status = haul__guest_end(&before.guest, HAUL_OK, own.name);
    for (int i = 0; i < g->count; i++) {
        if (own.wanted[i] && !status)
            status = check_given(g, i, own.operands[i]);
        g->operands[i] = !own.wanted[i] ? haul_none : status ? NULL : own.operands[i];
    }
    const haul_status recorded = haul__record_end_function(&asked, status ? NULL : g->operands, g->count);
    for (int i = 0; i < g->count && recorded; i++)
        g->operands[i] = NULL;
    status = status ? status : recorded;
    if (!status && haul_error_status()) /* for a gradient that is not wanted */
        haul_error_clear();
    if (!status && before.error.status)
        haul__error_restore(&before.error);
}

/* ---- cost ---- */

static haul__cost cost(const haul__call *c)
{
    haul_custom_call call;
    view_call(c, &call);
    const haul__guest before = haul__guest_begin();
    haul_custom_cost  own = custom_of(c)->own.cost(&call);
    haul__guest_end(&before, HAUL_OK, call.name);
    return (haul__cost){.flops = own.flops, .bytes = own.bytes};
}

/* ---- all of it ---- */

void haul__custom_complete(haul__custom *custom)
{
    const haul_custom_operation *own = &custom->own;
    custom->operation.infer = infer;
    custom->operation.compute = own->compose ? NULL : compute;
    custom->operation.compose = own->compose ? compose : NULL;
    custom->operation.gradient = own->gradient ? gradient : NULL;
    custom->operation.cost = own->cost ? cost : NULL;
    custom->operation.flops = own->flops;
    custom->operation.extra = custom;
}

const haul__custom *haul__custom_of(const haul__operation *operation)
{
    return operation->infer == infer ? operation->extra : NULL;
}

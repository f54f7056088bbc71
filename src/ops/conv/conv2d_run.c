/* Runs one pass of a 2-d convolution: decides which tensor plays which part, and lets the backend's implementations or
 * the kernels of conv2d_flat.c compute it. */
#include "ops/conv/conv2d.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/half.h"
#include "engine/copy.h"
#include "engine/layout/reorder.h"
#include "ops/conv/conv2d_flat.h"

/* ---- passes ---- */

enum part { X, WEIGHT, Y, BIAS, PARTS };

/* The part that each operand plays, and the result's. A call may have fewer operands: no bias. */
typedef struct pass {
    haul__conv2d_pass id;
    int               count;
    enum part         operands[3], result;
} pass;

static const pass passes[] = {
    [HAUL__CONV2D_FORWARD] = {HAUL__CONV2D_FORWARD, 3, {X, WEIGHT, BIAS}, Y},
    [HAUL__CONV2D_DATA] = {HAUL__CONV2D_DATA, 3, {Y, WEIGHT, BIAS}, X},
    [HAUL__CONV2D_WEIGHT] = {HAUL__CONV2D_WEIGHT, 2, {X, Y}, WEIGHT},
};

const haul__conv2d_pass haul__conv2d_passes[] = {HAUL__CONV2D_FORWARD, HAUL__CONV2D_DATA, HAUL__CONV2D_WEIGHT};

static const pass *pass_of(const haul__call *c)
{
    return &passes[*(const haul__conv2d_pass *)c->operation->extra];
}

/* Sizes and options of a call whose result has shape `result`. */
static haul__conv2d settings_of(const haul__call *c, const haul_shape *result)
{
    const haul__conv2d_attributes *at = haul__attributes_of(c);
    const pass                    *p = pass_of(c);
    const haul_shape              *shapes[] = {[BIAS] = NULL};
    shapes[p->result] = result;
    for (int i = 0; i < 2; i++)
        shapes[p->operands[i]] = &c->operands[i]->shape;
    haul__conv2d s = {
        .pass = p->id,
        .dtype = c->operands[0]->dtype,
        .n = shapes[X]->dims[0],
        .c_in = shapes[X]->dims[1],
        .h = shapes[X]->dims[2],
        .w = shapes[X]->dims[3],
        .c_out = shapes[WEIGHT]->dims[0],
        .kh = shapes[WEIGHT]->dims[2],
        .kw = shapes[WEIGHT]->dims[3],
        .out_h = shapes[Y]->dims[2],
        .out_w = shapes[Y]->dims[3],
        .groups = at->groups,
        .relu = at->relu,
        .channels_last = at->channels_last,
    };
    HAUL__ASSERT(s.n == shapes[Y]->dims[0] && s.c_out == shapes[Y]->dims[1] &&
                 s.c_in == shapes[WEIGHT]->dims[1] * s.groups);
    HAUL__ASSERT(s.groups > 0 && s.c_out % s.groups == 0);
    s.tf32 = s.dtype == HAUL_F32 && haul_matmul_precision() == HAUL_PRECISION_HIGH;
    for (int i = 0; i < 2; i++) {
        s.stride[i] = at->stride[i];
        s.padding[i] = at->padding[i];
        s.dilation[i] = at->dilation[i];
    }
    return s;
}

/* ---- results ---- */

haul_dtype haul__conv2d_common_dtype(const haul__call *c)
{
    haul_dtype dtype = haul_dtype_promote(c->operands[0]->dtype, c->operands[1]->dtype);
    if (!haul_dtype_is_float(dtype)) {
        haul__refuse_dtype(c, 0, "a convolution needs a floating dtype; convert it with haul_cast");
        return HAUL_DTYPE_NONE;
    }
    return haul__has(c, 2) ? haul_dtype_promote(dtype, c->operands[2]->dtype) : dtype;
}

haul_status haul__conv2d_describe(haul__call *c, const haul_shape *shape, bool follows)
{
    haul__conv2d_attributes *at = haul__attributes(c);
    bool given = haul__wants_channels_last(c->operands[0]) || haul__wants_channels_last(c->operands[1]);
    at->channels_last = given;
    if (!at->relu)
        c->saves_results = 0;
    haul__conv2d settings = settings_of(c, shape);
    at->channels_last = haul__prefers_channels_last(c->operation, c->device, &settings);
    return haul__describe_format(c, 0, c->operands[0]->dtype, shape, at->channels_last || (follows && given));
}

/* ---- one pass over its tensors ---- */

/* `now` has the form being tried. */
typedef struct task {
    haul__convolution now;
    haul__conv2d      asked;
    haul_tensor      *given[PARTS];            /* operands and result; NULL for parts that the pass does not
                                                * have */
    bool         fits[2][PARTS];               /* they are laid out so: by channels_last, as far as it is asked for */
    haul_tensor *laid[2][PARTS], *wide[PARTS]; /* the same tensors by channels_last, and in f32, as far as they
                                                * exist */
    bool wide_last;                            /* `wide` is channels-last */
} task;

static bool is_laid(const haul_tensor *t, bool channels_last)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (channels_last)
        haul__shape_strides_channels_last(&t->shape, strides);
    else
        haul__shape_strides(&t->shape, strides);
    return haul__shape_same_strides(&t->shape, t->strides, strides);
}

static task task_of(const haul__call *c)
{
    const pass *p = pass_of(c);
    task        t = {.asked = settings_of(c, &c->results[0]->shape)};
    t.given[p->result] = c->results[0];
    for (int i = 0; i < c->count; i++)
        t.given[p->operands[i]] = haul__is_none(c->operands[i]) ? NULL : c->operands[i];
    for (enum part k = X; k <= BIAS; k++)
        for (int last = 0; t.given[k] && last <= t.asked.channels_last; last++)
            t.fits[last][k] = k == BIAS || is_laid(t.given[k], last);
    HAUL__ASSERT(t.given[X] && t.given[WEIGHT] && t.given[Y]);
    t.asked.has_bias = t.given[BIAS] != NULL;
    t.now = (haul__convolution){.call = c, .settings = t.asked};
    return t;
}

/* The offset of part i; t == NULL: not known yet. */
static void place(haul__conv2d *problem, enum part i, const haul_tensor *t)
{
    const haul__buffer **const buffers[] = {
        [X] = &problem->x, [WEIGHT] = &problem->weight, [Y] = &problem->y, [BIAS] = &problem->bias};
    int64_t *const offsets[] = {[X] = &problem->x_offset,
                                [WEIGHT] = &problem->weight_offset,
                                [Y] = &problem->y_offset,
                                [BIAS] = &problem->bias_offset};
    *buffers[i] = t ? &t->storage->buffer : NULL;
    *offsets[i] = t ? t->offset : 0;
}

static bool is_wide(const task *t)
{
    return t->now.settings.dtype != t->asked.dtype;
}

/* Channels-last, then row-major; each all at once, then without relu, then without relu and bias; half precision as it
 * is, then as f32. */
static const void *form(void *of, int i)
{
    task         *t = of;
    haul__conv2d *problem = &t->now.settings;
    int           widths = haul__is_half(t->asked.dtype) ? 2 : 1, fusions = 1 + t->asked.relu + t->asked.has_bias;
    int           fusion = i / widths % fusions, layout = i / widths / fusions;
    HAUL__ASSERT(i >= 0);
    if (layout > t->asked.channels_last)
        return NULL;
    problem->channels_last = t->asked.channels_last && layout == 0;
    problem->relu = t->asked.relu && fusion == 0;
    problem->has_bias = t->asked.has_bias && fusion <= t->asked.relu;
    problem->dtype = i % widths ? HAUL_F32 : t->asked.dtype;
    for (enum part k = X; k <= BIAS; k++) {
        bool there = t->fits[problem->channels_last][k] && !is_wide(t) && (k != BIAS || problem->has_bias);
        place(problem, k, there ? t->given[k] : NULL);
    }
    return problem;
}

static void describe_task(const void *of, char *out, size_t size)
{
    const haul__conv2d *c = &((const task *)of)->asked;
    snprintf(out, size, "%s [%lld,%lld,%lld,%lld] * [%lld,%lld,%lld,%lld]%s%s%s", haul_dtype_name(c->dtype),
             (long long)c->n, (long long)c->c_in, (long long)c->h, (long long)c->w, (long long)c->c_out,
             (long long)(c->c_in / c->groups), (long long)c->kh, (long long)c->kw, c->has_bias ? " + bias" : "",
             c->relu ? ", relu" : "", c->channels_last ? ", channels-last" : "");
}

/* ---- tensors of a form ---- */

/* Part i in a layout: an operand itself or a copy of it, the result itself or a temporary. */
static haul_tensor *lay(const task *t, enum part i, bool channels_last)
{
    const haul__call *c = t->now.call;
    const pass       *p = pass_of(c);
    haul_tensor      *given = t->given[i];
    int64_t           strides[HAUL_MAX_DIMS];
    HAUL__ASSERT(given && (!channels_last || t->asked.channels_last));
    if (t->fits[channels_last][i])
        return given;
    if (i != p->result)
        return i == WEIGHT ? haul__weight_in_format(c, given, channels_last) : haul__as_format(c, given, channels_last);
    if (channels_last)
        haul__shape_strides_channels_last(&given->shape, strides);
    else
        haul__shape_strides(&given->shape, strides);
    return haul__temporary_strided(c, given->dtype, &given->shape, strides);
}

/* The same as f32. */
static haul_tensor *widen(const task *t, enum part i, haul_tensor *laid)
{
    const haul__call *c = t->now.call;
    const pass       *p = pass_of(c);
    HAUL__ASSERT(haul__is_half(laid->dtype) || laid->dtype == t->asked.dtype);
    haul_tensor *wide = haul__temporary_strided(c, HAUL_F32, &laid->shape, laid->strides);
    return wide && (i == p->result || haul__copy_elements(wide, laid, c->operation->name) == HAUL_OK) ? wide : NULL;
}

/* Makes the tensors of the form being tried that no earlier form has made. */
static haul_status prepare(task *t)
{
    haul__conv2d *problem = &t->now.settings;
    bool          last = problem->channels_last;
    if (last != t->wide_last)
        memset(t->wide, 0, sizeof t->wide);
    t->wide_last = last;
    for (enum part i = X; i <= BIAS; i++) {
        haul_tensor **const parts[] = {
            [X] = &t->now.x, [WEIGHT] = &t->now.weight, [Y] = &t->now.y, [BIAS] = &t->now.bias};
        *parts[i] = NULL;
        if (!t->given[i] || (i == BIAS && !problem->has_bias))
            continue;
        if (!t->laid[last][i] && !(t->laid[last][i] = lay(t, i, last)))
            return haul_error_status();
        if (is_wide(t) && !t->wide[i] && !(t->wide[i] = widen(t, i, t->laid[last][i])))
            return haul_error_status();
        *parts[i] = is_wide(t) ? t->wide[i] : t->laid[last][i];
        HAUL__ASSERT(i == BIAS || (*parts[i])->dtype == problem->dtype);
        place(problem, i, *parts[i]);
    }
    return HAUL_OK;
}

/* y += bias */
static haul_status add_bias(const haul__call *c, haul_tensor *y, haul_tensor *bias)
{
    haul_shape   shape = HAUL_SHAPE(1, bias->shape.dims[0], 1, 1);
    haul_tensor *column = haul__view_as(c, bias, &shape, NULL, bias->offset);
    return column ? haul_add_into(y, y, column) : haul_error_status();
}

/* Does what the form left to the operation. */
static haul_status complete_result(task *t)
{
    const haul__call   *c = t->now.call;
    const pass         *p = pass_of(c);
    const haul__conv2d *problem = &t->now.settings;
    haul_tensor        *y = t->laid[problem->channels_last][p->result];
    HAUL__ASSERT(y && haul__shape_equal(&y->shape, &c->results[0]->shape));
    HAUL__ASSERT(!is_wide(t) || t->wide[p->result]);
    haul_status status = HAUL_OK;
    if (is_wide(t))
        status = haul__copy_elements(y, t->wide[p->result], c->operation->name);
    if (!status && t->asked.has_bias && !problem->has_bias)
        status = add_bias(c, y, t->given[BIAS]);
    if (!status && t->asked.relu && !problem->relu)
        status = haul_relu_into(y, y);
    return status || y == c->results[0] ? status : haul__copy_elements(c->results[0], y, c->operation->name);
}

/* ---- implementations ---- */

static haul_status convolve(haul__stream *s, const haul__command *command)
{
    haul__conv2d         problem = *(const haul__conv2d *)command->params;
    const pass          *p = &passes[problem.pass];
    const haul__storage *scratch = haul__library_scratch(command);
    const haul__buffer **parts[] = {
        [X] = &problem.x, [WEIGHT] = &problem.weight, [Y] = &problem.y, [BIAS] = &problem.bias};
    *parts[p->result] = haul__library_output(command, 0);
    for (int i = 0; i < p->count; i++)
        *parts[p->operands[i]] = haul__library_input(command, i);
    HAUL__ASSERT(problem.x && problem.weight && problem.y && (problem.bias != NULL) == problem.has_bias);
    problem.scratch = scratch ? &scratch->buffer : NULL;
    problem.scratch_bytes = scratch ? scratch->bytes : 0;
    HAUL__ASSERT((problem.scratch != NULL) == (problem.scratch_bytes > 0));
    return command->by->run(s, &problem);
}

static haul_status run(void *of, const haul__implementation *by, int64_t *refused)
{
    task             *t = of;
    const haul__call *c = t->now.call;
    const pass       *p = pass_of(c);
    haul_tensor      *in[3];
    int               count = 0;
    if (prepare(t))
        return haul_error_status();
    haul_tensor *const parts[] = {[X] = t->now.x, [WEIGHT] = t->now.weight, [Y] = t->now.y, [BIAS] = t->now.bias};
    for (int i = 0; i < p->count; i++)
        if (parts[p->operands[i]])
            in[count++] = parts[p->operands[i]];
    HAUL__ASSERT(count == 2 || (count == 3 && t->now.settings.has_bias));
    HAUL__ASSERT(parts[p->result] != NULL);
    const haul__conv2d *problem = &t->now.settings;
    return haul__call_library(c, &(haul__library){.by = by,
                                                  .run = convolve,
                                                  .params = problem,
                                                  .params_size = sizeof *problem,
                                                  HAUL__OUT(parts[p->result]),
                                                  .ins = in,
                                                  .in_count = count,
                                                  .scratch_bytes = by->scratch ? by->scratch(c->device, problem) : 0,
                                                  .refused = refused});
}

static const char *kernels_refuse(haul_device *device, const void *problem)
{
    const haul__conv2d *c = problem;
    (void)device;
    if (c && c->channels_last)
        return "it takes row-major tensors only";
    return c && c->relu ? "it does no relu" : NULL;
}

static haul_status compute_flat(void *of)
{
    static haul_status (*const passes_of[])(const haul__convolution *) = {
        [HAUL__CONV2D_FORWARD] = haul__conv2d_flat_forward,
        [HAUL__CONV2D_DATA] = haul__conv2d_flat_data,
        [HAUL__CONV2D_WEIGHT] = haul__conv2d_flat_weight,
    };
    task       *t = of;
    haul_status status = prepare(t);
    HAUL__ASSERT(!t->now.settings.relu && !t->now.settings.channels_last);
    return status ? status : passes_of[t->now.settings.pass](&t->now);
}

static const haul__implementation kernels[] = {
    {HAUL__PROBLEM_CONV2D, HAUL__BY_kernel, .refuses = kernels_refuse, .compute = compute_flat},
    {.refuses = NULL},
};

const haul__implementations haul__conv2d_implementations = {
    .of = HAUL__PROBLEM_CONV2D, .portable = kernels, .form = form, .run = run, .describe = describe_task};

haul_status haul__conv2d_compute(haul__call *c)
{
    const pass *p = pass_of(c);
    task        t = task_of(c);
    if (p->id == HAUL__CONV2D_WEIGHT && !t.asked.n)
        return haul_zero_into(c->results[0]);
    haul_status status = haul__implement(c, &t);
    return status ? status : complete_result(&t);
}

haul__cost haul__conv2d_cost(const haul__call *c)
{
    haul__conv2d s = settings_of(c, &c->results[0]->shape);
    double       outputs = (double)s.n * (double)s.c_out * (double)s.out_h * (double)s.out_w;
    return (haul__cost){.flops = 2 * outputs * (double)(s.c_in / s.groups) * (double)s.kh * (double)s.kw,
                        .bytes = haul__call_bytes(c)};
}

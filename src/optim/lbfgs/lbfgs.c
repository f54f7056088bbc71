/* L-BFGS (Liu, Nocedal 1989), with the steps of torch.optim.LBFGS. Vectors stay on the parameters' device. The host
 * waits for the numbers that decide how the step goes on: those of an evaluation, and of a direction, together. */
#include <haul/autograd.h>
#include <haul/elementwise.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <math.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/option.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "engine/placement/placement.h"
#include "optim/lbfgs/lbfgs.h"

static const char stepping[] = "haul_optimizer_step_closure";

static const double least_curvature = 1e-10; /* of y s, for a pair to be kept */

/* ---- vectors ---- */

haul_status haul__lbfgs_form_of(const haul_optimizer *o, haul__lbfgs_form *out, const char *operation)
{
    HAUL__ASSERT(o->count > 0 && o->group_count == 1);
    const haul_tensor *first = o->entries[0].parameter;
    *out = (haul__lbfgs_form){.dtype = haul__sum_dtype(first->dtype), .device = first->storage->device};
    for (int i = 0; i < o->count; i++) {
        const haul_tensor *p = o->entries[i].parameter;
        char               have[160], want[160];
        if (p->dtype != first->dtype || p->storage->device != first->storage->device)
            return haul__fail(HAUL_PLACEMENT, operation, "parameters",
                              "'%s' is %s, and '%s' is %s; lbfgs needs one dtype and one device: use haul_module_to",
                              o->entries[i].name, haul__tensor_text(p, have, sizeof have), o->entries[0].name,
                              haul__tensor_text(first, want, sizeof want));
        if (__builtin_add_overflow(out->size, p->count, &out->size))
            return haul__fail(HAUL_SHAPE, operation, "parameters", "the parameters have too many elements");
    }
    HAUL__ASSERT(out->size >= 0);
    return HAUL_OK;
}

/* A new scope for work of the optimizer itself: without graphs, and on the parameters' device. */
static haul_scope *work(const haul__lbfgs_step *s)
{
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return NULL;
    haul_set_grad_enabled(false);
    haul__place_as_given();
    HAUL__ASSERT(s->form.device);
    if (!haul_set_device(s->form.device))
        return scope;
    haul_scope_pop(scope);
    return NULL;
}

/* All parameters, or all gradients, as a vector. */
static haul_tensor *flat(const haul__lbfgs_step *s, bool gradients)
{
    const haul_optimizer *o = s->o;
    haul_tensor         **list = haul__calloc((size_t)o->count, sizeof *list), *result = NULL;
    if (!list) {
        haul__fail_memory(stepping, (size_t)o->count * sizeof *list);
        return NULL;
    }
    int i = 0;
    for (; i < o->count; i++) {
        haul_tensor     *p = o->entries[i].parameter, *t = gradients ? p->grad : p;
        const haul_shape shape = HAUL_SHAPE(p->count);
        if (t && t->count != p->count) {
            haul__fail(HAUL_SHAPE, stepping, "gradient", "the gradient of '%s' has %lld elements, the parameter %lld",
                       o->entries[i].name, (long long)t->count, (long long)p->count);
            break;
        }
        list[i] = t ? haul_to(haul_reshape(haul_detach(t), shape), s->form.device, .dtype = s->form.dtype)
                    : haul_zeros(s->form.dtype, shape);
        if (haul__failed(list[i]))
            break;
    }
    if (i == o->count)
        result = haul_cat(list, o->count, 0);
    HAUL__ASSERT(haul__failed(result) || result->count == s->form.size);
    haul__free(list);
    return haul__failed(result) ? NULL : result;
}

static haul_tensor *dot(haul_tensor *a, haul_tensor *b)
{
    haul_scope *scope = haul__scope_push(NULL);
    return scope ? haul_scope_return(scope, haul_sum(haul_mul(a, b))) : NULL;
}

static haul_tensor *largest(haul_tensor *x)
{
    haul_scope *scope = haul__scope_push(NULL);
    return scope ? haul_scope_return(scope, haul_max(haul_abs(x))) : NULL;
}

/* Reads tensors of one element, with one wait. */
static haul_status read_numbers(haul_tensor *const *tensors, int count, double *out)
{
    haul_tensor *all = haul_stack(tensors, count, 0);
    float        values[4];
    HAUL__ASSERT(count > 0 && count <= 4);
    if (haul__failed(all))
        return haul_error_status();
    if (all->dtype == HAUL_F64)
        return haul_read(all, out, (size_t)count * sizeof *out);
    haul_status status = haul_read(all, values, (size_t)count * sizeof *values);
    for (int i = 0; i < count && !status; i++)
        out[i] = (double)values[i];
    return status;
}

/* ---- evaluations ---- */

void haul__lbfgs_put_point(haul__lbfgs_point *place, const haul__lbfgs_point *point)
{
    const haul__lbfgs_point next = *point;
    haul__object_keep(next.gradient);
    haul__object_release(place->gradient);
    *place = next;
}

static haul_status put_parameters(const haul__lbfgs_step *s, haul_tensor *next)
{
    const haul_optimizer *o = s->o;
    haul_status           status = HAUL_OK;
    int64_t               at = 0;
    HAUL__ASSERT(next->count == s->form.size);
    for (int i = 0; i < o->count && !status; at += o->entries[i].parameter->count, i++) {
        haul_tensor *p = o->entries[i].parameter, *piece = haul_slice(next, 0, at, at + p->count, 1);
        status = haul_copy_into(p, haul_cast(haul_reshape(piece, p->shape), p->dtype));
    }
    HAUL__ASSERT(status || at == s->form.size);
    return status;
}

haul_status haul__lbfgs_move(const haul__lbfgs_step *s, double t)
{
    haul_scope *scope = work(s);
    if (!scope)
        return haul_error_status();
    HAUL__ASSERT(s->x && s->x->count == s->form.size);
    HAUL__ASSERT(t == 0 || s->m->direction);
    haul_tensor *next = t == 0 ? s->x : haul_add(s->x, haul_mul_scalar(s->m->direction, t));
    haul_status  status = haul__status_of(next);
    if (!status)
        status = put_parameters(s, next);
    haul_scope_pop(scope);
    return status;
}

static haul_status describe(haul__lbfgs_step *s, haul_tensor *loss, double t, haul__lbfgs_point *out)
{
    haul_tensor *g = flat(s, true), *d = s->m->direction;
    if (!g)
        return haul_error_status();
    HAUL__ASSERT(g->count == s->form.size && (!d || d->count == g->count));
    haul_tensor *list[] = {haul_to(loss, s->form.device), largest(g), d ? dot(g, d) : haul_sum(g)};
    if (haul_tensor_dtype(loss) != HAUL_F64)
        list[0] = haul_cast(list[0], HAUL_F32);
    double      values[3];
    haul_status status = read_numbers(list, 3, values);
    if (!status)
        haul__lbfgs_put_point(
            out, &(haul__lbfgs_point){.t = t, .loss = values[0], .most = values[1], .slope = values[2], .gradient = g});
    return status;
}

haul_status haul__lbfgs_evaluate(haul__lbfgs_step *s, double t, haul__lbfgs_point *out)
{
    haul_scope *outer = haul__scope_push(NULL);
    if (!outer)
        return haul_error_status();
    haul_tensor *loss = haul__call_closure(s->closure, s->context, stepping);
    haul_status  status = haul__status_of(loss);
    haul_scope  *scope = status ? NULL : work(s);
    if (scope) {
        status = describe(s, loss, t, out);
        haul_scope_pop(scope);
    } else if (!status)
        status = haul_error_status();
    if (!status) {
        s->evaluations++;
        s->m->evaluations++;
    }
    HAUL__ASSERT(s->evaluations <= s->m->evaluations);
    if (!status && !s->first) {
        s->first = loss;
        haul__object_keep(loss);
    }
    haul_scope_pop(outer);
    return status;
}

/* ---- an iteration ---- */

/* Adds the changes of the last iteration to the history, if the loss is convex along them. */
static haul_status remember(const haul__lbfgs_step *s, haul_tensor *gradient)
{
    haul__lbfgs *m = s->m;
    HAUL__ASSERT(m->direction && m->gradient);
    haul_tensor *y = haul_sub(gradient, m->gradient), *step = haul_mul_scalar(m->direction, m->t);
    double       found[2]; /* y s and y y */
    if (read_numbers((haul_tensor *[]){dot(y, step), dot(y, y)}, 2, found))
        return haul_error_status();
    if (!(found[0] > least_curvature))
        return HAUL_OK;
    m->scale = found[0] / found[1];
    return haul__lbfgs_add(m, y, step, 1 / found[0], (int)s->o->groups->values[HAUL__LBFGS_HISTORY_SIZE], stepping);
}

/* The gradient times the approximation of the inverse Hessian, negated: the recursion with two loops. */
static haul_tensor *recursion(const haul__lbfgs *m, haul_tensor *gradient, haul_tensor **al)
{
    haul_tensor *q = haul_neg(gradient);
    haul_status  status = haul__status_of(q);
    for (int i = m->count - 1; i >= 0 && !status; i--) {
        const haul__lbfgs_pair *p = &m->pairs[i];
        al[i] = haul_mul_scalar(dot(p->s, q), p->ro);
        status = haul_addcmul_into(q, q, p->y, al[i], -1);
    }
    haul_tensor *r = status ? NULL : haul_mul_scalar(q, m->scale);
    for (int i = 0; i < m->count && !status; i++) {
        const haul__lbfgs_pair *p = &m->pairs[i];
        haul_tensor            *be = haul_mul_scalar(dot(p->y, r), p->ro);
        status = haul_addcmul_into(r, r, p->s, haul_sub(al[i], be), 1);
    }
    HAUL__ASSERT(m->count <= m->room);
    return status || haul__failed(r) ? NULL : r;
}

static haul_tensor *find_direction(const haul__lbfgs_step *s, haul_tensor *gradient)
{
    haul__lbfgs *m = s->m;
    if (!m->direction)
        return haul_neg(gradient);
    if (remember(s, gradient))
        return NULL;
    HAUL__ASSERT(m->count <= m->room);
    haul_tensor **al = haul__calloc((size_t)m->count + 1, sizeof(haul_tensor *));
    if (!al) {
        haul__fail_memory(stepping, (size_t)m->count * sizeof *al);
        return NULL;
    }
    haul_tensor *d = recursion(m, gradient, al);
    haul__free(al);
    return d;
}

/* The direction from *now, its slope there, and the length to begin with. most: its largest element. */
static haul_status begin_iteration(const haul__lbfgs_step *s, haul__lbfgs_point *now, double *most)
{
    haul__lbfgs *m = s->m;
    haul_scope  *scope = work(s);
    if (!scope)
        return haul_error_status();
    const bool first = !m->direction;
    HAUL__ASSERT(now->gradient && now->gradient->count == s->form.size);
    haul_tensor *g = now->gradient, *d = find_direction(s, g);
    double       found[3]; /* g d, the largest element of d, and the sum of |g| */
    haul_status  status = haul__status_of(d);
    if (!status)
        status = read_numbers((haul_tensor *[]){dot(g, d), largest(d), haul_sum(haul_abs(g))}, 3, found);
    if (!status) {
        const double lr = s->o->groups->values[HAUL__LR], inverse = 1 / found[2];
        haul__lbfgs_put(&m->direction, d);
        haul__lbfgs_put(&m->gradient, g);
        m->iterations++;
        m->t = first ? (inverse < 1 ? inverse : 1) * lr : lr;
        now->t = 0;
        now->slope = found[0];
        *most = found[1];
    }
    haul_scope_pop(scope);
    HAUL__ASSERT(status || m->direction->count == s->form.size);
    return status;
}

static haul_status keep_parameters(haul__lbfgs_step *s)
{
    haul_scope *scope = work(s);
    if (!scope)
        return haul_error_status();
    haul_tensor *x = flat(s, false);
    if (x) {
        HAUL__ASSERT(x->count == s->form.size);
        haul__object_keep(x);
        haul__object_release(s->x);
        s->x = x;
    }
    haul_scope_pop(scope);
    return haul__status_of(x);
}

/* Goes along the direction. If a search fails, the parameters return to where it began. */
static haul_status advance(haul__lbfgs_step *s, haul__lbfgs_point *now, double most, bool last)
{
    const double *values = s->o->groups->values;
    HAUL__ASSERT(s->m->direction);
    haul_status status = keep_parameters(s);
    if (status) {
        s->m->t = 0;
        return status;
    }
    if (values[HAUL__LBFGS_LINE_SEARCH] != 0) {
        status = haul__lbfgs_search(s, now, most);
        if (status)
            haul__lbfgs_move(s, 0);
        s->m->t = status ? 0 : now->t;
        return status;
    }
    status = haul__lbfgs_move(s, s->m->t);
    if (status)
        s->m->t = 0;
    return status || last ? status : haul__lbfgs_evaluate(s, s->m->t, now);
}

static haul_status iterate(haul__lbfgs_step *s, haul__lbfgs_point *now)
{
    const double *values = s->o->groups->values, change = values[HAUL__LBFGS_TOLERANCE_CHANGE];
    haul_status   status = haul__lbfgs_evaluate(s, 0, now);
    HAUL__ASSERT(now->gradient || status);
    if (status || now->most <= values[HAUL__LBFGS_TOLERANCE_GRAD])
        return status;
    for (int64_t n = 1; !status; n++) {
        const double before = now->loss;
        const bool   last = n >= (int64_t)values[HAUL__LBFGS_MAX_ITER];
        double       most = 0;
        status = begin_iteration(s, now, &most);
        if (status || now->slope > -change)
            break;
        HAUL__ASSERT(s->m->iterations > 0);
        status = advance(s, now, most, last);
        if (status || last || s->evaluations >= (int64_t)values[HAUL__LBFGS_MAX_EVAL] ||
            now->most <= values[HAUL__LBFGS_TOLERANCE_GRAD] || most * fabs(s->m->t) <= change ||
            fabs(now->loss - before) < change)
            break;
    }
    return status;
}

static haul_tensor *step(haul_optimizer *o, haul_optimizer_closure *closure, void *context)
{
    HAUL__ASSERT(o->own);
    haul__lbfgs_step  s = {.o = o, .m = o->own, .closure = closure, .context = context};
    haul__lbfgs_point now = {0};
    haul_scope       *scope = haul__scope_push(NULL);
    if (!scope)
        return haul__failed_tensor();
    haul_status status = haul__lbfgs_form_of(o, &s.form, stepping);
    if (!status)
        status = haul__lbfgs_follow(s.m, &s.form);
    if (!status)
        status = iterate(&s, &now);
    HAUL__ASSERT(status || s.first);
    if (!status)
        o->steps++;
    HAUL__ASSERT(status || s.evaluations > 0);
    haul__lbfgs_put_point(&now, &(haul__lbfgs_point){0});
    haul__object_release(s.x);
    haul_tensor *loss = status ? NULL : haul_identity(s.first, haul_tensor_device(s.first));
    haul__object_release(s.first);
    if (haul__failed(loss)) {
        haul_scope_pop(scope);
        return haul__failed_tensor();
    }
    return haul_scope_return(scope, loss);
}

/* ---- the kind ---- */

static unsigned no_states(const double *values)
{
    (void)values;
    return 0;
}

static haul_status check(const double *values, const char *operation)
{
    static const struct {
        int         at;
        const char *name;
    } whole[] = {{HAUL__LBFGS_MAX_ITER, "max_iter"},
                 {HAUL__LBFGS_MAX_EVAL, "max_eval"},
                 {HAUL__LBFGS_HISTORY_SIZE, "history_size"}};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (values[whole[i].at] != floor(values[whole[i].at]))
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, whole[i].name, "%s is %g; a whole number is expected",
                              whole[i].name, values[whole[i].at]);
    return HAUL_OK;
}

static const haul__joint joint = {step, haul__lbfgs_state, haul__lbfgs_load, haul__lbfgs_free};

static const haul__optimizer_kind kind = {
    .name = "lbfgs",
    .settings = {{"lr", 0, INFINITY, false},
                 {"max_iter", 1, 1 << 30, false},
                 {"max_eval", 1, 1 << 30, false},
                 {"tolerance_grad", 0, INFINITY, false},
                 {"tolerance_change", 0, INFINITY, false},
                 {"history_size", 1, 1 << 20, false},
                 {"line_search", 0, 1, true}},
    .momentum = -1,
    .by_operations = true,
    .joint = &joint,
    .states = no_states,
    .check = check,
};

haul_optimizer *haul_lbfgs_with(const haul_lbfgs_options *o)
{
    static const char operation[] = "haul_lbfgs";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    const double max_iter = o->max_iter ? o->max_iter : 20;
    const double values[HAUL__MAX_SETTINGS] = {[HAUL__LR] = o->lr,
                                               [HAUL__LBFGS_MAX_ITER] = max_iter,
                                               [HAUL__LBFGS_MAX_EVAL] =
                                                   o->max_eval ? o->max_eval : fmax(floor(max_iter * 5 / 4), 1),
                                               [HAUL__LBFGS_TOLERANCE_GRAD] = haul__option(o->tolerance_grad, 1e-7),
                                               [HAUL__LBFGS_TOLERANCE_CHANGE] = haul__option(o->tolerance_change, 1e-9),
                                               [HAUL__LBFGS_HISTORY_SIZE] = o->history_size ? o->history_size : 100,
                                               [HAUL__LBFGS_LINE_SEARCH] = (double)o->line_search};
    haul__lbfgs *m = haul__calloc(1, sizeof *m);
    if (!m) {
        haul__fail_memory(operation, sizeof *m);
        return NULL;
    }
    m->scale = 1;
    haul_optimizer *made =
        haul__optimizer_new(&kind, &(haul__optimizer_source){o->module, o->parameters, o->count}, values, operation);
    HAUL__ASSERT(!made || !made->own);
    if (made)
        made->own = m;
    else
        haul__lbfgs_free(m);
    return made;
}

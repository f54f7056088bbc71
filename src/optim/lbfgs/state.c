/* The state of L-BFGS, and its form as named tensors. */
#include <haul/autograd.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "memory/mark.h"
#include "optim/lbfgs/lbfgs.h"

static const char loading[] = "haul_optimizer_load_state";

/* lbfgs.numbers: t, scale, iterations, evaluations, and ro of each pair; f64 on the CPU. */
enum { T, SCALE, ITERATIONS, EVALUATIONS, NUMBERS };
enum { VECTORS = 2, MOST_PAIRS = 1 << 20 }; /* VECTORS: without those of pairs */
static const char *const names[] = {"lbfgs.d", "lbfgs.prev_flat_grad", "lbfgs.numbers"};

/* ---- the block ---- */

void haul__lbfgs_put(haul_tensor **place, haul_tensor *t)
{
    haul__object_keep(t);
    haul__object_release(*place);
    *place = t;
    haul__set_role(t, HAUL__ROLE_STATE);
}

static void clear(haul__lbfgs *m)
{
    HAUL__ASSERT(m->count <= m->room && (!m->count || m->pairs));
    for (int i = 0; i < m->count; i++) {
        haul__object_release(m->pairs[i].y);
        haul__object_release(m->pairs[i].s);
    }
    haul__free(m->pairs);
    haul__object_release(m->direction);
    haul__object_release(m->gradient);
    haul__object_release(m->numbers);
    *m = (haul__lbfgs){.scale = 1};
}

void haul__lbfgs_free(void *own)
{
    if (own)
        clear(own);
    haul__free(own);
}

static void drop_oldest(haul__lbfgs *m)
{
    haul__object_release(m->pairs[0].y);
    haul__object_release(m->pairs[0].s);
    m->count--;
    memmove(m->pairs, m->pairs + 1, (size_t)m->count * sizeof *m->pairs);
}

haul_status haul__lbfgs_add(haul__lbfgs *m, haul_tensor *y, haul_tensor *s, double ro, int most, const char *operation)
{
    HAUL__ASSERT(y->count == s->count && most > 0);
    while (m->count && m->count >= most)
        drop_oldest(m);
    if (m->count == m->room) {
        const int         room = m->room ? m->room * 2 : 8;
        haul__lbfgs_pair *pairs = haul__calloc((size_t)room, sizeof *pairs);
        if (!pairs)
            return haul__fail_memory(operation, (size_t)room * sizeof *pairs);
        if (m->count)
            memcpy(pairs, m->pairs, (size_t)m->count * sizeof *pairs);
        haul__free(m->pairs);
        m->pairs = pairs;
        m->room = room;
    }
    HAUL__ASSERT(m->count < m->room);
    haul__lbfgs_pair *p = &m->pairs[m->count++];
    *p = (haul__lbfgs_pair){.ro = ro};
    haul__lbfgs_put(&p->y, y);
    haul__lbfgs_put(&p->s, s);
    return HAUL_OK;
}

static haul_status follow_one(haul_tensor **place, const haul__lbfgs_form *form)
{
    const haul_tensor *t = *place;
    if (!t || (t->storage->device == form->device && t->dtype == form->dtype))
        return HAUL_OK;
    HAUL__ASSERT(form->size == t->count);
    haul_tensor *moved = haul_to(*place, form->device, .dtype = form->dtype);
    if (haul__failed(moved))
        return haul_error_status();
    haul__lbfgs_put(place, moved);
    return HAUL_OK;
}

haul_status haul__lbfgs_follow(haul__lbfgs *m, const haul__lbfgs_form *form)
{
    HAUL__ASSERT(!m->direction == !m->gradient);
    haul_status status = follow_one(&m->direction, form);
    if (!status)
        status = follow_one(&m->gradient, form);
    for (int i = 0; i < m->count && !status; i++) {
        status = follow_one(&m->pairs[i].y, form);
        if (!status)
            status = follow_one(&m->pairs[i].s, form);
    }
    return status;
}

/* ---- reading ---- */

static haul_status write_numbers(haul__lbfgs *m)
{
    HAUL__ASSERT(m->count <= m->room);
    double     *values = haul__calloc((size_t)(NUMBERS + m->count), sizeof *values);
    haul_scope *scope = values ? haul__scope_push(NULL) : NULL;
    haul_status status = values ? HAUL_OK : haul__fail_memory("haul_optimizer_state", NUMBERS * sizeof *values);
    if (scope) {
        values[T] = m->t;
        values[SCALE] = m->scale;
        values[ITERATIONS] = (double)m->iterations;
        values[EVALUATIONS] = (double)m->evaluations;
        for (int i = 0; i < m->count; i++)
            values[NUMBERS + i] = m->pairs[i].ro;
        status = haul_set_device(haul_cpu()); /* the scope restores the setting */
        haul_tensor *t = status ? NULL : haul_from_host(HAUL_F64, HAUL_SHAPE(NUMBERS + m->count), values);
        HAUL__ASSERT(haul__failed(t) || t->count == NUMBERS + m->count);
        if (!haul__failed(t))
            haul__lbfgs_put(&m->numbers, t);
        status = haul__status_of(t);
        haul_scope_pop(scope);
    } else if (!status)
        status = haul_error_status();
    haul__free(values);
    return status;
}

static const char *name_pair(haul__lbfgs_pair *p, int number, int which)
{
    haul__snprintf(p->names[which], sizeof p->names[which], "lbfgs.%s.%d", which ? "old_stps" : "old_dirs", number);
    return p->names[which];
}

int haul__lbfgs_state(haul_optimizer *o, haul_named_tensor *out, int capacity)
{
    haul__lbfgs *m = o->own;
    const int    count = m->direction ? VECTORS + 1 + 2 * m->count : 0;
    if (!count || capacity <= 0)
        return count;
    HAUL__ASSERT(m->gradient && m->count <= m->room);
    if (write_numbers(m))
        return -1;
    haul_tensor *const first[] = {m->direction, m->gradient, m->numbers};
    for (int i = 0; i < count && i < capacity; i++) {
        const int         k = i - VECTORS - 1;
        haul__lbfgs_pair *p = k < 0 ? NULL : &m->pairs[k / 2];
        out[i] = p ? (haul_named_tensor){name_pair(p, k / 2, k % 2), k % 2 ? p->s : p->y, true}
                   : (haul_named_tensor){names[i], first[i], true};
    }
    return count;
}

/* ---- writing ---- */

typedef struct incoming {
    const haul_named_tensor *tensors;
    int                      count;
    haul__lbfgs_form         form;
} incoming;

static const haul_named_tensor *find(const incoming *in, const char *name)
{
    for (int i = 0; i < in->count; i++)
        if (!strcmp(in->tensors[i].name, name))
            return &in->tensors[i];
    haul__fail(HAUL_INVALID_ARGUMENT, loading, "tensors", "'%s' is missing", name);
    return NULL;
}

/* A copy of a vector, which the innermost scope owns. */
static haul_tensor *take_vector(const incoming *in, const char *name)
{
    const haul_named_tensor *t = find(in, name);
    char                     have[160];
    if (!t)
        return NULL;
    if (t->tensor->shape.ndim != 1 || t->tensor->count != in->form.size || t->tensor->dtype != in->form.dtype) {
        haul__fail(
            HAUL_SHAPE, loading, "tensors", "'%s' is %s, but the parameters make a vector of %lld elements of %s", name,
            haul__tensor_text(t->tensor, have, sizeof have), (long long)in->form.size, haul_dtype_name(in->form.dtype));
        return NULL;
    }
    haul_tensor *copy = haul_clone(haul_to(haul_detach(t->tensor), in->form.device));
    HAUL__ASSERT(haul__failed(copy) || copy->count == in->form.size);
    return haul__failed(copy) ? NULL : copy;
}

static haul_status take_numbers(const incoming *in, haul__lbfgs *m, double **ro, int *pairs)
{
    const haul_named_tensor *t = find(in, names[VECTORS]);
    if (!t)
        return haul_error_status();
    const int64_t count = t->tensor->count;
    *pairs = (int)(count - NUMBERS);
    if (t->tensor->dtype != HAUL_F64 || count < NUMBERS || count > NUMBERS + MOST_PAIRS ||
        in->count != VECTORS + 1 + 2 * *pairs)
        return haul__fail(HAUL_INVALID_ARGUMENT, loading, "tensors",
                          "'%s' has %lld elements of %s and there are %d tensors, which do not belong together as the "
                          "state of lbfgs",
                          t->name, (long long)count, haul_dtype_name(t->tensor->dtype), in->count);
    HAUL__ASSERT(*pairs >= 0 && *pairs <= MOST_PAIRS);
    double *values = haul__calloc((size_t)count, sizeof *values);
    if (!values)
        return haul__fail_memory(loading, (size_t)count * sizeof *values);
    *ro = values;
    if (haul_read(t->tensor, values, (size_t)count * sizeof *values))
        return haul_error_status();
    for (int i = ITERATIONS; i <= EVALUATIONS; i++)
        if (!(values[i] >= 0 && values[i] <= (double)HAUL__MOST_STEPS))
            return haul__fail(HAUL_FORMAT, loading, "tensors", "'%s' has %g, which is not a number of iterations",
                              t->name, values[i]);
    m->t = values[T];
    m->scale = values[SCALE];
    m->iterations = (int64_t)values[ITERATIONS];
    m->evaluations = (int64_t)values[EVALUATIONS];
    return HAUL_OK;
}

static haul_status take_all(const incoming *in, haul__lbfgs *m, double **values)
{
    HAUL__ASSERT(!m->count && !m->direction);
    int         pairs = 0;
    haul_status status = take_numbers(in, m, values, &pairs);
    for (int i = 0; i < VECTORS && !status; i++) {
        haul_tensor *t = take_vector(in, names[i]);
        status = haul__status_of(t);
        if (!status)
            haul__lbfgs_put(i ? &m->gradient : &m->direction, t);
    }
    for (int i = 0; i < pairs && !status; i++) {
        haul__lbfgs_pair named = {0};
        haul_tensor     *y = take_vector(in, name_pair(&named, i, 0));
        haul_tensor     *s = y ? take_vector(in, name_pair(&named, i, 1)) : NULL;
        status = s ? haul__lbfgs_add(m, y, s, (*values)[NUMBERS + i], MOST_PAIRS, loading) : haul_error_status();
    }
    HAUL__ASSERT(status || (m->count == pairs && m->direction && m->gradient));
    return status;
}

haul_status haul__lbfgs_load(haul_optimizer *o, const haul_named_tensor *tensors, int count)
{
    incoming    in = {.tensors = tensors, .count = count};
    haul__lbfgs fresh = {.scale = 1};
    double     *values = NULL;
    haul_status status = haul__lbfgs_form_of(o, &in.form, loading);
    if (!status && count)
        status = take_all(&in, &fresh, &values);
    haul__free(values);
    if (status) {
        clear(&fresh);
        return status;
    }
    HAUL__ASSERT(!fresh.direction == !count);
    clear(o->own);
    *(haul__lbfgs *)o->own = fresh;
    return HAUL_OK;
}

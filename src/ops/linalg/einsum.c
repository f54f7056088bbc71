/* haul_einsum and haul_tensordot: sums of products over named axes.
 *
 * A term is a tensor whose axes have labels. Terms are multiplied from left to right. An axis that no later term and
 * not the result has is summed at once: in a matrix product if both terms have it, alone if one has it. */
#include <string.h>

#include "base/assert.h"
#include "ops/linalg/linalg.h"

/* Labels: A to Z, a to z, and the axes that an ellipsis stands for, the last one last. */
enum { OF_ELLIPSIS = 52, LABELS = OF_ELLIPSIS + HAUL_MAX_DIMS, MAX_TERMS = 64 };

typedef struct term {
    haul_tensor *t;
    int          count; /* of axes */
    signed char  labels[LABELS];
} term;

typedef uint64_t label_set;

static label_set only(int label)
{
    HAUL__ASSERT(0 <= label && label < LABELS);
    return (label_set)1 << label;
}

static label_set labels_of(const term *x)
{
    label_set s = 0;
    for (int d = 0; d < x->count; d++)
        s |= only(x->labels[d]);
    return s;
}

static int axis_of(const term *x, int label)
{
    int d = 0;
    while (d < x->count && x->labels[d] != label)
        d++;
    return d;
}

static int64_t size_of(const term *x, int label)
{
    HAUL__ASSERT(labels_of(x) & only(label));
    return x->t->shape.dims[axis_of(x, label)];
}

/* ---- terms ---- */

static haul_status put(term *x, haul_tensor *t)
{
    x->t = t;
    return haul__failed(t) ? haul_error_status() : HAUL_OK;
}

/* Sums over the axes whose labels are not in `kept`. */
static haul_status sum_others(term *x, label_set kept)
{
    HAUL__ASSERT(x->count == x->t->shape.ndim);
    haul_reduce_options o = {.x = x->t};
    int                 left = 0;
    for (int d = 0; d < x->count; d++) {
        if (kept & only(x->labels[d]))
            x->labels[left++] = x->labels[d];
        else
            o.haul__axes.axes[o.haul__axes.count++] = d;
    }
    x->count = left;
    return o.haul__axes.count ? put(x, haul_sum_with(&o)) : HAUL_OK;
}

/* Puts the axes into the order of some labels, all of which x has. */
static haul_status arrange(term *x, const signed char *labels, int count)
{
    HAUL__ASSERT(count == x->count && count <= HAUL_MAX_DIMS);
    int  axes[HAUL_MAX_DIMS];
    bool moves = false;
    for (int d = 0; d < count; d++) {
        axes[d] = axis_of(x, labels[d]);
        HAUL__ASSERT(axes[d] < count);
        moves |= axes[d] != d;
    }
    for (int d = 0; d < count; d++)
        x->labels[d] = labels[d];
    return moves ? put(x, haul_permute(x->t, axes, count)) : HAUL_OK;
}

/* Replaces two axes with one label by their diagonal. */
static haul_status take_diagonal(const haul__call *c, term *x, int first, int second, int operand)
{
    signed char   order[HAUL_MAX_DIMS];
    const int64_t n = x->t->shape.dims[first];
    int           axes[HAUL_MAX_DIMS], left = 0;
    if (n != x->t->shape.dims[second])
        return haul__refuse_shape(c, operand, "axes with one label must be equally long");
    for (int d = 0; d < x->count; d++)
        if (d != first && d != second) {
            order[left] = x->labels[d];
            axes[left++] = d;
        }
    HAUL__ASSERT(first < second && left + 2 == x->count);
    order[left] = x->labels[first];
    axes[left] = first;
    axes[left + 1] = second;
    haul_tensor *t = haul_permute(x->t, axes, x->count);
    if (haul__failed(t))
        return haul_error_status();
    haul_shape shape = t->shape;
    shape.ndim--;
    shape.dims[left] = n * n;
    x->count = left + 1;
    memcpy(x->labels, order, (size_t)x->count);
    return put(x, haul_slice(haul_reshape(t, shape), -1, 0, n ? n * n : 0, n + 1));
}

static haul_status take_diagonals(const haul__call *c, term *x, int operand)
{
    for (int d = 0; d < x->count; d++)
        for (int e = d + 1; e < x->count; e++)
            if (x->labels[d] == x->labels[e]) {
                if (take_diagonal(c, x, d, e, operand))
                    return haul_error_status();
                d = -1;
                break;
            }
    return HAUL_OK;
}

/* ---- products of two terms ---- */

/* Labels in groups: those of both terms that stay, those of a, those of b, and those of both that are summed. */
enum { BOTH, OF_A, OF_B, SUMMED, GROUPS };

typedef struct plan {
    signed char labels[GROUPS][LABELS];
    int64_t     sizes[GROUPS][LABELS], product[GROUPS];
    int         count[GROUPS];
} plan;

static haul_status add_label(const haul__call *c, plan *p, int group, int label, int64_t size)
{
    const int at = p->count[group]++;
    HAUL__ASSERT(group < GROUPS && at < LABELS);
    p->labels[group][at] = (signed char)label;
    p->sizes[group][at] = size;
    if (!haul__mul_size(p->product[group], size, &p->product[group]))
        return haul__fail(HAUL_SHAPE, c->operation->name, NULL, "axes are too long to be counted together");
    return HAUL_OK;
}

/* Sizes of 1 broadcast; others were compared. */
static haul_status make_plan(const haul__call *c, plan *p, const term *a, const term *b, label_set kept)
{
    const label_set in_a = labels_of(a), in_b = labels_of(b);
    *p = (plan){.product = {1, 1, 1, 1}};
    for (int d = 0; d < a->count; d++) {
        const int     label = a->labels[d];
        const bool    shared = in_b & only(label);
        const int64_t mine = a->t->shape.dims[d], other = shared ? size_of(b, label) : mine;
        if (add_label(c, p, !shared ? OF_A : kept & only(label) ? BOTH : SUMMED, label, mine == 1 ? other : mine))
            return haul_error_status();
    }
    for (int d = 0; d < b->count; d++)
        if (!(in_a & only(b->labels[d])) && add_label(c, p, OF_B, b->labels[d], b->t->shape.dims[d]))
            return haul_error_status();
    HAUL__ASSERT(p->count[BOTH] + p->count[OF_A] + p->count[SUMMED] == a->count);
    HAUL__ASSERT(p->count[BOTH] + p->count[OF_B] + p->count[SUMMED] == b->count);
    return HAUL_OK;
}

/* The axes of x in the order of three groups, broadcast to their sizes. */
static haul_status arrange_groups(term *x, const plan *p, const int groups[3], haul_shape *shape)
{
    signed char labels[LABELS];
    int         count = 0;
    for (int k = 0; k < 3; k++) {
        memcpy(labels + count, p->labels[groups[k]], (size_t)p->count[groups[k]]);
        for (int i = 0; i < p->count[groups[k]]; i++)
            shape->dims[count++] = p->sizes[groups[k]][i];
    }
    shape->ndim = count;
    if (arrange(x, labels, count))
        return haul_error_status();
    return haul__shape_equal(&x->t->shape, shape) ? HAUL_OK : put(x, haul_expand(x->t, *shape));
}

/* The axes of x, of which some groups were arranged, with axes of size 1 for another group. */
static haul_tensor *with_ones(haul_tensor *t, int at, int count)
{
    for (int i = 0; i < count && !haul__failed(t); i++)
        t = haul_unsqueeze(t, at);
    return t;
}

/* Elements times elements, and a sum: if nothing is summed, or if each product of matrices would have one element. */
static haul_tensor *multiply_elements(term *a, term *b, const plan *p)
{
    haul_shape sa = {0}, sb = {0};
    const int  both = p->count[BOTH], summed = p->count[SUMMED];
    if (arrange_groups(a, p, (const int[]){BOTH, OF_A, SUMMED}, &sa) ||
        arrange_groups(b, p, (const int[]){BOTH, OF_B, SUMMED}, &sb))
        return NULL;
    haul_tensor *x = with_ones(a->t, both + p->count[OF_A], p->count[OF_B]);
    haul_tensor *y = haul_mul(x, with_ones(b->t, both, p->count[OF_A]));
    if (!summed || haul__failed(y))
        return y;
    HAUL__ASSERT(y->shape.ndim == both + p->count[OF_A] + p->count[OF_B] + summed);
    haul_reduce_options o = {.x = y};
    for (int i = 0; i < summed; i++)
        o.haul__axes.axes[o.haul__axes.count++] = i - summed;
    return haul_sum_with(&o);
}

static haul_tensor *multiply_matrices(term *a, term *b, const plan *p)
{
    haul_shape sa = {0}, sb = {0}, result = {0};
    if (arrange_groups(a, p, (const int[]){BOTH, OF_A, SUMMED}, &sa) ||
        arrange_groups(b, p, (const int[]){BOTH, SUMMED, OF_B}, &sb))
        return NULL;
    for (int group = BOTH; group <= OF_B; group++)
        for (int i = 0; i < p->count[group]; i++)
            result.dims[result.ndim++] = p->sizes[group][i];
    HAUL__ASSERT(result.ndim <= HAUL_MAX_DIMS && p->count[SUMMED] > 0);
    const int64_t batch = p->product[BOTH], m = p->product[OF_A], n = p->product[OF_B], k = p->product[SUMMED];
    haul_tensor  *x = haul_reshape(a->t, p->count[BOTH] ? HAUL_SHAPE(batch, m, k) : HAUL_SHAPE(m, k));
    haul_tensor  *y = haul_reshape(b->t, p->count[BOTH] ? HAUL_SHAPE(batch, k, n) : HAUL_SHAPE(k, n));
    return haul_reshape(haul_matmul(x, y), result);
}

/* a becomes a times b. */
static haul_status multiply(const haul__call *c, term *a, term *b, label_set kept)
{
    plan p;
    if (sum_others(a, kept | labels_of(b)) || sum_others(b, kept | labels_of(a)) || make_plan(c, &p, a, b, kept))
        return haul_error_status();
    if (p.count[BOTH] + p.count[OF_A] + p.count[OF_B] > HAUL_MAX_DIMS ||
        (!p.count[SUMMED] ? 0 : p.count[BOTH] + p.count[OF_A] + p.count[SUMMED]) > HAUL_MAX_DIMS)
        return haul__fail(HAUL_SHAPE, c->operation->name, NULL,
                          "a product of two operands would have more than %d dimensions; sum axes first",
                          (int)HAUL_MAX_DIMS);
    const bool elements =
        !p.count[SUMMED] || (p.count[BOTH] && p.product[OF_A] == 1 && p.product[OF_B] == 1 &&
                             p.count[BOTH] + p.count[OF_A] + p.count[OF_B] + p.count[SUMMED] <= HAUL_MAX_DIMS);
    haul_tensor *y = elements ? multiply_elements(a, b, &p) : multiply_matrices(a, b, &p);
    a->count = 0;
    for (int group = BOTH; group <= OF_B; group++)
        for (int i = 0; i < p.count[group]; i++)
            a->labels[a->count++] = p.labels[group][i];
    HAUL__ASSERT(a->count <= HAUL_MAX_DIMS);
    return put(a, y);
}

/* ---- formulas ---- */

enum { MAX_FORMULA = 199 };

typedef struct einsum_attributes {
    char formula[MAX_FORMULA + 1];
} einsum_attributes;

typedef struct reader {
    const haul__call *c;
    const char       *at;
    int               ellipsis; /* axes of the longest one */
    int64_t           sizes[LABELS];
    int               seen[LABELS]; /* how often each label occurs among the operands */
} reader;

static haul_status wrong(const reader *r, const char *why)
{
    const einsum_attributes *a = haul__attributes_of(r->c);
    return haul__fail(HAUL_INVALID_ARGUMENT, r->c->operation->name, "formula", "\"%s\", character %d: %s", a->formula,
                      (int)(r->at - a->formula) + 1, why);
}

static void skip_spaces(reader *r)
{
    while (*r->at == ' ')
        r->at++;
}

static int label_of(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? letter - 'A' : letter >= 'a' && letter <= 'z' ? letter - 'a' + 26 : -1;
}

/* Letters and at most one ellipsis, which stands for `room` axes less the letters. room < 0: for r->ellipsis axes. */
static haul_status read_labels(reader *r, int room, term *out)
{
    const char *start = r->at;
    int         letters = 0, ellipsis = 0;
    for (const char *s = start; *s && *s != ',' && *s != '-'; s++)
        letters += label_of(*s) >= 0;
    out->count = 0;
    for (skip_spaces(r); *r->at && *r->at != ',' && *r->at != '-'; skip_spaces(r)) {
        const int label = label_of(*r->at);
        if (label < 0 && (strncmp(r->at, "...", 3) != 0 || ellipsis))
            return wrong(r, "a letter, \"...\" once for each operand, \",\" or \"->\" is expected");
        if (out->count >= LABELS)
            return wrong(r, "there are too many labels");
        if (label >= 0) {
            out->labels[out->count++] = (signed char)label;
            r->at++;
            continue;
        }
        const int axes = room < 0 ? r->ellipsis : room - letters;
        if (axes > LABELS - out->count)
            return wrong(r, "there are too many labels");
        for (int d = 0; d < axes; d++)
            out->labels[out->count++] = (signed char)(LABELS - axes + d);
        if (room >= 0 && axes > r->ellipsis)
            r->ellipsis = axes;
        r->at += 3;
        ellipsis = 1;
    }
    HAUL__ASSERT(out->count <= LABELS);
    return HAUL_OK;
}

/* The sizes of a term's axes agree with those of earlier terms, or are 1. */
static haul_status check_sizes(reader *r, const term *x, int operand)
{
    HAUL__ASSERT(x->count == x->t->shape.ndim);
    for (int d = 0; d < x->count; d++) {
        int64_t      *known = &r->sizes[x->labels[d]];
        const int64_t size = x->t->shape.dims[d];
        if (*known >= 0 && size != *known && size != 1 && *known != 1)
            return haul__fail(HAUL_SHAPE, r->c->operation->name, "xs",
                              "axis %d of operand %d has %lld elements, but another axis with its label has %lld", d,
                              operand, (long long)size, (long long)*known);
        *known = *known < 0 || *known == 1 ? size : *known;
        r->seen[x->labels[d]]++;
    }
    return HAUL_OK;
}

static haul_status read_term(reader *r, int i, term *x)
{
    x->t = r->c->operands[i];
    if (read_labels(r, x->t->shape.ndim, x))
        return haul_error_status();
    if (x->count != x->t->shape.ndim)
        return haul__fail(HAUL_SHAPE, r->c->operation->name, "formula", "operand %d has %d dimensions, but %d labels",
                          i, x->t->shape.ndim, x->count);
    if (check_sizes(r, x, i))
        return haul_error_status();
    return take_diagonals(r->c, x, i);
}

/* Without "->": the axes of an ellipsis, and the labels that occur once, in alphabetical order. */
static void imply_result(const reader *r, term *out)
{
    HAUL__ASSERT(0 <= r->ellipsis && r->ellipsis <= LABELS - OF_ELLIPSIS);
    out->count = 0;
    for (int label = LABELS - r->ellipsis; label < LABELS; label++)
        out->labels[out->count++] = (signed char)label;
    for (int label = 0; label < OF_ELLIPSIS; label++)
        if (r->seen[label] == 1)
            out->labels[out->count++] = (signed char)label;
}

static haul_status read_result(reader *r, term *out)
{
    label_set known = 0;
    skip_spaces(r);
    if (!*r->at) {
        imply_result(r, out);
        return HAUL_OK;
    }
    if (r->at[0] != '-' || r->at[1] != '>')
        return wrong(r, "\"->\" or the end is expected");
    r->at += 2;
    if (read_labels(r, -1, out))
        return haul_error_status();
    if (*r->at)
        return wrong(r, "the end is expected");
    for (int d = 0; d < out->count; d++) {
        if (!r->seen[out->labels[d]] || known & only(out->labels[d]))
            return wrong(r, "each label of the result must be in an operand, and once in the result");
        known |= only(out->labels[d]);
    }
    return HAUL_OK;
}

static haul_status read_formula(reader *r, term *terms, term *out)
{
    for (int i = 0; i < r->c->count; i++) {
        if (read_term(r, i, &terms[i]))
            return haul_error_status();
        if (i + 1 < r->c->count && *r->at++ != ',')
            return r->at--, wrong(r, "there are more operands than lists of labels");
    }
    if (*r->at == ',')
        return wrong(r, "there are fewer operands than lists of labels");
    if (read_result(r, out))
        return haul_error_status();
    return out->count > HAUL_MAX_DIMS ? wrong(r, "the result would have more than 8 dimensions") : HAUL_OK;
}

static haul_status einsum(haul__call *c)
{
    const einsum_attributes *a = haul__attributes(c);
    reader                   r = {.c = c, .at = a->formula};
    term                     terms[MAX_TERMS], out;
    if (c->count < 1 || c->count > MAX_TERMS)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "count",
                          "count is %d; 1 to %d operands are expected", c->count, (int)MAX_TERMS);
    for (int label = 0; label < LABELS; label++)
        r.sizes[label] = -1;
    if (read_formula(&r, terms, &out))
        return haul_error_status();
    label_set later[MAX_TERMS] = {0}; /* labels of the result and of terms from some on */
    later[c->count - 1] = labels_of(&out);
    for (int i = c->count - 2; i >= 0; i--)
        later[i] = later[i + 1] | labels_of(&terms[i + 1]);
    for (int i = 1; i < c->count; i++)
        if (multiply(c, &terms[0], &terms[i], later[i]))
            return haul_error_status();
    if (sum_others(&terms[0], labels_of(&out)) || arrange(&terms[0], out.labels, out.count))
        return haul_error_status();
    HAUL__ASSERT(terms[0].count == out.count);
    if (terms[0].t == c->operands[0])
        terms[0].t = haul_view(terms[0].t, terms[0].t->shape); /* with a gradient of its own */
    c->results[0] = terms[0].t;
    return haul__failed(terms[0].t) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(einsum) = {
    .name = "haul_einsum",
    .operands = {{"xs", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .repeat = 1,
    .attributes_size = HAUL__ATTRIBUTES(einsum_attributes),
    .compose = einsum,
};

haul_tensor *haul_einsum(const char *formula, haul_tensor *const *xs, int count)
{
    einsum_attributes a = {""};
    const char       *name = haul__operation_einsum.name;
    if (!formula)
        return haul__fail_null(name, "formula") ? haul__failed_tensor() : NULL;
    if (strlen(formula) > MAX_FORMULA)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "formula", "the formula has %zu characters; at most %d are read",
                          strlen(formula), (int)MAX_FORMULA)
                   ? haul__failed_tensor()
                   : NULL;
    memcpy(a.formula, formula, strlen(formula));
    return haul__apply1(&haul__operation_einsum, &a, xs, count);
}

/* ---- haul_tensordot ---- */

typedef struct tensordot_attributes {
    int32_t axes[2][HAUL_MAX_DIMS];
    int32_t count, given; /* what the caller said */
} tensordot_attributes;

/* Axes of a have labels 0, 1 ...; summed axes of b have those of a, others the next ones. */
static haul_status tensordot(haul__call *c)
{
    const tensordot_attributes *at = haul__attributes(c);
    term                        a = {.t = c->operands[0]}, b = {.t = c->operands[1]};
    label_set                   kept = 0;
    if (at->given < 0 || at->given > HAUL_MAX_DIMS)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "count", "count is %d; 0 to %d is expected",
                          (int)at->given, (int)HAUL_MAX_DIMS);
    a.count = a.t->shape.ndim;
    b.count = b.t->shape.ndim;
    for (int d = 0; d < HAUL_MAX_DIMS; d++) {
        a.labels[d] = (signed char)d;
        b.labels[d] = (signed char)(HAUL_MAX_DIMS + d);
    }
    HAUL__ASSERT(at->count <= HAUL_MAX_DIMS);
    for (int i = 0; i < at->count; i++) {
        int in_a, in_b;
        if (haul__axis(at->axes[0][i], a.count, c->operation->name, &in_a) ||
            haul__axis(at->axes[1][i], b.count, c->operation->name, &in_b))
            return haul_error_status();
        if (b.labels[in_b] < HAUL_MAX_DIMS || (labels_of(&b) & only(in_a)))
            return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "axes", "an axis is given twice");
        if (a.t->shape.dims[in_a] != b.t->shape.dims[in_b])
            return haul__fail(HAUL_SHAPE, c->operation->name, "axes",
                              "axis %d of a has %lld elements, but axis %d of b has %lld", in_a,
                              (long long)a.t->shape.dims[in_a], in_b, (long long)b.t->shape.dims[in_b]);
        b.labels[in_b] = (signed char)in_a;
    }
    kept = labels_of(&a) ^ labels_of(&b);
    if (multiply(c, &a, &b, kept))
        return haul_error_status();
    HAUL__ASSERT(haul__failed(a.t) || a.count == a.t->shape.ndim);
    c->results[0] = a.t;
    return HAUL_OK;
}

HAUL__OPERATION(tensordot) = {
    .name = "haul_tensordot",
    .operands = {{"a", .layout = HAUL__ANY_STRIDES}, {"b", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(tensordot_attributes),
    .compose = tensordot,
};

haul_tensor *haul_tensordot(haul_tensor *a, haul_tensor *b, const int *axes_a, const int *axes_b, int count)
{
    tensordot_attributes at = {.given = count};
    if (count > 0 && (!axes_a || !axes_b))
        return haul__fail_null(haul__operation_tensordot.name, axes_a ? "axes_b" : "axes_a") ? haul__failed_tensor()
                                                                                             : NULL;
    for (; at.count < count && at.count < HAUL_MAX_DIMS; at.count++) {
        at.axes[0][at.count] = axes_a[at.count];
        at.axes[1][at.count] = axes_b[at.count];
    }
    return HAUL__APPLY(tensordot, &at, a, b);
}

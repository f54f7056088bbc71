#include "autograd/recompute.h"

#include <haul/random.h>
#include <haul/scope.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/guest.h"
#include "core/map.h"
#include "core/scope.h"
#include "core/shape.h"
#include "engine/autocast.h"
#include "engine/follow.h"
#include "events/call.h"
#include "events/modes.h"
#include "ops/random/generator.h"

/* What a result was like. */
typedef struct form {
    bool         tracked; /* a gradient flows through it */
    haul_dtype   dtype;
    haul_shape   shape;
    haul_device *device;
} form;

/* What makes the second run equal to the first one. */
typedef struct recompute {
    haul__object         object;
    haul__recompute_body body;

    int                 count;
    haul_tensor       **inputs; /* what the function gets; with references */
    haul__saved_tensor *saved;  /* the elements of the inputs, then of the leaves among the node's edges */
    int                 saved_count;

    haul__thread_state settings; /* of the thread; the objects are not used */
    haul_random_state  random;
    haul__call_frame  *frames; /* the module calls around the function, innermost first; with references */
    int                frame_count;
    haul__modes        modes;
    form               results[HAUL__NODE_RESULTS];
} recompute;

static haul_status run_again(const haul__node *node, haul_tensor **results);

static const haul__operation operation = {.name = "haul_checkpoint", .results = {{.name = "y"}}, .again = run_again};

static void release(const haul__recompute_body *body)
{
    if (body->release)
        body->release(body->context);
}

static void destroy(void *object)
{
    recompute *r = object;
    HAUL__ASSERT((r->inputs || !r->count) && (r->saved || !r->saved_count) && (r->frames || !r->frame_count));
    for (int i = 0; r->inputs && i < r->count; i++)
        if (!haul__is_none(r->inputs[i]))
            haul__object_release(r->inputs[i]);
    for (int i = 0; i < r->saved_count; i++)
        haul__object_release(r->saved[i].alias);
    for (int i = 0; i < r->frame_count; i++) {
        haul__object_release(r->frames[i].module);
        haul__free((char *)(uintptr_t)r->frames[i].name);
    }
    release(&r->body);
    haul__free(r->inputs);
    haul__free(r->saved);
    haul__free(r->frames);
    haul__free(r->modes.items);
    haul__free(r);
}

static const haul__class recompute_class = {.name = "function to run again", .destroy = destroy};

/* ---- state kept for the second run ---- */

/* A handle to an input that stays as it is: the leaf itself, or an alias with the input's graph. With a reference. */
static haul_tensor *handle_of(haul_tensor *x)
{
    if (haul__is_none(x))
        return x;
    if (!x->node && x->requires_grad) {
        haul__object_keep(x);
        return x;
    }
    HAUL__ASSERT(!x->node || (0 <= x->node_result && x->node_result < x->node->result_count));
    haul_tensor *alias = haul__tensor_alias(x);
    if (alias && x->node) {
        alias->node = x->node;
        alias->node_result = x->node_result;
        haul__object_keep(alias->node);
    }
    return alias;
}

static haul_status save(recompute *r, const haul_tensor *t)
{
    haul_tensor *alias = haul__tensor_alias(t);
    if (!alias)
        return haul_error_status();
    r->saved[r->saved_count++] =
        (haul__saved_tensor){alias, atomic_load_explicit(&t->storage->version, memory_order_relaxed)};
    return HAUL_OK;
}

static haul_status keep_inputs(recompute *r, haul_tensor *const *inputs, int count)
{
    r->inputs = haul__calloc((size_t)count + 1, sizeof *r->inputs);
    r->saved = haul__calloc((size_t)count + 1, sizeof *r->saved);
    if (!r->inputs || !r->saved)
        return haul__fail_memory(r->body.operation, (size_t)count * sizeof *r->saved);
    for (int i = 0; i < count; i++) {
        haul_tensor *handle = handle_of(inputs[i]);
        if (!handle)
            return haul_error_status();
        r->inputs[r->count++] = handle;
        if (!haul__is_none(handle) && save(r, handle))
            return haul_error_status();
    }
    HAUL__ASSERT(r->count == count && r->saved_count <= count);
    return HAUL_OK;
}

/* Layers within get the same paths again. */
static haul_status keep_frames(recompute *r)
{
    int count = 0;
    for (const haul__call_frame *f = haul__call_now(); f; f = f->outer)
        count++;
    r->frames = haul__calloc((size_t)count + 1, sizeof *r->frames);
    if (!r->frames)
        return haul__fail_memory(r->body.operation, (size_t)count * sizeof *r->frames);
    for (const haul__call_frame *f = haul__call_now(); f; f = f->outer) {
        haul__call_frame *copy = &r->frames[r->frame_count++];
        *copy = *f;
        copy->outer = f->outer ? copy + 1 : NULL;
        haul__object_keep(f->module);
        copy->name = f->name ? haul__strdup(f->name) : NULL;
        if (f->name && !copy->name)
            return haul__fail_memory(r->body.operation, strlen(f->name));
    }
    HAUL__ASSERT(r->frame_count == count);
    return HAUL_OK;
}

/* The caller gets a reference. After a failure nothing is left. */
static recompute *new_recompute(const haul__recompute_body *body, haul_tensor *const *inputs, int count)
{
    HAUL__ASSERT(body->result_count >= 0 && body->result_count <= HAUL__NODE_RESULTS);
    recompute *r = haul__calloc(1, sizeof *r);
    if (!r) {
        haul__fail_memory(body->operation, sizeof *r);
        release(body);
        return NULL;
    }
    haul__object_init(&r->object, &recompute_class);
    r->body = *body;
    r->settings = *haul__thread();
    r->random = haul__random_take(0);
    if (!keep_inputs(r, inputs, count) && !keep_frames(r))
        return r;
    haul__object_release(r);
    return NULL;
}

/* ---- running ---- */

/* The function, with random numbers from a generator of its own, so that other threads cannot change them. The caller
 * has opened a scope for the generator and the settings. `drawn` becomes what it drew. */
static haul_status run(recompute *r, bool again, haul_tensor *const *inputs, haul_tensor **results, int64_t *drawn)
{
    haul_generator *g = haul_generator_new(r->random.seed);
    if (!g || haul_generator_state_set(g, r->random) || haul_set_generator(g))
        return haul_error_status();
    HAUL__ASSERT(again || (!r->modes.count && !r->modes.lost)); /* the first run notes them */
    haul__modes_run here;
    for (int i = 0; i < HAUL__NODE_RESULTS; i++)
        results[i] = HAUL_NONE;
    haul__modes_begin(&here, &r->modes, again);
    haul_status status = r->body.run(r->body.context, inputs, r->count, results);
    haul__modes_end(&here);
    *drawn = (int64_t)(haul_generator_state_get(g).offset - r->random.offset);
    for (int i = 0; i < r->body.result_count && !status; i++)
        status = haul__check_optional(r->body.operation, "the result of the function", results[i]);
    return status || !r->modes.lost ? status : haul__fail_memory(r->body.operation, r->modes.count);
}

static void hand_over(haul_scope *scope, const recompute *r, haul_tensor *const *results)
{
    for (int i = 0; i < r->body.result_count; i++)
        if (!haul__is_none(results[i]))
            haul__scope_hand_over(scope, results[i]);
}

/* ---- the edges of the first run ---- */

/* Where the graph of the first run ends: leaves, and results of older nodes. */
typedef struct border {
    uint64_t     before; /* the order of the newest older node */
    haul__map    seen;
    haul__node **inside;
    size_t       inside_count, inside_capacity;
    haul__edge  *edges;
    size_t       count, capacity;
} border;

static bool add_edge(border *b, const haul__edge *edge)
{
    const bool  is_inside = edge->node && edge->node->order > b->before;
    const void *key = is_inside    ? (const void *)edge->node
                      : edge->node ? (const char *)edge->node + edge->result
                                   : (const void *)edge->leaf;
    bool        is_new;
    HAUL__ASSERT(!edge->node || !edge->leaf);
    if (!key)
        return true;
    if (!haul__map_insert(&b->seen, key, &is_new))
        return false;
    if (!is_new)
        return true;
    if (is_inside) {
        if (!haul__grow(&b->inside, &b->inside_capacity, b->inside_count + 1, sizeof(haul__node *)))
            return false;
        b->inside[b->inside_count++] = edge->node;
        return true;
    }
    if (!haul__grow(&b->edges, &b->capacity, b->count + 1, sizeof *b->edges))
        return false;
    b->edges[b->count++] = *edge;
    return true;
}

static haul_status find_border(border *b, const recompute *r, haul_tensor *const *results)
{
    bool fine = true;
    HAUL__ASSERT(!b->count && !b->inside_count);
    for (int i = 0; i < r->body.result_count && fine; i++) {
        haul__edge edge = r->results[i].tracked ? haul__edge_to(results[i]) : (haul__edge){.node = NULL};
        fine = add_edge(b, &edge);
    }
    for (size_t i = 0; i < b->inside_count && fine; i++)
        for (int k = 0; k < b->inside[i]->edge_count && fine; k++)
            fine = add_edge(b, &b->inside[i]->edges[k]);
    return fine ? HAUL_OK : haul__fail_memory(r->body.operation, b->count * sizeof *b->edges);
}

/* The leaves must have the same elements in the second run. */
static haul_status save_leaves(recompute *r, const border *b)
{
    HAUL__ASSERT(r->saved_count <= r->count); /* those of the inputs */
    haul__saved_tensor *grown = haul__realloc(r->saved, (size_t)r->saved_count + b->count + 1, sizeof *grown);
    if (!grown)
        return haul__fail_memory(r->body.operation, b->count * sizeof *grown);
    r->saved = grown;
    for (size_t i = 0; i < b->count; i++)
        if (b->edges[i].leaf && save(r, b->edges[i].leaf))
            return haul_error_status();
    return HAUL_OK;
}

/* ---- the first run ---- */

static void describe_results(recompute *r, haul_tensor *const *results)
{
    for (int i = 0; i < r->body.result_count; i++) {
        const haul_tensor *y = results[i];
        if (!haul__is_none(y))
            r->results[i] = (form){.tracked = haul__tracks(y) && (HAUL__FLOATS >> y->dtype & 1),
                                   .dtype = y->dtype,
                                   .shape = y->shape,
                                   .device = y->storage->device};
    }
}

/* A handle to a result whose graph is the node; the innermost scope owns it. */
static haul_tensor *behind(haul__node *node, int i, const haul_tensor *y)
{
    haul_tensor *handle = haul__tensor_alias(y);
    if (handle) {
        handle->node = node;
        handle->node_result = i;
        haul__object_keep(node);
    }
    return haul__own(handle, operation.name);
}

/* Replaces the graph of the first run by one node. The innermost scope gets the results. */
static haul_status replace_graph(recompute *r, uint64_t before, haul_tensor **results)
{
    border      b = {.before = before};
    haul__node *node = NULL;
    describe_results(r, results);
    haul_status status = find_border(&b, r, results);
    if (!status && b.count)
        status = save_leaves(r, &b);
    if (!status && b.count && !(node = haul__node_over(&operation, b.edges, (int)b.count, r->body.result_count)))
        status = haul__fail_memory(r->body.operation, sizeof *node);
    if (node) {
        HAUL__ASSERT(node->edge_count == (int)b.count && !node->owned);
        node->owned = r;
        haul__object_keep(r);
    }
    for (int i = 0; i < r->body.result_count && node && !status; i++) {
        haul_tensor *y = r->results[i].tracked ? behind(node, i, results[i]) : results[i];
        status = y ? HAUL_OK : haul_error_status();
        if (y)
            results[i] = y;
    }
    haul__object_release(node);
    haul__map_free(&b.seen);
    haul__free(b.inside);
    haul__free(b.edges);
    return status;
}

/* Nothing is recorded, so nothing will run again. */
static haul_status run_once(const haul__recompute_body *body, haul_tensor *const *inputs, int count,
                            haul_tensor **results)
{
    haul_status status = body->run(body->context, inputs, count, results);
    release(body);
    return status;
}

haul_status haul__recompute(const haul__recompute_body *body, haul_tensor *const *inputs, int count,
                            haul_tensor **results)
{
    haul_tensor *made[HAUL__NODE_RESULTS];
    haul_scope   scope;
    int64_t      drawn = 0;
    if (haul__thread()->no_grad)
        return run_once(body, inputs, count, results);
    if (haul__follow_mark(body->operation)) {
        release(body);
        return haul_error_status();
    }
    if (haul__is_followed())
        return run_once(body, inputs, count, results);
    recompute *r = new_recompute(body, inputs, count);
    if (!r)
        return haul_error_status();
    haul_status status = haul__scope_open(&scope, body->operation);
    if (!status) {
        const uint64_t before = haul__node_newest();
        haul__thread()->words[HAUL__RECOMPUTE] |= HAUL__BARE;
        status = run(r, false, inputs, made, &drawn);
        if (!status)
            status = replace_graph(r, before, made);
        if (!status)
            hand_over(&scope, r, made);
        haul__scope_close(&scope);
    }
    if (!status && drawn > 0)
        haul__random_take(drawn); /* as if the function had drawn from the thread's generator */
    for (int i = 0; i < body->result_count && !status; i++)
        results[i] = made[i];
    haul__object_release(r);
    return status;
}

/* ---- the second run ---- */

static haul_status refuse_change(const recompute *r, const char *what, const haul_tensor *t, const char *change)
{
    char text[96];
    return haul__fail(HAUL_GRAPH, r->body.operation, NULL,
                      "%s of the function, %s, was %s since, so the function cannot run again; do that after "
                      "haul_backward, or on a copy",
                      what, haul__tensor_text(t, text, sizeof text), change);
}

static bool is_changed(const haul__saved_tensor *saved)
{
    return atomic_load_explicit(&saved->alias->storage->version, memory_order_relaxed) != saved->version;
}

static haul_status check_unchanged(const recompute *r, const haul__node *node)
{
    const haul__saved_tensor *saved = r->saved;
    for (int i = 0; i < r->count; i++)
        if (!haul__is_none(r->inputs[i]) && is_changed(saved++))
            return refuse_change(r, "an input", r->inputs[i], "changed in place");
    for (int k = 0; k < node->edge_count; k++) {
        const haul_tensor *leaf = node->edges[k].leaf;
        if (!leaf)
            continue;
        if (leaf->storage != saved->alias->storage)
            return refuse_change(r, "a parameter", leaf, "moved or cast");
        if (is_changed(saved++))
            return refuse_change(r, "a parameter", leaf, "changed in place");
    }
    HAUL__ASSERT(saved == r->saved + r->saved_count); /* each was looked at */
    return HAUL_OK;
}

static haul_status check_same(const recompute *r, haul_tensor *const *results)
{
    char then[96], now[96];
    for (int i = 0; i < r->body.result_count; i++) {
        const form        *f = &r->results[i];
        const haul_tensor *y = results[i];
        if (!f->tracked || (haul__tracks(y) && y->dtype == f->dtype && y->storage->device == f->device &&
                            haul__shape_equal(&y->shape, &f->shape)))
            continue;
        if (haul__is_none(y) || !haul__tracks(y))
            return haul__fail(HAUL_GRAPH, r->body.operation, NULL,
                              "the function's result does not require a gradient when it runs again; it must compute "
                              "the same both times");
        return haul__fail(HAUL_GRAPH, r->body.operation, NULL,
                          "the function returned %s %s first, and %s when it ran again; it must compute the same both "
                          "times",
                          haul_dtype_name(f->dtype), haul__shape_text(&f->shape, then, sizeof then),
                          haul__tensor_text(y, now, sizeof now));
    }
    return HAUL_OK;
}

/* The settings of the first run, except those that concern only the run itself, for example the number of threads. */
static void restore_settings(const recompute *r)
{
    static const haul__setting same[] = {HAUL__PLACEMENT, HAUL__PRECISION, HAUL__AUTOCAST};
    haul__thread_state        *state = haul__thread();
    state->device = r->settings.device;
    state->no_grad = false;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        state->words[same[i]] = r->settings.words[same[i]];
    state->words[HAUL__RECOMPUTE] = HAUL__AGAIN;
}

static haul_status run_again(const haul__node *node, haul_tensor **results)
{
    recompute *r = node->owned;
    haul_scope scope;
    int64_t    drawn = 0;
    HAUL__ASSERT(r && r->body.result_count == node->result_count);
    haul_status status = node->bare ? haul__node_refuse(node) : check_unchanged(r, node);
    if (!status)
        status = haul__scope_open(&scope, r->body.operation);
    if (status)
        return status;
    /* Casts that autocast keeps for other parts of the program may be nodes that the pass has visited already. */
    void                   *casts = haul__thread_exchange(HAUL__AUTOCAST, NULL);
    const haul__call_frame *frame = haul__call_now();
    restore_settings(r);
    haul__call_set(r->frames[0].module ? r->frames : NULL);
    status = run(r, true, r->inputs, results, &drawn);
    haul__call_set(frame);
    haul__object_release(haul__thread_exchange(HAUL__AUTOCAST, casts));
    if (!status)
        status = check_same(r, results);
    if (!status)
        hand_over(&scope, r, results);
    haul__scope_close(&scope);
    return status;
}

/* ---- the public function ---- */

typedef struct call {
    haul_function *f;
    void          *context;
    void (*release)(void *context);
} call;

static haul_status call_function(void *context, haul_tensor *const *inputs, int count, haul_tensor **results)
{
    const call *c = context;
    haul__guest before = haul__guest_begin();
    results[0] = c->f(inputs, count, c->context);
    if (haul__guest_end(&before, HAUL_OK, operation.name))
        return haul_error_status();
    if (!results[0] && haul_error_status() == HAUL_OK)
        return haul__fail(HAUL_STATE, operation.name, "f", "the function returned NULL but recorded no error");
    return results[0] ? haul__status_of(results[0]) : haul_error_status();
}

static void release_call(void *context)
{
    call *c = context;
    haul__guest_free(c->release, c->context);
    haul__free(c);
}

static haul_status check_call(haul_function *f, haul_tensor *const *inputs, int count)
{
    if (!f)
        return haul__fail_no_function(operation.name, "f");
    if (!inputs && count)
        return haul__fail_null(operation.name, "inputs");
    if (!haul_scope_depth())
        return haul__fail(HAUL_STATE, operation.name, NULL,
                          "no scope is open on this thread to own the result; call haul_scope_push() first");
    if (count < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation.name, "count", "count is %d; it must be at least 0", count);
    for (int i = 0; i < count; i++)
        if (haul__check_optional(operation.name, "inputs", inputs[i]))
            return haul_error_status();
    return HAUL_OK;
}

static call *new_call(haul_function *f, const haul_recompute_options *options)
{
    call *c = haul__malloc(sizeof *c);
    if (c)
        *c = (call){f, options->context, options->release};
    else
        haul__fail_memory(operation.name, sizeof *c);
    return c;
}

haul_tensor *haul_checkpoint_with(haul_function *f, haul_tensor *const *inputs, int count,
                                  const haul_recompute_options *options)
{
    haul_tensor *y;
    if (!options) {
        haul__fail_null(operation.name, "options");
        return haul__failed_tensor();
    }
    call *c = check_call(f, inputs, count) ? NULL : new_call(f, options);
    if (!c) {
        haul__guest_free(options->release, options->context);
        return haul__failed_tensor();
    }
    haul__recompute_body body = {
        .operation = operation.name, .run = call_function, .release = release_call, .context = c, .result_count = 1};
    return haul__recompute(&body, inputs, count, &y) ? haul__failed_tensor() : y;
}

bool haul_recomputing(void)
{
    return haul__runs_again();
}

/* Makes a module of a model: parameters and buffers at the paths that the names of initialisers are. */
#include <haul/dtype.h>
#include <haul/onnx.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/list.h"
#include "core/error.h"
#include "core/object.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "core/thread.h"
#include "device/device.h"
#include "files/file.h"
#include "formats/file_type.h"
#include "host_access/view.h"
#include "nn/module.h"
#include "onnx/load.h"
#include "onnx/run.h"

#define LOAD "haul_load_onnx"

enum { MAX_DEPTH = 16 };

/* ---- the state of a module ---- */

static void destroy_state(void *state)
{
    haul__onnx_plan_release(*(haul__onnx_plan **)state);
}

static haul_status clone_state(void *to, const void *from)
{
    haul__onnx_plan *plan = *(haul__onnx_plan *const *)from;
    HAUL__ASSERT(atomic_load(&plan->refs) > 0);
    atomic_fetch_add(&plan->refs, 1);
    *(haul__onnx_plan **)to = plan;
    return HAUL_OK;
}

static haul_tensor *part_forward(haul_module *self, haul_args *args)
{
    (void)self;
    (void)args;
    haul__fail(HAUL_UNSUPPORTED, LOAD, "module",
               "this holds parameters of a loaded model and computes nothing; call the model");
    return haul__result(NULL);
}

/* ---- names ---- */

/* A module has children for the parts of a name between dots. A name that would make empty or too many parts, or meet
 * another tensor on the way, has underscores instead of dots. */
static bool splits(haul_module *root, const char *name)
{
    int parts = 1;
    for (const char *at = name;; at++) {
        const size_t length = strcspn(at, ".");
        if (!length || parts > MAX_DEPTH)
            return false;
        if (root && haul__module_find_tensor(root, at, length))
            return false;
        haul__module_child *child = root ? haul__module_find_child(root, at, length) : NULL;
        if (!at[length])
            return !child;
        root = child ? child->module : NULL;
        at += length;
        parts++;
    }
}

static haul_module *child_of(haul_module *m, const char *name, size_t length)
{
    HAUL__ASSERT(length > 0); /* splits */
    haul__module_child *found = haul__module_find_child(m, name, length);
    if (found)
        return found->module;
    char        *copy = haul__format("%.*s", (int)length, name);
    haul_module *child = copy ? haul_module_new("onnx part", part_forward) : NULL;
    if (!copy)
        haul__fail_memory(LOAD, length);
    if (child && haul_module_add(m, copy, child))
        child = NULL;
    haul__free(copy);
    return child;
}

/* The name of a constant in the module: a path. */
static char *path_of(haul_module *root, const char *name, int value)
{
    char *path = haul__strdup(*name ? name : "tensor");
    if (!path || splits(root, path))
        return path;
    for (char *p = path; *p; p++)
        *p = *p == '.' ? '_' : *p;
    if (splits(root, path))
        return path;
    char *numbered = haul__format("%s_%d", path, value);
    haul__free(path);
    return numbered;
}

static haul_status add_tensor(haul_module *root, const haul__onnx_constant *c, haul_tensor *t)
{
    haul_module *m = root;
    const char  *at = c->path;
    for (const char *dot; m && (dot = strchr(at, '.')); at = dot + 1)
        m = child_of(m, at, (size_t)(dot - at));
    if (!m)
        return haul_error_status();
    return c->is_buffer ? haul_module_add_buffer(m, at, t) : haul_module_add_parameter(m, at, t);
}

/* ---- constants ---- */

static bool is_small(const haul__onnx_tensor *t)
{
    return t->count <= HAUL__ONNX_NUMBERS && t->dtype != HAUL_F16 && t->dtype != HAUL_BF16;
}

static haul_status keep_numbers(haul__numbers **out, const haul__onnx_tensor *t, const void *elements)
{
    HAUL__ASSERT(!*out && 0 <= t->count && t->count <= HAUL__ONNX_NUMBERS);
    const size_t   bytes = sizeof **out + (size_t)t->count * sizeof *(*out)->items;
    haul__numbers *n = haul__calloc(1, bytes);
    if (!n)
        return haul__fail_memory(LOAD, bytes);
    n->dtype = t->dtype;
    n->shape = t->shape;
    n->count = t->count;
    haul__onnx_decode(n, elements);
    *out = n;
    return HAUL_OK;
}

/* The attribute "value" of operators that fill tensors with it. */
static haul_status load_value(haul__onnx_step *step, const char *model_path)
{
    const haul__onnx_attribute *a = step->row->run ? haul__onnx_attribute_of(step->node, "value") : NULL;
    const haul__onnx_tensor    *t = a ? a->tensor : NULL;
    int64_t                     element;
    if (!t)
        return HAUL_OK;
    if (t->fault || t->count != 1 || t->dtype == HAUL_F16 || t->dtype == HAUL_BF16)
        return haul__fail(HAUL_UNSUPPORTED, LOAD, "path",
                          "%s has the operator %.40s with a value that is not one element of a dtype that Haul has",
                          model_path, step->node->type);
    HAUL__ASSERT((size_t)haul_dtype_bits(t->dtype) / 8 <= sizeof element);
    if (haul__onnx_elements(t, model_path, LOAD, &element, (size_t)haul_dtype_bits(t->dtype) / 8))
        return haul_error_status();
    return keep_numbers(&step->value, t, &element);
}

/* A tensor whose memory the elements are read into. A dry run has no memory. */
static haul_tensor *read_tensor(const haul__onnx_tensor *t, const char *model_path, size_t bytes)
{
    haul__loading loading;
    if (haul__loading_begin(&loading, t->dtype, &t->shape, LOAD))
        return haul__failed_tensor();
    return haul__loading_end(&loading, haul__onnx_elements(t, model_path, LOAD, loading.memory, bytes));
}

/* A tensor of elements that are read first: `keep` keeps them as numbers on the host, too. HAUL_NONE: only those are
 * used. */
static haul_tensor *copy_tensor(haul__onnx_constant *c, const char *model_path, size_t bytes, bool keep)
{
    void *elements = haul__malloc(bytes ? bytes : 1);
    if (!elements) {
        haul__fail_memory(LOAD, bytes);
        return haul__failed_tensor();
    }
    haul_status status = haul__onnx_elements(c->tensor, model_path, LOAD, elements, bytes);
    if (!status && keep)
        status = keep_numbers(&c->numbers, c->tensor, elements);
    haul_tensor *t = status                   ? haul__failed_tensor()
                     : c->used || !c->numbers ? haul_from_host(c->tensor->dtype, c->tensor->shape, elements)
                                              : HAUL_NONE;
    haul__free(elements);
    return t;
}

typedef struct loader {
    haul_module      *root;
    haul__onnx_plan  *plan;
    const char       *path;
    bool              frozen, map;
    haul__onnx_mapped mapped;
} loader;

/* A tensor whose elements stay in the mapped file. NULL: they cannot. */
static haul_tensor *map_tensor(loader *l, const haul__onnx_tensor *t, size_t bytes)
{
    haul_status status;
    void       *elements = haul__onnx_map_external(t, l->path, LOAD, bytes, &l->mapped, &status);
    if (!elements)
        return status ? haul__failed_tensor() : NULL;
    haul__object_keep(l->mapped.mapping);
    l->plan->mapped_bytes += bytes;
    return haul_wrap_host(t->dtype, t->shape, elements, haul__object_release, l->mapped.mapping);
}

/* Numbers on the host are those that cannot change: of whole numbers, of nodes, and those that say how to compute. */
static haul_status load_constant(loader *l, haul__onnx_constant *c)
{
    const bool   real = haul_dtype_is_float(c->tensor->dtype);
    const size_t bytes = (size_t)c->tensor->count * (size_t)haul_dtype_bits(c->tensor->dtype) / 8;
    const bool   keep = is_small(c->tensor) && (!real || !c->initializer || !c->used);
    if (!c->used && !c->host)
        return HAUL_OK;
    const bool   small = bytes < HAUL__ONNX_LEFT_OUT || haul__is_dry();
    haul_tensor *t = l->map && !small ? map_tensor(l, c->tensor, bytes) : NULL;
    if (!t && haul__onnx_check_external(c->tensor, l->path, LOAD, bytes)) /* before memory is taken for it */
        return haul_error_status();
    if (!t)
        t = small ? copy_tensor(c, l->path, bytes, keep) : read_tensor(c->tensor, l->path, bytes);
    if (haul__failed(t))
        return haul_error_status();
    if (haul__is_none(t))
        return HAUL_OK;
    HAUL__ASSERT(!c->path && (c->used || !c->numbers)); /* loaded once */
    c->is_buffer = l->frozen || !real || !c->initializer || c->statistic || !c->tensor->shape.ndim;
    c->path = path_of(l->root, c->name, c->value);
    return c->path ? add_tensor(l->root, c, t) : haul__fail_memory(LOAD, 1);
}

static haul_status load_constants(haul_module *root, haul__onnx_plan *plan, const haul_load_onnx_options *o)
{
    haul_status status = HAUL_OK;
    loader      l = {.root = root, .plan = plan, .path = o->path, .frozen = o->frozen};
    l.map = o->map && haul__device_current(LOAD) == haul_cpu();
    for (int i = 0; i < plan->constant_count && !status; i++)
        status = load_constant(&l, &plan->constants[i]);
    for (int i = 0; i < plan->step_count && !status; i++)
        status = load_value(&plan->steps[i], l.path);
    if (l.mapped.mapping)
        haul__object_release(l.mapped.mapping);
    return status;
}

/* ---- the module ---- */

/* "input_ids, mask": the graph's names, with underscores for characters that separate or mark names. */
static char *names_text(const char *const *names, int count)
{
    char *text = NULL;
    for (int i = 0; i < count; i++) {
        char *name = haul__strdup(*names[i] ? names[i] : "_");
        for (char *p = name; p && *p; p++)
            *p = strchr(" ,?.", *p) ? '_' : *p;
        char *longer = name ? haul__format("%s%s%s", text ? text : "", text ? ", " : "", name) : NULL;
        haul__free(name);
        haul__free(text);
        text = longer;
        if (!text)
            return NULL;
    }
    return text ? text : haul__strdup("x?");
}

static haul_module *make_module(haul__onnx_plan *plan)
{
    const char *names[HAUL_MAX_ARGUMENTS];
    HAUL__ASSERT(plan->input_count <= HAUL_MAX_ARGUMENTS && plan->output_count <= HAUL_MAX_ARGUMENTS);
    HAUL__ASSERT(plan->output_count > 0 && atomic_load(&plan->refs) == 1);
    for (int i = 0; i < plan->input_count; i++)
        names[i] = plan->input_infos[i]->name;
    char *inputs = names_text(names, plan->input_count);
    for (int i = 0; i < plan->output_count; i++)
        names[i] = plan->model.graph.outputs[i].name;
    char        *results = names_text(names, plan->output_count);
    haul_module *m = NULL;
    if (inputs && results)
        m = haul__module_make("onnx",
                              &(haul_module_options){.forward = haul__onnx_forward,
                                                     .inputs = inputs,
                                                     .results = results,
                                                     .state_bytes = sizeof plan,
                                                     .destroy = destroy_state,
                                                     .clone = clone_state},
                              LOAD);
    else
        haul__fail_memory(LOAD, 1);
    haul__free(inputs);
    haul__free(results);
    if (m)
        *(haul__onnx_plan **)haul_module_state(m) = plan;
    else
        haul__onnx_plan_release(plan);
    return m;
}

static haul_status read_open(haul__onnx_file *f)
{
    const haul__file *file = &f->file;
    if (haul__file_check_limit(file, HAUL__ONNX_LIMIT))
        return haul_error_status();
    const size_t size = (size_t)file->size, head = size < HAUL__FILE_HEAD ? size : HAUL__FILE_HEAD;
    HAUL__ASSERT(!f->data && head <= size);
    f->data = haul__malloc(size);
    if (!f->data)
        return haul__fail_memory(file->operation, size);
    if (haul__file_read(file, 0, f->data, head))
        return haul_error_status();
    if (!haul__onnx_recognise(f->data, head) &&
        haul__refuse_file_type(haul__file_type_of(f->data, head), file->operation, file->path, "an ONNX model"))
        return haul_error_status();
    if (haul__onnx_skim(file, f->data))
        return haul_error_status();
    return haul__onnx_read(&f->model, (haul__bytes){f->data, size}, file, file->path, file->operation);
}

haul_status haul__onnx_read_file(const char *path, const char *operation, haul__onnx_file *out)
{
    *out = (haul__onnx_file){.data = NULL};
    haul_status status = haul__file_open(&out->file, path, operation);
    if (status)
        return status;
    status = read_open(out);
    if (status)
        haul__onnx_close_file(out);
    return status;
}

void haul__onnx_close_file(haul__onnx_file *file)
{
    haul__onnx_free(&file->model);
    haul__free(file->data);
    haul__file_close(&file->file);
    file->data = NULL;
}

static haul_module *load(haul__onnx_file *file, const haul_load_onnx_options *options)
{
    haul__onnx_plan *plan = haul__onnx_plan_new(&file->model, options->path, LOAD);
    haul_module     *m = plan ? make_module(plan) : NULL;
    haul_scope      *scope = m ? haul__scope_push(NULL) : NULL;
    if (!m)
        return NULL;
    if (!scope)
        return haul_drop(m), NULL;
    return haul__module_built(m, scope, load_constants(m, plan, options), LOAD);
}

haul_module *haul_load_onnx_with(const haul_load_onnx_options *options)
{
    haul__onnx_file file;
    if (!options) {
        haul__fail_null(LOAD, "options");
        return NULL;
    }
    if (haul__onnx_read_file(options->path, LOAD, &file))
        return NULL;
    haul_module *m = load(&file, options);
    haul__onnx_close_file(&file);
    if (m)
        haul_module_train(m, false);
    return m;
}

const haul__onnx_plan *haul__onnx_plan_of(const haul_module *m)
{
    return m->forward == haul__onnx_forward ? *(haul__onnx_plan *const *)m->state : NULL;
}

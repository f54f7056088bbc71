#include "cli/train/place/place.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/shared/cli.h"
#include "cli/shared/json_file.h"
#include "plan/place/plan.h"

/* ---- reading ---- */

static bool add_entry(place_list *l, const char *path, size_t length, bool exact, haul_device *device)
{
    if (!haul__grow(&l->items, &l->room, l->count + 1, sizeof *l->items)) {
        complain("memory is exhausted");
        return false;
    }
    place_entry *e = &l->items[l->count++];
    *e = (place_entry){.exact = exact, .device = device};
    snprintf(e->path, sizeof e->path, "%.*s", (int)length, path);
    return true;
}

/* NULL after a complaint. */
static haul_device *find_device(const char *name)
{
    haul_device_properties p;
    haul_device           *device = haul_device_get(name);
    if (!haul_device_describe(device, &p))
        return device;
    complain_error();
    return NULL;
}

/* "conv*=opencl:0,fc*=cpu" */
static bool read_places(const char *text, place_list *out)
{
    while (*text) {
        const size_t length = strcspn(text, ",");
        char         part[200];
        snprintf(part, sizeof part, "%.*s", (int)length, text);
        char *equals = strrchr(part, '=');
        if (!equals || equals == part || length >= sizeof part) {
            complain("--place %s is not PATTERN=DEVICE, for example 'conv*=gpu'", part);
            return false;
        }
        haul_device *device = find_device(equals + 1);
        if (!device || !add_entry(out, part, (size_t)(equals - part), false, device))
            return false;
        text += length + (text[length] == ',');
    }
    return true;
}

static bool has_path(const place_list *l, const char *path)
{
    for (size_t i = 0; i < l->count; i++)
        if (!strcmp(l->items[i].path, path))
            return true;
    return false;
}

/* Where the modules compute: where the first operations that they call do, which are those of the forward pass. */
bool place_list_modules(place_list *l)
{
    const haul__place_graph *g = &l->plan->graph;
    haul_device             *devices[HAUL__PLACE_DEVICES];
    for (int d = 0; d < haul__plan_device_count(l->plan); d++)
        if (!(devices[d] = find_device(l->plan->request.names[d])))
            return false;
    for (size_t i = 0; i < g->operation_count; i++) {
        const haul__place_operation *o = &g->operations[i];
        if (*o->module && !o->outside && o->call >= 0 && !has_path(l, o->module) &&
            !add_entry(l, o->module, strlen(o->module), true, devices[haul__plan_device_of(l->plan, o)]))
            return false;
    }
    return true;
}

static bool read_plan(const char *path, place_list *out)
{
    haul__json *file = json_tree_read(path, "haul train");
    if (!file)
        return false;
    out->plan = haul__plan_read(file, path, "haul train");
    haul__json_free(file);
    if (!out->plan)
        complain_error();
    return out->plan && place_list_modules(out);
}

bool place_read(const char *place, const char *plan, place_list *out)
{
    return plan ? read_plan(plan, out) : !place || read_places(place, out);
}

void place_free(place_list *l)
{
    haul__free(l->items);
    haul__object_release(l->plan);
    *l = (place_list){0};
}

static void digest_of(const haul_program *step, char out[17])
{
    snprintf(out, 17, "%016" PRIx64, haul__place_digest(step));
}

bool place_is_for(const place_list *l, const haul_program *step)
{
    char digest[17];
    digest_of(step, digest);
    return !strcmp(digest, l->plan->digests[0]);
}

bool place_suits(const place_list *l, const char *plan, const haul_program *step)
{
    char digest[17];
    digest_of(step, digest);
    if (place_is_for(l, step))
        return true;
    complain(
        "%s is for another step: its \"program\" is %s and that of this training %s; model, data, batch, optimizer "
        "and precision must be those of haul plan",
        plan, l->plan->digests[0], digest);
    return false;
}

/* ---- placing ---- */

static bool is_for(const place_entry *e, const char *path)
{
    return e->exact ? !strcmp(e->path, path) : haul__place_matches(e->path, path);
}

/* The device of the module; NULL: it has none of its own. */
static haul_status device_of(const place_list *l, const char *path, bool *used, haul_device **out)
{
    *out = NULL;
    for (size_t i = 0; i < l->count; i++) {
        const place_entry *e = &l->items[i];
        if (!is_for(e, path))
            continue;
        used[i] = true;
        if (*out && *out != e->device)
            return haul_error_set(HAUL_INVALID_ARGUMENT, "haul train", "place",
                                  "%s is placed on both %s and %s; remove one of the two patterns", path,
                                  haul_device_name(*out), haul_device_name(e->device));
        *out = e->device;
    }
    return HAUL_OK;
}

typedef struct walk {
    const place_list *list;
    haul_device      *rest; /* of modules without children that no entry is for */
    bool             *used;
    haul_status (*visit)(const char *path, haul_module *m, haul_device *device, void *context);
    void *context;
} walk;

/* A module before its children, whose devices may be others. */
static haul_status walk_children(const walk *w, haul_module *parent, const char *prefix)
{
    enum { MOST = 256 };
    haul_status       status = HAUL_OK;
    haul_named_module children[MOST];
    const int         n = haul_module_children(parent, children, MOST);
    for (int i = 0; !status && i < n && i < MOST; i++) {
        char         path[sizeof w->list->items->path];
        haul_device *device;
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", children[i].name);
        status = device_of(w->list, path, w->used, &device);
        if (!device && haul_module_children(children[i].module, NULL, 0) == 0)
            device = w->rest;
        if (!status && device)
            status = w->visit(path, children[i].module, device, w->context);
        if (!status)
            status = walk_children(w, children[i].module, path);
    }
    return n < 0 ? haul_error_status() : status;
}

static haul_status walk_modules(walk *w, haul_module *net)
{
    w->used = haul__calloc(w->list->count + 1, sizeof *w->used);
    if (!w->used)
        return haul_error_set(HAUL_OUT_OF_MEMORY, "haul train", "place", "host memory is exhausted");
    haul_status status = walk_children(w, net, "");
    for (size_t i = 0; !status && i < w->list->count; i++)
        if (!w->used[i])
            status = haul_error_set(HAUL_INVALID_ARGUMENT, "haul train", "place",
                                    "no module of the network matches '%s'", w->list->items[i].path);
    haul__free(w->used);
    return status;
}

static haul_status place_one(const char *path, haul_module *m, haul_device *device, void *context)
{
    (void)path;
    (void)context;
    return haul_module_place(m, device);
}

haul_status place_modules(const place_list *l, haul_module *net, haul_device *rest)
{
    walk w = {.list = l, .rest = rest, .visit = place_one};
    if (l->plan)
        return haul__plan_follow(l->plan, l->plan->best, net, "haul train");
    if (!l->count)
        return HAUL_OK;
    haul_status status = walk_modules(&w, net);
    return status ? status : haul_set_placement_policy(HAUL_PLACE_MOVE);
}

haul_device *place_of_data(const place_list *l, haul_device *rest)
{
    const haul__place_graph  *g = l->plan ? &l->plan->graph : NULL;
    const haul__place_tensor *largest = NULL;
    for (size_t i = 0; g && i < g->tensor_count; i++) {
        const haul__place_tensor *t = &g->tensors[i];
        if (haul__place_is_data(&g->operations[t->producer]) && t->use_count && (!largest || t->bytes > largest->bytes))
            largest = t;
    }
    if (!largest)
        return rest;
    const haul__place_operation *o = &g->operations[g->uses[largest->use].operation];
    return haul_device_get(l->plan->request.names[haul__plan_device_of(l->plan, o)]);
}

/* ---- text ---- */

typedef struct text {
    char        *out;
    size_t       size, used;
    haul_device *device; /* of the modules that were listed last; NULL: none */
    int          count;  /* of these */
    char         last[sizeof((place_entry *)0)->path];
} text;

static void append(text *t, const char *first, const char *second)
{
    if (t->used < t->size)
        t->used += (size_t)snprintf(t->out + t->used, t->size - t->used, "%s%s", first, second);
}

/* Ends the modules on one device: "conv1, conv2 on opencl:0", and "conv1..layer1.1.bn2 on opencl:0" for more. */
static void end_run(text *t)
{
    if (t->count > 1)
        append(t, t->count > 2 ? ".." : ", ", t->last);
    if (t->device)
        append(t, " on ", haul_device_name(t->device));
}

static haul_status list_one(const char *path, haul_module *m, haul_device *device, void *context)
{
    text *t = context;
    if (haul_module_children(m, NULL, 0) > 0 || haul_module_parameter_count(m) <= 0)
        return HAUL_OK;
    if (t->device != device) {
        end_run(t);
        append(t, t->device ? "; " : "", path);
        t->count = 0;
    }
    t->device = device;
    t->count++;
    snprintf(t->last, sizeof t->last, "%s", path);
    return HAUL_OK;
}

void place_text(const place_list *l, haul_module *net, haul_device *rest, char *out, size_t size)
{
    text t = {.out = out, .size = size};
    walk w = {.list = l, .rest = rest, .visit = list_one, .context = &t};
    *out = '\0';
    if (l->count && !walk_modules(&w, net))
        end_run(&t);
}

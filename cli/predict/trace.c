#include "cli/predict/trace.h"

#include <string.h>

#include "base/alloc.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"

enum { SHOWN = 4, VALUE_WIDTH = 8, GAP = 2 }; /* values of each stage */

/* A line of the table. */
typedef struct stage {
    char       name[64], kind[32], device[64];
    haul_shape shape;
    double     seconds, values[SHOWN];
    int        value_count;
    bool       more; /* elements than values */
} stage;

typedef struct tracer {
    bool        json, noting;
    double      began;   /* of the innermost module */
    bool        is_leaf; /* nothing was called inside it */
    bool        failed;
    double      seconds; /* all stages */
    stage      *stages;  /* for the table, whose times have one unit */
    size_t      stage_count, stage_room;
    haul_status status; /* of what failed: errors of a watcher are forgotten when it returns */
    char        message[512];
} tracer;

/* The first values of t as doubles; how many. */
static int first_values(haul_tensor *t, double *out)
{
    haul_scope  *scope = haul_scope_push();
    int64_t      count = haul_tensor_count(t), n = count < SHOWN ? count : SHOWN;
    haul_tensor *flat = haul_reshape(haul_detach(t), HAUL_SHAPE(-1));
    haul_tensor *some = haul_cast(haul_slice(flat, 0, 0, n, 1), HAUL_F64);
    if (haul_read(haul_to(some, haul_cpu()), out, (size_t)n * sizeof *out))
        n = -1;
    haul_scope_pop(scope);
    return (int)n;
}

typedef struct stage_row {
    const char *stage, *kind, *device, *shape, *time;
} stage_row;

/* The columns before the values. A narrow terminal has no kind, and then no device. The remaining columns of the line,
 * at least 0. */
static int print_row(const stage_row *row)
{
    enum { KIND = 13, DEVICE = 11, ALL = 60 };
    int room = output_room(), used = ALL;
    print_fitted(row->stage, 10);
    if (room >= ALL)
        printf(" %-12s", row->kind);
    used -= room >= ALL ? 0 : KIND;
    if (room >= used)
        printf(" %-10s", row->device);
    used -= room >= used ? 0 : DEVICE;
    printf(" %-14s %10s", row->shape, row->time);
    return room > used ? room - used : 0;
}

static void print_stage(const stage *x, double all_seconds)
{
    const stage_row row = {x->name, x->kind, x->device, text_shape(&x->shape),
                           text_seconds_like(x->seconds, all_seconds)};
    int left = print_row(&row) - GAP, shown = left < x->value_count * VALUE_WIDTH ? left / VALUE_WIDTH : x->value_count;
    if (shown > 0)
        printf("%*s", GAP, "");
    for (int i = 0; i < shown; i++)
        printf("%*.3f", VALUE_WIDTH, x->values[i]);
    printf("%s\n", shown > 0 && left >= shown * VALUE_WIDTH + 4 && (x->more || shown < x->value_count) ? " ..." : "");
}

static void print_table(const tracer *r, bool complete)
{
    int left = print_row(&(stage_row){"stage", "what", "device", "shape", "time"});
    puts(left > VALUE_WIDTH ? "   values" : "");
    for (size_t i = 0; i < r->stage_count; i++)
        print_stage(&r->stages[i], r->seconds);
    if (!complete)
        return;
    print_row(&(stage_row){"total", "", "", "", text_seconds(r->seconds)});
    putchar('\n');
}

/* False without memory. */
static bool print_json(const stage *x)
{
    cJSON *event = json_event("stage");
    json_text(event, "stage", x->name);
    json_text(event, "kind", x->kind);
    json_text(event, "device", x->device);
    json_shape(event, "shape", &x->shape);
    json_number(event, "ms", 1e3 * x->seconds);
    cJSON *list = json_array(event, "values");
    for (int i = 0; i < x->value_count; i++)
        json_push(list, cJSON_CreateNumber(x->values[i]));
    char *line = json_line(event);
    if (line)
        fputs(line, stdout);
    cJSON_free(line);
    return line;
}

static void note_stage(tracer *r, const char *name, const char *kind, haul_tensor *t, double seconds)
{
    stage x = {.shape = haul_tensor_shape(t), .seconds = seconds};
    snprintf(x.name, sizeof x.name, "%s", name);
    snprintf(x.kind, sizeof x.kind, "%s", kind);
    snprintf(x.device, sizeof x.device, "%s", haul_device_name(haul_tensor_device(t)));
    x.value_count = first_values(t, x.values);
    x.more = haul_tensor_count(t) > x.value_count;
    r->seconds += seconds;
    r->failed = x.value_count < 0;
    if (r->failed)
        return;
    if (r->json)
        r->failed = !print_json(&x);
    else if (haul__grow(&r->stages, &r->stage_room, r->stage_count + 1, sizeof x))
        r->stages[r->stage_count++] = x;
    else
        r->failed = true;
    if (r->failed)
        haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
}

static void call_ended(tracer *r, const haul_call_event *event)
{
    haul_tensor *y = event->y->tensors[0];
    r->failed = haul_device_sync(haul_tensor_device(y)) != HAUL_OK;
    double seconds = clock_seconds() - r->began;
    if (r->noting && !r->failed)
        note_stage(r, *event->path ? event->path : "network", haul_module_kind(event->module), y, seconds);
    if (r->failed) {
        r->status = haul_error_status();
        snprintf(r->message, sizeof r->message, "%s", haul_error_message());
    }
}

static void on_call(const haul_call_event *event, void *context)
{
    tracer *r = context;
    if (!event->done) {
        r->is_leaf = true;
        haul_device_sync(haul_tensor_device(event->x->tensors[0]));
        r->began = clock_seconds();
        return;
    }
    bool leaf = r->is_leaf;
    r->is_leaf = false;
    if (leaf && event->y->count && !r->failed)
        call_ended(r, event);
}

static haul_tensor *run(tracer *r, haul_module *net, haul_tensor *x, haul_device *device)
{
    double       began = clock_seconds();
    haul_tensor *inside = haul_to(x, device);
    if (!haul_tensor_is_valid(inside) || haul_device_sync(device))
        return NULL;
    double seconds = clock_seconds() - began;
    if (r->noting) {
        note_stage(r, "input", "as loaded", x, 0);
        note_stage(r, "placement", device == haul_cpu() ? "in place" : "to device", inside, seconds);
    }
    if (r->failed)
        return NULL;
    haul_watch_calls(on_call, r);
    haul_tensor *y = haul_call(net, inside);
    haul_watch_calls(NULL, NULL);
    if (r->failed)
        haul_error_set(r->status, NULL, NULL, "%s", r->message);
    if (!haul_tensor_is_valid(y) || r->failed || haul_device_sync(device))
        return NULL;
    began = clock_seconds();
    haul_tensor *home = haul_to(y, haul_cpu());
    if (!haul_tensor_is_valid(home) || haul_device_sync(device))
        return NULL;
    if (r->noting)
        note_stage(r, "output", device == haul_cpu() ? "in place" : "to cpu", home, clock_seconds() - began);
    return r->failed ? NULL : home;
}

haul_tensor *trace_call(haul_module *net, haul_tensor *x, haul_device *device, bool json)
{
    tracer warm = {0}, r = {.json = json, .noting = true};
    if (!run(&warm, net, x, device)) /* compiles kernels, so that the times are those of running */
        return NULL;
    haul_tensor *y = run(&r, net, x, device);
    if (!json)
        print_table(&r, y);
    haul__free(r.stages);
    return y;
}

#include "cli/plan/allow.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"
#include "cli/train/log/form.h"
#include "cli/train/planner.h"
#include "plan/choose/choose.h"

typedef struct allowance {
    trainer       *t;
    study_request *request;
    unsigned       allowed;
    int64_t        limit; /* of the device, in bytes */
    haul__chosen   chosen;
    haul_plan     *split; /* the placement, if it was allowed and fits; else NULL */
} allowance;

/* ---- options ---- */

static void complain_of_names(const char *name, size_t length)
{
    char   names[100];
    size_t used = 0;
    for (int i = 0; haul__technique_name(i) && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", haul__technique_name(i));
    complain("--allow has '%.*s'; expected are some of %s", (int)length, name, names);
}

/* The bit of the technique; 0: none has that name. */
static unsigned technique_of(const char *name, size_t length)
{
    for (int i = 0; haul__technique_name(i); i++)
        if (strlen(haul__technique_name(i)) == length && !strncmp(name, haul__technique_name(i), length))
            return 1U << i;
    return 0;
}

bool allow_parse(const char *list, unsigned *out)
{
    *out = 0;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t   length = strcspn(at, ",");
        const unsigned technique = technique_of(at, length);
        if (!technique) {
            complain_of_names(at, length);
            return false;
        }
        *out |= technique;
    }
    return true;
}

const char *allow_device(const study_request *r, const char *machine)
{
    static char name[HAUL__MACHINE_NAME + 16];
    for (int i = 0; machine && haul__machine_shipped(i); i++)
        if (!strcmp(machine, haul__machine_shipped(i))) {
            snprintf(name, sizeof name, "sim:%s:%d", machine, r->plan.device - 1);
            return name;
        }
    return machine ? "cpu" : r->plan.names[1];
}

/* ---- planning ---- */

static haul_status record(void *context, const haul__choose_way *way, haul__segments *segments, haul__fit_step *out)
{
    const allowance      *a = context;
    const haul__training *t = planner_vary(a->t->planner, way->parts, way->bf16 ? "bf16" : NULL);
    return haul__fit_record(t, way->batch, segments, out);
}

/* As the options have it. */
static haul_status record_plain(void *context, haul__segments *segments, haul__fit_step *out)
{
    const allowance *a = context;
    return record(context, &(haul__choose_way){a->t->options->batch, 1, false}, segments, out);
}

/* A share is of the device's peak without a limit. */
static haul_status find_limit(allowance *a, haul__choose_request *r)
{
    const haul__plan_request *p = &a->request->plan;
    a->limit = p->limit[1] ? p->limit[1] : p->machine->devices[p->device].memory_bytes;
    if (p->percent[1] > 0) {
        haul__keep        free;
        const haul_status status = haul__keep_find(&(haul__keep_request){.record = record_plain,
                                                                         .context = a,
                                                                         .device = r->device,
                                                                         .limit = INT64_MAX / 2,
                                                                         .machine = r->machine,
                                                                         .number = r->number},
                                                   &free);
        if (status)
            return status;
        a->limit = (int64_t)(p->percent[1] / 100 * (double)free.free_peak);
        haul__keep_free(&free);
    }
    r->limit = larger(a->limit, 1);
    return HAUL_OK;
}

/* The placement takes the place of the other plan. The bound is of both. */
static void use_split(allowance *a)
{
    haul__chosen          *c = &a->chosen;
    const haul__placement *best = a->split->best;
    haul__keep_free(&c->keep);
    c->fits = true;
    c->used = HAUL__ALLOW_SPLIT;
    c->accumulate = 1;
    c->bf16 = false;
    c->moved = 0;
    c->ps = best->cost;
    c->bound = smaller(best->proof.bound, c->bound);
    c->keep.peak = best->peaks[1].bytes;
}

/* The placement counts if it is faster, or if nothing else fits. */
static haul_status try_split(allowance *a)
{
    haul_program       program;
    haul__plan_request request = a->request->plan;
    haul_status        status = planner_record(a->t->planner, a->chosen.batch, false, &program);
    if (status)
        return status;
    request.ahead = true;
    request.limit[1] = a->limit;
    request.percent[1] = 0;
    a->request->plan.machine = NULL; /* the plan takes it over */
    a->split = haul__plan_new(&program, &request, "haul plan");
    if (!a->split && haul_error_status() != HAUL_OUT_OF_MEMORY)
        return haul_error_status();
    haul_error_clear();
    if (a->split && a->chosen.fits && a->split->best->cost >= a->chosen.ps) {
        haul__object_release(a->split);
        a->split = NULL;
    }
    if (a->split)
        use_split(a);
    return HAUL_OK;
}

static haul_status choose(allowance *a)
{
    const haul__plan_request *p = &a->request->plan;
    haul__choose_request      r = {.record = record,
                                   .context = a,
                                   .device = a->t->device,
                                   .allowed = a->allowed,
                                   .batch = a->t->options->batch,
                                   .most_batch = smaller(haul_dataset_count(a->t->data.train), (int64_t)MOST_BATCH),
                                   .host_limit = p->limit[0],
                                   .machine = p->machine,
                                   .number = p->device};
    haul_status               status = find_limit(a, &r);
    if (!status)
        status = haul__choose(&r, &a->chosen);
    if (!status && a->allowed & HAUL__ALLOW_SPLIT && a->chosen.batch)
        status = try_split(a);
    return status;
}

/* ---- the result ---- */

static double gap_of(const haul__chosen *c)
{
    return c->ps ? (double)(c->ps - c->bound) / (double)c->ps : 0;
}

static const char *words(const allowance *a, char *out, size_t size)
{
    return a->split ? "" : haul__chosen_sentence(&a->chosen, out, size);
}

/* ---- JSON ---- */

static void put_techniques(cJSON *object, const char *name, unsigned techniques)
{
    cJSON *array = json_array(object, name);
    for (int i = 0; haul__technique_name(i); i++)
        if (techniques >> i & 1)
            json_push(array, cJSON_CreateString(haul__technique_name(i)));
}

static void put_moves(const allowance *a, cJSON *object)
{
    const haul__keep *k = &a->chosen.keep;
    cJSON            *array = json_array(object, "spilled");
    for (int64_t i = 0; i < k->schedule.count; i++) {
        const haul__spill_move   *m = &k->schedule.moves[i];
        const haul_program_store *s = &k->program.stores[m->store];
        cJSON                    *move = cJSON_CreateObject();
        json_text(move, "module", s->module);
        json_text(move, "origin", s->origin);
        json_number(move, "bytes", (double)s->bytes);
        json_number(move, "after", (double)m->after);
        json_number(move, "before", (double)m->before);
        json_push(array, move);
    }
}

static void put_other(cJSON *object, const char *name, const haul__choose_other *o)
{
    cJSON *other = json_object(object, name);
    json_number(other, "bytes", o->bytes ? (double)o->bytes : NAN);
    json_bool(other, "fits", o->bytes && o->fits);
    json_number(other, "step_ms", o->bytes && o->fits ? (double)o->ps * 1e-9 : NAN);
}

static bool show_json(const allowance *a)
{
    char                      text[300];
    const haul__chosen       *c = &a->chosen;
    const haul__plan_request *p = &a->request->plan;
    cJSON                    *object = cJSON_CreateObject();
    json_bool(object, "fits", c->fits);
    put_techniques(object, "allowed", a->allowed);
    put_techniques(object, "techniques", c->used);
    json_number(object, "batch", (double)c->batch);
    json_number(object, "accumulate", (double)c->accumulate);
    json_text(object, "precision", c->bf16 ? "bf16" : a->t->options->precision);
    json_text(object, "device", p->names[1]);
    json_number(object, "limit_bytes", (double)a->limit);
    json_number(object, "step_ms", (double)c->ps * 1e-9);
    json_number(object, "bound_ms", c->fits ? (double)c->bound * 1e-9 : NAN);
    json_number(object, "gap", c->fits ? gap_of(c) : NAN);
    cJSON *peaks = json_object(object, "peak_bytes");
    json_number(peaks, p->names[0], (double)(a->split ? a->split->best->peaks[0].bytes : c->moved));
    json_number(peaks, p->names[1], (double)c->keep.peak);
    json_number(object, "spilled_bytes", (double)c->moved);
    json_number(object, "unlimited_step_ms", (double)c->free_ps * 1e-9);
    json_number(object, "unlimited_peak_bytes", (double)c->free_peak);
    json_segments(object, "recomputed", &c->keep.segments);
    put_moves(a, object);
    put_other(object, "more", &c->more);
    put_other(object, "less", &c->less);
    json_text(object, "words", words(a, text, sizeof text));
    json_number(object, "largest_batch", c->fits ? (double)c->batch : (double)c->largest);
    return json_print(object);
}

/* ---- text ---- */

static void print_segments(const allowance *a)
{
    char text[900];
    if (!*haul__segments_names(&a->chosen.keep.segments, text, sizeof text))
        return;
    printf("recompute  ");
    print_wrapped(text, 11, 11);
}

static void print_techniques(const allowance *a)
{
    const haul__chosen *c = &a->chosen;
    if (a->split) {
        printf("split      %s; haul plan without --allow lists the operations\n",
               c->keep.peak ? "between the devices" : "nothing runs on the device");
        return;
    }
    if (!c->used)
        printf("keep       everything fits as it is\n");
    if (c->accumulate > 1)
        printf("accumulate %s mini-batches of %s\n", text_count(c->accumulate), text_count(c->batch / c->accumulate));
    if (c->bf16)
        printf("bf16       matrix products and convolutions\n");
    print_segments(a);
    if (c->keep.schedule.count)
        printf("spill      %s in %s tensors to host memory and back in each step\n", text_bytes(c->moved),
               text_count(c->keep.schedule.count));
}

/* The command that trains so, in one line, so that it can be copied. A placement has a file that says how. */
static void print_next(const allowance *a)
{
    char                quoted[200];
    const haul__chosen *c = &a->chosen;
    if (a->split)
        return;
    if (a->t->run.config)
        printf("next       haul train --config %s", shell_text(quoted, sizeof quoted, a->t->run.config));
    else
        printf("next       haul train --model %s", a->t->options->model);
    printf(" --device %s --batch %" PRId64, a->request->plan.names[1], c->batch / c->accumulate);
    if (c->accumulate > 1)
        printf(" --accumulate %" PRId64, c->accumulate);
    if (c->bf16)
        printf(" --precision bf16");
    if (haul__segments_count_on(&c->keep.segments))
        printf(" --recompute auto");
    if (c->keep.schedule.count)
        printf(" --spill on");
    printf(" --memory-limit %" PRId64 "\n", a->limit);
}

static bool show_text(const allowance *a)
{
    char                      text[300];
    const train_options      *o = a->t->options;
    const haul__plan_request *p = &a->request->plan;
    const haul__chosen       *c = &a->chosen;
    snprintf(text, sizeof text, "one training step of %s, batch %s, %s, within %s on %s", o->model,
             text_count(c->batch), o->optimizer, text_bytes(a->limit), p->names[1]);
    print_wrapped(text, 0, 2);
    print_techniques(a);
    printf("step       %s; without a limit %s\n", text_ps(c->ps), text_ps(c->free_ps));
    printf("bound      %s: no allowed way takes less by the model (%.1f %% less)\n", text_ps(c->bound),
           100 * gap_of(c));
    printf("peak       %s on %s; without a limit %s\n", text_bytes(c->keep.peak), p->names[1],
           text_bytes(c->free_peak));
    print_next(a);
    if (*words(a, text, sizeof text)) {
        putchar('\n');
        print_wrapped(text, 0, 0);
    }
    return output_works();
}

static int refuse(const allowance *a)
{
    const haul__chosen *c = &a->chosen;
    complain("nothing that is allowed fits in %s on %s: with batch %s a step needs %s at least", text_bytes(a->limit),
             a->request->plan.names[1], text_count(c->batch), text_bytes(c->keep.peak));
    if (c->largest)
        complain_more("The largest batch that fits is --batch %" PRId64 ".", c->largest);
    else if (c->batch > 1)
        complain_more("No smaller batch fits.");
    complain_more("What fits: --memory-limit %s=%" PRId64 ".", a->request->plan.names[1], c->keep.peak);
    return EXIT_MEMORY;
}

int allow_show(trainer *t, study_request *request, unsigned allowed, bool json)
{
    allowance a = {.t = t, .request = request, .allowed = allowed};
    int       code = EXIT_FAILED;
    if (!planner_open(t))
        return EXIT_FAILED;
    if (choose(&a)) {
        code = haul_error_status() == HAUL_OUT_OF_MEMORY ? EXIT_MEMORY : EXIT_FAILED;
        complain_error();
    } else if (a.chosen.fits) {
        code = (json ? show_json(&a) : show_text(&a)) ? EXIT_OK : EXIT_FAILED;
    } else {
        code = json && !show_json(&a) ? EXIT_FAILED : refuse(&a);
    }
    haul__chosen_free(&a.chosen);
    haul__object_release(a.split);
    return code;
}

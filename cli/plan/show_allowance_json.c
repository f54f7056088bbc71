/* What haul plan --allow chose, as JSON. */
#include <math.h>
#include <stdlib.h>

#include "cli/plan/allowance.h"
#include "cli/plan/show.h"
#include "cli/shared/json.h"
#include "cli/train/log/form.h"

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
    json_number(other, "step_ms", o->bytes && o->fits ? plan_ms(o->ps) : NAN);
}

bool show_allowance_json(const allowance *a)
{
    char                      text[300];
    const haul__chosen       *c = &a->chosen;
    const haul__plan_request *p = &a->request->plan;
    char                     *next = allowance_command(a);
    cJSON                    *object = cJSON_CreateObject();
    json_bool(object, "fits", c->fits);
    put_techniques(object, "allowed", a->allowed);
    put_techniques(object, "techniques", c->used);
    json_number(object, "batch", (double)c->batch);
    json_number(object, "accumulate", (double)c->accumulate);
    json_text(object, "precision", c->bf16 ? "bf16" : a->t->options->precision);
    json_text(object, "device", p->names[1]);
    json_number(object, "limit_bytes", (double)a->limit);
    json_number(object, "step_ms", plan_ms(c->ps));
    json_number(object, "bound_ms", c->fits ? plan_ms(c->bound) : NAN);
    json_number(object, "gap", c->fits ? plan_gap(c->ps, c->bound) : NAN);
    cJSON *peaks = json_object(object, "peak_bytes");
    json_number(peaks, p->names[0], (double)(a->split ? a->split->best->peaks[0].bytes : c->hosted));
    json_number(peaks, p->names[1], (double)c->keep.peak);
    json_number(object, "spilled_bytes", (double)c->moved);
    json_number(object, "spill_most_ms", plan_ms(c->spill_ps));
    json_number(object, "least_bytes", (double)c->least);
    json_number(object, "unlimited_step_ms", plan_ms(c->free_ps));
    json_number(object, "unlimited_peak_bytes", (double)c->free_peak);
    json_segments(object, "recomputed", &c->keep.segments);
    put_moves(a, object);
    put_other(object, "more", &c->more);
    put_other(object, "less", &c->less);
    json_text(object, "words", allowance_words(a, text, sizeof text));
    json_number(object, "largest_batch", c->fits ? (double)c->batch : (double)c->largest);
    json_text(object, "next", c->fits && next ? next : "");
    free(next);
    return json_print(object);
}

/* Writes calls into the log of a dry run. */
#include "engine/dry_call.h"

#include <string.h>

#include "base/assert.h"
#include "engine/driver.h"
#include "engine/layout/layout.h"

static haul_status add_value(haul__program *p, const haul_tensor *t, bool written)
{
    const bool is_none = !t || haul__is_none(t);
    const int  store = is_none ? -1 : haul__dry_run_store(t->storage);
    if (!is_none && store < 0)
        return haul_error_status();
    return haul__program_add_value(p, is_none ? NULL : t, store, written);
}

static haul_status add_values(haul__program *p, const haul__call *c)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < c->count && !status; i++)
        status = add_value(p, c->operands[i], i < 64 && (c->writes >> i & 1));
    for (int i = 0; i < c->result_count && !status; i++)
        status = add_value(p, c->results[i], c->view_of < 0);
    return status;
}

static haul_status describe_form(haul__program *p, const haul__call *c, haul__program_form *out)
{
    *out = (haul__program_form){.settings = haul__call_settings_now(),
                                .partner = c->partner,
                                .records = c->records,
                                .into = c->into,
                                .wanted = c->wanted,
                                .saves = c->saves,
                                .saves_results = c->saves_results,
                                .writes = c->writes};
    for (int i = 0; i < c->result_count; i++)
        out->absent |= c->results[i] ? 0 : 1u << i;
    return haul__attributes_add(&p->attributes, c->attributes, c->operation->attributes_size, &out->attributes);
}

haul_status haul__dry_call_describe(const haul__call *c)
{
    haul__dry_run *run = haul__dry_run_now();
    uint32_t      *word = &haul__thread()->words[HAUL__DRY_RUN];
    if (!run || (*word & HAUL__DRY_WITHIN))
        return HAUL_OK;
    haul__program     *p = &run->program;
    const size_t       value = p->value_count;
    haul__program_form form;
    haul_status        status = add_values(p, c);
    if (!status)
        status = describe_form(p, c, &form);
    if (!status)
        status = haul__program_describe(p);
    if (status)
        return status;
    HAUL__ASSERT(p->now >= 0 && p->value_count == value + (size_t)c->count + (size_t)c->result_count);
    const haul__cost    cost = c->operation->compute ? haul__cost_of(c) : (haul__cost){0, 0};
    haul__program_call *call = &p->calls[p->now];
    call->in_place = c->operation->elementwise;
    call->tiles = c->operation->elementwise || haul__casts_plainly(c);
    call->device = c->device;
    call->flops = cost.flops;
    call->bytes = cost.bytes;
    call->value = value;
    call->operand_count = c->count;
    call->result_count = c->result_count;
    call->view_of = c->view_of;
    call->form = form;
    *word |= HAUL__DRY_WITHIN;
    return HAUL_OK;
}

void haul__dry_call_launch(const haul__launch *l)
{
    haul__dry_run      *run = haul__dry_run_now();
    haul__program_call *call = run && run->program.now >= 0 ? &run->program.calls[run->program.now] : NULL;
    pointwise_params    p;
    if (!call || !call->tiles || l->params_size != sizeof p)
        return;
    memcpy(&p, l->params, sizeof p);
    const int count = l->out_count + l->in_count;
    HAUL__ASSERT(0 < count && count <= (int)(sizeof p.strides / sizeof *p.strides));
    call->launch = (haul__program_launch){
        .kernel = l->kernel, .is_flat = haul__layout_is_flat(&p, count), .scalars = {p.scalars[0], p.scalars[1]}};
    for (int k = 0; k < count && call->launch.is_flat; k++)
        call->launch.repeated |= p.strides[k].of[0] == 0 ? 1u << k : 0;
}

haul_status haul__dry_call_copy(haul_tensor *out, haul_tensor *x)
{
    haul__thread()->words[HAUL__DRY_RUN] &= ~HAUL__DRY_WITHIN; /* `compute` has ended */
    return haul_copy_into(out, x);
}

void haul__dry_call_end(int call, haul_status status)
{
    haul__dry_run *run = haul__dry_run_now();
    HAUL__ASSERT(!run || (call >= 0 && (size_t)call < run->program.call_count));
    if (run && status)
        run->program.calls[call].listed = false;
    haul__dry_run_end_call(call);
}

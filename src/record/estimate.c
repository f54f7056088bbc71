/* haul_estimate: the operations of a dry run and its memory accounts. */
#include <haul/estimate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/guest.h"
#include "record/account.h"
#include "record/dry_function.h"
#include "record/spill_plan.h"

static const char operation[] = "haul_estimate";

/* Where the log of this call begins. */
typedef struct start {
    size_t              described, change, command;
    haul_transfer_stats moved;
} start;

/* ---- the result ---- */

static void subtract(haul_transfer_stats *s, const haul_transfer_stats *before)
{
    s->h2d_bytes -= before->h2d_bytes;
    s->d2h_bytes -= before->d2h_bytes;
    s->d2d_bytes -= before->d2d_bytes;
    s->h2d_count -= before->h2d_count;
    s->d2h_count -= before->d2h_count;
    s->d2d_count -= before->d2d_count;
}

/* The operand or result whose dtype and shape an operation shows. */
static const haul_program_value *subject_of(const haul__program *p, const haul__program_call *c)
{
    const haul_program_value *values = p->values + c->value;
    for (int i = 0; i < c->result_count; i++)
        if (values[c->operand_count + i].store >= 0)
            return &values[c->operand_count + i];
    return c->operand_count && values[0].store >= 0 ? values : NULL;
}

static haul_estimate_operation describe(const haul__program *p, const haul__program_call *c)
{
    haul_estimate_operation   o = {.name = c->name, .device = c->device, .flops = c->flops, .bytes = c->bytes};
    const haul_program_value *v = subject_of(p, c);
    if (v) {
        o.dtype = v->dtype;
        o.shape = v->shape;
    }
    if (!c->module.of_gradient)
        memcpy(o.module, c->module.path, sizeof o.module);
    return o;
}

static void fill_operations(haul_estimate_result *out, const haul__program *p, size_t first)
{
    for (size_t i = first; i < p->described_count; i++) {
        const haul__program_call *c = &p->calls[p->described[i]];
        if (!c->listed)
            continue;
        const haul_estimate_operation o = describe(p, c);
        out->operations[out->operation_count++] = o;
        out->flops += o.flops;
        out->bytes_touched += o.bytes;
    }
    HAUL__ASSERT((size_t)out->operation_count <= p->described_count - first);
}

/* What a device needs more for than its limit has. */
static void fill_over(haul_estimate_device *out, const haul__program *p, const haul__spill_plan *spill)
{
    const haul__program_store  *store = &p->stores[spill->over_store];
    const haul__program_call   *call = spill->over_call < 0 ? NULL : &p->calls[spill->over_call];
    const haul__program_module *module = call ? &call->module : &store->module;
    HAUL__ASSERT(spill->over > 0 && (size_t)spill->over_store < p->store_count);
    HAUL__ASSERT(spill->over_call < (int)p->call_count);
    out->over_bytes = spill->over;
    haul__snprintf(out->over_operation, sizeof out->over_operation, "%s", call ? call->name : store->origin);
    haul__snprintf(out->over_module, sizeof out->over_module, "%s", module->of_gradient ? "" : module->path);
}

static haul_status fill_device(haul_estimate_device *out, const haul__dry_run *d, int slot, const start *p)
{
    const haul__dry_base *base = &d->bases[slot], *pinned = &d->pinned[slot];
    haul_device          *device = base->device ? base->device : pinned->device;
    const haul__account   plain = haul__account_read(d, device, false, p->change);
    const haul__account   host = haul__account_read(d, device, true, p->change);
    haul__spill_plan      spill;
    haul_status           status = haul__spill_plan_make(d, base, p->change, p->command, &spill);
    HAUL__ASSERT(device && (!pinned->device || pinned->device == device));
    *out = (haul_estimate_device){.device = device,
                                  .start_bytes = plain.start,
                                  .peak_bytes = plain.peak,
                                  .pinned_peak_bytes = host.peak,
                                  .spilled_bytes = spill.spilled,
                                  .returned_bytes = spill.returned,
                                  .spilled_to_file_bytes = spill.to_file,
                                  .spill_host_peak_bytes = spill.host_peak,
                                  .spill_file_peak_bytes = spill.file_peak,
                                  .spill_missing_bytes = spill.missing,
                                  .fits = base->limit > 0 && !spill.over && !spill.missing};
    if (!status && spill.over)
        fill_over(out, &d->program, &spill);
    if (!status)
        out->origins = haul__account_origins(d, device, plain.peak_at, &out->origin_count);
    return status || out->origins ? status : haul_error_status();
}

static haul_status fill(haul_estimate_result *out, haul__dry_run *d, const start *p)
{
    const size_t             most = d->program.described_count - p->described;
    haul_estimate_device    *devices = haul__calloc(HAUL__MAX_DEVICES, sizeof *devices);
    haul_estimate_operation *operations = haul__calloc(most + 1, sizeof *operations);
    HAUL__ASSERT(p->described <= d->program.described_count && p->change <= d->program.change_count);
    if (!devices || !operations || d->program.incomplete) {
        haul__free(devices);
        haul__free(operations);
        return haul__fail_memory(operation, (most + 1) * sizeof *operations);
    }
    *out = (haul_estimate_result){.moved = d->moved, .devices = devices, .operations = operations};
    subtract(&out->moved, &p->moved);
    fill_operations(out, &d->program, p->described);
    haul_status status = HAUL_OK;
    for (int i = 0; i < HAUL__MAX_DEVICES && !status; i++)
        if (d->bases[i].device || d->pinned[i].device)
            status = fill_device(&devices[out->device_count++], d, i, p);
    if (status)
        haul_estimate_free(out);
    return status;
}

/* ---- the function ---- */

static haul_status run(haul__dry_run *d, haul_estimate_function *function, void *context, haul_estimate_result *out)
{
    const start       p = {.described = d->program.described_count,
                           .change = d->program.change_count,
                           .command = d->program.command_count,
                           .moved = d->moved};
    const haul_status status = haul__dry_function_call(function, context, operation);
    return status ? status : fill(out, d, &p);
}

haul_status haul_estimate(haul_estimate_function *function, void *context, haul_estimate_result *out)
{
    haul__dry_function d;
    if (!function || !out)
        return function ? haul__fail_null(operation, "out") : haul__fail_no_function(operation, "function");
    *out = (haul_estimate_result){.flops = 0};
    if (haul__dry_function_begin(&d, operation))
        return haul_error_status();
    const haul_status status = run(d.run, function, context, out);
    haul__dry_function_end(&d);
    return status;
}

void haul_estimate_free(haul_estimate_result *result)
{
    if (!result)
        return;
    for (int i = 0; i < result->device_count; i++)
        haul__free(result->devices[i].origins);
    haul__free(result->devices);
    haul__free(result->operations);
    *result = (haul_estimate_result){.flops = 0};
}

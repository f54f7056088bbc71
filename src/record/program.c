/* haul_program_record: the program of a function. */
#include <haul/program.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/guest.h"
#include "core/scope.h"
#include "record/dry_function.h"
#include "record/extract.h"
#include "record/program.h"

static const char operation[] = "haul_program_record";

/* Tensors whose stores are wanted. */
typedef struct wanted {
    haul_tensor *const *tensors;
    int                 count;
    int64_t            *stores;
} wanted;

/* First the numbers of the stores in the log, then those in the program. */
static haul_status extract_finding(const haul__program *log, const haul__program_range *range, const wanted *w,
                                   haul_program *out)
{
    haul__program_links links = {.stores = NULL};
    haul_status         status = HAUL_OK;
    for (int i = 0; i < w->count && !status; i++) {
        w->stores[i] = haul__dry_run_store(w->tensors[i]->storage);
        HAUL__ASSERT(w->stores[i] < (int64_t)log->store_count);
        status = w->stores[i] < 0 ? haul_error_status() : HAUL_OK;
    }
    if (!status)
        status = haul__program_extract(log, range, false, out, &links);
    for (int i = 0; i < w->count && !status; i++)
        w->stores[i] = links.stores[w->stores[i]];
    haul__program_links_free(&links);
    return status;
}

haul_status haul__program_run(haul__dry_run *run, haul_estimate_function *function, void *context,
                              haul__program_range *out)
{
    const haul__program *log = &run->program;
    haul_scope          *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    *out = (haul__program_range){log->described_count, log->value_count, log->store_count, log->command_count,
                                 log->change_count};
    const haul_status status = haul__dry_function_call(function, context, operation);
    haul_scope_pop(scope);
    HAUL__ASSERT(out->call <= log->described_count && out->change <= log->change_count); /* a log only grows */
    return !status && log->incomplete ? haul__fail_memory(operation, sizeof *log->stores) : status;
}

/* w: NULL, or the updates stay where they are. */
static haul_status run(haul__dry_run *d, haul_estimate_function *function, void *context, bool moves, const wanted *w,
                       haul_program *out)
{
    haul__program_range range;
    const haul_status   status = haul__program_run(d, function, context, &range);
    if (status)
        return status;
    return w ? extract_finding(&d->program, &range, w, out)
             : haul__program_extract(&d->program, &range, moves, out, NULL);
}

static haul_status record(haul_estimate_function *function, void *context, bool moves, const wanted *w,
                          haul_program *out)
{
    haul__dry_function d;
    if (!function || !out)
        return function ? haul__fail_null(operation, "out") : haul__fail_no_function(operation, "function");
    *out = (haul_program){.operation_count = 0};
    if (haul__dry_function_begin(&d, operation))
        return haul_error_status();
    const haul_status status = run(d.run, function, context, moves, w, out);
    haul__dry_function_end(&d);
    return status;
}

haul_status haul__program_record(haul_estimate_function *function, void *context, bool moves, haul_program *out)
{
    return record(function, context, moves, NULL, out);
}

haul_status haul__program_record_finding(haul_estimate_function *function, void *context, haul_tensor *const *tensors,
                                         int count, int64_t *stores, haul_program *out)
{
    return record(function, context, false, &(wanted){tensors, count, stores}, out);
}

haul_status haul_program_record(haul_estimate_function *function, void *context, haul_program *out)
{
    return haul__program_record(function, context, true, out);
}

void haul_program_free(haul_program *program)
{
    if (!program)
        return;
    haul__free(program->operations);
    haul__free(program->values);
    haul__free(program->stores);
    haul__free(program->memory);
    *program = (haul_program){.operation_count = 0};
}

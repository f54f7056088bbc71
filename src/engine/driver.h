/* The driver's steps that have files of their own. */
#ifndef HAUL_ENGINE_DRIVER_H
#define HAUL_ENGINE_DRIVER_H

#include <string.h>

#include "engine/operation.h"

/* Checks the operands and brings them to one device, dtype and layout: fills c->inputs, c->operands, c->device,
 * c->records, c->wanted and c->saves. The innermost scope owns moved and cast operands. */
haul_status haul__take_operands(haul__call *c, haul_tensor *const *operands);

/* Decides which operands carry gradients, whether the call is recorded, and which tensors are saved for the gradients.
 */
haul_status haul__find_gradients(haul__call *c);

/* Infers the results of a call that is only a question; haul__call_end_trial gives them back, also after a failure. */
haul_status haul__call_try(haul__call *c);
void        haul__call_end_trial(haul__call *c);

/* Copies operands whose layout is not the one that the descriptor requires. */
haul_status haul__pack_operands(haul__call *c);

/* Allocates the results that infer described. */
haul_status haul__allocate_results(haul__call *c);

/* Fails unless `out`, an argument of that name, may be written in place. */
haul_status haul__check_writable(const char *operation, const char *name, const haul_tensor *out);

/* Fails unless the operands that the call writes may be written. */
haul_status haul__check_written(const haul__call *c);

/* Fails unless `out` can be result i: it has the form that infer described, and may be written in place. */
haul_status haul__check_target(const haul__call *c, int i, const haul_tensor *out);

/* True if result i must be computed in other memory and copied to `out`: writing `out` would disturb an operand, or the
 * operation cannot write its layout. */
bool haul__needs_detour(const haul__call *c, int i, const haul_tensor *out);

/* A call without operands yet; they fit own_operands unless `count` is larger. */
static inline void haul__call_begin(haul__call *c, const haul__operation *operation, const void *attributes, int count,
                                    int result_count)
{
    c->operation = operation;
    c->device = NULL;
    c->count = count;
    c->result_count = result_count;
    c->into = c->records = c->inferred = c->fits = false;
    c->wanted = 0;
    c->writes = c->wrote = c->saves = c->saves_results = 0;
    c->view_of = -1;
    c->target = c->partner = NULL;
    c->reason = NULL;
    c->inputs = c->operands = c->own_operands;
    for (int i = 0; i < HAUL__MAX_RESULTS; i++)
        c->results[i] = NULL;
    if (operation->attributes_size)
        memcpy(c->attributes, attributes, operation->attributes_size);
}

/* Submits a launch of kernel `id` that haul__launch_now does not run: fills in what the command lacks, which are its
 * kind, the buffers, and `lanes`. */
haul_status haul__launch_command(haul__command *command, int id, haul__storage *const *storages);

/* In a dry run, instead of a launch; reads only the tensors of `launch`. */
haul_status haul__launch_dry(haul_device *device, const haul__launch *launch);

/* True for a call of haul_cast that converts, and keeps nothing with the operand. */
bool haul__casts_plainly(const haul__call *c);

/* True for haul_to. With its attributes: its copy is kept with the operand's memory until that changes. */
bool haul__is_move(const haul__operation *operation);
bool haul__move_is_kept(const void *attributes);

/* The short path (short.c), which takes the long one if the call needs it. For pointwise operations, whose attributes
 * are two doubles, or none. */
haul_tensor *haul__apply_short(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                               int count);
haul_status  haul__apply_short_into(haul_tensor *out, const haul__operation *operation, const void *attributes,
                                    haul_tensor *const *operands, int count);

/* The same for operations whose result is a view. */
haul_tensor *haul__apply_view(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                              int count);

/* The long path for one result. */
haul_tensor *haul__apply_long(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                              int count);
haul_status  haul__apply_long_into(haul_tensor *const *outs, const haul__operation *operation, const void *attributes,
                                   haul_tensor *const *operands, int count);

/* The descriptor's entry for operand i, and the operand's name. */
static inline const haul__operand *haul__operand_spec(const haul__call *c, int i)
{
    return &c->operation->operands[c->operation->repeat ? i % c->operation->repeat : i];
}

static inline const char *haul__operand_name(const haul__call *c, int i)
{
    return haul__operand_spec(c, i)->name;
}

#endif

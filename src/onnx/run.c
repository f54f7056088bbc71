/* A call of a loaded model: the steps in order. Each has a scope of its own, so that what an operator makes on the way
 * goes at once, and a result goes after the last step that uses it. */
#include "onnx/run.h"

#include <haul/device.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/quoted.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "nn/module.h"

/* Adds the node to the message of the error. */
static haul_status name_node(const haul__onnx_step *step)
{
    char               quoted[HAUL__QUOTED_SIZE];
    haul__error_record error;
    haul__error_save(&error);
    const size_t used = strlen(error.message);
    HAUL__ASSERT(error.status && used < sizeof error.message);
    snprintf(error.message + used, sizeof error.message - used, ", in the node %s (%.40s)",
             haul__quoted(haul__onnx_name_of(step->node), quoted), step->node->type);
    haul__error_restore(&error);
    return error.status;
}

/* A result of its own, which outlives the step's scope. */
static haul_status keep_result(haul_scope *scope, haul__onnx_call *c, int k)
{
    haul__onnx_slot *slot = c->step->outputs[k] < 0 ? NULL : &c->run->slots[c->step->outputs[k]];
    haul_tensor     *y = c->y[k];
    bool             repeated = false;
    HAUL__ASSERT(k < HAUL__ONNX_RESULTS && c->step->outputs[k] < c->run->plan->value_count);
    if (!slot)
        return HAUL_OK;
    if (!y)
        return haul__onnx_refuse(c, "a result other than the first"), haul_error_status();
    if (haul__failed(y))
        return haul_error_status();
    if (haul__is_none(y))
        return haul__onnx_wrong(c, "an input is missing"), haul_error_status();
    for (int i = 0; i < k; i++)
        repeated = repeated || c->y[i] == y;
    if (y->object.scope != scope || repeated)
        y = haul_to(y, y->storage->device);
    if (haul__failed(y))
        return haul_error_status();
    haul__scope_hand_over(scope, y);
    HAUL__ASSERT(!slot->made && !slot->numbers);
    slot->tensor = y;
    slot->made = true;
    return HAUL_OK;
}

static haul_status compute(haul__onnx_call *c)
{
    haul_scope  scope;
    haul_status status = HAUL_OK;
    if (!haul__onnx_has(c, 0)) /* all operators have a first input */
        return haul__onnx_wrong(c, "an input is missing"), haul_error_status();
    status = haul__scope_open(&scope, HAUL__ONNX_CALL);
    if (status)
        return status;
    c->y[0] = c->step->row->run(c);
    HAUL__ASSERT(c->step->output_count <= HAUL__ONNX_RESULTS);
    if (haul__failed(c->y[0]))
        status = haul_error_status();
    for (int k = 0; k < c->step->output_count && !status; k++)
        status = keep_result(&scope, c, k);
    haul__scope_close(&scope);
    return status;
}

static haul_status run_step(haul__onnx_run *run, const haul__onnx_step *step, bool training)
{
    haul__onnx_call c = {.run = run, .step = step, .opset = run->plan->model.opset, .training = training};
    const int       first = step->output_count ? step->outputs[0] : -1;
    HAUL__ASSERT(step->row && step->body_count <= 2 && first < run->plan->value_count);
    if (step->is_constant)
        return HAUL_OK; /* it is there already, if something needs it */
    if (step->body_count)
        return haul__onnx_control(&c) ? name_node(step) : HAUL_OK;
    const haul__numbers *folded = step->row->fold && first >= 0 ? step->row->fold(&c) : NULL;
    if (c.failed)
        return name_node(step);
    if (folded && step->output_count > 1)
        return haul__onnx_wrong(&c, "it has more than one result"), name_node(step);
    if (folded) {
        run->slots[first].numbers = folded;
        return HAUL_OK;
    }
    if (!step->row->run)
        return haul__onnx_refuse(&c, "this kind of value"), name_node(step);
    return compute(&c) ? name_node(step) : HAUL_OK;
}

void haul__onnx_clear(haul__onnx_slot *slot)
{
    HAUL__ASSERT(!slot->made || slot->tensor);
    if (slot->made)
        haul_drop(slot->tensor);
    *slot = (haul__onnx_slot){.tensor = NULL};
}

haul_status haul__onnx_run_body(haul__onnx_run *run, const haul__onnx_body *body, bool training)
{
    haul_status status = HAUL_OK;
    HAUL__ASSERT(body->first_step >= 0 && body->first_step + body->step_count <= run->plan->step_count);
    for (int n = 0; n < body->step_count && !status; n++) {
        const haul__onnx_step *step = &run->plan->steps[body->first_step + n];
        HAUL__ASSERT(!step->drop_count || (step->drops[0] >= body->first_value &&
                                           step->drops[step->drop_count - 1] < body->first_value + body->value_count));
        status = run_step(run, step, training);
        for (int i = 0; i < step->drop_count; i++)
            if (run->slots[step->drops[i]].made)
                haul__onnx_clear(&run->slots[step->drops[i]]);
    }
    return status;
}

void haul__onnx_free_numbers(haul__numbers *list)
{
    while (list) {
        haul__numbers *next = list->next;
        haul__free(list);
        list = next;
    }
}

/* Puts inputs and constants into their slots. */
static haul_status begin(haul__onnx_run *run, haul_module *self, const haul_args *args)
{
    const haul__onnx_plan *plan = run->plan;
    HAUL__ASSERT(plan->input_count <= HAUL_MAX_ARGUMENTS && plan->body_count > 0);
    for (int i = 0; i < plan->input_count; i++)
        run->slots[plan->bodies->inputs[i]].tensor = args->x[i];
    for (int i = 0; i < plan->constant_count; i++) {
        const haul__onnx_constant *constant = &plan->constants[i];
        haul__onnx_slot           *slot = &run->slots[constant->value];
        HAUL__ASSERT(constant->path || constant->numbers || !(constant->used || constant->host));
        slot->numbers = constant->numbers;
        if (!constant->path)
            continue;
        slot->tensor = haul__module_tensor_at(self, constant->path, constant->is_buffer, HAUL__ONNX_CALL);
        if (haul__failed(slot->tensor))
            return haul_error_status();
    }
    for (int v = 0; v < plan->value_count; v++)
        if (run->slots[v].tensor)
            return haul_set_device(run->slots[v].tensor->storage->device); /* for what operators make */
    return HAUL_OK;
}

static haul_tensor *finish(haul__onnx_run *run, haul_args *args)
{
    HAUL__ASSERT(0 < run->plan->output_count && run->plan->output_count <= HAUL_MAX_ARGUMENTS);
    for (int k = 0; k < run->plan->output_count; k++) {
        const haul__onnx_slot *slot = &run->slots[run->plan->bodies->outputs[k]];
        if (!slot->tensor && !slot->numbers) {
            haul__fail(HAUL_FORMAT, HAUL__ONNX_CALL, NULL, "result %d of the model is made by no node", k);
            return haul__result(NULL);
        }
        args->y[k] = slot->tensor ? slot->tensor : haul__onnx_from_numbers(slot->numbers);
        if (haul__failed(args->y[k]))
            return haul__result(NULL);
    }
    return args->y[0];
}

haul_tensor *haul__onnx_forward(haul_module *self, haul_args *args)
{
    haul__onnx_run run = {.plan = *(haul__onnx_plan **)haul_module_state(self)};
    haul_status    status = HAUL_OK;
    haul_tensor   *y = NULL;
    HAUL__ASSERT(run.plan && atomic_load(&run.plan->refs) > 0);
    run.slots = haul__calloc((size_t)run.plan->value_count + 1, sizeof *run.slots);
    if (!run.slots)
        status = haul__fail_memory(HAUL__ONNX_CALL, (size_t)run.plan->value_count * sizeof *run.slots);
    if (!status)
        status = begin(&run, self, args);
    if (!status)
        status = haul__onnx_run_body(&run, run.plan->bodies, args->training);
    if (!status)
        y = finish(&run, args);
    haul__free(run.slots);
    haul__onnx_free_numbers(run.numbers);
    return haul__result(status ? NULL : y);
}

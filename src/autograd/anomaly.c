/* Anomaly detection: finds the operation that makes the first NaN. */
#include "autograd/anomaly.h"

#include <haul/autograd.h>
#include <haul/ops.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/text/list.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/trial.h"
#include "engine/autocast.h"
#include "engine/follow.h"
#include "engine/placement/placement.h"
#include "events/call.h"
#include "events/events.h"
#include "events/label.h"
#include "transfer/copy.h"

/* ---- looking ---- */

static const char looking[] = "anomaly detection"; /* what waits are for */

static haul_status read_flag(haul_tensor *found, bool *flag)
{
    unsigned char byte = 0;
    haul_status   status = haul__status_of(found);
    HAUL__ASSERT(status || (found->dtype == HAUL_BOOL && found->count == 1));
    if (!status)
        status = haul__transfer(&(haul__copy){
            .operation = looking, .to_host = &byte, .from = {found->storage, (size_t)found->offset}, .bytes = 1});
    *flag = byte != 0;
    return status;
}

/* Sets *found if t has values and one of them is NaN. Waits for it. */
static haul_status look(const haul_tensor *t, bool *found)
{
    haul_scope scope;
    *found = false;
    if (!haul__is_tensor(t) || !t->count || !haul_dtype_is_float(t->dtype) || haul__is_dry() ||
        !haul__device_computes(t->storage->device))
        return HAUL_OK;
    haul_status status = haul__scope_open(&scope, looking);
    if (status)
        return status;
    haul_set_grad_enabled(false); /* the scope restores the settings */
    haul__place_as_given();
    haul__thread()->words[HAUL__ANOMALY] = 0;
    if (haul__autocast_begun())
        haul__thread()->words[HAUL__AUTOCAST] |= HAUL__AUTOCAST_PAUSED;
    status = read_flag(haul_any(haul_isnan((haul_tensor *)t)), found);
    haul__scope_close(&scope);
    return status;
}

/* ---- messages ---- */

enum { TEXT = 1024, WHERE = HAUL__EVENT_PATH + 128 };

/* " in 'features.0' under the label 'epoch 3'", or "". */
static const char *where_text(const char *path, const char *label, char *out, size_t size)
{
    haul__snprintf(out, size, "%s%s%s%s%s%s", path && *path ? " in '" : "", path ? path : "", path && *path ? "'" : "",
                   label && *label ? " under the label '" : "", label ? label : "", label && *label ? "'" : "");
    return out;
}

static void add_operand(char *text, size_t size, const char *name, haul_dtype dtype, const haul_shape *shape)
{
    char dims[96];
    haul__list_add(text, size, "%s%s%s%s", name, *name ? " " : "", haul_dtype_name(dtype),
                   haul__shape_text(shape, dims, sizeof dims));
}

static const char *operand_name(const haul__operation *operation, int i)
{
    const int   at = operation->repeat ? i % operation->repeat : i;
    const char *name = at < HAUL__MAX_OPERANDS ? operation->operands[at].name : NULL;
    return name ? name : "";
}

/* "x f32[3,4], y f32[4]": the operands that tensors were given for. */
static const char *edges_text(const haul__node *node, char *out, size_t size)
{
    *out = '\0';
    for (int i = 0; i < node->edge_count; i++)
        if (node->edges[i].device)
            add_operand(out, size, operand_name(node->operation, i), node->edges[i].dtype, &node->edges[i].shape);
    return out;
}

/* ---- backward ---- */

haul_status haul__check_seed(const char *operation, haul_tensor *seed)
{
    bool        found;
    haul_status status = look(seed, &found);
    if (!status && found)
        status = haul__fail(HAUL_GRAPH, operation, "seed", "the gradient of y, from which the pass begins, has a NaN");
    return status;
}

static haul_status fail_gradient(const haul__node *node, int i, bool arrived)
{
    char        where[WHERE], operands[TEXT];
    const char *name = operand_name(node->operation, i);
    HAUL__ASSERT(i >= 0 && i < node->edge_count && haul__needs(node, i));
    where_text(node->path, node->label, where, sizeof where);
    edges_text(node, operands, sizeof operands);
    if (arrived)
        return haul__fail(HAUL_GRAPH, node->operation->name, NULL,
                          "a sum of gradients of its result has the first NaN: gradients of several uses have "
                          "infinities of both signs; the operation ran%s with %s",
                          where, operands);
    return haul__fail(
        HAUL_GRAPH, node->operation->name, NULL,
        "its gradient made the first NaN, in the gradient of operand %d%s%s%s; the operation ran%s with %s", i,
        *name ? " (" : "", name, *name ? ")" : "", where, operands);
}

haul_status haul__check_gradients(const haul__node *node, haul_tensor *const *results, haul_tensor *const *out)
{
    haul_status status = HAUL_OK;
    bool        found = false, arrived = false;
    int         at = -1;
    HAUL__ASSERT(0 < node->result_count && node->result_count <= HAUL__NODE_RESULTS);
    for (int i = 0; i < node->edge_count && !status && !found; i++) {
        status = haul__needs(node, i) ? look(out[i], &found) : HAUL_OK;
        at = i;
    }
    for (int k = 0; k < node->result_count && !status && found && !arrived; k++)
        status = look(results[k], &arrived);
    return status || !found ? status : fail_gradient(node, at, arrived);
}

/* ---- forward ---- */

/* out: the tensor that the operation wrote to, perhaps in the memory of an operand; NULL: it made its result. */
static haul_status fail_result(const haul__operation *operation, haul_tensor *const *operands, int count,
                               const haul_tensor *out, const char *which)
{
    char        path[HAUL__EVENT_PATH], where[WHERE], text[TEXT] = "";
    int         guilty = -1;
    haul_status status = HAUL_OK;
    for (int i = 0; i < count && !status; i++) {
        bool found = false;
        if (!haul__is_tensor(operands[i]))
            continue;
        add_operand(text, sizeof text, operand_name(operation, i), operands[i]->dtype, &operands[i]->shape);
        if (guilty < 0 && !(out && out->storage == operands[i]->storage))
            status = look(operands[i], &found);
        guilty = found ? i : guilty;
    }
    if (status)
        return status;
    HAUL__ASSERT(guilty < count);
    where_text(haul__call_path(path, sizeof path), haul__label(), where, sizeof where);
    const char *name = guilty < 0 ? "" : operand_name(operation, guilty);
    if (guilty >= 0)
        return haul__fail(HAUL_STATE, operation->name, NULL,
                          "%s has a NaN, as operand %d%s%s%s has; the operation ran%s with %s", which, guilty,
                          *name ? " (" : "", name, *name ? ")" : "", where, text);
    return haul__fail(HAUL_STATE, operation->name, NULL, "%s has the first NaN; the operation ran%s with %s", which,
                      where, *text ? text : "no operands");
}

/* Operands that were written have their new values. */
static haul_status check_written(const haul__operation *operation, haul_tensor *const *operands, int count)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < count && !status; i++) {
        const haul__operand *spec = &operation->operands[operation->repeat ? i % operation->repeat : i];
        HAUL__ASSERT(operation->repeat || i < HAUL__MAX_OPERANDS);
        bool found = false;
        if (spec->written)
            status = look(operands[i], &found);
        if (!status && found)
            status = haul__fail(HAUL_STATE, operation->name, spec->name, "it wrote a NaN to %s of operand %d",
                                spec->name ? spec->name : "the elements", i);
    }
    return status;
}

static haul_status check_results(const haul__operation *operation, haul_tensor *const *operands, int count,
                                 haul_tensor *const *outs, haul_tensor *const *results)
{
    haul_tensor *const *made = outs ? outs : results;
    haul_status         status = HAUL_OK;
    for (int i = 0; made && i < HAUL__MAX_RESULTS && operation->results[i].name && !status; i++) {
        bool found = false;
        if (!operation->results[i].hidden)
            status = look(made[i], &found);
        if (!status && found)
            status = fail_result(operation, operands, count, outs ? made[i] : NULL, operation->results[i].name);
    }
    return status ? status : check_written(operation, operands, count);
}

/* ---- the setting ---- */

haul_status haul_set_anomaly_detection(haul_anomaly detection)
{
    static const char     operation[] = "haul_set_anomaly_detection";
    static const unsigned words[] = {[HAUL_ANOMALY_OFF] = 0,
                                     [HAUL_ANOMALY_BACKWARD] = HAUL__CHECKS_BACKWARD,
                                     [HAUL_ANOMALY_ALL] = HAUL__CHECKS_BACKWARD | HAUL__CHECKS_FORWARD};
    haul__recorder       *recorder = haul__recorder_now();
    if ((unsigned)detection >= sizeof words / sizeof *words)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "detection",
                          "%d is not a kind of detection; use HAUL_ANOMALY_OFF, HAUL_ANOMALY_BACKWARD or "
                          "HAUL_ANOMALY_ALL",
                          (int)detection);
    if (recorder && words[detection])
        recorder->refuse(recorder, "haul_set_anomaly_detection switches detection on in the step; set it before");
    if (words[detection] && haul__refuse_followed(operation, "switches detection on"))
        return haul_error_status();
    haul__check_results = check_results;
    haul__thread()->words[HAUL__ANOMALY] = words[detection];
    return HAUL_OK;
}

haul_anomaly haul_anomaly_detection(void)
{
    return haul__checks(HAUL__CHECKS_FORWARD)    ? HAUL_ANOMALY_ALL
           : haul__checks(HAUL__CHECKS_BACKWARD) ? HAUL_ANOMALY_BACKWARD
                                                 : HAUL_ANOMALY_OFF;
}

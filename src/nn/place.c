/* Moves modules between devices, memory formats and dtypes. Parameters, buffers and gradients are all moved, or none
 * is.
 *
 * A moved tensor keeps its handle, so optimizers and users that hold it see the move. */
#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "core/thread.h"
#include "core/trial.h"
#include "device/device.h"
#include "engine/copy.h"
#include "memory/dry_run/dry_run.h"
#include "memory/mark.h"
#include "nn/distribute.h"
#include "nn/module.h"
#include "nn/walk.h"

/* A tensor and its replacement. */
typedef struct move {
    haul_tensor *tensor, *moved;
} move;

/* The target of a move. */
typedef struct target {
    const char        *operation;
    haul_device       *device;    /* NULL: the device does not change */
    haul_memory_format format;    /* without a device or dtype, for tensors that can have the format */
    haul_dtype         dtype;     /* for floating tensors; HAUL_DTYPE_NONE: the dtype does not change */
    haul__device_of   *device_of; /* in the place of `device`; else NULL */
    const void        *context;   /* passed to it */
} target;

/* True if tensors that existed before are back when the dry run ends. */
static bool is_for_the_run(const target *to)
{
    return to->device_of && haul__is_dry();
}

/* A followed step can move no module. A dry run moves those that existed before only for a while. */
static haul_status check_movable(const haul_tensor *t, const target *to)
{
    if (!haul__is_dry() || haul__dry_run_planned(t->storage) || to->device_of)
        return haul__refuse_followed(to->operation, "moves or casts a module");
    return haul__fail(HAUL_STATE, to->operation, "module",
                      "a dry run (haul_estimate) cannot move or cast a module that exists; make the module in the "
                      "estimated function, or move it before");
}

static haul_tensor *convert(haul_tensor *plain, const char *name, const target *to)
{
    HAUL__ASSERT(!to->device || !to->dtype);
    if (is_for_the_run(to)) /* copies are kept only with memory of the run */
        return haul__identity_named(plain, to->device, name);
    if (to->device)
        return haul__to_named(plain, to->device, name);
    if (to->dtype)
        return !haul__failed(plain) && haul_dtype_is_float(plain->dtype) ? haul_cast(plain, to->dtype) : plain;
    return !haul__failed(plain) && (to->format == HAUL_CONTIGUOUS || plain->shape.ndim == 4)
               ? haul_to_memory_format(plain, to->format)
               : plain;
}

static haul_tensor *moved_to(haul_tensor *t, const char *name, const target *to)
{
    haul_tensor *plain = haul_detach(t), *moved = convert(plain, name, to);
    if (is_for_the_run(to) && !haul__failed(moved))
        haul_drop(plain); /* so that the memory from before counts as free */
    return moved;
}

static haul_status add_move(move *moves, size_t *count, haul_tensor *t, const char *name, const target *to)
{
    for (size_t i = 0; i < *count; i++)
        if (moves[i].tensor == t)
            return HAUL_OK; /* the module holds it under two names */
    haul_tensor *moved = check_movable(t, to) ? NULL : moved_to(t, name, to);
    if (haul__failed(moved))
        return haul_error_status();
    HAUL__ASSERT(moved->count == t->count && moved->shape.ndim == t->shape.ndim);
    moves[(*count)++] = (move){t, moved};
    return HAUL_OK;
}

static haul_status take_over(const move *moves, size_t count, const char *operation)
{
    haul_status status = HAUL_OK;
    for (size_t i = 0; i < count && !status; i++) {
        haul_tensor     *t = moves[i].tensor, *moved = moves[i].moved;
        const haul__role role = haul__storage_role(t->storage);
        HAUL__ASSERT(moved->count == t->count);
        if (haul__is_dry() && !haul__dry_run_planned(t->storage) && moved->storage != t->storage)
            status = haul__dry_run_house(t, moved, operation);
        else
            haul__tensor_take_over(t, moved);
        haul__set_role(t, role);
    }
    return status;
}

static haul_status move_all(haul_named_tensor *all, int n, const target *given)
{
    target        each = *given;
    const target *to = &each;
    size_t        count = 0;
    haul_status   status = HAUL_OK;
    move         *moves = haul__calloc(2 * (size_t)n + 1, sizeof *moves);
    HAUL__ASSERT(!to->device || !to->device_of);
    if (!moves)
        return haul__fail_memory(to->operation, 2 * (size_t)n * sizeof *moves);
    for (int i = 0; i < n && !status; i++) {
        haul_tensor *t = all[i].tensor;
        if (to->device_of && !(each.device = to->device_of(all[i].name, to->context)))
            continue;
        status = add_move(moves, &count, t, all[i].name, to);
        if (!status && t->grad && is_for_the_run(to))
            status = haul_set_grad(t, HAUL_NONE); /* the step makes it anew */
        else if (!status && t->grad)
            status = add_move(moves, &count, t->grad, all[i].name, to);
    }
    HAUL__ASSERT(count <= 2 * (size_t)n);
    if (!status)
        status = take_over(moves, count, to->operation);
    haul__free(moves);
    return status;
}

static haul_status move_module(haul_module *module, const target *to)
{
    int         n = 0;
    haul_status status;
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    haul_named_tensor *all = haul__module_tensor_list(module, &n);
    haul_set_grad_enabled(false);
    status = all ? move_all(all, n, to) : haul_error_status();
    haul__free(all);
    haul_scope_pop(scope);
    return status ? haul__fail_within(to->operation) : HAUL_OK;
}

haul_status haul_module_cast(haul_module *module, haul_dtype dtype)
{
    static const char operation[] = "haul_module_cast";
    if (haul__check_module(module, operation))
        return haul_error_status();
    if (!haul_dtype_is_float(dtype))
        return haul__fail(HAUL_DTYPE, operation, "dtype", "%s cannot be trained; cast to f16, bf16, f32 or f64",
                          haul_dtype_name(dtype));
    return move_module(module, &(target){.operation = operation, .dtype = dtype});
}

/* Every module gets a place of its own, so that a child can be placed elsewhere later without its neighbours. */
static void set_place(haul_module *m, const void *device)
{
    m->place = (haul_device *)(uintptr_t)device;
}

static void change_place(haul_module *m, const void *device)
{
    if (m->place)
        set_place(m, device);
}

static haul_status move_to_device(haul_module *module, haul_device *device, haul__visit *set, const char *operation)
{
    haul__walk w = {.root = module};
    if (haul__check_module(module, operation) || haul__device_check(device, operation, "device") ||
        haul__walk_reserve(&w, operation))
        return haul_error_status();
    haul_status status = move_module(module, &(target){.operation = operation, .device = device});
    if (status)
        haul__walk_free(&w);
    else
        haul__walk_visit(&w, set, device);
    return status;
}

haul_status haul_module_to(haul_module *module, haul_device *device)
{
    return move_to_device(module, device, change_place, "haul_module_to");
}

haul_status haul_module_place(haul_module *module, haul_device *device)
{
    return move_to_device(module, device, set_place, "haul_module_place");
}

haul_status haul__module_distribute(haul_module *module, haul__device_of *device_of, const void *context,
                                    const char *operation)
{
    if (haul__check_module(module, operation))
        return haul_error_status();
    return move_module(module, &(target){.operation = operation, .device_of = device_of, .context = context});
}

haul_device *haul_module_device(haul_module *module)
{
    int                count = 0;
    haul_named_tensor *list =
        haul__check_module(module, "haul_module_device") ? NULL : haul__module_tensor_list(module, &count);
    haul_device *device = count ? list[0].tensor->storage->device : NULL;
    for (int i = 1; i < count && device; i++)
        device = list[i].tensor->storage->device == device ? device : NULL;
    haul__free(list);
    return device;
}

haul_status haul_module_to_memory_format(haul_module *module, haul_memory_format format)
{
    static const char operation[] = "haul_module_to_memory_format";
    if (haul__check_module(module, operation))
        return haul_error_status();
    if (format != HAUL_CONTIGUOUS && format != HAUL_CHANNELS_LAST)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "format",
                          "%d is not a memory format; use HAUL_CONTIGUOUS or HAUL_CHANNELS_LAST", (int)format);
    return move_module(module, &(target){.operation = operation, .format = format});
}

#include "record/follow/device_chain.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "device/device.h"
#include "device/generated.h"
#include "memory/dry_run/dry_run.h"

static const char operation[] = "haul_recording_run";

int64_t haul__chain_patience = (int64_t)1 << 30;

haul__device_chain *haul__device_chain_new(int count)
{
    haul__device_chain *chain = haul__calloc(1, sizeof *chain);
    if (chain)
        chain->parts = haul__calloc((size_t)count, sizeof *chain->parts);
    if (!chain || !chain->parts) {
        haul__free(chain);
        return NULL;
    }
    chain->count = count;
    return chain;
}

void haul__device_chain_free(haul__device_chain *chain)
{
    if (!chain)
        return;
    haul__free(chain->groups);
    haul__free(chain->parts);
    haul__free(chain);
}

/* A result within the chain is written and read once less, and a launch is saved. */
bool haul__device_chain_pays(haul__device_chain *chain, const haul__variant *v, size_t first)
{
    for (int i = 0; i + 1 < chain->count; i++) {
        const haul__replayed *r = &v->calls[first + (size_t)i];
        const haul_tensor    *t = v->tensors[r->tensors + (size_t)r->count];
        chain->waited += HAUL__LAUNCH_BYTES + 2 * t->count * (int64_t)haul__dtype_size(t->dtype);
    }
    return !chain->refused && chain->waited >= haul__chain_patience;
}

haul_status haul__device_chain_learn(haul__device_chain *chain, int at, haul__call *c)
{
    HAUL__ASSERT(0 <= at && at < chain->count);
    haul__collected *launch = &chain->parts[at].launch;
    const uint32_t   before = haul__collect_begin(launch);
    haul_status      status = c->operation->compute(c);
    haul__collect_end(before);
    if (!status && !launch->count)
        status = haul__fail(HAUL_STATE, c->operation->name, NULL, "it launches nothing");
    return status;
}

/* ---- what leaves the chain ---- */

/* NULL: it is from outside of the step. */
static const haul__inside *inside_of(const haul__variant *v, const haul__storage *storage)
{
    for (size_t i = 0; i < v->inside_count; i++)
        if (v->insides[i].storage == storage)
            return &v->insides[i];
    return NULL;
}

static bool is_of_step(const haul__variant *v, const haul__storage *storage)
{
    const haul__inside *s = inside_of(v, storage);
    return s && !s->outlives && !s->constant;
}

/* The tensors of the chain's calls are side by side. */
static bool is_used_elsewhere(const haul__variant *v, size_t first, int count, const haul__storage *storage)
{
    const haul__replayed *last = &v->calls[first + (size_t)count - 1];
    const size_t          begin = v->calls[first].tensors;
    const size_t          end = last->tensors + (size_t)(last->count + last->result_count);
    HAUL__ASSERT(begin < end && end <= v->tensor_count);
    for (size_t i = 0; i < v->tensor_count; i++)
        if ((i < begin || i >= end) && v->tensors[i] && v->tensors[i]->storage == storage)
            return true;
    return false;
}

/* ---- kernels ---- */

static bool share_bytes(const haul__variant *v, const haul_tensor *a, const haul_tensor *b)
{
    const haul__inside *one = inside_of(v, a->storage), *other = inside_of(v, b->storage);
    return one && other && one != other && one->offset >= 0 && other->offset >= 0 && one->device == other->device &&
           one->offset < other->offset + other->bytes && other->offset < one->offset + one->bytes;
}

/* A result that a later kernel of the chain reads may have the place of one that was read before it, because single
 * operations follow each other. Within a kernel they do not: one thread would write what another one has not read. */
static bool disturbs_itself(const haul__variant *v, const haul__chain_kernel *kernel)
{
    for (int w = 0; w < kernel->write_count; w++)
        for (int i = 0; i < kernel->buffer_count; i++)
            if (share_bytes(v, kernel->buffers[w], kernel->buffers[i]))
                return true;
    return false;
}

static haul_status write_text(const haul__device_chain *chain, const haul__variant *v, int first,
                              haul__chain_kernel *out, int *taken)
{
    const int count = chain->count - first;
    for (int most = count;; most = *taken - 1) {
        const haul_status status = haul__chain_text(chain->parts + first, count, most, out, taken);
        if (status || *taken < 2 || !disturbs_itself(v, out))
            return status;
        haul__free(out->text);
        out->text = NULL;
    }
}

static haul_status add_group(haul__device_chain *chain, const haul__variant *v, haul_device *device, int first)
{
    static const char  name[] = "fusion";
    haul__chain_group *group = &chain->groups[chain->group_count++];
    int                taken = 0;
    const haul_status  status = write_text(chain, v, first, &group->call, &taken);
    HAUL__ASSERT(chain->group_count <= chain->count);
    group->first = first;
    group->count = taken > 1 ? taken : 1;
    HAUL__ASSERT(first + group->count <= chain->count);
    if (!status && taken > 1)
        group->kernel = haul__kernel_of_text(device, "chain", group->call.text, group->call.dtype, name);
    haul__free(group->call.text);
    group->call.text = NULL;
    return status ? status : taken > 1 && !group->kernel ? haul_error_status() : HAUL_OK;
}

haul_status haul__device_chain_compile(haul__device_chain *chain, const haul__variant *v, size_t first)
{
    haul_status status = HAUL_OK;
    chain->groups = haul__calloc((size_t)chain->count, sizeof *chain->groups);
    chain->group_count = 0;
    if (!chain->groups)
        return haul__fail_memory(operation, (size_t)chain->count * sizeof *chain->groups);
    for (int i = 0; i < chain->count; i++) {
        const haul__storage *storage = chain->parts[i].launch.tensors[0]->storage;
        chain->parts[i].leaves = !is_of_step(v, storage) || is_used_elsewhere(v, first, chain->count, storage);
    }
    for (int at = 0; at < chain->count && !status;) {
        status = add_group(chain, v, v->calls[first].device, at);
        at += chain->groups[chain->group_count - 1].count;
    }
    HAUL__ASSERT(status || chain->groups[chain->group_count - 1].first + chain->groups[chain->group_count - 1].count ==
                               chain->count); /* the groups have all parts */
    if (status) {
        haul__free(chain->groups);
        chain->groups = NULL;
    }
    return status;
}

haul_status haul__device_chain_launch(const haul__device_chain *chain, const haul__chain_group *group, const char *name)
{
    const haul__chain_kernel *call = &group->call;
    haul__region              buffers[HAUL__CHAIN_BUFFERS];
    HAUL__ASSERT(group->kernel && 0 < call->buffer_count && call->write_count <= call->buffer_count);
    for (int i = 0; i < call->buffer_count; i++)
        buffers[i] = (haul__region){call->buffers[i]->storage, 0};
    const haul__command command = {.kind = HAUL__COMMAND_LAUNCH,
                                   .operation = name,
                                   .device = buffers[0].storage->device,
                                   .buffers = buffers,
                                   .write_count = call->write_count,
                                   .buffer_count = call->buffer_count,
                                   .params = call->params,
                                   .params_size = (size_t)call->word_count * sizeof *call->params,
                                   .kernel = group->kernel,
                                   .items = call->params[0],
                                   .grain = HAUL__POINTWISE_GRAIN / group->count + 1};
    const haul_status   status = haul__submit(&command);
    for (int i = 0; i < group->count && !status; i++)
        haul__storage_changed(chain->parts[group->first + i].launch.tensors[0]->storage);
    return status;
}

#include "record/follow/chain_end.h"

#include "backends/function.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "ops/reduce/reduce.h"

static haul_status take_partial(haul__chain_end *end)
{
    const size_t bytes = end->passes.items[0].out->storage->bytes;
    if (end->passes.count < 2 || end->partial)
        return HAUL_OK;
    end->partial = haul__calloc(bytes, 1);
    return end->partial ? HAUL_OK : haul__fail_memory("haul_recording_run", bytes);
}

haul_status haul__chain_end_learn(haul__chain_end *end, haul__call *c)
{
    int passes = 0;
    end->x = c->operands[0];
    end->y = c->results[0];
    end->each = haul__reduce_tile(c->operation, haul__attributes(c), end->x, &passes);
    const uint32_t before = haul__collect_passes_begin(&end->passes);
    haul_status    status = c->operation->compute(c);
    haul__collect_end(before);
    if (status)
        return status;
    if (end->each < 1 || end->passes.count != passes)
        return haul__fail(HAUL_STATE, c->operation->name, NULL,
                          "it makes other passes than when the step was recorded; set HAUL_WITHOUT=fusion");
    HAUL__ASSERT(0 < passes && passes <= 2);
    return take_partial(end);
}

void haul__chain_end_free(haul__chain_end *end)
{
    if (end)
        haul__free(end->partial);
    haul__free(end);
}

void haul__chain_end_run_tile(const haul__chain_end *end, void *tile, int64_t first, int64_t last)
{
    void *x = tile ? tile : end->x->storage->buffer.host;
    void *out = end->partial ? end->partial : end->y->storage->buffer.host;
    HAUL__ASSERT(end->each > 0 && first % end->each == 0); /* a tile begins with a row, or a part of one */
    haul__reduce_run_tile(&end->passes.items[0], out, x, tile ? -first : end->x->offset, first / end->each,
                          (last + end->each - 1) / end->each);
}

void haul__chain_end_finish(const haul__chain_end *end)
{
    const haul__collected_pass *p = &end->passes.items[1];
    HAUL__ASSERT((end->partial != NULL) == (end->passes.count > 1));
    if (end->partial)
        haul__function_run(p->function, (void *[]){end->y->storage->buffer.host, end->partial, end->partial}, p->params,
                           p->items, p->grain);
}

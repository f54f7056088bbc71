#include "record/work.h"

#include "base/assert.h"
#include "base/numbers.h"

int64_t haul__program_bytes_of(const haul_program_value *v)
{
    int64_t bits = haul_dtype_bits(v->dtype);
    for (int d = 0; d < v->shape.ndim; d++)
        bits *= v->shape.dims[d];
    return haul__ceil_div(bits, 8);
}

static int64_t weights_of(const haul_program *p, const haul_program_operation *o)
{
    const int                 at = haul__work_weight(o->name, o->operand_count);
    const haul_program_value *v = &p->values[o->value + (at < 0 ? 0 : at)];
    return at < 0 || v->store < 0 ? 0 : haul__program_bytes_of(v);
}

static bool is_batched(const haul_program *p, const haul_program_operation *o)
{
    bool all = o->operand_count > 1;
    for (int i = 0; all && i < 2; i++)
        all = p->values[o->value + i].store >= 0 && p->values[o->value + i].shape.ndim > 2;
    return all;
}

static bool is_scattered(const haul_program *p, const haul_program_operation *o)
{
    const haul_program_value *v = &p->values[o->value];
    int64_t                   stride = 1;
    bool                      row_major = true;
    if (!o->operand_count || v->store < 0)
        return false;
    for (int d = v->shape.ndim - 1; d >= 0; d--) {
        row_major = row_major && (v->shape.dims[d] == 1 || v->strides[d] == stride);
        stride *= v->shape.dims[d];
    }
    return stride && !row_major;
}

haul__machine_work haul__program_work_of(const haul_program *p, const haul_program_operation *o)
{
    haul__machine_work w = {.operation = o->name,
                            .work_class = haul__work_class_of(o->name),
                            .dtype = HAUL_DTYPE_NONE,
                            .flops = o->flops,
                            .bytes = o->bytes,
                            .weights = weights_of(p, o),
                            .commands = o->command_count,
                            .batched = is_batched(p, o),
                            .scattered = is_scattered(p, o)};
    for (int64_t v = o->value; v < o->value + o->operand_count + o->result_count; v++)
        if (p->values[v].store >= 0)
            w.dtype = haul__work_dtype(w.dtype, p->values[v].dtype);
    HAUL__ASSERT(0 <= o->value && o->value + o->operand_count + o->result_count <= p->value_count);
    return w;
}

#include "ops/normalise/vector.h"

haul_status haul__check_vector(const haul__call *c, int operand, int axis)
{
    char              have[96], of[96];
    const haul_shape *x = &c->operands[0]->shape, *t = &c->operands[operand]->shape;
    const char       *name = c->operation->operands[operand].name;
    if (!haul__has(c, operand) || (t->ndim == 1 && t->dims[0] == x->dims[axis]))
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, c->operation->name, name, "%s has shape %s; [%lld] is expected for x of shape %s",
                      name, haul__shape_text(t, have, sizeof have), (long long)x->dims[axis],
                      haul__shape_text(x, of, sizeof of));
}

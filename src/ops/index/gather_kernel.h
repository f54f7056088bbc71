/* Kernel text: where an element of a tensor of indices is, and where it points (gather.c, scatter.c). */
#ifndef HAUL_OPS_INDEX_GATHER_KERNEL_H
#define HAUL_OPS_INDEX_GATHER_KERNEL_H

typedef struct gather_params {
    I64 items;
    I64 length, size; /* elements along the axis: of index, and of the tensor into which it points */
    I64 dims[8];      /* of index: all of them, or all but the axis */
    struct {
        I64 of[8];
    } strides[3]; /* of the tensor into which the indices point (0 along the axis), of index, and of the third */
    I64 along[3]; /* their strides along the axis */
    I64 offsets[3];
    I32 ndim;  /* at least 1 */
    U32 check; /* haul__index_check */
} gather_params;

#ifdef HAUL_KERNEL
/* Where item i is in each tensor, and how many items from there on are in one innermost row. */
FUNC I64 gather_at(const gather_params *p, I64 i, I64 *at)
{
    const int last = p->ndim - 1;
    I64       room = 0;
    for (int k = 0; k < 3; k++)
        at[k] = p->offsets[k];
    for (int d = last; d >= 0; d--) {
        const I64 next = QUOTIENT(i, p->dims[d]), c = i - next * p->dims[d];
        if (d == last)
            room = p->dims[d] - c;
        for (int k = 0; k < 3; k++)
            at[k] += c * p->strides[k].of[d];
        i = next;
    }
    return room;
}
#endif

#endif

/* Digests of programs. */
#include <string.h>

#include "base/fnv.h"
#include "plan/place/step.h"

static void add_bytes(uint64_t *digest, const void *data, size_t size)
{
    *digest = haul__fnv(*digest, data, size);
}

static void add_text(uint64_t *digest, const char *text)
{
    add_bytes(digest, text, strlen(text) + 1);
}

static void add_number(uint64_t *digest, int64_t number)
{
    add_bytes(digest, &number, sizeof number);
}

static void add_value(uint64_t *digest, const haul_program_value *v)
{
    add_number(digest, v->store);
    add_number(digest, v->written);
    add_number(digest, v->dtype);
    for (int d = 0; d < v->shape.ndim; d++) {
        add_number(digest, v->shape.dims[d]);
        add_number(digest, v->strides[d]);
    }
    add_number(digest, v->offset);
}

uint64_t haul__place_digest(const haul_program *p)
{
    uint64_t digest = HAUL__FNV;
    for (int64_t i = 0; i < p->operation_count; i++) {
        const haul_program_operation *o = &p->operations[i];
        add_text(&digest, o->name);
        add_text(&digest, o->module);
        add_bytes(&digest, &o->flops, sizeof o->flops);
        add_number(&digest, o->bytes);
        for (int64_t v = o->value; v < o->value + o->operand_count + o->result_count; v++)
            add_value(&digest, &p->values[v]);
    }
    for (int64_t i = 0; i < p->store_count; i++)
        add_number(&digest, p->stores[i].bytes);
    return digest;
}

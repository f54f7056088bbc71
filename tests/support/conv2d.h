/* Problems for tests that call the CPU's convolutions of f32 directly. */
#ifndef TEST_SUPPORT_CONV2D_H
#define TEST_SUPPORT_CONV2D_H

#include <stdlib.h>

#include "backends/cpu/cpu.h"
#include "support/random.h"

/* Values in a block of its own that ends with the last, so that a sanitizer sees reads behind it. */
typedef struct memory {
    haul__buffer buffer;
    float       *values;
    int64_t      count;
} memory;

static inline memory make_memory(int64_t count)
{
    memory m = {.count = count, .values = malloc((size_t)count * sizeof(float))};
    for (int64_t i = 0; m.values && i < count; i++)
        m.values[i] = (float)(below(2001) - 1000) / 1000;
    m.buffer.host = m.values;
    return m;
}

/* The pass overwrites the random values in its result. */
typedef struct problem {
    haul__conv2d c;
    memory       x, weight, bias, y;
} problem;

/* Memory for a problem whose sizes, pass and has_bias are set. */
static inline void make_operands(problem *p)
{
    const haul__conv2d *c = &p->c;
    p->x = make_memory(c->n * c->c_in * c->h * c->w);
    p->weight = make_memory(c->c_out * (c->c_in / c->groups) * c->kh * c->kw);
    p->bias = make_memory(c->pass == HAUL__CONV2D_DATA ? c->c_in : c->c_out);
    p->y = make_memory(c->n * c->c_out * c->out_h * c->out_w);
}

static inline void name_operands(problem *p)
{
    p->c.x = &p->x.buffer;
    p->c.weight = &p->weight.buffer;
    p->c.bias = p->c.has_bias ? &p->bias.buffer : NULL;
    p->c.y = &p->y.buffer;
}

static inline void free_problem(problem *p)
{
    free(p->x.values);
    free(p->weight.values);
    free(p->bias.values);
    free(p->y.values);
}

static inline memory *result_of(problem *p)
{
    return p->c.pass == HAUL__CONV2D_FORWARD ? &p->y : p->c.pass == HAUL__CONV2D_DATA ? &p->x : &p->weight;
}

#endif

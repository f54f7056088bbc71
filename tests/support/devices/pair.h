/* A module of two parameters that may be on different devices, with an optimizer and gradients made by hand. */
#ifndef HAUL_TESTS_PAIR_H
#define HAUL_TESTS_PAIR_H

#include "linalg.h"

enum { SIZE = 5000 }; /* several marks of the scaler's a gradient */

typedef struct rig {
    haul_module    *net;
    haul_tensor    *a, *b; /* [SIZE] and [3] */
    haul_optimizer *optimizer;
} rig;

static inline haul_tensor *forward(haul_module *m, haul_args *args)
{
    (void)m;
    return args->x[0];
}

typedef haul_optimizer *new_optimizer(haul_module *net);

static inline haul_optimizer *new_sgd(haul_module *net)
{
    return haul_sgd(net, 0.25);
}

static inline haul_optimizer *new_momentum(haul_module *net)
{
    return haul_sgd(net, 0.25, .momentum = 0.5, .dampening = 0.25, .weight_decay = 0.125);
}

static inline haul_optimizer *new_adam(haul_module *net)
{
    return haul_adam(net, 0.125);
}

static inline haul_optimizer *new_adamw(haul_module *net)
{
    return haul_adamw(net, 0.125, .weight_decay = 0.25);
}

static inline haul_tensor *parameter(haul_device *device, int64_t count, unsigned seed)
{
    return haul_set_requires_grad(sample_tensor(device, HAUL_F32, HAUL_SHAPE(count), seed, NULL), true);
}

static inline rig rig_on(haul_device *first, haul_device *second, new_optimizer *make)
{
    rig r = {.net = haul_module_new("pair", forward), .a = parameter(first, SIZE, 1), .b = parameter(second, 3, 2)};
    assert_int_equal(haul_module_add_parameter(r.net, "a", r.a), HAUL_OK);
    assert_int_equal(haul_module_add_parameter(r.net, "b", r.b), HAUL_OK);
    r.optimizer = make(r.net);
    assert_non_null(r.optimizer);
    return r;
}

/* Give a parameter the gradient of step `step`, times `scale`; with an element that is not finite if `bad`. */
static inline void set_gradient(haul_tensor *p, int step, double scale, double bad)
{
    int64_t count = haul_tensor_count(p);
    float  *g = malloc((size_t)count * sizeof *g);
    assert_non_null(g);
    for (int64_t i = 0; i < count; i++)
        g[i] = (float)((((double)(i % 7) - 3) / 4 + (double)(step % 3)) * scale);
    if (bad != 0)
        g[count - 1] = (float)bad;
    haul_tensor *t = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(count), g), haul_tensor_device(p));
    free(g);
    assert_int_equal(haul_set_grad(p, haul_clone(t)), HAUL_OK);
}

static inline void set_gradients(const rig *r, int step, double scale, double bad)
{
    set_gradient(r->a, step, scale, 0);
    set_gradient(r->b, step, scale, bad);
}

static inline void assert_same(haul_tensor *x, haul_tensor *y, double error, const char *what, int step)
{
    double a[SIZE], b[SIZE];
    assert_int_equal(read_values(x, a, SIZE), HAUL_OK);
    assert_int_equal(read_values(y, b, SIZE), HAUL_OK);
    for (int64_t i = 0; i < haul_tensor_count(x); i++)
        if (!(fabs(a[i] - b[i]) <= error))
            fail_msg("%s, step %d: element %d is %.9g, not %.9g", what, step, (int)i, a[i], b[i]);
}

#endif

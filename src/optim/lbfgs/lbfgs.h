/* L-BFGS: what its files share. A vector is a tensor with one axis, which has the elements of all parameters. */
#ifndef HAUL_OPTIM_LBFGS_LBFGS_H
#define HAUL_OPTIM_LBFGS_LBFGS_H

#include "optim/optimizer.h"

enum {
    HAUL__LBFGS_MAX_ITER = 1,
    HAUL__LBFGS_MAX_EVAL,
    HAUL__LBFGS_TOLERANCE_GRAD,
    HAUL__LBFGS_TOLERANCE_CHANGE,
    HAUL__LBFGS_HISTORY_SIZE,
    HAUL__LBFGS_LINE_SEARCH
};

/* The change of the gradient and of the parameters in an iteration, and 1 / (y s). Holds references. */
typedef struct haul__lbfgs_pair {
    haul_tensor *y, *s;
    double       ro;
    char         names[2][32]; /* for haul_optimizer_state */
} haul__lbfgs_pair;

/* The state; tensors are references, and do not change. */
typedef struct haul__lbfgs {
    haul__lbfgs_pair *pairs; /* the oldest one first */
    int               count, room;
    haul_tensor      *direction, *gradient; /* of the last iteration; NULL before the first one */
    haul_tensor      *numbers;              /* for haul_optimizer_state */
    double            t, scale;             /* the length of the last step; of the inverse Hessian's diagonal */
    int64_t           iterations, evaluations;
} haul__lbfgs;

/* The parameters' only dtype and device, and the size and dtype of a vector. */
typedef struct haul__lbfgs_form {
    haul_dtype   dtype;
    haul_device *device;
    int64_t      size;
} haul__lbfgs_form;
haul_status haul__lbfgs_form_of(const haul_optimizer *o, haul__lbfgs_form *out, const char *operation);

/* Makes *place a reference to t, which may be NULL, instead of to what it was. */
void haul__lbfgs_put(haul_tensor **place, haul_tensor *t);

/* Adds a pair, and drops the oldest ones while there are more than `most`. */
haul_status haul__lbfgs_add(haul__lbfgs *m, haul_tensor *y, haul_tensor *s, double ro, int most, const char *operation);

/* Moves the state to the parameters' device and dtype. */
haul_status haul__lbfgs_follow(haul__lbfgs *m, const haul__lbfgs_form *form);

int         haul__lbfgs_state(haul_optimizer *o, haul_named_tensor *out, int capacity);
haul_status haul__lbfgs_load(haul_optimizer *o, const haul_named_tensor *tensors, int count);
void        haul__lbfgs_free(void *own);

/* ---- evaluations ---- */

/* The loss at the distance t from the parameters x, along the direction. */
typedef struct haul__lbfgs_point {
    double       t, loss, slope, most; /* slope: the derivative along the direction; most: the largest |gradient| */
    haul_tensor *gradient;             /* a reference */
} haul__lbfgs_point;

void haul__lbfgs_put_point(haul__lbfgs_point *place, const haul__lbfgs_point *point);

typedef struct haul__lbfgs_step {
    haul_optimizer         *o;
    haul__lbfgs            *m;
    haul__lbfgs_form        form;
    haul_optimizer_closure *closure;
    void                   *context;
    haul_tensor            *x;     /* a reference: the parameters before a line search */
    haul_tensor            *first; /* a reference: the loss of the first evaluation */
    int64_t                 evaluations;
} haul__lbfgs_step;

/* Sets the parameters to x + t times the direction. */
haul_status haul__lbfgs_move(const haul__lbfgs_step *s, double t);

/* Evaluates the loss at the present parameters, which are at the distance t. */
haul_status haul__lbfgs_evaluate(haul__lbfgs_step *s, double t, haul__lbfgs_point *out);

/* Searches along the direction from *now, where t is 0, beginning with the length m->t. Sets *now to the point where
 * the strong Wolfe conditions hold, or else the best one, and moves there. most: the largest element of the direction.
 */
haul_status haul__lbfgs_search(haul__lbfgs_step *s, haul__lbfgs_point *now, double most);

#endif

/* Averages: parameters averaged over the steps of a training, which often evaluate better than the last ones.
 *
 *     haul_average *average = haul_average_new(net, .decay = 0.999);
 *
 * After each step of the optimizer the averages are updated. For an evaluation they change places with the parameters:
 *
 *     haul_optimizer_step(sgd);
 *     haul_average_update(average);
 *
 *     haul_average_swap(average);
 *     haul_tensor *y = haul_call(net, x, .mode = HAUL_EVALUATE);
 *     haul_average_swap(average);
 *
 * Each average has the dtype, device and memory format of its parameter, even after the module was moved. Buffers, for
 * example running statistics, are not averaged. */
#ifndef HAUL_AVERAGE_H
#define HAUL_AVERAGE_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/nn.h>

HAUL_BEGIN

/* The averages of a module's parameters. Belongs to a scope and holds the module. */
typedef struct haul_average haul_average;

/* Make averages of the parameters of a module, or of a list. Before the first update an average is a copy of its
 * parameter. Update n = 1, 2, ... does average += w (parameter - average), where w is 1 for n = 1 and then
 *
 * - `1 - decay`: an exponential moving average (Polyak, Juditsky 1992)
 * - `(1 - decay) / (1 - decay^n)` with .bias_corrected: the first updates count less, as in Adam
 * - `1 / n` with .equal: the mean, as torch.optim.swa_utils.AveragedModel */
typedef struct HAUL__DESIGNATED haul_average_options {
    haul_module *module; /* the module, or NULL if .parameters is given; positional */
    HAUL__GUARD(decay)
    double decay; /* weight of the old average, below 1; default 0.999 */
    /* bias_corrected: correct the first updates, as above; equal: the mean of all steps, as above */
    bool                     bias_corrected, equal;
    const haul_named_tensor *parameters; /* the parameters, instead of the module's (optim.h) */
    int                      count;      /* the number of .parameters */
} haul_average_options;
#define haul_average_new(...) haul_average_new_with(HAUL__OPTIONS(haul_average_options, .module = __VA_ARGS__))
HAUL_API haul_average *haul_average_new_with(const haul_average_options *options);

/* Update the averages with the current parameters: one operation for up to eight parameters. Fails with HAUL_STATE
 * while the averages are swapped in. */
HAUL_API haul_status haul_average_update(haul_average *average);

/* Exchange the values of parameters and averages, without further memory. A second call exchanges them back. */
HAUL_API haul_status haul_average_swap(haul_average *average);

/* Copy the averages to the parameters of the same names of another module, for example a clone. Fails with HAUL_STATE
 * while the averages are swapped in. */
HAUL_API haul_status haul_average_copy_to(haul_average *average, haul_module *module);

/* ---- State, which checkpoints hold ---- */

/* The averages by the names of their parameters. Returns how many there are, -1 on failure, and fills at most
 * `capacity` entries of `out`. The tensors belong to the average and must be used before its next call. Fails with
 * HAUL_STATE while the averages are swapped in. */
HAUL_API int haul_average_tensors(haul_average *average, haul_named_tensor *out, int capacity);

/* Replace the averages by copies of `tensors`, which must have exactly their names, shapes and dtypes. Changes nothing
 * if it fails. Fails with HAUL_STATE while the averages are swapped in.
 *
 * - updates: the number of updates made so far, at most 9e15 */
HAUL_API haul_status haul_average_load_state(haul_average *average, const haul_named_tensor *tensors, int count,
                                             int64_t updates);

/* The number of updates made so far; -1 on failure. */
HAUL_API int64_t haul_average_updates(const haul_average *average);

HAUL_END

#endif

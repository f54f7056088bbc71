/* Averages of parameters over the steps of a training, which often evaluate better than the last parameters.
 *
 *     haul_average *average = haul_average_new(net, .decay = 0.999);
 *     ...
 *     haul_optimizer_step(sgd);
 *     haul_average_update(average);        after each step
 *     ...
 *     haul_average_swap(average);          the module computes with the averages
 *     ... evaluate ...
 *     haul_average_swap(average);          and with its own parameters again
 *
 * An average has the dtype, device and memory format of its parameter, also after the module was moved. Buffers, such
 * as running statistics, are not averaged. */
#ifndef HAUL_AVERAGE_H
#define HAUL_AVERAGE_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/nn.h>

HAUL_BEGIN

typedef struct haul_average haul_average;

/* average += w (parameter - average), where w of update n = 1, 2, ... is 1 for n = 1, and then
 *   1 - decay                        an exponential moving average (Polyak, Juditsky 1992)
 *   (1 - decay) / (1 - decay^n)      .bias_corrected: the first updates count less, as in Adam
 *   1 / n                            .equal: the mean, as torch.optim.swa_utils.AveragedModel
 * Before the first update an average is a copy of the parameter. The parameters are those of the module, or, where the
 * module is NULL, those of the list (optim.h). */
typedef struct HAUL__DESIGNATED haul_average_options {
    haul_module *module; /* positional */
    HAUL__GUARD
    double                   decay; /* default 0.999; below 1 */
    bool                     bias_corrected, equal;
    const haul_named_tensor *parameters;
    int                      count;
} haul_average_options;
#define haul_average_new(...) haul_average_new_with(HAUL__OPTIONS(haul_average_options, .module = __VA_ARGS__))
HAUL_API haul_average *haul_average_new_with(const haul_average_options *options);

/* One operation for up to eight parameters. HAUL_STATE while the averages are swapped in. */
HAUL_API haul_status haul_average_update(haul_average *average);

/* Exchange the values of parameters and averages, without further memory. A second call exchanges them back. */
HAUL_API haul_status haul_average_swap(haul_average *average);

/* Copy the averages to the parameters of the same names of another module, such as a clone. HAUL_STATE while they are
 * swapped in. */
HAUL_API haul_status haul_average_copy_to(haul_average *average, haul_module *module);

/* ---- state, which checkpoints hold ---- */

/* The averages by the names of their parameters, and the number of updates. Reading returns how many there are, -1 on
 * failure, and fills at most `capacity`; they belong to the average and are to be used before its next call. Loading
 * copies, wants exactly those names, shapes and dtypes, and changes nothing when it fails. Both are refused with
 * HAUL_STATE while the averages are swapped in. */
HAUL_API int         haul_average_tensors(haul_average *average, haul_named_tensor *out, int capacity);
HAUL_API haul_status haul_average_load_state(haul_average *average, const haul_named_tensor *tensors, int count,
                                             int64_t updates);
HAUL_API int64_t     haul_average_updates(const haul_average *average); /* -1 on failure */

HAUL_END

#endif

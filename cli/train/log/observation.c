#include "cli/train/log/observation.h"

#include <math.h>
#include <stdio.h>

#include "cli/train/log/form.h"

/* Relative changes of the loss: below SMALL it is none; mini-batches in another order change it by less than LARGE. */
static const double SMALL = 0.005, LARGE = 0.05;

/* The losses of a run that goes on come from its log, which rounds them. */
static bool is_lower(double loss, double than)
{
    return loss < than - 1e-12 * fabs(than);
}

/* How often the answers are right, against guessing. */
static void say_first(const report_epoch *e, int classes, char out[OBSERVATION])
{
    const double ratio = e->measured_accuracy * classes;
    if (classes < 2 || isnan(ratio))
        snprintf(out, OBSERVATION, "the first epoch");
    else if (ratio < 1.2)
        snprintf(out, OBSERVATION, "not better than guessing yet");
    else
        snprintf(out, OBSERVATION, "%.1f times as often right as guessing", ratio);
}

static void say_best(const seen_epochs *seen, const report_epoch *e, char out[OBSERVATION])
{
    const double fall = (seen->best_loss - e->measured_loss) / fabs(seen->best_loss);
    if (fall < SMALL)
        snprintf(out, OBSERVATION, "hardly falling");
    else
        snprintf(out, OBSERVATION, "still falling, by %.*f %%", fall < 0.0095 ? 1 : 0, 100 * fall);
}

static void say_worse(const seen_epochs *seen, const report_epoch *e, char out[OBSERVATION])
{
    const double rise = (e->measured_loss - seen->best_loss) / fabs(seen->best_loss);
    if (e->train_loss - seen->first_train_loss > LARGE * fabs(seen->first_train_loss))
        snprintf(out, OBSERVATION, "training makes it worse: try a lower --lr");
    else if (rise > SMALL && e->epoch - seen->best_epoch > 1 && e->train_loss < seen->best_train_loss)
        snprintf(out, OBSERVATION, "%s loss rises since epoch %lld: overfitting", measured_on(e->validation),
                 (long long)seen->best_epoch);
    else if (rise > SMALL)
        snprintf(out, OBSERVATION, "%s loss above that of epoch %lld", measured_on(e->validation),
                 (long long)seen->best_epoch);
    else
        snprintf(out, OBSERVATION, "level since epoch %lld", (long long)seen->best_epoch);
}

void observe_epoch(const seen_epochs *seen, const report_epoch *e, int classes, char out[OBSERVATION])
{
    out[0] = 0;
    if (!isfinite(e->train_loss) || !isfinite(e->measured_loss))
        return;
    if (!seen->count)
        say_first(e, classes, out);
    else if (is_lower(e->measured_loss, seen->best_loss))
        say_best(seen, e, out);
    else
        say_worse(seen, e, out);
}

void observe_wait(const report_epoch *e, char out[OBSERVATION])
{
    out[0] = 0;
    if (e->step_seconds > 0 && e->wait_seconds > 0.1 * e->step_seconds)
        snprintf(out, OBSERVATION, "%.2g of %.2g ms wait for data", 1e3 * e->wait_seconds, 1e3 * e->step_seconds);
}

void seen_epoch(seen_epochs *seen, int64_t epoch, double train_loss, double measured_loss)
{
    if (!seen->count++)
        seen->first_train_loss = train_loss;
    if (seen->count > 1 && !is_lower(measured_loss, seen->best_loss))
        return;
    seen->best_epoch = epoch;
    seen->best_loss = measured_loss;
    seen->best_train_loss = train_loss;
}

#include "cli/train/training_data.h"

#include "cli/shared/cli.h"
#include "cli/train/validation.h"

static bool prepare(const training_data_plan *plan, haul_dataset *raw, training_data *out)
{
    haul_dataset *parts[2] = {raw, NULL};
    if (plan->validation > 0 &&
        validation_split(raw, plan->validation, plan->seed, source_is_sorted_by_class(plan->source), parts))
        return false;
    haul_dataset *augmented = augment_apply(&plan->augment, parts[0]);
    out->train = augmented ? input_form_apply(&out->input, augmented) : NULL;
    out->validation = parts[1] ? input_form_apply(&out->input, parts[1]) : NULL;
    return out->train && (out->validation || !parts[1]) && !source_spec(out->train, &out->spec);
}

/* Its examples get the size of those of the training part. */
static bool open_test(const training_data_plan *plan, training_data *out)
{
    example_size  size = source_size(plan->source, &out->input.shape);
    haul_dataset *raw;
    if (!source_has_test(plan->source))
        return true;
    raw = source_open(plan->source, true, &size);
    out->raw_test = raw;
    out->test = raw ? input_form_apply(&out->input, raw) : NULL;
    if (raw && !out->test)
        complain_error();
    return out->test != NULL;
}

/* True if there is something to measure an epoch on. */
static bool can_measure(const training_data_plan *plan)
{
    if (plan->validation > 0 || source_has_test(plan->source))
        return true;
    complain("--data %s has no test part to measure each epoch on; give --validation 0.2 to keep a fifth of the "
             "pictures%s for that, or make the folders train and test with the %s in each",
             plan->source, source_is_sorted_by_class(plan->source) ? " of each class" : "",
             source_is_sorted_by_class(plan->source) ? "classes" : "folders images and masks");
    return false;
}

bool training_data_open(const training_data_plan *plan, training_data *out)
{
    data_spec spec;
    *out = (training_data){.size = plan->size};
    haul_dataset *raw = can_measure(plan) ? source_open(plan->source, false, &out->size) : NULL;
    out->raw = raw;
    if (!raw)
        return false;
    if (!source_spec(raw, &spec)) {
        out->input = input_form_of(&spec.x);
        if (!augment_suits(&plan->augment, &spec, plan->source) || !open_test(plan, out))
            return false;
        if (prepare(plan, raw, out))
            return true;
    }
    complain_error();
    return false;
}

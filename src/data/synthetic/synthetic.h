/* Datasets whose examples are drawn: example `index` depends on the seed, on the split and on its index alone. */
#ifndef HAUL_DATA_SYNTHETIC_SYNTHETIC_H
#define HAUL_DATA_SYNTHETIC_SYNTHETIC_H

#include "data/random.h"

/* A dataset with the fields, the name and the `read` of `source`; the split is added to the name. The context of `read`
 * is that of haul__synthetic_draws. */
haul_dataset *haul__synthetic_make(const haul_synthetic_options *options, haul__purpose purpose,
                                   const haul_dataset_source *source, const char *operation);

/* The random numbers of an example. */
haul_draws haul__synthetic_draws(const void *context, const haul_example *e);

#endif

/* Options that a loader refuses. */
#ifndef HAUL_DATA_LOADER_OPTIONS_H
#define HAUL_DATA_LOADER_OPTIONS_H

#include <haul/data.h>

/* HAUL_OK if haul_loader_new can make a loader of the dataset with these options; otherwise the error is recorded. */
haul_status haul__loader_check(const haul_dataset *dataset, const haul_loader_options *o);

#endif

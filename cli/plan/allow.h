/* haul plan --allow: the fastest way to train within memory limits. */
#ifndef CLI_PLAN_ALLOW_H
#define CLI_PLAN_ALLOW_H

#include "cli/plan/study.h"

/* "recompute,spill" as bits of plan/choose; false after a complaint. */
bool allow_parse(const char *list, unsigned *out);

/* The name of the device that the training is built on, for dry runs: the second one of the request, or the simulated
 * one of its machine. */
const char *allow_device(const study_request *r, const char *machine);

/* Plans and prints. Returns an exit code: EXIT_MEMORY if nothing fits. */
int allow_show(const one_training *t, study_request *request, unsigned allowed, bool json);

#endif

/* The profile of some steps of a training. */
#ifndef CLI_RUN_FOLDER_PROFILE_H
#define CLI_RUN_FOLDER_PROFILE_H

#include <haul/haul.h>

typedef struct run_profile {
    int64_t       wanted;  /* steps to record; 0: none */
    int64_t       skipped; /* steps before that, in which kernels are compiled and memory is obtained */
    int64_t       seen, taken;
    haul_profile *profile; /* NULL before the first recorded step */
    bool          over;    /* it has ended */
} run_profile;

/* Plan to record `wanted` of the steps that are left: `first` of them in the present epoch, and `later` in each of
 * `epochs` further ones. All recorded steps are in one epoch. If an epoch has fewer, they are all of it. */
void run_profile_plan(run_profile *r, int64_t wanted, int64_t first, int64_t later, int64_t epochs);

/* Before a step takes its batch, after a step, and at the end of an epoch. False after a complaint. */
bool run_profile_before(run_profile *r);
bool run_profile_after(run_profile *r);
bool run_profile_end(run_profile *r);

/* What the audit found, in half a sentence; unchanged if no step was recorded. False after a complaint. */
bool run_profile_audit(run_profile *r, const char *folder, char *out, size_t size);

/* Write trace.json, profile.json and audit.json into the folder, with the peaks of the devices, which are measured now.
 * False after a complaint. Does nothing if no step was recorded. */
bool run_profile_save(run_profile *r, haul_device *device, const char *folder);
void run_profile_close(run_profile *r);

#endif

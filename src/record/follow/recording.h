/* What the command asks of a recording, beyond haul/recording.h. */
#ifndef HAUL_RECORD_FOLLOW_RECORDING_H
#define HAUL_RECORD_FOLLOW_RECORDING_H

#include <haul/recording.h>

/* haul_recording_run of a step that is not to be followed. `why` becomes the report's reason. */
haul_status haul__recording_run_as_it_is(haul_recording *recording, const char *why);

/* Frees the memory that the recording keeps from one step to the next, for work that comes between steps. The next
 * followed step allocates it again. */
void haul__recording_give_back(haul_recording *recording);

/* Forgets all steps and counts, as if the recording were new. */
void haul__recording_forget(haul_recording *recording);

#endif

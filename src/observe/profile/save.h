/* The files of a profile. */
#ifndef HAUL_OBSERVE_PROFILE_SAVE_H
#define HAUL_OBSERVE_PROFILE_SAVE_H

#include "base/text/json_text.h"
#include "observe/profile/analysis.h"

/* What a file holds: each writes a whole JSON text. They read the profile's analysis, which has been made. */
void haul__write_trace(haul__json_text *t, const haul_profile *p);
void haul__write_tables(haul__json_text *t, const haul_profile *p);

/* The name of the device, of the thread or of its stream, on whose track an event is shown. */
#define HAUL__TRACK_NAME 96
void haul__track_name(const haul_profile *p, const haul__profile_event *m, char out[HAUL__TRACK_NAME]);

/* True if it is shown as a bar on the track of a thread, or of a stream of a device. */
bool haul__is_on_thread(const haul__profile_event *m);
bool haul__is_on_stream(const haul__profile_event *m);

/* What a bar is called, and of what kind it is: "operation", "gradient", "call", "data", "work", "wait", "command",
 * "copy", "label". */
const char *haul__bar_name(const haul_profile *p, const haul__profile_event *m);
const char *haul__bar_kind(const haul_profile *p, const haul__profile_event *m);

#endif

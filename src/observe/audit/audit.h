/* The audit: what a profile shows that wastes time. */
#ifndef HAUL_OBSERVE_AUDIT_AUDIT_H
#define HAUL_OBSERVE_AUDIT_AUDIT_H

#include "base/text/json_text.h"
#include "observe/profile/analysis.h"

/* Events that a finding is about, by their index: copies, waits, batches. */
typedef struct haul__about {
    uint32_t *events;
    size_t    count, room;
} haul__about;

/* A finding that a bar of the timeline is about: of a command the number of its copy, else the index of the event. */
typedef struct haul__finding_mark {
    bool     copy;
    uint64_t key;
    int      finding;
} haul__finding_mark;

typedef struct haul__findings {
    haul_finding       *items; /* the dearest first */
    haul__about        *about; /* of each item */
    const haul_device **devices;
    int                 count;
    haul__finding_mark *marks; /* in order */
    size_t              mark_count, mark_room;
} haul__findings;

/* Made once; NULL, with the error recorded, without memory. The profile's analysis must have been made. */
const haul__findings *haul__profile_findings(haul_profile *profile, const char *operation);
void                  haul__findings_free(haul__findings *findings);

/* audit.json: the findings, which have been made. */
void haul__write_findings(haul__json_text *t, const haul_profile *p);

/* Finds the marks of findings whose `about` is known; false without memory (marks.c). */
bool haul__find_marks(const haul_profile *p, haul__findings *f);

/* Writes the member "findings" of the bar of an event: the places of its findings in audit.json, if it has any. */
void haul__write_marks(haul__json_text *t, const haul_profile *p, const haul__profile_event *m);

/* Writes the member "copies": which rows of a ledger a finding is about. */
void haul__write_copies(haul__json_text *t, const haul_profile *p, const haul__about *about);

/* ---- suspects: sums by kind and call site ---- */

/* The place of an event in the program, a text. */
static inline uint32_t haul__call_site_of(const haul_profile *p, uint32_t stack)
{
    return p->analysis->call_sites[stack];
}

typedef struct haul__suspect {
    haul_finding_kind  kind;
    uint32_t           call_site, second, operation; /* texts; second: another call site that the sentence names */
    const haul_device *device;                       /* on the far side */
    uint32_t           tensor, module, conversion;   /* texts */
    bool               down;                         /* of copies: to the host */
    uint32_t           layer; /* text: of waits for the input of this layer, which crosses there */
    int64_t            count, bytes, ns;
    int64_t            planned; /* ns that HAUL_PLACE_AUTO counted for the copies, or those waited for; 0: it asked for
                                 * none of them */
    int64_t         carried;    /* bytes of the copies; `bytes` are those that the fix saves */
    haul__intervals when;       /* of copies: what `ns` is computed from */
    haul__about     about;
    int             steps, last_step; /* in how many steps it happened; the last one, from 1 */
} haul__suspect;

typedef struct haul__suspects {
    haul__suspect *items;
    size_t         count, room;
    bool           failed;
} haul__suspects;

/* Adds to the suspect of this kind and place, and returns it until the next one is added; NULL without memory. */
haul__suspect *haul__suspect_add(haul__suspects *all, const haul__suspect *what, int step);

/* It is about that event, too. Nothing happens for a suspect that is NULL. */
void haul__suspect_about(haul__suspects *all, haul__suspect *s, const haul_profile *p, const haul__profile_event *m);

/* The suspects among copies (copies.c), and those of times (times.c). */
void haul__suspect_copies(const haul_profile *p, haul__suspects *all);
void haul__suspect_times(const haul_profile *p, haul__suspects *all);

/* The sentence and the fix of a finding (wording.c), whose other members are set. */
void haul__finding_text(const haul_profile *p, const haul__suspect *s, haul_finding *out);

#endif

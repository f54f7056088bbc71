/* The options of haul plan that decide on a plan. */
#ifndef CLI_PLAN_REQUEST_H
#define CLI_PLAN_REQUEST_H

#include "cli/plan/study.h"

/* As text, but for `stages`. */
typedef struct request_texts {
    const char *machine; /* a name or a file; NULL: this computer */
    const char *devices; /* "cpu,cuda:0"; NULL: the first two */
    const char *limits;  /* "2G", "50%", "cuda:0=2G,cpu=8G"; NULL: the devices' memory */
    const char *places;  /* "conv*=cuda:0,fc*=cpu"; NULL: none */
    bool        stages;  /* consecutive modules on each device but the host */
} request_texts;

/* False after a complaint; request_free is due in any case. */
bool request_read(const request_texts *texts, study_request *out);
void request_free(study_request *r);

#endif

/* haul plan --verify. */
#ifndef CLI_PLAN_CHECK_H
#define CLI_PLAN_CHECK_H

#include "cli/plan/study.h"
#include "plan/verify/verify.h"

/* A certificate that was read, to haul__json_free; NULL after a complaint, also if it is not right. */
haul__json *check_certificate(const char *path, haul__verdict *out);

/* True if it is about this program, this machine and this graph. False after a complaint that names the first
 * difference. */
bool check_step(const char *path, const haul__json *certificate, const study *s);

#endif

/* A plan as text, JSON and a picture. */
#ifndef CLI_PLAN_SHOW_H
#define CLI_PLAN_SHOW_H

#include "cli/plan/study.h"

static inline double plan_ms(int64_t ps)
{
    return (double)ps * 1e-9;
}

/* The share of a step's time that a plan may be away from the fastest one. */
static inline double plan_gap(int64_t ps, int64_t bound)
{
    return ps ? (double)(ps - bound) / (double)ps : 0;
}

/* For people. `title` names the step. False after a complaint, as with all of these. */
bool show_plan(const study *s, const char *title);

/* One JSON object on standard output. */
bool show_plan_json(const study *s);

/* The modules, coloured by device, with bytes on the edges, as a picture in a file. */
bool write_plan_svg(const study *s, const char *title, const char *path);

/* The certificate of the placement, in a file. */
bool write_certificate(const study *s, const char *path);

#endif

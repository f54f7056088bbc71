/* A plan as text, JSON and a picture. */
#ifndef CLI_PLAN_SHOW_H
#define CLI_PLAN_SHOW_H

#include "cli/plan/study.h"

/* For people. `title` names the step. False after a complaint, as with all of these. */
bool show_plan(const study *s, const char *title);

/* One JSON object on standard output. */
bool show_plan_json(const study *s);

/* The modules, coloured by device, with bytes on the edges, as a picture in a file. */
bool write_plan_svg(const study *s, const char *title, const char *path);

/* The certificate of the placement, in a file. */
bool write_certificate(const study *s, const char *path);

#endif

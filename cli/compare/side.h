/* A side of a comparison: makes the first step of a training and writes what each operation computed into a pipe. */
#ifndef CLI_COMPARE_SIDE_H
#define CLI_COMPARE_SIDE_H

#include "cli/compare/spec.h"
#include "cli/train/one_step.h"

/* Returns an exit code, after a complaint unless it is EXIT_OK. */
int side_run(const one_step *step, int fd);

#endif

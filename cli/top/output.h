/* What haul top writes for programs: JSON, metrics of Prometheus in a file, and the same by HTTP. */
#ifndef CLI_TOP_OUTPUT_H
#define CLI_TOP_OUTPUT_H

#include <stddef.h>

#include "cli/top/top.h"

/* Print one JSON object on one line. False after a complaint. */
bool top_print_json(const top_model *m);

/* The metrics in Prometheus's text format, to free. NULL if memory is exhausted. */
char *top_metrics(const top_model *m, size_t *size);

/* What --prometheus names: a port with an address, or a file. */
typedef struct top_target {
    const char *file; /* NULL: an address and a port */
    char        address[128];
    char        port[8];
} top_target;

/* False after a complaint. */
bool top_target_parse(const char *text, top_target *out);

/* Answer requests until Ctrl-C. An exit code, after a complaint if it is not that of an interruption. */
int top_serve(top_model *m, const top_target *target);

#endif

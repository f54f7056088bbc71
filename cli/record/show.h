/* A step program as text, JSON and a graph. */
#ifndef CLI_RECORD_SHOW_H
#define CLI_RECORD_SHOW_H

#include <haul/haul.h>

/* What stands above the tables: "one training step of simplecnn on cpu, batch 64, sgd, f32". */
typedef struct program_title {
    const char  *text;
    haul_device *device;
} program_title;

/* The operations, or with `memory` the stores; and what they need. False after a complaint, as with all of these. */
bool show_program(const haul_program *p, const program_title *title, bool memory);

/* One JSON object on standard output. */
bool show_program_json(const haul_program *p, const haul_device *device);

/* The graph for Graphviz, in a file: an operation is a node, and an edge leads from the operation that wrote a store to
 * one that reads it. */
bool write_program_dot(const haul_program *p, const char *path);

/* What the device needs without parameters and state. All 0 if it allocates nothing. */
haul_program_memory program_memory(const haul_program *p, const haul_device *device);

#endif

/* A backend that records commands and computes nothing: what reaches a device can be looked at without one. */
#ifndef SUPPORT_NULL_H
#define SUPPORT_NULL_H

#include "backends/command.h"

/* The device "null:0". */
haul_device *null_device(void);

/* A command that it got. */
typedef struct null_command {
    haul__command_kind kind;
    const char        *operation; /* "haul_add" */
    const char        *kernel;    /* of a launch: "add" */
    haul_dtype         dtype;     /* of a launch */
    int64_t            items;
    size_t             bytes;
    int                write_count, buffer_count;
} null_command;

/* Those since the last call of null_forget; the first NULL_KEPT are kept. */
enum { NULL_KEPT = 1024 };
void                null_forget(void);
int                 null_count(void);
const null_command *null_get(int i);
/* Copies of the record of index faults, which are not among those. */
int null_index_faults(void);

#endif

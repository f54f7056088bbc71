/* What happens when an operation meets operands on different devices. */
#ifndef HAUL_PLACEMENT_H
#define HAUL_PLACEMENT_H

#include <haul/base.h>
#include <haul/error.h>

HAUL_BEGIN

/* STRICT refuses, as PyTorch does (a 0-d tensor on the CPU is accepted everywhere). MOVE copies operands to the device
 * that holds most of the operation's bytes, as TensorFlow's soft placement does, and logs it. */
typedef enum haul_policy { HAUL_PLACE_STRICT, HAUL_PLACE_MOVE } haul_policy;

/* The calling thread's policy; STRICT unless set; restored when the scope is popped. */
HAUL_API haul_status haul_set_placement_policy(haul_policy policy);
HAUL_API haul_policy haul_placement_policy(void);

/* Log what MOVE decides: for an operation that met operands on different devices "haul_add: runs on opencl:0 (holds b,
 * 40 bytes)", and for each operand that moved "haul_add: a moves from cpu to opencl:0, 12 bytes".
 * haul_placement_log(true) writes to standard error, false stops; haul_placement_log_to hands lines (without the
 * newline) to `sink`, NULL to stop. For the whole process; `sink` is called by one thread at a time. It may do what
 * subscribers to events may do (events.h), but must not call these two. Once haul_placement_log_to returns the former
 * sink is not running any more. */
HAUL_API void haul_placement_log(bool on);
HAUL_API void haul_placement_log_to(void (*sink)(const char *line, void *context), void *context);

HAUL_END

#endif

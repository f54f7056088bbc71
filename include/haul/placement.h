/* Placement: what happens when an operation has operands on different devices.
 *
 * By default the operation fails with HAUL_PLACEMENT, and the message names the operands and the call of haul_to that
 * fixes it. With HAUL_PLACE_MOVE operands are moved, and the moves can be logged. */
#ifndef HAUL_PLACEMENT_H
#define HAUL_PLACEMENT_H

#include <haul/base.h>
#include <haul/error.h>

HAUL_BEGIN

/* What an operation does with operands on different devices.
 *
 * - HAUL_PLACE_STRICT: fail, as PyTorch does; a tensor without dimensions on the CPU is accepted everywhere
 * - HAUL_PLACE_MOVE: copy operands to the device that holds most of the operation's bytes, as TensorFlow's soft
 *   placement does, and log it */
typedef enum haul_policy { HAUL_PLACE_STRICT, HAUL_PLACE_MOVE } haul_policy;

/* The calling thread's policy; HAUL_PLACE_STRICT unless set. Popping the scope restores it. */
HAUL_API haul_status haul_set_placement_policy(haul_policy policy);
HAUL_API haul_policy haul_placement_policy(void);

/* Log the moves of HAUL_PLACE_MOVE, for the whole process. An operation with operands on different devices gives a line
 * that says where it runs, and one for each operand that moves:
 *
 *     haul_add: runs on opencl:0 (holds b, 40 bytes)
 *     haul_add: a moves from cpu to opencl:0, 12 bytes
 *
 * haul_placement_log(true) writes the lines to standard error; false stops it. haul_placement_log_to passes each line,
 * without its newline, to `sink`; NULL stops it.
 *
 * Several threads may call `sink` at the same time. It may do what subscribers to events may do (events.h). Once
 * haul_placement_log_to returns, the former sink is not running any more, unless a subscriber or sink called it.
 *
 * - on: log or stop
 * - context: passed to `sink` */
HAUL_API void haul_placement_log(bool on);
HAUL_API void haul_placement_log_to(void (*sink)(const char *line, void *context), void *context);

HAUL_END

#endif

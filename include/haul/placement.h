/* Placement: where an operation computes, and what happens when it has operands on different devices.
 *
 * By default the operation fails with HAUL_PLACEMENT, and the message names the operands and the call of haul_to that
 * fixes it. With the other policies operands are moved, and the moves can be logged. */
#ifndef HAUL_PLACEMENT_H
#define HAUL_PLACEMENT_H

#include <haul/base.h>
#include <haul/error.h>

HAUL_BEGIN

/* What an operation does with operands on different devices, or on another one than the current device.
 *
 * - HAUL_PLACE_STRICT: fail, as PyTorch does; a tensor without dimensions on the CPU is accepted everywhere
 * - HAUL_PLACE_MOVE: copy operands to the device that holds most of the operation's bytes, as TensorFlow's soft
 *   placement does, and log it
 * - HAUL_PLACE_CURRENT: compute on the thread's current device (haul_set_device) wherever the operands are, as in a
 *   tf.device block: operands on other devices are copied there, and that is logged. Operations that write a tensor in
 *   place or into a given target compute on its device, views stay where their operand is, and gradients compute where
 *   the operation did. Optimizers, loss scalers, averages and clipping leave tensors where they are */
typedef enum haul_policy { HAUL_PLACE_STRICT, HAUL_PLACE_MOVE, HAUL_PLACE_CURRENT } haul_policy;

/* The calling thread's policy; HAUL_PLACE_STRICT unless set. Popping the scope restores it. */
HAUL_API haul_status haul_set_placement_policy(haul_policy policy);
HAUL_API haul_policy haul_placement_policy(void);

/* Log the moves of HAUL_PLACE_MOVE and HAUL_PLACE_CURRENT, for the whole process. Each operand that moves gives a line.
 * Under HAUL_PLACE_MOVE another one before them says where the operation runs:
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

/* Placement: where an operation computes, and what happens when it has operands on different devices.
 *
 * By default the operation fails with HAUL_PLACEMENT, and the message names the operands and the call of haul_to that
 * fixes it. With the other policies operands are moved, and the moves can be logged. */
#ifndef HAUL_PLACEMENT_H
#define HAUL_PLACEMENT_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* What an operation does with operands on different devices, or on another one than the current device.
 *
 * - HAUL_PLACE_STRICT: fail, as PyTorch does; a tensor without dimensions on the CPU is accepted everywhere
 * - HAUL_PLACE_MOVE: copy operands to the device that holds most of the operation's bytes, as TensorFlow's soft
 *   placement does, and log it
 * - HAUL_PLACE_CURRENT: compute on the thread's current device (haul_set_device) wherever the operands are, as in a
 *   tf.device block: operands on other devices are copied there, and that is logged. Operations that write a tensor in
 *   place or into a given target compute on its device, views stay where their operand is, and gradients compute where
 *   the operation did. Optimizers, loss scalers, averages and clipping leave tensors where they are
 * - HAUL_PLACE_AUTO: choose a device for each operation. The plan in force (haul/plan.h) decides if it has the
 *   operation; else the operation runs on that device in use where it and the copies of its operands take the least
 *   time. Times are those of a simulated device's machine, or what haul calibrate has measured. A device of which
 *   neither is known is not chosen, and without any the operation runs as under HAUL_PLACE_MOVE. A copy is kept with
 *   its tensor until the tensor changes, so several operations share it. HAUL_PLACE_CURRENT's rules for operations that
 *   write, for views, optimizers and, without a plan, gradients hold here, too. Each decision is logged with its reason
 *
 * STRICT moves nothing and MOVE only mixed operands. Under CURRENT the program chooses each device, under AUTO the
 * library does: a program that names no device can use one that it has opened with haul_device_get. */
typedef enum haul_policy { HAUL_PLACE_STRICT, HAUL_PLACE_MOVE, HAUL_PLACE_CURRENT, HAUL_PLACE_AUTO } haul_policy;

/* The calling thread's policy; HAUL_PLACE_STRICT unless set. Popping the scope restores it. */
HAUL_API haul_status haul_set_placement_policy(haul_policy policy);
HAUL_API haul_policy haul_placement_policy(void);

/* Why a tensor is where it is: the decision of HAUL_PLACE_AUTO that made it, or else the operation that did.
 *
 *     f32[64,120] on cuda:0: haul_linear runs on cuda:0: as planned
 *
 * As haul_memory_report_text, it writes at most `size` bytes, the last of which is 0, and returns the length of the
 * whole text without the 0; -1 on failure. */
HAUL_API int64_t haul_place_explain(const haul_tensor *t, char *out, size_t size);

/* Log the moves of all policies but HAUL_PLACE_STRICT, for the whole process. Each operand that moves gives a line.
 * Under HAUL_PLACE_MOVE and HAUL_PLACE_AUTO another one before them says where the operation runs:
 *
 *     haul_add: runs on opencl:0 (holds b, 40 bytes)
 *     haul_add: a moves from cpu to opencl:0, 12 bytes
 *     haul_matmul: runs on cuda:0: as planned
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

/* The library's planning, for a training of the command. It builds a copy of the trainer with other options for each
 * dry run and each timing, so the trainer itself stays as it is. */
#ifndef CLI_TRAIN_PLANNER_H
#define CLI_TRAIN_PLANNER_H

#include "plan/batch.h"
#include "plan/choose/choose.h"
#include "plan/fit.h"
#include "plan/place/plan.h"
#include "plan/spill_cost.h"

struct trainer;
typedef struct planner planner;

/* Gives the trainer a planner unless it has one, which trainer_close frees. Its device and its data must be there.
 * False after a complaint. */
bool planner_open(struct trainer *t);
void planner_free(planner *p);

/* What the training takes with its options, where it has `limit`. */
haul_status planner_fit(planner *p, const haul__training_limit *limit, haul__fit_result *out);

/* With --recompute auto: finds the segments that run again within --memory-limit, for the programs of planner_record.
 */
haul_status planner_choose_segments(planner *p);

/* The same as planner_fit if it spills beyond so many bytes. */
haul_status planner_fit_spilling(planner *p, int64_t limit, haul__fit_result *out);

/* The same for a way to train, with nothing running again. */
haul_status planner_spill(planner *p, const haul__choose_way *way, int64_t limit, haul__fit_result *out);

/* What spilling would cost then. False, without an error, if the device cannot spill. */
bool planner_spill_cost(planner *p, int64_t limit, haul__spill_cost *out);

/* The third step of the training with this batch as a program, with the segments that run again. */
haul_status planner_record(planner *p, int64_t batch, bool moves, haul_program *out);

/* Likewise without micro-batches and pieces, as haul plan has it. */
haul_status planner_record_whole(planner *p, int64_t batch, haul_program *out);

/* A plan of where the operations of that step run; its loader copies the data ahead. It takes over the request's
 * machine, also on failure. NULL: the error is recorded. */
haul_plan *planner_place(planner *p, int64_t batch, haul__plan_request *request, const char *operation);

/* The training with way->parts mini-batches in a step, in bf16 and with --offload optimizer if the way says so. Valid
 * until the next call. */
const haul__training *planner_vary(planner *p, const haul__choose_way *way);

/* The training with so many bytes and any batch. */
haul__batch_request planner_batches(planner *p, int64_t limit);

#endif

/* A training on several ranks: all of them make the same steps, each with its own pieces; rank 0 alone prints and
 * writes. What decides how the training goes on is agreed on by all ranks. */
#ifndef CLI_TRAIN_PIECES_RANKS_H
#define CLI_TRAIN_PIECES_RANKS_H

#include "cli/model/network.h"
#include "cli/train/trainer.h"

/* Find the group of --group. Ranks other than 0 print nothing from here on. -1, or an exit code after a complaint.
 *
 * Ranks that are threads then take turns, from rank 0 on: options and data are read by one after the other. */
int ranks_open(trainer *t);

/* The turn of this rank is over. Returns when all have had theirs. */
haul_status ranks_end_turn(trainer *t);

/* With several ranks a training has pieces. False after a complaint, if there are too few for the ranks, or if a run
 * that is resumed has none. */
bool ranks_suit(trainer *t);

/* Fails, naming the difference, unless all ranks have the same options and data. */
haul_status ranks_compare(const trainer *t);

/* Agree on whether the training stops, saves, and has lost its reader: true for all if for one. */
haul_status ranks_agree(trainer *t);

/* True if the training is to stop. With several ranks, as they agreed last. */
bool ranks_stopped(const trainer *t);

/* True if a checkpoint is due. */
bool ranks_save_due(const trainer *t);

/* The sums over all ranks. */
haul_status ranks_sum(const trainer *t, double *numbers, int count);

/* True on a rank that has no results of the network, because the last one of several --stages has them. */
bool ranks_pass_on(const trainer *t);

/* The ranks evaluate a dataset together. Its mean loss has the bits that it has on one rank. */
haul_status ranks_evaluate(trainer *t, haul_loader *loader, network_score *out);

/* With --stages: each rank has the parameters of its own stage alone from here on, with their values on rank 0. A
 * checkpoint that it loads afterwards sets these. */
haul_status ranks_divide(const trainer *t);

/* With --stages: the ranks have read the same checkpoint. */
haul_status ranks_compare_position(const trainer *t);

/* With --stages: rank 0 gets the whole network, to keep or to load weights. */
haul_status ranks_gather_network(const trainer *t);

/* All ranks get the network of rank 0. */
haul_status ranks_share_network(const trainer *t);

/* With --shard or --stages: notes the memory of the optimizer's state on this rank, after a step. */
haul_status ranks_measure_state(trainer *t);

/* Two rows of t->ranks: the noted memory of the optimizer's state, then the peak of all memory. */
haul_status ranks_share_memory(const trainer *t, double *bytes);

/* With --shard or --stages: rank 0 gets the whole state of the optimizer and all parameters, for a checkpoint. */
haul_status ranks_gather_state(const trainer *t);

/* False for a parameter that another rank has alone, with --shard 3 or --stages. */
bool ranks_have(const haul_tensor *tensor);

/* *holds becomes true on all ranks if it was true on all of them, otherwise false. */
haul_status ranks_all(const trainer *t, bool *holds);

/* Bytes that this rank has sent to others. */
int64_t ranks_bytes(const trainer *t);

/* Seconds in which this rank's exchanges of gradients were under way, and the share of them behind backward passes. */
typedef struct exchange_time {
    double seconds, hidden; /* hidden: NAN without exchanges */
} exchange_time;
exchange_time ranks_exchange_time(const trainer *t);

/* A rank that ends with this exit code ends the others, too, if they do not end by themselves. Threads end by what
 * their functions return. */
void ranks_close(trainer *t, int code);

#endif

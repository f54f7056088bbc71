/* What a checkpoint is made of, and how its file is laid out.
 *
 * Tensors: "model.NAME", "optimizers.I.NAME" (state), "settings.I" (f64: a row of settings for each group), "groups.I"
 * (i64: parameters of each group), "schedules.I" (f64), "averages.I.NAME", "stop" (f64: the numbers of early stopping).
 * Texts: the format, the kinds and counts of
 * objects, the random state and the position.
 *
 * The format of before had one optimizer, with its state as "optimizer.NAME" and its learning rate as a text. It is
 * still read. */
#ifndef HAUL_TRAIN_CHECKPOINT_H
#define HAUL_TRAIN_CHECKPOINT_H

#include <haul/train.h>

#define SAVE_CHECKPOINT "haul_save_checkpoint"
#define LOAD_CHECKPOINT "haul_load_checkpoint"

#define MODEL         "model."
#define OWN_KEYS      "haul."
#define OWN_FORMAT    OWN_KEYS "format"
#define FORMAT        "checkpoint 2"
#define FORMAT_BEFORE "checkpoint 1"

/* Numbers that every checkpoint stores as texts: epoch, batch, and the seed and offset of the random state. */
enum { HAUL__CHECKPOINT_NUMBERS = 4 };
extern const char *const haul__checkpoint_number_keys[HAUL__CHECKPOINT_NUMBERS];

/* The numbers of early stopping, in the tensor STOP. */
#define STOP "stop"
enum { HAUL__STOP_BEST, HAUL__STOP_EPOCH, HAUL__STOP_STALLED, HAUL__STOP_NUMBERS };

/* The objects of a checkpoint, checked. */
typedef struct haul__checkpoint_objects {
    haul_module            *module;
    haul_optimizer        **optimizers; /* an array to free with haul__free */
    haul_schedule *const   *schedules;
    haul_average *const    *averages;
    int                     optimizer_count, schedule_count, average_count;
    haul_training_position *position; /* NULL if the caller does not want it */
    haul_early_stop        *stop;     /* likewise */
} haul__checkpoint_objects;

/* After a failure there is nothing to free. */
haul_status haul__checkpoint_objects_of(const haul_checkpoint_options *options, bool saves, const char *operation,
                                        haul__checkpoint_objects *out);

/* Lists of tensors that own their names. */
typedef struct haul__tensor_list {
    haul_named_tensor *items;
    int                count;
    size_t             capacity;
} haul__tensor_list;

void haul__tensor_list_free(haul__tensor_list *l);
/* Formats the name, in fresh memory; NULL means failure. */
haul_status haul__tensor_list_add(haul__tensor_list *l, char *name, haul_tensor *tensor, const char *operation);
/* Adds everything that `tensors_of` lists for `owner`, with a prefix. */
haul_status haul__tensor_list_add_all(haul__tensor_list *l, const char *prefix, void *owner,
                                      int (*tensors_of)(void *owner, haul_named_tensor *out, int capacity),
                                      const char *operation);

int haul__checkpoint_optimizer_tensors(void *optimizer, haul_named_tensor *out, int capacity);
int haul__checkpoint_average_tensors(void *average, haul_named_tensor *out, int capacity);

#endif

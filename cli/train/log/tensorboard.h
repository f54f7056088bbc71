/* Event files that TensorBoard reads: scalar values by step, next to the log of a run.
 *
 * A file is a sequence of records: length (u64), its masked CRC-32C, the bytes, their masked CRC-32C, all little-endian
 * (TensorFlow, tensorflow/core/lib/io/record_writer.cc). The bytes are an Event in the wire format of protocol buffers
 * (tensorflow/core/util/event.proto and summary.proto; protobuf.dev/programming-guides/encoding). */
#ifndef CLI_TRAIN_LOG_TENSORBOARD_H
#define CLI_TRAIN_LOG_TENSORBOARD_H

#include <stdbool.h>
#include <stdint.h>

/* All zeros: there is no file, and added values are dropped. */
typedef struct tensorboard {
    char   *path; /* NULL: there is no file */
    int     fd;
    int64_t bytes; /* of whole records */
} tensorboard;

/* A new file in the folder, events.out.tfevents.SECONDS.HOST.PID.0. If `trained` is above 0, a training goes on after
 * that step: TensorBoard drops what older files have beyond it. False after a complaint, as with tensorboard_add;
 * tensorboard_close is needed in either case. */
bool tensorboard_open(tensorboard *t, const char *folder, int64_t trained);
/* True if the file still has its name; false after a complaint. */
bool tensorboard_is_kept(const tensorboard *t);
void tensorboard_close(tensorboard *t);

typedef struct tensorboard_value {
    const char *tag; /* "loss/train" */
    double      value;
} tensorboard_value;

/* One event with values of a step, at most TENSORBOARD_MOST, whose tags have at most TENSORBOARD_TAG bytes. */
enum { TENSORBOARD_MOST = 8, TENSORBOARD_TAG = 60 };
bool tensorboard_add(tensorboard *t, int64_t step, const tensorboard_value *values, int count);

#endif

/* The folder of a training: log.jsonl, checkpoint, weights.safetensors. */
#ifndef CLI_RUN_FOLDER_H
#define CLI_RUN_FOLDER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct run_folder {
    char   *path, *log, *checkpoint, *weights; /* NULL: nothing is kept */
    int     log_fd;
    int64_t log_bytes; /* whole lines written */
} run_folder;

/* Only the names; nothing is made yet. False after a complaint, as with all of these. */
bool run_name(run_folder *run, const char *path);
bool run_has_checkpoint(const run_folder *run);

/* Make the folder where needed, open the log and lock it, so that no two trainings write here, and cut it to
 * `log_bytes`: what a checkpoint knows of it. */
bool run_open(run_folder *run, int64_t log_bytes);

/* Append a line, ended by a newline. After a failure (a full disk) no half line is left. */
bool run_log(run_folder *run, const char *line);

/* Bring the log to the disk. */
bool run_sync(run_folder *run);
void run_close(run_folder *run);

/* A JSON text in the checkpoint's metadata; NULL after a complaint. */
cJSON *run_metadata(const run_folder *run, const char *key);

#define RUN_OPTIONS_KEY  "train.options"
#define RUN_PROGRESS_KEY "train.progress"

#endif

/* The folder of a training: log.jsonl, config.json, checkpoint, weights.safetensors, best.safetensors, ledger.json,
 * memory.json, with a plan plan.json, and with an ONNX model model.onnx. */
#ifndef CLI_RUN_FOLDER_FOLDER_H
#define CLI_RUN_FOLDER_FOLDER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/model/input_form.h"

typedef struct run_folder {
    char *path, *log, *config, *checkpoint, *weights, *best, *ledger, *memory, *plan,
        *model; /* NULL: nothing is kept */
    int     lock_fd, log_fd;
    int64_t log_bytes; /* whole lines written */
} run_folder;

/* Only the names; nothing is made yet. False after a complaint, as with all of these. */
bool run_name(run_folder *run, const char *path);

/* What a folder holds: nothing to go on from (a complaint names the files that were found), a run that was stopped
 * before its first checkpoint, or one with a checkpoint. */
typedef enum run_state { RUN_NONE, RUN_BEGUN, RUN_SAVED } run_state;
run_state run_look(const run_folder *run);

/* Complains if there is no checkpoint. run_is_free complains if there is one, or if it cannot find out. */
bool run_find(const run_folder *run);
bool run_is_free(const run_folder *run);
bool run_has_checkpoint(const run_folder *run); /* without a word */

/* Make the folder where needed and lock it, so that no two processes write there. */
bool run_lock(run_folder *run);

/* True if the folder is still the one that was locked, and each file of a run may be written there. Called before files
 * are written. False after a complaint, which names the exchanged file. */
bool run_check(const run_folder *run);

/* The library's error of a file that could not be written; where the folder was exchanged, that. */
void run_complain(const run_folder *run);

/* True if the log is still in the folder; false after a complaint. */
bool run_has_log(const run_folder *run);

/* Sets *done to true if an event "done" follows in the log after so many bytes. */
bool run_log_says_done(const run_folder *run, int64_t log_bytes, bool *done);

/* Open the log and cut it to `log_bytes`: what a checkpoint knows of it. */
bool run_open(run_folder *run, int64_t log_bytes);

/* Append a line, ended by a newline. After a failure (a full disk) no half line is left. */
bool run_log(run_folder *run, const char *line);

/* Bring the log to the disk. */
bool run_sync(run_folder *run);
void run_close(run_folder *run);

/* A JSON object, or an array, in the checkpoint's metadata; NULL after a complaint. */
cJSON *run_object(const run_folder *run, const char *key);
cJSON *run_array(const run_folder *run, const char *key);

/* True if the metadata has the key, or cannot be read: reading it complains then. */
bool run_has(const run_folder *run, const char *key);

/* What the network's examples become before it sees them. False after a complaint. */
bool run_input(const run_folder *run, input_form *out);

/* The epoch that comes next, from 1; 0 after a complaint. */
int64_t run_next_epoch(const run_folder *run);

#define RUN_OPTIONS_KEY  "train.options"
#define RUN_PROGRESS_KEY "train.progress"
#define RUN_CLASSES_KEY  "train.classes"
#define RUN_INPUT_KEY    "train.input"
#define RUN_DATA_KEY     "train.data"

#endif

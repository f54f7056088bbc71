#include "cli/run_folder/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <haul/haul.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run_folder/files.h"
#include "cli/shared/cli.h"
#include "files/descriptor.h"

static char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char  *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

bool run_name(run_folder *run, const char *path)
{
    *run = (run_folder){.lock_fd = -1, .log_fd = -1};
    if (!path)
        return true;
    run->path = strdup(path);
    run->log = join(path, "log.jsonl");
    run->config = join(path, "config.json");
    run->checkpoint = join(path, "checkpoint");
    run->weights = join(path, "weights.safetensors");
    run->best = join(path, "best.safetensors");
    run->ledger = join(path, "ledger.json");
    run->memory = join(path, "memory.json");
    run->plan = join(path, "plan.json");
    run->model = join(path, "model.onnx");
    if (run->path && run->log && run->config && run->checkpoint && run->weights && run->best && run->ledger &&
        run->memory && run->plan && run->model)
        return true;
    complain("memory is exhausted");
    return false;
}

/* ENOENT if there is none, 0 if there is one. */
static int checkpoint_error(const run_folder *run)
{
    struct stat status;
    if (stat(run->checkpoint, &status))
        return errno;
    return 0;
}

bool run_has_checkpoint(const run_folder *run)
{
    return run->path && !checkpoint_error(run);
}

/* "it holds notes.txt, src and 3 others", "it is empty". */
static const char *contents_text(const char *path, char *out, size_t size)
{
    enum { MOST = 3 };
    DIR   *folder = opendir(path);
    int    count = 0;
    size_t used = 0;
    snprintf(out, size, "it cannot be read");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || count++ >= MOST || used >= size)
            continue;
        used += (size_t)snprintf(out + used, size - used, "%s%s", count == 1 ? "it holds " : ", ", entry->d_name);
    }
    if (folder && !count)
        snprintf(out, size, "it is empty");
    if (count > MOST && used < size)
        snprintf(out + used, size - used, " and %d other%s", count - MOST, count == MOST + 1 ? "" : "s");
    if (folder)
        closedir(folder);
    return out;
}

static void complain_no_run(const run_folder *run)
{
    struct stat status;
    char        contents[900], quoted[4096];
    if (stat(run->path, &status))
        complain("found no run in the folder %s: %s", run->path, strerror(errno));
    else if (!S_ISDIR(status.st_mode))
        complain("%s is not the folder of a run, but a file", run->path);
    else
        complain("%s holds no run: it has no checkpoint and no config.json; %s. Name the folder of "
                 "a run, or start one there: haul train --run %s",
                 run->path, contents_text(run->path, contents, sizeof contents),
                 shell_text(quoted, sizeof quoted, run->path));
}

run_state run_look(const run_folder *run)
{
    struct stat status;
    int         error = checkpoint_error(run);
    if (!error)
        return RUN_SAVED;
    if (error != ENOENT && error != ENOTDIR && !stat(run->path, &status)) {
        complain("%s cannot be read: %s", run->checkpoint, strerror(error));
        return RUN_NONE;
    }
    if (error == ENOENT && !stat(run->config, &status))
        return RUN_BEGUN;
    complain_no_run(run);
    return RUN_NONE;
}

bool run_find(const run_folder *run)
{
    char      quoted[4096];
    run_state state = run_look(run);
    if (state == RUN_BEGUN)
        complain("%s has no checkpoint yet: the training was stopped before its first save; start it again with haul "
                 "train --run %s --resume",
                 run->path, shell_text(quoted, sizeof quoted, run->path));
    return state == RUN_SAVED;
}

bool run_is_free(const run_folder *run)
{
    int error = run->path ? checkpoint_error(run) : ENOENT;
    if (error == ENOENT)
        return true;
    if (error)
        complain("%s cannot be read: %s", run->checkpoint, strerror(error));
    else
        complain("%s holds a run already: continue it with --resume, or give another --run", run->path);
    return false;
}

/* mkdir -p */
static bool make_folder(const char *path)
{
    char *copy = strdup(path);
    bool  made = copy != NULL;
    for (char *at = copy; made && *at; at++) {
        if (*at != '/' || at == copy)
            continue;
        *at = 0;
        made = !mkdir(copy, 0777) || errno == EEXIST;
        *at = '/';
    }
    made = made && (!mkdir(copy, 0777) || errno == EEXIST);
    if (!made)
        complain("the folder %s cannot be made: %s", path, strerror(errno));
    free(copy);
    return made;
}

/* The folder itself is locked: files in it can be deleted. Where a folder cannot be opened or locked, the lock is on
 * the log, which run_open opens. */
bool run_lock(run_folder *run)
{
    if (!run->path || run->lock_fd >= 0)
        return true;
    if (!make_folder(run->path))
        return false;
    run->lock_fd = open(run->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (run->lock_fd < 0 || !flock(run->lock_fd, LOCK_EX | LOCK_NB))
        return true;
    if (errno == EWOULDBLOCK) {
        complain("another haul train is writing into %s", run->path);
        return false;
    }
    close(run->lock_fd);
    run->lock_fd = -1;
    return true;
}

/* A folder that could not be opened cannot be compared. */
static bool is_folder_kept(const run_folder *run)
{
    if (run->lock_fd < 0 || run_file_is_named(run->lock_fd, run->path, true))
        return true;
    complain("%s is not the folder any more into which the training began to write: it was moved, deleted or "
             "exchanged; move it back and go on with --resume",
             run->path);
    return false;
}

/* The files that a training writes. */
bool run_check(const run_folder *run)
{
    static const char *const names[] = {"log.jsonl",        "config.json", "checkpoint",  "weights.safetensors",
                                        "best.safetensors", "ledger.json", "memory.json", "trace.json",
                                        "profile.json",     "audit.json",  "plan.json"};
    if (!run->path)
        return true;
    bool fits = is_folder_kept(run);
    for (size_t i = 0; fits && i < sizeof names / sizeof *names; i++) {
        char *path = join(run->path, names[i]);
        if (!path)
            complain("memory is exhausted");
        fits = path && run_file_fits(path);
        free(path);
    }
    return fits;
}

void run_complain(const run_folder *run)
{
    if (is_folder_kept(run))
        complain_error();
}

bool run_has_log(const run_folder *run)
{
    char quoted[4096];
    if (run->log_fd < 0 || run_file_is_named(run->log_fd, run->log, false))
        return true;
    if (!is_folder_kept(run))
        return false;
    complain("%s was deleted or exchanged while the training wrote into it, and its lines are lost; to go on with a "
             "new log: haul train --run %s --resume",
             run->log, shell_text(quoted, sizeof quoted, run->path));
    return false;
}

bool run_log_says_done(const run_folder *run, int64_t log_bytes, bool *done)
{
    static const char event[] = "{\"event\":\"done\"";
    FILE             *log;
    char             *line = NULL;
    size_t            room = 0;
    *done = false;
    run_file_state state = run_file_read(run->log, log_bytes, &log);
    while (log && !*done && getline(&line, &room, log) > 0)
        *done = !strncmp(line, event, sizeof event - 1);
    free(line);
    if (log)
        fclose(log);
    return state != RUN_FILE_UNFIT;
}

bool run_open(run_folder *run, int64_t log_bytes)
{
    struct stat status;
    if (!run->path)
        return true;
    if (!run_check(run) || (run->log_fd = run_file_open(run->log, O_RDWR | O_CREAT)) < 0)
        return false;
    if (fstat(run->log_fd, &status)) {
        complain("%s cannot be written: %s", run->log, strerror(errno));
        return false;
    }
    if (run->lock_fd < 0 && flock(run->log_fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        complain("another haul train is writing into %s", run->path);
        return false;
    }
    run->log_bytes = status.st_size < log_bytes ? status.st_size : log_bytes;
    if (ftruncate(run->log_fd, run->log_bytes) || lseek(run->log_fd, 0, SEEK_END) < 0) {
        complain("%s cannot be written: %s", run->log, strerror(errno));
        return false;
    }
    return true;
}

bool run_log(run_folder *run, const char *line)
{
    const size_t length = strlen(line);
    if (run->log_fd < 0)
        return true;
    if (!haul__write_all(run->log_fd, line, length)) {
        int error = errno;
        if (!ftruncate(run->log_fd, run->log_bytes))
            lseek(run->log_fd, run->log_bytes, SEEK_SET);
        complain("%s cannot be written: %s", run->log, strerror(error));
        return false;
    }
    run->log_bytes += (int64_t)length;
    return true;
}

bool run_sync(run_folder *run)
{
    if (run->log_fd >= 0 && fdatasync(run->log_fd)) {
        complain("%s cannot be written: %s", run->log, strerror(errno));
        return false;
    }
    return true;
}

void run_close(run_folder *run)
{
    if (run->log_fd >= 0)
        close(run->log_fd);
    if (run->lock_fd >= 0)
        close(run->lock_fd);
    free(run->path);
    free(run->log);
    free(run->config);
    free(run->checkpoint);
    free(run->weights);
    free(run->best);
    free(run->ledger);
    free(run->memory);
    free(run->plan);
    free(run->model);
    *run = (run_folder){.lock_fd = -1, .log_fd = -1};
}

/* The text of the checkpoint's metadata, for free; NULL after a complaint. */
static char *metadata_text(const run_folder *run, const char *key)
{
    haul_scope       *scope = haul_scope_push();
    haul_safetensors *file = scope ? haul_open_safetensors(run->checkpoint) : NULL;
    char             *text = file ? strdup(haul_safetensors_metadata(file, key)) : NULL;
    if (!file)
        complain_error();
    else if (!text)
        complain("memory is exhausted");
    haul_scope_pop(scope);
    return text;
}

static cJSON *metadata(const run_folder *run, const char *key, cJSON_bool (*is_wanted)(const cJSON *const))
{
    char  *text = metadata_text(run, key);
    cJSON *value;
    errno = 0; /* cJSON does not say whether memory was exhausted, malloc does */
    value = text ? cJSON_Parse(text) : NULL;
    if (text && !value && errno == ENOMEM) {
        complain("memory is exhausted");
    } else if (text && !is_wanted(value)) {
        cJSON_Delete(value);
        value = NULL;
        complain("%s was not written by haul train: its metadata has no %s", run->checkpoint, key);
    }
    free(text);
    return value;
}

bool run_has(const run_folder *run, const char *key)
{
    haul_scope       *scope = haul_scope_push();
    haul_safetensors *file = scope ? haul_open_safetensors(run->checkpoint) : NULL;
    bool              has = !file || *haul_safetensors_metadata(file, key);
    haul_error_clear();
    haul_scope_pop(scope);
    return has;
}

cJSON *run_object(const run_folder *run, const char *key)
{
    return metadata(run, key, cJSON_IsObject);
}

cJSON *run_array(const run_folder *run, const char *key)
{
    return metadata(run, key, cJSON_IsArray);
}

bool run_input(const run_folder *run, input_form *out)
{
    cJSON *object = run_object(run, RUN_INPUT_KEY);
    bool   read = object && input_form_from_json(object, out);
    if (object && !read)
        complain("%s was not written by haul train: its %s is damaged", run->checkpoint, RUN_INPUT_KEY);
    cJSON_Delete(object);
    return read;
}

int64_t run_next_epoch(const run_folder *run)
{
    char   *text = metadata_text(run, "haul.epoch");
    int64_t epoch = text ? strtoll(text, NULL, 10) : 0;
    if (text && epoch < 1) {
        complain("%s was not written by haul train: its metadata has no haul.epoch", run->checkpoint);
        epoch = 0;
    }
    free(text);
    return epoch;
}

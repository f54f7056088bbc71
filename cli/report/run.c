#include "cli/report/run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report/text.h"
#include "cli/shared/cli.h"
#include "cli/shared/text_file.h"

#define MOST_BYTES ((uint64_t)256 << 20)

enum { MOST_COMPLAINTS = 5 };

/* ---- files ---- */

typedef struct file_text {
    char  *path;
    char  *text; /* ended by a zero; for free */
    size_t size;
} file_text;

static char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char  *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

static void free_text(file_text *f)
{
    free(f->path);
    free(f->text);
    *f = (file_text){0};
}

/* False if there is none, or after a complaint, which sets *damaged. */
static bool read_text(file_text *f, const char *folder, const char *name, bool *damaged)
{
    *f = (file_text){.path = join(folder, name)};
    if (f->path && access(f->path, F_OK) && errno == ENOENT)
        return false;
    if (f->path)
        f->text = text_file_read(f->path, MOST_BYTES, &f->size);
    else
        complain("memory is exhausted");
    if (f->text)
        return true;
    haul_error_clear();
    *damaged = true;
    return false;
}

/* An object or an array, as `wanted` says; NULL if the file is not there or, after a complaint, not one. */
static cJSON *read_json(page_run *run, const char *name, cJSON_bool (*wanted)(const cJSON *const), const char *form,
                        const char *sections)
{
    file_text   f;
    cJSON      *value = NULL;
    const char *end = NULL;
    if (read_text(&f, run->path, name, &run->damaged)) {
        errno = 0; /* cJSON does not say whether memory was exhausted, malloc does */
        value = cJSON_ParseWithLengthOpts(f.text, f.size + 1, &end, true);
        if (!value && errno == ENOMEM)
            complain("memory is exhausted");
        else if (!value)
            complain("%s, line %d: this is not JSON; the report leaves out %s", f.path, text_file_line(f.text, end),
                     sections);
        else if (!wanted(value))
            complain("%s, line 1: this is not %s; the report leaves out %s", f.path, form, sections);
        if (!value || !wanted(value)) {
            run->damaged = true;
            cJSON_Delete(value);
            value = NULL;
        }
    }
    free_text(&f);
    return value;
}

/* ---- the log ---- */

/* Room for one more; false if memory is exhausted. */
static bool make_room(void **items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return true;
    size_t wanted = *room ? 2 * *room : 64;
    void  *grown = wanted <= SIZE_MAX / size ? realloc(*items, wanted * size) : NULL;
    if (!grown)
        return false;
    *items = grown;
    *room = wanted;
    return true;
}

/* Validation data if there are any, else test data. */
static double measured(const cJSON *event, const char *validation, const char *test)
{
    return number_of(event, cJSON_HasObjectItem(event, validation) ? validation : test);
}

/* The fault of the event as text; NULL: none. */
static const char *take_epoch(page_run *run, const cJSON *event)
{
    page_epoch e = {.epoch = number_of(event, "epoch"),
                    .train_loss = number_of(event, "train_loss"),
                    .train_accuracy = number_of(event, "train_accuracy"),
                    .loss = measured(event, "validation_loss", "test_loss"),
                    .accuracy = measured(event, "validation_accuracy", "test_accuracy"),
                    .lr = number_of(event, "lr"),
                    .seconds = number_of(event, "seconds"),
                    .speed = number_of(event, "images_per_second"),
                    .best = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(event, "best"))};
    if (!(e.epoch >= 1 && e.epoch < 1e9))
        return "the event epoch needs the number epoch, from 1";
    if (!make_room((void **)&run->epochs, run->epoch_count, &run->epoch_room, sizeof e))
        return "memory is exhausted";
    run->validation = run->validation || cJSON_HasObjectItem(event, "validation_loss");
    run->epochs[run->epoch_count++] = e;
    return NULL;
}

static const char *take_batch(page_run *run, const cJSON *event)
{
    page_batch b = {.epoch = number_of(event, "epoch"),
                    .batch = number_of(event, "batch"),
                    .loss = number_of(event, "loss"),
                    .lr = number_of(event, "lr")};
    if (!(b.epoch >= 1 && b.epoch < 1e9 && b.batch >= 1 && b.batch < 1e12))
        return "the event batch needs the numbers epoch and batch, from 1";
    if (!make_room((void **)&run->batches, run->batch_count, &run->batch_room, sizeof b))
        return "memory is exhausted";
    run->batches[run->batch_count++] = b;
    return NULL;
}

static void keep(cJSON **place, cJSON **event)
{
    cJSON_Delete(*place);
    *place = *event;
    *event = NULL;
}

/* The run goes on: how the process before ended no longer says how the run ends. */
static void take_start(page_run *run, cJSON **event)
{
    keep(&run->start, event);
    cJSON_Delete(run->done);
    cJSON_Delete(run->end);
    run->done = run->end = NULL;
}

/* Takes *event over where it is kept. */
static const char *take_event(page_run *run, cJSON **event)
{
    const char *kind = document_text(*event, "event");
    if (!cJSON_IsObject(*event) || !*kind)
        return "this is not an object with the text event";
    if (!strcmp(kind, "epoch"))
        return take_epoch(run, *event);
    if (!strcmp(kind, "batch"))
        return take_batch(run, *event);
    if (!strcmp(kind, "start"))
        take_start(run, event);
    else if (!strcmp(kind, "network"))
        keep(&run->network, event);
    else if (!strcmp(kind, "done"))
        keep(&run->done, event);
    else
        keep(&run->end, event);
    return NULL;
}

static void take_lines(page_run *run, const file_text *f)
{
    int complaints = 0, number = 0;
    for (const char *line = f->text; line < f->text + f->size;) {
        const char *end = memchr(line, '\n', (size_t)(f->text + f->size - line));
        size_t      length = end ? (size_t)(end - line) : (size_t)(f->text + f->size - line);
        number++;
        errno = 0;
        cJSON      *event = cJSON_ParseWithLengthOpts(line, length, NULL, false);
        const char *wrong = event             ? take_event(run, &event)
                            : errno == ENOMEM ? "memory is exhausted"
                                              : "this is not JSON";
        cJSON_Delete(event);
        if (wrong && complaints++ < MOST_COMPLAINTS)
            complain("%s, line %d: %s; the report leaves the line out", f->path, number, wrong);
        line += length + 1;
    }
    run->damaged = run->damaged || complaints;
    if (complaints > MOST_COMPLAINTS)
        complain("%s: %d more lines are damaged", f->path, complaints - MOST_COMPLAINTS);
}

/* From the data, and at least what the log has seen. */
static void count_batches(page_run *run)
{
    double examples = number_of(run->start, "train_examples"), batch = number_of(run->start, "batch");
    double count = batch >= 1 && examples >= 1 ? ceil(examples / batch) : 1;
    for (size_t i = 0; i < run->batch_count; i++)
        count = fmax(count, run->batches[i].batch);
    run->epoch_batches = count;
}

static bool has_file(const page_run *run, const char *name)
{
    char      *path = join(run->path, name);
    const bool has = path && !access(path, F_OK);
    free(path);
    return has;
}

static bool read_log(page_run *run)
{
    file_text f;
    char      quoted[4096];
    bool      there = read_text(&f, run->path, "log.jsonl", &run->damaged);
    if (there) {
        take_lines(run, &f);
        count_batches(run);
    } else if (!run->damaged) {
        complain("%s holds no run: log.jsonl and profile.json are missing. To make one: haul train --run %s", run->path,
                 shell_text(quoted, sizeof quoted, run->path));
    }
    if (there && !run->start && !run->epoch_count && !run->batch_count) {
        complain("%s has no event of a training", f.path);
        there = false;
    }
    free_text(&f);
    return there;
}

/* ---- a run ---- */

/* "runs/first/" is called first, and "." by the folder's own name. */
static char *name_of(const char *path)
{
    char  *whole = realpath(path, NULL);
    char  *copy = strdup(whole && (!strcmp(path, ".") || strstr(path, "..")) ? whole : path);
    size_t length = copy ? strlen(copy) : 0;
    free(whole);
    while (length > 1 && copy[length - 1] == '/')
        copy[--length] = 0;
    char *slash = copy ? strrchr(copy, '/') : NULL;
    if (slash && slash[1])
        memmove(copy, slash + 1, strlen(slash));
    return copy;
}

bool page_run_read(page_run *run, const char *path)
{
    *run = (page_run){.path = path, .name = name_of(path), .epoch_batches = 1};
    if (!run->name) {
        complain("memory is exhausted");
        return false;
    }
    run->program = !has_file(run, "log.jsonl") && has_file(run, "profile.json");
    if (!run->program && !read_log(run))
        return false;
    run->profile = read_json(run, "profile.json", cJSON_IsObject, "an object",
                             "where the time of a step goes, the timeline, operations and memory over a step");
    run->audit = read_json(run, "audit.json", cJSON_IsArray, "an array", "the audit");
    run->ledger = read_json(run, "ledger.json", cJSON_IsObject, "an object", "the transfers");
    run->memory = read_json(run, "memory.json", cJSON_IsObject, "an object", "the memory at the end of the run");
    return !run->program || run->profile;
}

void page_run_free(page_run *run)
{
    cJSON *kept[] = {run->start, run->network, run->done, run->end, run->profile, run->audit, run->ledger, run->memory};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        cJSON_Delete(kept[i]);
    free(run->name);
    free(run->epochs);
    free(run->batches);
    *run = (page_run){0};
}

double page_run_position(const page_run *run, const page_batch *batch)
{
    return batch->epoch - 1 + batch->batch / run->epoch_batches;
}

const page_epoch *page_run_best(const page_run *run)
{
    const page_epoch *best = NULL;
    for (size_t i = 0; i < run->epoch_count; i++)
        if (isfinite(run->epochs[i].loss) && (!best || run->epochs[i].loss < best->loss))
            best = &run->epochs[i];
    return best;
}

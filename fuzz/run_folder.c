/* Fuzzing the command's readers of a run: one file of a folder that `haul train` wrote is changed as the bytes say, and
 * a command reads the folder. The first byte chooses the file, the second the command. */
#include <fcntl.h>
#include <ftw.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/options/commands.h"
#include "cli/shared/cli.h"
#include "files/file.h"
#include "support/changes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PREFIX = 8, MOST_WORDS = 24, WORD = 64 };
#define MEMORY_LIMIT ((int64_t)256 << 20)

typedef struct run_file {
    const char *name;
    bool        has_header; /* safetensors: eight bytes with the size of the header, which is changed */
    uint8_t    *bytes;      /* the sound file */
    size_t      size, header;
} run_file;

static run_file files[] = {{.name = "config.json"},
                           {.name = "checkpoint", .has_header = true},
                           {.name = "weights.safetensors", .has_header = true},
                           {.name = "log.jsonl"},
                           {.name = "ledger.json"},
                           {.name = "memory.json"},
                           {.name = "profile.json"},
                           {.name = "audit.json"}};
enum { FILES = sizeof files / sizeof *files };

/* "@" stands for the folder in which everything is. */
static const char *const lines[] = {
    "train --run @run --resume --epochs 2 --quiet",
    "train --config @run/config.json --estimate",
    "predict --run @run",
    "export @run @model.onnx",
    "report --output @page.html @run",
    "profile @run",
    "audit @run",
    "inspect @run/checkpoint",
};
enum { LINES = sizeof lines / sizeof *lines };

static char folder[] = "/tmp/haul-fuzz-run-XXXXXX", complaint[8192];

static int call(const char *line)
{
    char  words[MOST_WORDS][WORD], *all[MOST_WORDS + 1] = {NULL};
    int   count = 0;
    char *copy = strdup(line), *rest = copy;
    for (char *word; copy && count < MOST_WORDS && (word = strtok_r(NULL, " ", &rest)); count++) {
        snprintf(words[count], WORD, "%s%s%s", *word == '@' ? folder : "", *word == '@' ? "/" : "",
                 word + (*word == '@'));
        all[count] = words[count];
    }
    free(copy);
    complain_into(complaint, sizeof complaint);
    for (int i = 0; i < command_count; i++)
        if (count && !strcmp(commands[i]->name, all[0]))
            return commands[i]->run(count, all);
    abort();
}

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", what, complaint);
    abort();
}

static void write_file(const char *name, const uint8_t *bytes, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "%s/run/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && write(fd, bytes, size) == (ssize_t)size, name);
    close(fd);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)type, (void)at;
    return remove(path);
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A training of two epochs in a folder of its own, with a profile. */
static void begin(void)
{
    const int out = open("/dev/null", O_WRONLY);
    must(mkdtemp(folder) && !atexit(remove_folder), folder);
    must(!setenv("HAUL_CACHE_DIR", folder, 1) && out >= 0 && dup2(out, STDOUT_FILENO) >= 0, "the standard output");
    must(!haul_memory_set_limit(haul_cpu(), MEMORY_LIMIT), "the limit");
    must(!call(
             "train --data blobs --model dense --epochs 2 --batch 500 --device cpu --threads 1 --profile 2 --run @run"),
         "train");
    for (int i = 0; i < FILES; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/run/%s", folder, files[i].name);
        must(!haul__file_read_all(path, "fuzz", 1 << 24, 0, &files[i].bytes, &files[i].size), path);
        if (files[i].has_header)
            memcpy(&files[i].header, files[i].bytes, sizeof files[i].header);
    }
    for (int i = 0; i < LINES; i++)
        must(!call(lines[i]), lines[i]);
}

/* Writes the sound files, and `which` with its header, or its first bytes, changed. */
static void write_files(int which, const uint8_t *data, size_t size)
{
    static uint8_t changed[ROOM];
    for (int i = 0; i < FILES; i++) {
        const run_file *f = &files[i];
        if (i != which) {
            write_file(f->name, f->bytes, f->size);
            continue;
        }
        const size_t before = f->has_header ? PREFIX : 0, all = f->has_header ? f->header : f->size;
        const size_t part = all < ROOM / 2 ? all : ROOM / 2, behind = f->size - before - part;
        memcpy(changed, f->bytes + before, part);
        const size_t now = change_file(changed, part, data, size), header = f->header + now - part;
        uint8_t     *whole = malloc(before + now + behind + 1);
        must(whole != NULL, "memory");
        if (before)
            memcpy(whole, &header, PREFIX);
        memcpy(whole + before, changed, now);
        memcpy(whole + before + now, f->bytes + before + part, behind);
        write_file(f->name, whole, before + now + behind);
        free(whole);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool begun;
    if (!begun)
        begin();
    begun = true;
    if (size < 2)
        return 0;
    write_files(data[0] % FILES, data + 2, size - 2);
    call(lines[data[1] % LINES]);
    haul_error_clear();
    return 0;
}

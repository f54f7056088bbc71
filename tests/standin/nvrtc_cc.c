/* A compilation's folder, and the compiler that runs in it. */
#include "nvrtc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_FLAGS = 32 };

extern char **environ;

/* ---- folders ---- */

bool standin_folder_make(standin_folder *folder)
{
    const char *parent = getenv("TMPDIR");
    int         length =
        snprintf(folder->path, sizeof folder->path, "%s/standin-nvrtc-XXXXXX", parent && *parent ? parent : "/tmp");
    return length > 0 && (size_t)length < sizeof folder->path && mkdtemp(folder->path);
}

/* "FOLDER/NAME", the caller's to free. */
static char *path_of(const standin_folder *folder, const char *name)
{
    size_t size = strlen(folder->path) + strlen(name) + 2;
    char  *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", folder->path, name);
    return path;
}

void standin_folder_remove(const standin_folder *folder)
{
    DIR *entries = opendir(folder->path);
    for (struct dirent *e; entries && (e = readdir(entries));) {
        char *path = path_of(folder, e->d_name);
        if (path && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlink(path);
        free(path);
    }
    if (entries)
        closedir(entries);
    rmdir(folder->path);
}

bool standin_folder_put(const standin_folder *folder, const char *name, const char *text)
{
    char *path = path_of(folder, name);
    FILE *file = path ? fopen(path, "we") : NULL;
    bool  written = file && fputs(text, file) >= 0;
    if (file)
        written = fclose(file) == 0 && written;
    free(path);
    return written;
}

char *standin_folder_get(const standin_folder *folder, const char *name, size_t *size)
{
    char *path = path_of(folder, name), *bytes = NULL;
    FILE *file = path ? fopen(path, "rbe") : NULL;
    long  length = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (length >= 0)
        bytes = malloc((size_t)length + 1);
    if (bytes) {
        rewind(file);
        *size = fread(bytes, 1, (size_t)length, file);
        bytes[*size] = '\0';
    }
    if (file)
        fclose(file);
    free(path);
    return bytes;
}

/* ---- the compiler ---- */

static bool run(const standin_folder *folder, const char *const *arguments)
{
    posix_spawn_file_actions_t actions;
    pid_t                      child;
    int                        status = -1;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    if (posix_spawn_file_actions_addchdir_np(&actions, folder->path) == 0 &&
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "log", O_WRONLY | O_CREAT | O_APPEND, 0600) == 0 &&
        posix_spawnp(&child, arguments[0], &actions, NULL, (char *const *)(void *)arguments, environ) == 0)
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    posix_spawn_file_actions_destroy(&actions);
    return status == 0;
}

bool standin_cc(const standin_folder *folder, const char *const *arguments, int count)
{
    const char  *cc = getenv("STANDIN_CC"), *flags = getenv("STANDIN_CFLAGS");
    char        *words = strdup(flags ? flags : "-O1"), *rest = NULL;
    const char **all = calloc((size_t)count + MAX_FLAGS + 2, sizeof *all);
    int          n = 0;
    bool         done = false;
    if (words && all) {
        all[n++] = cc && *cc ? cc : STANDIN_COMPILER;
        for (char *w = strtok_r(words, " ", &rest); w && n <= MAX_FLAGS; w = strtok_r(NULL, " ", &rest))
            all[n++] = w;
        memcpy(all + n, arguments, (size_t)count * sizeof *all);
        done = run(folder, all);
    }
    free(words);
    free(all);
    return done;
}

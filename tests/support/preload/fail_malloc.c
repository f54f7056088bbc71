/* For LD_PRELOAD: one call of malloc, calloc or realloc fails, or all from it on. FAIL_MALLOC_AT is its number, from 1;
 * FAIL_MALLOC_ALL=1 lets all later ones fail, too. FAIL_MALLOC_COUNT names a file that gets the number of calls when
 * the program ends. Requests before the environment can be read, those of the dynamic linker, are not counted. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t bytes);

static atomic_long calls;
static long        first;
static bool        all, counting;

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("FAIL_MALLOC_AT");
    first = at ? strtol(at, NULL, 10) : 0;
    all = getenv("FAIL_MALLOC_ALL") != NULL;
    counting = true;
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("FAIL_MALLOC_COUNT");
    counting = false;
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (fd >= 0) {
        dprintf(fd, "%ld\n", atomic_load(&calls));
        close(fd);
    }
}

static bool fails(void)
{
    if (!counting)
        return false;
    long number = atomic_fetch_add(&calls, 1) + 1;
    if (!first || number < first || (number > first && !all))
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes)
{
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(old, bytes);
}

/* A folder of compiled programs, and of choices that were made by timing.
 *
 * The file name of an entry is a 128-bit hash of its key. The file holds the key, the data and a checksum over both, so
 * a truncated, damaged or foreign file is never taken for an entry. An entry is written to a temporary file in the same
 * folder and then renamed. Failures here are silent: without a cache, programs are compiled again. */
#include "files/disk_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "files/descriptor.h"

/* ---- SipHash-2-4 with 128 bits of result: J.-P. Aumasson, D. J. Bernstein, 2012 ---- */

typedef struct hash128 {
    uint64_t half[2];
} hash128;

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], int rounds)
{
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1], v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

/* Hash of two pieces, one after the other. */
static hash128 hash(const void *first, size_t first_size, const void *second, size_t second_size)
{
    const unsigned char *pieces[2] = {first, second};
    const size_t         sizes[2] = {first_size, second_size};
    uint64_t             v[4] = {0x736f6d6570736575, 0x646f72616e646f6d ^ 0xee, 0x6c7967656e657261, 0x7465646279746573};
    uint64_t             word = 0;
    size_t               count = 0;
    for (int piece = 0; piece < 2; piece++) {
        for (size_t i = 0; i < sizes[piece]; i++) {
            word |= (uint64_t)pieces[piece][i] << 8 * (count++ % 8);
            if (count % 8 == 0) {
                v[3] ^= word;
                sip_rounds(v, 2);
                v[0] ^= word;
                word = 0;
            }
        }
    }
    HAUL__ASSERT(count == first_size + second_size);
    word |= (uint64_t)count << 56;
    v[3] ^= word;
    sip_rounds(v, 2);
    v[0] ^= word;
    hash128 out;
    v[2] ^= 0xee;
    sip_rounds(v, 4);
    out.half[0] = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    sip_rounds(v, 4);
    out.half[1] = v[0] ^ v[1] ^ v[2] ^ v[3];
    return out;
}

/* ---- where ---- */

/* A parent that cannot be made may be there: only that the last folder is not is a failure. Its cause is the first one.
 */
bool haul__make_folders(char *path, unsigned mode)
{
    int cause = 0;
    for (char *p = path + 1; *path && *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(path, mode) && errno != EEXIST && !cause)
            cause = errno;
        *p = '/';
    }
    if (mkdir(path, mode) == 0 || errno == EEXIST)
        return true;
    errno = cause ? cause : errno;
    return false;
}

char *haul__cache_folder(void)
{
    const char *own = getenv("HAUL_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own && *own)
        return haul__strdup(own);
    if (xdg && *xdg == '/')
        return haul__format("%s/haul", xdg);
    return home && *home == '/' ? haul__format("%s/.cache/haul", home) : NULL;
}

static char *path_of(const char *folder_path, const char *key)
{
    hash128 h = hash(key, strlen(key), NULL, 0);
    return haul__format("%s/%016llx%016llx.bin", folder_path, (unsigned long long)h.half[0],
                        (unsigned long long)h.half[1]);
}

/* ---- entries ---- */

typedef struct header {
    char     magic[8];
    uint64_t key_size, data_size;
    hash128  checksum; /* over key and data */
} header;

static const char magic[8] = "haulbin1";

/* The entry in `file`, if it is whole and has this `key`. Its sizes are checked against the file's before anything is
 * read. */
static void *read_entry(int file, const char *key, size_t *bytes)
{
    struct stat info;
    header      h;
    size_t      key_size = strlen(key);
    char       *stored = NULL, *data = NULL;
    if (fstat(file, &info) || !S_ISREG(info.st_mode) || !haul__read_all(file, &h, sizeof h) ||
        memcmp(h.magic, magic, sizeof magic) != 0 || h.key_size != key_size ||
        (uint64_t)info.st_size < sizeof h + key_size || h.data_size != (uint64_t)info.st_size - sizeof h - key_size)
        return NULL;
    stored = haul__malloc(key_size + 1);
    data = haul__malloc((size_t)h.data_size);
    bool good = stored && data && haul__read_all(file, stored, key_size) &&
                haul__read_all(file, data, (size_t)h.data_size) && memcmp(stored, key, key_size) == 0;
    if (good) {
        hash128 sum = hash(key, key_size, data, (size_t)h.data_size);
        good = memcmp(&sum, &h.checksum, sizeof sum) == 0;
    }
    haul__free(stored);
    if (!good) {
        haul__free(data);
        return NULL;
    }
    *bytes = (size_t)h.data_size;
    return data;
}

static atomic_llong found, missing, stored;

haul__cache_count haul__cache_counts(void)
{
    return (haul__cache_count){
        .found = atomic_load(&found), .missing = atomic_load(&missing), .stored = atomic_load(&stored)};
}

void *haul__cache_load(const char *key, size_t *bytes)
{
    char *where = haul__cache_folder(), *path = where ? path_of(where, key) : NULL;
    void *data = NULL;
    int   file = path && !haul__fault_point(HAUL__FAULT_FILE) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        data = read_entry(file, key, bytes);
        close(file);
    }
    atomic_fetch_add(data ? &found : &missing, 1);
    haul__free(path);
    haul__free(where);
    return data;
}

static bool write_entry(int file, const char *key, const void *data, size_t bytes)
{
    size_t key_size = strlen(key);
    header h = {.key_size = key_size, .data_size = bytes, .checksum = hash(key, key_size, data, bytes)};
    memcpy(h.magic, magic, sizeof magic);
    return haul__write_all(file, &h, sizeof h) && haul__write_all(file, key, key_size) &&
           haul__write_all(file, data, bytes);
}

void haul__cache_store(const char *key, const void *data, size_t bytes)
{
    static atomic_uint last;
    char              *where = haul__cache_folder(), *path = where ? path_of(where, key) : NULL;
    char *beside = path ? haul__format("%s.%ld.%u", path, (long)getpid(), atomic_fetch_add(&last, 1)) : NULL;
    if (beside && !haul__fault_point(HAUL__FAULT_FILE)) {
        haul__make_folders(where, 0700);
        int file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file >= 0) {
            bool good = write_entry(file, key, data, bytes);
            good = close(file) == 0 && good;
            if (good && rename(beside, path) == 0)
                atomic_fetch_add(&stored, 1);
            else
                unlink(beside);
        }
    }
    haul__free(beside);
    haul__free(path);
    haul__free(where);
}

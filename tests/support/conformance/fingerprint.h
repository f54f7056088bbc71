/* Fingerprints: 64-bit hashes of what operations give, which prove that a change of the library left every bit alone.
 *
 * A golden file holds them for a machine type. It has a line for each name and device, with one hash for each dtype:
 *   haul_add cpu f32=0123456789abcdef f64=...
 * In between, a list has a line for each kind: the layouts, gradients, forms, and stages that were run. */
#ifndef HAUL_TESTS_FINGERPRINT_H
#define HAUL_TESTS_FINGERPRINT_H

#include <haul/haul.h>
#include <stdio.h>

/* FNV-1a (Fowler, Noll, Vo). A hash of several things begins at HASH_START and goes from one to the next. */
#define HASH_START 0xcbf29ce484222325u
uint64_t hash_bytes(uint64_t hash, const void *data, size_t size);

/* Dtype, shape and elements, row-major; every NaN counts as the same one. HAUL_NONE counts as itself. A tensor that
 * cannot be read fails the current case (conformance.h). */
uint64_t hash_tensor(uint64_t hash, haul_tensor *t);

/* Texts must live as long as the list. */
typedef struct fingerprint {
    const char *name, *device, *dtype, *kind;
    uint64_t    hash;
} fingerprint;

typedef struct fingerprint_list {
    fingerprint *lines;
    int          count, capacity;
} fingerprint_list;

void fingerprint_add(fingerprint_list *list, const char *name, const char *device, const char *dtype, const char *kind,
                     uint64_t hash);
void fingerprint_free(fingerprint_list *list);

/* "name device dtype kind hash", a line for each. */
void fingerprint_print(const fingerprint_list *list, FILE *to);

/* Fails a case for every line that two runs do not share. */
void fingerprint_compare_runs(const fingerprint_list *first, const fingerprint_list *second);

/* The file of this machine type: named by the CPU's instruction level, oneDNN, and the drivers of the other devices. */
void golden_path(char *out, size_t size);

typedef enum golden_outcome {
    GOLDEN_COMPARED, /* what differs has failed its case */
    GOLDEN_ABSENT,
    GOLDEN_FOREIGN /* another processor, compiler or C library made it, and there are differences: nothing failed */
} golden_outcome;

golden_outcome golden_compare(const char *path, const fingerprint_list *list);

/* False, with a message printed, if it cannot be written. */
bool golden_write(const char *path, const fingerprint_list *list);

#endif

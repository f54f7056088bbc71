/* The parts of libnvrtc.so.13's stand-in, for each other. */
#ifndef HAUL_TESTS_STANDIN_NVRTC_H
#define HAUL_TESTS_STANDIN_NVRTC_H

#include <stdbool.h>
#include <stddef.h>

#include "calls.h"

/* What the options of nvrtcCompileProgram come to. */
typedef struct standin_options {
    const char **definitions; /* -D..., as the compiler gets them */
    int          definition_count;
    int          capability; /* 90 for sm_90 and compute_90 */
    bool         real;       /* sm_: machine code; compute_: PTX only */
    bool         fmad;
} standin_options;

/* False for an option that NVRTC does not have; then *refused is it. Room for
 * twice as many definitions is the caller's. */
bool standin_parse_options(int count, const char *const *options, standin_options *out, const char **refused);

extern const int standin_capabilities[];
extern const int standin_capability_count;

/* nvrtc_text.c: C that can be compiled, from preprocessed kernel text: __global__ is taken out, and for each kernel a
 * function is added that takes its arguments as cuLaunchKernel does. The caller's to free; NULL when memory is out. */
char *standin_with_entries(const char *text);
/* A copy in which extern "C" says only extern. */
char *standin_without_linkage(const char *text);

/* nvrtc_cc.c: a folder of files for one compilation, removed at its end. */
typedef struct standin_folder {
    char path[256];
} standin_folder;

bool  standin_folder_make(standin_folder *folder);
void  standin_folder_remove(const standin_folder *folder);
bool  standin_folder_put(const standin_folder *folder, const char *name, const char *text);
char *standin_folder_get(const standin_folder *folder, const char *name, size_t *size);
/* Runs the compiler in the folder, its messages going to the file "log"; true if it succeeded. */
bool standin_cc(const standin_folder *folder, const char *const *arguments, int count);

#endif

/* The kernel text of all operations, for the run-time compilers of the GPU backends.
 *
 * tools/embed.c collects it at build time. A C file with kernels contributes the lines between the two marker lines
 * "kernel text begins" and "kernel text ends" (each a comment of its own, inside #if 0 if the host compiler must not
 * see the text). The headers of all kernels (constants.h, common.h, custom.h, pointwise.h, and prelude.h and
 * text/NAME.h of each backend but the CPU's) are embedded whole, with element.h, functions.h and shared.h as parts of
 * common.h. Rows of pointwise.def are texts, too. Templates are expanded. Texts are sorted by name and have #line
 * directives, so that a compiler's message names the source file.
 *
 * Headers are C strings. The others repeat themselves where templates are expanded, and are packed to a fifth by
 * tools/embed_pack.c. A packed text consists of runs and matches. A run is a byte n below 128, and n + 1 bytes of the
 * text. A match is a byte 128 + n and two bytes with a distance, the lower one first: the next n + 4 bytes of the text
 * are those at that distance before them. */
#ifndef HAUL_KERNELS_TEXT_H
#define HAUL_KERNELS_TEXT_H

#include <stddef.h>

typedef struct haul__kernel_text {
    const char          *name; /* the file's name without its ending: "gemm"; "prelude_opencl" for a backend's */
    const char          *text; /* of a header; NULL for a packed text */
    const unsigned char *packed;
    size_t               packed_size, size; /* bytes: as packed, and of the text */
} haul__kernel_text;

extern const haul__kernel_text haul__kernel_texts[]; /* ends with a row of NULLs, which is not counted */
extern const size_t            haul__kernel_text_count;

/* A packed text, which the caller must haul__free. NULL if memory is exhausted. */
char *haul__kernel_text_unpack(const haul__kernel_text *row);

#endif

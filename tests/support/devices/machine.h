/* The conditions that bits depend on: texts that distinguish types of machines. */
#ifndef HAUL_TESTS_MACHINE_H
#define HAUL_TESTS_MACHINE_H

#include <stddef.h>

/* For a file's name: the CPU's instruction level, oneDNN with its version where it is used, and the driver of each
 * other device: "x86-64-v3-avx512-onednn2.6.3-pocl-3.1". The same key does not promise the same bits. */
void machine_key(char *out, size_t size);

/* The processor, the compiler with the kind of build, and the C library, on one line. */
void machine_origin(char *out, size_t size);

#endif

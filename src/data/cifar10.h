/* The check of CIFAR-10's binary files, on bytes in memory so that tests and fuzzers can call it. */
#ifndef HAUL_DATA_CIFAR10_H
#define HAUL_DATA_CIFAR10_H

#include <haul/error.h>

/* Whole records only, at least one, and no label above the last class. `path` is for messages. */
haul_status haul__cifar10_check(const uint8_t *data, size_t size, const char *path);

#endif

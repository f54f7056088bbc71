/* The check of the binary files of CIFAR-10 and CIFAR-100, on bytes in memory so that tests and fuzzers can call it. */
#ifndef HAUL_DATA_CIFAR_H
#define HAUL_DATA_CIFAR_H

#include <haul/error.h>

typedef struct haul__cifar_set haul__cifar_set;
extern const haul__cifar_set   haul__cifar10_set, haul__cifar100_set;

/* Whole records only, at least one, and no label above the last class. `path` is for messages. */
haul_status haul__cifar_check(const haul__cifar_set *set, const uint8_t *data, size_t size, const char *path);

#endif

/* The tensors that a side computed, as records in a pipe. Both ends are processes of one machine. */
#ifndef CLI_COMPARE_STREAM_H
#define CLI_COMPARE_STREAM_H

#include <haul/haul.h>
#include <stdbool.h>

/* A result of an operation, or an operand that it wrote in place. */
typedef struct side_record {
    char       name[64], module[80];
    bool       is_end;    /* the side has made its step; nothing else is set */
    int64_t    operation; /* its number */
    int        depth;     /* operations that it is a part of */
    haul_dtype dtype;
    haul_shape shape;
    int64_t    bytes;
} side_record;

/* Data compared between processes of different builds begin with this. */
typedef struct side_hello {
    char     mark[16];
    uint64_t record_size;
} side_hello;

bool stream_write(int fd, const void *data, size_t bytes);

/* False at the end, and if the other process has ended. */
bool stream_read(int fd, void *data, size_t bytes);

side_hello stream_hello(void);

#endif

/* The tensors that a side computed, as records in a pipe. Both ends are processes of one machine. */
#ifndef CLI_COMPARE_RECORD_H
#define CLI_COMPARE_RECORD_H

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
    double     scale; /* the 2-norm of the values whose rounding the result has, if they are not its own; else 0 */
} side_record;

/* Comes before the records, since the sides may be of different builds. */
typedef struct side_hello {
    char     mark[16];
    uint64_t record_size;
} side_hello;

static inline side_hello side_hello_now(void)
{
    return (side_hello){.mark = "haul compare 2", .record_size = sizeof(side_record)};
}

#endif

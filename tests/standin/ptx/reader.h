/* The state of a reader of a module. */
#ifndef HAUL_TESTS_STANDIN_PTX_READER_H
#define HAUL_TESTS_STANDIN_PTX_READER_H

#include "ptx.h"

enum { MAX_NAME = 128 };

typedef enum name_kind { REGISTER, REGISTERS, VARIABLE } name_kind;

typedef struct name {
    char      text[MAX_NAME]; /* of REGISTERS: without the number */
    name_kind kind;
    int       slot, count;
    uint64_t  address;
    int       size;
} name;

typedef struct label {
    char text[MAX_NAME];
    int  place;
} label;

/* Names of an inner scope are the last; `module` comes first, so that functions
 * which are handed it find the rest. */
typedef struct reader {
    ptx_module  module;
    const char *at;
    name       *names;
    label      *labels;
    int         name_count, label_count;
} reader;

/* Room for one more in a list: twice as much where its length is a power of two. NULL with module->error. */
void *ptx_grown(ptx_module *module, void *list, int count, size_t size);
name *ptx_add_name(reader *reader, name_kind kind, const char *text, size_t length);

#endif

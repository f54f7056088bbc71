/* An interpreter of PTX, NVIDIA's virtual instruction set: it reads modules and runs their kernels. The rules are those
 * of "Parallel Thread Execution ISA", version 9.0.
 *
 * The 32 lanes of a warp take an instruction together. A register is an array of 32 values, one for each lane. It is a
 * slot of the warp's file, and so are constants and special registers. Each function has slots and memory of its own,
 * so functions cannot be recursive. Each lane has a place in the code. If lanes are at different places, those at the
 * lowest place run until they reach the others. Lanes that wait for others (shfl.sync, bar.sync) do not run.
 *
 * These are faults: an access outside of an allocation, of the wrong alignment or of another device's memory; a race; a
 * read of shared memory that no thread has written; lanes that wait in different places; a division by zero. A fault is
 * described on stderr, and ends the launch with an error. */
#ifndef HAUL_TESTS_STANDIN_PTX_H
#define HAUL_TESTS_STANDIN_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"

enum { PTX_LANES = 32, PTX_MAX_WARPS = STANDIN_MAX_THREADS / PTX_LANES, PTX_MAX_INPUTS = 6, PTX_MAX_OUTPUTS = 4 };

/* ---- code ---- */

struct ptx_warp;
struct ptx_op;

/* What an instruction does in the lanes of the mask. A fault is left in the launch. */
typedef void ptx_run(struct ptx_warp *warp, const struct ptx_op *op, uint32_t mask);

typedef enum ptx_kind {
    PTX_PLAIN,
    PTX_BRANCH,
    PTX_CALL,
    PTX_RETURN,
    PTX_EXIT,
    PTX_BARRIER, /* of all threads of the block */
    PTX_TOGETHER /* of the lanes in a mask, the last input */
} ptx_kind;

typedef enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_LOCAL, PTX_PARAM } ptx_space;
typedef enum ptx_access { PTX_LOAD, PTX_STORE, PTX_ATOMIC } ptx_access;

typedef struct ptx_op {
    ptx_run    *run;
    const char *text;                                     /* in the module's text, up to the semicolon */
    int         in[PTX_MAX_INPUTS], out[PTX_MAX_OUTPUTS]; /* slots; PTX_UNUSED: none */
    int         guard;                                    /* the slot of a predicate, or -1 */
    bool        guard_negated, negated;                   /* `negated`: the predicate that setp combines with */
    uint8_t     kind, space, combine, mode, count, size;
    bool        is_signed;
    int         target; /* of a branch or a call: an op's number */
    int64_t     offset; /* added to an address; by mov, to its input */
} ptx_op;

enum { PTX_MAX_ARGUMENTS = 8, PTX_MAX_PARAMETERS = 32 };

/* A function that kernels call. Its parameters have places in the lanes' memory for calls. */
typedef struct ptx_function {
    char name[128];
    int  code;    /* its first op; -1 before it is defined */
    int  returns; /* the slot that has where to go on */
    int  argument_count, argument[PTX_MAX_ARGUMENTS], argument_size[PTX_MAX_ARGUMENTS];
    int  result, result_size; /* 0: it returns nothing */
} ptx_function;

/* A kernel: where it begins, and its parameters' places in those of a launch. */
typedef struct ptx_entry {
    char     name[128];
    int      code;
    int      count;
    unsigned size[PTX_MAX_PARAMETERS], offset[PTX_MAX_PARAMETERS], bytes;
} ptx_entry;

typedef struct ptx_module {
    char                  *text;
    ptx_op                *ops;
    ptx_function          *functions;
    ptx_entry             *entries;
    struct standin_kernel *kernels;   /* for each entry; a NULL name ends them */
    uint64_t              *constants; /* pairs of a slot and its value */
    int                    op_count, function_count, entry_count, constant_count;
    int                    slots;                                 /* in all */
    unsigned               shared_bytes, local_bytes, call_bytes; /* of a block; of a thread */
    char                  *globals;                               /* its variables */
    unsigned               global_bytes;
    char                   error[256];
} ptx_module;

/* Returns NULL if the text is not a module or has an instruction that the interpreter lacks; why[256] says which. */
ptx_module *ptx_module_new(const char *text, size_t size, char *why);
void        ptx_module_free(ptx_module *module);

/* ---- reading ---- */

/* Adds the op of a statement, and overwrites the statement; `text` is its place in the module. False with
 * module->error. */
bool ptx_add_instruction(ptx_module *module, char *statement, const char *text);

/* The slot of a register, special register, number or address of a variable; -1 if there is none of that name. */
int ptx_slot(ptx_module *module, const char *operand);
int ptx_new_slot(ptx_module *module);
/* The address of a variable in its space; its size in bytes, or -1 if there is none. */
int     ptx_address(const ptx_module *module, const char *name, uint64_t *address);
int     ptx_find_function(const ptx_module *module, const char *name); /* -1 if there is none */
int     ptx_label(ptx_module *module, const char *name);  /* its number, which ops have before its place is known */
ptx_op *ptx_new_op(ptx_module *module, const char *text); /* NULL with module->error */
bool    ptx_refuse(ptx_module *module, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- what instructions do ---- */

/* The instructions that only compute, by their full names; NULL for one that is not known. */
typedef struct ptx_row {
    const char *name;
    ptx_run    *run;
} ptx_row;
extern const ptx_row ptx_integer_rows[], ptx_floating_rows[], ptx_convert_rows[]; /* end with a NULL name */
ptx_run              ptx_load, ptx_store, ptx_swap, ptx_move, ptx_pack, ptx_unpack, ptx_shuffle, ptx_nothing;
ptx_run              ptx_pass_arguments, ptx_take_result;

/* ---- running ---- */

/* The first slots of every module. */
enum { PTX_TID = 0, PTX_NTID = 3, PTX_CTAID = 6, PTX_NCTAID = 9, PTX_LANE = 12, PTX_UNUSED = 13, PTX_SPECIALS = 14 };

/* Generic addresses of memory outside of devices. Those of parameters stand apart too: kernels compute with them.
 */
#define PTX_SHARED_WINDOW 0x7A00000000000000ull
#define PTX_LOCAL_WINDOW  0x7B00000000000000ull
#define PTX_GLOBAL_WINDOW 0x7C00000000000000ull
#define PTX_CALL_WINDOW   0x7D00000000000000ull
#define PTX_PARAM_WINDOW  0x7E00000000000000ull
#define PTX_WINDOW_MASK   0xFF00000000000000ull

typedef struct ptx_block ptx_block;

typedef struct ptx_warp {
    ptx_block *block;
    unsigned   number;
    uint32_t   live, at_barrier, waiting; /* lanes that have not returned; that wait for the block, for lanes */
    int        place[PTX_LANES];
    uint64_t (*slot)[PTX_LANES];
    uint8_t  carry[PTX_LANES];
    unsigned epoch;         /* counts what orders the accesses of its lanes */
    char    *local, *calls; /* lane by lane */
} ptx_warp;

struct ptx_block {
    const ptx_module         *module;
    const standin_launch     *launch;
    struct standin_dim        at;
    unsigned                  threads, warps;
    unsigned                  first_phase; /* of the block; see shadow.h */
    unsigned                  launch_phase, phase;
    char                     *parameters;
    unsigned                  parameter_bytes;
    char                     *shared;
    struct ptx_shadow        *shared_shadow; /* for each of its bytes */
    const standin_allocation *last;          /* in which something was found */
    CUcontext                 context;
    CUresult                  fault;
    ptx_warp                  warp[PTX_MAX_WARPS];
};

/* Describes a fault in a lane, on stderr, unless there was one before. */
void ptx_fault(ptx_warp *warp, const ptx_op *op, unsigned lane, CUresult code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* As standin_run, for a kernel of launch->ptx in that context. */
CUresult ptx_launch(const standin_launch *launch, CUcontext context);

#endif

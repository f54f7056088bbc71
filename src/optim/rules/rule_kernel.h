/* Part of the kernel text of the optimizers in this folder: the arguments of all their kernels. */

/* The most numbers that the steps of a rule share. */
enum { RULE_SCALARS = 12 };

// clang-format off
/* Scalars are bits of type A, in the order of the rule's enum. first: the states begin with this step; the guarded forms
 * read it from `made`, the number of steps. */
typedef struct rule_params {
    I64 items;
    I64 p_at, s_at[3], g_at; /* the offsets of the parameter, its states and its gradient */
    I64 found_at, made_at;   /* of the guarded forms */
    U64 scalars[RULE_SCALARS];
    I32 from, first;
} rule_params;
// clang-format on

/* Host memory for the time of one command: packed factors, padded planes, partial sums.
 *
 * It comes from malloc, or from the thread's workspace while a followed step computes. The workspace learns how much
 * is needed at one time, so that its owner can make it large enough for the next step. */
#ifndef HAUL_BASE_WORKSPACE_H
#define HAUL_BASE_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>

/* All zero is a workspace without memory and users. */
typedef struct haul__workspace {
    void  *block;
    char  *memory; /* of the block, at a multiple of 64 */
    size_t room;   /* its bytes */
    size_t used;   /* bytes that users have, or had before the last user left */
    size_t most;   /* the most bytes that were used at one time, also without room for them */
    int    users;
} haul__workspace;

/* The thread's workspace from now on; NULL: none. Returns the one before. */
haul__workspace *haul__workspace_set(haul__workspace *workspace);

/* Memory at a multiple of 64 in a workspace, and as malloc aligns it without one. NULL if there is none. The thread
 * that allocated it frees it, while it has the same workspace. */
void *haul__work_alloc(size_t bytes);
void  haul__work_free(void *p); /* NULL is ignored */

/* Makes room for the most that users needed at one time, while it has none. The memory before is freed. Returns false
 * if memory is exhausted; then there is no room. */
bool haul__workspace_grow(haul__workspace *workspace);
void haul__workspace_free(haul__workspace *workspace);

#endif

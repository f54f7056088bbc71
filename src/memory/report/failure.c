/* Snapshots at the moment of a failure. The last one is kept under the number of its report (memory/report/report.h).
 */
#include "memory/report/failure.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/system/fork.h"
#include "memory/report/report.h"
#include "memory/report/snapshot.h"

enum { ORIGINS = 256 };

typedef struct failure {
    uint64_t           number; /* of its report; 0: nothing has failed yet */
    haul__snapshot     snapshot;
    haul_memory_block  blocks[HAUL_MEMORY_REPORT_BLOCKS];
    haul_memory_origin origins[HAUL__SNAPSHOT_SUMS][ORIGINS];
} failure;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static failure        *kept; /* NULL: failures are not kept */

HAUL__MUTEX_AT_FORK(HAUL__FORK_FAILURES, lock);

/* ---- taking ---- */

static failure *failure_new(void)
{
    failure *f = haul__calloc(1, sizeof *f);
    if (f)
        f->snapshot = (haul__snapshot){.blocks = f->blocks,
                                       .origins = {f->origins[0], f->origins[1], f->origins[2]},
                                       .block_room = HAUL_MEMORY_REPORT_BLOCKS,
                                       .origin_room = ORIGINS};
    return f;
}

haul_status haul__failure_begin(const char *operation)
{
    pthread_mutex_lock(&lock);
    kept = kept ? kept : failure_new();
    const bool works = kept != NULL;
    pthread_mutex_unlock(&lock);
    return works ? HAUL_OK : haul__fail_memory(operation, sizeof *kept);
}

void haul__failure_end(void)
{
    pthread_mutex_lock(&lock);
    failure *last = kept;
    kept = NULL;
    pthread_mutex_unlock(&lock);
    haul__free(last);
}

void haul__failure_take(struct haul__allocator *a)
{
    const uint64_t number = haul__error_report();
    if (!number || a->pinned)
        return;
    pthread_mutex_lock(&lock);
    if (kept) {
        haul__snapshot_take(a, &kept->snapshot);
        kept->number = number;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- reading ---- */

/* The failure that the thread's error is about, with the lock. Without it NULL, for which a reason is recorded. */
static const failure *open_failure(const void *out, bool has_room, const char *operation)
{
    const uint64_t number = haul__error_report();
    if (!out && has_room) {
        haul__fail_null(operation, "out");
        return NULL;
    }
    pthread_mutex_lock(&lock);
    if (number && kept && kept->number == number)
        return kept;
    pthread_mutex_unlock(&lock);
    haul__report_lacks(operation, "no snapshot of a failed allocation is kept for this thread's error; is "
                                  "haul_memory_record on, and has nothing failed since?");
    return NULL;
}

int haul_memory_report_snapshot(haul_memory_block *out, int capacity)
{
    const failure *f = open_failure(out, capacity > 0, "haul_memory_report_snapshot");
    if (!f)
        return -1;
    const int count = f->snapshot.count, rows = haul__snapshot_rows(&f->snapshot);
    for (int i = 0; i < rows && i < capacity; i++)
        out[i] = f->blocks[i];
    pthread_mutex_unlock(&lock);
    return count;
}

int64_t haul_memory_report_snapshot_json(char *out, size_t size)
{
    const failure  *f = open_failure(out, size > 0, "haul_memory_report_snapshot_json");
    haul__json_text t = {.out = out, .size = size};
    if (!f)
        return -1;
    haul__json_begin(&t, NULL, '{');
    haul__snapshot_json(&t, &f->snapshot);
    haul__json_integer(&t, "left_out", f->snapshot.count - haul__snapshot_rows(&f->snapshot));
    haul__json_end(&t, '}');
    pthread_mutex_unlock(&lock);
    return haul__json_finish(&t);
}

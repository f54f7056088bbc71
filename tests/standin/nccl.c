/* A stand-in for NCCL, as far as the backend uses it: sends and receives in groups, between processes of one machine. A
 * message is a file in a folder of the communicator, which $TMPDIR has. It is strict where the real one may be lucky:
 * messages are in a group, their addresses are inside allocations of the stream's device, both sides agree about their
 * bytes, and each rank has a GPU of its own.
 *
 *   STANDIN_NCCL_BREAK=rank:n   the n-th exchange of that rank fails while it runs: an asynchronous error, there and,
 *                               because the rank then gives up, on the others */
#include "calls.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"

CUresult cuCtxGetCurrent(CUcontext *out);

enum { MOST_RANKS = 64, MOST_OPS = 4096, NAP_US = 200, PATH_SIZE = 320, VERSION = 23203 };

struct ncclComm {
    char         folder[sizeof(ncclUniqueId)];
    int          rank, size, device;
    int          processes[MOST_RANKS];
    long         sent[MOST_RANKS], got[MOST_RANKS]; /* messages so far */
    long         exchanges;
    ncclResult_t error; /* asynchronous */
    bool         gone;

    struct ncclComm *next;
};

/* Every communicator, also those that have gone. */
static _Atomic(struct ncclComm *) all;

typedef struct op {
    bool   sends;
    void  *at; /* on the host */
    size_t bytes;
    int    peer;
} op;

typedef struct exchange {
    ncclComm_t comm;
    int        count;
    op         ops[];
} exchange;

/* The group of a thread. */
static _Thread_local struct {
    bool         open;
    cudaStream_t stream;
    exchange    *ops;
    ncclResult_t code;
} group;

static char last_error[300];

static ncclResult_t fail(ncclResult_t code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return code;
}

/* ---- files ---- */

static void path_of(const struct ncclComm *c, const char *name, char out[PATH_SIZE])
{
    snprintf(out, PATH_SIZE, "%s/%s", c->folder, name);
}

/* It is there with all its bytes, or not at all. */
static bool put(const struct ncclComm *c, const char *name, const void *data, size_t bytes)
{
    char path[PATH_SIZE], part[PATH_SIZE + 8];
    path_of(c, name, path);
    snprintf(part, sizeof part, "%s.part", path);
    FILE *f = fopen(part, "wb");
    bool  good = f && fwrite(data, 1, bytes, f) == bytes;
    if (f && fclose(f) != 0)
        good = false;
    return good && rename(part, path) == 0;
}

/* The bytes of a file; -1: there is none. */
static long take(const struct ncclComm *c, const char *name, void *data, size_t bytes, bool keep)
{
    char  path[PATH_SIZE];
    FILE *f;
    long  got;
    path_of(c, name, path);
    f = fopen(path, "rb");
    if (!f)
        return -1;
    got = (long)fread(data, 1, bytes, f);
    if (fgetc(f) != EOF)
        got++; /* more than was asked for */
    fclose(f);
    if (!keep)
        unlink(path);
    return got;
}

static bool exists(const struct ncclComm *c, const char *name)
{
    char path[PATH_SIZE];
    path_of(c, name, path);
    return access(path, F_OK) == 0;
}

/* ---- exchanges ---- */

static void name_message(int from, int to, long number, char out[64])
{
    snprintf(out, 64, "%d-%d-%ld", from, to, number);
}

/* The other rank does not send any more. */
static bool is_lost(const struct ncclComm *c, int peer)
{
    return exists(c, "aborted") || (kill(c->processes[peer], 0) != 0 && errno == ESRCH);
}

static void break_off(struct ncclComm *c, ncclResult_t code, const char *what)
{
    if (c->error == ncclSuccess) {
        c->error = code;
        fail(code, "%s", what);
    }
    put(c, "aborted", "", 0);
}

static bool send_one(struct ncclComm *c, const op *o)
{
    char name[64];
    name_message(c->rank, o->peer, c->sent[o->peer]++, name);
    if (put(c, name, o->at, o->bytes))
        return true;
    break_off(c, ncclSystemError, "a message cannot be written");
    return false;
}

static bool receive_one(struct ncclComm *c, const op *o)
{
    char name[64];
    name_message(o->peer, c->rank, c->got[o->peer]++, name);
    for (;;) {
        const bool lost = is_lost(c, o->peer);
        const long got = take(c, name, o->at, o->bytes, false);
        if (got == (long)o->bytes)
            return true;
        if (got >= 0) {
            fprintf(stderr, "standin: rank %d expects %zu bytes of rank %d, which sends others\n", c->rank, o->bytes,
                    o->peer);
            break_off(c, ncclInvalidUsage, "a message has another size than its receiver expects");
            return false;
        }
        if (lost) {
            break_off(c, ncclRemoteError, "NET/Socket : the connection was closed by the other rank");
            return false;
        }
        usleep(NAP_US);
    }
}

static bool is_to_break(const struct ncclComm *c)
{
    const char *plan = getenv("STANDIN_NCCL_BREAK");
    int         rank;
    long        n;
    return plan && sscanf(plan, "%d:%ld", &rank, &n) == 2 && rank == c->rank && n == c->exchanges;
}

/* In its turn on the stream. A failure ends the exchange, not the context. */
static int run(void *data)
{
    exchange *e = data;
    bool      good = e->comm->error == ncclSuccess && !e->comm->gone;
    e->comm->exchanges++;
    if (good && is_to_break(e->comm)) {
        break_off(e->comm, ncclSystemError, "IB : Got completion with status 12 (transport retry counter exceeded)");
        good = false;
    }
    for (int i = 0; i < e->count && good; i++)
        good = !e->ops[i].sends || send_one(e->comm, &e->ops[i]);
    for (int i = 0; i < e->count && good; i++)
        good = e->ops[i].sends || receive_one(e->comm, &e->ops[i]);
    return CUDA_SUCCESS;
}

/* ---- the library ---- */

ncclResult_t ncclGetVersion(int *out)
{
    ncclResult_t code = standin_call(CALL_ncclGetVersion);
    if (code == ncclSuccess)
        *out = VERSION;
    return code;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *out)
{
    static int   made;
    const char  *folder = getenv("TMPDIR");
    ncclResult_t code = standin_call(CALL_ncclGetUniqueId);
    if (code != ncclSuccess)
        return fail(code, "Bootstrap : no socket interface found");
    memset(out, 0, sizeof *out);
    if (snprintf(out->internal, sizeof out->internal, "%s/standin-nccl-%d-%d", folder ? folder : "/tmp", (int)getpid(),
                 made++) >= (int)sizeof out->internal ||
        mkdir(out->internal, 0700) != 0)
        return fail(ncclSystemError, "the folder %s cannot be made", out->internal);
    return ncclSuccess;
}

typedef struct seat {
    int process, device;
} seat;

/* Waits for the seats of all ranks. */
static ncclResult_t meet(struct ncclComm *c, seat *seats)
{
    char name[64];
    snprintf(name, sizeof name, "rank-%d", c->rank);
    if (exists(c, name))
        return fail(ncclInvalidUsage, "there are two ranks %d", c->rank);
    if (!put(c, name, &(seat){(int)getpid(), c->device}, sizeof *seats))
        return fail(ncclSystemError, "the folder %s cannot be written", c->folder);
    for (int r = 0; r < c->size; r++) {
        snprintf(name, sizeof name, "rank-%d", r);
        while (take(c, name, &seats[r], sizeof *seats, true) != (long)sizeof *seats) {
            if (exists(c, "aborted"))
                return fail(ncclRemoteError, "Bootstrap : another rank has failed");
            usleep(NAP_US);
        }
        c->processes[r] = seats[r].process;
    }
    for (int r = 0; r < c->size; r++)
        for (int k = 0; k < r; k++)
            if (seats[r].device == seats[k].device)
                return fail(ncclInvalidUsage, "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d", k,
                            r, seats[r].device);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *out, int size, ncclUniqueId id, int rank)
{
    ncclResult_t     code = standin_call(CALL_ncclCommInitRank);
    CUcontext        context = NULL;
    seat             seats[MOST_RANKS];
    struct ncclComm *c;
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return fail(ncclUnhandledCudaError, "there is no current context");
    if (size < 1 || size > MOST_RANKS || rank < 0 || rank >= size)
        return fail(ncclInvalidArgument, "Invalid rank requested : %d/%d", rank, size);
    c = calloc(1, sizeof *c);
    if (!c)
        return ncclSystemError;
    memcpy(c->folder, id.internal, sizeof c->folder);
    c->rank = rank;
    c->size = size;
    c->device = context->device;
    if (code != ncclSuccess) {
        put(c, "aborted", "", 0);
        fail(code, "Bootstrap : no socket interface found");
    } else {
        code = meet(c, seats);
    }
    if (code != ncclSuccess) {
        free(c);
        return code;
    }
    c->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &c->next, c))
        continue;
    *out = c;
    return code;
}

/* Work that is under way looks at it, so it stays in the list. */
ncclResult_t ncclCommAbort(ncclComm_t c)
{
    ncclResult_t code = standin_call(CALL_ncclCommAbort);
    if (!c || c->gone)
        return fail(ncclInvalidArgument, "there is no communicator");
    put(c, "aborted", "", 0);
    c->gone = true;
    return code;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *out)
{
    ncclResult_t code = standin_call(CALL_ncclCommGetAsyncError);
    if (!c || c->gone)
        return fail(ncclInvalidArgument, "there is no communicator");
    *out = c->error;
    return code;
}

ncclResult_t ncclGroupStart(void)
{
    ncclResult_t code = standin_call(CALL_ncclGroupStart);
    if (code != ncclSuccess)
        return fail(code, "the group cannot begin");
    if (group.open)
        return fail(ncclInvalidUsage, "groups are not nested here");
    if (!group.ops)
        group.ops = malloc(sizeof *group.ops + MOST_OPS * sizeof *group.ops->ops);
    if (!group.ops)
        return ncclSystemError;
    *group.ops = (exchange){.comm = NULL, .count = 0};
    group.open = true;
    group.stream = NULL;
    group.code = ncclSuccess;
    return ncclSuccess;
}

static ncclResult_t add(const void *address, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                        cudaStream_t stream, bool sends)
{
    void *at;
    if (!group.open)
        return fail(ncclInvalidUsage, "messages are sent in groups, or their ranks wait for each other");
    if (!c || c->gone || (group.ops->comm && group.ops->comm != c) || (group.stream && group.stream != stream))
        return fail(ncclInvalidArgument, "a group is of one communicator and one stream");
    if (type != ncclUint8 || peer < 0 || peer >= c->size || peer == c->rank || group.ops->count == MOST_OPS)
        return fail(ncclInvalidArgument, "there is no rank %d, or the type %d is not that of bytes", peer, (int)type);
    at = standin_place(stream, (unsigned long long)(uintptr_t)address, count);
    if (!at)
        return fail(ncclInvalidArgument, "a message of %zu bytes is not in memory of the stream's device", count);
    group.ops->comm = c;
    group.stream = stream;
    group.ops->ops[group.ops->count++] = (op){sends, at, count, peer};
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream)
{
    ncclResult_t code = standin_call(CALL_ncclSend);
    code = code ? fail(code, "the message cannot be sent") : add(from, count, type, peer, c, stream, true);
    group.code = code ? code : group.code;
    return code;
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream)
{
    ncclResult_t code = standin_call(CALL_ncclRecv);
    code = code ? fail(code, "the message cannot be received") : add(to, count, type, peer, c, stream, false);
    group.code = code ? code : group.code;
    return code;
}

/* A group with a message that was refused is not submitted. */
ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t code = standin_call(CALL_ncclGroupEnd);
    void        *places[STANDIN_MAX_PLACES];
    int          count = 0;
    if (!group.open)
        return fail(ncclInvalidUsage, "no group has begun");
    group.open = false;
    if (code != ncclSuccess)
        return fail(code, "NET/Socket : connection refused");
    if (group.code != ncclSuccess || group.ops->count == 0)
        return group.code;
    for (int i = 0; i < group.ops->count && count < STANDIN_MAX_PLACES; i++)
        places[count++] = group.ops->ops[i].at;
    return standin_submit(group.stream, run, group.ops,
                          sizeof *group.ops + (size_t)group.ops->count * sizeof *group.ops->ops, places, count)
               ? fail(ncclUnhandledCudaError, "the stream takes no work")
               : ncclSuccess;
}

STANDIN_EXPORT const char *ncclGetErrorString(ncclResult_t code);
STANDIN_EXPORT const char *ncclGetLastError(ncclComm_t c);

const char *ncclGetErrorString(ncclResult_t code)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                                        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                                        "internal error - please report this issue to the NCCL developers",
                                        "invalid argument (run with NCCL_DEBUG=WARN for details)",
                                        "invalid usage (run with NCCL_DEBUG=WARN for details)",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return code >= 0 && code < (int)(sizeof texts / sizeof *texts) ? texts[code] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t c)
{
    (void)c;
    return last_error;
}

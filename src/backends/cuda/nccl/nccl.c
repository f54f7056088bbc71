/* NCCL: data of ranks goes from GPU to GPU. Only its sends and receives are used, in groups. */
#include "backends/cuda/nccl/api.h"

#include <stdio.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "backends/ranks.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

_Static_assert(sizeof(ncclUniqueId) == HAUL__RANKS_ID, "an identifier is NCCL's");

static haul__nccl_functions nccl;
static int                  version;

/* Its text says why NCCL cannot be used. */
static haul__cuda_library library = {.once = PTHREAD_ONCE_INIT};

/* NCCL 2.14: Haul uses no older version. */
enum { LEAST_VERSION = 21400 };

#define FILE_NAME "libnccl.so.2"
#define FIX       "install NVIDIA's package libnccl2, or nvidia-nccl-cu13 of PyPI, and put its folder in LD_LIBRARY_PATH"

#define X(name, symbol, arguments) HAUL__CUDA_SYMBOL(nccl, name, symbol)
static const haul__cuda_symbol functions[] = {
#include "backends/cuda/nccl/nccl.def"
    X(GetErrorString, ncclGetErrorString, (ncclResult_t)) X(GetLastError, ncclGetLastError, (ncclComm_t))};
#undef X

static void load(void)
{
    const char *missing;
    void       *opened;
    if (haul__cuda_names("HAUL_CUDA_WITHOUT", "nccl")) {
        snprintf(library.text, sizeof library.text, "HAUL_CUDA_WITHOUT names nccl");
        return;
    }
    opened = haul__cuda_open_library((const char *const[]){FILE_NAME, NULL});
    if (!opened) {
        snprintf(library.text, sizeof library.text, "no NCCL (" FILE_NAME " was not found); " FIX);
        return;
    }
    missing = HAUL__CUDA_FIND(opened, functions);
    if (missing) {
        snprintf(library.text, sizeof library.text, "the " FILE_NAME " that was found has no %s; " FIX, missing);
        return;
    }
    const ncclResult_t code = nccl.GetVersion(&version);
    if (code != ncclSuccess) {
        snprintf(library.text, sizeof library.text, "ncclGetVersion failed (code %d); " FIX, (int)code);
        return;
    }
    if (version < LEAST_VERSION) {
        snprintf(library.text, sizeof library.text, "NCCL %d.%d is too old; 2.14 is needed; " FIX, version / 10000,
                 version / 100 % 100);
        return;
    }
    library.usable = true;
}

static bool usable(char *why, size_t size)
{
    return haul__cuda_load(&library, load, why, size);
}

static void write_version(char *out, size_t size)
{
    snprintf(out, size, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

static void place(const haul_device *device, char out[HAUL__RANKS_PLACE])
{
    snprintf(out, HAUL__RANKS_PLACE, "%s", haul__cuda_of(device)->bus);
}

/* The library keeps the text of the last error of each communicator. */
static haul_status check_call(const char *where, ncclComm_t comm, const char *call, ncclResult_t code)
{
    const char *name, *last;
    if (code == ncclSuccess || code == ncclInProgress)
        return HAUL_OK;
    name = nccl.GetErrorString(code);
    last = nccl.GetLastError(comm);
    return haul__fail(HAUL_BACKEND, where, NULL, "%s failed: %s (code %d)%s%.300s", call,
                      name ? name : "an unknown error", (int)code, last && *last ? ": " : "", last ? last : "");
}

static haul_status make_id(char id[HAUL__RANKS_ID])
{
    ncclUniqueId made;
    haul_status  status = check_call("nccl", NULL, "ncclGetUniqueId", nccl.GetUniqueId(&made));
    if (!status)
        memcpy(id, &made, sizeof made);
    return status;
}

typedef struct connection {
    ncclComm_t comm;
    CUevent    last; /* the end of the exchange that was submitted last */
} connection;

static haul_status connect_in_context(const haul_device *device, connection *c, const ncclUniqueId *id, int rank,
                                      int size)
{
    const CUresult code = haul__cu.EventCreate(&c->last, CU_EVENT_DISABLE_TIMING);
    if (code != CUDA_SUCCESS)
        return haul__fail(HAUL_BACKEND, device->name, NULL, "cuEventCreate failed: %s", haul__cuda_error_name(code));
    return check_call(device->name, NULL, "ncclCommInitRank", nccl.CommInitRank(&c->comm, size, *id, rank));
}

static void disconnect_in_context(connection *c)
{
    if (c->comm)
        nccl.CommAbort(c->comm);
    if (c->last)
        haul__cu.EventDestroy(c->last);
}

static void disconnect(haul_device *device, void *connected)
{
    haul__cuda_scope scope;
    if (haul__cuda_enter(haul__cuda_of(device), &scope) == CUDA_SUCCESS) {
        disconnect_in_context(connected);
        haul__cuda_leave(&scope);
    }
    haul__free(connected);
}

/* NCCL takes the GPU of the current context. */
static haul_status connect_ranks(haul_device *device, const char id[HAUL__RANKS_ID], int rank, int size,
                                 void **connected)
{
    ncclUniqueId     known;
    haul__cuda_scope scope;
    HAUL__ASSERT(0 <= rank && rank < size);
    connection *c = haul__calloc(1, sizeof *c);
    if (!c)
        return haul__fail_memory(device->name, sizeof *c);
    memcpy(&known, id, sizeof known);
    const CUresult entered = haul__cuda_enter(haul__cuda_of(device), &scope);
    haul_status    status = haul__cuda_check(device, "cuCtxSetCurrent", entered);
    if (!status) {
        status = connect_in_context(device, c, &known, rank, size);
        if (status)
            disconnect_in_context(c);
        haul__cuda_leave(&scope);
    }
    if (status)
        haul__free(c);
    else
        *connected = c;
    return status;
}

static ncclResult_t submit(const haul__rank_message *m, ncclComm_t comm, cudaStream_t stream)
{
    HAUL__ASSERT(m->at.offset <= m->at.storage->bytes && m->bytes <= m->at.storage->bytes - m->at.offset);
    const CUdeviceptr at = haul__cuda_address(&m->at.storage->buffer) + m->at.offset;
    void             *address;
    memcpy(&address, &at, sizeof address);
    return m->sends ? nccl.Send(address, m->bytes, ncclUint8, m->rank, comm, stream)
                    : nccl.Recv(address, m->bytes, ncclUint8, m->rank, comm, stream);
}

/* A group that has begun is ended in any case. */
static haul_status exchange_in_context(const haul__stream *s, const connection *c, const haul__rank_message *messages,
                                       int count)
{
    HAUL__ASSERT(c->comm && c->last);
    const char  *call = "ncclGroupStart", *where = s->device->name;
    ncclResult_t code = nccl.GroupStart(), ended;
    if (code != ncclSuccess)
        return check_call(where, c->comm, call, code);
    for (int i = 0; i < count && code == ncclSuccess; i++) {
        call = messages[i].sends ? "ncclSend" : "ncclRecv";
        code = submit(&messages[i], c->comm, haul__cuda_stream(s));
    }
    haul_status status = check_call(where, c->comm, call, code);
    ended = nccl.GroupEnd();
    if (!status)
        status = check_call(where, c->comm, "ncclGroupEnd", ended);
    return status ? status
                  : haul__cuda_check(s->device, "cuEventRecord", haul__cu.EventRecord(c->last, haul__cuda_stream(s)));
}

static haul_status exchange(haul__stream *s, void *connected, const haul__rank_message *messages, int count)
{
    haul__cuda_scope scope;
    haul_status      status =
        haul__cuda_check(s->device, "cuCtxSetCurrent", haul__cuda_enter(haul__cuda_of(s->device), &scope));
    if (status)
        return status;
    status = exchange_in_context(s, connected, messages, count);
    haul__cuda_leave(&scope);
    return status;
}

/* A fault of the GPU is one of the exchange, too. */
static haul_status check_in_context(haul_device *device, const connection *c)
{
    HAUL__ASSERT(c->comm && c->last);
    ncclResult_t       error = ncclSuccess;
    const ncclResult_t code = nccl.CommGetAsyncError(c->comm, &error);
    haul_status        status = check_call(device->name, c->comm, "ncclCommGetAsyncError", code);
    if (!status)
        status = check_call(device->name, c->comm, "an exchange of NCCL", error);
    if (status)
        return status;
    const CUresult reached = haul__cu.EventQuery(c->last);
    return reached == CUDA_ERROR_NOT_READY ? HAUL_OK : haul__cuda_check(device, "cuEventQuery", reached);
}

static haul_status check(haul_device *device, void *connected)
{
    haul__cuda_scope scope;
    haul_status status = haul__cuda_check(device, "cuCtxSetCurrent", haul__cuda_enter(haul__cuda_of(device), &scope));
    if (status)
        return status;
    status = check_in_context(device, connected);
    haul__cuda_leave(&scope);
    return status;
}

const haul__rank_library haul__cuda_ranks = {
    .name = "nccl",
    .file = FILE_NAME,
    .usable = usable,
    .version = write_version,
    .place = place,
    .make_id = make_id,
    .connect = connect_ranks,
    .disconnect = disconnect,
    .exchange = exchange,
    .check = check,
};

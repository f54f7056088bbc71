/* Groups of processes that an MPI library connects. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/plain.h"
#include "group/kind.h"
#include "group/launcher.h"
#include "group/mpi/open.h"

typedef struct mpi_engine mpi_engine;
struct mpi_engine {
    haul__engine base;
    intptr_t     comm;
    mpi_engine  *next; /* of all engines, which live until the library is finished */
};

static haul__mpi   library; /* a process can start MPI only once */
static mpi_engine *engines;
static bool        started_here;
static char        text[HAUL__MPI_TEXT]; /* for the group thread */

static const char operation[] = "haul_group_get";

static haul_status failed(const char *function, int code)
{
    if (library.calls->error(&library, code, text))
        haul__snprintf(text, sizeof text, "no text for the code");
    return haul__fail(HAUL_BACKEND, operation, NULL, "%s of %s failed with code %d: %.250s", function, library.path,
                      code, text);
}

/* ---- opening ---- */

static void read_version(void)
{
    if (library.calls->version(&library, text))
        text[0] = '\0';
    text[strcspn(text, "\n,")] = '\0';
    for (char *c = text; *c; c++)
        if (*c == '\t')
            *c = ' ';
    haul__snprintf(library.version, sizeof library.version, "%s", text);
}

static haul_status start(void)
{
    bool started, finished;
    int  code = library.calls->is_started(&library, &started, &finished);
    if (code)
        return failed("MPI_Initialized", code);
    if (finished)
        return haul__fail(HAUL_STATE, operation, NULL, "%s is finished, and MPI cannot be started again in a process",
                          library.path);
    if (!started && (code = library.calls->start(&library)))
        return failed("MPI_Init_thread", code);
    started_here = !started;
    code = library.calls->return_errors(&library);
    return code ? failed("MPI_Comm_set_errhandler", code) : HAUL_OK;
}

/* Each MPI's launcher introduces processes to its own library only. To another one every process is alone. */
static haul_status check_launcher(const haul__launcher *launcher, int size)
{
    if (!launcher->name || launcher->size == size)
        return HAUL_OK;
    return haul__fail(
        HAUL_STATE, operation, NULL,
        "%s started %d processes (%s), but the library %s (%s) finds %d: they belong to different MPIs, or "
        "the program was started without the launcher; use the launcher of that library, or name the "
        "launcher's library with HAUL_MPI",
        launcher->name, launcher->size, launcher->variable, library.path, library.version, size);
}

static haul_status new_engine(intptr_t comm, haul__engine **out)
{
    mpi_engine *e = haul__calloc(1, sizeof *e);
    if (!e)
        return haul__fail_memory(operation, sizeof *e);
    const int code = library.calls->rank_and_size(&library, comm, &e->base.rank, &e->base.size);
    if (code) {
        haul__free(e);
        return failed("MPI_Comm_rank", code);
    }
    e->base.kind = &haul__group_mpi;
    e->comm = comm;
    e->next = engines;
    engines = e;
    *out = &e->base;
    return HAUL_OK;
}

static haul_status open_world(haul__engine **out)
{
    const haul__launcher launcher = haul__launcher_now();
    intptr_t             comm;
    int                  rank, size;
    if (haul__mpi_open(&library, &launcher) || start())
        return haul_error_status();
    read_version();
    int code = library.calls->rank_and_size(&library, library.world, &rank, &size);
    if (code)
        return failed("MPI_Comm_size", code);
    if (check_launcher(&launcher, size)) {
        if (started_here)
            library.calls->finish(&library);
        return haul_error_status();
    }
    code = library.calls->duplicate(&library, library.world, &comm);
    return code ? failed("MPI_Comm_dup", code) : new_engine(comm, out);
}

static haul_status open_mpi(haul__engine *parent, int color, int key, haul__engine **out, haul__request *request)
{
    (void)request;
    intptr_t comm;
    if (!parent)
        return open_world(out);
    const int code = library.calls->split(&library, ((mpi_engine *)parent)->comm, color, key, &comm);
    return code ? failed("MPI_Comm_split", code) : new_engine(comm, out);
}

static void close_mpi(haul__engine *e)
{
    (void)e;
    if (started_here)
        library.calls->finish(&library);
    while (engines) {
        mpi_engine *next = engines->next;
        haul__free(engines);
        engines = next;
    }
}

/* ---- moving bytes ---- */

static haul_status begun(const char *function, int code, haul__request *request)
{
    request->open = code == 0;
    return code ? failed(function, code) : HAUL_OK;
}

static intptr_t comm_of(const haul__engine *e)
{
    return ((const mpi_engine *)e)->comm;
}

static haul_status all_to_all(haul__engine *e, const void *out, haul__portions sent, void *in, haul__portions got,
                              haul__request *request)
{
    return begun("MPI_Ialltoallv",
                 library.calls->all_to_all(&library, out, sent.bytes, sent.at, in, got.bytes, got.at, comm_of(e),
                                           &request->value),
                 request);
}

static haul_status all_gather(haul__engine *e, void *all, haul__portions portions, haul__request *request)
{
    return begun("MPI_Iallgatherv",
                 library.calls->all_gather(&library, all, portions.bytes, portions.at, comm_of(e), &request->value),
                 request);
}

static haul_status all_reduce(haul__engine *e, float *data, int count, haul__request *request)
{
    if (!library.f32 || !library.sum)
        return haul__fail(HAUL_UNSUPPORTED, "MPI_Iallreduce", NULL, "the library %s does not name its type of f32",
                          library.path);
    return begun("MPI_Iallreduce", library.calls->all_reduce(&library, data, count, comm_of(e), &request->value),
                 request);
}

static haul_status broadcast(haul__engine *e, void *data, int bytes, int root, haul__request *request)
{
    return begun("MPI_Ibcast", library.calls->broadcast(&library, data, bytes, root, comm_of(e), &request->value),
                 request);
}

static haul_status send_to(haul__engine *e, const void *data, int bytes, int to, haul__group_channel channel,
                           haul__request *request)
{
    return begun("MPI_Isend", library.calls->send(&library, data, bytes, to, (int)channel, comm_of(e), &request->value),
                 request);
}

static haul_status receive_from(haul__engine *e, void *data, int bytes, int from, haul__group_channel channel,
                                haul__request *request)
{
    return begun("MPI_Irecv",
                 library.calls->receive(&library, data, bytes, from, (int)channel, comm_of(e), &request->value),
                 request);
}

static haul_status progress(haul__engine *e, haul__request *request)
{
    (void)e;
    bool      done = false;
    const int code = library.calls->test(&library, &request->value, &done);
    if (code || done)
        request->open = false;
    return code ? failed("MPI_Test", code) : HAUL_OK;
}

static void abort_mpi(haul__engine *e)
{
    (void)e;
    library.calls->abort(&library, 1);
}

static void describe(const haul__engine *e, haul_group_properties *out)
{
    (void)e;
    out->library = library.path;
    out->family = library.calls->family;
    out->version = library.version;
}

const haul__group_kind haul__group_mpi = {
    .name = "mpi",
    .called = HAUL__CALLED_BY_GROUP_THREAD,
    .open = open_mpi,
    .close = close_mpi,
    .all_to_all = all_to_all,
    .all_gather = all_gather,
    .all_reduce = all_reduce,
    .broadcast = broadcast,
    .send = send_to,
    .receive = receive_from,
    .progress = progress,
    .abort = abort_mpi,
    .describe = describe,
};

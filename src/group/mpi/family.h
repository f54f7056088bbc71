/* The functions of calls.h for one family of MPI libraries. The file that includes this has defined
 *
 * - the handles MPI_Comm, MPI_Datatype, MPI_Request, MPI_Op and MPI_Errhandler
 * - IN_PLACE and THREAD_MULTIPLE, constants of the family
 * - load_constants, which sets the handles that haul__mpi has
 * - FAMILY, the name of the table, and FAMILY_NAME, a text
 *
 * It is included once by each of open_mpi.c, mpich.c and abi.c. */
#include <dlfcn.h>
#include <string.h>

#include "group/mpi/calls.h"

enum {
#define X(name, parameters) F_##name,
#include "group/mpi/mpi.def"
#undef X
    FUNCTIONS
};

_Static_assert((int)FUNCTIONS == (int)HAUL__MPI_FUNCTIONS, "calls.h has room for all of them");

#define X(name, parameters) typedef int name##_type parameters;
#include "group/mpi/mpi.def"
#undef X

static const char *const names[] = {
#define X(name, parameters) "MPI_" #name,
#include "group/mpi/mpi.def"
#undef X
};

#define CALL(name) ((name##_type *)m->functions[F_##name])

static void load_constants(haul__mpi *m);

static const char *load(haul__mpi *m)
{
    for (int i = 0; i < FUNCTIONS; i++) {
        void *function = dlsym(m->handle, names[i]);
        if (!function)
            return names[i];
        memcpy(&m->functions[i], &function, sizeof function);
    }
    load_constants(m);
    return m->world && m->byte && m->errors_return ? NULL : "MPI_COMM_WORLD";
}

static int is_started(haul__mpi *m, bool *started, bool *finished)
{
    int yes = 0, over = 0;
    int code = CALL(Initialized)(&yes);
    if (!code)
        code = CALL(Finalized)(&over);
    *started = yes != 0;
    *finished = over != 0;
    return code;
}

static int start(haul__mpi *m)
{
    int provided;
    return CALL(Init_thread)(NULL, NULL, THREAD_MULTIPLE, &provided);
}

static int return_errors(haul__mpi *m)
{
    return CALL(Comm_set_errhandler)((MPI_Comm)m->world, (MPI_Errhandler)m->errors_return);
}

static int rank_and_size(haul__mpi *m, intptr_t comm, int *rank, int *size)
{
    const int code = CALL(Comm_rank)((MPI_Comm)comm, rank);
    return code ? code : CALL(Comm_size)((MPI_Comm)comm, size);
}

static int duplicate(haul__mpi *m, intptr_t comm, intptr_t *out)
{
    MPI_Comm  made;
    const int code = CALL(Comm_dup)((MPI_Comm)comm, &made);
    if (!code)
        *out = (intptr_t)made;
    return code;
}

static int split(haul__mpi *m, intptr_t comm, int color, int key, intptr_t *out)
{
    MPI_Comm  made;
    const int code = CALL(Comm_split)((MPI_Comm)comm, color, key, &made);
    if (!code)
        *out = (intptr_t)made;
    return code;
}

static int keep(int code, MPI_Request made, intptr_t *request)
{
    if (!code)
        *request = (intptr_t)made;
    return code;
}

static int send_to(haul__mpi *m, const void *data, int bytes, int to, int tag, intptr_t comm, intptr_t *request)
{
    MPI_Request r = 0;
    const int   code = CALL(Isend)(data, bytes, (MPI_Datatype)m->byte, to, tag, (MPI_Comm)comm, &r);
    return keep(code, r, request);
}

static int receive_from(haul__mpi *m, void *data, int bytes, int from, int tag, intptr_t comm, intptr_t *request)
{
    MPI_Request r = 0;
    const int   code = CALL(Irecv)(data, bytes, (MPI_Datatype)m->byte, from, tag, (MPI_Comm)comm, &r);
    return keep(code, r, request);
}

static int broadcast(haul__mpi *m, void *data, int bytes, int root, intptr_t comm, intptr_t *request)
{
    MPI_Request r = 0;
    const int   code = CALL(Ibcast)(data, bytes, (MPI_Datatype)m->byte, root, (MPI_Comm)comm, &r);
    return keep(code, r, request);
}

/* Open MPI takes equal pointers for IN_PLACE, and never ends, so the callers pass different ones. */
static int all_to_all(haul__mpi *m, const void *out, const int *out_bytes, const int *out_at, void *in,
                      const int *in_bytes, const int *in_at, intptr_t comm, intptr_t *request)
{
    MPI_Request        r = 0;
    const MPI_Datatype byte = (MPI_Datatype)m->byte;
    const int code = CALL(Ialltoallv)(out, out_bytes, out_at, byte, in, in_bytes, in_at, byte, (MPI_Comm)comm, &r);
    return keep(code, r, request);
}

static int all_gather(haul__mpi *m, void *all, const int *bytes, const int *at, intptr_t comm, intptr_t *request)
{
    MPI_Request        r = 0;
    const MPI_Datatype byte = (MPI_Datatype)m->byte;
    const int          code = CALL(Iallgatherv)(IN_PLACE, 0, byte, all, bytes, at, byte, (MPI_Comm)comm, &r);
    return keep(code, r, request);
}

static int all_reduce(haul__mpi *m, void *data, int count, intptr_t comm, intptr_t *request)
{
    MPI_Request r = 0;
    const int code = CALL(Iallreduce)(IN_PLACE, data, count, (MPI_Datatype)m->f32, (MPI_Op)m->sum, (MPI_Comm)comm, &r);
    return keep(code, r, request);
}

static int test(haul__mpi *m, intptr_t *request, bool *done)
{
    long        status[16]; /* larger than the MPI_Status of any family */
    int         yes = 0;
    MPI_Request r = (MPI_Request)*request;
    const int   code = CALL(Test)(&r, &yes, status);
    *request = (intptr_t)r;
    *done = yes != 0;
    return code;
}

static int version(haul__mpi *m, char text[HAUL__MPI_TEXT])
{
    int length;
    return CALL(Get_library_version)(text, &length);
}

static int error(haul__mpi *m, int code, char text[HAUL__MPI_TEXT])
{
    int length;
    return CALL(Error_string)(code, text, &length);
}

static int abort_all(haul__mpi *m, int code)
{
    return CALL(Abort)((MPI_Comm)m->world, code);
}

static int finish(haul__mpi *m)
{
    return CALL(Finalize)();
}

const haul__mpi_calls FAMILY = {
    .family = FAMILY_NAME,
    .load = load,
    .is_started = is_started,
    .start = start,
    .return_errors = return_errors,
    .rank_and_size = rank_and_size,
    .duplicate = duplicate,
    .split = split,
    .send = send_to,
    .receive = receive_from,
    .broadcast = broadcast,
    .all_to_all = all_to_all,
    .all_gather = all_gather,
    .all_reduce = all_reduce,
    .test = test,
    .version = version,
    .error = error,
    .abort = abort_all,
    .finish = finish,
};

/* Open MPI: handles are pointers to objects of the library, whose symbols are their names. */
typedef struct ompi_communicator_t *MPI_Comm;
typedef struct ompi_datatype_t     *MPI_Datatype;
typedef struct ompi_op_t           *MPI_Op;
typedef struct ompi_request_t      *MPI_Request;
typedef struct ompi_errhandler_t   *MPI_Errhandler;

#define IN_PLACE        ((void *)1)
#define THREAD_MULTIPLE 3
#define FAMILY          haul__mpi_open_mpi
#define FAMILY_NAME     "Open MPI"
#include "group/mpi/family.h"

static void load_constants(haul__mpi *m)
{
    m->world = (intptr_t)dlsym(m->handle, "ompi_mpi_comm_world");
    m->byte = (intptr_t)dlsym(m->handle, "ompi_mpi_byte");
    m->f32 = (intptr_t)dlsym(m->handle, "ompi_mpi_float");
    m->sum = (intptr_t)dlsym(m->handle, "ompi_mpi_op_sum");
    m->errors_return = (intptr_t)dlsym(m->handle, "ompi_mpi_errors_return");
}

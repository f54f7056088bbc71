/* MPICH and those that keep its binary interface, as Intel MPI does: handles are integers with fixed values. */
typedef int MPI_Comm, MPI_Datatype, MPI_Request, MPI_Op, MPI_Errhandler;

#define IN_PLACE        ((void *)-1)
#define THREAD_MULTIPLE 3
#define FAMILY          haul__mpi_mpich
#define FAMILY_NAME     "MPICH"
#include "group/mpi/family.h"

static void load_constants(haul__mpi *m)
{
    m->world = 0x44000000;
    m->byte = 0x4c00010d;
    m->f32 = 0x4c00040a;
    m->sum = 0x58000003;
    m->errors_return = 0x54000001;
}

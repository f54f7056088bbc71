/* The standard binary interface of MPI 5.0 (chapter 20): handles are pointers with fixed values. */
typedef struct abi_comm       *MPI_Comm;
typedef struct abi_datatype   *MPI_Datatype;
typedef struct abi_request    *MPI_Request;
typedef struct abi_op         *MPI_Op;
typedef struct abi_errhandler *MPI_Errhandler;

#define IN_PLACE        ((void *)1)
#define THREAD_MULTIPLE 4096
#define FAMILY          haul__mpi_abi
#define FAMILY_NAME     "MPI ABI"
#include "group/mpi/family.h"

static void load_constants(haul__mpi *m)
{
    m->world = 0x101;
    m->byte = 0x247;
    m->f32 = 0x210;
    m->sum = 0x21;
    m->errors_return = 0x143;
}

/* Finds and opens the MPI library that the launcher needs. */
#ifndef HAUL_GROUP_MPI_OPEN_H
#define HAUL_GROUP_MPI_OPEN_H

#include "core/error.h"
#include "group/launcher.h"
#include "group/mpi/calls.h"

/* Opens the library that HAUL_MPI names, else the first that can be opened of those that fit the launcher. */
haul_status haul__mpi_open(haul__mpi *m, const haul__launcher *launcher);

#endif

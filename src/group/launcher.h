/* Who started this process, and as one of how many. */
#ifndef HAUL_GROUP_LAUNCHER_H
#define HAUL_GROUP_LAUNCHER_H

typedef enum haul__launcher_family {
    HAUL__LAUNCHER_ANY,
    HAUL__LAUNCHER_OPEN_MPI,
    HAUL__LAUNCHER_HYDRA
} haul__launcher_family;

typedef struct haul__launcher {
    const char           *name;     /* "Open MPI's mpirun"; NULL: no launcher's variables are set */
    const char           *variable; /* "OMPI_COMM_WORLD_SIZE" */
    int                   size;     /* how many processes it has started; 1 without a launcher */
    haul__launcher_family family;   /* whose library its processes need */
} haul__launcher;

haul__launcher haul__launcher_now(void);

#endif

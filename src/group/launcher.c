/* Launchers, by the variables that they set for the processes that they start. */
#include "group/launcher.h"

#include <stddef.h>
#include <stdlib.h>

/* `also`: set as well, or the variable only says how many processes there could be. The first row that fits counts:
 * srun with Open MPI or MPICH sets the variables of both. */
static const struct {
    const char           *variable, *also, *name;
    haul__launcher_family family;
} launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", NULL, "Open MPI's launcher", HAUL__LAUNCHER_OPEN_MPI},
    {"PMI_SIZE", NULL, "the launcher of MPICH or Intel MPI", HAUL__LAUNCHER_HYDRA},
    {"SLURM_NTASKS", "SLURM_PROCID", "Slurm", HAUL__LAUNCHER_ANY},
};

static int positive(const char *text)
{
    char      *end;
    const long n = text ? strtol(text, &end, 10) : 0;
    return text && end != text && *end == '\0' && n > 0 && n <= 1 << 24 ? (int)n : 0;
}

haul__launcher haul__launcher_now(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const int size = positive(getenv(launchers[i].variable));
        if (size && (!launchers[i].also || getenv(launchers[i].also)))
            return (haul__launcher){launchers[i].name, launchers[i].variable, size, launchers[i].family};
    }
    return (haul__launcher){.size = 1};
}

/* Which MPI library is opened: one that the program has loaded itself, the one that HAUL_MPI names, or one of those
 * that fit the launcher, by their usual names. */
#include "group/mpi/open.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/plain.h"

static const char operation[] = "haul_group_get";

static const struct {
    const char           *name;
    haul__launcher_family launcher; /* whose processes it finds */
} libraries[] = {
    {"libmpi.so.40", HAUL__LAUNCHER_OPEN_MPI}, /* Open MPI 2 to 5 */
    {"libmpich.so.12", HAUL__LAUNCHER_HYDRA},  /* MPICH of Debian */
    {"libmpi.so.12", HAUL__LAUNCHER_HYDRA},    /* MPICH, Intel MPI */
    {"libmpi_abi.so.1", HAUL__LAUNCHER_HYDRA}, /* MPICH 5 */
};

static const haul__mpi_calls *family_of(void *handle, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (strncmp(slash ? slash + 1 : path, "libmpi_abi", 10) == 0)
        return &haul__mpi_abi;
    return dlsym(handle, "ompi_mpi_comm_world") ? &haul__mpi_open_mpi : &haul__mpi_mpich;
}

static haul_status use(haul__mpi *m, void *handle, const char *path)
{
    haul__snprintf(m->path, sizeof m->path, "%s", path);
    m->handle = handle;
    m->calls = family_of(handle, path);
    HAUL__ASSERT(m->calls && m->handle);
    const char *missing = m->calls->load(m);
    return missing
               ? haul__fail(HAUL_UNSUPPORTED, operation, NULL,
                            "the library %s has no %s; Haul needs MPI 3 or newer, and HAUL_MPI can name another one",
                            path, missing)
               : HAUL_OK;
}

/* Global, because older versions of Open MPI load components that do not name the libraries whose symbols they use. */
static void *load(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_GLOBAL);
}

/* A library that the program or its other libraries use has to be the one that Haul uses. */
static bool is_loaded(haul__mpi *m, haul_status *status)
{
    void   *program = dlopen(NULL, RTLD_NOW | RTLD_LOCAL);
    void   *function = program ? dlsym(program, "MPI_Init_thread") : NULL;
    Dl_info info;
    if (!function || !dladdr(function, &info) || !info.dli_fname)
        return false;
    *status = use(m, program, info.dli_fname);
    return true;
}

static haul_status refuse_missing(const haul__launcher *launcher, const char *reason)
{
    const char *fix = launcher->family == HAUL__LAUNCHER_OPEN_MPI ? "install Open MPI (Debian: openmpi-bin)"
                      : launcher->family == HAUL__LAUNCHER_HYDRA  ? "install MPICH (Debian: mpich)"
                                                                  : "install one (Debian: openmpi-bin or mpich)";
    return haul__fail(HAUL_UNSUPPORTED, operation, NULL,
                      "no MPI library was found: %s; %s, or name a library: HAUL_MPI=/path/libmpi.so.40", reason, fix);
}

haul_status haul__mpi_open(haul__mpi *m, const haul__launcher *launcher)
{
    const char *given = getenv("HAUL_MPI");
    haul_status status;
    if (is_loaded(m, &status))
        return status;
    if (given && given[0]) {
        void *handle = load(given);
        if (handle)
            return use(m, handle, given);
        return haul__fail(HAUL_UNSUPPORTED, operation, NULL,
                          "the library that HAUL_MPI names cannot be opened: %.300s; name an MPI library, or unset it",
                          dlerror());
    }
    char reason[200] = "";
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        if (launcher->family != HAUL__LAUNCHER_ANY && libraries[i].launcher != launcher->family)
            continue;
        void *handle = load(libraries[i].name);
        if (handle)
            return use(m, handle, libraries[i].name);
        if (!reason[0])
            haul__snprintf(reason, sizeof reason, "%s", dlerror());
    }
    return refuse_missing(launcher, reason);
}

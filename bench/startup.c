/* How long the command takes to start, against a program that does nothing but ask the OpenCL drivers what there is.
 * That program is this one, called with "enumerate". */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/bench.h"

static char self[4096];

/* ---- the peer ---- */

/* Types of CL/cl.h, which may not be installed. */
typedef int platforms_fn(unsigned count, void **platforms, unsigned *found);
typedef int devices_fn(void *platform, uint64_t kind, unsigned count, void **devices, unsigned *found);

static int enumerate(void)
{
    void    *loader = dlopen("libOpenCL.so.1", RTLD_NOW);
    void    *platforms[16], *devices[16];
    unsigned count = 0, found = 0, all = 0;
    if (!loader)
        return 0;
    platforms_fn *get_platforms = (platforms_fn *)(uintptr_t)dlsym(loader, "clGetPlatformIDs");
    devices_fn   *get_devices = (devices_fn *)(uintptr_t)dlsym(loader, "clGetDeviceIDs");
    if (!get_platforms || !get_devices || get_platforms(16, platforms, &count))
        return 0;
    for (unsigned i = 0; i < count && i < 16; i++)
        if (get_devices(platforms[i], 0xffffffff /* of all kinds */, 16, devices, &found) == 0)
            all += found;
    printf("%u\n", all);
    return 0;
}

/* ---- starting programs ---- */

static bool run_program(const char *program, const char *argument)
{
    int   status;
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout))
            execl(program, program, argument, (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static const char *command(void)
{
    const char *path = getenv("HAUL");
    return path ? path : "build/haul";
}

static bool open_command(const bench_case *c)
{
    char text[4200];
    if (run_program(command(), c->context))
        return true;
    snprintf(text, sizeof text, "'%s %s' failed; say where the command is with HAUL=PATH", command(),
             (const char *)c->context);
    return bench_out(text);
}

static bool run_command(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        if (!run_program(command(), c->context))
            return bench_out("the command failed");
    return true;
}

static bool open_self(const bench_case *c)
{
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    (void)c;
    if (length <= 0)
        return bench_out("this program cannot find itself in /proc");
    self[length] = 0;
    return true;
}

static bool run_self(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        if (!run_program(self, c->context))
            return bench_out("the program failed");
    return true;
}

#define START(label, how, argument, who)                                                                               \
    {                                                                                                                  \
        .name = label, .unit = "ms", .peers = who, .open = open_##how, .run = run_##how, .context = argument           \
    }

static const bench_case cases[] = {
    START("haul devices", command, "devices", "the drivers' enumeration,torch:import"),
    START("haul --version", command, "--version", NULL),
    START("the drivers' enumeration", self, "enumerate", NULL),
};

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "enumerate") == 0)
        return enumerate();
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}

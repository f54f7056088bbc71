/* The fixture of hostile builds (src/base/hostile.h), in every test program without being asked for.
 *
 * It sets a locale with a decimal comma, as programs in other languages do, and switches the compiler on that refuses
 * every third kernel. A refused kernel is asked for once more and counted, except while the test itself injects faults:
 * then the refusal is one of the errors that the test must cope with. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hostile.h"
#include "core/error.h"
#include "device/device.h"
#include "device/generated.h"

static atomic_int  repeated, refused;
static atomic_bool injects; /* the test makes a call fail */
static pid_t       process;

void __real_haul__fault_plan(unsigned kinds, int64_t nth);
void __wrap_haul__fault_plan(unsigned kinds, int64_t nth);

void __wrap_haul__fault_plan(unsigned kinds, int64_t nth)
{
    atomic_store(&injects, (kinds & HAUL__FAULT_COMPILE) && nth > 0 && nth < INT64_MAX);
    __real_haul__fault_plan(kinds, nth);
}

/* Counts a kernel that was refused, and restores the error from before. False if the kernel failed otherwise, or if the
 * test must cope. A kernel is refused again only if other threads asked meanwhile. */
static bool asks_again(const haul__error_record *before)
{
    if (!strstr(haul_error_message(), HAUL__HOSTILE_REFUSAL))
        return false;
    atomic_fetch_add(&refused, 1);
    if (atomic_load(&injects))
        return false;
    atomic_fetch_add(&repeated, 1);
    haul__error_restore(before);
    return true;
}

const haul__kernel *__real_haul__kernel_get(haul_device *device, int id, haul_dtype dtype);
const haul__kernel *__wrap_haul__kernel_get(haul_device *device, int id, haul_dtype dtype);

const haul__kernel *__wrap_haul__kernel_get(haul_device *device, int id, haul_dtype dtype)
{
    haul__error_record before;
    haul__error_save(&before);
    const haul__kernel *kernel = __real_haul__kernel_get(device, id, dtype);
    while (!kernel && asks_again(&before))
        kernel = __real_haul__kernel_get(device, id, dtype);
    return kernel;
}

const haul__kernel *__real_haul__kernel_of_text(haul_device *device, const char *name, const char *text,
                                                haul_dtype dtype, const char *shown);
const haul__kernel *__wrap_haul__kernel_of_text(haul_device *device, const char *name, const char *text,
                                                haul_dtype dtype, const char *shown);

const haul__kernel *__wrap_haul__kernel_of_text(haul_device *device, const char *name, const char *text,
                                                haul_dtype dtype, const char *shown)
{
    haul__error_record before;
    haul__error_save(&before);
    const haul__kernel *kernel = __real_haul__kernel_of_text(device, name, text, dtype, shown);
    while (!kernel && asks_again(&before))
        kernel = __real_haul__kernel_of_text(device, name, text, dtype, shown);
    return kernel;
}

static void report(void)
{
    if (atomic_load(&refused) && getpid() == process) /* not in children, whose output tests read */
        fprintf(stderr, "hostile: %d kernels were refused, and %d of these were asked for again\n",
                atomic_load(&refused), atomic_load(&repeated));
}

__attribute__((constructor)) static void begin(void)
{
    const char *calm = getenv("HAUL_CALM");
    if (!calm || (!strstr(calm, "compiler") && strcmp(calm, "all") != 0))
        haul__hostilities |= HAUL__HOSTILE_COMPILER;
    if (haul__is_hostile(HAUL__HOSTILE_LOCALE) && !setlocale(LC_ALL, "de_DE.UTF-8"))
        fputs("hostile: there is no locale de_DE.UTF-8, and the test runs without a decimal comma\n", stderr);
    process = getpid();
    atexit(report);
}

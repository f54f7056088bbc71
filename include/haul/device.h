/* Devices: finding, naming and choosing them.
 *
 * Spellings: "cpu", "opencl:1", "cuda:0", "meta", "gpu" (the first GPU, or "gpu:1"), "auto" (a GPU if there is one,
 * else the CPU); TensorFlow's "/GPU:0", "/device:CPU:0" and upper case parse too. "gpu" never means an OpenCL device
 * that is a CPU: ask for that one by name. Backends open when first named. */
#ifndef HAUL_DEVICE_H
#define HAUL_DEVICE_H

#include <haul/base.h>
#include <haul/error.h>

HAUL_BEGIN

/* Never NULL: an unknown or unusable device gives an invalid one, which every function refuses with the error recorded
 * here. Devices live as long as the process and are shared by all threads. */
HAUL_API haul_device *haul_device_get(const char *name);
HAUL_API haul_device *haul_cpu(void);

/* The canonical name, "opencl:0"; "invalid" for an invalid device. */
HAUL_API const char *haul_device_name(const haul_device *device);
HAUL_API bool        haul_device_is_valid(const haul_device *device);

typedef enum haul_device_kind { HAUL_KIND_CPU, HAUL_KIND_GPU, HAUL_KIND_ACCELERATOR, HAUL_KIND_META } haul_device_kind;

/* Properties; texts live as long as the process. memory_bytes is 0 where it is unknown. */
typedef struct haul_device_properties {
    const char      *name;      /* "opencl:0" */
    const char      *backend;   /* "opencl" */
    const char      *model;     /* the vendor's name of the hardware */
    const char      *driver;    /* driver or runtime with its version */
    const char      *libraries; /* of the vendor's that are used, and which are missing; "" where there are none */
    haul_device_kind kind;
    int              compute_units;
    int64_t          memory_bytes; /* memory of the device; of the machine where the device has none of its own */
    bool             shares_host_memory;
    bool             has_f64;
} haul_device_properties;

HAUL_API haul_status haul_device_describe(const haul_device *device, haul_device_properties *out);

/* What was found on this machine: one entry for each device, and one, with usable == false and the reason, for each
 * backend that offers nothing. Fills at most `capacity` entries and returns how many there are. */
typedef struct haul_device_report {
    char name[32]; /* "opencl:0", or "cuda" for a backend without devices */
    bool usable;
    char reason[448]; /* why not; "" if usable */
} haul_device_report;

HAUL_API int haul_device_list(haul_device_report *out, int capacity);

/* The device on which this thread makes new tensors; the CPU unless set. Restored when the scope is popped, so a
 * device scope is a scope in which haul_set_device was called. */
HAUL_API haul_status  haul_set_device(haul_device *device);
HAUL_API haul_device *haul_current_device(void);

/* Wait until all work submitted to the device is done, and report a fault of earlier asynchronous work. After a fault
 * of the driver the device is refused. An index out of range (haul_index_select, haul_cross_entropy) is reported once,
 * and the device stays usable. */
HAUL_API haul_status haul_device_sync(haul_device *device);

/* Threads the CPU uses for one operation, for the whole process. Results do not depend on it. 0 restores the
 * default: $HAUL_NUM_THREADS if it is set, else one thread for each core. haul_num_threads returns the number that the
 * calling thread's operations use.
 * If $HAUL_NUM_THREADS is not a whole number from 1 to 1024, or $HAUL_CPU_LEVEL is not base or v3, the CPU cannot be
 * opened, and every call that needs it fails with a message that names the variable. */
HAUL_API haul_status haul_set_num_threads(int threads);
HAUL_API int         haul_num_threads(void);

/* The same for operations that this thread starts, until the scope is popped: a server whose threads each answer a
 * request sets 1. It can be more than the process's number. 0: the process's number again. Drivers of other devices
 * that compute on the processor (OpenCL) have threads of their own. */
HAUL_API haul_status haul_set_scope_threads(int threads);

HAUL_END

#endif

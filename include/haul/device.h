/* Devices: finding, naming and choosing them.
 *
 * A device is named by a text. Upper case and TensorFlow's "/GPU:0" and "/device:CPU:0" are accepted, too:
 *
 * - "cpu": the CPU
 * - "cuda:0": an NVIDIA GPU
 * - "opencl:1": an OpenCL device
 * - "gpu", "gpu:1": the first, or second, GPU of any backend; never an OpenCL device that is a CPU
 * - "auto": a GPU if there is one, else the CPU
 * - "meta": no hardware; tensors have shapes and dtypes but no elements
 * - "sim:h200", "sim:h200:1": simulated GPUs of a machine that `haul devices --machines` lists. They compute on the
 *   CPU, in virtual time; "auto" and "gpu" never choose one, and haul_device_list lists none
 *
 * A backend opens when one of its devices is first named. Devices live as long as the process, and all threads share
 * them. */
#ifndef HAUL_DEVICE_H
#define HAUL_DEVICE_H

#include <haul/base.h>
#include <haul/error.h>

HAUL_BEGIN

/* The device of a name, or the CPU. Never NULL, and never an error: for an unknown or unusable device haul_device_get
 * returns an invalid device, which every function refuses with HAUL_DEVICE and the reason, haul_device_describe too. */
HAUL_API haul_device *haul_device_get(const char *name);
HAUL_API haul_device *haul_cpu(void);

/* The canonical name of a device, "opencl:0"; "invalid" for an invalid device. The text lives as long as the process.
 */
HAUL_API const char *haul_device_name(const haul_device *device);

/* True if this is a device that can be used. */
HAUL_API bool haul_device_is_valid(const haul_device *device);

/* The kind of a device's hardware.
 *
 * - HAUL_KIND_CPU: a CPU, also one that OpenCL offers
 * - HAUL_KIND_GPU: a GPU, also a simulated one
 * - HAUL_KIND_ACCELERATOR: anything else that OpenCL offers
 * - HAUL_KIND_META: the device "meta", which computes nothing */
typedef enum haul_device_kind { HAUL_KIND_CPU, HAUL_KIND_GPU, HAUL_KIND_ACCELERATOR, HAUL_KIND_META } haul_device_kind;

/* The properties of a device. Texts live as long as the process. */
typedef struct haul_device_properties {
    const char      *name;      /* "opencl:0" */
    const char      *backend;   /* "opencl" */
    const char      *model;     /* the vendor's name of the hardware */
    const char      *driver;    /* driver or runtime with its version */
    const char      *libraries; /* the vendor's libraries that are used, and which are missing; "" if there are none */
    const char      *bus;       /* the PCI address of the hardware, "0000:01:00.0"; "" if it is unknown */
    haul_device_kind kind;      /* what the hardware is */
    int              compute_units; /* cores, multiprocessors or compute units, as the driver counts them */
    /* the device's memory; the machine's if the device has none of its own; 0 if it is unknown */
    int64_t memory_bytes;
    bool    shares_host_memory; /* the device uses the host's memory */
    bool    has_f64;            /* the device can compute in f64 */
} haul_device_properties;

/* Fill *out with the properties of a device. Fails for an invalid device. */
HAUL_API haul_status haul_device_describe(const haul_device *device, haul_device_properties *out);

/* One row of haul_device_list: a device, or a backend without a usable device. */
typedef struct haul_device_report {
    char name[32];    /* "opencl:0", or "cuda" for a backend without devices */
    bool usable;      /* the device can be used */
    char reason[448]; /* why not; "" if usable */
} haul_device_report;

/* List the devices of this machine: one row for each device, and one row, with usable == false and the reason, for each
 * backend that offers none. Fills at most `capacity` rows of `out`, which may be NULL, and returns how many there are.
 * Never fails. */
HAUL_API int haul_device_list(haul_device_report *out, int capacity);

/* The device on which the calling thread makes new tensors; the CPU unless set. Popping the scope restores it, so a
 * scope in which haul_set_device was called is a device scope. haul_set_device fails for an invalid device and changes
 * nothing. */
HAUL_API haul_status  haul_set_device(haul_device *device);
HAUL_API haul_device *haul_current_device(void);

/* Wait until all work submitted to the device is done, and report a fault of earlier asynchronous work.
 *
 * After a fault of the driver the device cannot be used any more. An index out of range, as of haul_index_select or
 * haul_cross_entropy, is reported once, and the device stays usable. */
HAUL_API haul_status haul_device_sync(haul_device *device);

/* The number of threads that one operation on the CPU uses, for the whole process. Results do not depend on it.
 * haul_num_threads returns the number that the calling thread's operations use.
 *
 * haul_set_num_threads(0) restores the default: `$HAUL_NUM_THREADS` if it is set, else one thread for each core. If
 * `$HAUL_NUM_THREADS` is not a whole number from 1 to 1024, or `$HAUL_CPU_LEVEL` is none of base, v3 and v4, the CPU
 * cannot be opened: every call that needs it fails with a message that names the variable. */
HAUL_API haul_status haul_set_num_threads(int threads);
HAUL_API int         haul_num_threads(void);

/* Set the number of threads for operations that the calling thread starts, until the scope is popped. A server whose
 * threads each answer a request sets 1. The number can be larger than the process's; 0 means the process's number
 * again. Drivers of other devices that compute on the CPU, for example OpenCL's, have threads of their own. */
HAUL_API haul_status haul_set_scope_threads(int threads);

HAUL_END

#endif

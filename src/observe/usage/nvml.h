/* The part of NVIDIA's management library that sensors need, declared here: nothing of NVIDIA's is needed to build. */
#ifndef HAUL_OBSERVE_USAGE_NVML_H
#define HAUL_OBSERVE_USAGE_NVML_H

typedef struct nvmlDevice_st *nvml_device;

typedef struct nvml_pci {
    char     old_bus[16];
    unsigned domain, bus, device, ids, subsystem;
    char     bus_id[32]; /* "00000000:01:00.0" */
} nvml_pci;

typedef struct nvml_utilisation {
    unsigned gpu, memory; /* per cent of the last sample */
} nvml_utilisation;

typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;

typedef struct nvml_process {
    unsigned           pid;
    unsigned long long bytes; /* all ones: not known */
    unsigned           instance, compute_instance;
} nvml_process;

/* Values of arguments. */
enum {
    NVML_SENSOR_GPU = 0,
    NVML_LIMIT_SLOWDOWN = 1,
    NVML_CLOCK_GRAPHICS = 0,
    NVML_SENT = 0,    /* by the device */
    NVML_RECEIVED = 1 /* by the device */
};

#endif

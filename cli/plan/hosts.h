/* Hosts of ranks and their network, for haul plan and haul what-if. */
#ifndef CLI_PLAN_HOSTS_H
#define CLI_PLAN_HOSTS_H

#include "machine/machine.h"

/* Of "100gbit,5us": bytes a second of a host's interface, and the latency of a message. False after a complaint. */
bool hosts_network_parse(const char *text, int64_t *rate, int64_t *latency_ns);

/* The device that a rank has: of this computer one with memory of its own, or the host; else the first other one. */
int hosts_device_of(const haul__machine *m);

#endif

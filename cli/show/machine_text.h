/* Machines for people and programs. */
#ifndef CLI_SHOW_MACHINE_TEXT_H
#define CLI_SHOW_MACHINE_TEXT_H

#include "machine/machine.h"

/* The devices of a machine with the rates of each class, and its links. */
void print_machine(const haul__machine *m);

/* The machine as one JSON object, without a newline. False after a complaint. */
bool print_machine_json(const haul__machine *m);

/* All shipped machines, and this computer as far as it was measured. False after a complaint. */
bool print_machines(void);
bool print_machines_json(void);

#endif

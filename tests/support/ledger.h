/* The ledger of copies, kept twice; ledger.c says how. */
#ifndef HAUL_TESTS_LEDGER_H
#define HAUL_TESTS_LEDGER_H

#include "backends/command.h"

typedef enum ledger_direction { LEDGER_UP, LEDGER_DOWN, LEDGER_BETWEEN, LEDGER_DIRECTIONS } ledger_direction;

/* A test backend was asked for this copy over a link, and answers `status`, which is returned. */
haul_status ledger_asked(ledger_direction direction, const haul__command *c, haul_status status);

/* LEDGER_APART(table->write(...)): the status of a command that a test gives to a backend itself, below the copy
 * function, where no events of copies are made. The command's operation is ledger_operation. */
extern const char ledger_operation[];
#define LEDGER_APART(call) (ledger_apart_begin(), ledger_apart_end(call))
void        ledger_apart_begin(void);
haul_status ledger_apart_end(haul_status status);

/* Stop and go on listening, for tests without subscribers. Copies in between are on neither side. */
void ledger_stop(void);
void ledger_go_on(void);

#endif

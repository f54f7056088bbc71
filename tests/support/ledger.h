/* The ledger of copies, kept twice; ledger.c says how. */
#ifndef HAUL_TESTS_LEDGER_H
#define HAUL_TESTS_LEDGER_H

#include <haul/error.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum ledger_direction { LEDGER_UP, LEDGER_DOWN, LEDGER_BETWEEN, LEDGER_DIRECTIONS } ledger_direction;

/* A test backend's function that copies over a link was asked for so much, and answers `status`, which is returned. */
haul_status ledger_asked(ledger_direction direction, size_t bytes, haul_status status);

/* LEDGER_APART(table->write(...)): the status of a command that a test gives to a backend itself, below the copy
 * function, where no events of copies are made. */
#define LEDGER_APART(call) (ledger_apart_begin(), ledger_apart_end(call))
void        ledger_apart_begin(void);
haul_status ledger_apart_end(haul_status status);

/* Stop and go on listening, for tests without subscribers. Copies in between are on neither side. */
void ledger_stop(void);
void ledger_go_on(void);

#endif

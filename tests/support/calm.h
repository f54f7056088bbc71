/* Waits until the other threads of this process sleep. */
#ifndef HAUL_TESTS_CALM_H
#define HAUL_TESTS_CALM_H

void wait_for_other_threads(void);

#endif

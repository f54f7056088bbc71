/* Step programs and reports of recordings. For a test program's one source file. */
#ifndef HAUL_TESTS_PROGRAM_H
#define HAUL_TESTS_PROGRAM_H

#include <haul/program.h>
#include <haul/recording.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The program of a function, which the caller must haul_program_free. */
static inline haul_program recorded(haul_status (*function)(void *))
{
    haul_program p;
    if (haul_program_record(function, NULL, &p))
        fail_msg("%s", haul_error_message());
    return p;
}

/* The first operation of this name. */
static inline int64_t find(const haul_program *p, const char *name)
{
    for (int64_t i = 0; i < p->operation_count; i++)
        if (!strcmp(p->operations[i].name, name))
            return i;
    fail_msg("there is no %s", name);
    return -1;
}

static inline haul_recording_report report_of(const haul_recording *r)
{
    haul_recording_report report;
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    return report;
}

#endif

/* The tables of profile.json as text. */
#ifndef CLI_PROFILE_PROFILE_TABLE_H
#define CLI_PROFILE_PROFILE_TABLE_H

#include <cjson/cJSON.h>
#include <stdbool.h>

typedef struct profile_table {
    const char *name;     /* the member of profile.json: "operations" */
    const char *head;     /* what a row is: "operation" */
    const char *keys[4];  /* the members that distinguish rows, ended by NULL */
    const char *times[3]; /* the members whose sum is the time; ended by NULL */
    int         longest;  /* the time is the longest of `times`, not their sum */
    const char *rates[2]; /* of flops, and of bytes read and written, in a second; or NULL */
    bool        memory;   /* it has made_bytes and peak_bytes */
    bool        joules;   /* it has joules, where the profile has */
    const char *where;    /* the member of the last column: "device", "kind" */
} profile_table;

enum { PROFILE_TABLES = 3 };
extern const profile_table profile_tables[PROFILE_TABLES];

/* Milliseconds of a row in a step. */
double profile_table_ms(const profile_table *table, const cJSON *profile, const cJSON *row);

/* The same row in another profile; NULL if there is none. */
const cJSON *profile_table_find(const profile_table *table, const cJSON *profile, const cJSON *row);

/* Print a table; `against`: another profile, or NULL. Rows that take less than a thousandth of the time are summed up.
 */
void profile_table_print(const profile_table *table, const cJSON *profile, const cJSON *against);

#endif

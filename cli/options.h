/* Command line options from a table: parsing, checking, --help, and keeping them in files. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum option_kind {
    OPTION_FLAG,    /* bool; no argument */
    OPTION_ON_OFF,  /* bool */
    OPTION_TEXT,    /* const char * */
    OPTION_INTEGER, /* int64_t */
    OPTION_NUMBER   /* double */
} option_kind;

typedef struct option {
    const char *name; /* without the dashes */
    option_kind kind;
    void       *value;    /* holds the default before parsing; help shows it */
    const char *argument; /* as help names it: "N", "DIR" */
    const char *help;
    double      low, high; /* of numbers, both included */
    const char *choices;   /* of texts, "sgd adam"; NULL: any */
    bool        given;     /* set by parsing */
} option;

typedef struct option_set {
    const char  *command; /* "train" */
    const char  *usage;   /* what follows the command's name: "[OPTION...]" */
    const char  *summary;
    const char  *notes; /* what help says at the end; may be NULL */
    option      *rows;
    int          count;
    const char **operand; /* where a single operand goes; NULL when none is taken */
} option_set;

/* -1: go on; else the exit code to end with (help was printed, or a complaint). */
int options_parse(option_set *set, int argc, char **argv);

bool option_given(const option_set *set, const char *name);

/* The options' values as a JSON object, those of `names` (ended by NULL) only. NULL when memory is exhausted. */
cJSON *options_to_json(const option_set *set, const char *const *names);

/* Take values from such an object for options that were not given. Texts stay in the object. An option of `fixed` that
 * was given with another value than the object's is complained about: false. */
bool options_from_json(option_set *set, const cJSON *object, const char *const *fixed);

#endif

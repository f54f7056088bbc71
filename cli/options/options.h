/* A subcommand as data: its options, operands and texts. The parser, --help, the manual and the completion of shells
 * all read the same rows; options_json.c keeps their values in files. */
#ifndef CLI_OPTIONS_OPTIONS_H
#define CLI_OPTIONS_OPTIONS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum option_kind {
    OPTION_FLAG,    /* bool; no argument */
    OPTION_ON_OFF,  /* bool */
    OPTION_TEXT,    /* const char * */
    OPTION_INTEGER, /* int64_t */
    OPTION_NUMBER,  /* double */
    OPTION_TEXTS    /* option_texts: given several times; never kept */
} option_kind;

/* What a shell offers where a value is expected, unless the row has choices or offers. */
typedef enum option_completion {
    COMPLETE_NOTHING,
    COMPLETE_FILE,
    COMPLETE_FOLDER,
    COMPLETE_DEVICE,
    COMPLETE_SOURCE,
    COMPLETE_OPERATION
} option_completion;

enum option_flags {
    OPTION_REQUIRED = 1 << 0, /* the command cannot run without it */
    OPTION_KEPT = 1 << 1,     /* decides on the training: kept in config.json and in the checkpoint */
    OPTION_CHANGES = 1 << 2   /* of kept ones: may differ when a run is resumed */
};

typedef struct option {
    const char *group;  /* the heading in help; options of a group follow each other */
    const char *name;   /* without the dashes */
    char        letter; /* of the short form, or 0 */
    option_kind kind;
    size_t      offset;   /* of the value in the subcommand's struct */
    const char *argument; /* as help names it: "N", "DIR" */
    const char *help;     /* begins with a capital letter; no period at the end */
    const char *initial;  /* the default, as one would type it; NULL: none (texts), off (flags) */
    double low, high; /* of integers and numbers, both included; at most 2^53 - 1, so that JSON's numbers hold them */
    const char        *word;    /* of integers: a text that stands for 0, "auto"; NULL: there is none */
    const char *const *choices; /* of texts, ended by NULL; NULL: any. "local:" stands for texts that begin with it */
    const char *const *offers;  /* of texts without choices: what a shell offers */
    option_completion  complete;
    unsigned           flags;
} option;

/* Kind and offset of a row. The conditional fails to compile when the member has another type than the kind needs. */
#define OPTION_AT(kind_, type, struct_, member)                                                                        \
    .kind = kind_, .offset = offsetof(struct_, member) + 0 * sizeof(1 ? &((struct_ *)0)->member : (type *)0)
#define OPTION_FLAG_AT(struct_, member)    OPTION_AT(OPTION_FLAG, bool, struct_, member)
#define OPTION_ON_OFF_AT(struct_, member)  OPTION_AT(OPTION_ON_OFF, bool, struct_, member)
#define OPTION_TEXT_AT(struct_, member)    OPTION_AT(OPTION_TEXT, const char *, struct_, member)
#define OPTION_INTEGER_AT(struct_, member) OPTION_AT(OPTION_INTEGER, int64_t, struct_, member)
#define OPTION_NUMBER_AT(struct_, member)  OPTION_AT(OPTION_NUMBER, double, struct_, member)
#define OPTION_TEXTS_AT(struct_, member)   OPTION_AT(OPTION_TEXTS, option_texts, struct_, member)

/* The values of an option that may be given several times, in order. */
enum { MOST_TEXTS = 16 };
typedef struct option_texts {
    const char *items[MOST_TEXTS];
    int         count;
} option_texts;

/* Help that several subcommands share. */
#define GROUP_HELP                                                                                                     \
    "mpi: the processes that the MPI library finds; nccl: the same, with their GPUs connected by NCCL; none: this "    \
    "process; auto: nccl if each rank has an NVIDIA GPU of its own, else mpi, and none without a launcher"
#define DEVICE_HELP "Where to compute: cpu, gpu, opencl:0, auto ...; haul devices lists them"
#define JSON_HELP   "Print JSON lines on standard output, and nothing else"

/* A list of choices for a row. */
#define OPTION_CHOICES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* What follows the options. A single operand is a const char * in the subcommand's struct; several are an operand_list,
 * which points into argv. */
typedef struct operand_list {
    char **items;
    int    count;
} operand_list;

typedef struct option_operand {
    const char        *name; /* as usage names it, "FILE"; NULL: none is taken */
    const char        *help;
    size_t             offset;
    bool               several, required;
    const char *const *choices;
    option_completion  complete;

    const struct command *options_of; /* operands are options of this subcommand, after "--"; NULL: they are not */
} option_operand;

typedef struct help_example {
    const char *line, *help;
} help_example;

/* argv[0] is the subcommand's name. */
typedef int command_main(int argc, char **argv);

typedef struct command {
    const char         *name;
    const char         *summary;     /* half a line, in the list of subcommands */
    const char         *usage;       /* what follows the name: "[OPTION...]" */
    const char         *description; /* a paragraph */
    const option       *options;
    int                 option_count; /* at most MOST_OPTIONS */
    option_operand      operand;
    const help_example *examples; /* ended by a NULL line */
    command_main       *run;
} command;

enum { MOST_OPTIONS = 64 };

/* The values of a subcommand's options, and which of them were on the command line. */
typedef struct option_values {
    const command *command;
    void          *values;              /* the subcommand's struct */
    uint64_t       given;               /* a bit for each row */
    const char    *texts[MOST_OPTIONS]; /* of given rows, as typed */
} option_values;

/* Defaults first, then argv. -1: go on; else the exit code to end with (help was printed, or a complaint). */
int options_parse(option_values *o, const command *command, void *values, int argc, char **argv);

bool option_given(const option_values *o, const char *name);

/* Set a text, as if it had been on the command line. */
void option_give(option_values *o, const char *name, const char *text);

/* The options that were given, as words of a shell's command line: " --model resnet18 --lr 0.1". Those whose names are
 * in `without` (ended by NULL) are left out. To free; NULL when memory is exhausted. */
char *options_line(const option_values *o, const char *const *without);

/* ---- in files ---- */

/* The options that are kept, as a flat JSON object of their names; a text that is NULL and
 * a number that has no default and was not given are left out. Numbers have as
 * many digits as bring back all their bits. NULL when memory is exhausted. */
cJSON *options_to_json(const option_values *o);

/* Take values from an object of this form, which came from the file `where`, for options that were not given. Texts
 * stay in the object. False after a complaint: an unknown name, a name that is there twice, a value that does not fit.
 */
bool options_from_json(option_values *o, const cJSON *object, const char *where);

/* The same for a run that goes on: the object must have every option that is kept, and an option that was given must
 * have the object's value, unless it is one that changes. */
bool options_resume(option_values *o, const cJSON *object, const char *where);

#endif

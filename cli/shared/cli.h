/* What the subcommands share: exit codes, complaints, and small texts. */
#ifndef CLI_SHARED_CLI_H
#define CLI_SHARED_CLI_H

#include <haul/haul.h>
#include <stdio.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_DIVERGED = 3, EXIT_MEMORY = 4, EXIT_INTERRUPTED = 130 };

/* One line on standard error, "haul train: ...". complain_error prints the library's error. Both return EXIT_FAILED. */
void complain_as(const char *subcommand);
int  complain(const char *format, ...) HAUL_PRINTF(1, 2);
int  complain_error(void);
/* Another sentence of the complaint before, on a line of its own. */
void complain_more(const char *format, ...) HAUL_PRINTF(1, 2);

/* The calling thread is a rank, one of several threads of the process: its complaints name it, unless the device is "".
 * They are printed only if no other rank's were, and if they are not about the failure of another rank. */
void complain_as_rank(int number, const char *device);

/* The rank whose complaints were printed; -1: none. */
int complain_heard(void);

/* The library's error without the name of a function, which says nothing to who typed a command. */
const char *error_text(void);

/* The next complaint becomes a text of `size` bytes, without "haul train:", and is not printed; those after it are
 * dropped. NULL: complaints are printed again. */
void complain_into(char *out, size_t size);

/* True if everything has reached standard output so far. Complains when it is found out that something did not. */
bool output_works(void);

/* Texts from files and from the user may hold what a terminal obeys. These show it: "\n", "\x1b", "\u202e". The first
 * fills a buffer, cut at its end. The second prints, padded with spaces to `width` columns. */
void visible_text(char *out, size_t size, const char *text);
void print_visible(const char *text, int width);
void fput_visible(FILE *out, const char *text); /* without padding, anywhere */

/* The bytes of the character at `text`, and its number. A byte that is not UTF-8 has the number UINT32_MAX. */
size_t character_at(const char *text, uint32_t *code);

/* The same for a character that a terminal would obey; else 0. */
size_t obeyed_length(const char *text, uint32_t *code);

bool is_utf8(const char *text);

/* The device of that name, which new tensors are made on; NULL after a complaint, which suggests a near name. */
haul_device *device_use(const char *name);

/* True if the device computes values. Otherwise complains that nothing can be `done` ("learned") there, with `instead`
 * at the end. */
bool computes_values(const haul_device *device, const char *done, const char *instead);

/* The entry of `names` (ended by NULL) that was probably meant by `wrong`; NULL when none is near. */
const char *did_you_mean(const char *wrong, const char *const *names);

/* A text as a word of a shell's command line, in single quotes where it needs them. */
const char *shell_text(char *out, size_t size, const char *text);

/* "--lr, --batch and --seed": the names (ended by NULL) with `before` in front of each, and `word` before the last. */
const char *list_text(char *out, size_t size, const char *const *names, const char *before, const char *word);

/* Texts for people, in a ring of buffers: valid for the next few calls. */
const char *text_bytes(int64_t bytes);    /* "12.3 MiB" */
const char *text_count(int64_t n);        /* "62,006" */
const char *text_seconds(double seconds); /* "12.3 us", "4.1 s", "3 min 5 s" */
const char *text_ps(int64_t ps);          /* the same of picoseconds */
/* In the unit that suits `like`, the largest time of the column or sentence, so that all of them have the same unit. */
const char *text_seconds_like(double seconds, double like);
const char *text_ps_like(int64_t ps, int64_t like);
const char *text_flops(double flops);            /* "1.23 GFLOP" */
const char *text_joules(double joules);          /* "1.23 mJ" */
const char *text_rate(int64_t rate, bool flops); /* "12.3 GB/s", or "12.3 GFLOP/s" */
const char *text_shape(const haul_shape *shape); /* "[64,3,32,32]" */

/* A number of a file or of a clock without its fraction; what a range does not hold becomes its nearest end, and NaN
 * the number of the range that is nearest to 0. */
int64_t whole_number(double value);
int     whole_within(double value, int low, int high);

/* The median of at least one value, which it sorts; of an even number the larger one of the two in the middle. */
double median_of(double *values, size_t count);

double clock_seconds(void); /* of the clock of the process: virtual while a simulated device is in use */

/* The seconds since then, in whole nanoseconds: those of two runs in virtual time are equal whenever they began. */
double clock_since(double began);

/* Ctrl-C, SIGTERM and SIGHUP ask to stop; a second Ctrl-C or SIGTERM ends the program at once. A reader of standard
 * output that goes away is a failed write from then on, and not the end of the program. */
void interrupt_catch(void);
bool interrupted(void);

#endif

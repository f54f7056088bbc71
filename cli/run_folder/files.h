/* The rules for the files in the folder of a run. Each is a regular file with one name, or is not there yet: a training
 * neither follows links there nor writes into a file that has another name elsewhere, and never waits for a pipe. What
 * a training has open must keep its name. */
#ifndef CLI_RUN_FOLDER_FILES_H
#define CLI_RUN_FOLDER_FILES_H

#include <stdbool.h>
#include <stdio.h>

/* Open a file of a run without following links, with the flags of open(); O_CREAT follows the umask. -1 after a
 * complaint. */
int run_file_open(const char *path, int flags);

/* The same for reading, from `offset` on. NULL without a word if there is no file, else after a complaint. */
typedef enum run_file_state { RUN_FILE_OPEN, RUN_FILE_ABSENT, RUN_FILE_UNFIT } run_file_state;
run_file_state run_file_read(const char *path, long long offset, FILE **out);

/* True if the name is free, or is a file with one name; false after a complaint. */
bool run_file_fits(const char *path);

/* True if the name still refers to the open file. Prints nothing. Follows links if `is_folder`. */
bool run_file_is_named(int fd, const char *path, bool is_folder);

#endif

/* The page of a process that publishes: its fixed layout, its name, and the folders that pages are in
 * (docs/decisions/023-published-pages.md).
 *
 * A page is a file in memory, written and read by calls of the system instead of through a mapping: a truncated file
 * would end a process that has it mapped. Its sequence number is odd while the writer is at work, and a checksum covers
 * what follows, so a reader never uses half an update. */
#ifndef HAUL_OBSERVE_WATCH_PUBLISHED_PAGE_H
#define HAUL_OBSERVE_WATCH_PUBLISHED_PAGE_H

#include <haul/publish.h>
#include <stddef.h>
#include <sys/types.h>

#define HAUL__PAGE_MAGIC "HAULPAGE"
enum { HAUL__PAGE_VERSION = 5, HAUL__PAGE_FOLDERS = 4, HAUL__PAGE_PATH = 256, HAUL__PAGE_NAME = 96 };

/* Numbers that are not known are -1. */
typedef struct haul__page {
    char     magic[8];
    uint32_t version, size;
    uint64_t sequence; /* odd while the page is being written */
    uint64_t checksum; /* of everything after it */
    int64_t  pid, started;
    int64_t  began, written; /* nanoseconds of haul__system_ns, which all processes share */
    int64_t  steps, examples, epoch, epochs;
    int64_t  copies, copied_bytes, waits;
    int64_t  rank, ranks, sent_bytes; /* of a process with a launcher */
    double   step_seconds, examples_per_second, copies_per_second, bytes_per_second, waits_per_second, waiting;
    double   seconds_left, loss, accuracy, sent_per_second;
    int64_t  device_count, devices_left_out;
    char     name[HAUL__PAGE_NAME];

    haul_published_device devices[HAUL_PUBLISHED_DEVICES];
} haul__page;

uint64_t haul__page_checksum(const haul__page *page);

/* Copies a text, cut between two characters if it is too long, with a question mark for each byte that is not UTF-8. */
void haul__page_text(char *out, size_t size, const char *text);

/* Writes the fault of the page to `why`; false if it can be used. Everything is checked: the kind of file, its version,
 * its checksum, texts, and the range of each number. `size` is that of the file. */
bool haul__page_is_wrong(const haul__page *page, size_t size, char *why, size_t why_size);

/* True if the process may write files of this size. Beyond its limit on file sizes a signal would end it. Sets errno if
 * not. */
bool haul__page_may_be_written(void);

/* Writes the page over the one in the file, with its checksum and the next sequence number. */
bool haul__page_write(int file, haul__page *page);

/* Reads the page between two updates. False, with the reason in words, if the page cannot be used. */
bool haul__page_read(int file, haul__page *page, char *why, size_t size);

/* A process as the system knows it. */
typedef struct haul__process {
    char    state;   /* 'R', 'S', 'T', 'Z' ... as in /proc/PID/stat */
    int64_t started; /* clock ticks since the system started: distinguishes processes with one number */
    char    command[32];
} haul__process;

/* False if there is none, or /proc does not have it. */
bool haul__process_look(int64_t pid, haul__process *out);

/* What processes of one container have in common; 0 if it is unknown. */
uint64_t haul__process_space(void);

/* The name of a page's file, "SPACE-PID-STARTED.page". */
typedef struct haul__page_id {
    uint64_t space;
    int64_t  pid, started;
} haul__page_id;

void haul__page_file(const haul__page_id *id, char out[HAUL__PAGE_PATH]);

/* Reads it back. False for any other file. */
bool haul__page_parse(const char *file, haul__page_id *out);

/* The folders that pages may be in, in the order of preference; returns how many. None if HAUL_PUBLISH is "off". */
int haul__page_folders(char out[HAUL__PAGE_FOLDERS][HAUL__PAGE_PATH]);

/* Opens a folder that is private to this user. With `make`, makes it if it is missing. -1, with the reason in words. */
int haul__page_open_folder(const char *path, bool make, char *why, size_t size);

#endif

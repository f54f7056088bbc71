/* One file from the network into an open file: tries, continues, and checks. */
#ifndef HAUL_FETCH_DOWNLOAD_H
#define HAUL_FETCH_DOWNLOAD_H

#include <haul/fetch.h>

#define HAUL__FETCH "haul_fetch"

typedef struct haul__download {
    const haul_fetch_options *options; /* with defaults filled in */
    const char               *url;     /* for messages: without a password */
    const char               *path;    /* where the file will be, for messages */
    int                       fd;      /* the part that is there, open for reading and writing */
    bool                      useless; /* after a failure: the part cannot be continued */
} haul__download;

/* Fetches the rest of the file, or all of it, and checks its SHA-256. */
haul_status haul__download_run(haul__download *t);

/* HAUL_OK if the open file has the wanted SHA-256, or if none is wanted. `what` begins the message: "the file from X".
 */
haul_status haul__check_sha256(int fd, const char *what, const haul_fetch_options *options, const char *fix);

#endif

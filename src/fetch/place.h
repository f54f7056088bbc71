/* Where fetched files are: their names, locks, marks that they were checked, and the limit of all of them. */
#ifndef HAUL_FETCH_PLACE_H
#define HAUL_FETCH_PLACE_H

#include <haul/fetch.h>

/* Paths, which haul__fetch_place_free frees. */
typedef struct haul__fetch_place {
    char *folder, *path, *part;
    char *mark;   /* a file with the SHA-256 that was checked */
    bool  cached; /* in the cache, which has a limit */
} haul__fetch_place;

haul_status haul__fetch_place_init(haul__fetch_place *place, const haul_fetch_options *options);
void        haul__fetch_place_free(haul__fetch_place *place);

/* Sets *found if the file is there; fails if it has another SHA-256. */
haul_status haul__fetch_find(const haul__fetch_place *place, const haul_fetch_options *options, bool *found);

/* Opens the part, and waits until no other process or thread fetches the file. *fd is -1 if another one completed it.
 */
haul_status haul__fetch_lock(const haul__fetch_place *place, const haul_fetch_options *options, int *fd);

/* Gives the complete part its name, and removes what the cache has no room for. */
haul_status haul__fetch_finish(const haul__fetch_place *place, const haul_fetch_options *options, int fd);

#endif

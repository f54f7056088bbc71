/* Storages whose elements another process has (parallel/parts.h). Their memory comes when a command or the host uses
 * them, and is given up again. A storage stays where it is, as a spilled one does, so views and graphs that hold it see
 * its elements when it is used.
 *
 * The program uses these storages in one thread at a time. What it writes to them is lost when they are given up. */
#ifndef HAUL_MEMORY_SPILL_ELSEWHERE_H
#define HAUL_MEMORY_SPILL_ELSEWHERE_H

#include "device/device.h"

/* Where the elements are. */
typedef struct haul__elsewhere haul__elsewhere;
struct haul__elsewhere {
    /* A storage comes: gives up others, whose memory it may take, but none that `c` uses. A command of the kind
     * HAUL__COMMAND_CALLBACK is an access of the host, which may go on for any time. */
    void (*before)(haul__elsewhere *e, int64_t number, const haul__command *c);
    /* Writes the elements to host memory. */
    haul_status (*fetch)(haul__elsewhere *e, int64_t number, void *to, size_t bytes);
    bool out_of_reach; /* a use brings no elements, so what loads values leaves the storage out */
};

/* True if the storage has memory that can be given up. */
bool haul__elsewhere_suits(const haul__storage *storage);

/* From here on the elements are at `e`, under this number, and the storage has no memory until it is used. Fails if
 * there is no host memory. */
haul_status haul__elsewhere_begin(haul__storage *storage, haul__elsewhere *e, int64_t number);

/* Gives up the memory. False if it stays, because something relies on its address. */
bool haul__elsewhere_leave(haul__storage *storage);

/* Brings the elements, as an access of the host does. */
haul_status haul__elsewhere_come(haul__storage *storage, const char *operation);

/* The elements that come from here on are other ones: copies in other forms are dropped. */
void haul__elsewhere_change(haul__storage *storage);

/* The storage keeps what it has. If that is nothing, each use fails from here on. */
void haul__elsewhere_end(haul__storage *storage);

/* True between the beginning and the end; and if it has no memory now. */
bool haul__is_elsewhere(const haul__storage *storage);
bool haul__is_given_up(const haul__storage *storage);
/* True if it has no memory now, and no use brings it. */
bool haul__is_out_of_reach(const haul__storage *storage);

#endif

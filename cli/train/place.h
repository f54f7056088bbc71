/* Modules of the network on devices of their own: --place, or --plan with a certificate of haul plan. */
#ifndef CLI_TRAIN_PLACE_H
#define CLI_TRAIN_PLACE_H

#include <haul/haul.h>

/* A module, or with a pattern several. */
typedef struct place_entry {
    char         path[80];
    bool         exact; /* the path of one module; else a pattern for a module's path or one around it */
    haul_device *device;
} place_entry;

typedef struct place_list {
    place_entry *items;
    size_t       count, room;
    char         program[17]; /* of a plan: the digest of its step; "" otherwise */
} place_list;

/* Either text may be NULL. False after a complaint: a form that is wrong, or a device that cannot be used. place_free
 * is due in any case. */
bool place_read(const char *place, const char *plan, place_list *out);
void place_free(place_list *l);

/* One module by its path, unless there is one already. False after a complaint. */
bool place_add(place_list *l, const char *path, haul_device *device);

/* True if the plan is for this step. False after a complaint. */
bool place_suits(const place_list *l, const char *plan, const haul_program *step);

/* Moves the modules and makes them compute there; other modules are on `rest`, and operations outside modules run where
 * most of their bytes are. Without entries nothing changes. Fails if an entry is for no module, and if a module has two
 * devices. */
haul_status place_modules(const place_list *l, haul_module *net, haul_device *rest);

/* "conv1, conv2 on opencl:0; fc1 on cpu": the modules that have parameters. "": nothing is placed. */
void place_text(const place_list *l, haul_module *net, haul_device *rest, char *out, size_t size);

#endif

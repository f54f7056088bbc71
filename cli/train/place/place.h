/* Modules of the network on devices of their own: --place, or --plan with a certificate of haul plan. */
#ifndef CLI_TRAIN_PLACE_PLACE_H
#define CLI_TRAIN_PLACE_PLACE_H

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
    haul_plan   *plan; /* with a reference; NULL: --place */
} place_list;

/* Either text may be NULL. False after a complaint: a form that is wrong, or a device that cannot be used. place_free
 * is due in any case. */
bool place_read(const char *place, const char *plan, place_list *out);
void place_free(place_list *l);

/* Lists the modules of the plan with their devices, for place_text. False after a complaint. */
bool place_list_modules(place_list *l);

/* True if the plan is for this step. */
bool place_is_for(const place_list *l, const haul_program *step);

/* Likewise, and false after a complaint. */
bool place_suits(const place_list *l, const char *plan, const haul_program *step);

/* Puts the plan into force, for the innermost scope. Without one, moves the modules and makes them compute there; other
 * modules are on `rest`, and operations outside modules run where most of their bytes are. Without entries nothing
 * changes. Fails if an entry is for no module, and if a module has two devices. */
haul_status place_modules(const place_list *l, haul_module *net, haul_device *rest);

/* Where the loader brings the data: with a plan where the largest tensor of it is used first, else `rest`. */
haul_device *place_of_data(const place_list *l, haul_device *rest);

/* "conv1, conv2 on opencl:0; fc1 on cpu": the modules that have parameters. "": nothing is placed. */
void place_text(const place_list *l, haul_module *net, haul_device *rest, char *out, size_t size);

#endif

/* Pictures by the endings of their names. */
#ifndef HAUL_DATA_IMAGE_ENDINGS_H
#define HAUL_DATA_IMAGE_ENDINGS_H

#include "data/folder.h"

/* JPEG and PNG files. */
haul__wanted_entry haul__is_picture;
haul__wanted_entry haul__is_png;

/* Pictures that no decoder here reads, which would otherwise be ignored silently. */
haul__wanted_entry haul__is_foreign_picture;

/* The length of a name without its ending. */
size_t haul__stem_length(const char *name);

#endif

/* Pictures by the endings of their names. */
#ifndef HAUL_DATA_IMAGE_ENDINGS_H
#define HAUL_DATA_IMAGE_ENDINGS_H

#include "data/folder.h"

/* JPEG and PNG files. */
haul__wanted_entry haul__is_picture;
haul__wanted_entry haul__is_png;

/* Fails if the folder has pictures that no decoder here reads, by their names. */
haul_status haul__refuse_foreign_pictures(const haul__archive *archive, const char *folder, const char *operation);

/* Keeps the pictures below a folder of an archive in memory, if that is necessary to read them. */
haul_status haul__keep_pictures(haul__archive *archive, const char *folder);

/* The length of a name without its ending. */
size_t haul__stem_length(const char *name);

#endif

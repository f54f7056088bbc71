/* Text from files as parts of messages. */
#ifndef HAUL_BASE_TEXT_QUOTED_H
#define HAUL_BASE_TEXT_QUOTED_H

/* A name from a file in the form for a message: on one line, shortened. Returns buffer. */
#define HAUL__QUOTED_SIZE 80
char *haul__quoted(const char *name, char buffer[HAUL__QUOTED_SIZE]);

#endif

/* How far apart two words are, for messages about misspelt names. */
#ifndef HAUL_BASE_TEXT_SPELLING_H
#define HAUL_BASE_TEXT_SPELLING_H

/* Optimal string alignment distance: the number of letters that are missing, too many, wrong, or swapped with their
 * neighbour. Words of more than 63 letters are 64 apart. */
int haul__spelling_distance(const char *a, const char *b);

#endif

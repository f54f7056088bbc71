/* Stacks of return addresses as numbers: each different one is stored once. Number 0 is the empty one. */
#ifndef HAUL_OBSERVE_PROFILE_STACKS_H
#define HAUL_OBSERVE_PROFILE_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HAUL__STACK_FRAMES = 32 };

typedef struct haul__stack {
    uint64_t hash;
    uint32_t operation; /* the number of a text: the first function that was called there */
    int      count;
    void    *frames[HAUL__STACK_FRAMES];
} haul__stack;

/* A program copies and waits in few places. */
typedef struct haul__stacks {
    haul__stack *items;
    size_t       count, room;
} haul__stacks;

/* The number of a stack; 0 without memory for a new one, or if there are more than a thousand. */
uint32_t haul__stacks_number(haul__stacks *s, void *const *frames, int count, uint32_t operation);
void     haul__stacks_close(haul__stacks *s);

#endif

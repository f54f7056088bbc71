/* What reading and writing PNG share. libpng's errors jump to the function that called setjmp and become messages;
 * nothing is printed, nothing exits. Its memory is the library's own. Both pointers that libpng keeps are to a
 * png_guard. */
#ifndef HAUL_DATA_IMAGE_PNG_GUARD_H
#define HAUL_DATA_IMAGE_PNG_GUARD_H

#include <png.h>
#include <stdio.h>

#include "base/alloc.h"

typedef struct png_guard {
    bool exhausted; /* memory */
    char message[128];
} png_guard;

static void give_up(png_struct *png, const char *message)
{
    png_guard *guard = png_get_error_ptr(png);
    snprintf(guard->message, sizeof guard->message, "%s", message);
    png_longjmp(png, 1);
}

static void say_nothing(png_struct *png, const char *message)
{
    (void)png;
    (void)message;
}

static void *allocate(png_struct *png, png_alloc_size_t bytes)
{
    png_guard *guard = png_get_mem_ptr(png);
    void      *memory = haul__malloc(bytes);
    guard->exhausted = guard->exhausted || !memory;
    return memory;
}

static void release(png_struct *png, void *memory)
{
    (void)png;
    haul__free(memory);
}

#endif

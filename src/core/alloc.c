/* Host memory: malloc with a count of live blocks, a place where tests make calls fail, and lists of freed small
 * structures, one set a thread. */
#include "core/alloc.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/thread.h"

/* --- failures on demand --- */

atomic_uint         haul__fault_kinds;
static atomic_llong planned_call;
static atomic_llong calls;

bool haul__fault_counted(void)
{
    return atomic_fetch_add(&calls, 1) + 1 == atomic_load(&planned_call);
}

void haul__fault_plan(unsigned kinds, int64_t nth)
{
    atomic_store(&haul__fault_kinds, 0);
    if (nth <= 0)
        return;
    atomic_store(&calls, 0);
    atomic_store(&planned_call, nth);
    atomic_store(&haul__fault_kinds, kinds);
}

int64_t haul__fault_count(void)
{
    return atomic_load(&calls);
}

/* --- counted blocks --- */

static void count(int delta)
{
    haul__context *context = haul__context_get();
    if (!context) {
        haul__context_count_stray(delta);
        return;
    }
    long long blocks = atomic_load_explicit(&context->blocks, memory_order_relaxed);
    atomic_store_explicit(&context->blocks, blocks + delta, memory_order_relaxed);
}

int64_t haul__host_blocks(void)
{
    return haul__context_blocks();
}

void *haul__malloc(size_t bytes)
{
    if (haul__fault_point(HAUL__FAULT_HOST) || bytes > PTRDIFF_MAX)
        return NULL;
    void *p = malloc(bytes ? bytes : 1);
    if (p)
        count(1);
    return p;
}

void *haul__calloc(size_t items, size_t size)
{
    size_t bytes;
    if (haul__fault_point(HAUL__FAULT_HOST) || __builtin_mul_overflow(items, size, &bytes) || bytes > PTRDIFF_MAX)
        return NULL;
    void *p = bytes ? calloc(items, size) : calloc(1, 1);
    if (p)
        count(1);
    return p;
}

void *haul__realloc(void *old, size_t items, size_t size)
{
    size_t bytes;
    if (haul__fault_point(HAUL__FAULT_HOST) || __builtin_mul_overflow(items, size, &bytes) || bytes > PTRDIFF_MAX)
        return NULL;
    void *p = realloc(old, bytes ? bytes : 1);
    if (p && !old)
        count(1);
    return p;
}

void haul__free(void *p)
{
    if (!p)
        return;
    count(-1);
    free(p);
}

char *haul__strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char  *copy = haul__malloc(bytes);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

char *haul__format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        return NULL;
    char *text = haul__malloc((size_t)length + 1);
    if (!text)
        return NULL;
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

bool haul__grow(void *items, size_t *capacity, size_t wanted, size_t element_size)
{
    if (wanted <= *capacity)
        return true;
    size_t room = *capacity > SIZE_MAX / 2 ? wanted : *capacity * 2;
    if (room < wanted)
        room = wanted;
    if (room < 8)
        room = 8;
    void *old; /* items points to a pointer of a type we do not know */
    memcpy(&old, items, sizeof old);
    void *grown = haul__realloc(old, room, element_size);
    if (!grown)
        return false;
    memcpy(items, &grown, sizeof grown);
    *capacity = room;
    return true;
}

/* --- small structures --- */

struct haul__spare {
    haul__spare *next;
};

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SANITIZED)
enum { SPARE_BYTES = 0 }; /* each freed block goes back at once, so that later uses of it are seen */
#else
enum { SPARE_BYTES = 256 << 10 }; /* of a size and thread: a scope with a thousand tensors frees as much together */
#endif

static size_t small_class(size_t bytes)
{
    return bytes ? (bytes - 1) / HAUL__SMALL_STEP : 0;
}

void *haul__small_alloc(size_t bytes)
{
    size_t class = small_class(bytes);
    haul__context *context = &haul__tls; /* a list with something in it belongs to a registered context */
    if (class >= HAUL__SMALL_CLASSES)
        return haul__malloc(bytes);
    haul__spare *spare = context->spare[class];
    if (!spare)
        return haul__malloc((class + 1) * HAUL__SMALL_STEP);
    if (haul__fault_point(HAUL__FAULT_HOST))
        return NULL;
    context->spare[class] = spare->next;
    context->spare_count[class]--;
    count(1);
    return spare;
}

static bool has_room(const haul__context *context, size_t class)
{
    return ((size_t)context->spare_count[class] + 1) * (class + 1) * HAUL__SMALL_STEP <= SPARE_BYTES;
}

void haul__small_free(void *p, size_t bytes)
{
    size_t class = small_class(bytes);
    haul__context *context = haul__context_get();
    if (!p)
        return;
    if (class >= HAUL__SMALL_CLASSES || !context || !has_room(context, class)) {
        haul__free(p);
        return;
    }
    haul__spare *spare = p;
    spare->next = context->spare[class];
    context->spare[class] = spare;
    context->spare_count[class]++;
    count(-1);
}

void haul__small_release_all(void)
{
    for (int class = 0; class < HAUL__SMALL_CLASSES; class ++) {
        while (haul__tls.spare[class]) {
            haul__spare *spare = haul__tls.spare[class];
            haul__tls.spare[class] = spare->next;
            free(spare); /* was counted when it was put here */
        }
        haul__tls.spare_count[class] = 0;
    }
}

/* Memory of the CPU device, its copies and fills.
 *
 * Small blocks come from malloc. Blocks from 2 MiB on are mappings of huge pages, whose page faults take a quarter of
 * the time. A buffer's handle is the length of the mapping, or NULL for malloc. Threads share large copies, because a
 * single thread does not saturate the memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/cpu/cpu.h"
#include "base/assert.h"
#include "base/copy_uncached.h"
#include "base/system/free_memory.h"
#include "core/pool.h"

enum { ALIGNMENT = 64, LINE = 64, HUGE_PAGE = 2 << 20, PIECE = 512 << 10, SHARED_FROM = 1 << 20 };
/* Copies that write so many bytes go past the caches; less may stay in them. */
#define NONTEMPORAL_FROM (HAUL__UNCACHED_FROM / 2)

/* A mapping of `bytes`, a multiple of HUGE_PAGE, aligned to that; NULL if there is none. */
static void *map_huge(size_t bytes)
{
    HAUL__ASSERT(bytes > 0 && bytes % HUGE_PAGE == 0);
    size_t all = bytes + HUGE_PAGE;
    char  *start = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)start % HUGE_PAGE) % HUGE_PAGE;
    if (before > 0)
        munmap(start, before);
    if (HUGE_PAGE - before > 0)
        munmap(start + before + bytes, HUGE_PAGE - before);
    madvise(start + before, bytes, MADV_HUGEPAGE); /* advice only */
    return start + before;
}

haul_status haul__cpu_alloc(haul_device *device, size_t bytes, const haul__buffer_address *of, haul__buffer *out)
{
    HAUL__ASSERT(!of); /* parts of its buffers need no handles */
    (void)of;
    *out = (haul__buffer){NULL, NULL};
    if (bytes >= HUGE_PAGE && bytes <= SIZE_MAX / 2) {
        size_t length = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        out->host = map_huge(length);
        out->handle = out->host ? (void *)(uintptr_t)length : NULL;
    } else if (posix_memalign(&out->host, ALIGNMENT, bytes) != 0) {
        out->host = NULL;
    }
    if (!out->host)
        return haul__fail(HAUL_OUT_OF_MEMORY, NULL, NULL, "%s: the system cannot provide %zu bytes", device->name,
                          bytes);
    HAUL__ASSERT((uintptr_t)out->host % ALIGNMENT == 0);
    return HAUL_OK;
}

void haul__cpu_free(haul_device *device, haul__buffer *buffer)
{
    (void)device;
    HAUL__ASSERT((uintptr_t)buffer->handle % HUGE_PAGE == 0);
    if (buffer->handle)
        munmap(buffer->host, (uintptr_t)buffer->handle);
    else
        free(buffer->host);
    *buffer = (haul__buffer){NULL, NULL};
}

void haul__cpu_describe(haul_device *device, haul__description what, char *out, size_t size)
{
    const int64_t bytes = what == HAUL__FREE_BYTES ? haul__free_memory("") : -1;
    (void)device;
    out[0] = 0;
    if (bytes >= 0)
        snprintf(out, size, "%lld", (long long)bytes);
}

typedef struct move {
    char       *to;
    const char *from;
    size_t      pattern; /* for a fill: bytes of `from`, which are repeated */
    bool        nontemporal;
} move;

static void copy_range(void *context, int64_t first, int64_t last)
{
    const move  *m = context;
    const size_t bytes = (size_t)(last - first);
    if (m->nontemporal)
        haul__copy_uncached(m->to + first, m->from + first, bytes);
    else
        memcpy(m->to + first, m->from + first, bytes);
}

static haul_status copy(char *to, const char *from, size_t bytes)
{
    move m = {to, from, 0, bytes >= NONTEMPORAL_FROM};
    if (bytes < SHARED_FROM)
        memcpy(to, from, bytes);
    else
        haul__parallel_for((int64_t)bytes, PIECE, copy_range, &m);
    return HAUL_OK;
}

static char *address_of(const haul__region *r)
{
    return (char *)r->storage->buffer.host + r->offset;
}

haul_status haul__cpu_write(haul__stream *s, const haul__command *c)
{
    (void)s;
    return copy(address_of(&c->buffers[0]), haul__command_source(c), c->bytes);
}

haul_status haul__cpu_read(haul__stream *s, const haul__command *c)
{
    (void)s;
    return copy(haul__command_target(c), address_of(&c->buffers[c->buffer_count - 1]), c->bytes);
}

haul_status haul__cpu_copy(haul__stream *s, const haul__command *c)
{
    (void)s;
    return copy(address_of(&c->buffers[0]), address_of(&c->buffers[1]), c->bytes);
}

/* `line` again and again: it repeats a pattern of 8 bytes or fewer. The processor's own instruction for it does not
 * read the memory first. Stores of vectors, past the caches or not, take a fifth longer in large memory (Intel Xeon),
 * and stores past the caches take longest on others (AMD EPYC). */
#if defined(__x86_64__)
static void fill_lines(char *to, const char *line, size_t lines)
{
    size_t   words = lines * (LINE / sizeof(uint64_t));
    uint64_t word;
    memcpy(&word, line, sizeof word);
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(words) : "a"(word) : "memory");
}
#else
static void fill_lines(char *to, const char *line, size_t lines)
{
    for (size_t i = 0; i < lines; i++)
        memcpy(to + i * LINE, line, LINE);
}
#endif

/* Patterns are powers of two, and a piece is a multiple of each. */
static void fill_range(void *context, int64_t first, int64_t last)
{
    const move  *m = context;
    char        *to = m->to + first, line[LINE];
    const size_t bytes = (size_t)(last - first), done = bytes / LINE * LINE;
    if (m->pattern == 1) {
        memset(to, m->from[0], bytes);
        return;
    }
    HAUL__ASSERT(LINE % m->pattern == 0 && first % (int64_t)m->pattern == 0);
    memcpy(line, m->from, m->pattern);
    for (size_t n = m->pattern; n < LINE; n *= 2)
        memcpy(line + n, line, n);
    if (done)
        fill_lines(to, line, done / LINE);
    memcpy(to + done, line, bytes - done);
}

haul_status haul__cpu_fill(haul__stream *s, const haul__command *c)
{
    static const char none[8] = {0};
    bool              zeros = memcmp(&c->pattern, none, c->pattern_size) == 0; /* the common case is a memset */
    move              m = {
                     .to = address_of(&c->buffers[0]), .from = (const char *)&c->pattern, .pattern = zeros ? 1 : c->pattern_size};
    (void)s;
    if (c->bytes < SHARED_FROM)
        fill_range(&m, 0, (int64_t)c->bytes);
    else
        haul__parallel_for((int64_t)c->bytes, PIECE, fill_range, &m);
    return HAUL_OK;
}

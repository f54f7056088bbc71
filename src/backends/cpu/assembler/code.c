#include "backends/cpu/assembler/code.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

haul__code haul__code_make(const unsigned char *instructions, size_t bytes)
{
    const long   page = sysconf(_SC_PAGESIZE);
    const size_t size = page > 0 ? (bytes + (size_t)page - 1) / (size_t)page * (size_t)page : 0;
    void *pages = size ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (pages == MAP_FAILED)
        return (haul__code){.pages = NULL};
    memcpy(pages, instructions, bytes);
    if (mprotect(pages, size, PROT_READ | PROT_EXEC) != 0) {
        munmap(pages, size);
        return (haul__code){.pages = NULL};
    }
    return (haul__code){.pages = pages, .bytes = size};
}

void haul__code_free(haul__code *code)
{
    if (code->pages)
        munmap(code->pages, code->bytes);
    code->pages = NULL;
}

/* Fuzzing the check of published pages: any bytes as a page, with the right magic, version, size and checksum, so that
 * the checks behind these have to hold. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "observe/watch/published_page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* What readers rely on. */
static void check(const haul__page *p)
{
    must(strlen(p->name) < sizeof p->name && p->device_count >= 0 && p->device_count <= HAUL_PUBLISHED_DEVICES);
    must(isfinite(p->step_seconds) && isfinite(p->seconds_left) && p->waiting <= 1);
    must(p->steps >= -1 && p->copied_bytes >= -1);
    for (int64_t i = 0; i < p->device_count; i++) {
        must(memchr(p->devices[i].name, 0, sizeof p->devices[i].name) != NULL);
        must(memchr(p->devices[i].bus, 0, sizeof p->devices[i].bus) != NULL);
        must(p->devices[i].allocated >= -1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    haul__page page = {.version = HAUL__PAGE_VERSION};
    char       why[160], text[24];
    haul__page_is_wrong(&page, size, why, sizeof why);
    memcpy((char *)&page + 32, data, size < sizeof page - 32 ? size : sizeof page - 32);
    memcpy(page.magic, HAUL__PAGE_MAGIC, sizeof page.magic);
    page.size = sizeof page;
    page.checksum = haul__page_checksum(&page);
    if (!haul__page_is_wrong(&page, sizeof page, why, sizeof why)) {
        check(&page);
        haul__page_text(text, sizeof text, page.name);
    }
    must(strlen(why) < sizeof why);
    return 0;
}

/* Where in the program stacks are: lines of source if there is debug information, otherwise functions. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/call_site.h"
#include "observe/profile/analysis.h"
#include "observe/profile/source_line.h"

bool haul__find_call_sites(haul_profile *p, haul__analysis *a)
{
    char text[400];
    a->call_sites = haul__calloc(p->stacks.count + 1, sizeof *a->call_sites);
    if (!a->call_sites || p->stacks.count == 0)
        return a->call_sites != NULL;
    haul__lines *lines = haul__lines_open();
    for (size_t i = 0; i < p->stacks.count; i++) {
        const haul__stack *s = &p->stacks.items[i];
        const char        *operation = haul__profile_text(p, s->operation);
        if (!haul__lines_caller(lines, s->frames, s->count, operation, text, sizeof text))
            haul__describe_call_site(s->frames, s->count, operation, text, sizeof text);
        HAUL__ASSERT(0 < s->count && s->count <= HAUL__STACK_FRAMES && s->operation < p->texts.count);
        a->call_sites[i + 1] = haul__texts_number(&p->texts, text);
    }
    haul__lines_close(lines);
    return true;
}

/* Where in the program stacks are: lines of source if there is debug information, otherwise functions. */
#include "base/alloc.h"
#include "base/system/call_site.h"
#include "observe/profile/analysis.h"
#include "observe/profile/source_line.h"

bool haul__find_places(haul_profile *p, haul__analysis *a)
{
    char text[400];
    a->places = haul__calloc(p->stacks.count + 1, sizeof *a->places);
    if (!a->places || p->stacks.count == 0)
        return a->places != NULL;
    haul__lines *lines = haul__lines_open();
    for (size_t i = 0; i < p->stacks.count; i++) {
        const haul__stack *s = &p->stacks.items[i];
        if (!haul__lines_caller(lines, s->frames, s->count, text, sizeof text))
            haul__describe_call_site(s->frames, s->count, haul__profile_text(p, s->operation), text, sizeof text);
        a->places[i + 1] = haul__texts_number(&p->texts, text);
    }
    haul__lines_close(lines);
    return true;
}

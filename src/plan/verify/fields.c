#include "plan/verify/fields.h"

#include <string.h>

bool haul__expect(haul__verdict *v, bool fine, const char *member, int64_t item, const char *why_not)
{
    if (!fine && !v->member)
        *v = (haul__verdict){.member = member, .item = item, .why_not = why_not};
    return !v->member;
}

const haul__json *haul__field(haul__verdict *v, const haul__json *object, const char *name, haul__json_kind kind)
{
    static const haul__json none = {.kind = HAUL__JSON_LITERAL};
    const haul__json       *found = NULL;
    int                     count = 0;
    for (const haul__json *m = object->kind == HAUL__JSON_OBJECT ? object->child : NULL; m; m = m->next)
        if (!strcmp(m->name, name) && ++count)
            found = m;
    const bool fine = count == 1 && found->kind == kind;
    return haul__expect(v, fine, name, -1, "it is missing, repeated, or of another type") ? found : &none;
}

bool haul__numbers(haul__verdict *v, const haul__json *array, const char *name, int64_t item, int64_t *out,
                   size_t count)
{
    const bool        fits = array->kind == HAUL__JSON_ARRAY && array->count == count;
    const haul__json *x = haul__expect(v, fits, name, item, "it has another length") ? array->child : NULL;
    for (; x; x = x->next) {
        const bool null = x->kind == HAUL__JSON_LITERAL;
        const bool fine = x->kind == HAUL__JSON_NUMBER && x->number <= HAUL__FIELD_MOST;
        haul__expect(v, null || fine, name, item, "not a whole number below 2^53");
        *out++ = fine ? (int64_t)x->number : -1;
    }
    return !v->member;
}

void haul__add(haul__verdict *v, int64_t *sum, int64_t value, const char *member)
{
    const int64_t next = *sum + value;
    const bool    fine = next <= 4 * HAUL__FIELD_MOST && next >= -4 * HAUL__FIELD_MOST;
    *sum = haul__expect(v, fine, member, -1, "a sum is too large") ? next : 0;
}

#include "cli/plan/check.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/shared/cli.h"
#include "cli/shared/json_file.h"

haul__json *check_certificate(const char *path, haul__verdict *out)
{
    haul__json *json = json_tree_read(path, "haul plan");
    if (!json || haul__verify(json, out))
        return json;
    if (out->item < 0)
        complain("%s is not proven: \"%s\": %s", path, out->member, out->why_not);
    else
        complain("%s is not proven: \"%s\", item %" PRId64 ": %s", path, out->member, out->item, out->why_not);
    haul__json_free(json);
    return NULL;
}

/* ---- against a step ---- */

static bool equal(const haul__json *a, const haul__json *b)
{
    if (a->kind != b->kind || a->count != b->count || a->number != b->number)
        return false;
    if (!a->string != !b->string || (a->string && strcmp(a->string, b->string) != 0))
        return false;
    if (!a->name != !b->name || (a->name && strcmp(a->name, b->name) != 0))
        return false;
    const haul__json *x = a->child, *y = b->child;
    for (; x && y; x = x->next, y = y->next)
        if (!equal(x, y))
            return false;
    return !x && !y;
}

static bool compare_graphs(const char *path, const haul__json *graph, const haul__json *expected)
{
    for (const haul__json *m = expected->child; m; m = m->next) {
        const haul__json *found = haul__json_member(graph, m->name);
        if (found && equal(found, m))
            continue;
        int64_t item = 0;
        for (const haul__json *x = found ? found->child : NULL, *y = m->child; x && y && equal(x, y); item++) {
            x = x->next;
            y = y->next;
        }
        complain("%s is about another step: \"graph\": \"%s\" differs from item %" PRId64 " on", path, m->name, item);
        return false;
    }
    return true;
}

static bool compare_digest(const char *path, const haul__json *certificate, const char *name, const char *text)
{
    const haul__json *found = haul__json_member(certificate, name);
    if (found && found->string && !strcmp(found->string, text))
        return true;
    complain("%s is about another %s: \"%s\" is %s there and %s here", path, name, name,
             found && found->string ? found->string : "missing", text);
    return false;
}

bool check_step(const char *path, const haul__json *certificate, const study *s)
{
    if (!compare_digest(path, certificate, "program", s->plan->digests[0]) ||
        !compare_digest(path, certificate, "machine", s->plan->digests[1]))
        return false;
    char       *text = haul__plan_text(s->plan, "haul plan");
    haul__json *mine = NULL;
    size_t      used;
    bool        same = false;
    if (!text || haul__json_read("haul plan", (const uint8_t *)text, strlen(text), JSON_TREE_DEPTH, &mine, &used))
        complain_error();
    else
        same = mine && compare_graphs(path, haul__json_member(certificate, "graph"), haul__json_member(mine, "graph"));
    haul__json_free(mine);
    haul__free(text);
    return same;
}

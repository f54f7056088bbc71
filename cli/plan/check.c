#include "cli/plan/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/shared/cli.h"
#include "cli/shared/text_file.h"
#include "plan/place/certificate.h"

enum { DEPTH = 8 };
static const uint64_t MOST_BYTES = UINT64_C(1) << 30;

static haul__json *read_json(const char *path)
{
    size_t      size, used;
    haul__json *json = NULL;
    char       *text = text_file_read(path, MOST_BYTES, &size);
    if (!text)
        return NULL;
    const haul_status status = haul__json_read("haul plan", (const uint8_t *)text, size, DEPTH, &json, &used);
    const bool        ends = !json || text[used + strspn(text + used, " \t\r\n")] == '\0';
    if (status)
        complain_error();
    else if (!json || !ends)
        complain("%s is not JSON: line %d", path, text_file_line(text, text + used));
    free(text);
    if (ends)
        return json;
    haul__json_free(json);
    return NULL;
}

haul__json *check_certificate(const char *path, haul__verdict *out)
{
    haul__json *json = read_json(path);
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

static bool compare_digest(const char *path, const haul__json *certificate, const char *name, uint64_t digest)
{
    char              text[17];
    const haul__json *found = haul__json_member(certificate, name);
    snprintf(text, sizeof text, "%016" PRIx64, digest);
    if (found && found->string && !strcmp(found->string, text))
        return true;
    complain("%s is about another %s: \"%s\" is %s there and %s here", path, name, name,
             found && found->string ? found->string : "missing", text);
    return false;
}

bool check_step(const char *path, const haul__json *certificate, const study *s)
{
    if (!compare_digest(path, certificate, "program", haul__place_digest(&s->program)) ||
        !compare_digest(path, certificate, "machine", haul__machine_digest(s->request->machine)))
        return false;
    const haul__certificate c = {&s->graph, &s->best, "", "", {s->devices[0], s->devices[1]}};
    char                   *text = haul__certificate_text(&c);
    haul__json             *mine = NULL;
    size_t                  used;
    bool                    same = false;
    if (!text || haul__json_read("haul plan", (const uint8_t *)text, strlen(text), DEPTH, &mine, &used))
        complain_error();
    else
        same = mine && compare_graphs(path, haul__json_member(certificate, "graph"), haul__json_member(mine, "graph"));
    haul__json_free(mine);
    haul__free(text);
    return same;
}

/* Rows and edges of a plan: its modules, how they are connected, and why they run where they do. */
#include <string.h>

#include "base/alloc.h"
#include "cli/plan/study.h"
#include "cli/shared/cli.h"

enum { MOST_ROWS = 24 };

static const char OUTSIDE[] = "outside modules";

/* The first `depth` parts of the module's path. */
static void row_name(const haul__place_operation *o, int depth, char *out, size_t size)
{
    size_t length = 0;
    for (; o->module[length] && (o->module[length] != '.' || --depth > 0); length++)
        continue;
    if (length)
        snprintf(out, size, "%.*s", (int)length, o->module);
    else
        snprintf(out, size, "%s", haul__place_is_data(o) ? "data" : OUTSIDE);
}

/* Parameters and states are in no row, since their updates are. */
static bool has_row(const haul__place_operation *o)
{
    return o->call >= 0 ? haul__place_takes_time(o) : haul__place_is_data(o);
}

/* Device -1: any. */
static size_t find_row(const study *s, const char *name, int device)
{
    for (size_t i = 0; i < s->row_count; i++)
        if ((device < 0 || s->rows[i].device == device) && !strcmp(s->rows[i].name, name))
            return i;
    return SIZE_MAX;
}

/* The longest row of the same module on another device; SIZE_MAX: there is none. */
static size_t other_row(const study *s, size_t row)
{
    size_t other = SIZE_MAX;
    for (size_t i = 0; i < s->row_count; i++)
        if (s->rows[i].device != s->rows[row].device && !strcmp(s->rows[i].name, s->rows[row].name) &&
            (other == SIZE_MAX || s->rows[i].ps > s->rows[other].ps))
            other = i;
    return other;
}

size_t study_row_of(const study *s, const haul__place_operation *o)
{
    char name[sizeof s->rows->name];
    row_name(o, s->row_depth, name, sizeof name);
    const size_t row = find_row(s, name, haul__plan_device_of(s->plan, o));
    return row == SIZE_MAX ? find_row(s, name, -1) : row;
}

static bool add_to_row(study *s, const haul__place_operation *o)
{
    char      name[sizeof s->rows->name];
    const int device = haul__plan_device_of(s->plan, o);
    row_name(o, s->row_depth, name, sizeof name);
    size_t row = find_row(s, name, device);
    if (row == SIZE_MAX) {
        if (!haul__grow(&s->rows, &s->row_room, s->row_count + 1, sizeof *s->rows))
            return false;
        row = s->row_count++;
        s->rows[row] = (plan_row){.device = device};
        memcpy(s->rows[row].name, name, sizeof name);
    }
    s->rows[row].ps += o->cost[device];
    return true;
}

/* A row that is a small part of its module joins the module's other row. */
static void join_small_rows(study *s)
{
    enum { SMALL = 20 };
    for (size_t i = 0; i < s->row_count;) {
        const int64_t ps = s->rows[i].ps;
        const size_t  other = other_row(s, i);
        if (other == SIZE_MAX || ps >= s->rows[other].ps / SMALL) {
            i++;
            continue;
        }
        s->rows[other].aside += ps;
        s->row_count--;
        memmove(&s->rows[i], &s->rows[i + 1], (s->row_count - i) * sizeof *s->rows);
    }
}

/* Rows with paths of that depth, in the order of their first operations. */
static bool list_rows(study *s, int depth)
{
    bool fine = true;
    s->row_count = 0;
    s->row_depth = depth;
    for (size_t i = 0; fine && i < s->plan->graph.operation_count; i++)
        if (has_row(&s->plan->graph.operations[i]))
            fine = add_to_row(s, &s->plan->graph.operations[i]);
    join_small_rows(s);
    return fine;
}

/* ---- reasons ---- */

static bool explain_row(study *s, size_t row, uint8_t *members)
{
    memset(members, 0, s->plan->graph.group_count);
    for (size_t i = 0; i < s->plan->graph.operation_count; i++)
        if (study_row_of(s, &s->plan->graph.operations[i]) == row &&
            haul__plan_device_of(s->plan, &s->plan->graph.operations[i]) == s->rows[row].device)
            members[s->plan->graph.operations[i].group] = 1;
    return !haul__place_explain(&s->plan->graph, s->plan->best->device, members, &s->rows[row].why);
}

static bool explain_rows(study *s)
{
    uint8_t *members = haul__malloc(s->plan->graph.group_count + 1);
    bool     fine = members != NULL;
    for (size_t i = 0; fine && i < s->row_count; i++)
        fine = explain_row(s, i, members);
    haul__free(members);
    return fine;
}

/* ---- labels ---- */

static unsigned section_of(const haul__place_operation *o)
{
    return !strcmp(o->section, "backward pass") ? 2 : !strcmp(o->section, "optimizer step") ? 4 : 1;
}

static void label_rows(study *s)
{
    static const char *const parts[] = {
        "", " forward", " backward", " forward and backward", " update", " forward and update", " backward and update",
        ""};
    for (size_t i = 0; i < s->plan->graph.operation_count; i++) {
        const haul__place_operation *o = &s->plan->graph.operations[i];
        const size_t                 row = study_row_of(s, o);
        if (has_row(o) && row != SIZE_MAX && s->rows[row].device == haul__plan_device_of(s->plan, o))
            s->rows[row].sections |= section_of(o);
    }
    for (size_t i = 0; i < s->row_count; i++) {
        plan_row  *r = &s->rows[i];
        const bool split = other_row(s, i) != SIZE_MAX;
        snprintf(r->label, sizeof r->label, "%s%s", r->name, split ? parts[r->sections] : "");
    }
}

/* ---- edges ---- */

static bool add_edge(study *s, size_t from, size_t to, int64_t bytes, int64_t copied)
{
    if (from == SIZE_MAX || to == SIZE_MAX || from == to)
        return true;
    size_t i = 0;
    while (i < s->edge_count && (s->edges[i].from != from || s->edges[i].to != to))
        i++;
    if (i == s->edge_count) {
        if (!haul__grow(&s->edges, &s->edge_room, i + 1, sizeof *s->edges))
            return false;
        s->edges[s->edge_count++] = (plan_edge){from, to, 0, 0};
    }
    s->edges[i].bytes += bytes;
    s->edges[i].copied += copied;
    return true;
}

/* Each row that uses the tensor once. */
static bool add_edges(study *s, int tensor)
{
    const haul__place_graph  *g = &s->plan->graph;
    const haul__place_tensor *t = &g->tensors[tensor];
    const size_t              from = study_row_of(s, &g->operations[t->producer]);
    bool                      fine = true;
    for (int k = t->use; fine && k < t->use + t->use_count; k++) {
        const size_t to = study_row_of(s, &g->operations[g->uses[k].operation]);
        bool         seen = false;
        for (int j = t->use; j < k; j++)
            seen = seen || study_row_of(s, &g->operations[g->uses[j].operation]) == to;
        if (!seen && to != SIZE_MAX && from != SIZE_MAX)
            fine = add_edge(s, from, to, t->bytes, s->rows[from].device == s->rows[to].device ? 0 : t->bytes);
    }
    return fine;
}

bool study_find_rows(study *s)
{
    bool fine = true;
    int  depth = 8;
    do
        fine = list_rows(s, depth);
    while (fine && s->row_count > MOST_ROWS && --depth > 0);
    fine = fine && explain_rows(s);
    label_rows(s);
    for (size_t t = 0; fine && t < s->plan->graph.tensor_count; t++)
        fine = add_edges(s, (int)t);
    if (!fine)
        complain("memory is exhausted");
    return fine;
}

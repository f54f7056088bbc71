/* The arena on the page: the memory of a followed step as a picture, time across, addresses up, coloured by module; and
 * what fills it where most is needed. It is recorded anew from the options of the run. */
#include <stdlib.h>
#include <string.h>

#include "cli/options/commands.h"
#include "cli/record/show.h"
#include "cli/report/away.h"
#include "cli/report/page.h"
#include "cli/report/text.h"
#include "cli/shared/axis.h"
#include "cli/shared/cli.h"
#include "cli/train/one_step.h"
#include "program/role.h"

/* GROUPS: colours, the last one for all other modules. A store below LEAST of the arena's bytes is not drawn. */
enum { GROUPS = 8, LISTED = 20, NAME = 80, MOST_GROUPS = 256 };
static const double LEAST = 1.0 / 1000;

typedef struct group {
    char   name[NAME];
    double area; /* bytes by operations */
} group;

typedef struct arena {
    page                      *page;
    const haul_program        *p;
    const haul_device         *device;
    haul_program_memory        memory;
    group                      groups[MOST_GROUPS]; /* the largest first */
    int                        group_count;
    int                        levels;  /* components of a module's path that a group has */
    int64_t                    peak_at; /* the operation at which most bytes are needed */
    double                     peak;
    const haul_program_store **at_peak; /* the largest first */
    int64_t                    peak_count;
    away                       spilled; /* of a run that spills */
    double                     limit;
} arena;

/* ---- stores ---- */

static bool is_in(const arena *a, const haul_program_store *s)
{
    return s->offset >= 0 && s->bytes > 0 && s->device == a->device;
}

static int64_t first_of(const haul_program_store *s)
{
    return s->first < 0 ? 0 : s->first;
}

static int64_t last_of(const arena *a, const haul_program_store *s)
{
    return s->outlives ? a->p->operation_count - 1 : s->last < first_of(s) ? first_of(s) : s->last;
}

static bool is_live(const arena *a, const haul_program_store *s, int64_t at)
{
    return is_in(a, s) && first_of(s) <= at && at <= last_of(a, s);
}

/* A result in the place of an operand has the operand's bytes at the operation that they share. */
static bool is_replaced(const arena *a, const haul_program_store *s, int64_t at)
{
    for (int64_t i = 0; i < a->p->store_count && last_of(a, s) == at; i++) {
        const haul_program_store *other = &a->p->stores[i];
        if (other != s && is_live(a, other, at) && other->offset == s->offset && first_of(other) == at)
            return true;
    }
    return false;
}

static bool counts(const arena *a, const haul_program_store *s, int64_t at)
{
    return is_live(a, s, at) && !is_replaced(a, s, at);
}

static double live_bytes(const arena *a, int64_t at)
{
    double bytes = 0;
    for (int64_t i = 0; i < a->p->store_count; i++)
        if (counts(a, &a->p->stores[i], at))
            bytes += (double)a->p->stores[i].bytes;
    return bytes;
}

static int by_bytes(const void *x, const void *y)
{
    const haul_program_store *a = *(const haul_program_store *const *)x, *b = *(const haul_program_store *const *)y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : (a > b) - (a < b);
}

/* False if memory is exhausted. */
static bool find_peak(arena *a)
{
    for (int64_t i = 0; i < a->p->operation_count; i++) {
        const double bytes = live_bytes(a, i);
        if (bytes > a->peak) {
            a->peak = bytes;
            a->peak_at = i;
        }
    }
    a->at_peak = calloc((size_t)a->p->store_count + 1, sizeof *a->at_peak);
    for (int64_t i = 0; a->at_peak && i < a->p->store_count; i++)
        if (counts(a, &a->p->stores[i], a->peak_at))
            a->at_peak[a->peak_count++] = &a->p->stores[i];
    if (a->at_peak)
        qsort(a->at_peak, (size_t)a->peak_count, sizeof(const haul_program_store *), by_bytes);
    return a->at_peak != NULL;
}

/* ---- modules ---- */

/* The first components of the path: "layer1" of "layer1.0.conv1". */
static void group_name(const arena *a, const haul_program_store *s, char out[NAME])
{
    int levels = 0;
    snprintf(out, NAME, "%s", *s->module ? s->module : "(no module)");
    for (char *c = strchr(out, '.'); c; c = strchr(c + 1, '.'))
        if (++levels == a->levels) {
            *c = 0;
            return;
        }
}

static int group_of(const arena *a, const haul_program_store *s)
{
    char name[NAME];
    group_name(a, s, name);
    for (int i = 0; i < a->group_count; i++)
        if (!strcmp(a->groups[i].name, name))
            return i < GROUPS - 1 ? i : GROUPS - 1;
    return GROUPS - 1;
}

static int by_area(const void *x, const void *y)
{
    const group *a = x, *b = y;
    return a->area != b->area ? (a->area < b->area) - (a->area > b->area) : strcmp(a->name, b->name);
}

static void add_to_group(arena *a, const haul_program_store *s)
{
    char name[NAME];
    int  i = 0;
    group_name(a, s, name);
    while (i < a->group_count && strcmp(a->groups[i].name, name) != 0)
        i++;
    if (i == MOST_GROUPS)
        return;
    if (i == a->group_count) {
        a->groups[a->group_count++] = (group){.area = 0};
        snprintf(a->groups[i].name, NAME, "%s", name);
    }
    a->groups[i].area += (double)s->bytes * (double)(last_of(a, s) - first_of(s) + 1);
}

static void group_by(arena *a, int levels)
{
    a->levels = levels;
    a->group_count = 0;
    for (int64_t i = 0; i < a->p->store_count; i++)
        if (is_in(a, &a->p->stores[i]))
            add_to_group(a, &a->p->stores[i]);
    qsort(a->groups, (size_t)a->group_count, sizeof *a->groups, by_area);
}

/* Where the first components of paths leave most in one group, the second ones make more groups. */
static void find_groups(arena *a)
{
    const double most = 0.6;
    double       all = 0;
    group_by(a, 1);
    for (int i = 0; i < a->group_count; i++)
        all += a->groups[i].area;
    if (a->group_count && a->groups[0].area > most * all)
        group_by(a, 2);
}

/* ---- the picture ---- */

/* An operation is as wide as any other. */
static double x_of(const arena *a, int64_t operation)
{
    return 1000 * (double)operation / (double)a->p->operation_count;
}

static double y_of(const arena *a, int64_t offset)
{
    return 1000 * (1 - (double)offset / (double)a->memory.arena_bytes);
}

static bool is_drawn(const arena *a, const haul_program_store *s)
{
    return is_in(a, s) && (double)s->bytes >= LEAST * (double)a->memory.arena_bytes;
}

static void draw_store(html *h, const arena *a, const haul_program_store *s)
{
    const int64_t first = first_of(s), last = last_of(a, s);
    html_add(
        h,
        "<path class=\"g%d\" d=\"M%.2f %.2fH%.2fV%.2fH%.2fz\"><title>%s%s%s, %s of %s, operations %lld to %lld</title>"
        "</path>",
        group_of(a, s), x_of(a, first), y_of(a, s->offset), x_of(a, last + 1), y_of(a, s->offset + s->bytes),
        x_of(a, first), s->origin, *s->module ? " in " : "", s->module, say_bytes((double)s->bytes), s->role,
        (long long)first, (long long)last);
}

/* A veil over a store while it is in host memory. */
static void draw_away(html *h, const arena *a, const away_time *t)
{
    const haul_program_store *s = &a->p->stores[t->store];
    if (!is_drawn(a, s) || t->to < t->from)
        return;
    html_add(h,
             "<path class=\"away\" d=\"M%.2f %.2fH%.2fV%.2fH%.2fz\"><title>%s%s%s, in host memory, operations %lld to "
             "%lld</title></path>",
             x_of(a, t->from), y_of(a, s->offset), x_of(a, t->to + 1), y_of(a, s->offset + s->bytes), x_of(a, t->from),
             s->origin, *s->module ? " in " : "", s->module, (long long)t->from, (long long)t->to);
}

/* The name of the module, where there is room for it. */
static void label_store(html *h, const arena *a, const haul_program_store *s)
{
    const double left = x_of(a, first_of(s)), right = x_of(a, last_of(a, s) + 1);
    const double top = y_of(a, s->offset + s->bytes), bottom = y_of(a, s->offset);
    if (right - left < 130 || bottom - top < 38)
        return;
    html_add(h, "<span class=\"in\" style=\"left:%.2f%%;width:%.2f%%;top:%.2f%%\"><b>%s</b></span>", left / 10,
             (right - left) / 10, (top + bottom) / 20, *s->module ? s->module : s->origin);
}

/* Where the sections of the step begin. */
static void write_sections(html *h, const arena *a)
{
    const char *before = NULL;
    for (int64_t i = 0; i < a->p->operation_count; i++) {
        const char *section = a->p->operations[i].section;
        const bool  is_new = !before || (!strcmp(section, "backward pass") && !*before);
        if (is_new)
            html_add(h, "<span class=\"x%s\" style=\"left:%.2f%%\">%s</span>", *section ? "" : " words",
                     x_of(a, i) / 10, *section ? section : "forward");
        before = is_new || *section ? section : before;
    }
}

static void write_picture(html *h, const arena *a)
{
    const double bytes = (double)a->memory.arena_bytes, step = axis_step_of_bytes(bytes / 4);
    const int    levels = axis_ticks(bytes, step);
    html_add(
        h,
        "<figure><figcaption><b>The arena on %s</b> <small>operations across, addresses up</small></figcaption><div "
        "class=\"chart arena\" role=\"img\" aria-label=\"The memory of a followed step: %s in %s stores over %s "
        "operations. The table has those at the peak.\"><div class=\"plot\"><svg viewBox=\"0 0 1000 1000\" "
        "preserveAspectRatio=\"none\">",
        haul_device_name(a->device), say_bytes(bytes), say_count((double)a->p->store_count),
        say_count((double)a->p->operation_count));
    for (int64_t i = 0; i < a->p->store_count; i++)
        if (is_drawn(a, &a->p->stores[i]))
            draw_store(h, a, &a->p->stores[i]);
    for (int64_t i = 0; i < a->spilled.count; i++)
        draw_away(h, a, &a->spilled.times[i]);
    html_add(h, "<path class=\"at-peak\" d=\"M%.2f 0V1000\"/></svg>",
             x_of(a, a->peak_at) + 500.0 / (double)a->p->operation_count);
    for (int64_t i = 0; i < a->p->store_count; i++)
        if (is_drawn(a, &a->p->stores[i]))
            label_store(h, a, &a->p->stores[i]);
    for (int i = 0; i < levels; i++)
        html_add(h, "<span class=\"y\" style=\"top:%.2f%%\">%s</span>", 100 * (1 - i * step / bytes),
                 i ? say_bytes(i * step) : "0");
    write_sections(h, a);
    html_add(h, "<span class=\"peak%s\" style=\"left:%.2f%%;top:0\">peak</span></div></div>",
             2 * a->peak_at > a->p->operation_count ? " left" : "", x_of(a, a->peak_at) / 10);
    html_put(h, "<ul class=\"keys\">");
    for (int i = 0; i < a->group_count && i < GROUPS; i++)
        html_add(h, "<li><i class=\"g%d\"></i>%s</li>", i,
                 i == GROUPS - 1 && a->group_count > GROUPS ? "other modules" : a->groups[i].name);
    if (a->spilled.count)
        html_put(h, "<li><i class=\"away-key\"></i>in host memory</li>");
    html_put(h, "</ul></figure>\n");
}

/* ---- the table ---- */

static void write_row(html *h, const arena *a, const haul_program_store *s)
{
    html_add(h, "<tr><th scope=\"row\"><i class=\"swatch g%d\"></i>", group_of(a, s));
    html_name(h, *s->module ? s->module : "-");
    html_put(h, "</th><td>");
    html_name(h, s->origin);
    html_add(h, "</td><td class=\"words\">%s</td><td class=\"words\">%lld to %lld</td>", s->role,
             (long long)first_of(s), (long long)last_of(a, s));
    page_bar(h, (double)s->bytes / a->peak, "a");
    page_number(h, say_bytes((double)s->bytes));
    page_number(h, say_share((double)s->bytes / a->peak));
    html_put(h, "</tr>\n");
}

static void write_table(html *h, const arena *a)
{
    double listed = 0;
    page_table(h, "What fills the arena at its peak", "Module|Made by|~Used for|~Operations|=Bytes|#|#Share");
    for (int64_t i = 0; i < a->peak_count && i < LISTED; i++) {
        listed += (double)a->at_peak[i]->bytes;
        write_row(h, a, a->at_peak[i]);
    }
    if (a->peak_count > LISTED) {
        html_add(h,
                 "<tr><th scope=\"row\">%s</th><td>-</td><td class=\"words\">-</td><td "
                 "class=\"words\">-</td>",
                 page_plural((double)(a->peak_count - LISTED), "other store"));
        page_bar(h, (a->peak - listed) / a->peak, "g");
        page_number(h, say_bytes(a->peak - listed));
        page_number(h, say_share((a->peak - listed) / a->peak));
        html_put(h, "</tr>\n");
    }
    html_put(h, "</tbody><tfoot><tr><th scope=\"row\">the peak</th><td></td><td class=\"words\"></td><td "
                "class=\"words\"></td><td class=\"barred\"></td>");
    page_number(h, say_bytes(a->peak));
    page_number(h, say_share(1));
    html_put(h, "</tr></tfoot><tbody>");
    page_table_end(h);
}

/* ---- the section ---- */

/* ", of which 10.0 MiB are activations, 2.0 MiB gradients": what the stores at the peak are used for. */
static void write_roles(html *h, const arena *a)
{
    const char *roles[HAUL__ROLES];
    double      bytes[HAUL__ROLES] = {0};
    for (int r = 0; r < HAUL__ROLES; r++)
        roles[r] = haul__role_name((haul__role)r);
    for (int64_t i = 0; i < a->peak_count; i++)
        for (int r = 0; r < HAUL__ROLES; r++)
            bytes[r] += strcmp(roles[r], a->at_peak[i]->role) ? 0 : (double)a->at_peak[i]->bytes;
    for (int shown = 0; shown < HAUL__ROLES; shown++) {
        int most = 0;
        for (int r = 1; r < HAUL__ROLES; r++)
            most = bytes[r] > bytes[most] ? r : most;
        if (!(bytes[most] > 0))
            return;
        html_add(h, shown ? ", %s %s" : ", of which %s are %s", say_bytes(bytes[most]), roles[most]);
        bytes[most] = 0;
    }
}

static void write_lead(html *h, const arena *a)
{
    const haul_program_operation *o = &a->p->operations[a->peak_at];
    html_add(h, "<p>A followed step has its memory in one arena of %s. As it runs, it needs %s at its peak.</p>",
             say_bytes((double)a->memory.arena_bytes), say_bytes((double)a->memory.eager_peak_bytes));
    html_add(h, "<p>Most is needed in operation %lld, ", (long long)a->peak_at);
    html_name(h, o->name);
    html_put(h, *o->module ? " in " : "");
    html_name(h, o->module);
    html_add(h, ": %s", say_bytes(a->peak));
    write_roles(h, a);
    html_add(h,
             ".</p><p class=\"note\">Without parameters and the optimizer's state. Stores below %s are not drawn."
             "</p>",
             say_bytes(LEAST * (double)a->memory.arena_bytes));
}

/* A run that spilled has a limit. False if memory is exhausted. */
static bool find_spilled(arena *a)
{
    const cJSON *done = a->page->runs[0].done;
    a->limit = number_of(done, "limit_bytes");
    if (!(number_of(done, "spilled_bytes") > 0) || !(a->limit > 0))
        return true;
    return away_find(a->p, a->device, a->limit, &a->spilled);
}

static void write_spilled(html *h, const arena *a)
{
    const double run = number_of(a->page->runs[0].done, "spilled_bytes");
    if (!a->spilled.count)
        return;
    html_add(
        h,
        "<p>The run moved %s to host memory, within its limit of %s. A step that moves what it uses latest first moves "
        "%s there and %s back: what is pale in the picture is in host memory at that time.</p><p "
        "class=\"note\">On a device that spills, stores have blocks of their own; the addresses are those of the same "
        "step without a limit.</p>",
        say_bytes(run), say_bytes(a->limit), say_bytes(a->spilled.left), say_bytes(a->spilled.returned));
}

static bool write_arena(arena *a)
{
    if (!a->memory.arena_bytes || !a->p->operation_count) {
        page_lacks(a->page, "The arena", "a step allocates nothing on the run's device");
        return true;
    }
    find_groups(a);
    if (!find_peak(a) || !find_spilled(a)) {
        free(a->at_peak);
        return false;
    }
    html *h = page_begin(a->page, "arena", "Arena");
    write_lead(h, a);
    write_spilled(h, a);
    page_body(a->page);
    write_picture(h, a);
    write_table(h, a);
    page_end(a->page);
    free(a->at_peak);
    away_free(&a->spilled);
    return true;
}

static int record(const one_training *t, void *context)
{
    page        *p = context;
    haul_program program;
    if (planner_record(t->planner, t->options->batch, true, &program))
        return complain_error();
    arena     *a = calloc(1, sizeof *a);
    const bool fine =
        a &&
        (*a = (arena){.page = p, .p = &program, .device = t->device, .memory = program_memory(&program, t->device)},
         write_arena(a));
    free(a);
    haul_program_free(&program);
    return fine ? EXIT_OK : complain("memory is exhausted");
}

void page_arena(page *p)
{
    if (p->runs[0].program)
        return;
    const double batch = number_of(p->runs[0].start, "batch");
    const bool   has_batch = batch >= 1 && batch <= MOST_BATCH;
    char         why[900] = "memory is exhausted";
    one_step     step = {.run = p->runs[0].path, .batch = has_batch ? (int64_t)batch : 0, .batch_given = has_batch};
    complain_into(why, sizeof why);
    const int code = one_step_open(&step, "report", record, p);
    complain_into(NULL, 0);
    haul_error_clear();
    if (code != EXIT_OK)
        page_lacks(p, "The arena of a followed step", why);
    p->sections.failed = p->sections.failed || (code != EXIT_OK && strstr(why, "memory is exhausted"));
}

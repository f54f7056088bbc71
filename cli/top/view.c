#include "cli/top/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/top/text.h"

/* ---- the list: filtered and sorted ---- */

static const char *const sort_names[] = {"EX./S", "MEMORY", "WAITS", "LEFT", "NAME", "PID"};

static bool passes(const top_view *v, const top_process *p)
{
    char pid[24];
    snprintf(pid, sizeof pid, "%lld", (long long)p->page.pid);
    return !*v->filter || strcasestr(p->page.name, v->filter) || strcasestr(p->page.command, v->filter) ||
           strcasestr(p->device, v->filter) || strstr(pid, v->filter);
}

/* Larger comes first. */
static double key_of(const top_view *v, const top_process *p)
{
    switch (v->sort) {
    case TOP_BY_SPEED: return p->page.examples_per_second;
    case TOP_BY_MEMORY: return p->reserved;
    case TOP_BY_WAITS: return p->page.waiting;
    case TOP_BY_LEFT: return p->page.seconds_left < 0 ? -1e18 : -p->page.seconds_left;
    case TOP_BY_NAME:
    case TOP_BY_PID:
    case TOP_SORTS: break;
    }
    return 0;
}

static bool comes_before(const top_view *v, const top_process *a, const top_process *b)
{
    const double x = key_of(v, a), y = key_of(v, b);
    if (isnan(a->ended) != isnan(b->ended))
        return isnan(a->ended);
    if (x > y || (!isnan(x) && isnan(y)))
        return true;
    if (x < y || (isnan(x) && !isnan(y)))
        return false;
    const int names = v->sort == TOP_BY_NAME ? strcmp(a->page.name, b->page.name) : 0;
    return names ? names < 0 : a->page.pid < b->page.pid;
}

int top_view_list(const top_view *v, const top_model *m, int places[TOP_PROCESSES])
{
    int count = 0;
    for (int i = 0; i < m->process_count; i++) {
        if (!passes(v, &m->processes[i]))
            continue;
        int at = count++;
        for (; at > 0 && comes_before(v, &m->processes[i], &m->processes[places[at - 1]]); at--)
            places[at] = places[at - 1];
        places[at] = i;
    }
    return count;
}

/* The place in the list of the selected process, which is the first one if it has gone. */
static int selected_of(top_view *v, const top_model *m, const int *places, int count)
{
    for (int i = 0; i < count; i++)
        if (m->processes[places[i]].page.pid == v->selected)
            return i;
    v->selected = 0;
    return 0;
}

void top_view_move(top_view *v, const top_model *m, int by)
{
    int       places[TOP_PROCESSES];
    const int count = top_view_list(v, m, places);
    int       at = selected_of(v, m, places, count) + by;
    at = at >= count ? count - 1 : at;
    if (count)
        v->selected = m->processes[places[at < 0 ? 0 : at]].page.pid;
}

/* ---- the head ---- */

static const char *clock_text(char out[16])
{
    const time_t now = time(NULL);
    struct tm    local;
    if (!localtime_r(&now, &local) || !strftime(out, 16, "%H:%M:%S", &local))
        snprintf(out, 16, "-");
    return out;
}

static int living(const top_model *m)
{
    int count = 0;
    for (int i = 0; i < m->process_count; i++)
        count += isnan(m->processes[i].ended);
    return count;
}

static void put_head(const top_view *v, const top_model *m, top_canvas *c)
{
    char left[200], right[96], time_text[16], counts[80] = "";
    if (c->width >= 80)
        snprintf(counts, sizeof counts, "  %d device%s, %d Haul process%s", m->device_count,
                 m->device_count == 1 ? "" : "s", living(m) + m->processes_left_out,
                 living(m) + m->processes_left_out == 1 ? "" : "es");
    snprintf(left, sizeof left, "haul top  %s%s", m->host, counts);
    clock_text(time_text);
    const char *paused = v->paused ? "paused  " : "", *sort = sort_names[v->sort];
    snprintf(right, sizeof right, "%severy %g s, sorted by %s  %s", paused, v->interval, sort, time_text);
    if (!v->height || c->width < 60)
        snprintf(right, sizeof right, "%s%s", paused, time_text);
    else if (canvas_columns(c, left) + canvas_columns(c, right) >= c->width)
        snprintf(right, sizeof right, "%s%g s  by %s  %s", paused, v->interval, sort, time_text);
    const int room = c->width - canvas_columns(c, right) - 1;
    canvas_line(c);
    canvas_left(c, TOP_BOLD, room, left);
    canvas_put(c, TOP_PLAIN, " ");
    canvas_put(c, v->paused ? TOP_BOLD : TOP_PLAIN, right);
}

/* ---- below the lists ---- */

static void put_text(top_canvas *c, top_style style, const char *text)
{
    canvas_line(c);
    canvas_put(c, style, text);
}

/* Who waits most. */
static void put_waste(const top_model *m, top_canvas *c)
{
    const top_process *most = NULL;
    char               text[256];
    for (int i = 0; i < m->process_count; i++) {
        const top_process *p = &m->processes[i];
        if (isnan(p->ended) && p->page.state == HAUL_PUBLISHED_RUNNING && top_waits(&p->page) &&
            (!most || p->page.waiting > most->page.waiting))
            most = p;
    }
    if (most) {
        snprintf(text, sizeof text, "%lld %s waits %.0f %% of its time, %s times a second", (long long)most->page.pid,
                 most->page.name, most->page.waiting * 100, top_number(most->page.waits_per_second));
        put_text(c, TOP_PLAIN, text);
    }
}

static void put_details(const top_process *p, top_canvas *c)
{
    const haul_published *g = &p->page;
    char                  text[256];
    snprintf(text, sizeof text, "%s on %s", *g->name ? g->name : g->command, p->device);
    put_text(c, TOP_BOLD, text);
    snprintf(text, sizeof text, "%s ex./s  %s copies/s  %s waits/s",
             top_number(g->examples_per_second < 0 ? NAN : floor(g->examples_per_second + 0.5)),
             top_number(g->copies_per_second < 0 ? NAN : g->copies_per_second),
             top_number(g->waits_per_second < 0 ? NAN : g->waits_per_second));
    put_text(c, TOP_PLAIN, text);
    snprintf(text, sizeof text, "%s alloc.  %s reserved  %s spilled", top_bytes(p->allocated), top_bytes(p->reserved),
             top_bytes(p->spilled));
    put_text(c, TOP_PLAIN, text);
    if (g->ranks > 1) {
        const char *sent = top_bytes(g->sent_per_second < 0 ? NAN : g->sent_per_second);
        if (g->rank < 0)
            snprintf(text, sizeof text, "all %lld ranks  %s/s sent", (long long)g->ranks, sent);
        else
            snprintf(text, sizeof text, "rank %lld of %lld  %s/s sent", (long long)g->rank, (long long)g->ranks, sent);
        put_text(c, TOP_PLAIN, text);
    }
    if (p->spilled_to_file > 0) {
        snprintf(text, sizeof text, "%s of these in a file", top_bytes(p->spilled_to_file));
        put_text(c, TOP_PLAIN, text);
    }
}

static void put_legend(top_canvas *c)
{
    const bool wide = c->width >= 80;
    put_text(c, TOP_DIM,
             c->utf8 ? wide ? "memory: █ allocated ▒ reserved ░ others · free     UP, DOWN: link in GB/s"
                            : "█ alloc. ▒ reserved ░ others · free"
             : wide  ? "memory: # allocated = reserved - others . free     UP, DOWN: link in GB/s"
                     : "# alloc. = reserved - others . free");
}

static void put_keys(const top_view *v, top_canvas *c)
{
    char text[TOP_FILTER + 40];
    if (v->typing) {
        snprintf(text, sizeof text, "filter: %s_  (enter, esc)", v->filter);
        put_text(c, TOP_BOLD, text);
        return;
    }
    put_text(c, TOP_PLAIN,
             c->width >= 110  ? "q quit   arrows select   s sort   / filter   p pause   h history   "
                                "c cores   t others   + - interval   ? help"
             : c->width >= 72 ? "q quit  arrows select  s sort  / filter  p pause  h history  c cores  ? help"
                              : "q quit  s sort  / filter  h hist  ? help");
}

static bool is_haul(const top_model *m, int64_t pid)
{
    for (int i = 0; i < m->process_count; i++)
        if (m->processes[i].page.pid == pid)
            return true;
    return false;
}

/* Processes that drivers list and that are not in the table; printed, or only counted. */
static int put_others(const top_model *m, top_canvas *c, bool print)
{
    char text[160];
    int  count = 0;
    for (int i = 0; i < m->device_count; i++)
        for (int k = 0; k < m->devices[i].hardware.now.process_count; k++) {
            const haul_usage_process *u = &m->devices[i].hardware.now.processes[k];
            if (is_haul(m, u->pid))
                continue;
            count++;
            snprintf(text, sizeof text, "%8lld %s uses %s (%s)", (long long)u->pid, u->name, m->devices[i].hardware.id,
                     top_bytes(u->bytes));
            if (print)
                put_text(c, TOP_PLAIN, text);
        }
    return count;
}

static bool tells_processes(const top_model *m)
{
    for (int i = 0; i < m->device_count; i++)
        if (m->devices[i].hardware.now.processes_known)
            return true;
    return false;
}

static void put_nothing(const top_view *v, const top_model *m, top_canvas *c)
{
    char text[160];
    if (*v->filter && m->process_count) {
        snprintf(text, sizeof text, "No process matches \"%s\".", v->filter);
        put_text(c, TOP_PLAIN, text);
        return;
    }
    put_text(c, TOP_PLAIN, "No Haul process is running.");
    const int others = put_others(m, c, false);
    if (others && !v->others) {
        snprintf(text, sizeof text, "Others on GPUs: %d (key t).", others);
        put_text(c, TOP_PLAIN, text);
    }
    put_text(c, TOP_PLAIN, "Start one: haul train --data shapes");
    put_text(c, TOP_PLAIN, "Your own: haul_publish_begin");
}

void top_put_help(top_canvas *c)
{
    static const char *const lines[] = {"haul top: keys",
                                        "",
                                        "q, Ctrl-C  quit",
                                        "up, down   select a process (or k, j)",
                                        "s          sort by the next column",
                                        "/          only names with this text",
                                        "p, space   pause, go on",
                                        "h, enter   history of the process",
                                        "c          each core, with its number",
                                        "t          other processes on GPUs",
                                        "+ -        update less, more often",
                                        "?          this help; any key ends it",
                                        "",
                                        "\"-\": unknown.  \"!\": needs attention:",
                                        "memory over 95 %, temperature at its",
                                        "limit, or over 5 % spent waiting.",
                                        "Sizes are powers of 1024."};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        put_text(c, i ? TOP_PLAIN : TOP_BOLD, lines[i]);
}

/* ---- what fits ---- */

/* How many lines each part gets, and whether parts that may be missing are there. */
typedef struct layout {
    int  devices, processes, details, cores, graphs;
    bool gaps, legend, waste, titles;
} layout;

static bool take(int *room, int lines)
{
    if (*room < lines)
        return false;
    *room -= lines;
    return true;
}

static int take_up_to(int *room, int lines)
{
    const int taken = lines < *room ? lines : *room;
    *room -= taken;
    return taken;
}

/* What leaves first as the terminal gets lower: graphs, the line of cores, empty lines, the legend, details, titles;
 * then the lists are cut. */
static layout lay_out(const top_view *v, const top_model *m, int width, int count)
{
    enum { HEAD = 1, KEYS = 1, LEAST_PROCESSES = 3, DETAILS = 3, GAPS = 3, LEAST_GRAPHS = 6 };
    const int wanted = count ? count : 4;
    int       room = v->height - HEAD - KEYS;
    layout    l = {.devices = m->device_count, .processes = wanted};
    if (!v->height)
        return (layout){.devices = m->device_count,
                        .processes = wanted,
                        .gaps = true,
                        .legend = true,
                        .waste = true,
                        .titles = true};
    if (l.devices > room - LEAST_PROCESSES)
        l.devices = room - LEAST_PROCESSES < 1 ? 1 : room - LEAST_PROCESSES;
    room -= l.devices;
    const int few = wanted < LEAST_PROCESSES ? wanted : LEAST_PROCESSES;
    room -= few;
    l.titles = take(&room, 2);
    l.details = count && width < 80 && take(&room, DETAILS) ? DETAILS : 0;
    l.waste = width >= 80 && take(&room, 1);
    l.processes = few;
    while (l.processes < wanted && take(&room, 1))
        l.processes++;
    if (v->cores)
        l.cores = take_up_to(&room, top_core_lines(m, width, true));
    l.legend = take(&room, 1);
    l.gaps = take(&room, GAPS);
    if (!v->cores && take(&room, top_core_lines(m, width, false)))
        l.cores = top_core_lines(m, width, false);
    l.graphs = count && room >= LEAST_GRAPHS ? room - 1 : 0;
    return l;
}

static void put_devices(const top_model *m, top_canvas *c, const layout *l)
{
    char text[64];
    int  shown = l->devices < m->device_count ? l->devices - 1 : m->device_count;
    if (l->titles)
        top_put_device_titles(c, m);
    for (int i = 0; i < shown; i++)
        top_put_device(c, m, i);
    if (shown < m->device_count) {
        snprintf(text, sizeof text, "%d more device%s", m->device_count - shown,
                 m->device_count - shown == 1 ? "" : "s");
        put_text(c, TOP_DIM, text);
    }
}

static void put_processes(top_view *v, const top_model *m, top_canvas *c, const layout *l, const int *places, int count)
{
    const int selected = selected_of(v, m, places, count);
    if (l->titles)
        top_put_process_titles(c, m);
    if (v->first > selected)
        v->first = selected;
    if (v->first + l->processes <= selected)
        v->first = selected - l->processes + 1;
    if (v->first + l->processes > count)
        v->first = count > l->processes ? count - l->processes : 0;
    for (int i = v->first; i < count && i < v->first + l->processes; i++)
        top_put_process(c, m, places[i], v->height && i == selected);
    if (!count)
        put_nothing(v, m, c);
}

/* The last lines of the screen. */
static void put_foot(const top_view *v, const top_model *m, top_canvas *c, const layout *l, const top_process *selected)
{
    if (l->gaps)
        canvas_line(c);
    if (l->waste)
        put_waste(m, c);
    if (l->details && selected)
        put_details(selected, c);
    if (l->legend)
        put_legend(c);
    if (!v->height)
        return;
    while (c->count + 1 < v->height && c->count + 1 < TOP_LINES)
        canvas_line(c);
    if (c->count >= v->height)
        c->count = v->height - 1; /* a long list of other processes */
    put_keys(v, c);
}

static void draw_all(top_view *v, const top_model *m, top_canvas *c)
{
    int          places[TOP_PROCESSES];
    const int    count = top_view_list(v, m, places);
    const layout l = lay_out(v, m, c->width, count);
    put_head(v, m, c);
    if (l.gaps)
        canvas_line(c);
    put_devices(m, c, &l);
    top_put_cores(c, m, v->cores, l.cores);
    if (l.gaps)
        canvas_line(c);
    put_processes(v, m, c, &l, places, count);
    if (v->others && !put_others(m, c, true) && v->height)
        put_text(c, TOP_PLAIN, tells_processes(m) ? "No other process uses a GPU." : "No GPU reports its processes.");
    if (l.graphs && !v->others)
        top_put_graphs(c, m, places[selected_of(v, m, places, count)], l.graphs);
    put_foot(v, m, c, &l, count ? &m->processes[places[selected_of(v, m, places, count)]] : NULL);
}

void top_view_draw(top_view *v, const top_model *m, top_canvas *c)
{
    int       places[TOP_PROCESSES];
    const int count = v->history ? top_view_list(v, m, places) : 0;
    c->count = 0;
    if (v->height && (c->width < TOP_LEAST_WIDTH || v->height < TOP_LEAST_HEIGHT))
        put_text(c, TOP_PLAIN, "haul top needs 36 x 8");
    else if (v->help)
        top_put_help(c);
    else if (count)
        top_put_history(c, m, places[selected_of(v, m, places, count)], v->height);
    else
        draw_all(v, m, c);
}

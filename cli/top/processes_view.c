/* The table of Haul processes. What leaves first as the terminal narrows: reserved, accuracy, the device, spilled
 * bytes, the loss, memory, copies and waits, examples; graphs have the loss of the selected process, and lines below
 * the list have them for the selected process. */
#include <stdio.h>
#include <string.h>

#include "cli/top/text.h"
#include "cli/top/view.h"

static const top_process *process_at(const top_model *m, int place)
{
    return &m->processes[place];
}

static const haul_published *page_at(const top_model *m, int place)
{
    return &m->processes[place].page;
}

static double known(double value)
{
    return value < 0 ? NAN : value;
}

static void put_pid(top_canvas *c, const top_model *m, int place, int width)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)page_at(m, place)->pid);
    canvas_right(c, TOP_PLAIN, width, text);
}

/* Without a page that can be read, the system's name. */
static void put_name(top_canvas *c, const top_model *m, int place, int width)
{
    const haul_published *p = page_at(m, place);
    canvas_put(c, TOP_PLAIN, " ");
    canvas_left(c, TOP_BOLD, width - 1, *p->name ? p->name : p->command);
}

static void put_device(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_put(c, TOP_PLAIN, " ");
    canvas_left(c, TOP_PLAIN, width - 1, process_at(m, place)->device);
}

/* Ranks count from 0. A process whose threads are the ranks has all of them. */
static void put_rank(top_canvas *c, const top_model *m, int place, int width)
{
    const haul_published *p = page_at(m, place);
    char                  text[48] = "-";
    if (p->ranks > 1 && p->rank < 0)
        snprintf(text, sizeof text, "all %lld", (long long)p->ranks);
    else if (p->ranks > 1)
        snprintf(text, sizeof text, "%lld/%lld", (long long)p->rank, (long long)p->ranks);
    canvas_right(c, TOP_PLAIN, width - 1, text);
    canvas_put(c, TOP_PLAIN, " ");
}

static void put_sent(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_right(c, TOP_PLAIN, width, top_bytes(known(page_at(m, place)->sent_per_second)));
}

static void put_epoch(top_canvas *c, const top_model *m, int place, int width)
{
    const haul_published *p = page_at(m, place);
    char                  text[48];
    if (p->epoch < 0)
        snprintf(text, sizeof text, "-");
    else if (p->epochs < 0)
        snprintf(text, sizeof text, "%lld", (long long)p->epoch);
    else
        snprintf(text, sizeof text, "%lld/%lld", (long long)p->epoch, (long long)p->epochs);
    canvas_right(c, TOP_PLAIN, width, text);
}

static void put_loss(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_right(c, TOP_PLAIN, width, top_loss(known(page_at(m, place)->loss)));
}

static void put_accuracy(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_right(c, TOP_PLAIN, width, top_percent(known(page_at(m, place)->accuracy)));
}

static void put_step(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_right(c, TOP_PLAIN, width, top_number(known(page_at(m, place)->step_seconds) * 1e3));
}

static void put_examples(top_canvas *c, const top_model *m, int place, int width)
{
    const double rate = known(page_at(m, place)->examples_per_second);
    canvas_right(c, TOP_PLAIN, width, top_number(rate >= 10 ? floor(rate + 0.5) : rate));
}

static void put_allocated(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_right(c, TOP_PLAIN, width, top_bytes(process_at(m, place)->allocated));
}

static void put_reserved(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_right(c, TOP_PLAIN, width, top_bytes(process_at(m, place)->reserved));
}

static void put_spilled(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_right(c, TOP_PLAIN, width, top_bytes(process_at(m, place)->spilled));
}

static void put_copies(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_right(c, TOP_PLAIN, width, top_number(known(page_at(m, place)->copies_per_second)));
}

static void put_waits(top_canvas *c, const top_model *m, int place, int width)
{
    const haul_published *p = page_at(m, place);
    char                  text[48];
    snprintf(text, sizeof text, "%s%s", top_number(known(p->waits_per_second)), top_waits(p) ? "!" : "");
    canvas_right(c, top_waits(p) ? TOP_ALERT : TOP_PLAIN, width, text);
}

static void put_left(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_right(c, TOP_PLAIN, width, top_duration(page_at(m, place)->seconds_left));
}

static void put_mark(top_canvas *c, const top_model *m, int place, int width)
{
    canvas_right(c, TOP_ALERT, width, top_waits(page_at(m, place)) ? "!" : "");
}

static const top_column columns[] = {
    {.title = "PID", .width = 7, .from = 60, .put = put_pid},
    {.title = " RUN", .left = true, .put = put_name},
    {.title = " DEVICE", .width = 10, .from = 100, .left = true, .put = put_device},
    {.title = "RANK ", .width = 7, .from = 60, .ranks = true, .put = put_rank},
    {.title = "EPOCH", .width = 7, .put = put_epoch},
    {.title = "LOSS", .width = 8, .from = 80, .put = put_loss},
    {.title = "ACC.", .width = 7, .from = 106, .put = put_accuracy},
    {.title = "STEP ms", .width = 8, .put = put_step},
    {.title = "EX./S", .width = 8, .from = 60, .put = put_examples},
    {.title = "ALLOC", .width = 6, .from = 80, .until = 120, .put = put_allocated},
    {.title = "SPILL", .width = 6, .from = 92, .until = 120, .put = put_spilled},
    {.title = "COPY/S", .width = 7, .from = 80, .until = 120, .put = put_copies},
    {.title = "WAIT/S", .width = 7, .from = 80, .until = 120, .put = put_waits},
    {.title = "ALLOCATED", .width = 10, .from = 120, .put = put_allocated},
    {.title = "RESERVED", .width = 9, .from = 120, .put = put_reserved},
    {.title = "SPILLED", .width = 8, .from = 120, .put = put_spilled},
    {.title = "COPIES/S", .width = 9, .from = 120, .put = put_copies},
    {.title = "WAITS/S", .width = 8, .from = 120, .put = put_waits},
    {.title = "SENT/S", .width = 8, .from = 130, .ranks = true, .put = put_sent},
    {.title = "LEFT", .width = 7, .put = put_left},
    {.title = "", .width = 2, .until = 80, .put = put_mark},
};

enum { COLUMNS = sizeof columns / sizeof *columns, MARGIN = 1 }; /* the mark of the selected process */

void top_put_process_titles(top_canvas *c, const top_model *m)
{
    top_put_titles(c, MARGIN, columns, COLUMNS, m);
}

/* A process publishes after each step, so long steps are harmless. */
static double quiet_seconds(const haul_published *p)
{
    return p->step_seconds > 2 ? 5 * p->step_seconds : 10;
}

/* The text in place of stale numbers; false if they are current. */
static bool state_text(const top_model *m, const top_process *p, bool narrow, char *out, size_t size)
{
    if (!isnan(p->ended))
        snprintf(out, size, "ended %s ago", top_duration(m->seconds - p->ended));
    else if (p->page.state == HAUL_PUBLISHED_UNREADABLE)
        snprintf(out, size, "page unreadable: %s", p->page.why);
    else if (p->page.state == HAUL_PUBLISHED_STOPPED)
        snprintf(out, size, narrow ? "stopped %s; %s" : "stopped %s ago; %s reserved on %s",
                 top_duration(m->seconds - p->stopped), top_bytes(p->reserved), p->device);
    else if (p->page.age > quiet_seconds(&p->page))
        snprintf(out, size, narrow ? "no news %s; %s" : "no news for %s; %s reserved on %s", top_duration(p->page.age),
                 top_bytes(p->reserved), p->device);
    else
        return false;
    return true;
}

static void put_state(top_canvas *c, const top_model *m, int place, const char *text)
{
    const haul_published *p = page_at(m, place);
    const char           *name = *p->name ? p->name : p->command;
    const int             most = c->width / 4 < 10 ? 10 : c->width / 4, there = canvas_columns(c, name);
    if (c->width >= columns[0].from)
        put_pid(c, m, place, columns[0].width);
    canvas_put(c, TOP_PLAIN, " ");
    canvas_left(c, TOP_BOLD, there < most ? there : most, name);
    canvas_put(c, TOP_PLAIN, "  ");
    canvas_left(c, TOP_PLAIN, c->width - c->lines[c->count - 1].columns, text);
}

void top_put_process(top_canvas *c, const top_model *m, int place, bool selected)
{
    char       text[256];
    const bool other = state_text(m, process_at(m, place), c->width < 60, text, sizeof text);
    canvas_line(c);
    canvas_put(c, TOP_PLAIN, selected ? ">" : " ");
    if (other)
        put_state(c, m, place, text);
    else
        top_put_row(c, MARGIN, columns, COLUMNS, m, place);
    if (selected)
        canvas_select(c);
}

/* ---- history ---- */

/* The highest value is at the first of the lines, 0 at the last one, and the newest value behind it. */
static void put_graph(top_canvas *c, top_style style, int rows, const char *title, const top_history *h,
                      const char *now, const char *high)
{
    enum { TITLE = 10, NUMBER = 10 };
    const int room = c->width - TITLE - NUMBER, columns_used = room < TOP_HISTORY ? room : TOP_HISTORY;
    char      range[64];
    canvas_line(c);
    for (int row = 0; row < rows; row++) {
        const char *label = row == 0 ? title : row == 1 ? high : row == rows - 1 ? "0" : "";
        canvas_line(c);
        canvas_left(c, row ? TOP_DIM : TOP_BOLD, TITLE, label);
        canvas_left(c, style, columns_used, top_graph_row(h, columns_used, top_history_high(h), row, rows, c->utf8));
        canvas_right(c, TOP_PLAIN, NUMBER, row == rows - 1 ? now : "");
    }
    if (rows > 1)
        return;
    canvas_line(c);
    canvas_tab(c, TITLE);
    snprintf(range, sizeof range, "0 ... %s", high);
    canvas_put(c, TOP_DIM, range);
}

/* How many lines each of the graphs has, below one that is empty. */
static int rows_of(int height, int graphs)
{
    enum { LEAST = 3, MOST = 12 };
    const int rows = (height - 1) / graphs - 1;
    return rows < LEAST ? 1 : rows < MOST ? rows : MOST;
}

/* A graph, with the texts of its newest and its highest value. */
typedef struct graph {
    const char *title;
    top_measure measure;
    const char *(*text)(double value);
} graph;

static const char *milliseconds(double seconds)
{
    return top_number(seconds * 1e3);
}

/* In the order in which they leave a low window, the last one first. Programs without a loss have no first two. */
static const graph graphs[] = {{"LOSS", TOP_LOSS, top_loss},        {"ACCURACY", TOP_ACCURACY, top_percent},
                               {"EX./S", TOP_EXAMPLES, top_number}, {"STEP ms", TOP_STEP, milliseconds},
                               {"ALLOC", TOP_ALLOCATED, top_bytes}, {"WAITS/S", TOP_WAITS, top_number}};
enum { GRAPHS = sizeof graphs / sizeof *graphs, OF_LEARNING = 2 };

static void put_graphs(top_canvas *c, const top_process *p, int count, int rows)
{
    const int first = p->page.loss >= 0 ? 0 : OF_LEARNING;
    for (int i = first; i < first + count && i < GRAPHS; i++) {
        const top_history *h = &p->history[graphs[i].measure];
        put_graph(c, i < OF_LEARNING ? TOP_MARK : TOP_LINE, rows, graphs[i].title, h,
                  graphs[i].text(top_history_last(h)), graphs[i].text(top_history_high(h)));
    }
}

static int graph_count(const top_process *p)
{
    return p->page.loss >= 0 ? GRAPHS : GRAPHS - OF_LEARNING;
}

void top_put_graphs(top_canvas *c, const top_model *m, int place, int lines)
{
    enum { USUAL = 5 }; /* lines of a graph, with one that is empty */
    const top_process *p = process_at(m, place);
    const int          most = graph_count(p), fit = lines / USUAL, count = fit < 1 ? 1 : fit < most ? fit : most;
    put_graphs(c, p, count, rows_of(lines + 1, count));
}

void top_put_history(top_canvas *c, const top_model *m, int place, int height)
{
    const top_process *p = process_at(m, place);
    char               text[192];
    canvas_line(c);
    snprintf(text, sizeof text, "%lld %s on %s", (long long)p->page.pid, *p->page.name ? p->page.name : p->page.command,
             p->device);
    canvas_left(c, TOP_BOLD, c->width - 9, text);
    canvas_put(c, TOP_PLAIN, " esc back");
    put_graphs(c, p, graph_count(p), rows_of(height, graph_count(p)));
}

/* The live screen. curses sends only the cells that changed, and only once a second or after a key. */
#include "haul_config.h"
#ifdef HAUL_HAVE_NCURSES

#include <curses.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/shared/cli.h"
#include "cli/top/screen.h"

enum { ESCAPE = 27, ENTER = 10, LEAST_MILLISECONDS = 10 };

enum { ALERT_PAIR = 1, LINE_PAIR, MARK_PAIR };

/* ---- drawing ---- */

/* Nothing where there are no colours: curses sends those of a pair even before it has begun them. */
static attr_t colour(bool colours, int pair)
{
    return colours ? (attr_t)COLOR_PAIR(pair) : A_NORMAL;
}

static attr_t attributes_of(top_style style, bool colours)
{
    switch (style) {
    case TOP_BOLD: return A_BOLD;
    case TOP_DIM: return A_DIM;
    case TOP_ALERT: return A_BOLD | colour(colours, ALERT_PAIR);
    case TOP_SELECTED: return A_BOLD;
    case TOP_LINE: return colour(colours, LINE_PAIR);
    case TOP_MARK: return colour(colours, MARK_PAIR);
    case TOP_PLAIN: break;
    }
    return A_NORMAL;
}

static void draw_line(int y, const top_line *line, bool colours)
{
    size_t at = 0;
    move(y, 0);
    for (int i = 0; i < line->span_count; i++) {
        const top_span *span = &line->spans[i];
        addnstr(line->text + at, (int)(span->from - at));
        attrset(attributes_of(span->style, colours));
        addnstr(line->text + span->from, (int)(span->to - span->from));
        attrset(A_NORMAL);
        at = span->to;
    }
    addnstr(line->text + at, (int)(line->used - at));
}

static void draw(top_model *m, top_view *v, top_canvas *c)
{
    v->height = LINES;
    c->width = COLS;
    top_view_draw(v, m, c);
    erase();
    for (int y = 0; y < c->count && y < LINES; y++)
        draw_line(y, &c->lines[y], v->colours);
    refresh();
}

/* ---- keys ---- */

static void type_filter(top_view *v, int key)
{
    const size_t length = strlen(v->filter);
    if (key == ENTER || key == KEY_ENTER || key == ESCAPE)
        v->typing = false;
    if (key == ESCAPE)
        v->filter[0] = 0;
    if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && length)
        v->filter[length - 1] = 0;
    if (key >= ' ' && key < 127 && length + 1 < sizeof v->filter) {
        v->filter[length] = (char)key;
        v->filter[length + 1] = 0;
    }
}

static void change_interval(top_view *v, double factor)
{
    const double interval = v->interval * factor;
    if (interval >= 0.5 && interval <= 32)
        v->interval = interval;
}

/* False to quit. */
static bool take_key(top_model *m, top_view *v, int key)
{
    if (v->help) {
        v->help = false;
        return true;
    }
    if (v->typing) {
        type_filter(v, key);
        return true;
    }
    switch (key) {
    case 'q': return false;
    case KEY_UP:
    case 'k': top_view_move(v, m, -1); break;
    case KEY_DOWN:
    case 'j': top_view_move(v, m, 1); break;
    case KEY_PPAGE: top_view_move(v, m, -10); break;
    case KEY_NPAGE: top_view_move(v, m, 10); break;
    case 's': v->sort = (v->sort + 1) % TOP_SORTS; break;
    case '/': v->typing = true; break;
    case 'p':
    case ' ': v->paused = !v->paused; break;
    case 'h':
    case ENTER:
    case KEY_ENTER: v->history = !v->history; break;
    case ESCAPE: v->history = v->others = false; break;
    case 'c': v->cores = !v->cores; break;
    case 't': v->others = !v->others; break;
    case '+': change_interval(v, 2); break;
    case '-': change_interval(v, 0.5); break;
    case '?': v->help = true; break;
    default: break;
    }
    return true;
}

/* ---- the screen ---- */

/* Colours as the terminal has them, on its own background, light or dark. */
static bool begin_colours(void)
{
    const char *none = getenv("NO_COLOR");
    if ((none && *none) || !has_colors() || start_color() == ERR || use_default_colors() == ERR)
        return false;
    init_pair(ALERT_PAIR, COLOR_RED, -1);
    init_pair(LINE_PAIR, COLOR_CYAN, -1);
    init_pair(MARK_PAIR, COLOR_MAGENTA, -1);
    return true;
}

/* Where it has gone, asking for keys would return at once. */
static bool has_terminal(void)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&p, 1, 0) >= 0 && !(p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* Until the next reading is due. False to quit. */
static bool take_keys(top_model *m, top_view *v, top_canvas *c, double until)
{
    for (;;) {
        const double left = (until - clock_seconds()) * 1e3;
        if (left < LEAST_MILLISECONDS || interrupted())
            return !interrupted();
        timeout((int)left);
        const int key = getch();
        if (key == ERR && !has_terminal())
            return false;
        if (key == ERR)
            continue;
        if (!take_key(m, v, key))
            return false;
        draw(m, v, c);
    }
}

/* Rates need two readings, so the second comes soon. */
#define FIRST_SECONDS 0.3

static bool run(top_model *m, top_view *v, top_canvas *c)
{
    do {
        if (!v->paused && !top_model_read(m))
            return false;
        draw(m, v, c);
    } while (take_keys(m, v, c, clock_seconds() + (m->readings == 1 ? FIRST_SECONDS : v->interval)));
    return true;
}

int top_screen(top_model *m, top_view *v)
{
    top_canvas *c = calloc(1, sizeof *c);
    SCREEN     *screen = c ? newterm(NULL, stdout, stdin) : NULL;
    if (!screen) {
        free(c);
        return complain(c ? "this terminal has no screen that can be drawn on; use haul top --once"
                          : "memory is exhausted");
    }
    c->utf8 = v->utf8;
    cbreak();
    noecho();
    keypad(stdscr, true);
    curs_set(0);
    set_escdelay(25);
    v->colours = begin_colours();
    const bool worked = run(m, v, c);
    endwin();
    delscreen(screen);
    free(c);
    return !worked ? complain_error() : interrupted() ? EXIT_INTERRUPTED : EXIT_OK;
}

#else

#include "cli/shared/cli.h"
#include "cli/top/screen.h"

int top_screen(top_model *m, top_view *v)
{
    (void)m, (void)v;
    return complain("this build of Haul has no screen, because ncurses was missing when it was built; use haul top "
                    "--once, or install libncurses-dev and build Haul again");
}

#endif
